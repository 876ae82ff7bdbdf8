"""Wide layers on grids of level 2: features as one dense matrix, on any device, and what the last layer needs of them.

With at most one raised coordinate a feature is ``prod_i v(i, 0)`` times the ratio ``v(j, k) / v(j, 0)`` of one
coordinate: a few elementwise operations, without the tree of general grids.
"""

from __future__ import annotations

from functools import singledispatch
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from dtmgp.baselines.networks import BayesianNetwork, Dense
from dtmgp.errors import InputError
from dtmgp.layers import ExpansionLayer, Gaussian, GaussianWeights
from dtmgp.layers.features import ExpansionFeatures
from dtmgp.model import DTMGP, ModelNoise
from dtmgp.ops.plan import COORDINATE, COUNT, OFFSET, SLOT


class SingleFeatures(nn.Module):
    """``phi(u)`` (n, m) of an `ExpansionFeatures` whose multi-indices raise one coordinate at most."""

    slot: Tensor
    root: Tensor
    index: Tensor

    def __init__(self, features: ExpansionFeatures) -> None:
        super().__init__()
        self.features = features
        plan = features.plans[0]
        tree = plan.tree.long()
        if len(features.plans) > 1 or bool((tree[1:, 0] != 0).any()):
            raise InputError(
                "SingleFeatures",
                got=repr(plan),
                expected="one tensor kernel on a grid that raises one coordinate at a time, such as level 2",
            )
        counts = tree[1:, COUNT]
        rows = torch.repeat_interleave(torch.arange(1, len(tree)), counts)
        index = torch.cat([torch.arange(int(count)) for count in counts])
        if not torch.equal(tree[rows, OFFSET] + index, torch.arange(1, plan.size)):
            raise InputError("SingleFeatures", got="rows in another order", expected="rows level by level")
        self.register_buffer("slot", tree[rows, SLOT], persistent=False)
        self.register_buffer("root", tree[rows, COORDINATE] * plan.levels, persistent=False)
        self.register_buffer("index", index, persistent=False)

    def forward(self, u: Tensor) -> Tensor:
        """Features (..., m) of inputs (..., d)."""
        own = self.features
        values, places = own.lines[0](u, own.log_lengthscales[0].exp(), own.log_variances[0].exp())
        first = values[..., 0].prod(-1, keepdim=True)
        flat, place = values.flatten(-2), places.flatten(-2)
        active = place.index_select(-1, self.slot) == self.index
        ratio = flat.index_select(-1, self.slot) / flat.index_select(-1, self.root)
        return torch.cat([first, first * torch.where(active, ratio, ratio.new_zeros(()))], dim=-1)


class WideLayer(ExpansionLayer):
    """An `ExpansionLayer` that always goes through the dense features of `SingleFeatures`: the same law.

    >>> from dtmgp.expansion import HierarchicalExpansion
    >>> from dtmgp.grids import SparseGrid
    >>> from dtmgp.kernels import Laplace
    >>> layer = WideLayer(HierarchicalExpansion(Laplace(100.0), SparseGrid(100, 2)), 256)
    >>> layer.phi(torch.rand(7, 100)).shape
    torch.Size([7, 201])
    """

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        assert isinstance(self.features, ExpansionFeatures)
        self.single = SingleFeatures(self.features)

    def phi(self, h: Tensor) -> Tensor:
        """Features (..., m) at inputs (..., d)."""
        found: Tensor = self.single(self.mapping(h))
        return found

    def forward(self, h: Tensor) -> Gaussian:
        """Law of the outputs (..., W) at inputs (..., d)."""
        phi = self.phi(h)
        mean = phi @ self.weights.mean + self.mean(h) + self.bias
        return Gaussian(mean, phi.square() @ self.weights.variance)


class LastLayer(NamedTuple):
    """What the last layer is given: features (S, n, m), their weights, a fixed part of the mean, a variance of it."""

    phi: Tensor
    weights: GaussianWeights
    shift: Tensor
    spread: Tensor | None


@singledispatch
def last_layer(model: nn.Module, x: Tensor, noise: ModelNoise) -> LastLayer:
    """The features in front of the last layer's weights, given draws of what is hidden."""
    raise InputError("last_layer", got=type(model).__name__, expected="a DTMGP or a BayesianNetwork")


@last_layer.register
def _(model: DTMGP, x: Tensor, noise: ModelNoise) -> LastLayer:
    h = model.first_inputs(x, noise.latent)
    *before, last = model.stack
    for layer, draw in zip(before, noise.hidden, strict=True):
        h = layer(h).draw(draw)
    phi = last.phi(h) if isinstance(last, WideLayer) else last.features.dense(last.mapping(h))
    return LastLayer(phi, last.weights, last.mean(h) + last.bias, None)


@last_layer.register
def _(model: BayesianNetwork, x: Tensor, noise: ModelNoise) -> LastLayer:
    h = x
    stages = list(zip(model.activations, model.maps))
    for number, (activation, dense) in enumerate(stages):
        if number in model.joined:
            h = torch.cat([h, x.expand(*h.shape[:-1], -1)], dim=-1)
        h = activation(h)
        if number < len(stages) - 1:
            h = dense(h).draw(noise.hidden[number])
    last = cast(Dense, model.maps[-1])
    if last.bias is None:
        return LastLayer(h, last.weights, h.new_zeros(()), None)
    return LastLayer(h, last.weights, last.bias.mean[0], last.bias.variance[0])
