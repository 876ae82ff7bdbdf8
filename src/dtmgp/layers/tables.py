"""Layers with millions of features: a batch reads, and a step writes, the rows that its inputs touch, no others.

The weights live in a `dtmgp.ops.NaturalTable` (docs/fused.md): their step is a natural-gradient one, in which the KL
term of every row is exact, touched or not. `dtmgp.inference.optimisers` takes the steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dtmgp.errors import InputError
from dtmgp.layers.features import ExpansionFeatures
from dtmgp.layers.gaussian import Gaussian, standard_normal
from dtmgp.layers.layer import ExpansionLayer
from dtmgp.ops import NaturalTable, Plan, contract
from dtmgp.ops.lazy import Touched

TABLE_FROM = (
    1 << 18
)  # weights from which a layer keeps them in a table: a dense step visits each some ten times


class TableWeights(nn.Module):
    """``q(w) = N(mean, std^2)`` for ``size`` x ``width`` weights in a natural table; starts at the prior. CPU only.

    ``touched`` holds what forward passes have asked for since the last step. ``state_dict`` has the distance from the
    prior with all decay applied (one visit of the table), so that its shape does not depend on the number of steps.

    >>> TableWeights(3, 2).kl()
    tensor(0.)
    """

    excess: Tensor
    prior_mean: Tensor
    prior_std: Tensor
    steps_taken: Tensor

    def __init__(self, size: int, width: int, *, prior_mean: float = 0.0, prior_std: float = 1.0) -> None:
        super().__init__()
        kind = torch.get_default_dtype()
        self._table = NaturalTable(size, width, prior_mean=prior_mean, prior_std=prior_std, dtype=kind)
        self.register_buffer("excess", torch.from_numpy(self._table._excess))  # the same memory
        self.register_buffer("prior_mean", torch.tensor(prior_mean))
        self.register_buffer("prior_std", torch.tensor(prior_std))
        self.register_buffer("steps_taken", torch.zeros((), dtype=torch.int64))
        self.touched: list[Touched] = []
        self.active = 1  # features per input, once a batch has come
        self._kl, self._visited = 0.0, 0  # the last value, and rows touched since

    def extra_repr(self) -> str:
        """Size of the table."""
        return f"m={self._table.size:,}, W={self._table.width}, touched rows only"

    @property
    def table(self) -> NaturalTable:
        """The table over the memory of the buffer, which copies and conversions of the module replace."""
        table = self._table
        if self.excess.device.type != "cpu":
            raise InputError(
                "TableWeights",
                got=f"device {self.excess.device}",
                expected="the CPU",
                do=f"train on the CPU, or choose a grid with fewer than {TABLE_FROM:,} weights",
            )
        if table._excess.ctypes.data != self.excess.data_ptr():
            table._excess, table.dtype = self.excess.numpy(), self.excess.dtype
        return table

    def touch(self, plan: Plan, positions: Tensor) -> Touched:
        """Rows for a batch; they are leaves of the graph, and remembered for the step, where gradients are recorded."""
        found, self.active = self.table.touch(plan, positions), plan.active
        if torch.is_grad_enabled() and self.training:
            self.touched.append(found)
            self._visited += len(found.rows)
        return found

    def step(self, rate: float, scale: float, *, variances_only: bool = False) -> None:
        """One step from the gradients of all forward passes since the last; exact for every row of the table."""
        touched, self.touched = self.touched, []
        merged = _merged(touched)
        if merged is None:
            return
        if variances_only:
            merged.mean.grad = None
        self.table.step(merged, rate, scale)
        self.steps_taken += 1

    def merge(self) -> Touched | None:
        """All that forward passes have asked for since the last step, as one set of rows; None without gradients."""
        return _merged(self.touched)

    def replace(self, rows: Tensor, grad_mean: Tensor, grad_variance: Tensor) -> None:
        """Other rows and gradients for the next step: those of all processes that train the table together."""
        own = sum(len(part.rows) for part in self.touched)
        mean, variance = (part.requires_grad_() for part in self.table.fetch(rows))
        mean.grad, variance.grad = grad_mean, grad_variance
        self.touched = [Touched(rows.to(torch.int32), rows[:0], mean, variance)]
        self._visited += len(rows) - own  # the same in all processes

    def forget(self) -> None:
        """Drop what forward passes have asked for."""
        self.touched = []

    def kl(self) -> Tensor:
        """``KL(q || prior)`` without a graph: the steps know its gradient.

        A visit of the whole table; within training the value is taken again when as many rows have been touched.
        """
        if not self.training or self._visited >= self._table.size or self.steps_taken == 0:
            self._kl, self._visited = (self.table.kl() if self.steps_taken else 0.0), 0
        return torch.tensor(self._kl, dtype=self.excess.dtype)

    @property
    def mean(self) -> Tensor:
        """Means of the whole table (m, W)."""
        return self.table.means_and_variances()[0]

    @property
    def variance(self) -> Tensor:
        """Variances of the whole table (m, W)."""
        return self.table.means_and_variances()[1]

    def draw(self, samples: int, generator: torch.Generator | None = None) -> Tensor:
        """Tables (S, m, W) drawn from q."""
        mean, variance = self.table.means_and_variances()
        return torch.addcmul(mean, variance.sqrt(), standard_normal((samples, *mean.shape), mean, generator))

    def settle(self) -> None:
        """Apply the decay that rows have missed: afterwards the buffer is the state."""
        table = self.table
        if table.steps:
            factor = np.exp(table._clock[table.steps] - table._clock[table._last]).astype(table._excess.dtype)
            table._excess.reshape(table.size, -1)[...] *= factor[:, None]
            self._rewind()

    def _rewind(self) -> None:
        self._table._last.fill(0)
        self._table._clock = np.zeros(1024)
        self._table.steps = 0

    def _save_to_state_dict(self, *args: Any, **options: Any) -> None:
        self.settle()
        super()._save_to_state_dict(*args, **options)

    def _load_from_state_dict(self, *args: Any, **options: Any) -> None:
        super()._load_from_state_dict(*args, **options)
        self._rewind()
        self.touched, self._visited = [], self._table.size

    def _apply(self, *args: Any, **options: Any) -> TableWeights:
        self.settle()
        super()._apply(*args, **options)  # type: ignore[no-untyped-call]
        return self


class TableLayer(ExpansionLayer):
    """An `ExpansionLayer` of one tensor kernel whose weights are a natural table, at the prior.

    >>> from dtmgp.expansion import HierarchicalExpansion
    >>> from dtmgp.grids import SparseGrid
    >>> from dtmgp.kernels import Laplace
    >>> layer = TableLayer(ExpansionLayer(HierarchicalExpansion(Laplace(), SparseGrid(3, 4)), 1))
    >>> layer(torch.rand(7, 3)).mean.shape
    torch.Size([7, 1])
    """

    def __init__(self, layer: ExpansionLayer) -> None:
        nn.Module.__init__(self)
        features = layer.features
        reason = why_dense(layer)
        if reason is not None or not isinstance(features, ExpansionFeatures):
            raise InputError("TableLayer", got=f"a layer with {reason}", expected=EXPECTED)
        self.dim, self.width = layer.dim, layer.width
        self.mapping, self.mean, self.features, self.bias = layer.mapping, layer.mean, features, layer.bias
        prior = layer.weights
        centre, spread = float(prior.prior_mean.flatten()[0]), float(prior.prior_std.flatten()[0])
        self.weights: Any = TableWeights(features.size, self.width, prior_mean=centre, prior_std=spread)

    def forward(self, h: Tensor) -> Gaussian:
        """Law of the outputs (..., W) at inputs (..., d)."""
        features = self.features
        assert isinstance(features, ExpansionFeatures)
        plan, line = features.plans[0], features.lines[0]
        scales = features.log_lengthscales[0].exp(), features.log_variances[0].exp()
        values, positions = line(self.mapping(h), *scales)
        touched = self.weights.touch(plan, positions)
        mean, variance = contract(plan, values, touched.slots, touched.mean, touched.variance)
        assert variance is not None
        return Gaussian(mean + self.mean(h) + self.bias, variance)


EXPECTED = "one tensor kernel in all coordinates, one prior for all weights, on the CPU"


def why_dense(layer: ExpansionLayer) -> str | None:
    """What keeps a layer from being a table, or None."""
    features = layer.features
    if not isinstance(features, ExpansionFeatures):
        return "features at points"
    if len(features.plans) > 1 or features.plans[0].coordinates != tuple(range(layer.dim)):
        return "an additive kernel"
    prior = layer.weights
    if len(prior.prior_mean.unique()) > 1 or len(prior.prior_std.unique()) > 1:
        return "several priors"
    return None if layer.bias.device.type == "cpu" else f"device {layer.bias.device}"


def _merged(touched: list[Touched]) -> Touched | None:
    """One set of rows with the sums of their gradients; None if no gradient has arrived."""
    used = [part for part in touched if part.mean.grad is not None or part.variance.grad is not None]
    if len(used) <= 1:
        return used[0] if used else None
    rows, place = torch.unique(torch.cat([part.rows for part in used]), return_inverse=True)
    merged = []
    for name in ("mean", "variance"):
        weights = [getattr(part, name) for part in used]
        whole = weights[0].detach().new_empty(len(rows), weights[0].shape[1])
        grad = torch.zeros_like(whole)
        for own, values in zip(place.split([len(part.rows) for part in used]), weights):
            whole[own] = values.detach()
            grad.index_add_(0, own, torch.zeros_like(values) if values.grad is None else values.grad)
        whole.requires_grad_().grad = grad
        merged.append(whole)
    return Touched(rows.to(torch.int32), used[0].slots, merged[0], merged[1])
