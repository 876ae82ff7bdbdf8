"""What a baseline is, and the checks that all of them make on their data."""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from dtmgp.errors import InputError
from dtmgp.random import RandomState


@runtime_checkable
class Baseline(Protocol):
    """A model of the law of Y(x): ``fit``, ``predict``, ``sample_y``; noise is part of every prediction.

    Checked by :func:`dtmgp.testing.check_baseline`.

    >>> from dtmgp.baselines import InputIgnoringKDE
    >>> isinstance(InputIgnoringKDE(), Baseline)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to inputs X (n, d) and outputs y (n,), or r replicates of each input, y (n, r)."""
        ...

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> Float[np.ndarray, " n"] | tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean of Y(x) at the rows of X (n, d), shape (n,); with ``return_std`` also its standard deviation."""
        ...

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = None
    ) -> Float[np.ndarray, "n S"]:
        """Draw Y(x) ``n_samples`` times at each row of X (n, d); returns (n, n_samples)."""
        ...


def check_training_data(
    X: ArrayLike, y: ArrayLike
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n r"]]:
    """Return finite float64 inputs (n, d) and outputs as replicates (n, r), n >= 2; y (n,) becomes (n, 1)."""
    inputs = _check_matrix("training inputs X", X)
    outputs = np.asarray(y, dtype=np.float64)
    if outputs.ndim == 1:
        outputs = outputs[:, None]
    outputs = _check_matrix("training outputs y", outputs)
    if len(inputs) != len(outputs):
        raise InputError(
            "training outputs y",
            got=f"{len(outputs)} rows for {len(inputs)} inputs",
            expected="one row of y per row of X",
            cause="replicates are in rows instead of columns" if outputs.shape[1] == len(inputs) else "",
        )
    if len(inputs) < 2:
        raise InputError("training data", got=f"{len(inputs)} rows", expected="at least 2")
    return inputs, outputs


def check_new_inputs(X: ArrayLike, dim: int | None) -> Float[np.ndarray, "n d"]:
    """Return finite float64 inputs (n, dim); ``dim`` is None before fit."""
    if dim is None:
        raise InputError("model", got="no fitted model", expected="fit before predict", do="call fit(X, y)")
    inputs = _check_matrix("inputs X", X)
    if inputs.shape[1] != dim:
        raise InputError(
            "inputs X", got=f"{inputs.shape[1]} columns", expected=f"{dim} columns, as in the training data"
        )
    return inputs


def check_sample_count(n_samples: object) -> int:
    """Return the number of draws per row as an int, at least 1."""
    if isinstance(n_samples, bool) or not isinstance(n_samples, int | np.integer) or n_samples < 1:
        raise InputError("n_samples", got=repr(n_samples), expected="an int of at least 1")
    return int(n_samples)


def _check_matrix(name: str, values: ArrayLike) -> Float[np.ndarray, "n d"]:
    matrix = np.asarray(values, dtype=np.float64, order="C")
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(
            name,
            got=f"shape {matrix.shape}",
            expected="a 2-D array, one row per input",
            do="pass X[:, None] for a single column" if matrix.ndim == 1 else "",
        )
    if not np.isfinite(matrix).all():
        row, column = (int(index) for index in np.argwhere(~np.isfinite(matrix))[0])
        raise InputError(
            f"{name}, row {row}, column {column}",
            got=repr(float(matrix[row, column])),
            expected="finite numbers",
        )
    return matrix
