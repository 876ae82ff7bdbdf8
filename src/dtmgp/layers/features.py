"""The features of an expansion as a torch module: it owns the kernel's hyperparameters and contracts weight tables."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.ops import LineFunctions, contract_fast, plans_of
from dtmgp.ops.dense import features


class ExpansionFeatures(nn.Module):
    """``phi(u)`` of one expansion, never formed: ``forward`` gives ``M^T phi`` and ``V^T phi^2``.

    Lengthscales (one per coordinate and term) and variances (one per term) start at the kernel's and are learned on a
    logarithmic scale unless ``learn_kernel`` is False.

    >>> from dtmgp.grids import SparseGrid
    >>> from dtmgp.kernels import Matern32
    >>> ExpansionFeatures(HierarchicalExpansion(Matern32(), SparseGrid(2, 3)))
    ExpansionFeatures(m=8, T=6, kernel=Matern32)
    """

    def __init__(self, expansion: HierarchicalExpansion, *, learn_kernel: bool = True) -> None:
        super().__init__()
        self.expansion = expansion
        self.dim = expansion.dim
        self.size = expansion.size
        self.plans = plans_of(expansion)
        self.lines = [LineFunctions(block) for block in expansion.blocks]
        dtype = torch.get_default_dtype()
        self.log_lengthscales = nn.ParameterList(
            nn.Parameter(
                line.lengthscale.nan_to_num(1.0).log().to(dtype),
                requires_grad=learn_kernel and any(k.has_lengthscale for k in block.kernel.kernels),
            )
            for line, block in zip(self.lines, expansion.blocks)
        )
        # of the whole tensor product; the line functions multiply by the factors' own variances
        self.log_variances = nn.ParameterList(
            nn.Parameter(torch.tensor(float(line.variance)).log().to(dtype), requires_grad=learn_kernel)
            for line in self.lines
        )
        self._every = [plan.coordinates == tuple(range(self.dim)) for plan in self.plans]

    def __repr__(self) -> str:
        names = sorted({type(k).__name__ for block in self.expansion.blocks for k in block.kernel.kernels})
        return f"ExpansionFeatures(m={self.size:,}, T={self.expansion.active_per_input:,}, kernel={'/'.join(names)})"

    def forward(
        self, u: Tensor, mean: Tensor, variance: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """``M^T phi(u)`` and, if a table of variances is given, ``V^T phi(u)^2``: (..., W) each, for u (..., d)."""
        first: Tensor | None = None
        second: Tensor | None = None
        for number, (plan, line) in enumerate(zip(self.plans, self.lines)):
            inputs = u if self._every[number] else u[..., list(plan.coordinates)]
            values, positions = line(
                inputs, self.log_lengthscales[number].exp(), self.log_variances[number].exp()
            )
            spread = None if variance is None else variance[plan.rows]
            one, two = contract_fast(plan, values, positions, mean[plan.rows], spread)
            first = one if first is None else first + one
            second = two if second is None or two is None else second + two
        assert first is not None
        return first, second

    def dense(self, u: Tensor) -> Tensor:
        """``phi(u)`` with its zeros, (n, m) for inputs (n, d): for solvers that need the features themselves."""
        parts = []
        for number, (plan, line) in enumerate(zip(self.plans, self.lines)):
            inputs = u if self._every[number] else u[..., list(plan.coordinates)]
            scales = self.log_lengthscales[number].exp(), self.log_variances[number].exp()
            parts.append(features(plan, *line(inputs, *scales)))
        return torch.cat(parts, dim=-1)

    def prior_variance(self, u: Tensor) -> Tensor:
        """``|phi(u)|^2`` (...,): the variance of the process that the features carry."""
        ones = u.new_ones(self.size, 1)
        found = self(u, ones, ones)[1]
        assert found is not None
        return found[..., 0]
