"""Function draws conditioned on further runs without training, exactly for Gaussian noise on the warped scale.

Given the hidden weights s, the location process is ``f(x) = m_s(x) + phi_s(x)^T w`` with Gaussian weights
``w ~ N(M, C)``: a Gaussian process with covariance ``k_s(x, x') = phi_s(x)^T C phi_s(x')``. For warped runs
``z = f(X) + shift + e``, ``e ~ N(0, D)``:

- every draw of f moves by Matheron's rule, ``f(x) + k_s(x, X) (k_s(X, X) + D)^-1 (z - shift - f(X) - e)``, which
  turns draws of the prior into draws of the posterior given s;
- hidden draws get the weights of Bayes' rule, ``p(z | s) = N(z; m_s(X) + phi_s(X)^T M + shift, k_s(X, X) + D)``.

Together this is the exact posterior of the model whose hidden weights are one of the S draws. ``shift`` and ``D`` are
mean and variance of the noise of each member: for other than Gaussian noise the update uses its first two moments.
Processes that shape the noise are not learned from the new runs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dtmgp.botorch.members import AbstractMembers

JITTER = 1e-10  # of the variance of the process


class Update:
    """What ``runs`` (..., n, W) of warped outputs at inputs (..., n, d) change: values of members, and their weights.

    ``outputs``: the columns that the runs are of; ``noise`` (..., n, W): known variances of the warped runs.
    """

    def __init__(
        self,
        members: AbstractMembers,
        x: Tensor,
        runs: Tensor,
        outputs: tuple[int, ...],
        noise: Tensor | None = None,
    ) -> None:
        self.members, self.outputs = members, outputs
        phi, fixed = members.features(x)
        f = members.processes(phi, fixed)  # (*bx, S, R, n, W)
        law = members.law(f)
        generator = torch.Generator().manual_seed(members.seed + 2)
        logs = []
        self.weighted: list[Tensor] = []  # V phi(X), per output (*bx, S, n, m)
        self.coefficients: list[Tensor] = []  # (K + D)^-1 residual, per output (*B, S, R, n)
        for column, o in enumerate(outputs):
            own = members.times_covariance(phi, o)
            covariance = own @ phi.transpose(-1, -2)  # (*bx, S, n, n)
            shift = law.mean[..., o] - f[..., o]  # (*bx, S, R, n)
            variance = law.variance[..., o]
            if noise is not None:
                variance = noise[..., column].unsqueeze(-2).unsqueeze(-2).expand_as(variance)
            scale = covariance.diagonal(dim1=-1, dim2=-2).mean(-1)[..., None, None]
            matrix = covariance.unsqueeze(-3) + torch.diag_embed(variance + JITTER * scale)
            factor = torch.linalg.cholesky(matrix)  # (*bx, S, R, n, n)
            draw = torch.randn(f.shape[-4:-1], generator=generator, dtype=f.dtype) * variance.sqrt()
            z = runs[..., column].unsqueeze(-2).unsqueeze(-2)  # (*B, 1, 1, n)
            centre = (phi @ members.centre[:, o] + fixed[..., o]).unsqueeze(-2)  # (*bx, S, 1, n)
            surprise = torch.linalg.solve_triangular(factor, (z - shift - centre).unsqueeze(-1), upper=False)[
                ..., 0
            ]
            size = factor.diagonal(dim1=-1, dim2=-2).log().sum(-1) + 0.5 * x.shape[-2] * math.log(2 * math.pi)
            logs.append(-0.5 * surprise.square().sum(-1) - size)
            residual = z - shift - f[..., o] - draw
            self.coefficients.append(torch.cholesky_solve(residual.unsqueeze(-1), factor)[..., 0])
            self.weighted.append(own)
        self.log_evidence = torch.stack(logs).sum(0)  # (*B, S, R)

    @property
    def batch_shape(self) -> torch.Size:
        """Batches of observations."""
        return self.log_evidence.shape[:-2]

    @property
    def weights(self) -> Tensor:
        """Of the members, (*B, S R)."""
        return torch.softmax(self.log_evidence.flatten(-2), dim=-1)

    def __call__(self, phi: Tensor, f: Tensor) -> Tensor:
        """Conditioned process values (..., S, R, q, W) from features (..., S, q, m) and values of the prior draws."""
        columns = {}
        for own, coefficients, o in zip(self.weighted, self.coefficients, self.outputs):
            cross = phi @ own.transpose(-1, -2)  # (..., S, q, n)
            columns[o] = f[..., o] + (cross.unsqueeze(-3) @ coefficients.unsqueeze(-1))[..., 0]
        shape = next(iter(columns.values())).shape
        return torch.stack(
            [columns[o] if o in columns else f[..., o].expand(shape) for o in range(f.shape[-1])], dim=-1
        )
