"""The mean path of a deep model: its layers without noise, as a network that is linear in each layer's features."""

from __future__ import annotations

import torch
from torch import Tensor

from dtmgp.inference.data import Runs
from dtmgp.layers import ExpansionLayer, LinearMean
from dtmgp.model import DTMGP

BIAS_PRECISION = 1e-2  # of biases: a prior standard deviation of 10


class ReplicateMeans:
    """Replicate means, counts and within-input sums of squares of runs, in the warped scale."""

    def __init__(self, runs: Runs, z: Tensor) -> None:
        self.x = runs.x
        count = runs.counts
        self.count = count.to(z)
        group = torch.repeat_interleave(torch.arange(len(count)), count)
        total = z.new_zeros(len(count), z.shape[1]).index_add_(0, group, z)
        self.mean = total / self.count.unsqueeze(-1)
        self.within = (z - self.mean[group]).square().sum(0)  # (W,)
        self.runs = len(z)


def parameter_count(model: DTMGP, outputs: int) -> int:
    """Number of weights that a start solves for."""
    layers = model.stack
    sizes = [rows_of(layer) for layer in layers]
    return sum(n * layer.width for n, layer in zip(sizes[:-1], layers[:-1])) + sizes[-1] * outputs


def rows_of(layer: ExpansionLayer) -> int:
    return layer.features.size + 1 + (layer.dim if has_matrix(layer) else 0)


def has_matrix(layer: ExpansionLayer) -> bool:
    return isinstance(layer.mean, LinearMean) and layer.mean.matrix.requires_grad


class MeanPath:
    """The mean path: weights of every layer as one matrix (features, bias, linear mean) x width."""

    def __init__(self, model: DTMGP, outputs: int) -> None:
        self.model, self.outputs, self.layers = model, outputs, model.stack
        self.widths = [layer.width for layer in self.layers[:-1]] + [outputs]
        self.weights = [self._gather(layer, width) for layer, width in zip(self.layers, self.widths)]
        self.centres = [self._centre(layer, w) for layer, w in zip(self.layers, self.weights)]
        # prior standard deviations of feature weights and of linear means, relative to the model's
        self.scales = [(1.0, 1.0)] * len(self.layers)

    @staticmethod
    def _gather(layer: ExpansionLayer, width: int) -> Tensor:
        parts = [layer.weights.mean[:, :width], layer.bias[None, :width]]
        if has_matrix(layer):
            parts.append(layer.mean.matrix[:, :width])  # type: ignore[union-attr, index]
        return torch.cat([p.detach() for p in parts]).double()

    @staticmethod
    def _centre(layer: ExpansionLayer, weights: Tensor) -> Tensor:
        """Prior means, in the order of ``_gather``."""
        centre = torch.zeros_like(weights)
        size = layer.features.size
        centre[:size] = layer.weights.prior_mean
        if has_matrix(layer):
            centre[size + 1 :] = layer.mean.start[:, : weights.shape[1]]  # type: ignore[union-attr, index]
        return centre

    def groups(self, number: int) -> list[slice]:
        """Rows that share a prior scale: the features', and the linear mean's."""
        layer = self.layers[number]
        size = layer.features.size
        return [slice(0, size), slice(size + 1, size + 1 + layer.dim)][: 1 + has_matrix(layer)]

    def precision(self, number: int) -> Tensor:
        """Prior precision of a layer's rows (its features, bias, linear mean)."""
        layer = self.layers[number]
        spread = (
            layer.weights.prior_std[..., :1].double().expand(layer.features.size, 1)[:, 0]
        )  # outputs alike
        features, linear = self.scales[number]
        parts = [1.0 / (spread * features).square(), torch.full((1,), BIAS_PRECISION)]
        if has_matrix(layer):
            own = float(layer.mean.prior_std) * linear  # type: ignore[arg-type]
            parts.append(torch.full((layer.dim,), own**-2.0))
        return torch.cat(parts).double()

    def basis(self, number: int, h: Tensor) -> Tensor:
        """(n, rows) what a layer's weights multiply."""
        layer = self.layers[number]
        parts = [layer.features.dense(layer.mapping(h)), h.new_ones(len(h), 1)]
        if has_matrix(layer):
            parts.append(h)
        return torch.cat(parts, dim=1)

    def fixed_mean(self, number: int, h: Tensor) -> Tensor | float:
        """The part of a layer that is not solved for."""
        layer = self.layers[number]
        return 0.0 if has_matrix(layer) else layer.mean(h)[:, : self.widths[number]]

    def __call__(self, x: Tensor, weights: list[Tensor]) -> Tensor:
        """Outputs (n, W) in float64."""
        with torch.no_grad():
            h = self.first(x)
            for number, w in enumerate(weights):
                h = self.basis(number, h) @ w.to(h) + self.fixed_mean(number, h)
            return h.double()

    def first(self, x: Tensor) -> Tensor:
        """Embedded inputs with latent inputs at their centre."""
        return self.model.first_inputs(x, x.new_zeros(1, 1, self.model.latent_inputs)).reshape(len(x), -1)

    def jacobian(self, x: Tensor, weights: list[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
        """Outputs (n, W); per output the Jacobian of all hidden weights (n, P); basis of the last layer (n, rows)."""
        last = len(weights) - 1
        h = self.first(x)
        bases, hidden = [], []
        for number, w in enumerate(weights[:-1]):
            basis = self.basis(number, h)
            h = basis @ w.to(basis) + self.fixed_mean(number, h)
            if number == 0:
                h = h.detach().requires_grad_()
            bases.append(basis.detach())
            hidden.append(h)
        basis = self.basis(last, h)
        out = basis @ weights[-1].to(basis) + self.fixed_mean(last, h)
        jacobians = []
        for k in range(self.outputs):
            slopes = torch.autograd.grad(out[:, k].sum(), hidden, retain_graph=True) if hidden else ()
            parts = [(b[:, :, None] * g[:, None, :]).flatten(1) for b, g in zip(bases, slopes)]
            jacobians.append(torch.cat(parts, dim=1) if parts else out.new_zeros(len(x), 0))
        return out.detach().double(), [j.detach() for j in jacobians], basis.detach()
