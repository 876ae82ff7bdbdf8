"""What the profiler in the page evaluates: the model's mean and quantiles, interpolated from stored predictions.

Up to three inputs: a full grid, linear in every cell. More: a Gaussian process interpolant (Matern 5/2 with a wide
quadratic trend) at Sobol' points. `assets/profiler.js` evaluates the same formulas; the page states the error, measured
at fresh inputs.
"""

from __future__ import annotations

import base64
import dataclasses
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from dtmgp.analysis.base import ROWS, Box, Emulator, one_output, rows_for, space_filling
from dtmgp.random import as_generator

Array = np.ndarray
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
GRID_SIZES = {1: 257, 2: 49, 3: 17}
LENGTHSCALES = (0.3, 0.5, 0.85, 1.5, 2.5, 4.5)
NUGGETS = (1e-6, 1e-3)
TREND = 100.0  # prior variance of the coefficients of the trend, in units of each functional's variance
FRESH = 300


@dataclasses.dataclass(frozen=True)
class Surrogate:
    """Functionals (mean, then the quantiles at ``LEVELS``) on the unit cube; ``kind`` says which formula.

    ``rms`` and ``largest`` are the errors at fresh inputs, per functional, in units of the mean predictive standard
    deviation there.
    """

    kind: str
    sizes: tuple[int, ...]
    points: Float[Array, "p d"]
    weights: Float[Array, "m f"]
    trend: Float[Array, "t f"]
    centre: Float[Array, " f"]
    scales: Float[Array, " d"]
    rms: Float[Array, " e"]
    largest: Float[Array, " e"]
    predictions: int

    def __call__(self, u: Float[Array, "n d"]) -> Float[Array, "n f"]:
        """Values at points of the unit cube."""
        if self.kind == "grid":
            return _multilinear(u, self.sizes, self.weights)
        return np.asarray(
            self.centre + _matern(u, self.points, self.scales) @ self.weights + trend_terms(u) @ self.trend
        )

    def describe(self) -> dict[str, Any]:
        """For the page: numbers as base64 of little-endian floats."""
        plain = {"kind": self.kind, "sizes": list(self.sizes), "functionals": self.weights.shape[1]}
        single = self.kind == "grid"
        return {
            **plain,
            "weights": encode(self.weights, single),
            "single": single,
            "points": encode(self.points, True),
            "trend": encode(self.trend),
            "centre": encode(self.centre),
            "scales": encode(self.scales),
        }


