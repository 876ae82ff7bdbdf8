"""One coordinate of an expansion: generalised levels, feature values, columns of the one-dimensional factor.

A kernel with ``s`` states per point brings ``s`` functions per point. All functions of one family (value, first
derivative, ..) on one increment of the sequence form a *generalised level*: a set of functions of which at most one
is active at any input. Generalised level ``g`` is family ``(g-1) mod s`` of increment ``(g-1) div s + 1``.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from dtmgp.grids import AbstractSequence
from dtmgp.kernels import AbstractLineKernel, Local

Array = np.ndarray


class LineColumns(NamedTuple):
    """Columns of the one-dimensional ``R^-1``, compressed: function q owns entries ``start[q] .. start[q+1]``.

    Functions are listed generalised level by generalised level; an entry is (generalised level, local index,
    coefficient), and the entries of a function come by strictly increasing level, its own last.
    """

    start: Int[Array, " q"]
    level: Int[Array, " e"]
    local: Int[Array, " e"]
    coefficient: Float[Array, " e"]


class Geometry(NamedTuple):
    """What a line expansion takes from its sequence; shared by all kernels on it."""

    points: Float[Array, " k"]
    left: Int[Array, " k"]
    right: Int[Array, " k"]
    before: Float[Array, " k"]
    after: Float[Array, " k"]


@lru_cache(maxsize=64)
def geometry(sequence: AbstractSequence, increments: int) -> Geometry:
    """Points of the first increments with their neighbours (position -1 and infinite where there is none)."""
    points = sequence.points(increments)
    pairs = [sequence.neighbours(k) for k in range(1, increments + 1)]
    left = np.concatenate([pair.left for pair in pairs])
    right = np.concatenate([pair.right for pair in pairs])
    before = np.where(left >= 0, points[left], -np.inf)
    after = np.where(right >= 0, points[right], np.inf)
    return Geometry(points, left, right, before, after)


class LineExpansion:
    """The functions of one coordinate up to generalised level ``top``."""

    def __init__(self, kernel: AbstractLineKernel, sequence: AbstractSequence, top: int) -> None:
        self.kernel = kernel
        self.sequence = sequence
        self.top = top
        size = kernel.state_size
        self.increments = -(-top // size)
        self.family = (np.arange(top + 1) - 1) % size  # entry 0 unused
        self.increment_of = (np.arange(top + 1) - 1) // size + 1
        counts = [sequence.count(k) for k in range(1, self.increments + 1)]
        self.counts = np.array([0] + [counts[k - 1] for k in self.increment_of[1:]], dtype=np.int64)
        self.start = np.concatenate(
            [[0], np.cumsum(self.counts[1:])]
        )  # start[g-1]: first function of level g
        self._geometry = geometry(sequence, self.increments)
        kernel.check_inputs(self._geometry.points)

    @property
    def size(self) -> int:
        """Number of functions."""
        return int(self.start[-1])

    @cached_property
    def _local(self) -> Local:
        return self.kernel.local(self._geometry.before, self._geometry.points, self._geometry.after)

    def evaluate(self, x: Float[Array, " n"]) -> tuple[Float[Array, "n L"], Int[Array, "n L"]]:
        """Value and index of the one active function of every generalised level; O(levels) per input."""
        local = self._local
        size = self.kernel.state_size
        values = np.empty((len(x), self.top))
        index = np.empty((len(x), self.top), dtype=np.int64)
        for increment in range(1, self.increments + 1):
            place = self.sequence.locate(x, increment)
            found = self.kernel.features(x, local, self.sequence.start(increment) + place)
            first = (increment - 1) * size
            width = min(size, self.top - first)
            values[:, first : first + width] = found[:, :width]
            index[:, first : first + width] = place[:, None]
        return values, index

    @cached_property
    def points(self) -> Float[Array, " q"]:
        """The point at which each function is centred."""
        return np.concatenate([self._geometry.points[self._positions(g)] for g in range(1, self.top + 1)])

    def _positions(self, level: int) -> Int[Array, " k"]:
        increment = int(self.increment_of[level])
        return self.sequence.start(increment) + np.arange(self.sequence.count(increment))

    @cached_property
    def columns(self) -> LineColumns:
        """The one-dimensional inverse factor: at most ``(p+1)(number of neighbours) + f + 1`` entries in family f."""
        points, left, right, before, after = self._geometry
        own, on_left, on_right = self.kernel.columns(before, points, after)
        # the two neighbours belong to different increments, the earlier position to the lower one
        earlier, later = np.minimum(left, right), np.maximum(left, right)
        crossed = (left > right)[:, None, None]
        on_earlier, on_later = np.where(crossed, on_right, on_left), np.where(crossed, on_left, on_right)
        size = self.kernel.state_size
        starts = np.array([self.sequence.start(k) for k in range(1, self.increments + 1)])
        levels, indices, coefficients, counts = [], [], [], []
        for g in range(1, self.top + 1):
            family = int(self.family[g])
            place = self._positions(g)
            parts = []
            for near, table, families in (
                (earlier, on_earlier, size),
                (later, on_later, size),
                (None, own, family + 1),
            ):
                position = place if near is None else near[place]
                increment = np.searchsorted(starts, position, side="right")
                for f in range(families):
                    parts.append(
                        (
                            (increment - 1) * size + f + 1,
                            position - starts[np.maximum(increment, 1) - 1],
                            table[place, f, family],
                            position >= 0,
                        )
                    )
            level, index, coefficient, present = (np.stack(part, axis=1) for part in zip(*parts, strict=True))
            levels.append(level[present])
            indices.append(index[present])
            coefficients.append(coefficient[present])
            counts.append(present.sum(axis=1))
        start = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        return LineColumns(
            start, np.concatenate(levels), np.concatenate(indices), np.concatenate(coefficients)
        )

    @cached_property
    def nonzeros_per_level(self) -> Int[Array, " L"]:
        """Number of entries of all columns of a generalised level (entry 0: level 1)."""
        return np.add.reduceat(np.diff(self.columns.start), self.start[:-1])

    @cached_property
    def log_diagonal_per_level(self) -> Float[Array, " L"]:
        """Sum of ``log diag(R^-1)`` over the functions of a generalised level."""
        columns = self.columns
        diagonal = columns.coefficient[columns.start[1:] - 1]  # own coefficient of the own family comes last
        return np.add.reduceat(np.log(diagonal), self.start[:-1])

    @cached_property
    def supports(self) -> Float[Array, "q 2"]:
        """Left and right end of every function's support."""
        ends = np.stack([self._geometry.before, self._geometry.after], axis=1)
        return np.concatenate([ends[self._positions(g)] for g in range(1, self.top + 1)])
