"""The isotropic correlation functions of the model: theta divides the *squared* distance."""

from __future__ import annotations

import enum

import numpy as np
from jaxtyping import Float

from dtmgp.baselines.vecchia import _jit


class Covariance(enum.IntEnum):
    """Correlation as a function of s = |x - y|^2 / theta; the values are twice the smoothness, 0 for the limit.

    ==========  =================================
    MATERN12    exp(-r), r = sqrt(s)
    MATERN32    (1 + r) exp(-r), r = sqrt(3 s)
    MATERN52    (1 + r + r^2/3) exp(-r), r = sqrt(5 s)
    EXP2        exp(-s)
    ==========  =================================

    >>> correlation(np.array([[0.0]]), np.array([[2.0]]), Covariance.EXP2, theta=4.0).round(4)
    array([[0.3679]])
    """

    MATERN12 = _jit.MATERN12
    MATERN32 = _jit.MATERN32
    MATERN52 = _jit.MATERN52
    EXP2 = _jit.EXP2


def correlation(
    a: Float[np.ndarray, "p D"], b: Float[np.ndarray, "q D"], covariance: Covariance, theta: float
) -> Float[np.ndarray, "p q"]:
    """Correlations between the rows of ``a`` and ``b``."""
    squared = np.zeros((len(a), len(b)))
    for column in range(a.shape[1]):
        squared += np.subtract.outer(a[:, column], b[:, column]) ** 2
    scaled = squared / theta
    if covariance is Covariance.EXP2:
        return np.asarray(np.exp(-scaled))
    r = np.sqrt(int(covariance) * scaled)
    decay = np.exp(-r)
    if covariance is Covariance.MATERN32:
        decay *= 1.0 + r
    elif covariance is Covariance.MATERN52:
        decay *= 1.0 + r + r * r / 3.0
    return np.asarray(decay)
