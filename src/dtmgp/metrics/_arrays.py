"""Checks of draws and observations that all metrics share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from dtmgp.errors import InputError


def check_values(name: str, values: ArrayLike) -> Float[np.ndarray, "..."]:
    """Return a float64 array without NaN, any shape."""
    array = np.asarray(values, dtype=np.float64)
    if np.isnan(array).any():
        raise InputError(
            name,
            got=f"{int(np.isnan(array).sum())} NaN among {array.size} values",
            expected="numbers",
            do="drop the sites that have no prediction, and say how many",
        )
    return array


def check_draws(name: str, draws: ArrayLike, smallest: int = 1) -> Float[np.ndarray, "... S"]:
    """Return finite draws as a float64 array, at least ``smallest`` of them on the last axis."""
    array = check_values(name, draws)
    if array.ndim == 0 or array.shape[-1] < smallest:
        raise InputError(
            name,
            got=f"shape {array.shape}",
            expected=f"shape (..., S), at least {smallest} draws on the last axis",
        )
    if np.isinf(array).any():
        raise InputError(
            name,
            got=f"{int(np.isinf(array).sum())} infinite draws among {array.size}",
            expected="finite draws",
            cause="the model overflowed",
        )
    return array


def check_two_samples(
    a: ArrayLike, b: ArrayLike
) -> tuple[Float[np.ndarray, "... S1"], Float[np.ndarray, "... S2"]]:
    """Return two arrays of draws with equal leading axes, (..., S1) and (..., S2)."""
    first, second = check_draws("first sample", a), check_draws("second sample", b)
    if first.shape[:-1] != second.shape[:-1]:
        raise InputError(
            "two samples",
            got=f"shapes {first.shape} and {second.shape}",
            expected="the same axes before the last one, which holds the draws",
            cause="one sample is transposed" if first.shape[:-1] == second.shape[1:] else "",
        )
    return first, second


def match_sites(name: str, y: Float[np.ndarray, "..."], prediction: ArrayLike) -> Float[np.ndarray, "..."]:
    """Return a prediction that broadcasts against y: same shape, scalar, or one axis less (y holds replicates).

    Plain broadcasting would silently pair replicates with sites when their numbers agree, or make an (n, n) table.
    """
    array = check_values(name, prediction)
    if array.ndim == 0 or array.shape == y.shape:
        return array
    if array.shape == y.shape[:-1]:
        return array[..., None]
    raise InputError(
        name,
        got=f"shape {array.shape} for observations of shape {y.shape}",
        expected=f"shape {y.shape}" + (f" or {y.shape[:-1]}" if y.ndim > 1 else ""),
    )


def check_sites(sites: tuple[int, ...], rows: tuple[int, ...]) -> None:
    """Require one row of draws per observation; a row may also be shared along an axis of length 1."""
    same_rank = len(sites) == len(rows)
    if not same_rank or any(row not in (1, site) for site, row in zip(sites, rows)):
        raise InputError(
            "draws",
            got=f"draws for sites of shape {rows}, observations of shape {sites}",
            expected="one row of draws per observation",
            do="for replicates y (n, r), pass draws[:, None, :]" if len(sites) == len(rows) + 1 else "",
        )


def probabilities(
    name: str, cdf: Callable[[Float[np.ndarray, "..."]], ArrayLike], values: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """Return a cdf of the caller at ``values``, checked for shape and range."""
    result = np.asarray(cdf(values), dtype=np.float64)
    if result.shape != values.shape:
        raise InputError(
            name,
            got=f"result of shape {result.shape}",
            expected=f"the shape of its input, {values.shape}",
        )
    if not ((result >= 0.0) & (result <= 1.0)).all():
        raise InputError(
            name, got="values outside [0, 1] or NaN", expected="probabilities", do="check the parameters"
        )
    return result
