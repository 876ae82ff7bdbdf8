"""Interface checks for objects that follow the library's protocols, for third parties as for our own tests.

Each check raises ``AssertionError`` with a sentence that says what was expected.

>>> from dtmgp.simulators import ActivityNetwork
>>> check_simulator(ActivityNetwork(arcs=[(1, 2), (2, 3)]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtmgp.baselines.base import Baseline
from dtmgp.simulators.base import Simulator


def require(condition: object, message: str) -> None:
    """Raise AssertionError(message) unless the condition holds, also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def require_error(call: Callable[[], Any], *words: str, what: str) -> None:
    """Require that the call raises a ValueError whose message contains all the words."""
    try:
        call()
    except ValueError as error:
        for word in words:
            require(
                word in str(error), f"{what}: the message should contain {word!r}, but it is {str(error)!r}"
            )
    else:
        raise AssertionError(f"{what}: a ValueError was expected, nothing was raised")


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays agree in dtype, shape and every bit."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


# --- simulators -------------------------------------------------------------------------------------------


def check_simulator(simulator: Simulator, n_inputs: int = 6, n_replicates: int = 3) -> None:
    """Check bounds, names, shapes, dtype, seeds, refusals and the claim ``draws_row_by_row`` of a simulator.

    Takes about ten small samples. A simulator must be random at a fixed input.
    """
    bounds = simulator.bounds
    require(isinstance(bounds, np.ndarray), "bounds should be a NumPy array")
    require(bounds.ndim == 2 and bounds.shape[1] == 2, f"bounds should be (d, 2), not {bounds.shape}")
    require(bounds.dtype == np.float64, f"bounds should be float64, not {bounds.dtype}")
    require(
        np.isfinite(bounds).all() and (bounds[:, 0] < bounds[:, 1]).all(), "bounds should be lower < upper"
    )
    dim = len(bounds)
    names = simulator.input_names
    require(len(names) == dim and all(isinstance(name, str) for name in names), "one name per input")
    require(len(set(names)) == dim, "names of the inputs should differ")
    bounds[:] = np.nan
    require(
        np.isfinite(simulator.bounds).all(),
        "bounds should be a copy, so that nobody can change the simulator",
    )

    lower, upper = simulator.bounds.T
    X = lower + np.random.default_rng(0).random((n_inputs, dim)) * (upper - lower)
    X[0], X[1] = lower, upper
    before = X.copy()
    draws = simulator.sample(X, n_replicates, 1)
    require(same_bytes(X, before), "sample should not change X")
    require(isinstance(draws, np.ndarray), "sample should return a NumPy array")
    require(draws.shape == (n_inputs, n_replicates), f"sample should be (n, r), not {draws.shape}")
    require(draws.dtype == np.float64, f"sample should be float64, not {draws.dtype}")
    require(np.isfinite(draws).all(), "sample should be finite, on the bounds too")
    require(simulator.sample(X[:0], n_replicates, 1).shape == (0, n_replicates), "no inputs, no rows")

    require(same_bytes(draws, simulator.sample(X, n_replicates, 1)), "same seed should give the same bytes")
    require(
        same_bytes(draws, simulator.sample(np.asfortranarray(X), n_replicates, random_state=1)),
        "the memory order of X should not matter",
    )
    require(
        same_bytes(draws, simulator.sample(X.tolist(), n_replicates, np.random.default_rng(1))),
        "lists and a Generator of the same seed should give the same bytes",
    )
    require(not np.array_equal(draws, simulator.sample(X, n_replicates, 2)), "another seed, other draws")
    generator = np.random.default_rng(1)
    first, second = (simulator.sample(X, n_replicates, generator) for _ in range(2))
    require(not np.array_equal(first, second), "a Generator should go on from where it is")
    many = simulator.sample(X[:2], 50, 3)
    require((np.ptp(many, axis=1) > 0).any(), "replicates of one input should differ")
    if getattr(simulator, "draws_row_by_row", False):
        require(
            same_bytes(draws[:2].copy(), simulator.sample(X[:2], n_replicates, 1)),
            "draws_row_by_row is claimed, but the first rows depend on the rows after them",
        )
    _check_simulator_refusals(simulator, X)


def _check_simulator_refusals(simulator: Simulator, X: np.ndarray) -> None:
    row, column = 1, X.shape[1] - 1
    upper = simulator.bounds[column, 1]
    for value, what in ((upper + 0.5 + abs(upper), "an input outside the bounds"), (np.nan, "a NaN input")):
        bad = X.copy()
        bad[row, column] = value
        require_error(
            lambda bad=bad: simulator.sample(bad, 1, 0),  # type: ignore[misc]
            f"row {row}",
            f"column {column}",
            what=what,
        )
    require_error(lambda: simulator.sample(np.hstack([X, X]), 1, 0), what="twice as many columns")
    require_error(lambda: simulator.sample(X[0], 1, 0), what="a 1-D input")
    require_error(lambda: simulator.sample(X, 0, 0), what="no replicates")


# --- baselines --------------------------------------------------------------------------------------------


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
