"""One pass over all rows before anything is fitted: ranges, moments, groups, samples, and all that can be wrong."""

from __future__ import annotations

import dataclasses
import logging
import zlib
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

from dtmgp.errors import InputError
from dtmgp.inference.validation import held_out_count
from dtmgp.streams.base import AbstractRows, Block, check_finite
from dtmgp.streams.hashing import HELD_OUT, START, input_hash, row_hash
from dtmgp.streams.pieces import Piece, grouped, joined
from dtmgp.streams.prefetch import prefetched
from dtmgp.streams.smallest import DistinctInputs, Smallest, row_groups_of

Array = np.ndarray
log = logging.getLogger("dtmgp")
START_RUNS = 4  # of an input in the start's sample: it is inputs that a start needs
SCATTERED = 1.01  # groups per distinct input from which replicates count as scattered
Check = Callable[[Block], None]


@dataclasses.dataclass(frozen=True)
class Survey:
    """What one pass over a row source has found.

    ``inputs`` counts groups of adjacent equal inputs: they are what training calls an input. ``start`` is a random
    sample of the inputs with at most 4 runs each, or all rows if they are few; ``held_out`` what training does not see:
    the inputs whose first row has a hash of at most ``limit``. Both are the same for the same data and seed.
    """

    rows: int
    inputs: int
    distinct: float
    low: Float[Array, " d"]
    high: Float[Array, " d"]
    y_low: Float[Array, " W"]
    y_high: Float[Array, " W"]
    y_mean: Float[Array, " W"]
    y_std: Float[Array, " W"]
    whole: bool
    is_sorted: bool
    scattered: bool
    group_inputs: Int[Array, " row_groups"]
    group_rows: Int[Array, " row_groups"]
    start: Piece
    held_out: Piece | None
    limit: np.uint64
    seed: int
    checksum: int

    @property
    def learn_inputs(self) -> Int[Array, " row_groups"]:
        """Inputs of every row group that are not held out."""
        return self.group_inputs - self._held(lambda piece: np.ones(len(piece.x), dtype=np.int64))

    @property
    def learn_rows(self) -> Int[Array, " row_groups"]:
        """Rows of every row group that are not held out."""
        return self.group_rows - self._held(lambda piece: piece.counts)

    def _held(self, weights: Callable[[Piece], Array]) -> Array:
        if self.held_out is None:
            return np.zeros_like(self.group_rows)
        found = row_groups_of(self.held_out.key[self.held_out.first])
        return np.bincount(found, weights(self.held_out), len(self.group_rows)).astype(np.int64)

    def learns(self, piece: Piece) -> Piece:
        """A piece without what is held out."""
        if self.held_out is None:
            return piece
        kept = row_hash(piece.key[piece.first], self.seed, HELD_OUT) > self.limit
        return piece if kept.all() else piece.take(np.flatnonzero(kept))

    def __str__(self) -> str:
        held = 0 if self.held_out is None else len(self.held_out.y)
        replicates = (
            f"{self.inputs:,} groups of equal adjacent inputs"
            if self.inputs < self.rows
            else "no equal inputs next to each other"
        )
        order = "sorted by input" if self.is_sorted else "not sorted by input"
        text = f"{self.rows:,} rows, {replicates}, {order}; start from {len(self.start.y):,} rows, {held:,} held out"
        if self.scattered:
            text += (
                f". About {self.distinct:,.0f} inputs are distinct: replicates that are not adjacent are treated as "
                "runs of different inputs. Sort the rows by input to have them used as replicates"
            )
        return text


