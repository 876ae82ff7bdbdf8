"""Wasserstein distance in one dimension."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from dtmgp.metrics._arrays import check_two_samples
from dtmgp.metrics._merged import merged_cdf_difference


def wasserstein(a: ArrayLike, b: ArrayLike) -> Float[np.ndarray, "..."]:
    """Distance of order 1, the integral of ``|F_a - F_b|``, along the last axis: (..., S1), (..., S2) -> (...).

    In the units of the output; two samples of one law have a positive distance, about their spread / sqrt(S).

    >>> wasserstein([[0.0, 1.0]], [[2.0, 3.0, 2.0, 3.0]])
    array([2.])
    """
    first, second = check_two_samples(a, b)
    if first.shape[-1] == second.shape[-1]:
        # The sorted samples are matched in order; no merging needed.
        return np.asarray(np.abs(np.sort(first, axis=-1) - np.sort(second, axis=-1)).mean(axis=-1))
    values, difference = merged_cdf_difference(first, second)
    area = (np.abs(difference[..., :-1]) * np.diff(values, axis=-1)).sum(axis=-1)
    return np.asarray(area / (first.shape[-1] * second.shape[-1]))
