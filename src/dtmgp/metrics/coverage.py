"""Calibration: intervals, how often they hold the truth, and the probability integral transform."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from dtmgp.errors import InputError
from dtmgp.metrics._arrays import check_draws, check_sites, check_values, match_sites, probabilities
from dtmgp.random import RandomState, as_generator


def coverage(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> float:
    """Fraction of observations in their closed intervals [lower, upper].

    ``y`` (n,) or replicates (n, r); bounds of the shape of y, (n,), or scalars.

    >>> coverage([0.0, 1.0, 2.0, 3.0], 0.5, 2.0)
    0.5
    """
    sites = check_values("observations y", y)
    low, high = match_sites("lower", sites, lower), match_sites("upper", sites, upper)
    if (low > high).any():
        raise InputError("interval", got="lower > upper at some site", expected="lower <= upper")
    if sites.size == 0:
        raise InputError("observations y", got="none", expected="at least one")
    return float(((sites >= low) & (sites <= high)).mean())


def interval_from_draws(
    draws: ArrayLike, coverage: float = 0.9
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Central interval of draws (..., S): lower and upper end, each of shape (...).

    The ends are the order statistics (1 -+ coverage)/2 * (S + 1), interpolated (Weibull's definition): an observation
    from the law of the draws falls inside with probability ``coverage`` for every S >= 2/(1 - coverage) - 1,
    not only for large S. With fewer draws the ends are the extremes and cover less.

    >>> interval_from_draws([[3.0, 1.0, 2.0]], coverage=0.5)
    (array([1.]), array([3.]))
    """
    sample = check_draws("draws", draws)
    if not 0.0 < coverage < 1.0:
        raise InputError("coverage", got=repr(coverage), expected="a number between 0 and 1, e.g. 0.9")
    ends = np.quantile(sample, [0.5 - coverage / 2, 0.5 + coverage / 2], axis=-1, method="weibull")
    return np.asarray(ends[0]), np.asarray(ends[1])


def pit(y: ArrayLike, draws: ArrayLike, random_state: RandomState = None) -> Float[np.ndarray, "..."]:
    """Randomised probability integral transform, (#{X < y} + U (#{X = y} + 1)) / (S + 1): y (...), draws (..., S).

    Uniform on [0, 1] if y comes from the law of the draws, exactly and for every S, ties and discrete laws
    included. For r replicates y (n, r) pass draws[:, None, :]. Returns the shape of y.

    >>> pit([0.5, 9.0], [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]], random_state=0).round(1)
    array([0.4, 0.8])
    """
    sites = check_values("observations y", y)
    sample = check_draws("draws", draws)
    check_sites(sites.shape, sample.shape[:-1])
    below = (sample < sites[..., None]).sum(axis=-1)
    equal = (sample == sites[..., None]).sum(axis=-1)
    uniform = as_generator(random_state).random(sites.shape)
    return np.asarray((below + uniform * (equal + 1)) / (sample.shape[-1] + 1))


def pit_against_cdf(
    y: ArrayLike,
    cdf: Callable[[Float[np.ndarray, "..."]], ArrayLike],
    left: Callable[[Float[np.ndarray, "..."]], ArrayLike] | None = None,
    random_state: RandomState = None,
) -> Float[np.ndarray, "..."]:
    """Probability integral transform ``F(y)``, y (...); for a law with atoms ``F(y-) + U (F(y) - F(y-))``.

    ``cdf`` and ``left`` return ``P(Y <= y)`` and ``P(Y < y)`` in the shape of y; without ``left`` F is continuous and
    nothing is random. Uniform on [0, 1] if y has the law F.

    >>> pit_against_cdf([0.25, 0.5], lambda t: t)
    array([0.25, 0.5 ])
    """
    sites = check_values("observations y", y)
    at = probabilities("cdf", cdf, sites)
    if left is None:
        return at
    before = probabilities("left", left, sites)
    if (before > at).any():
        raise InputError("left", got="P(Y < y) > P(Y <= y) at some site", expected="left limits of the cdf")
    return np.asarray(before + as_generator(random_state).random(sites.shape) * (at - before))
