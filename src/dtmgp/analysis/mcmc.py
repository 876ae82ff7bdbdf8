"""An affine-invariant ensemble sampler, and how far its draws can be trusted: R-hat and effective sample size."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri
from scipy.stats import rankdata

from dtmgp.errors import InputError

Array = np.ndarray
LogDensity = Callable[[Float[Array, "n d"]], Float[Array, " n"]]
STRETCH = 2.0  # the constant a of the paper


class Chains(NamedTuple):
    """``draws`` (ensembles, steps, walkers, d) and the share of accepted moves."""

    draws: Float[Array, "e t w d"]
    acceptance: float


def stretch_sampler(
    log_density: LogDensity,
    start: Float[Array, "e w d"],
    steps: int,
    burn_in: int,
    rng: np.random.Generator,
) -> Chains:
    """Stretch moves (Goodman and Weare 2010, section 2), all ensembles and half the walkers in one call.

    ``start`` holds independent ensembles of an even number of walkers, at least 2 (d + 1), with finite densities;
    ``log_density`` may be -inf. Any affine map of the target gives the same walk, mapped.
    """
    ensembles, walkers, dim = start.shape
    if walkers % 2 or walkers < 2 * (dim + 1):
        raise InputError("walkers", got=str(walkers), expected=f"an even number of at least {2 * (dim + 1)}")
    state = start.copy()
    density = log_density(state.reshape(-1, dim)).reshape(ensembles, walkers)
    if not np.isfinite(density).all():
        raise InputError("start", got="a walker of density 0", expected="positive density at every walker")
    half = walkers // 2
    kept = np.empty((ensembles, steps, walkers, dim))
    accepted = 0
    rows = np.arange(ensembles)[:, None]
    for step in range(burn_in + steps):
        for moving, resting in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
            partner = state[:, resting][rows, rng.integers(half, size=(ensembles, half))]
            # density of z: 1/sqrt(z) on [1/a, a], by inversion
            z = ((STRETCH - 1.0) * rng.random((ensembles, half)) + 1.0) ** 2 / STRETCH
            proposal = partner + z[..., None] * (state[:, moving] - partner)
            there = log_density(proposal.reshape(-1, dim)).reshape(ensembles, half)
            log_ratio = (dim - 1) * np.log(z) + there - density[:, moving]
            take = np.log(rng.random((ensembles, half))) < log_ratio
            state[:, moving] = np.where(take[..., None], proposal, state[:, moving])
            density[:, moving] = np.where(take, there, density[:, moving])
            if step >= burn_in:
                accepted += int(take.sum())
        if step >= burn_in:
            kept[:, step - burn_in] = state
    return Chains(kept, accepted / (steps * ensembles * walkers))


def split_rhat(draws: Float[Array, "e t w d"]) -> Float[Array, " d"]:
    """Rank-normalised split R-hat (Vehtari et al. 2021, eqs. 3 and 14) per coordinate; near 1 when all agree.

    The chains are the two halves of every ensemble, walkers pooled: walkers of one ensemble are not independent.

    >>> draws = np.random.default_rng(0).normal(size=(4, 100, 10, 1))
    >>> bool(split_rhat(draws)[0] < 1.01), bool(split_rhat(draws + np.arange(4).reshape(4, 1, 1, 1))[0] > 1.5)
    (True, True)
    """
    ensembles, steps, walkers, dim = draws.shape
    half = steps // 2
    if half < 2:
        raise InputError("draws", got=f"{steps} steps", expected="at least 4")
    found = np.empty(dim)
    for column in range(dim):
        values = draws[:, : 2 * half, :, column].reshape(2 * ensembles, half * walkers)
        folded = np.abs(
            values - np.median(values)
        )  # sees spreads that differ, where the plain form sees means
        found[column] = max(_rhat(_normal_scores(values)), _rhat(_normal_scores(folded)))
    return found


def effective_sample_size(draws: Float[Array, "e t w d"]) -> Float[Array, " d"]:
    """Number of independent draws with the same error of the mean, per coordinate.

    Autocovariances in time, averaged over walkers and ensembles, with the variance between ensembles added as in
    Vehtari et al. 2021 (eqs. 8 to 10), each walker a chain; the sum stops by Geyer's initial positive
    sequence. Walkers of one ensemble pull each other, hence the count is a guide, not a guarantee.

    >>> draws = np.random.default_rng(0).normal(size=(4, 250, 10, 1))
    >>> bool(8000 < effective_sample_size(draws)[0] < 12000)
    True
    """
    ensembles, steps, walkers, dim = draws.shape
    chains = draws.transpose(0, 2, 1, 3).reshape(ensembles * walkers, steps, dim)
    found = np.empty(dim)
    for column in range(dim):
        values = chains[:, :, column]
        centred = values - values.mean(axis=1, keepdims=True)
        size = 1 << (2 * steps - 1).bit_length()
        spectrum = np.abs(np.fft.rfft(centred, size, axis=1)) ** 2
        covariance = np.fft.irfft(spectrum, size, axis=1)[:, :steps].mean(axis=0) / steps
        within = covariance[0] * steps / (steps - 1.0)
        total = covariance[0] + values.mean(axis=1).var(ddof=1)
        if not total > 0:
            found[column] = np.nan
            continue
        correlation = 1.0 - (within - covariance * steps / (steps - 1.0)) / total
        pairs = correlation[: steps // 2 * 2].reshape(-1, 2).sum(axis=1)
        negative = np.flatnonzero(pairs < 0)
        pairs = np.minimum.accumulate(pairs[: negative[0]] if len(negative) else pairs)
        time = max(2.0 * pairs.sum() - 1.0, 1.0 / np.log10(values.size))
        found[column] = values.size / time
    return found


def _normal_scores(values: Float[Array, "m n"]) -> Float[Array, "m n"]:
    ranks = rankdata(values, axis=None).reshape(values.shape)
    return np.asarray(ndtri((ranks - 0.375) / (values.size + 0.25)))


def _rhat(values: Float[Array, "m n"]) -> float:
    size = values.shape[1]
    within = float(values.var(axis=1, ddof=1).mean())
    between = float(values.mean(axis=1).var(ddof=1))
    if not within > 0:
        return 1.0 if not between > 0 else float("inf")
    return float(np.sqrt((size - 1.0) / size + between / within))