def survey(
    rows: AbstractRows,
    seed: int = 0,
    validation_fraction: float | None = None,
    checks: Sequence[Check] = (),
) -> Survey:
    """Read everything once; the first row that cannot be used is refused by name, row group and number.

    ``validation_fraction`` of the inputs are held out, but not more rows than ``rows.streaming`` says. ``checks`` are
    called with every block.

    >>> from dtmgp.streams import ArrayRows
    >>> print(survey(ArrayRows(np.arange(100.0)[:, None] // 2, np.zeros(100))))
    100 rows, 50 groups of equal adjacent inputs, sorted by input; start from 100 rows, 0 held out
    """
    total = _Totals(rows)
    start = Smallest(rows.streaming.start, seed, START)
    held = Smallest(rows.streaming.held_out if validation_fraction != 0 else 0, seed, HELD_OUT)
    everything: list[Piece] | None = []  # while it is no more than a start takes
    for row_group in range(rows.row_groups):
        with prefetched(rows.blocks(row_group), 2) as blocks:
            for piece in grouped(total.checked(blocks, checks), row_group):
                total.add(piece, row_group)
                start.add(piece.thinned(START_RUNS))
                held.add(piece)
                if everything is not None:
                    everything.append(piece)
                    everything = everything if total.rows <= rows.streaming.start else None
    if total.rows < 2:
        raise InputError(
            "rows",
            got=f"{total.rows} that can be used",
            expected="at least 2",
            cause="missing values in the others",
        )
    inputs = int(total.group_inputs.sum())
    most = held_out_count(inputs, total.rows, validation_fraction)
    sample = joined(everything) if everything is not None else start.result()[0]
    judges, limit = held.result(most)
    assert sample is not None
    return Survey(
        rows=total.rows,
        inputs=inputs,
        distinct=total.distinct.estimate,
        low=total.low,
        high=total.high,
        y_low=total.y_low,
        y_high=total.y_high,
        y_mean=total.mean,
        y_std=np.sqrt(total.square / total.rows),
        whole=total.whole,
        is_sorted=total.is_sorted,
        scattered=not total.is_sorted and total.distinct.groups_per_input > SCATTERED,
        group_inputs=total.group_inputs,
        group_rows=total.group_rows,
        start=sample,
        held_out=judges,
        limit=limit,
        seed=seed,
        checksum=total.checksum,
    )


class _Totals:
    """What adds up over blocks."""

    def __init__(self, rows: AbstractRows) -> None:
        d, outputs = len(rows.names), len(rows.targets)
        self.source, self.rows, self.checksum = rows, 0, 0
        self.low, self.high = np.full(d, np.inf), np.full(d, -np.inf)
        self.y_low, self.y_high = np.full(outputs, np.inf), np.full(outputs, -np.inf)
        self.mean, self.square = np.zeros(outputs), np.zeros(outputs)
        self.whole, self.is_sorted = True, True
        self.group_inputs = np.zeros(rows.row_groups, dtype=np.int64)
        self.group_rows = np.zeros(rows.row_groups, dtype=np.int64)
        self.distinct = DistinctInputs()
        self._last: Array | None = None

    def checked(self, blocks: object, checks: Sequence[Check]):  # type: ignore[no-untyped-def]
        """The same blocks, after their numbers were checked and counted."""
        for block in blocks:  # type: ignore[attr-defined]
            if not len(block.x):
                continue
            check_finite(block, self.source.names, self.source.targets)
            for check in checks:
                check(block)
            self.checksum = zlib.crc32(block.y.tobytes(), zlib.crc32(block.x.tobytes(), self.checksum))
            self.low = np.minimum(self.low, block.x.min(axis=0))
            self.high = np.maximum(self.high, block.x.max(axis=0))
            self.y_low = np.minimum(self.y_low, block.y.min(axis=0))
            self.y_high = np.maximum(self.y_high, block.y.max(axis=0))
            self.whole = self.whole and bool((block.y == np.floor(block.y)).all())
            # Chan, Golub and LeVeque (1983): moments of the union of two samples
            count, mean = len(block.y), block.y.mean(axis=0)
            apart, both = mean - self.mean, self.rows + count
            self.square = (
                self.square + (block.y - mean).__pow__(2).sum(axis=0) + apart**2 * (self.rows * count / both)
            )
            self.mean = self.mean + apart * (count / both)
            self.rows = both
            yield block

    def add(self, piece: Piece, row_group: int) -> None:
        """Count groups, and see whether they are in order and all different."""
        self.group_inputs[row_group] += len(piece.x)
        self.group_rows[row_group] += len(piece.y)
        self.distinct.add(input_hash(piece.x))
        if self.is_sorted:
            x = piece.x if self._last is None else np.concatenate([self._last[None], piece.x])
            self.is_sorted = _ascending(x)
            self._last = piece.x[-1].copy()


def _ascending(x: Float[Array, "g d"]) -> bool:
    """Whether rows are in lexicographic order."""
    step = np.sign(x[1:] - x[:-1])
    first = np.argmax(step != 0, axis=1)
    return bool((step[np.arange(len(step)), first] >= 0).all())
