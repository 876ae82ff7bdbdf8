"""Full grids: all multi-indices below one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from jaxtyping import Int

from dtmgp.errors import InputError
from dtmgp.grids.grid import AbstractGrid, Array, check_integer
from dtmgp.grids.multi_indices import ENUMERATION_LIMIT, MultiIndices
from dtmgp.grids.sequences import AbstractSequence


class FullGrid(AbstractGrid):
    """The Cartesian product of sorted one-dimensional sets (paper, Appendix A), listed multi-index by multi-index.

    Deviation from the paper: Kronecker products list the product with the last coordinate fastest over *all* levels;
    ``kronecker_order`` gives that permutation of our rows.

    >>> FullGrid([1, 2]).points
    array([[0.5 , 0.5 ],
           [0.5 , 0.25],
           [0.5 , 0.75]])
    """

    def __init__(self, levels: npt.ArrayLike, *, sequence: AbstractSequence | None = None) -> None:
        self.levels = tuple(
            check_integer("FullGrid level", level) for level in np.atleast_1d(np.asarray(levels))
        )
        super().__init__(len(self.levels), sequence)
        self._check_sequence()

    def __repr__(self) -> str:
        return f"FullGrid({list(self.levels)}{self._sequence_repr()}): m={self.size:,}, T={self.active_per_input:,}"

    @property
    def max_levels(self) -> Int[Array, " d"]:
        """The levels given."""
        return np.array(self.levels)

    def weighted_total(self, weights: Sequence[Sequence[int]]) -> int:
        """Product over coordinates of the sums over levels."""
        return math.prod(
            sum(int(w) for w in row[:top]) for row, top in zip(weights, self.levels, strict=True)
        )

    def project(self, coordinates: Sequence[int]) -> FullGrid:
        """The full grid over fewer coordinates."""
        return FullGrid([self.levels[j] for j in coordinates], sequence=self.sequence)

    @property
    def kronecker_order(self) -> Int[Array, " m"]:
        """``points[kronecker_order]`` is the product order of ``numpy.kron``."""
        line = [np.arange(self.sequence.start(top) + self.sequence.count(top)) for top in self.levels]
        grid = np.stack([axis.ravel() for axis in np.meshgrid(*line, indexing="ij")], axis=1)
        starts = np.array([0] + [self.sequence.start(k) for k in range(1, max(self.levels) + 1)])
        level = np.searchsorted(starts[1:], grid, side="right")
        return self.layout.positions(self.indices.find(level), grid - starts[level])

    def _build_indices(self) -> MultiIndices:
        if self.active_per_input * self.dim > ENUMERATION_LIMIT:
            raise InputError(
                "multi-indices of a full grid",
                got=f"{self.active_per_input:,} of them",
                expected=f"at most {ENUMERATION_LIMIT // self.dim:,} in {self.dim} dimensions",
                do="use a sparse grid",
            )
        axes = np.meshgrid(*[np.arange(1, top + 1) for top in self.levels], indexing="ij")
        return MultiIndices(np.stack([axis.ravel() for axis in axes], axis=1))
