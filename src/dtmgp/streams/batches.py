"""Rows from any iterable of record batches that can be gone through again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dtmgp.errors import InputError
from dtmgp.streams.base import BLOCK, AbstractRows, Block, Streaming, as_targets, without_missing
from dtmgp.streams.columns import arrow_values, check_kind, check_names, text_column


class BatchRows(AbstractRows):
    """Record batches: `pyarrow` ones and tables, DataFrames, or tuples (X, y); the same ones in every pass.

    Training goes through them several times. So give a function that begins a new pass whenever it is called, or an
    object with ``__iter__``, such as a list; a generator is refused. They have one order: only the buffer shuffles.

    >>> def passes():
    ...     rng = np.random.default_rng(0)
    ...     for _ in range(3):
    ...         x = rng.uniform(size=(100, 2))
    ...         yield x, x.sum(axis=1)
    >>> BatchRows(passes)
    BatchRows(x0, x1 -> y; 1 row groups)
    """

    row_groups = 1

    def __init__(
        self,
        batches: Callable[[], Iterable[Any]] | Iterable[Any],
        target: str | Sequence[str] | None = None,
        inputs: Sequence[str] | None = None,
        *,
        drop_missing: bool = False,
        streaming: Streaming | None = None,
    ) -> None:
        self._batches, self.drop_missing = batches, drop_missing
        self.streaming = Streaming() if streaming is None else streaming
        first = next(iter(self._pass()), None)
        if first is None:
            raise InputError(
                "batches", got="none", expected="at least one", cause="an iterator that is used up"
            )
        self.named = not isinstance(first, tuple)
        if self.named:
            columns = _columns(first, 0)
            if target is None:
                raise InputError("target", got="None", expected="the output column of the batches")
            self.targets, self.flat = as_targets(target)
            self.names = check_names("batch 0", columns, self.targets, inputs)
            return
        x, y = _pair(first, 0)
        if target is not None or inputs is not None:
            raise InputError("target", got="names of columns", expected="none: batches (X, y) have no names")
        self.flat = y.ndim == 1
        self.names = tuple(f"x{k}" for k in range(x.shape[1]))
        self.targets = ("y",) if self.flat else tuple(f"y{k}" for k in range(y.shape[1]))

    def _pass(self) -> Iterator[Any]:
        """A new pass."""
        made = self._batches() if callable(self._batches) else self._batches
        if not hasattr(made, "__iter__"):
            raise InputError("batches", got=type(made).__name__, expected="an iterable of record batches")
        begun = iter(made)
        if begun is made and not callable(self._batches):
            raise InputError(
                "batches",
                got=f"a {type(made).__name__}, which can be gone through once",
                expected="something that can be gone through for every epoch",
                do="give the function that makes it: BatchRows(lambda: make_batches())",
            )
        return begun

    def blocks(self, row_group: int = 0) -> Iterator[Block]:
        """All batches, in blocks."""
        begin = 0
        for number, batch in enumerate(self._pass()):
            x, y = self._arrays(batch, number)
            for low in range(0, len(x), BLOCK):
                part = slice(low, min(low + BLOCK, len(x)))
                row = np.arange(begin + part.start, begin + part.stop)
                block = Block(x[part], y[part], row, f"batch {number}", begin)
                yield without_missing(block) if self.drop_missing else block
            begin += len(x)

    def _arrays(self, batch: Any, number: int) -> tuple[np.ndarray, np.ndarray]:
        if not self.named:
            x, y = _pair(batch, number)
            y = y.reshape(len(y), -1)
            if x.shape[1] != len(self.names) or y.shape[1] != len(self.targets):
                raise InputError(
                    f"batch {number}",
                    got=f"{x.shape[1]} inputs and {y.shape[1]} outputs",
                    expected=f"{len(self.names)} and {len(self.targets)}, as in the first batch",
                )
            return x, y
        check_names(f"batch {number}", _columns(batch, number), self.targets, self.names)
        return _values(batch, self.names, number), _values(batch, self.targets, number)


def _columns(batch: Any, number: int) -> list[str]:
    if hasattr(batch, "schema") and hasattr(batch, "column"):
        return list(batch.schema.names)
    if hasattr(batch, "columns") and hasattr(batch, "dtypes"):
        return [str(name) for name in batch.columns]
    raise InputError(
        f"batch {number}",
        got=type(batch).__name__,
        expected="a pyarrow record batch or table, a DataFrame, or a tuple (X, y)",
    )


def _values(batch: Any, names: Sequence[str], number: int) -> np.ndarray:
    if hasattr(batch, "schema"):
        for name in names:
            check_kind(f"batch {number}", name, batch.schema.field(name).type)
        if hasattr(batch, "combine_chunks") and not batch.num_rows:
            return np.empty((0, len(names)))
        return arrow_values(batch, names)
    found = np.empty((len(batch), len(names)))
    for k, name in enumerate(names):
        try:
            found[:, k] = np.asarray(batch[name], dtype=np.float64)
        except (TypeError, ValueError):
            raise text_column(f"batch {number}", name, str(batch[name].dtype)) from None
    return found


def _pair(batch: Any, number: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        x, y = (np.asarray(part, dtype=np.float64) for part in batch)
    except (TypeError, ValueError):
        x = y = np.empty(0)
    if x.ndim != 2 or y.ndim not in (1, 2) or len(x) != len(y):
        raise InputError(
            f"batch {number}",
            got=type(batch).__name__,
            expected="arrays of numbers (X, y) with shapes (n, d) and (n,) or (n, W), in every batch",
        )
    return x, y
