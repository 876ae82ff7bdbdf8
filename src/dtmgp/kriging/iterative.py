"""Posterior of many weights from many rows: preconditioned conjugate gradients, nothing of size n T or p^2 held.

``A = I + Psi^T N^-1 Psi`` is applied chunk by chunk to a block of vectors. Solved together are

    ``A mu = Psi^T N^-1 y``                                  the posterior mean
    ``A z_s = Psi^T N^-1/2 e1_s + e2_s``,  e1, e2 normal     draws with covariance ``A^-1``, exact up to the tolerance
    ``A u_k = g_k``,  ``g_k ~ N(0, P)``                      probes: ``log det A`` by stochastic Lanczos quadrature

with the preconditioner ``P`` of `dtmgp.kriging.preconditioner`.
"""

from __future__ import annotations

import dataclasses
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Float

from dtmgp.kriging._jit import normal_product, transposed_product
from dtmgp.kriging.design import Design
from dtmgp.kriging.preconditioner import preconditioner_for
from dtmgp.kriging.replicates import Replicates
from dtmgp.random import RandomState, as_generator

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Effort:
    """Accuracy of the iterative path. Standard deviations from ``draws`` draws have a relative error of
    ``1/sqrt(2 draws)``: 18% at 16."""

    draws: int = 16
    probes: int = 8
    coarse: int = 4000  # weights in the block of the preconditioner for Matern kernels
    tolerance: float = 1e-6  # of the residual norm, for the mean
    draw_tolerance: float = 1e-3  # the same for draws and probes
    max_iterations: int = 400
    threads: int = 2


class NormalOperator:
    """``A`` and its preconditioner for one design and one set of rows."""

    def __init__(self, design: Design, data: Replicates, noise: Float[Array, " n"], effort: Effort) -> None:
        self.design, self.data, self.precision = design, data, 1.0 / noise
        self.threads = effort.threads
        self.preconditioner = preconditioner_for(design, data.inputs, self.precision, effort.coarse)

    def apply(self, vectors: Float[Array, "p k"]) -> Float[Array, "p k"]:
        """``A vectors``; each thread takes its own fixed chunks and buffer, so that results do not depend on timing."""
        parts = list(self.design.chunks(self.data.rows))

        def work(worker: int) -> Float[Array, "p k"]:
            out = np.zeros_like(vectors)
            for part in parts[worker :: self.threads]:
                entries, columns = self.design.rows(self.data.inputs[part])
                normal_product(entries, columns, self.precision[part], vectors, out)
            return out

        with ThreadPoolExecutor(self.threads) as pool:
            return sum(pool.map(work, range(self.threads)), vectors.copy())

    def right_hand_sides(self, per_row: Float[Array, "n k"]) -> Float[Array, "p k"]:
        """``Psi^T per_row``."""
        out = np.zeros((self.design.size, per_row.shape[1]))
        for part in self.design.chunks(self.data.rows):
            transposed_product(*self.design.rows(self.data.inputs[part]), per_row[part], out)
        return out


@dataclasses.dataclass(frozen=True)
class Solution:
    """Solutions of a block of systems with the Lanczos coefficients that conjugate gradients found on the way."""

    x: Float[Array, "p k"]
    iterations: int
    residual: Float[Array, " k"]
    alphas: list[Float[Array, " k"]]
    betas: list[Float[Array, " k"]]


def conjugate_gradients(
    operator: NormalOperator, b: Float[Array, "p k"], tolerance: Float[Array, " k"], max_iterations: int
) -> Solution:
    """Preconditioned conjugate gradients on several right-hand sides, each with its own steps; stops when all have."""
    x = np.zeros_like(b)
    r = b.copy()
    z = operator.preconditioner.solve(r)
    direction = z.copy()
    rho = np.einsum("pk,pk->k", r, z)
    scale = np.maximum(np.linalg.norm(b, axis=0), np.finfo(float).tiny)
    alphas: list[Array] = []
    betas: list[Array] = []
    residual = np.ones(b.shape[1])
    iterations = 0
    running = np.ones(b.shape[1], dtype=bool)
    while iterations < max_iterations and running.any():
        product = np.zeros_like(b)
        product[:, running] = operator.apply(np.ascontiguousarray(direction[:, running]))
        curvature = np.einsum("pk,pk->k", direction, product)
        step = np.where(running, rho / np.where(running, curvature, 1.0), 0.0)
        x += step * direction
        r -= step * product
        z = operator.preconditioner.solve(r)
        updated = np.einsum("pk,pk->k", r, z)
        turn = np.where(running, updated / np.where(running, rho, 1.0), 0.0)
        direction = np.where(running, z + turn * direction, direction)
        rho = np.where(running, updated, rho)
        alphas.append(step)
        betas.append(turn)
        residual = np.linalg.norm(r, axis=0) / scale
        running = running & (residual > tolerance)
        iterations += 1
    return Solution(x, iterations, residual, alphas, betas)


