"""The interface check of baselines."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtmgp.baselines.base import Baseline
from dtmgp.testing._require import require, require_error, same_bytes


def check_baseline(baseline: Baseline, dim: int = 2, n_inputs: int = 40) -> None:
    """Check shapes, dtype, seeds, batching and refusals of a baseline; it is fitted three times to small data.

    Predictions row by row must agree with predictions at once to 1e-6 of the spread of the training outputs;
    draws are compared between batches only through their seeds, since no baseline promises more.
    """
    generator = np.random.default_rng(0)
    X = generator.random((n_inputs, dim))
    replicates = (X.sum(axis=1) + 3.0)[:, None] + 0.3 * generator.standard_normal((n_inputs, 3))
    new = generator.random((7, dim))
    _check_baseline_refusals(baseline, X, replicates, new)
    spread = float(replicates.std())
    model: Any = baseline  # what predict returns is checked, not assumed
    for y in (replicates, replicates[:, 0]):
        X_before, y_before = X.copy(), y.copy()
        require(baseline.fit(X, y) is baseline, "fit should return the model itself")
        require(same_bytes(X, X_before) and same_bytes(y, y_before), "fit should not change its data")
        mean = model.predict(new)
        require(isinstance(mean, np.ndarray) and mean.shape == (7,), "predict should be an array (n,)")
        both = model.predict(new, return_std=True)
        require(isinstance(both, tuple) and len(both) == 2, "return_std should give (mean, std)")
        std = both[1]
        require(
            np.allclose(both[0], mean, rtol=0, atol=1e-6 * spread), "return_std should not change the mean"
        )
        require(std.shape == (7,) and std.dtype == np.float64, "std should be float64 (n,)")
        require(mean.dtype == np.float64, f"mean should be float64, not {mean.dtype}")
        require(
            np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all(), "finite mean, std > 0"
        )
        single = np.concatenate([model.predict(row[None, :]) for row in new])
        require(
            np.allclose(single, mean, rtol=0, atol=1e-6 * spread),
            "predictions should not depend on the batch",
        )
        _check_draws(baseline, new, mean, std)


def _check_draws(baseline: Baseline, new: np.ndarray, mean: np.ndarray, std: np.ndarray) -> None:
    n = len(new)
    draws = baseline.sample_y(new, 5, 1)
    require(draws.shape == (n, 5), f"sample_y should be (n, S), not {draws.shape}")
    require(baseline.sample_y(new).shape == (n, 1), "sample_y draws once by default")
    require(draws.dtype == np.float64 and np.isfinite(draws).all(), "draws should be finite float64")
    require(
        same_bytes(draws, baseline.sample_y(new, 5, random_state=1)), "same seed should give the same bytes"
    )
    require(
        same_bytes(draws, baseline.sample_y(new, 5, np.random.default_rng(1))),
        "a Generator of the same seed should give the same bytes",
    )
    require(not np.array_equal(draws, baseline.sample_y(new, 5, 2)), "another seed, other draws")
    many = baseline.sample_y(new, 2000, 3)
    # Five standard errors of the mean; a quarter for the standard deviation, which depends on the tails.
    require((np.abs(many.mean(axis=1) - mean) < 5 * std / np.sqrt(2000)).all(), "draws should have the mean")
    require((np.abs(many.std(axis=1) / std - 1) < 0.25).all(), "draws should have the standard deviation")


def _check_baseline_refusals(baseline: Baseline, X: np.ndarray, y: np.ndarray, new: np.ndarray) -> None:
    with_nan = X.copy()
    with_nan[3, 0] = np.nan
    require_error(lambda: baseline.fit(with_nan, y), what="NaN in the training inputs")
    require_error(lambda: baseline.fit(X, y[:-1]), what="fewer outputs than inputs")
    baseline.fit(X, y)
    require_error(lambda: baseline.predict(new[:, :-1]), what="fewer columns than in fit")
    require_error(lambda: baseline.predict(with_nan), what="NaN in the inputs")
    require_error(lambda: baseline.sample_y(new, 0, 0), what="no draws")
