"""One layer of the deep model: ``f(h) = m(h) + (mean + std * Z)^T phi(u(h)) + bias`` (paper, eq. for a DTMGP layer)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.layers.features import ExpansionFeatures
from dtmgp.layers.gaussian import Gaussian
from dtmgp.layers.induced import InducedFeatures
from dtmgp.layers.maps import IdentityMap
from dtmgp.layers.means import AbstractMean, ZeroMean
from dtmgp.layers.weights import GaussianWeights


class ExpansionLayer(nn.Module):
    """A vector of ``width`` processes on one expansion, with independent weights.

    Given its input, the output is Gaussian per unit (``forward``); the noise is drawn by the caller, or never, where
    it can be integrated. ``draw`` fixes the weights instead, so that the layer is an ordinary function.

    Arguments: ``expansion`` in grid coordinates, or `InducedFeatures`; ``mapping`` from the layer's input to them;
    ``mean`` a mean function of the layer's input; ``prior`` (mean, std) of the weights; ``initial_std`` of the weights
    in units of the prior's.

    >>> from dtmgp.grids import SparseGrid
    >>> from dtmgp.kernels import Laplace
    >>> layer = ExpansionLayer(HierarchicalExpansion(Laplace(), SparseGrid(13, 3)), 10)
    >>> layer(torch.rand(7, 13)).mean.shape
    torch.Size([7, 10])
    """

    def __init__(
        self,
        expansion: HierarchicalExpansion | InducedFeatures,
        width: int,
        *,
        mapping: nn.Module | None = None,
        mean: AbstractMean | None = None,
        prior: tuple[float | Tensor, float | Tensor] = (0.0, 1.0),
        initial_std: float = math.exp(-1.0),
        learn_kernel: bool = True,
    ) -> None:
        super().__init__()
        self.dim, self.width = expansion.dim, width
        self.mapping = IdentityMap(self.dim) if mapping is None else mapping
        self.mean: AbstractMean = ZeroMean(self.dim, width) if mean is None else mean
        for part in (self.mapping, self.mean):
            if getattr(part, "dim", self.dim) != self.dim:
                raise InputError(
                    f"ExpansionLayer: {type(part).__name__}",
                    got=f"{part.dim} inputs",
                    expected=f"{self.dim}, the dimension of the expansion",
                )
        if self.mean.width != width:
            raise InputError("ExpansionLayer: mean", got=f"{self.mean.width} outputs", expected=str(width))
        self.features: ExpansionFeatures | InducedFeatures = (
            expansion
            if isinstance(expansion, InducedFeatures)
            else ExpansionFeatures(expansion, learn_kernel=learn_kernel)
        )
        self.weights = GaussianWeights(
            expansion.size, width, prior_mean=prior[0], prior_std=prior[1], initial_std=initial_std
        )
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, h: Tensor) -> Gaussian:
        """Law of the outputs (..., W) at inputs (..., d)."""
        u = self.mapping(h)
        tables = self.weights.mean, self.weights.variance
        if isinstance(self.features, InducedFeatures):
            mean, variance = self.features(u, *tables, left=self._prior_variance())
        else:
            mean, variance = self.features(u, *tables)
        assert variance is not None
        return Gaussian(mean + self.mean(h) + self.bias, variance)

    def _prior_variance(self) -> Tensor:
        """Of each process, (W,): priors of induced features are alike for all weights of a process."""
        return self.weights.prior_std.expand(self.weights.mean.shape)[0].square()

    def kl(self) -> Tensor:
        """KL divergence of the weights from their prior, and minus the log prior of a learned mean function."""
        return self.weights.kl() + self.mean.kl()

    def draw(self, samples: int, generator: torch.Generator | None = None) -> FrozenLayer:
        """Weights drawn once per sample: ``samples`` ordinary functions."""
        return FrozenLayer(self, self.weights.draw(samples, generator))


class FrozenLayer:
    """A layer with weights fixed: maps inputs (S, n, d) or (n, d) to (S, n, W), sample by sample."""

    def __init__(self, layer: ExpansionLayer, tables: Tensor) -> None:
        self.layer, self.tables = layer, tables

    def __call__(self, h: Tensor) -> Tensor:
        """Function values; an input without leading S is given to every function."""
        layer, samples = self.layer, len(self.tables)
        u, fixed = layer.mapping(h), layer.mean(h) + layer.bias
        if h.ndim == 2:  # features once, for a table with the columns of all functions
            table = self.tables.transpose(0, 1).flatten(1)
            values = layer.features(u, table)[0]
            return values.unflatten(-1, (samples, layer.width)).transpose(0, 1) + fixed
        return torch.stack([layer.features(own, t)[0] for own, t in zip(u, self.tables, strict=True)]) + fixed
