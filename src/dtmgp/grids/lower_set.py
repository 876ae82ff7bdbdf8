"""Grids over any lower set of multi-indices: anisotropic and adaptive ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
from jaxtyping import Int

from dtmgp.errors import InputError
from dtmgp.grids.grid import AbstractGrid, Array, check_integer
from dtmgp.grids.multi_indices import MultiIndices, closure
from dtmgp.grids.sequences import AbstractSequence


class LowerSet(AbstractGrid):
    """The grid of a lower set of multi-indices; a set that is not lower is refused, naming the missing index.

    >>> LowerSet([(1, 1), (1, 2), (1, 3), (2, 1)])
    LowerSet(dim=2): m=9, T=4
    >>> LowerSet([(1, 1), (2, 1)]).refine([(2, 1)]).multi_indices.tolist()
    [[1, 1], [2, 1], [3, 1]]
    """

    def __init__(
        self,
        multi_indices: npt.ArrayLike | Sequence[Sequence[int]],
        *,
        sequence: AbstractSequence | None = None,
    ) -> None:
        indices = MultiIndices(multi_indices)
        super().__init__(indices.dim, sequence)
        self._indices = indices
        self._check_sequence()

    def __repr__(self) -> str:
        return (
            f"LowerSet(dim={self.dim}{self._sequence_repr()}): m={self.size:,}, T={self.active_per_input:,}"
        )

    # -- ways to make one -------------------------------------------------------------------------------------
    @classmethod
    def closure(cls, multi_indices: npt.ArrayLike, *, sequence: AbstractSequence | None = None) -> Self:
        """The smallest lower set that contains the given multi-indices."""
        return cls(closure(multi_indices), sequence=sequence)

    @classmethod
    def anisotropic(
        cls, weights: npt.ArrayLike, budget: float, *, sequence: AbstractSequence | None = None
    ) -> Self:
        """All ``l`` with ``sum_j weights_j (l_j - 1) <= budget``: a small weight buys many levels."""
        cost = np.asarray(weights, dtype=float)
        if cost.ndim != 1 or not (np.isfinite(cost) & (cost > 0)).all() or not budget >= 0:
            raise InputError(
                "LowerSet.anisotropic",
                got=f"weights {cost}, budget {budget}",
                expected="positive weights, budget >= 0",
            )
        kept = np.ones((1, 0), dtype=np.int64)
        spent = np.zeros(1)
        for weight in cost:
            room = np.floor((budget - spent) / weight + 1e-9).astype(np.int64)
            source = np.repeat(np.arange(len(kept)), room + 1)
            step = np.concatenate([np.arange(r + 1) for r in room])
            kept = np.column_stack([kept[source], step + 1])
            spent = spent[source] + step * weight
        return cls(kept, sequence=sequence)

    @classmethod
    def interactions(
        cls, dim: int, level: int, order: int, *, sequence: AbstractSequence | None = None
    ) -> Self:
        """The sparse grid of the given level, with at most ``order`` coordinates above level 1 at a time."""
        check_integer("LowerSet.interactions dim", dim)
        check_integer("LowerSet.interactions level", level)
        check_integer("LowerSet.interactions order", order)
        rows = [np.ones(dim, dtype=np.int64)]
        for active in range(1, min(order, dim, level - 1) + 1):
            steps = [s for s in itertools.product(range(1, level), repeat=active) if sum(s) < level]
            for coordinates in itertools.combinations(range(dim), active):
                block = np.ones((len(steps), dim), dtype=np.int64)
                block[:, coordinates] += np.array(steps)
                rows.extend(block)
        return cls(np.array(rows), sequence=sequence)

    # -- growing it -------------------------------------------------------------------------------------------
    @property
    def frontier(self) -> Int[Array, "q d"]:
        """Multi-indices that can be added one at a time with the set staying lower."""
        return self.indices.frontier()

    def refine(self, members: npt.ArrayLike | None = None) -> Self:
        """Add all forward neighbours of the given members (of all, if left out) that keep the set lower."""
        chosen = None
        if members is not None:
            table = np.atleast_2d(np.asarray(members))
            chosen = self.indices.find(table)
            if (chosen < 0).any():
                outside = tuple(map(int, table[np.argmax(chosen < 0)]))
                raise InputError(
                    "LowerSet.refine", got=f"{outside}", expected="members of the set", do="use add(...)"
                )
        return type(self)(
            np.concatenate([self.multi_indices, self.indices.frontier(chosen)]), sequence=self.sequence
        )

    def add(self, multi_indices: npt.ArrayLike) -> Self:
        """Add the given multi-indices and whatever else the set then needs to stay lower."""
        return type(self)(
            closure(np.concatenate([self.multi_indices, np.atleast_2d(np.asarray(multi_indices))])),
            sequence=self.sequence,
        )

    # -- what a grid is ---------------------------------------------------------------------------------------
    @property
    def max_levels(self) -> Int[Array, " d"]:
        """Highest level per coordinate in the set."""
        return self._indices.max_levels

    def weighted_total(self, weights: Sequence[Sequence[int]]) -> int:
        """The sum itself, over the raised coordinates of every multi-index."""
        indices = self._indices
        base = [int(row[0]) for row in weights]
        total = 0
        for start, stop in itertools.pairwise(indices.raised_start.tolist()):
            dims = indices.raised_dim[start:stop].tolist()
            product = 1
            for j, level in zip(dims, indices.raised_level[start:stop].tolist(), strict=True):
                product *= int(weights[j][level - 1])
            if any(b != 1 for b in base):
                for j, b in enumerate(base):
                    product *= b if j not in dims else 1
            total += product
        return total

    def project(self, coordinates: Sequence[int]) -> LowerSet:
        """The slice through level 1 of all other coordinates."""
        others = np.setdiff1d(np.arange(self.dim), coordinates)
        inside = (self.multi_indices[:, others] == 1).all(axis=1)
        return LowerSet(self.multi_indices[inside][:, list(coordinates)], sequence=self.sequence)

    def _build_indices(self) -> MultiIndices:
        return self._indices
