"""Rows of arrays that are sliced and not loaded: memory maps, HDF5 and Zarr; tables of inputs, or fields on axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dtmgp.errors import InputError
from dtmgp.streams.base import BLOCK, AbstractRows, Block, Streaming, without_missing

ROWS = 1 << 16  # of a row group, where the array does not say


class ArrayRows(AbstractRows):
    """Inputs X (n, d) and outputs y (n,) or (n, W): anything with a shape that gives arrays when it is sliced.

    A row group is as many whole chunks of X (``X.chunks``, as HDF5 and Zarr arrays have) as make 65,536 rows.

    >>> X, y = np.zeros((100_000, 3)), np.zeros(100_000)
    >>> ArrayRows(X, y).row_groups
    2
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        names: Sequence[str] | None = None,
        drop_missing: bool = False,
        streaming: Streaming | None = None,
    ) -> None:
        shape, outputs = _shape("X", X), _shape("y", y)
        if len(shape) != 2 or len(outputs) not in (1, 2) or shape[0] != outputs[0] or not min(shape):
            raise InputError(
                "arrays", got=f"shapes {shape} and {outputs}", expected="(n, d) and (n,) or (n, W), n > 0"
            )
        self._x, self._y, self._rows, self.drop_missing = X, y, shape[0], drop_missing
        self.streaming = Streaming() if streaming is None else streaming
        self.named, self.flat = names is not None, len(outputs) == 1
        self.names = tuple(f"x{k}" for k in range(shape[1])) if names is None else tuple(names)
        if len(self.names) != shape[1] or len(set(self.names)) < shape[1]:
            raise InputError("names", got=repr(self.names), expected=f"{shape[1]} different names")
        self.targets = ("y",) if self.flat else tuple(f"y{k}" for k in range(outputs[1]))
        self._size = _whole_chunks(getattr(X, "chunks", None))

    @property
    def row_groups(self) -> int:
        """Of whole chunks."""
        return -(-self._rows // self._size)

    def blocks(self, row_group: int) -> Iterator[Block]:
        """A row group in blocks."""
        begin = row_group * self._size
        end = min(begin + self._size, self._rows)
        where = f"rows {begin} to {end - 1} of the arrays (row group {row_group})"
        for first in range(begin, end, BLOCK):
            part = slice(first, min(first + BLOCK, end))
            y = _numbers("y", self._y[part])
            row = np.arange(part.start, part.stop) - begin
            block = Block(_numbers("X", self._x[part]), y.reshape(len(y), -1), row, where)
            yield without_missing(block) if self.drop_missing else block


class FieldRows(AbstractRows):
    """A field on axes as rows: ``values[i, j, ...]`` is the output at (axes[0][i], axes[1][j], ...).

    ``axes`` maps the name of each dimension to its coordinates. A row group is as many whole chunks along the first
    axis as make 65,536 rows. Missing values, such as land in a map of the sea, are left out with ``drop_missing``.

    >>> FieldRows(np.zeros((3, 4)), {"lat": [0.0, 1.0, 2.0], "lon": [0.0, 1.0, 2.0, 3.0]})
    FieldRows(lat, lon -> value; 1 row groups)
    """

    named = True
    flat = True

    def __init__(
        self,
        values: Any,
        axes: Mapping[str, npt.ArrayLike],
        *,
        target: str = "value",
        drop_missing: bool = False,
        streaming: Streaming | None = None,
    ) -> None:
        shape = _shape("values", values)
        self._axes = [np.asarray(axis, dtype=np.float64) for axis in axes.values()]
        found = tuple(axis.shape for axis in self._axes)
        if not shape or found != tuple((n,) for n in shape) or not min(shape):
            raise InputError(
                "field", got=f"values of shape {shape}, axes of {found}", expected="one axis per dimension"
            )
        self._values, self.drop_missing = values, drop_missing
        self.names, self.targets = tuple(axes), (target,)
        self.streaming = Streaming() if streaming is None else streaming
        self._inner = int(np.prod(shape[1:]))
        chunks = getattr(values, "chunks", None)
        self._size = max(1, _whole_chunks(chunks, ROWS // self._inner))

    @property
    def row_groups(self) -> int:
        """Along the first axis."""
        return -(-len(self._axes[0]) // self._size)

    def blocks(self, row_group: int) -> Iterator[Block]:
        """A row group in blocks of whole slices, or of parts of one."""
        begin = row_group * self._size
        end = min(begin + self._size, len(self._axes[0]))
        where = f"values[{begin}:{end}] (row group {row_group})"
        step = max(1, BLOCK // self._inner)
        for first in range(begin, end, step):
            last = min(first + step, end)
            y = _numbers("values", self._values[first:last]).reshape(-1, 1)
            for low in range(0, len(y), BLOCK):
                part = slice(low, min(low + BLOCK, len(y)))
                flat = np.arange(part.start, part.stop)
                row = flat + (first - begin) * self._inner
                places = np.unravel_index(flat, (last - first, *(len(axis) for axis in self._axes[1:])))
                heads = [self._axes[0][first:last], *self._axes[1:]]
                x = np.stack([axis[place] for axis, place in zip(heads, places)], axis=1)
                block = Block(x, y[part], row, where)
                yield without_missing(block) if self.drop_missing else block


def _shape(name: str, array: Any) -> tuple[int, ...]:
    shape = getattr(array, "shape", None)
    if shape is None or not hasattr(array, "__getitem__"):
        raise InputError(
            name, got=type(array).__name__, expected="an array that can be sliced", do="np.asarray(...)"
        )
    return tuple(int(n) for n in shape)


def _whole_chunks(chunks: Any, rows: int = ROWS) -> int:
    """The multiple of the chunks along the first axis that is nearest to the wanted rows from below, at least one."""
    chunk = int(chunks[0]) if isinstance(chunks, tuple) and chunks and isinstance(chunks[0], int) else 1
    return max(1, rows // chunk) * chunk


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values).astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise InputError(name, got=f"the type {np.asarray(values).dtype}", expected="numbers") from None
