"""Rows of a tensor family: which (multi-index, local index) sits at which position.

A multi-index ``l`` owns a contiguous block of ``prod_j counts[j][l_j]`` rows; inside a block the last coordinate
runs fastest. The same object serves grid points and features (whose levels may hold several functions a point).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from dtmgp.errors import InputError
from dtmgp.grids.multi_indices import MultiIndices

Array = np.ndarray


class Layout:
    """Block offsets and strides of a lower set, from the number of functions per level and coordinate.

    ``counts[j, l]`` is the number of functions of level ``l`` in coordinate ``j`` (column 0 unused); level 1 has one.
    """

    def __init__(self, indices: MultiIndices, counts: Int[Array, "d L"]) -> None:
        self.indices = indices
        self.counts = counts
        slots = counts[indices.raised_dim, indices.raised_level]
        sizes = np.ones(len(indices), dtype=np.int64)
        starts, ends = indices.raised_start[:-1], indices.raised_start[1:]
        filled = ends > starts
        if len(slots):
            sizes[filled] = np.multiply.reduceat(slots, starts[filled])
        self.block_size = sizes
        self.offset = np.concatenate([[0], np.cumsum(sizes)])
        self.raised_count = slots

    @property
    def size(self) -> int:
        """Number of rows ``m``."""
        return int(self.offset[-1])

    @property
    def most_raised(self) -> int:
        """Largest number of coordinates above level 1 in any multi-index."""
        return int(np.diff(self.indices.raised_start).max())

    def addresses(self, positions: Int[Array, " q"]) -> tuple[Int[Array, " q"], Int[Array, "q d"]]:
        """(multi-index number, index within the level per coordinate) of every position."""
        wanted = np.asarray(positions, dtype=np.int64)
        if wanted.size and (wanted.min() < 0 or wanted.max() >= self.size):
            raise InputError(
                "positions",
                got=f"{wanted.min()} .. {wanted.max()}",
                expected=f"integers from 0 to {self.size - 1}",
            )
        block = np.searchsorted(self.offset, wanted, side="right") - 1
        rest = wanted - self.offset[block]
        local = np.zeros((len(wanted), self.indices.dim), dtype=np.int64)
        first, last = self.indices.raised_start[block], self.indices.raised_start[block + 1]
        for depth in range(1, self.most_raised + 1):
            rows = np.flatnonzero(last - depth >= first)
            slot = last[rows] - depth
            rest[rows], digit = np.divmod(rest[rows], self.raised_count[slot])
            local[rows, self.indices.raised_dim[slot]] = digit
        return block, local

    def positions(self, block: Int[Array, " q"], local: Int[Array, "q d"]) -> Int[Array, " q"]:
        """Position of (multi-index number, index within the level per coordinate): the inverse of ``addresses``."""
        numbers, digits = np.asarray(block, dtype=np.int64), np.asarray(local, dtype=np.int64)
        first, last = self.indices.raised_start[numbers], self.indices.raised_start[numbers + 1]
        value = np.zeros(len(numbers), dtype=np.int64)
        for depth in range(self.most_raised):
            rows = np.flatnonzero(first + depth < last)
            slot = first[rows] + depth
            value[rows] = value[rows] * self.raised_count[slot] + digits[rows, self.indices.raised_dim[slot]]
        return self.offset[numbers] + value
