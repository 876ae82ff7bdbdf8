"""Exact log evidence of the one-layer model and its gradient in the log hyperparameters.

With rows ``Psi``, noise variances ``N`` of the replicate means and ``A = I + Psi^T N^-1 Psi``

    ``log p(y) = -1/2 [n log 2 pi + sum log N + log det A + y^T N^-1 y - c^T A^-1 c] + noise terms of the spread``

with ``c = Psi^T N^-1 y``. Its gradient in the rows is ``alpha mu^T - N^-1 Psi A^-1`` with ``mu = A^-1 c`` and
``alpha = N^-1 (y - Psi mu)``, needed at the active entries only. Two passes over the data in chunks; memory O(p^2).
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, cholesky

from dtmgp.grids import AbstractGrid
from dtmgp.kernels import Additive, Tensor
from dtmgp.kriging.design import Design
from dtmgp.kriging.posterior import DensePosterior, accumulate_gram, symmetric_product
from dtmgp.kriging.replicates import Replicates

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    """Lengthscale per coordinate, kernel variance per term (one for a tensor kernel) and noise variance."""

    lengthscales: Float[Array, " d"]
    variances: Float[Array, " s"]
    noise: float

    def pack(self) -> Float[Array, " k"]:
        """Logarithms as one vector: lengthscales, variances, noise."""
        return np.log(np.concatenate([self.lengthscales, self.variances, [self.noise]]))

    @classmethod
    def unpack(cls, vector: Float[Array, " k"], dim: int) -> Hyperparameters:
        """The inverse of ``pack``."""
        values = np.exp(vector)
        return cls(values[:dim], values[dim:-1], float(values[-1]))


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The evidence of replicated data as a function of the hyperparameters; kernel and grid types are fixed."""

    data: Replicates
    kernel: Tensor | Additive
    grid: AbstractGrid | tuple[AbstractGrid, ...]
    mean_std: float

    def design(self, hyperparameters: Hyperparameters) -> Design:
        """The regression's columns at these hyperparameters."""
        kernel = self.kernel.with_hyperparameters(
            lengthscales=hyperparameters.lengthscales, variance=hyperparameters.variances
        )
        return Design(kernel, self.grid, self.mean_std)

    def posterior(self, hyperparameters: Hyperparameters) -> tuple[float, DensePosterior]:
        """Log evidence and the posterior of the weights."""
        data, design = self.data, self.design(hyperparameters)
        noise = (hyperparameters.noise + data.known) / data.count
        gram = np.zeros((design.size, design.size))
        moment = np.zeros(design.size)
        for part in design.chunks(data.rows):
            entries, columns = design.rows(data.inputs[part])
            weight = 1.0 / np.sqrt(noise[part])
            entries *= weight[:, None]
            accumulate_gram(entries, columns, gram)
            np.add.at(moment, columns, entries * (data.mean[part] * weight)[:, None])
        gram[np.diag_indices_from(gram)] += 1.0
        lower = cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
        mean = cho_solve((lower, True), moment)
        fit = np.sum(data.mean**2 / noise) - moment @ mean
        log_det = np.sum(np.log(noise)) + 2.0 * np.sum(np.log(np.diag(lower)))
        value = -0.5 * (data.rows * np.log(2 * np.pi) + log_det + fit)
        value += data.noise_terms(hyperparameters.noise)[0]
        return float(value), DensePosterior(design, mean, lower)

    def value_and_gradient(self, hyperparameters: Hyperparameters) -> tuple[float, Float[Array, " k"]]:
        """Log evidence and its gradient in ``Hyperparameters.pack()``."""
        value, posterior = self.posterior(hyperparameters)
        data, design = self.data, posterior.design
        variance = hyperparameters.noise + data.known
        noise = variance / data.count
        by_lengthscale = np.zeros(self.kernel.dim)
        by_variance = np.zeros(len(self.kernel.variances))
        by_noise = data.noise_terms(hyperparameters.noise)[1]
        for part in design.chunks(data.rows):
            entries, columns = design.rows(data.inputs[part])
            weights = posterior.mean[columns]
            inverse = 1.0 / noise[part]
            residual = (data.mean[part] - np.einsum("na,na->n", entries, weights)) * inverse
            product = symmetric_product(entries, columns, posterior.covariance)
            leverage = np.einsum("na,na->n", entries, product)
            slope = 0.5 * (residual**2 - inverse + leverage * inverse**2)
            by_noise += float(np.sum(slope / data.count[part]))
            gradient = residual[:, None] * weights - inverse[:, None] * product
            by_variance += 0.5 * design.sum_by_term(gradient * entries)
            by_lengthscale += design.log_lengthscale_gradient(data.inputs[part], entries, gradient)
        return value, np.concatenate([by_lengthscale, by_variance, [hyperparameters.noise * by_noise]])
