"""What all grids share: a one-dimensional sequence and a lower set of multi-indices over it."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

from dtmgp.errors import InputError
from dtmgp.grids.layout import Layout
from dtmgp.grids.multi_indices import MultiIndices
from dtmgp.grids.sequences import AbstractSequence, Dyadic

Array = np.ndarray
POINTS_CHUNK = 1 << 19


class AbstractGrid(abc.ABC):
    """Points ``x_{l,i}`` for all multi-indices ``l`` of a lower set, in the required order.

    The order lists multi-index by multi-index (by ``|l|_1``, then lexicographic), inside one with the last
    coordinate fastest. Sizes come from formulas; points and multi-indices are built when asked for.
    """

    def __init__(self, dim: int, sequence: AbstractSequence | None) -> None:
        self.dim = dim
        self.sequence: AbstractSequence = Dyadic() if sequence is None else sequence

    # -- what differs ------------------------------------------------------------------------------------------
    @property
    @abc.abstractmethod
    def max_levels(self) -> Int[Array, " d"]:
        """Highest level of each coordinate."""

    @abc.abstractmethod
    def weighted_total(self, weights: Sequence[Sequence[int]]) -> int:
        """``sum_l prod_j weights[j][l_j - 1]`` over the set, without listing it where a formula exists."""

    @abc.abstractmethod
    def _build_indices(self) -> MultiIndices: ...

    @abc.abstractmethod
    def project(self, coordinates: Sequence[int]) -> AbstractGrid:
        """The grid's slice through level 1 of all other coordinates."""

    # -- formulas ----------------------------------------------------------------------------------------------
    def _level_counts(self) -> list[list[int]]:
        return [[self.sequence.count(k) for k in range(1, int(top) + 1)] for top in self.max_levels]

    @cached_property
    def size(self) -> int:
        """Number of points ``m``."""
        return self.weighted_total(self._level_counts())

    @cached_property
    def active_per_input(self) -> int:
        """Number of multi-indices ``T``: the number of features that are active at any input."""
        return self.weighted_total([[1] * int(top) for top in self.max_levels])

    # -- built on demand ---------------------------------------------------------------------------------------
    @cached_property
    def indices(self) -> MultiIndices:
        """The multi-indices with their look-up tables."""
        return self._build_indices()

    @property
    def multi_indices(self) -> Int[Array, "T d"]:
        """All multi-indices in the required order."""
        return self.indices.levels

    @cached_property
    def layout(self) -> Layout:
        """Which (multi-index, local index) sits at which position."""
        counts = np.zeros((self.dim, int(self.max_levels.max()) + 1), dtype=np.int64)
        for j, row in enumerate(self._level_counts()):
            counts[j, 1 : len(row) + 1] = row
        return Layout(self.indices, counts)

    @property
    def points(self) -> Float[Array, "m d"]:
        """All points in the required order. O(m) time and memory, no loop over points."""
        size = self.layout.size  # a set that is too large to list is refused before memory is asked for
        points = np.empty((size, self.dim))
        for start in range(0, size, POINTS_CHUNK):
            stop = min(start + POINTS_CHUNK, size)
            points[start:stop] = self.points_at(np.arange(start, stop))
        return points

    def points_at(self, positions: npt.ArrayLike) -> Float[Array, "q d"]:
        """The points at the given positions."""
        block, local = self.layout.addresses(np.asarray(positions, dtype=np.int64).ravel())
        line, starts = self._line
        return line[starts[self.indices.levels[block]] + local]

    def addresses(self, positions: npt.ArrayLike) -> tuple[Int[Array, " q"], Int[Array, "q d"]]:
        """(number of the multi-index, index within its level per coordinate) of every position."""
        return self.layout.addresses(np.asarray(positions, dtype=np.int64).ravel())

    def positions(self, block: npt.ArrayLike, local: npt.ArrayLike) -> Int[Array, " q"]:
        """Position of (number of the multi-index, index within its level per coordinate)."""
        return self.layout.positions(np.asarray(block), np.asarray(local))

    def positions_of(self, points: npt.ArrayLike) -> Int[Array, " q"]:
        """Position of each given point, -1 for points that are not on the grid."""
        wanted = np.asarray(points, dtype=np.float64)
        if wanted.ndim == 1 and self.dim == 1:
            wanted = wanted[:, None]
        if wanted.ndim != 2 or wanted.shape[1] != self.dim:
            raise InputError("points", got=f"shape {wanted.shape}", expected=f"(q, {self.dim})")
        line, starts = self._line
        order = np.argsort(line)
        place = order[np.minimum(np.searchsorted(line, wanted, sorter=order), len(line) - 1)]
        on_line = line[place] == wanted
        level = np.searchsorted(starts[1:], place, side="right")
        block = self.indices.find(level)
        found = on_line.all(axis=1) & (block >= 0)
        result = np.full(len(wanted), -1, dtype=np.int64)
        local = place - starts[level]
        result[found] = self.layout.positions(block[found], local[found])
        return result

    @cached_property
    def _line(self) -> tuple[Float[Array, " k"], Int[Array, " L"]]:
        """All one-dimensional points and the position of every level's first one (entry 0 unused)."""
        top = int(self.max_levels.max())
        starts = np.array([0] + [self.sequence.start(k) for k in range(1, top + 1)])
        return self.sequence.points(top), starts

    def _check_sequence(self) -> None:
        self.sequence.check_level(int(np.max(self.max_levels)))

    def _sequence_repr(self) -> str:
        return "" if isinstance(self.sequence, Dyadic) else f", sequence={self.sequence!r}"


def check_integer(name: str, value: object, least: int = 1) -> int:
    """An integer not below ``least``, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(name, got=repr(value), expected=f"an integer of at least {least}")
    return int(value)
