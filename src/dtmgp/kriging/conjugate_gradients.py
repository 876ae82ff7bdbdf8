"""Preconditioned conjugate gradients on a block of right-hand sides, and the logarithm that its coefficients give."""

from __future__ import annotations

import dataclasses
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

Array = np.ndarray


@runtime_checkable
class Preconditioner(Protocol):
    """A symmetric positive definite ``P`` close to ``A``."""

    def solve(self, vectors: Float[Array, "p k"]) -> Float[Array, "p k"]:
        """``P^-1 vectors``."""

    def colour(self, normals: Float[Array, "p k"]) -> Float[Array, "p k"]:
        """A square root of P times ``normals``: vectors with covariance P."""

    def log_det(self) -> float:
        """``log det P``."""


@runtime_checkable
class Operator(Protocol):
    """A symmetric positive definite ``A`` known by its products, with a preconditioner."""

    @property
    def preconditioner(self) -> Preconditioner:
        """An approximation that is cheap to invert."""

    def apply(self, vectors: Float[Array, "p k"]) -> Float[Array, "p k"]:
        """``A vectors``."""


@dataclasses.dataclass(frozen=True)
class Solution:
    """Solutions of a block of systems with the Lanczos coefficients that conjugate gradients found on the way."""

    x: Float[Array, "p k"]
    iterations: int
    residual: Float[Array, " k"]
    alphas: list[Float[Array, " k"]]
    betas: list[Float[Array, " k"]]


def conjugate_gradients(
    operator: Operator, b: Float[Array, "p k"], tolerance: Float[Array, " k"], max_iterations: int
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