def lanczos_log(solution: Solution, column: int) -> float:
    """``e1^T log(T) e1`` of the Lanczos matrix of one right-hand side, from its conjugate gradient coefficients."""
    alpha = np.array([step[column] for step in solution.alphas])
    beta = np.array([turn[column] for turn in solution.betas])
    alpha = alpha[alpha > 0]
    beta = beta[: len(alpha)]
    diagonal = 1.0 / alpha
    diagonal[1:] += beta[:-1] / alpha[:-1]
    off = np.sqrt(beta[:-1]) / alpha[:-1]
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    return float(np.sum(vectors[0] ** 2 * np.log(values)))


@dataclasses.dataclass(frozen=True)
class IterativePosterior:
    """Posterior mean and centred draws of the weights; variances are those of the draws."""

    design: Design
    mean: Float[Array, " p"]
    draws: Float[Array, "p S"]
    iterations: int

    def predict(self, x: Float[Array, "n d"], *, with_variance: bool) -> tuple[Array, Array]:
        """Mean and variance of the latent function (the variance is empty unless asked for)."""
        mean = np.empty(len(x))
        variance = np.empty(len(x) if with_variance else 0)
        for part in self.design.chunks(len(x)):
            data, columns = self.design.rows(x[part])
            mean[part] = np.einsum("na,na->n", data, self.mean[columns])
            if with_variance:
                variance[part] = np.mean(
                    [np.einsum("na,na->n", data, z[columns]) ** 2 for z in self.draws.T], axis=0
                )
        return mean, variance

    def sample_weights(self, n_samples: int, random_state: RandomState) -> Float[Array, "p S"]:
        """Draws with the covariance of the stored draws (rank S)."""
        mix = as_generator(random_state).standard_normal((self.draws.shape[1], n_samples))
        return self.mean[:, None] + self.draws @ mix / np.sqrt(self.draws.shape[1])

    def predict_covariance(self, x: Float[Array, "n d"]) -> Float[Array, "n n"]:
        """Covariance of the latent function over the stored draws."""
        data, columns = self.design.rows(x)
        values = np.stack([np.einsum("na,na->n", data, z[columns]) for z in self.draws.T], axis=1)
        return values @ values.T / self.draws.shape[1]

    def __repr__(self) -> str:
        return (
            f"IterativePosterior({len(self.mean):,} weights, {self.iterations} conjugate gradient iterations, "
            f"{self.draws.shape[1]} draws)"
        )


def iterative_posterior(
    design: Design, data: Replicates, noise: float, effort: Effort, random_state: RandomState
) -> tuple[float, float, IterativePosterior]:
    """Log evidence, its Monte-Carlo standard error, and the posterior."""
    rng = as_generator(random_state)
    row_noise = (noise + data.known) / data.count
    operator = NormalOperator(design, data, row_noise, effort)
    per_row = rng.standard_normal((data.rows, 1 + effort.draws))
    per_row[:, 0] = data.mean / np.sqrt(row_noise)
    per_row /= np.sqrt(row_noise)[:, None]
    b = operator.right_hand_sides(per_row)
    moment = b[:, 0].copy()
    b[:, 1:] += rng.standard_normal((design.size, effort.draws))
    normals = rng.standard_normal((design.size, effort.probes))
    right = np.concatenate([b, operator.preconditioner.colour(normals)], axis=1)
    tolerance = np.full(right.shape[1], effort.draw_tolerance)
    tolerance[0] = effort.tolerance
    solution = conjugate_gradients(operator, right, tolerance, effort.max_iterations)
    if solution.residual[0] > effort.tolerance:
        warnings.warn(
            f"conjugate gradients stopped after {solution.iterations} iterations at a relative residual of "
            f"{solution.residual[0]:.1e} (wanted {effort.tolerance:.0e}): more weights than the data determine, or a "
            "larger Effort(max_iterations=...) is needed",
            RuntimeWarning,
            stacklevel=2,
        )
    mean = solution.x[:, 0]
    # z^T P^-1 z = |normals|^2 in each probe; its expectation p is used instead, which has the smaller variance
    logs = np.array([lanczos_log(solution, 1 + effort.draws + k) for k in range(effort.probes)])
    log_det = operator.preconditioner.log_det() + design.size * logs.mean()
    error = design.size * logs.std(ddof=1) / np.sqrt(effort.probes) if effort.probes > 1 else np.nan
    fit = np.sum(data.mean**2 / row_noise) - moment @ mean
    value = -0.5 * (data.rows * np.log(2 * np.pi) + np.sum(np.log(row_noise)) + log_det + fit)
    value += data.noise_terms(noise)[0]
    posterior = IterativePosterior(design, mean, solution.x[:, 1 : 1 + effort.draws], solution.iterations)
    return float(value), 0.5 * float(error), posterior
