"""A density estimate of y that does not look at x: what a model must beat to have learned anything from x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from dtmgp.baselines.base import check_new_inputs, check_sample_count, check_training_data
from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator

_ENTRIES = 1 << 22  # of the table of distances held at once


def silverman_bandwidth(y: Float[np.ndarray, " n"]) -> float:
    """Silverman's rule 0.9 min(std, IQR/1.34) n^(-1/5), robust to tails (Silverman 1986, eq. 3.31).

    >>> round(silverman_bandwidth(np.array([-1.0, 0.0, 1.0, 2.0])), 3)
    0.763
    """
    quartiles = np.quantile(y, [0.25, 0.75])
    spread = float(quartiles[1] - quartiles[0]) / 1.34
    std = float(np.std(y))
    # More than half of the values may be equal.
    return 0.9 * (min(std, spread) if spread > 0 else std) * float(y.size**-0.2)


def scott_bandwidth(y: Float[np.ndarray, " n"]) -> float:
    """Scott's rule 1.06 std n^(-1/5), optimal for a Gaussian.

    >>> round(scott_bandwidth(np.array([-1.0, 1.0])), 3)
    0.923
    """
    return 1.06 * float(np.std(y)) * float(y.size**-0.2)


class InputIgnoringKDE:
    """Gaussian kernel density estimate of all outputs: Y(x) ~ (1/n) sum_i N(y_i, h^2), whatever x is.

    ``bandwidth`` is h itself (0 resamples the outputs) or a function of the outputs (n,) that
    returns it. Means and standard deviations are those of the estimate, h included.

    >>> generator = np.random.default_rng(0)
    >>> model = InputIgnoringKDE().fit(generator.random((200, 2)), generator.normal(size=200))
    >>> model
    InputIgnoringKDE(bandwidth=0.309, n=200)
    >>> model.sample_y([[0.5, 0.5]], n_samples=3, random_state=0).shape
    (1, 3)
    """

    def __init__(
        self, bandwidth: float | Callable[[Float[np.ndarray, " n"]], float] = silverman_bandwidth
    ) -> None:
        if not callable(bandwidth) and not bandwidth >= 0:
            raise InputError(
                "bandwidth",
                got=repr(bandwidth),
                expected="a non-negative number or a function of y that returns one",
            )
        self.bandwidth = bandwidth
        self._dim: int | None = None

    def __repr__(self) -> str:
        if self._dim is None:
            return "InputIgnoringKDE(not fitted)"
        return f"InputIgnoringKDE(bandwidth={self.bandwidth_:.3g}, n={self._outputs.size})"

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep the outputs y, (n,) or replicates (n, r), and choose the bandwidth."""
        inputs, outputs = check_training_data(X, y)
        self._dim = inputs.shape[1]
        self._outputs = outputs.reshape(-1).copy()
        self.bandwidth_ = float(self.bandwidth(self._outputs) if callable(self.bandwidth) else self.bandwidth)
        return self

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> Float[np.ndarray, " n"] | tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean of the estimate at every row of X (n, d), shape (n,), and its standard deviation if asked."""
        n = len(check_new_inputs(X, self._dim))
        mean = np.full(n, self._outputs.mean())
        if not return_std:
            return mean
        return mean, np.full(n, np.sqrt(self._outputs.var() + self.bandwidth_**2))

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = None
    ) -> Float[np.ndarray, "n S"]:
        """Draw ``n_samples`` outputs at each row of X (n, d), independent over rows; returns (n, n_samples)."""
        shape = (len(check_new_inputs(X, self._dim)), check_sample_count(n_samples))
        generator = as_generator(random_state)
        centres = generator.choice(self._outputs, size=shape)
        return centres + self.bandwidth_ * generator.standard_normal(shape)

    def log_prob(self, X: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "n r"]:
        """Log density of the estimate at y (n, r), whatever the rows of X (n, d) are."""
        n = len(check_new_inputs(X, self._dim))
        values = np.asarray(y, dtype=np.float64)
        if values.ndim != 2 or len(values) != n:
            raise InputError("outputs y", got=f"shape {values.shape}", expected=f"({n}, r)")
        if not self.bandwidth_ > 0:
            raise InputError("log_prob", got="bandwidth 0, a law without density", expected="a positive one")
        centres, count = np.unique(self._outputs, return_counts=True)
        flat, found = values.ravel(), np.empty(values.size)
        for part in np.array_split(np.arange(flat.size), 1 + flat.size * len(centres) // _ENTRIES):
            z = (flat[part, None] - centres) / self.bandwidth_
            found[part] = logsumexp(-0.5 * z**2, axis=1, b=count)
        found -= np.log(self._outputs.size * self.bandwidth_ * np.sqrt(2.0 * np.pi))
        return found.reshape(values.shape)
