"""Quadratic mean, quadratic log-scale, resampled residuals: the simplest model of a law that depends on x."""

from __future__ import annotations

from typing import Self

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from dtmgp.baselines.base import check_new_inputs, check_sample_count, check_training_data
from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator

_MAX_TERMS = 5000


def quadratic_terms(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n terms"]:
    """All products of at most two coordinates: 1, x_i, x_i x_j with i <= j; 1 + d + d(d+1)/2 columns.

    >>> quadratic_terms(np.array([[2.0, 3.0]]))
    array([[1., 2., 3., 4., 6., 9.]])
    """
    first, second = np.triu_indices(x.shape[1])
    return np.hstack([np.ones((len(x), 1)), x, x[:, first] * x[:, second]])


class QuadraticBootstrap:
    """Y(x) = mean(x) + scale(x) e, with mean and log scale quadratic in x and e resampled residuals.

    Both polynomials are ridge regressions on scaled inputs; the penalty (``ridge`` times the number of rows, the
    constant is free) only keeps the normal equations solvable. Mean and scale are fitted in turns,
    twice: log scale to ``log |residual|``, then the mean weighted by 1/scale^2. The residuals are divided by the
    scale and standardised to mean 0 and variance 1, hence mean(x) and scale(x) are the mean and standard
    deviation of the draws.

    >>> generator = np.random.default_rng(0)
    >>> X = generator.random((300, 1))
    >>> model = QuadraticBootstrap().fit(X, X[:, 0] ** 2 + (1 + X[:, 0]) * generator.normal(size=300))
    >>> model
    QuadraticBootstrap(inputs=1, terms=3, residuals=300)
    >>> model.sample_y([[0.5]], n_samples=4, random_state=0).shape
    (1, 4)
    """

    def __init__(self, ridge: float = 1e-6) -> None:
        if not ridge > 0:
            raise InputError("ridge", got=repr(ridge), expected="a positive number, e.g. 1e-6")
        self.ridge = ridge
        self._dim: int | None = None

    def __repr__(self) -> str:
        if self._dim is None:
            return "QuadraticBootstrap(not fitted)"
        return (
            f"QuadraticBootstrap(inputs={self._dim}, terms={len(self._mean_weights)}, "
            f"residuals={self._residuals.size})"
        )

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit both polynomials and keep the residuals; y (n,) or replicates (n, r)."""
        inputs, outputs = check_training_data(X, y)
        dim = inputs.shape[1]
        n_terms = 1 + dim + dim * (dim + 1) // 2
        if n_terms > _MAX_TERMS:
            raise InputError(
                "training inputs X",
                got=f"{dim} columns, hence {n_terms} quadratic terms",
                expected=f"at most {_MAX_TERMS} terms",
                do="select or project the inputs first",
            )
        self._lower, self._upper = inputs.min(axis=0), inputs.max(axis=0)
        self._dim = dim
        terms = self._terms(inputs)
        uniform = np.ones(len(inputs))
        self._mean_weights = self._regress(terms, outputs.mean(axis=1), uniform)
        # For exact fits, where the logarithm would be -inf.
        floor = max(1e-9 * float(np.abs(outputs).max()), 1e-300)
        for _ in range(2):
            residuals = outputs - (terms @ self._mean_weights)[:, None]
            log_size = np.log(np.maximum(np.abs(residuals), floor)).mean(axis=1)
            self._scale_weights = self._regress(terms, log_size, uniform)
            log_scale = terms @ self._scale_weights
            self._mean_weights = self._regress(
                terms, outputs.mean(axis=1), np.exp(-2.0 * (log_scale - log_scale.min()))
            )
        standardised = (outputs - (terms @ self._mean_weights)[:, None]) / np.exp(log_scale)[:, None]
        spread = float(standardised.std())
        if spread > 0:
            self._scale_weights[0] += np.log(spread)
            standardised = (standardised - standardised.mean()) / spread
        self._residuals = standardised.reshape(-1)
        return self

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> Float[np.ndarray, " n"] | tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean of Y(x) at the rows of X (n, d), shape (n,), and its standard deviation if asked."""
        mean, scale = self._mean_and_scale(X)
        return (mean, scale) if return_std else mean

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = None
    ) -> Float[np.ndarray, "n S"]:
        """Draw ``n_samples`` outputs at each row of X (n, d), independent over rows; returns (n, n_samples)."""
        mean, scale = self._mean_and_scale(X)
        shape = (len(mean), check_sample_count(n_samples))
        draws = as_generator(random_state).choice(self._residuals, size=shape)
        return np.asarray(mean[:, None] + scale[:, None] * draws)

    def _terms(self, inputs: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n terms"]:
        width = self._upper - self._lower
        return quadratic_terms(2.0 * (inputs - self._lower) / np.where(width > 0, width, 1.0) - 1.0)

    def _regress(
        self,
        terms: Float[np.ndarray, "n terms"],
        target: Float[np.ndarray, " n"],
        weights: Float[np.ndarray, " n"],
    ) -> Float[np.ndarray, " terms"]:
        """Weighted ridge regression through the normal equations."""
        weighted = terms * (weights / weights.mean())[:, None]
        gram = weighted.T @ terms
        penalty = np.full(gram.shape[0], self.ridge * len(terms))
        penalty[0] = 0.0
        return np.asarray(cho_solve(cho_factor(gram + np.diag(penalty)), weighted.T @ target))

    def _mean_and_scale(self, X: ArrayLike) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        terms = self._terms(check_new_inputs(X, self._dim))
        return terms @ self._mean_weights, np.exp(terms @ self._scale_weights)
