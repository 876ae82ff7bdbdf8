"""Where a one-layer fit begins: the grid, if the user names none, and hyperparameters."""

from __future__ import annotations

import numpy as np

from dtmgp.grids import AbstractGrid, SparseGrid
from dtmgp.kernels import Additive, Tensor
from dtmgp.kriging import DualEvidence, Hyperparameters, Replicates, Settings

MOST_FEATURES = 1500  # of the default level, and
FEATURES_PER_INPUT = 5  # as many per distinct input
START_LENGTHSCALES = (0.5, 2.0, 8.0)
START_NOISES = (0.02, 0.3)


def grid_of(kernel: Tensor | Additive, level: int | AbstractGrid) -> AbstractGrid:
    """A sparse grid of the level over all inputs, or the user's grid."""
    return level if isinstance(level, AbstractGrid) else SparseGrid(kernel.dim, level)


def feature_limit(rows: int) -> int:
    """Most features of a grid that the data choose: 1500, and 5 per distinct input."""
    return min(MOST_FEATURES, FEATURES_PER_INPUT * rows)


def default_level(kernel: Tensor | Additive, rows: int) -> int:
    """The largest level whose features number at most 1500 and at most 5 per distinct input."""
    limit = feature_limit(rows)
    level = 1
    while level < 12 and level_size(kernel, level + 1) <= limit:
        level += 1
    return level


def level_size(kernel: Tensor | Additive, level: int) -> int:
    """Features of a sparse grid in generalised levels, without building it."""
    terms = kernel.terms if isinstance(kernel, Additive) else (((*range(kernel.dim),), kernel),)
    total = 0
    for _, term in terms:
        counts = [[1 << ((g - 1) // k.state_size) for g in range(1, level + 1)] for k in term.kernels]
        total += SparseGrid(term.dim, level).weighted_total(counts)
    return total


def starting_point(
    data: Replicates, kernel: Tensor | Additive, grid: AbstractGrid, settings: Settings, noise: float | None
) -> Hyperparameters:
    """The best of a few settings by evidence on at most 500 inputs; replicates tell the noise."""
    own = kernel.lengthscales
    pure = data.runs - data.rows
    noises = [noise] if noise is not None else list(START_NOISES)
    if noise is None and pure >= 10:
        noises = [float(np.clip(data.spread.sum() / pure, 1e-6, 1.0))]
    if settings.learn_kernel:
        options = [
            Hyperparameters(
                np.full(kernel.dim, scale), np.full(len(kernel.variances), max(1.0, scale)), start
            )
            for scale in START_LENGTHSCALES
            for start in noises
        ]
    else:
        lengthscales = np.where(np.isfinite(own), own, 1.0)
        options = [Hyperparameters(lengthscales, kernel.variances, start) for start in noises]
    if len(options) == 1:
        return options[0]
    subset = np.unique(np.linspace(0, data.rows - 1, min(data.rows, 500)).astype(np.int64))
    probe = DualEvidence(data.take(subset), kernel, grid, settings.mean_std)
    return max(options, key=probe.value)
