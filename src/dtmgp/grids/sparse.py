"""Sparse grids: all multi-indices with ``|l|_1 <= level + dim - 1``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from dtmgp.grids.grid import AbstractGrid, Array, check_integer
from dtmgp.grids.multi_indices import MultiIndices, total_degree
from dtmgp.grids.sequences import AbstractSequence


class SparseGrid(AbstractGrid):
    """The hyperbolic-cross sparse grid ``X^SG_level`` (paper, Appendix A).

    ``m = sum_{k<level} 2^k C(k+d-1, d-1)``, ``T = C(level+d-1, d)``; level n is a prefix of level n+1.

    >>> SparseGrid(2, 2).points
    array([[0.5 , 0.5 ],
           [0.5 , 0.25],
           [0.5 , 0.75],
           [0.25, 0.5 ],
           [0.75, 0.5 ]])
    >>> SparseGrid(100, 6)
    SparseGrid(dim=100, level=6): m=3,014,935,041, T=96,560,646
    """

    def __init__(self, dim: int, level: int, *, sequence: AbstractSequence | None = None) -> None:
        super().__init__(check_integer("SparseGrid dim", dim), sequence)
        self.level = check_integer("SparseGrid level", level)
        self._check_sequence()

    def __repr__(self) -> str:
        return (
            f"SparseGrid(dim={self.dim}, level={self.level}{self._sequence_repr()}): "
            f"m={self.size:,}, T={self.active_per_input:,}"
        )

    @property
    def max_levels(self) -> Int[Array, " d"]:
        """The level, in every coordinate."""
        return np.full(self.dim, self.level)

    def weighted_total(self, weights: Sequence[Sequence[int]]) -> int:
        """Coefficients of a truncated product of polynomials, one factor per coordinate: O(d level^2)."""
        total = [1] + [0] * (self.level - 1)
        for row in weights:
            total = [sum(total[k - s] * int(row[s]) for s in range(k + 1)) for k in range(self.level)]
        return sum(total)

    def project(self, coordinates: Sequence[int]) -> SparseGrid:
        """The sparse grid of the same level over fewer coordinates."""
        return SparseGrid(len(coordinates), self.level, sequence=self.sequence)

    def _build_indices(self) -> MultiIndices:
        return MultiIndices(total_degree(self.dim, self.level), is_sorted=True)
