"""Continuous ranked probability score and its form for vectors; both proper, both smaller is better."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist
from scipy.special import ndtr

from dtmgp.errors import InputError
from dtmgp.metrics._arrays import check_draws, check_sites, check_values, match_sites


def crps(y: ArrayLike, draws: ArrayLike) -> Float[np.ndarray, "..."]:
    """Fair estimate of ``E|X - y| - E|X - X'|/2`` from S >= 2 draws: y (...), draws (..., S) -> (...).

    Fair (Ferro 2014): unbiased for the score of the law that the draws come from, whatever S is;
    hence it can be slightly negative. For r replicates y (n, r) pass draws[:, None, :].
    By sorting, O(S log S) per site.

    >>> crps([0.0], [[-1.0, 0.0, 1.0]]).round(4)  # 2/3 - 4/6
    array([0.])
    """
    sites = check_values("observations y", y)
    sample = check_draws("draws", draws, smallest=2)
    check_sites(sites.shape, sample.shape[:-1])
    size = sample.shape[-1]
    # Sum over pairs of |X_i - X_j| = sum_k (2k - S - 1) X_(k); the weights sum to zero, so centring is free
    # and keeps digits when the level of y is large against the spread.
    centred = np.sort(sample, axis=-1)
    centre = np.median(centred, axis=-1, keepdims=True)
    centred = centred - centre
    weights = 2.0 * np.arange(1, size + 1) - size - 1.0
    spread = centred @ weights / (size * (size - 1.0))
    distance = np.abs(centred - (sites[..., None] - centre)).mean(axis=-1)
    return np.asarray(distance - spread)


def crps_gaussian(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> Float[np.ndarray, "..."]:
    """Score of N(mean, std^2) in closed form: std (z (2 Phi(z) - 1) + 2 phi(z) - 1/sqrt(pi)), z = (y - mean)/std.

    ``mean`` and ``std`` have the shape of y, or that of its sites if y (n, r) holds replicates. A point
    prediction, std = 0, scores ``|y - mean|``.

    >>> crps_gaussian([0.0, 3.0], [0.0, 0.0], [1.0, 0.0]).round(4)  # (sqrt(2) - 1)/sqrt(pi)
    array([0.2337, 3.    ])
    """
    sites = check_values("observations y", y)
    centre, scale = match_sites("mean", sites, mean), match_sites("std", sites, std)
    if (scale < 0).any():
        raise InputError("std", got=f"{float(scale.min())!r}", expected="non-negative standard deviations")
    error = sites - centre
    # std*phi(z) and std*z without a division by zero: at std = 0 any positive number serves.
    z = error / np.where(scale > 0, scale, 1.0)
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    smooth = error * (2.0 * ndtr(z) - 1.0) + scale * (2.0 * density - 1.0 / np.sqrt(np.pi))
    return np.asarray(np.where(scale > 0, smooth, np.abs(error)))


def energy_score(y: ArrayLike, draws: ArrayLike) -> Float[np.ndarray, " n"]:
    """Fair estimate of ``E||X - y|| - E||X - X'||/2`` for vectors: y (n, W), draws (n, W, S) -> (n,).

    The shape of the draws is that of ``sample_y`` for W outputs; W = 1 is the CRPS. O(S^2 W) per site,
    O(S^2) memory.

    >>> draws = np.array([[[0.0, 3.0], [0.0, 4.0]]])  # two draws of a vector: (0, 0) and (3, 4)
    >>> energy_score([[0.0, 0.0]], draws)  # 5/2 - 5/2
    array([0.])
    """
    sites = check_values("observations y", y)
    sample = check_draws("draws", draws, smallest=2)
    if sites.ndim != 2 or sample.ndim != 3:
        raise InputError(
            "energy score", got=f"y {sites.shape}, draws {sample.shape}", expected="y (n, W), draws (n, W, S)"
        )
    check_sites(sites.shape, sample.shape[:-1])
    distance = np.linalg.norm(sample - sites[..., None], axis=1).mean(axis=-1)
    spread = np.array([pdist(vectors.T).mean() for vectors in sample])
    return np.asarray(distance - 0.5 * spread)
