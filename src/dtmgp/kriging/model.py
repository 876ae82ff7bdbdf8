"""Fitting the one-layer model: evidence maximisation on the cheapest exact path, then the posterior.

| problem | evidence and its gradient | posterior |
|---|---|---|
| p weights <= 1.5 n inputs, p <= `DENSE_WEIGHTS` | primal, p x p Cholesky | dense |
| else, n <= `DENSE_WEIGHTS` | dual, n x n Cholesky | dense if p <= `DENSE_WEIGHTS`, else iterative |
| else | dual on about `SUBSET` inputs, half spread at random, half in clusters | iterative on all inputs |

In the last case noise and kernel variances are then refined on up to 200,000 inputs (`dtmgp.kriging.refine`). Which
one was taken is logged and stands in ``KrigingModel.path``.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from threadpoolctl import ThreadpoolController

from dtmgp.grids import AbstractGrid
from dtmgp.kernels import Additive, Tensor
from dtmgp.kriging.dual import DualEvidence
from dtmgp.kriging.evidence import Evidence, Hyperparameters
from dtmgp.kriging.iterative import Effort, IterativePosterior, iterative_posterior
from dtmgp.kriging.posterior import DensePosterior
from dtmgp.kriging.refine import MOST_ROWS, refine
from dtmgp.kriging.replicates import Replicates
from dtmgp.random import RandomState, as_generator

Array = np.ndarray
log = logging.getLogger("dtmgp")
DENSE_WEIGHTS = 5000
SUBSET = 2000
CLUSTERS = 10
ONE_THREAD = 1000  # inputs up to which BLAS works on one thread: on small matrices a second one only waits
HOPELESS = 1e6  # minus log evidence per run where the covariance has no Cholesky factor
BLAS = ThreadpoolController()


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Search ranges, for inputs in the unit cube and outputs of unit variance."""

    lengthscale: tuple[float, float] = (1e-2, 1e3)
    variance: tuple[float, float] = (1e-4, 1e7)
    noise: tuple[float, float] = (1e-7, 1e1)


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to fit: what is learned, for how long, and how much effort the iterative path makes."""

    mean_std: float = 10.0
    learn_kernel: bool = True
    learn_noise: bool = True
    max_evaluations: int = 60
    bounds: Bounds = dataclasses.field(default_factory=Bounds)
    effort: Effort = dataclasses.field(default_factory=Effort)


@dataclasses.dataclass(frozen=True)
class KrigingModel:
    """A fitted one-layer model in the coordinates of the unit cube."""

    hyperparameters: Hyperparameters
    log_evidence: float
    log_evidence_error: float  # Monte-Carlo standard error; 0 on the dense path
    posterior: DensePosterior | IterativePosterior
    evaluations: int
    path: str


def maximise(evidence: Evidence, start: Hyperparameters, settings: Settings) -> tuple[Hyperparameters, int]:
    """L-BFGS on the log hyperparameters from ``start``; the best point seen and the number of evaluations."""
    first = start.pack()
    dim, terms = len(start.lengthscales), len(start.variances)
    free = np.concatenate([np.full(dim + terms, settings.learn_kernel), [settings.learn_noise]])
    ranges = settings.bounds
    limits = np.log([ranges.lengthscale] * dim + [ranges.variance] * terms + [ranges.noise])
    best_value, best = -np.inf, first
    count = 0

    def objective(vector: Float[Array, " f"]) -> tuple[float, Float[Array, " f"]]:
        nonlocal best_value, best, count
        full = first.copy()
        full[free] = vector
        count += 1
        try:
            value, gradient = evidence.value_and_gradient(Hyperparameters.unpack(full, dim))
        except (
            np.linalg.LinAlgError
        ):  # a variance so large that rounding outweighs the noise: the search turns back
            return HOPELESS, np.zeros(int(free.sum()))
        if value > best_value:
            best_value, best = value, full
        return -value / evidence.data.runs, -gradient[free] / evidence.data.runs

    if free.any():
        inside = np.clip(first[free], limits[free, 0], limits[free, 1])
        options: dict[str, Any] = {
            "maxfun": settings.max_evaluations,
            "maxiter": settings.max_evaluations,
            "ftol": 2e-6,  # of the evidence per run
            "gtol": 1e-6,
        }
        pairs = [(float(low), float(high)) for low, high in limits[free]]
        minimize(objective, inside, jac=True, method="L-BFGS-B", bounds=pairs, options=options)  # type: ignore[call-overload]
    return Hyperparameters.unpack(best, dim), count


def spread_and_clusters(inputs: Float[Array, "n d"], rng: np.random.Generator) -> Int[Array, " k"]:
    """Half the subset at random, half the nearest neighbours of a few random inputs.

    Close pairs are what tells noise from roughness; a random subset alone has none, and a rough kernel then takes the
    noise for signal (measured: noise 0.022 instead of 0.1 for a Laplace kernel at 10,000 inputs). Clusters bring part
    of it back, and `refine` the rest.
    """
    spread = rng.choice(len(inputs), SUBSET // 2, replace=False)
    centres = rng.choice(len(inputs), CLUSTERS, replace=False)
    near = cKDTree(inputs).query(inputs[centres], k=SUBSET // 2 // CLUSTERS)[1]
    return np.unique(np.concatenate([spread, near.ravel()]))


def fit(
    data: Replicates,
    kernel: Tensor | Additive,
    grid: AbstractGrid | tuple[AbstractGrid, ...],
    start: Hyperparameters,
    settings: Settings,
    random_state: RandomState = 0,
) -> KrigingModel:
    """Maximise the evidence from ``start`` and return the posterior at the best point seen."""
    rng = as_generator(random_state)
    with BLAS.limit(limits=1 if min(data.rows, DENSE_WEIGHTS) <= ONE_THREAD else None, user_api="blas"):
        return _fit(data, kernel, grid, start, settings, rng)


def _fit(
    data: Replicates,
    kernel: Tensor | Additive,
    grid: AbstractGrid | tuple[AbstractGrid, ...],
    start: Hyperparameters,
    settings: Settings,
    rng: np.random.Generator,
) -> KrigingModel:
    evidence = Evidence(data, kernel, grid, settings.mean_std)
    weights = evidence.design(start).size
    dense = weights <= DENSE_WEIGHTS
    if dense and weights <= 1.5 * data.rows:
        learner, how = evidence, f"primal evidence ({weights:,} weights)"
    elif data.rows <= DENSE_WEIGHTS:
        learner, how = (
            DualEvidence(data, kernel, grid, settings.mean_std),
            f"dual evidence ({data.rows:,} inputs)",
        )
    else:
        subset = spread_and_clusters(data.inputs, rng)
        learner = DualEvidence(data.take(subset), kernel, grid, settings.mean_std)
        how = (
            f"dual evidence on a subset of {len(subset):,} of {data.rows:,} inputs, "
            f"noise and variance on {min(data.rows, MOST_ROWS):,}"
        )
    path = f"{how}, {'dense posterior' if dense else 'posterior by conjugate gradients'}"
    log.info("one-layer model: %s", path)
    hyperparameters, count = maximise(learner, start, settings)
    if learner.data is not data:
        hyperparameters, _ = refine(
            evidence,
            hyperparameters,
            settings.effort,
            rng,
            noise_range=settings.bounds.noise,
            variance_range=settings.bounds.variance,
            learn_noise=settings.learn_noise,
            learn_variance=settings.learn_kernel,
        )
    error = 0.0
    posterior: DensePosterior | IterativePosterior
    if dense:
        value, posterior = evidence.posterior(hyperparameters)
    else:
        value, error, posterior = iterative_posterior(
            evidence.design(hyperparameters), data, hyperparameters.noise, settings.effort, rng
        )
    return KrigingModel(hyperparameters, value, error, posterior, count, path)
