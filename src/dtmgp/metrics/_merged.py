"""The difference of two empirical cdfs on the merged sample, from which both distances follow."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


def merged_cdf_difference(
    a: Float[np.ndarray, "... S1"], b: Float[np.ndarray, "... S2"]
) -> tuple[Float[np.ndarray, "... S"], Int[np.ndarray, "... S"]]:
    """Sorted merged sample, and S1*S2*(F_a - F_b) just after each of its values, in exact integers.

    Inside a run of equal values the difference is an intermediate one; only the last of the run is the
    difference of the two cdfs. O(S log S) per row, S = S1 + S2.
    """
    merged = np.concatenate([a, b], axis=-1)
    order = np.argsort(merged, axis=-1, kind="stable")
    # Integer steps: sums of 1/S1 would not return to zero, and equal samples would not have distance 0.
    steps = np.where(order < a.shape[-1], b.shape[-1], -a.shape[-1])
    return np.take_along_axis(merged, order, axis=-1), np.cumsum(steps, axis=-1)