def encode(values: Array, single: bool = False) -> str:
    """Base64 of an array, rows one after another, as 64-bit floats, or 32-bit ones."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4" if single else "<f8").tobytes()).decode()


def functionals(model: Emulator, x: Float[Array, "n d"], output: int | None) -> Float[Array, "n f"]:
    """Mean and quantiles side by side."""
    parts = []
    for start in range(0, len(x), ROWS // 4):
        rows = rows_for(model, x[start : start + ROWS // 4])
        mean = np.asarray(model.predict(rows), dtype=np.float64)
        quantiles = np.asarray(model.predict_quantiles(rows, list(LEVELS)), dtype=np.float64)
        if mean.ndim == 2:
            mean, quantiles = one_output(mean, output), one_output(quantiles, output)
        parts.append(np.column_stack([mean, quantiles]))
    return np.concatenate(parts)


def build(model: Emulator, *, output: int | None = None, points: int = 0, seed: int = 0) -> Surrogate:
    """Store predictions and measure the error between them; ``points`` 0 means 400 + 60 d, at most 1200."""
    box, rng = Box.of(model), as_generator(seed)
    fresh = space_filling(FRESH, box.dim, rng)
    truth = functionals(model, box.place(fresh), output)
    if box.dim in GRID_SIZES:
        sizes = (GRID_SIZES[box.dim],) * box.dim
        nodes = np.array(list(product(*(np.linspace(0, 1, n) for n in sizes))))
        weights = functionals(model, box.place(nodes), output).astype(np.float32).astype(np.float64)
        empty = np.empty((0, weights.shape[1]))
        made = Surrogate(
            "grid",
            sizes,
            np.empty((0, box.dim)),
            weights,
            empty,
            np.zeros(weights.shape[1]),
            np.ones(box.dim),
            np.empty(0),
            np.empty(0),
            len(nodes),
        )
    else:
        made = _interpolant(model, box, output, points or min(1200, 400 + 60 * box.dim), rng)
    spread = np.asarray(
        model.predict(rows_for(model, box.place(fresh)), return_std=True)[1], dtype=np.float64
    )
    spread = spread if spread.ndim == 1 else one_output(spread, output)
    error = np.abs(made(fresh) - truth) / max(float(spread.mean()), 1e-300)
    return dataclasses.replace(made, rms=np.sqrt((error**2).mean(axis=0)), largest=error.max(axis=0))


def _interpolant(
    model: Emulator, box: Box, output: int | None, count: int, rng: np.random.Generator
) -> Surrogate:
    # Stretched beyond the cube and cut: sliders go to the faces, where an interpolant needs points.
    unit = np.clip(0.5 + 1.2 * (space_filling(count, box.dim, rng) - 0.5), 0.0, 1.0)
    unit = unit.astype(np.float32).astype(np.float64)
    values = functionals(model, box.place(unit), output)
    centre, size = values.mean(axis=0), np.maximum(values.std(axis=0), 1e-300)
    target = (values - centre) / size
    importance = _importance(model, box, output, size, rng)
    terms = trend_terms(unit)
    best: tuple[float, Array, Array] | None = None
    for scale, nugget in product(LENGTHSCALES, NUGGETS):
        scales = importance / scale
        matrix = _matern(unit, unit, scales) + TREND * terms @ terms.T
        matrix[np.diag_indices(count)] += nugget
        factor = cho_factor(matrix, lower=True)
        inverse = cho_solve(factor, np.eye(count))
        alpha = inverse @ target
        # leave-one-out errors in closed form
        error = float(((alpha / np.diag(inverse)[:, None]) ** 2).mean())
        if best is None or error < best[0]:
            best = (error, scales, alpha)
    assert best is not None  # the loops are not empty
    _, scales, alpha = best
    weights = alpha * size
    return Surrogate(
        "matern",
        (),
        unit,
        weights,
        TREND * terms.T @ weights,
        centre,
        scales,
        np.empty(0),
        np.empty(0),
        count,
    )


def _importance(
    model: Emulator, box: Box, output: int | None, size: Float[Array, " f"], rng: np.random.Generator
) -> Float[Array, " d"]:
    """Root mean square slope of all functionals along every input, the largest 1 and none below 0.1."""
    step, count = 0.2, 64
    start = space_filling(count, box.dim, rng) * (1.0 - step)
    moved = np.repeat(start[None], box.dim + 1, axis=0)
    moved[np.arange(box.dim), :, np.arange(box.dim)] += step
    values = functionals(model, box.place(moved.reshape(-1, box.dim)), output)
    values = values.reshape(box.dim + 1, count, -1) / size
    slope = np.sqrt(((values[:-1] - values[-1]) ** 2).mean(axis=(1, 2)))
    return np.asarray(np.clip(slope / max(float(slope.max()), 1e-300), 0.1, 1.0))


def trend_terms(u: Float[Array, "n d"]) -> Float[Array, "n t"]:
    """1, every coordinate from -1 to 1, and its square."""
    v = 2.0 * u - 1.0
    return np.hstack([np.ones((len(u), 1)), v, v**2])


def _matern(
    a: Float[Array, "n d"], b: Float[Array, "m d"], scales: Float[Array, " d"]
) -> Float[Array, "n m"]:
    squared = np.zeros((len(a), len(b)))
    for column, scale in enumerate(scales):
        squared += (scale * (a[:, None, column] - b[None, :, column])) ** 2
    r = np.sqrt(5.0 * squared)
    return np.asarray((1.0 + r + r**2 / 3.0) * np.exp(-r))


def _multilinear(
    u: Float[Array, "n d"], sizes: tuple[int, ...], table: Float[Array, "m f"]
) -> Float[Array, "n f"]:
    dim = len(sizes)
    spots = np.clip(u, 0.0, 1.0) * (np.array(sizes) - 1.0)
    cells = np.minimum(spots.astype(np.int64), np.array(sizes) - 2)
    share = spots - cells
    strides = np.array([int(np.prod(sizes[j + 1 :])) for j in range(dim)])
    total = np.zeros((len(u), table.shape[1]))
    for corner in product((0, 1), repeat=dim):
        weight = np.prod(np.where(corner, share, 1.0 - share), axis=1)
        total += weight[:, None] * table[(cells + np.array(corner)) @ strides]
    return total
