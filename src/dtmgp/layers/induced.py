"""Features of the induced expansion (paper, section 3.2) at given points: dense, with the variance they leave out."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

KEPT = 1e-12  # of the largest eigenvalue: directions below it are rounding


class InducedFeatures(nn.Module):
    """``phi(u) = k(u, P) B`` for a product of Matern kernels of unit variance and points ``P`` (m, d).

    The columns of ``B`` (m, r) make ``phi`` orthonormal on the points, ``B^T k(P, P) B = I``; any rotation of them
    carries the same process, and a rotation to the axes of a posterior makes independent weights exact: ``rotate``.
    ``residual(u, phi)`` is ``k(u, u) - |phi(u)|^2``, what the points do not explain. Everything is computed in
    float64; the kernel's parameters are fixed.

    >>> features = InducedFeatures(np.array([[0.2], [0.7]]), np.array([0.5]))
    >>> [round(left, 3) for left in features.residual(torch.tensor([[0.2], [0.45]])).tolist()]
    [0.0, 0.099]
    """

    points: Tensor
    log_lengthscales: Tensor
    basis: Tensor

    def __init__(self, points: np.ndarray, lengthscales: np.ndarray, order: int = 2) -> None:
        super().__init__()
        self.order = order
        self.register_buffer("points", torch.as_tensor(points, dtype=torch.float64))
        self.register_buffer("log_lengthscales", torch.as_tensor(lengthscales, dtype=torch.float64).log())
        values, vectors = torch.linalg.eigh(self.correlation(self.points))
        kept = values > KEPT * values[-1]
        self.register_buffer("basis", vectors[:, kept] * values[kept].rsqrt())

    @classmethod
    def blank(cls, size: int, rank: int, dim: int, order: int) -> InducedFeatures:
        """The shape alone: numbers come from a file."""
        found = cls(np.zeros((1, dim)), np.ones(dim), order)
        found.points = torch.zeros(size, dim, dtype=torch.float64)
        found.basis = torch.zeros(size, rank, dtype=torch.float64)
        return found

    @property
    def dim(self) -> int:
        """Coordinates of an input."""
        return self.points.shape[1]

    @property
    def size(self) -> int:
        """Number of features."""
        return self.basis.shape[1]

    def __repr__(self) -> str:
        return f"InducedFeatures({len(self.points):,} points, m={self.size:,}, kernel=Matern{2 * self.order + 1}2)"

    def correlation(self, u: Tensor) -> Tensor:
        """``k(u, P)`` (..., m)."""
        found: Tensor | None = None
        rates = math.sqrt(2 * self.order + 1) / self.log_lengthscales.exp()
        for coordinate, rate in enumerate(rates):
            t = (u[..., coordinate, None] - self.points[:, coordinate]).abs() * rate
            shape = 1.0 + t if self.order == 1 else 1.0 + t + t * t / 3.0
            own = shape * torch.exp(-t)
            found = own if found is None else found * own
        assert found is not None
        return found

    def dense(self, u: Tensor) -> Tensor:
        """``phi(u)`` (..., r)."""
        return self.correlation(u.to(self.points)) @ self.basis

    def residual(self, u: Tensor, phi: Tensor | None = None) -> Tensor:
        """Variance (...,) of the process given its values at the points."""
        phi = self.dense(u) if phi is None else phi
        return (1.0 - phi.square().sum(-1)).clamp(min=0.0)

    def rotate(self, rotation: Tensor) -> None:
        """Other axes for the same process."""
        self.basis = self.basis @ rotation.to(self.basis)

    def forward(
        self, u: Tensor, mean: Tensor, variance: Tensor | None = None, left: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """``M^T phi(u)`` and, if a table of variances is given, ``V^T phi(u)^2``: (..., W) each.

        ``left`` (W,) adds the residual in units of each process's prior variance.
        """
        phi = self.dense(u)
        first = phi @ mean.to(phi)
        if variance is None:
            return first, None
        second = phi.square() @ variance.to(phi)
        return first, second if left is None else second + self.residual(u, phi).unsqueeze(-1) * left

    def prior_variance(self, u: Tensor) -> Tensor:
        """``|phi(u)|^2`` (...,)."""
        return self.dense(u).square().sum(-1)
