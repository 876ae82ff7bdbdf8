"""Two deterministic test functions on the unit cube of any dimension, after Genz (1984), scaled to similar ranges."""

from __future__ import annotations

import numpy as np


def _sharpness(dim: int) -> np.ndarray:
    """Importance of the inputs, falling from the first to the last; 2-norm 4 in every dimension."""
    weights = np.linspace(1.0, 0.2, dim)
    return 4.0 * weights / np.linalg.norm(weights)


def product_peak(x: np.ndarray) -> np.ndarray:
    """Smooth: ``prod_j 1 / (1 + a_j^2 (x_j - 0.4)^2)``, Genz's product peak with height 1.

    >>> float(product_peak(np.full((1, 4), 0.4))[0])
    1.0
    """
    return np.prod(1.0 / (1.0 + (_sharpness(x.shape[1]) * (x - 0.4)) ** 2), axis=1)


def jump(x: np.ndarray) -> np.ndarray:
    """Discontinuous: ``exp(sum_j a_j x_j / 4)`` if x_1 < 0.6 and x_2 < 0.6, else 0, Genz's sixth family.

    >>> jump(np.array([[0.0, 0.0], [0.7, 0.0]]))
    array([1., 0.])
    """
    inside = (x[:, 0] < 0.6) & (x[:, 1] < 0.6)
    return np.where(inside, np.exp(x @ _sharpness(x.shape[1]) / 4.0), 0.0)
