"""What is known of the mean response and of the noise at a set of points: all that the scores need.

The covariance of the mean is a model's own, in closed form if it has one and from draws of functions if not. A model
whose noise is the same everywhere cannot say where runs are noisy; then, if inputs are replicated, the belief is that
of stochastic kriging (Ankenman, Nelson and Staum 2010) with a noise variance that depends on x.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from jaxtyping import Float
from scipy.special import digamma, polygamma

from dtmgp.analysis.base import rows_for
from dtmgp.estimators.tmgp import TMGPRegressor
from dtmgp.random import RandomState

Array = np.ndarray
FEWEST_REPLICATED = 6  # inputs with replicates below which no noise model is fitted
SAME_NOISE = 1.1  # largest ratio of noise variances that counts as the same
SPREAD_DRAWS = 64


@dataclasses.dataclass(frozen=True)
class Belief:
    """Covariance of the mean response between N points; variance and mean difference E|Y - Y'| of a run at each.

    ``freedom`` is infinite for a covariance in closed form and S - 1 for one from S draws.

    >>> belief = Belief(np.array([[2.0, 1.0], [1.0, 2.0]]), np.ones(2), np.ones(2))
    >>> belief.after(0, 1).covariance.round(3).tolist()
    [[0.667, 0.333], [0.333, 1.667]]
    """

    covariance: Float[Array, "N N"]
    noise: Float[Array, " N"]
    spread: Float[Array, " N"]
    freedom: float = np.inf

    def after(self, site: int, replicates: int) -> Self:
        """The belief after ``replicates`` more runs at a point: their outputs are not needed, only that they exist."""
        column = self.covariance[:, site]
        total = column[site] + self.noise[site] / replicates
        if not total > 0:
            return self
        return dataclasses.replace(self, covariance=self.covariance - np.outer(column, column / total))

    def squares(self, reference: Any) -> Float[Array, "R N"]:
        """Squared covariances of the reference points with all points, without the bias of sampling.

        With S draws of Gaussian functions and k = S - 1, ``E c^2 = c0^2 (1 + 1/k) + v0 w0/k`` and
        ``E v w = v0 w0 + 2 c0^2/k`` for sample covariance c and sample variances v, w; solved for the true ``c0^2``.
        """
        block = self.covariance[reference] ** 2
        if not np.isfinite(self.freedom):
            return block
        k = self.freedom
        variance = np.diag(self.covariance)
        product = np.outer(variance[reference], variance)
        return np.asarray(k**2 / ((k + 2) * (k - 1)) * (block - product / k))


def belief_of(
    model: Any,
    points: Float[Array, "N d"],
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    bounds: Float[Array, "d 2"],
    *,
    draws: int = 512,
    random_state: RandomState = 0,
) -> Belief:
    """The model's belief at points, or that of stochastic kriging if its noise is the same everywhere.

    ``x``, ``y`` are the runs that the model was fitted to.
    """
    own = model_belief(model, points, draws=draws, random_state=random_state)
    if own.noise.max() > SAME_NOISE * own.noise.min():
        return own
    noise = replicate_noise(x, y, bounds)
    return own if noise is None else kriging_belief(points, x, y, bounds, noise)


def model_belief(
    model: Any, points: Float[Array, "N d"], *, draws: int = 512, random_state: RandomState = 0
) -> Belief:
    """Covariance from ``predict(return_cov=True, include_noise=False)``, or from ``sample_functions``."""
    rows = rows_for(model, points)
    total = np.asarray(model.predict(rows, return_std=True)[1], dtype=np.float64).reshape(len(points)) ** 2
    parameters = inspect.signature(model.predict).parameters
    if "return_cov" in parameters and "include_noise" in parameters:
        covariance = np.asarray(model.predict(rows, return_cov=True, include_noise=False)[1])
        freedom = np.inf
    else:
        values = np.asarray(model.sample_functions(rows, draws, random_state)).reshape(len(points), draws)
        centred = values - values.mean(axis=1, keepdims=True)
        covariance = centred @ centred.T / (draws - 1)
        freedom = float(draws - 1)
    # The difference of two estimates can be negative; a hundredth keeps the scores finite.
    noise = np.maximum(total - np.diag(covariance), 0.01 * total)
    sample = np.sort(np.asarray(model.sample_y(rows, SPREAD_DRAWS, random_state)), axis=-1)
    sample = sample.reshape(len(points), SPREAD_DRAWS)
    weights = 2.0 * np.arange(1, SPREAD_DRAWS + 1) - SPREAD_DRAWS - 1.0
    spread = sample @ weights * 2.0 / (SPREAD_DRAWS * (SPREAD_DRAWS - 1.0))
    return Belief(covariance, noise, spread, freedom)


def kriging_belief(
    points: Float[Array, "N d"],
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    bounds: Float[Array, "d 2"],
    noise: Callable[[Float[Array, "n d"]], Float[Array, " n"]],
) -> Belief:
    """Stochastic kriging with a known noise variance at every input; a law with its spread counts as Gaussian."""
    kriging = TMGPRegressor(bounds=bounds, noise=1e-6 * max(float(np.var(y)), 1e-300))
    kriging.fit(x, y, noise_variance=noise(x))
    covariance = kriging.predict(points, return_cov=True, include_noise=False)[1]
    variance = noise(points)
    return Belief(covariance, variance, 2.0 * np.sqrt(variance / np.pi))


def replicate_noise(
    x: Float[Array, "n d"], y: Float[Array, " n"], bounds: Float[Array, "d 2"]
) -> Callable[[Float[Array, "n d"]], Float[Array, " n"]] | None:
    """Noise variance as a function of x, from inputs with at least two runs; None if there are too few of them.

    One-layer regression on log sample variances: for Gaussian noise and k degrees of freedom ``log s^2`` has mean
    ``log sigma^2 + digamma(k/2) - log(k/2)`` and variance ``trigamma(k/2)``. For other laws the level is then corrected
    so that ``s^2/sigma^2`` is 1 on average.
    """
    distinct, group = np.unique(x, axis=0, return_inverse=True)
    group = group.reshape(-1)
    count = np.bincount(group)
    mean = np.bincount(group, y) / count
    squares = np.bincount(group, (y - mean[group]) ** 2)
    known = count >= 2
    if known.sum() < FEWEST_REPLICATED:
        return None
    freedom = count[known] - 1.0
    variance = squares[known] / freedom
    positive = variance[variance > 0]
    if not len(positive):  # runs repeat exactly
        floor = 1e-12 * max(float(np.var(y)), 1e-300)
        return lambda points: np.full(len(points), floor)
    logs = np.log(np.maximum(variance, 1e-6 * np.median(positive)))
    target = logs - digamma(freedom / 2) + np.log(freedom / 2)
    regression = TMGPRegressor(bounds=bounds)
    regression.fit(distinct[known], target, noise_variance=polygamma(1, freedom / 2))
    low, high = target.min(), target.max()

    def fitted(points: Float[Array, "n d"]) -> Float[Array, " n"]:
        return np.asarray(np.exp(np.clip(regression.predict(points), low, high)))

    level = float((freedom * variance / fitted(distinct[known])).sum() / freedom.sum())
    return lambda points: level * fitted(points)
