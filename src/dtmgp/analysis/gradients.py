"""Gradients of moments, quantiles or any functional of Y(x) with respect to the inputs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from dtmgp.analysis.base import (
    Array,
    Box,
    Emulator,
    Functional,
    Mean,
    StandardDeviation,
    evaluate,
    inputs_of,
    one_output,
    rows_for,
)
from dtmgp.errors import InputError


def moment_gradients(
    model: Emulator,
    X: npt.ArrayLike,
    functional: Functional | None = None,
    *,
    step: float = 1e-3,
    bounds: npt.ArrayLike | None = None,
    own: bool = True,
) -> Float[Array, "n d"]:
    """``d f(x) / d x_j`` at the rows of X (n, d), in units of f per unit of x_j; default the gradient of the mean.

    Central differences with a step of ``step`` times the width of the box, error O(step^2); next to a face of the box
    the one-sided formula of the same order, so that a model with declared bounds is never asked outside. Kernels
    with kinks (Laplace, Brownian) have no gradient at grid points: there it is the average slope over the step.

    A model with ``moment_gradients(X) -> (of the mean, of the standard deviation)``, each (n, d) or (n, W, d), is asked
    for these two instead (``own=False``: not).

    >>> from dtmgp import TMGPRegressor
    >>> X = np.random.default_rng(0).uniform(size=(50, 2))
    >>> model = TMGPRegressor().fit(X, 3 * X[:, 0])
    >>> moment_gradients(model, [[0.5, 0.5]]).round(2) + 0.0
    array([[3., 0.]])
    """
    functional = functional or Mean()
    x = inputs_of(model, X)
    given = getattr(model, "moment_gradients", None)
    if own and given is not None and isinstance(functional, Mean | StandardDeviation):
        pair = given(rows_for(model, x))
        gradient = np.asarray(pair[0 if isinstance(functional, Mean) else 1], dtype=np.float64)
        return gradient if gradient.ndim == 2 else one_output(gradient, functional.output)
    if not 0.0 < step <= 0.25:
        raise InputError("step", got=repr(step), expected="a fraction of the box in (0, 0.25]")
    box = Box.of(model, bounds)
    outside = (x < box.low) | (x > box.high)
    if outside.any():
        row, column = (int(k) for k in np.argwhere(outside)[0])
        raise InputError(
            f"input {box.names[column]!r}",
            got=f"{x[row, column]:g} in row {row}",
            expected=f"a value in [{box.low[column]:g}, {box.high[column]:g}]",
        )
    nodes, weights = stencil(x, box, step)
    n, dim = x.shape
    probes = np.repeat(np.repeat(x[:, None, None], dim, axis=1), 3, axis=2)  # (n, d, 3, d)
    probes[:, np.arange(dim), :, np.arange(dim)] = nodes.transpose(1, 0, 2)
    values = evaluate(functional, model, probes.reshape(-1, dim)).reshape(n, dim, 3)
    return np.asarray((values * weights).sum(axis=2))


def stencil(
    x: Float[Array, "n d"], box: Box, step: float
) -> tuple[Float[Array, "n d 3"], Float[Array, "n d 3"]]:
    """Three values of each coordinate inside the box, and the weights of the derivative at x, exact for parabolas."""
    h = step * (box.high - box.low)
    centre = np.clip(x, box.low + h, box.high - h)
    offsets = np.array([-1.0, 0.0, 1.0])
    nodes = np.clip(centre[:, :, None] + offsets * h[:, None], box.low[:, None], box.high[:, None])
    # Lagrange derivative at t = (x - centre)/h in {-1 .. 1}: (2t - 1)/2, -2t, (2t + 1)/2
    t = ((x - centre) / h)[:, :, None]
    weights = np.concatenate([t - 0.5, -2.0 * t, t + 0.5], axis=2) / h[:, None]
    return nodes, weights
