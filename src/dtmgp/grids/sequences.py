"""One-dimensional nested point sequences, listed increment by increment (paper, Appendix A).

A *position* is the place of a point in that list. Each increment is sorted, and its points lie in different gaps of
the points before it, so that the functions of one increment have disjoint supports: at most one is active anywhere.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from dtmgp.errors import InputError

Array = np.ndarray
MAX_DYADIC_LEVEL = 50  # i 2^-l is exact in float64 up to here


class Neighbours(NamedTuple):
    """Positions of the nearest earlier points on both sides of every point of an increment; -1 where none is."""

    left: Int[Array, " k"]
    right: Int[Array, " k"]


class AbstractSequence(abc.ABC):
    """A nested sequence of disjoint increments; levels count from 1."""

    @property
    @abc.abstractmethod
    def max_level(self) -> int:
        """Number of increments that the sequence has."""

    @abc.abstractmethod
    def count(self, level: int) -> int:
        """Number of points of the increment."""

    @abc.abstractmethod
    def increment(self, level: int) -> Float[Array, " k"]:
        """The sorted points of the increment."""

    @abc.abstractmethod
    def neighbours(self, level: int) -> Neighbours:
        """Nearest points of lower levels, as positions."""

    @abc.abstractmethod
    def locate(self, x: Float[Array, " n"], level: int) -> Int[Array, " n"]:
        """Index within the increment of the one function that can be active at ``x``; defined for every finite x."""

    def start(self, level: int) -> int:
        """Position of the increment's first point."""
        return sum(self.count(k) for k in range(1, level))

    def points(self, level: int) -> Float[Array, " m"]:
        """All points up to ``level`` in the required order."""
        self.check_level(level)
        return np.concatenate([self.increment(k) for k in range(1, level + 1)])

    def check_level(self, level: int) -> None:
        """Refuse levels that the sequence does not have."""
        if not 1 <= level <= self.max_level:
            raise InputError(
                f"level of {type(self).__name__}",
                got=str(level),
                expected=f"an integer from 1 to {self.max_level}",
                do="use fewer levels, or a longer sequence",
            )


