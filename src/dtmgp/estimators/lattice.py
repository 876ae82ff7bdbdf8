"""Whole-number outputs: spread over their unit intervals for a continuous model, and rounded back.

A continuous density cannot hold atoms. ``y + U(-1/2, 1/2)`` has one, whose integral over ``[k - 1/2, k + 1/2]`` is the
probability of k; fitting it maximises a lower bound of the likelihood of the counts (uniform dequantisation).
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

Array = np.ndarray
FEWEST_ROWS = 30
MOST_DISTINCT = 0.5  # distinct values per row: more are measurements that happen to be whole


@dataclasses.dataclass(frozen=True)
class Lattice:
    """Outputs are whole numbers of at least ``low`` (minus infinity if negative ones occur).

    >>> lattice = Lattice(low=0.0)
    >>> lattice.round(np.array([-0.7, 1.6])).tolist()
    [0.0, 2.0]
    """

    low: float

    @classmethod
    def of(cls, y: Float[Array, "n W"]) -> Lattice | None:
        """The lattice of outputs that are whole numbers with many repetitions, or None."""
        if len(y) < FEWEST_ROWS or not (y == np.floor(y)).all() or np.abs(y).max() > 1e6:
            return None
        if any(len(np.unique(column)) > max(2, MOST_DISTINCT * len(y)) for column in y.T):
            return None
        return cls(0.0 if (y >= 0).all() else -np.inf)

    def spread(self, y: Float[Array, "n W"], seed: int) -> Float[Array, "n W"]:
        """Outputs moved inside their unit intervals; the same numbers for the same seed."""
        return y + np.random.default_rng([seed, 7]).uniform(-0.5, 0.5, y.shape)

    def round(self, draws: Array) -> Array:
        """Continuous draws to whole numbers."""
        return np.maximum(np.floor(draws + 0.5), self.low)

    def upper(self, y: Array) -> Array:
        """Where the continuous cdf is ``P(Y <= y)``; minus infinity below the lowest value."""
        return np.where(y < self.low, -np.inf, np.floor(y) + 0.5)
