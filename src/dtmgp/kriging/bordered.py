"""The mean function's columns eliminated from a preconditioner of the features.

A mean of wide prior lies almost in the span of the features, so that ``A`` is tiny along their difference
``U = [I; -V]``, ``V = A_ff^-1 A_fm``, which no block-diagonal preconditioner sees: d + 1 eigenvalues of ``P^-1 A`` of
1e-4 to 1e-7 (measured, d = 3), each of which costs conjugate gradients many iterations. With ``E = U^T A U``

    ``P^-1 = U E^-1 U^T + [0, 0; 0, P_f^-1]``,    ``log det P = log det E + log det P_f`` .

``V`` is itself found by conjugate gradients; ``P`` is positive definite however exact it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, cholesky

from dtmgp.kriging.conjugate_gradients import Preconditioner, conjugate_gradients

Array = np.ndarray
TOLERANCE = 1e-6  # of V: its error counts squared, times n b^2 / noise
MAX_ITERATIONS = 60


@dataclasses.dataclass(frozen=True)
class FeatureOperator:
    """``A`` restricted to the features: rows and columns from ``first`` on."""

    full: Callable[[Array], Array]
    first: int
    preconditioner: Preconditioner

    def apply(self, vectors: Float[Array, "m k"]) -> Float[Array, "m k"]:
        """``A_ff vectors``."""
        return self.full(np.concatenate([np.zeros((self.first, vectors.shape[1])), vectors]))[self.first :]


class Bordered:
    """The preconditioner above for ``A`` with ``columns`` leading columns; ``apply`` multiplies by A."""

    def __init__(
        self, apply: Callable[[Array], Array], features: Preconditioner, columns: int, size: int
    ) -> None:
        self.columns, self.features = columns, features
        border = apply(np.eye(size, columns))[columns:]
        solution = conjugate_gradients(
            FeatureOperator(apply, columns, features), border, np.full(columns, TOLERANCE), MAX_ITERATIONS
        )
        self.elimination = solution.x
        basis = np.concatenate([np.eye(columns), -self.elimination])
        reduced = basis.T @ apply(basis)
        self.lower = cholesky(0.5 * (reduced + reduced.T), lower=True)

    def solve(self, vectors: Float[Array, "p k"]) -> Float[Array, "p k"]:
        """The formula above."""
        top, rest = vectors[: self.columns], vectors[self.columns :]
        mean = cho_solve((self.lower, True), top - self.elimination.T @ rest)
        return np.concatenate([mean, self.features.solve(rest) - self.elimination @ mean])

    def colour(self, normals: Float[Array, "p k"]) -> Float[Array, "p k"]:
        """``[L_E a + V^T C b; C b]`` for ``E = L_E L_E^T``, ``P_f = C C^T``."""
        rest = self.features.colour(normals[self.columns :])
        return np.concatenate([self.lower @ normals[: self.columns] + self.elimination.T @ rest, rest])

    def log_det(self) -> float:
        """Sum over the two parts: the elimination has determinant one."""
        return float(2.0 * np.log(np.diag(self.lower)).sum()) + self.features.log_det()
