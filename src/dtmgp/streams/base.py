"""What a row source is: named columns of numbers in row groups, each read block by block."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from dtmgp.errors import InputError

Array = np.ndarray
BLOCK = 1 << 14  # rows read at once


class Block(NamedTuple):
    """Rows that follow each other in a row group; ``row`` are their numbers there.

    ``where`` names a place for people, such as a file and a row group; it begins at row ``base`` of the row group.
    """

    x: Float[Array, "n d"]
    y: Float[Array, "n W"]
    row: Int[Array, " n"]
    where: str
    base: int = 0

    def place(self, k: int) -> str:
        """Where the k-th of these rows is.

        >>> Block(np.zeros((1, 1)), np.zeros((1, 1)), np.array([7]), "batch 3", 5).place(0)
        'row 2 of batch 3'
        """
        return f"row {int(self.row[k]) - self.base} of {self.where}"


@dataclasses.dataclass(frozen=True)
class Streaming:
    """How rows are read, in rows: the shuffle ``buffer``, the sample of the ``start``, and those held out at most.

    A fit of at most ``start`` rows is made in memory. ``lanes`` are parts of the row groups that are read side by
    side, with a share of the buffer each; processes share them where their number divides that of the lanes, and read
    everything where it does not. None: one for every 8 row groups, a power of 2, at most 8. A reading thread keeps
    ``ahead`` batches ready.

    >>> Streaming(buffer=1 << 20).lanes_of(row_groups=40)
    4
    """

    buffer: int = 1 << 19
    start: int = 20_000
    held_out: int = 20_000
    lanes: int | None = None
    ahead: int = 8

    def __post_init__(self) -> None:
        least = {"buffer": 2, "start": 2, "held_out": 0, "lanes": 1, "ahead": 1}
        for name, low in least.items():
            value = getattr(self, name)
            if value is None and name == "lanes":
                continue
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
                raise InputError(f"Streaming {name}", got=repr(value), expected=f"an int of at least {low}")

    def lanes_of(self, row_groups: int) -> int:
        """Lanes for so many row groups."""
        if self.lanes is not None:
            return min(self.lanes, row_groups)
        lanes = 1
        while lanes < 8 and row_groups >= 16 * lanes:
            lanes *= 2
        return lanes


class AbstractRows(abc.ABC):
    """Rows of inputs ``names`` and outputs ``targets`` in ``row_groups`` that can be read in any order.

    What is read twice must be the same twice. ``named`` says whether the names are the user's own, ``flat`` whether
    there is one output without a column of its own, as in y of shape (n,).
    """

    names: tuple[str, ...]
    targets: tuple[str, ...]
    named: bool
    flat: bool
    streaming: Streaming

    @property
    @abc.abstractmethod
    def row_groups(self) -> int:
        """Parts that can be read in any order; 1 if there is only one order."""

    @abc.abstractmethod
    def blocks(self, row_group: int) -> Iterator[Block]:
        """The rows of a row group in order, whole numbers and missing values as floats."""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(self.names)} -> {', '.join(self.targets)}; "
            f"{self.row_groups} row groups)"
        )


def is_rows(X: object) -> bool:
    """Whether ``fit`` is given a row source."""
    return isinstance(X, AbstractRows)


def as_targets(target: str | Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Names of the outputs, and whether it is one that was not given in a list."""
    if isinstance(target, str):
        return (target,), True
    return tuple(target), False


def without_missing(block: Block) -> Block:
    """The rows of a block that are finite in all columns."""
    keep = np.isfinite(block.x).all(axis=1) & np.isfinite(block.y).all(axis=1)
    if keep.all():
        return block
    return block._replace(x=block.x[keep], y=block.y[keep], row=block.row[keep])


def check_finite(block: Block, names: Sequence[str], targets: Sequence[str]) -> None:
    """Refuse a block with a number that is not finite; name column, row and count."""
    for values, columns, kind in ((block.x, names, "input"), (block.y, targets, "output")):
        with np.errstate(all="ignore"):
            total = values.sum()  # one pass in the usual case: a sum over NaN or infinity is not finite
        if np.isfinite(total):
            continue
        bad = ~np.isfinite(values)
        if not bad.any():  # an overflow of the sum
            continue
        column = int(np.flatnonzero(bad.any(axis=0))[0])
        rows = np.flatnonzero(bad[:, column])
        first = values[rows[0], column]
        raise InputError(
            f"{kind} column {columns[column]!r}",
            got=f"{'NaN' if np.isnan(first) else 'inf or -inf'} in {block.place(rows[0])} and in {len(rows) - 1} "
            f"others of the {len(values)} rows there",
            expected="finite numbers",
            cause="a missing value or a failed run",
            do="drop or impute these rows, or say drop_missing=True (--drop-missing)",
        )
