"""Small deep regressors that the tests of estimators share: a fit takes a fifth of a second."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtmgp import DTMGPRegressor


def quick(**options: Any) -> DTMGPRegressor:
    """The default's course with two units, a few features, two epochs and 32 draws."""
    small = {"hidden_widths": (2,), "levels": (2, 2), "max_epochs": 2, "prediction_samples": 32}
    return DTMGPRegressor(**{**small, **options})


def wave(rows: int = 60, replicates: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two inputs in units of their own, a smooth mean, skewed noise: positive outputs."""
    rng = np.random.default_rng(seed)
    x = rng.uniform([0.0, 100.0], [1.0, 200.0], size=(rows, 2)).repeat(replicates, axis=0)
    mean = np.sin(4 * x[:, 0]) + x[:, 1] / 100
    return x, np.exp(0.5 * mean + 0.2 * rng.normal(size=len(x)))
