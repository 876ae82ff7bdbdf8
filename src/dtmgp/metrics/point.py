"""Scores of point predictions and of Gaussian ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dtmgp.errors import InputError
from dtmgp.metrics._arrays import check_values, match_sites


def rmse(y: ArrayLike, prediction: ArrayLike) -> float:
    """Root of the mean squared error; y (n,), or replicates (n, r) with one prediction per row.

    >>> rmse([1.0, 2.0], [1.0, 4.0]) == 2**0.5
    True
    """
    sites = check_values("observations y", y)
    error = sites - match_sites("prediction", sites, prediction)
    return float(np.sqrt(np.mean(error**2)))


def gaussian_nlpd(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Mean negative log density of y under N(mean, std^2), in nats: log(2 pi std^2)/2 + (y - mean)^2/(2 std^2).

    ``mean`` and ``std`` have the shape of y, (n,) if y (n, r) holds replicates, or are scalars. It depends on the units
    of y: dividing y by c lowers it by log c.

    >>> round(gaussian_nlpd([0.0], [0.0], [1.0]), 4)
    0.9189
    """
    sites = check_values("observations y", y)
    scale = match_sites("std", sites, std)
    if not (scale > 0).all():
        raise InputError(
            "std",
            got=f"{float(scale.min())!r}",
            expected="positive standard deviations",
            cause="the prediction leaves the noise out",
            do="pass the standard deviation of Y(x), noise included",
        )
    z = (sites - match_sites("mean", sites, mean)) / scale
    return float(np.mean(0.5 * np.log(2.0 * np.pi) + np.log(scale) + 0.5 * z**2))
