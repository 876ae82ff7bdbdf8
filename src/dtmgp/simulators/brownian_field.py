"""The paper's non-Gaussian random field: the logistic function of a Brownian sheet."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import expit, logit, ndtr, ndtri

from dtmgp.random import RandomState, as_generator
from dtmgp.simulators.base import along_rows, check_count, check_inputs, check_levels, check_outputs


class BrownianField:
    """``Y(x) = 1 / (1 + exp(B(x)))`` on [0, 1]^d, B a centred Gaussian with covariance prod_j (1 + min(x_j, x'_j)).

    The random field of section 5.1 of the paper. :meth:`sample` draws every output from a sheet of its own (the
    paper's text); :meth:`sample_paths` draws whole sheets (its authors' script trains on one). Since B(x) is
    N(0, prod_j (1 + x_j)), the law of Y(x) is logit-normal: cdf, density and quantiles are exact.

    In more than five dimensions draws within 1e-16 of 1 are common, and round to 1.

    >>> field = BrownianField()
    >>> field.sample([[0.0, 0.0], [1.0, 1.0]], n_replicates=3, random_state=0).round(2)
    array([[0.53, 0.47, 0.65],
           [0.55, 0.26, 0.67]])
    >>> field.quantile([[1.0, 1.0]], [0.025, 0.5, 0.975]).round(2)
    array([[0.02, 0.5 , 0.98]])
    """

    draws_row_by_row = True

    def __init__(self, dim: int = 2) -> None:
        self.dim = check_count("dim", dim)

    def __repr__(self) -> str:
        return f"BrownianField(dim={self.dim})"

    @property
    def bounds(self) -> Float[np.ndarray, "d 2"]:
        """The unit cube, shape (d, 2)."""
        return np.tile([0.0, 1.0], (self.dim, 1))

    @property
    def input_names(self) -> tuple[str, ...]:
        """``x1``, ``x2``, ..."""
        return tuple(f"x{j}" for j in range(1, self.dim + 1))

    def sample(
        self, X: ArrayLike, n_replicates: int = 1, random_state: RandomState = None
    ) -> Float[np.ndarray, "n r"]:
        """Draw independent outputs at the rows of X (n, d), each from its own sheet; returns (n, n_replicates)."""
        scale = self._scale(X)
        shape = (len(scale), check_count("n_replicates", n_replicates))
        # -B has the law of B.
        return np.asarray(expit(scale[:, None] * as_generator(random_state).standard_normal(shape)))

    def sample_paths(
        self, X: ArrayLike, n_paths: int = 1, random_state: RandomState = None
    ) -> Float[np.ndarray, "n p"]:
        """Draw ``n_paths`` joint sample paths at the rows of X (n, d); returns (n, n_paths), a path per column.

        Equal rows get equal values. Exact up to rounding, from the Cholesky factor of the covariance of the k
        different rows: O(k^3) time, 32 MB for 2,000 rows.
        """
        inputs = check_inputs(X, self.bounds, self.input_names)
        n_paths = check_count("n_paths", n_paths)
        rows, place = np.unique(inputs, axis=0, return_inverse=True)
        normal = as_generator(random_state).standard_normal((len(rows), n_paths))
        return np.asarray(expit(_root(self._covariance(rows)) @ normal)[place.reshape(-1)])

    def cdf(self, X: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """P(Y(x) <= y) = Phi(logit(y) / s(x)), s^2 = prod_j (1 + x_j); y (n, ...) row by row, or a number."""
        scale = self._scale(X)
        values = check_outputs(y, len(scale))
        return np.asarray(ndtr(logit(np.clip(values, 0.0, 1.0)) / along_rows(scale, values.ndim)))

    def pdf(self, X: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """Density of Y(x), phi(logit(y) / s(x)) / (s(x) y (1 - y)), zero outside (0, 1); shapes as in :meth:`cdf`."""
        scale = self._scale(X)
        values = check_outputs(y, len(scale))
        inside = (values > 0.0) & (values < 1.0)
        safe = np.where(inside, values, 0.5)
        rows = along_rows(scale, values.ndim)
        density = np.exp(-0.5 * (logit(safe) / rows) ** 2) / (
            np.sqrt(2.0 * np.pi) * rows * safe * (1.0 - safe)
        )
        return np.where(inside, density, 0.0)

    def quantile(self, X: ArrayLike, q: ArrayLike) -> Float[np.ndarray, "n ..."]:
        """Quantiles of Y(x) at the rows of X (n, d): (n,) for a number q, (n, k) for levels (k,)."""
        levels = check_levels(q)
        return np.asarray(expit(np.multiply.outer(self._scale(X), ndtri(levels))))

    def _scale(self, X: ArrayLike) -> Float[np.ndarray, " n"]:
        """Standard deviation of B at the rows of X."""
        inputs = check_inputs(X, self.bounds, self.input_names)
        return np.sqrt(np.prod(1.0 + inputs, axis=1))

    def _covariance(self, inputs: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n n"]:
        covariance = np.ones((len(inputs), len(inputs)))
        for column in inputs.T:
            covariance *= 1.0 + np.minimum.outer(column, column)
        return covariance


def _root(covariance: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """A matrix A with A A^T = covariance: the Cholesky factor, or the eigenvectors if rows are almost equal."""
    try:
        return np.asarray(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
