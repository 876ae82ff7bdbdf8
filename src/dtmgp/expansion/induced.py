"""The induced approximation of section 3.2: any kernel, any points, dense algebra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from scipy.linalg import solve_triangular

from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator

Array = np.ndarray


class InducedExpansion:
    """``G(x) ~ k(x, U) R^-1 Z`` with ``R^T R = k(U, U)`` for any kernel ``k(x, y)`` and any points ``U`` (m, d).

    O(m^3) once, O(m^2) per input: the general form that hierarchical expansions make sparse. ``jitter`` is added to
    the diagonal of ``k(U, U)`` as a fraction of its mean; 0 unless asked for.

    >>> from dtmgp.kernels import Laplace, Tensor
    >>> e = InducedExpansion(Tensor(Laplace(), dim=2), [[0.2, 0.3], [0.7, 0.5]])
    >>> e.features([[0.2, 0.3]]).round(12)
    array([[1., 0.]])
    """

    def __init__(self, kernel: Callable[..., Any], points: npt.ArrayLike, jitter: float = 0.0) -> None:
        self.kernel = kernel
        self.points = np.asarray(points, dtype=np.float64)
        self.jitter = jitter
        covariance = np.asarray(kernel(self.points, self.points), dtype=np.float64)
        covariance = covariance + jitter * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
        try:
            self._upper = np.linalg.cholesky(covariance).T
        except np.linalg.LinAlgError:
            raise InputError(
                "InducedExpansion",
                got=f"a covariance of {len(covariance)} points that is not positive definite",
                expected="a positive definite matrix",
                cause="repeated or nearly equal points under a smooth kernel",
                do="drop repeated points, or pass jitter=1e-10",
            ) from None

    def __repr__(self) -> str:
        return f"InducedExpansion({type(self.kernel).__name__}, m={self.size})"

    @property
    def size(self) -> int:
        """Number of features ``m``."""
        return len(self.points)

    @property
    def active_per_input(self) -> int:
        """All of them."""
        return self.size

    def inverse_cholesky(self) -> Float[Array, "m m"]:
        """``R^-1``, upper triangular, dense."""
        return np.asarray(solve_triangular(self._upper, np.eye(self.size)))

    def features(self, x: npt.ArrayLike) -> Float[Array, "n m"]:
        """``phi(x) = k(x, U) R^-1``, dense."""
        cross = np.asarray(self.kernel(np.asarray(x, dtype=np.float64), self.points))
        return np.asarray(solve_triangular(self._upper, cross.T, trans="T").T)

    def solve(self, a: npt.ArrayLike) -> Float[Array, "r m"]:
        """``A K^-1``."""
        half = solve_triangular(self._upper, np.asarray(a, dtype=np.float64).T, trans="T")
        return np.asarray(solve_triangular(self._upper, half).T)

    def log_det(self) -> float:
        """``log det K``."""
        return float(2.0 * np.log(np.diag(self._upper)).sum())

    def residual_variance(self, x: npt.ArrayLike) -> Float[Array, " n"]:
        """``k(x, x) - |phi(x)|^2``, clipped at 0."""
        points = np.asarray(x, dtype=np.float64)
        prior = np.array([np.asarray(self.kernel(p[None], p[None])).item() for p in points])
        return np.maximum(prior - np.square(self.features(points)).sum(axis=1), 0.0)

    def sample_prior(
        self, x: npt.ArrayLike, n_samples: int = 1, random_state: RandomState = None
    ) -> Float[Array, "n S"]:
        """Draws of ``phi(x)^T Z``, one weight draw per sample."""
        return self.features(x) @ as_generator(random_state).standard_normal((self.size, n_samples))