@dataclasses.dataclass(frozen=True)
class Dyadic(AbstractSequence):
    """``{1/2}, {1/4, 3/4}, {1/8, 3/8, 5/8, 7/8}, ..``

    >>> Dyadic().points(3)
    array([0.5  , 0.25 , 0.75 , 0.125, 0.375, 0.625, 0.875])
    """

    @property
    def max_level(self) -> int:
        """Where float64 stops to be exact."""
        return MAX_DYADIC_LEVEL

    def count(self, level: int) -> int:
        """``2^(level-1)``."""
        return 1 << (level - 1)

    def start(self, level: int) -> int:
        """``2^(level-1) - 1``."""
        return (1 << (level - 1)) - 1

    def increment(self, level: int) -> Float[Array, " k"]:
        """Odd multiples of ``2^-level``."""
        self.check_level(level)
        return np.arange(1, 1 << level, 2) / (1 << level)

    def neighbours(self, level: int) -> Neighbours:
        """``(i-1) 2^-level`` and ``(i+1) 2^-level``, reduced to their own level by their trailing zeros."""
        self.check_level(level)
        odd = np.arange(1, 1 << level, 2)
        return Neighbours(self._position(odd - 1, level), self._position(odd + 1, level))

    @staticmethod
    def _position(even: Int[Array, " k"], level: int) -> Int[Array, " k"]:
        inside = (even > 0) & (even < (1 << level))
        safe = np.where(inside, even, 2)
        power = safe & -safe
        own_level_count = (1 << level) // power // 2
        return np.where(inside, own_level_count - 1 + safe // power // 2, -1)

    def locate(self, x: Float[Array, " n"], level: int) -> Int[Array, " n"]:
        """``floor(x 2^(level-1))`` clipped to the increment, also outside (0, 1)."""
        count = 1 << (level - 1)
        return np.clip(np.clip(x, 0.0, 1.0) * count, 0, count - 1).astype(np.int64)


class Nested(AbstractSequence):
    """Any nested sequence from its increments, for instance with boundary points.

    >>> Nested([[0.5], [0.0, 1.0], [0.25, 0.75]]).neighbours(3)
    Neighbours(left=array([1, 0]), right=array([0, 2]))
    """

    def __init__(self, increments: Sequence[Sequence[float]]) -> None:
        self.increments = tuple(np.sort(np.asarray(points, dtype=np.float64)) for points in increments)
        if not self.increments or len(self.increments[0]) != 1:
            first = len(self.increments[0]) if self.increments else 0
            raise InputError(
                "Nested sequence", got=f"{first} points in level 1", expected="exactly one point there"
            )
        self._neighbours: list[Neighbours] = []
        known = np.empty(0)
        for level, points in enumerate(self.increments, start=1):
            order = np.argsort(known)
            ranked = known[order]
            gap = np.searchsorted(ranked, points)
            taken = np.isin(points, known)
            shared = np.flatnonzero(np.diff(gap) == 0)
            if (
                points.ndim != 1
                or not len(points)
                or not np.isfinite(points).all()
                or taken.any()
                or len(shared)
            ):
                trouble = (
                    f"{points[taken][0]:g} again"
                    if taken.any()
                    else f"{points[shared[0]]:g} and {points[shared[0] + 1]:g} in one gap"
                    if len(shared)
                    else "no finite points"
                )
                raise InputError(
                    f"Nested sequence, level {level}",
                    got=trouble,
                    expected="new finite points, at most one in every gap of the earlier points",
                    cause="two points of one level would have overlapping supports",
                    do="move one of them to a level of its own",
                )
            padded = np.concatenate([[-1], order, [-1]])
            self._neighbours.append(Neighbours(padded[gap], padded[gap + 1]))
            known = np.concatenate([known, points])
        self._ends = [np.where(near.right >= 0, known[near.right], np.inf) for near in self._neighbours]

    def __repr__(self) -> str:
        return f"Nested({len(self.increments)} levels, {sum(map(len, self.increments))} points)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Nested) or len(other.increments) != len(self.increments):
            return False
        return all(np.array_equal(a, b) for a, b in zip(self.increments, other.increments, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(points.tobytes() for points in self.increments))

    @property
    def max_level(self) -> int:
        """Number of increments given."""
        return len(self.increments)

    def count(self, level: int) -> int:
        """Number of points of the increment."""
        self.check_level(level)
        return len(self.increments[level - 1])

    def increment(self, level: int) -> Float[Array, " k"]:
        """The sorted points of the increment."""
        self.check_level(level)
        return self.increments[level - 1]

    def neighbours(self, level: int) -> Neighbours:
        """Nearest points of lower levels, as positions."""
        self.check_level(level)
        return self._neighbours[level - 1]

    def locate(self, x: Float[Array, " n"], level: int) -> Int[Array, " n"]:
        """The first support that does not end before ``x``; its function is 0 there if ``x`` lies in no support."""
        self.check_level(level)
        ends = self._ends[level - 1]
        return np.minimum(np.searchsorted(ends, x, side="left"), len(ends) - 1)


def dyadic_points(level: int) -> Float[Array, " m"]:
    """The sorted dyadic set ``X*_level``: 1/2, 1/4, 3/4, 1/8, ... (paper, Appendix A)."""
    return Dyadic().points(level)


def paired_points(levels: int = 10) -> Nested:
    """Two points a level, boundary included, as in Plumlee's Sparse Grid Designs.

    ``SparseGrid(2, 10, sequence=paired_points())`` has the 181 points of the paper's random-field study, which is
    no dyadic grid. Order of the pairs as in the MATLAB package that the paper names (at most 10 levels).

    >>> paired_points(4).points(4)
    array([0.5  , 0.125, 0.875, 0.25 , 0.75 , 0.   , 1.   ])
    """
    left = [0.125, 0.25, 0.0, 0.375, 0.1875, 0.0625, 0.4375, 0.3125, 0.28125]
    if not 1 <= levels <= len(left) + 1:
        raise InputError("paired_points", got=f"{levels} levels", expected=f"1 to {len(left) + 1}")
    return Nested([[0.5], *([x, 1.0 - x] for x in left[: levels - 1])])
