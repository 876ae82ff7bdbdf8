"""The interface check of simulators."""

from __future__ import annotations

import numpy as np

from dtmgp.simulators.base import Simulator
from dtmgp.testing._require import require, require_error, same_bytes


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
