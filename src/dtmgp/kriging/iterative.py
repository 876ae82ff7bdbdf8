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
from dtmgp.kriging.conjugate_gradients import conjugate_gradients, lanczos_log
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
    rounds: int = 4  # at most, of noise and variance on all rows; `dtmgp.kriging.refine`
    round_draws: int = 4  # in each of them
    settled: float = 0.02  # change of the log noise at which they stop
    max_iterations: int = 400
    threads: int = 2


class NormalOperator:
    """``A`` and its preconditioner for one design and one set of rows."""

    def __init__(self, design: Design, data: Replicates, noise: Float[Array, " n"], effort: Effort) -> None:
        self.design, self.data, self.precision = design, data, 1.0 / noise
        self.threads = effort.threads
        self.preconditioner = preconditioner_for(
            design, data.inputs, self.precision, effort.coarse, self.apply
        )

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


def solve_posterior(
    design: Design, data: Replicates, noise: float, effort: Effort, random_state: RandomState
) -> IterativePosterior:
    """Mean and a few draws to the tolerance of draws: what one round of `dtmgp.kriging.refine` needs."""
    rng = as_generator(random_state)
    operator = NormalOperator(design, data, (noise + data.known) / data.count, effort)
    b = _right_hand_sides(operator, effort.round_draws, rng)
    solution = conjugate_gradients(
        operator, b, np.full(b.shape[1], effort.draw_tolerance), effort.max_iterations
    )
    return IterativePosterior(design, solution.x[:, 0], solution.x[:, 1:], solution.iterations)


def _right_hand_sides(operator: NormalOperator, draws: int, rng: np.random.Generator) -> Float[Array, "p k"]:
    """Those of the mean and of the draws, in the module's first two equations."""
    data, root = operator.data, np.sqrt(operator.precision)
    per_row = rng.standard_normal((data.rows, 1 + draws))
    per_row[:, 0] = data.mean * root
    b = operator.right_hand_sides(per_row * root[:, None])
    b[:, 1:] += rng.standard_normal((operator.design.size, draws))
    return b


def iterative_posterior(
    design: Design, data: Replicates, noise: float, effort: Effort, random_state: RandomState
) -> tuple[float, float, IterativePosterior]:
    """Log evidence, its Monte-Carlo standard error, and the posterior."""
    rng = as_generator(random_state)
    row_noise = (noise + data.known) / data.count
    operator = NormalOperator(design, data, row_noise, effort)
    b = _right_hand_sides(operator, effort.draws, rng)
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
    fit = np.sum(data.mean**2 / row_noise) - b[:, 0] @ mean
    value = -0.5 * (data.rows * np.log(2 * np.pi) + np.sum(np.log(row_noise)) + log_det + fit)
    value += data.noise_terms(noise)[0]
    posterior = IterativePosterior(design, mean, solution.x[:, 1 : 1 + effort.draws], solution.iterations)
    return float(value), 0.5 * float(error), posterior
