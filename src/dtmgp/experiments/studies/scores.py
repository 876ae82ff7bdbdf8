"""Scores of one fitted model against draws of the truth: the columns of the result files."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from dtmgp.baselines import ExactGP, InputIgnoringKDE, VecchiaDGP
from dtmgp.baselines.networks import AbstractNetworkRegressor
from dtmgp.experiments.results import Value
from dtmgp.experiments.studies.contestants import Truth
from dtmgp.metrics import average_ks, coverage, crps, interval_from_draws
from dtmgp.simulators import BrownianField

PAPER_DRAWS = 100  # of the paper's statistic
CRPS_DRAWS = 1000
DENSITY_DRAWS = 100  # outputs per site at which densities are taken
LEVELS = (50, 90, 99)

Array = np.ndarray


def _normal(y: Array, mean: Array, std: Array) -> Array:
    return np.asarray(-0.5 * math.log(2 * math.pi) - np.log(std) - 0.5 * ((y - mean) / std) ** 2)


@singledispatch
def log_density(model: Any, X: Float[Array, "n d"], y: Float[Array, "n r"]) -> Float[Array, "n r"] | None:
    """Log predictive density in units of y at r outputs of each row of X; None if the model has no density."""
    if not hasattr(model, "log_prob"):
        return None
    found = model.log_prob(np.repeat(X, y.shape[1], axis=0), y.ravel())
    return np.asarray(found, dtype=np.float64).reshape(y.shape)


@log_density.register
def _(model: AbstractNetworkRegressor, X: Array, y: Array) -> Array:
    return model.log_prob(X, y)


@log_density.register
def _(model: ExactGP, X: Array, y: Array) -> Array:
    mean, std = model.predict(X, return_std=True)
    return _normal(y, mean[:, None], std[:, None])


@log_density.register
def _(model: VecchiaDGP, X: Array, y: Array) -> Array:
    means, variances = model.predict_draws(X)
    each = _normal(y, means[..., None], np.sqrt(variances)[..., None])
    return np.asarray(logsumexp(each, axis=0) - math.log(len(means)))


@log_density.register
def _(model: InputIgnoringKDE, X: Array, y: Array) -> Array:
    return model.log_prob(X, y)


@log_density.register
def _(model: Truth, X: Array, y: Array) -> Array | None:
    return np.log(model.simulator.pdf(X, y)) if isinstance(model.simulator, BrownianField) else None


def score(
    model: Any, X: Float[Array, "n d"], truth: Float[Array, "n S"], random_state: int
) -> dict[str, Value]:
    """Every column from as many draws of the model as there are of the truth.

    ``ks100``: the paper's statistic, 100 draws against 100. ``ks10k``: all against all. ``crps``: 1,000 draws against
    1,000 outputs per site. ``nll``: mean negative log density of 100 outputs per site. ``coverage..``: share of
    the truth in central intervals of the draws.
    """
    draws = np.asarray(model.sample_y(X, truth.shape[1], random_state=random_state))
    sites = [crps(y[:CRPS_DRAWS], own[None, :CRPS_DRAWS]).mean() for y, own in zip(truth, draws)]
    density = log_density(model, X, truth[:, :DENSITY_DRAWS])
    found: dict[str, Value] = {
        "ks100": average_ks(truth[:, :PAPER_DRAWS], draws[:, :PAPER_DRAWS]),
        "ks10k": average_ks(truth, draws),
        "crps": float(np.mean(sites)),
        "nll": None if density is None else float(-density.mean()),
    }
    for level in LEVELS:
        low, high = interval_from_draws(draws, level / 100)
        found[f"coverage{level}"] = coverage(truth, low, high)
    return found
