"""The same evidence for fewer inputs than weights: an n x n Cholesky factor instead of a p x p one.

``C = Psi Psi^T + N``; the gradient in the rows is ``(alpha alpha^T - C^-1) Psi`` with ``alpha = C^-1 y``. Two rows
meet only in the multi-indices in which they share the active feature, so that both products cost n^2 T.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cho_solve, cholesky
from scipy.linalg.lapack import dpotri

from dtmgp.kriging._jit import dual_gram, dual_product
from dtmgp.kriging.design import Design
from dtmgp.kriging.evidence import Evidence, Hyperparameters

Array = np.ndarray


class DualEvidence(Evidence):
    """`Evidence` in its dual form; memory n^2 + n T."""

    def value(self, hyperparameters: Hyperparameters) -> float:
        """Log evidence alone."""
        return self._factorise(hyperparameters)[0]

    def _factorise(
        self, hyperparameters: Hyperparameters
    ) -> tuple[
        float, Float[Array, "n n"], Float[Array, " n"], Float[Array, "n a"], Int[Array, "n a"], Design
    ]:
        data, design = self.data, self.design(hyperparameters)
        entries, columns = design.rows(data.inputs)
        covariance = np.zeros((data.rows, data.rows))
        dual_gram(entries, columns, covariance)
        covariance[np.diag_indices_from(covariance)] += (hyperparameters.noise + data.known) / data.count
        lower = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
        alpha = cho_solve((lower, True), data.mean)
        log_det = 2.0 * np.sum(np.log(np.diag(lower)))
        value = -0.5 * (data.rows * np.log(2 * np.pi) + log_det + data.mean @ alpha)
        value += data.noise_terms(hyperparameters.noise)[0]
        return float(value), lower, alpha, entries, columns, design

    def value_and_gradient(self, hyperparameters: Hyperparameters) -> tuple[float, Float[Array, " k"]]:
        """Log evidence and its gradient in ``Hyperparameters.pack()``."""
        data = self.data
        value, lower, alpha, entries, columns, design = self._factorise(hyperparameters)
        inverse, info = dpotri(lower, lower=1)
        if info:
            raise np.linalg.LinAlgError(f"dpotri returned {info}")
        sensitivity = np.outer(alpha, alpha) - (np.tril(inverse) + np.tril(inverse, -1).T)
        by_noise = data.noise_terms(hyperparameters.noise)[1]
        by_noise += 0.5 * float(np.sum(np.diag(sensitivity) / data.count))
        gradient = np.empty_like(entries)
        dual_product(sensitivity, entries, columns, gradient)
        by_variance = 0.5 * design.sum_by_term(gradient * entries)
        by_lengthscale = design.log_lengthscale_gradient(data.inputs, entries, gradient)
        return value, np.concatenate([by_lengthscale, by_variance, [hyperparameters.noise * by_noise]])
