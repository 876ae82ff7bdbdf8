"""Replicated runs as sufficient statistics: everything about them costs as much as one run per distinct input."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Replicates:
    """Distinct inputs with the number, mean and spread of their runs.

    ``mean[i]`` has variance ``(noise + known[i]) / count[i]``; ``spread[i]`` is the sum of squared deviations of the
    runs from their mean, which informs the noise only.
    """

    inputs: Float[Array, "n d"]
    mean: Float[Array, " n"]
    count: Float[Array, " n"]
    spread: Float[Array, " n"]
    known: Float[Array, " n"]

    @property
    def rows(self) -> int:
        """Number of distinct inputs."""
        return len(self.mean)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return int(self.count.sum())

    def take(self, rows: Int[Array, " k"]) -> Replicates:
        """The given distinct inputs only."""
        return Replicates(*(getattr(self, field.name)[rows] for field in dataclasses.fields(self)))

    def noise_terms(self, noise: float) -> tuple[float, float]:
        """What the spread adds to the log evidence at noise variance ``noise``, and its derivative in ``noise``.

        ``sum_i -(r_i - 1)/2 log(2 pi s_i) - 1/2 log r_i - S_i / (2 s_i)`` with ``s_i = noise + known_i``.
        """
        variance = noise + self.known
        extra = self.count - 1.0
        value = -0.5 * np.sum(
            extra * np.log(2 * np.pi * variance) + np.log(self.count) + self.spread / variance
        )
        slope = -0.5 * np.sum(extra / variance - self.spread / variance**2)
        return float(value), float(slope)


def collapse(
    inputs: Float[Array, "k d"], outputs: Float[Array, " k"], known: Float[Array, " k"] | None = None
) -> Replicates:
    """Group equal rows (with equal known noise variance) and keep their sufficient statistics, inputs sorted.

    >>> collapse(np.array([[0.1], [0.1], [0.3]]), np.array([1.0, 3.0, 5.0])).count
    array([2., 1.])
    """
    noise = np.zeros(len(inputs)) if known is None else known
    keys = np.column_stack([inputs, noise]) + 0.0  # -0.0 and 0.0 are one input
    order = np.lexsort(keys.T[::-1])
    ranked = keys[order]
    is_first = np.concatenate([[True], (np.diff(ranked, axis=0) != 0).any(axis=1)])
    group = np.cumsum(is_first) - 1
    count = np.bincount(group).astype(np.float64)
    sorted_outputs = outputs[order]
    mean = np.bincount(group, weights=sorted_outputs) / count
    spread = np.bincount(group, weights=(sorted_outputs - mean[group]) ** 2)
    distinct = ranked[is_first]
    return Replicates(distinct[:, :-1].copy(), mean, count, spread, distinct[:, -1].copy())
