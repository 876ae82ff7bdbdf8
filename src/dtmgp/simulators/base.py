"""What a simulator is, and the checks that all of them make on their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from dtmgp.errors import InputError
from dtmgp.random import RandomState


@runtime_checkable
class Simulator(Protocol):
    """A random output Y(x) for every input x in a box.

    ``bounds`` is (d, 2), lower and upper bound of each input; ``input_names`` has d names. The same
    int as ``random_state`` gives the same bytes. A simulator may claim ``draws_row_by_row = True``: then
    the first k rows of a sample do not depend on the rows after them. The members are checked
    by :func:`dtmgp.testing.check_simulator`.

    >>> from dtmgp.simulators import ActivityNetwork
    >>> isinstance(ActivityNetwork(), Simulator)
    True
    """

    @property
    def bounds(self) -> Float[np.ndarray, "d 2"]:
        """Lower and upper bound of each input, shape (d, 2)."""
        ...

    @property
    def input_names(self) -> tuple[str, ...]:
        """One name for each of the d inputs."""
        ...

    def sample(
        self, X: ArrayLike, n_replicates: int = 1, random_state: RandomState = None
    ) -> Float[np.ndarray, "n r"]:
        """Draw ``n_replicates`` independent outputs at each row of X (n, d); returns (n, n_replicates)."""
        ...


@runtime_checkable
class KnownLaw(Simulator, Protocol):
    """A simulator whose outputs have an exactly computable law.

    ``cdf(X, y)`` is P(Y(x) <= y) at the rows of X (n, d), row by row: y (n, ...) or one number for all rows. So
    ``ks_against_cdf(draws, lambda t: simulator.cdf(X, t))`` compares draws (n, S) with the truth.

    >>> from dtmgp.simulators import ActivityNetwork, BrownianField
    >>> isinstance(BrownianField(), KnownLaw), isinstance(ActivityNetwork(), KnownLaw)
    (True, False)
    """

    def cdf(self, X: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """P(Y(x) <= y) at the rows of X (n, d), for y (n, ...) or a number; returns (n, ...)."""
        ...


def check_inputs(
    X: ArrayLike, bounds: Float[np.ndarray, "d 2"], input_names: Sequence[str]
) -> Float[np.ndarray, "n d"]:
    """Return X as a float64 array (n, d) inside the bounds, or say which row and column is not."""
    # One memory order, because sums over a row round differently in the other.
    inputs = np.asarray(X, dtype=np.float64, order="C")
    dim = len(bounds)
    if inputs.ndim != 2 or inputs.shape[1] != dim:
        raise InputError(
            "simulator inputs X",
            got=f"shape {inputs.shape}",
            expected=f"shape (n, {dim}), one column per input",
            cause="a single input was passed as a 1-D array" if inputs.shape == (dim,) else "",
            do="pass X[None, :]" if inputs.shape == (dim,) else "see the attribute input_names",
        )
    # Written so that NaN counts as outside.
    outside = np.argwhere(~((inputs >= bounds[:, 0]) & (inputs <= bounds[:, 1])))
    if len(outside):
        row, column = (int(index) for index in outside[0])
        lower, upper = (float(bound) for bound in bounds[column])
        raise InputError(
            f"simulator inputs X, row {row}, column {column} ({input_names[column]})",
            got=f"{float(inputs[row, column])!r} (and {len(outside) - 1} more values outside the bounds)",
            expected=f"a value in [{lower!r}, {upper!r}]",
            cause="inputs scaled to the unit cube, or missing values",
            do="scale with the attribute bounds, column by column",
        )
    return inputs


def check_count(name: str, count: object, smallest: int = 1) -> int:
    """Return a whole number that is at least ``smallest``, or say what was passed."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < smallest:
        raise InputError(name, got=repr(count), expected=f"an int of at least {smallest}")
    return int(count)


def check_bounds(bounds: ArrayLike, dim: int | None = None) -> Float[np.ndarray, "d 2"]:
    """Return bounds as a float64 array (d, 2) with lower < upper; one pair serves all ``dim`` inputs."""
    box = np.asarray(bounds, dtype=np.float64)
    if box.shape == (2,) and dim is not None:
        box = np.tile(box, (dim, 1))
    if box.ndim != 2 or box.shape[1] != 2 or box.shape[0] != (box.shape[0] if dim is None else dim):
        rows = "d" if dim is None else str(dim)
        raise InputError(
            "bounds",
            got=f"shape {box.shape}",
            expected=f"shape ({rows}, 2)",
            do="pass one pair (lower, upper) for each input",
        )
    if not np.isfinite(box).all() or not (box[:, 0] < box[:, 1]).all():
        row = int(np.argmin(np.isfinite(box).all(axis=1) & (box[:, 0] < box[:, 1])))
        raise InputError(
            f"bounds of input {row}",
            got=f"({float(box[row, 0])!r}, {float(box[row, 1])!r})",
            expected="two finite numbers, lower < upper",
        )
    return box


def check_outputs(y: ArrayLike, n: int) -> Float[np.ndarray, "n ..."]:
    """Return y as a float64 array (n, ...), values for each of n inputs; one number serves all of them."""
    values = np.asarray(y, dtype=np.float64)
    if values.ndim == 0:
        values = np.full(n, values)
    if values.shape[0] != n:
        raise InputError(
            "outputs y",
            got=f"shape {values.shape} for {n} inputs",
            expected=f"one number, or shape ({n}, ...): values row by row",
            cause="one grid of values for all inputs",
            do="pass np.tile(y, (len(X), 1))",
        )
    if np.isnan(values).any():
        raise InputError("outputs y", got=f"{int(np.isnan(values).sum())} NaN", expected="numbers")
    return values


def check_levels(q: ArrayLike) -> Float[np.ndarray, "..."]:
    """Return the levels of quantiles as a float64 array, a number or (k,), all in [0, 1]."""
    levels = np.asarray(q, dtype=np.float64)
    if levels.ndim > 1 or not ((levels >= 0.0) & (levels <= 1.0)).all():
        raise InputError(
            "levels q of the quantiles",
            got=f"{levels.tolist()!r}" if levels.size < 10 else f"shape {levels.shape}, or values outside",
            expected="a number or shape (k,), in [0, 1]",
        )
    return levels


def along_rows(parameter: Float[np.ndarray, " n"], ndim: int) -> Float[np.ndarray, "n ..."]:
    """Give a parameter of each input (n,) the axes (n, 1, ...) that broadcast against ``ndim`` axes."""
    return parameter.reshape(-1, *(1,) * (ndim - 1))
