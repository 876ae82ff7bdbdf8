"""Networks whose completion time has a known law: activities in series, and separate series in parallel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.linalg import expm

from dtmgp.errors import InputError


def series_cdf(times: ArrayLike, means: ArrayLike) -> Float[np.ndarray, "..."]:
    """P(D_1 + ... + D_k <= t) for independent exponential D_i of the given means (hypoexponential law).

    It is 1 - e_1^T exp(S t) 1 with the generator S of the chain of activities, so equal means need no special
    case (the textbook sum of exponentials divides by differences of the rates). ``times`` has any shape,
    ``means`` shape (k,); returns the shape of ``times``.

    >>> series_cdf([1.0, 2.0], [1.0]).round(4)  # one activity: 1 - exp(-t)
    array([0.6321, 0.8647])
    """
    rates = 1.0 / np.asarray(means, dtype=np.float64)
    if rates.ndim != 1 or not rates.size or not (rates > 0).all():
        raise InputError("means of a series", got=repr(means), expected="a 1-D array of positive means")
    generator = np.diag(-rates) + np.diag(rates[:-1], k=1)
    t = np.maximum(np.asarray(times, dtype=np.float64), 0.0)
    survival = expm(t[..., None, None] * generator)[..., 0, :].sum(axis=-1)
    return np.asarray(1.0 - survival)


def parallel_cdf(times: ArrayLike, means_of_paths: Sequence[ArrayLike]) -> Float[np.ndarray, "..."]:
    """P(all paths done by t) for paths that share no arc: the product of their series laws.

    >>> parallel_cdf([1.0, 2.0], [[1.0], [1.0]]).round(4)  # maximum of two exponentials
    array([0.3996, 0.7476])
    """
    t = np.asarray(times, dtype=np.float64)
    return np.asarray(np.prod([series_cdf(t, means) for means in means_of_paths], axis=0))
