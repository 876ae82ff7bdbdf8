"""The belief that plans a campaign for a model without a covariance in closed form: exact kriging on its output scale.

Draws of functions of a deep model come from independent weights, which are surer than the data where these are few:
on the queue, designs that trusted them were worse than a Latin hypercube. Kriging on the scale that the deep model
chooses for its outputs has the exact covariance, needs no training, and has noise that is nearly the same everywhere.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist

from dtmgp.emulation.beliefs import Belief, replicate_noise
from dtmgp.estimators.tmgp import TMGPRegressor

Array = np.ndarray


def has_covariance(model: Any) -> bool:
    """Whether ``predict`` has the covariance of the mean response in closed form.

    >>> has_covariance(TMGPRegressor())
    True
    """
    parameters = inspect.signature(model.predict).parameters
    return "return_cov" in parameters and "include_noise" in parameters


def scaled_belief(
    points: Float[Array, "N d"],
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    bounds: Float[Array, "d 2"],
) -> Belief:
    """Stochastic kriging of ``g(y)``, back in units of y by the slope of the inverse of g: first order in its errors.

    ``g`` is the output scale that `DTMGPRegressor` would choose for these runs; without torch there is none. The noise
    variance of ``g(y)`` is regressed on the replicates, or one number if there are too few.
    """
    low, high = np.asarray(bounds, dtype=np.float64).T
    unit = (x - low) / (high - low)
    if not np.ptp(y) > 0:
        return _spread_out((points - low) / (high - low), unit)
    z, log_slope = _scaled(unit, y)
    noise = replicate_noise(x, z, bounds)
    if noise is None:
        kriging = TMGPRegressor(bounds=bounds).fit(x, z)
        noise_variance = np.full(len(points), float(np.ravel(kriging.noise_)[0]))
    else:
        kriging = TMGPRegressor(bounds=bounds, noise=1e-6 * max(float(np.var(z)), 1e-300))
        kriging.fit(x, z, noise_variance=noise(x))
        noise_variance = noise(points)
    middle, covariance = kriging.predict(points, return_cov=True, include_noise=False)
    order = np.argsort(z)
    slope = np.exp(
        np.interp(middle, z[order], log_slope[order])
    )  # beyond the runs: that of the outermost run
    variance = slope**2 * noise_variance
    return Belief(covariance * np.outer(slope, slope), variance, 2.0 * np.sqrt(variance / np.pi))


def _spread_out(points: Float[Array, "N d"], unit: Float[Array, "n d"]) -> Belief:
    """All outputs are the same: what is known then is where the runs were."""
    past = np.exp(-cdist(points, unit, "cityblock"))
    own = np.exp(-cdist(unit, unit, "cityblock")) + np.eye(len(unit))
    covariance = np.exp(-cdist(points, points, "cityblock")) - past @ np.linalg.solve(own, past.T)
    return Belief(covariance, np.ones(len(points)), np.ones(len(points)))


def _scaled(unit: Float[Array, "n d"], y: Float[Array, " n"]) -> tuple[Array, Array]:
    """``g(y)`` and the logarithm of ``dy/dg`` at every run."""
    try:
        from dtmgp.estimators.output_scale import choose_scale
    except ModuleNotFoundError:  # no torch
        return y, np.zeros_like(y)
    scale = choose_scale(unit, y)
    return scale.forward(y), -scale.log_derivative(y)
