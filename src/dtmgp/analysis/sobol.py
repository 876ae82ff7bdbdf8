"""Sobol' indices of the mean, a quantile, the variance or any other functional, with bootstrap standard errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from dtmgp.analysis.base import (
    Array,
    Box,
    Emulator,
    Functional,
    Mean,
    evaluate,
    label_of,
    space_filling,
)
from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator


@dataclasses.dataclass(frozen=True)
class SobolIndices:
    """Shares of the variance of f(x), x uniform in the box.

    ``first[j]`` is the share that x_j explains alone, ``total[j]`` that of all terms x_j takes part in. The standard
    errors are bootstrap ones, over the rows of the design; since the rows are better spread than independent ones, they
    are on the large side. They do not hold the error of the emulator.

    >>> found = sobol_of_function(lambda x: x[:, 0] + 2 * x[:, 1], [(0, 1)] * 3, random_state=0)
    >>> found.first.round(2) + 0.0, found.total.round(2) + 0.0
    (array([0.2, 0.8, 0. ]), array([0.2, 0.8, 0. ]))
    """

    names: tuple[str, ...]
    label: str
    first: Float[Array, " d"]
    total: Float[Array, " d"]
    first_error: Float[Array, " d"]
    total_error: Float[Array, " d"]
    mean: float
    variance: float
    evaluations: int


def sobol_indices(
    model: Emulator,
    functional: Functional | None = None,
    *,
    samples: int = 1024,
    bootstrap: int = 200,
    bounds: npt.ArrayLike | None = None,
    random_state: RandomState = None,
) -> SobolIndices:
    """Sobol' indices of a functional of the model (default the mean) from ``samples * (d + 2)`` predictions."""
    box, functional = Box.of(model, bounds), functional or Mean()
    found = sobol_of_function(
        lambda x: evaluate(functional, model, x),
        np.column_stack([box.low, box.high]),
        samples=samples,
        bootstrap=bootstrap,
        names=box.names,
        random_state=random_state,
    )
    return dataclasses.replace(found, label=label_of(functional))


def sobol_of_function(
    function: Callable[[Float[Array, "n d"]], Float[Array, " n"]],
    bounds: npt.ArrayLike,
    *,
    samples: int = 1024,
    bootstrap: int = 200,
    names: Sequence[str] | None = None,
    random_state: RandomState = None,
) -> SobolIndices:
    """Sobol' indices of a function of x, uniform in ``bounds`` (d, 2).

    First order by Saltelli et al. 2010 (table 2, b), total by Jansen 1999: with f at two independent designs A and
    B, and at A with column j from B, ``V_j = mean f_B (f_AB - f_A)`` and ``T_j = mean (f_A - f_AB)^2 / 2``.
    ``samples`` is rounded up to a power of two.
    """
    limits = np.asarray(bounds, dtype=np.float64)
    dim = len(limits)
    box = Box(limits[:, 0], limits[:, 1], tuple(names or (f"x{j}" for j in range(dim))))
    if samples < 2 or bootstrap < 2:
        raise InputError("samples, bootstrap", got=f"{samples}, {bootstrap}", expected="at least 2 of each")
    rng = as_generator(random_state)
    size = 1 << int(np.ceil(np.log2(samples)))
    both = space_filling(size, 2 * dim, rng)
    a, b = both[:, :dim], both[:, dim:]
    mixed = np.repeat(a[None], dim, axis=0)
    mixed[np.arange(dim), :, np.arange(dim)] = b.T
    design = box.place(np.concatenate([a, b, mixed.reshape(-1, dim)]))
    values = np.asarray(function(design), dtype=np.float64)
    if values.shape != (len(design),):
        raise InputError("function", got=f"shape {values.shape}", expected=f"({len(design)},)")
    mean = float(values[: 2 * size].mean())
    variance = float(values[: 2 * size].var())
    if not variance > 1e-24 * max(1.0, mean**2):
        raise InputError(
            "function",
            got="a constant",
            expected="values that vary over the box",
            cause="no input has an effect, or the box is a point",
        )
    # Centred values: the estimate of V_j is the same in expectation and far less noisy.
    centred = values - mean
    f_a, f_b, f_ab = centred[:size], centred[size : 2 * size], centred[2 * size :].reshape(dim, size)
    first, total = _indices(f_a, f_b, f_ab)
    again = np.empty((bootstrap, 2, dim))
    for draw in again:
        rows = rng.integers(size, size=size)
        draw[:] = _indices(f_a[rows], f_b[rows], f_ab[:, rows])
    errors = again.std(axis=0, ddof=1)
    return SobolIndices(
        box.names, "function", first, total, errors[0], errors[1], mean, variance, len(design)
    )


def _indices(
    f_a: Float[Array, " n"], f_b: Float[Array, " n"], f_ab: Float[Array, "d n"]
) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
    variance = np.concatenate([f_a, f_b]).var()
    first = (f_b * (f_ab - f_a)).mean(axis=1) / variance
    total = 0.5 * ((f_a - f_ab) ** 2).mean(axis=1) / variance
    return first, total
