"""Likelihoods of the layers: Gaussian for hidden ones, with the scale integrated out for the outputs.

Replicates enter through their means and the sum of squares within them, which is exact: with C the covariance of all
N outputs, n of them at different inputs with counts r,

    log det C = log det(K + g diag(1/r)) + sum (r - 1) log g + sum log r,
    y' C^-1 y = mean' (K + g diag(1/r))^-1 mean + within / g.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Float

from dtmgp.baselines.vecchia.factors import Factor


@dataclasses.dataclass(frozen=True)
class Replicated:
    """Outputs at n different inputs: means (n,), counts (n,) and the sum of squares around the means.

    >>> Replicated.group(np.array([[1.0], [0.0], [1.0]]), np.array([[2.0], [5.0], [4.0]]))[1].mean
    array([5., 3.])
    """

    mean: Float[np.ndarray, " n"]
    count: Float[np.ndarray, " n"]
    within: float

    @classmethod
    def group(
        cls, inputs: Float[np.ndarray, "N d"], outputs: Float[np.ndarray, "N r"]
    ) -> tuple[Float[np.ndarray, "n d"], Replicated]:
        """Different inputs, sorted, and their outputs; equal rows of the inputs are replicates too."""
        points, place = np.unique(inputs, axis=0, return_inverse=True)
        place = place.reshape(-1)
        count = np.bincount(place, minlength=len(points)) * float(outputs.shape[1])
        mean = np.bincount(place, weights=outputs.sum(axis=1), minlength=len(points)) / count
        within = float(((outputs - mean[place][:, None]) ** 2).sum())
        return points, cls(mean, count, within)

    @property
    def total(self) -> float:
        """Number of outputs N."""
        return float(self.count.sum())

    def noise(self, nugget: float) -> Float[np.ndarray, " n"]:
        """Variance of the means, relative to the scale."""
        return nugget / self.count


def profile_log_likelihood(factor: Factor, outputs: Replicated, nugget: float) -> tuple[float, float]:
    """``log det U - N/2 log(y' C^-1 y)`` up to a constant, and the scale ``y' C^-1 y / N``.

    The scale tau^2 is integrated out under its reference prior 1/tau^2 (Sauer, Cooper and Gramacy 2022, eq. 3). The
    factor is that of K + diag(outputs.noise(nugget)). -inf if the factor failed.
    """
    if factor.log_det == -math.inf:
        return -math.inf, math.nan
    white = factor.whiten(outputs.mean)
    square = float(white @ white) + outputs.within / nugget
    repeated = outputs.total - len(outputs.mean)
    log_det = factor.log_det - 0.5 * (repeated * math.log(nugget) + float(np.log(outputs.count).sum()))
    return log_det - 0.5 * outputs.total * math.log(square), square / outputs.total


def hidden_log_likelihood(factor: Factor, values: Float[np.ndarray, " n"]) -> float:
    """``log det U - |U' values|^2 / 2``: the normal log density up to a constant; -inf if the factor failed."""
    if factor.log_det == -math.inf:
        return -math.inf
    white = factor.whiten(values)
    return factor.log_det - 0.5 * float(white @ white)
