"""The paper's architecture for RC-49, section 6, for its three models; inputs are yaw angles over 90.

    x in R -> A x in R^100 -> 201 features -> 256 -> 513 features -> 512 -> 1025 features -> 64 * 64

The embedding and the likelihood, Gaussian noise with one level per pixel, are the same in all three. Deviations, for
all three alike: noise by local reparameterisation; the last layer integrated; means of hidden weights start at random.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dtmgp.baselines.bnn_relu import he_std
from dtmgp.baselines.networks import BayesianNetwork, Dense, PriorFixed
from dtmgp.baselines.networks.fourier import fourier_stages
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.images.layers import WideLayer
from dtmgp.kernels import Laplace
from dtmgp.layers import AffineMap, IdentityMap
from dtmgp.likelihoods import GaussianLikelihood
from dtmgp.model import DTMGP

EMBEDDED, WIDTHS, PIXELS = 100, (256, 512), 64 * 64
NOISE, INITIAL_STD = 0.2, 0.1


class Embedding(nn.Module):
    """``1/2 + a (x - 1/2)``, a learned vector that starts uniform in [-1, 1]: the unit interval goes into the cube.

    >>> Embedding(3)(torch.tensor([[0.5]]))
    tensor([[0.5000, 0.5000, 0.5000]], grad_fn=<AddBackward0>)
    """

    def __init__(self, width: int = EMBEDDED, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.direction = nn.Parameter(2 * torch.rand(1, width, generator=generator) - 1)
        self.shift = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) of inputs (..., 1)."""
        return (x - 0.5) @ self.direction + self.shift


def level_two(
    dim: int, width: int, *, mapping: nn.Module, scale: float, generator: torch.Generator | None
) -> WideLayer:
    """A layer of 2 dim + 1 Laplace features, lengthscale dim as in the paper; means start at ``scale`` N(0, 1)."""
    layer = WideLayer(
        HierarchicalExpansion(Laplace(float(dim)), SparseGrid(dim, 2)),
        width,
        mapping=mapping,
        initial_std=INITIAL_STD,
    )
    with torch.no_grad():
        layer.weights.mean.add_(torch.randn(layer.weights.mean.shape, generator=generator), alpha=scale)
    return layer


def paper_dtmgp(pixels: int = PIXELS, generator: torch.Generator | None = None) -> DTMGP:
    """The deep tensor Markov GP.

    >>> [layer.features.size for layer in paper_dtmgp(pixels=4).stack]
    [201, 513, 1025]
    """
    dims, widths = [EMBEDDED, *WIDTHS], [*WIDTHS, pixels]
    layers = [
        level_two(
            dim,
            width,
            mapping=AffineMap(dim) if number else IdentityMap(dim),
            scale=0.0 if number == len(dims) - 1 else 1.0,
            generator=generator,
        )
        for number, (dim, width) in enumerate(zip(dims, widths))
    ]
    likelihood = GaussianLikelihood(pixels, noise=NOISE)
    return DTMGP(layers, likelihood, embedding=Embedding(generator=generator))


def paper_bnn(pixels: int = PIXELS, generator: torch.Generator | None = None) -> BayesianNetwork:
    """BNN-ReLU: dense weights into the same numbers of ReLU units.

    >>> [dense.width for dense in paper_bnn(pixels=4).maps]
    [201, 256, 513, 512, 1025, 4]
    """
    stages: list[tuple[nn.Module, nn.Module]] = []
    before, first = EMBEDDED, True
    for dim, width in zip([EMBEDDED, *WIDTHS], [*WIDTHS, pixels]):
        for count, follows_relu in ((2 * dim + 1, False), (width, True)):
            scale = math.sqrt((2.0 if follows_relu else 1.0) / before)
            last = width == pixels and follows_relu
            dense = Dense(
                before,
                count,
                prior=(0.0, he_std(before)),
                bias_prior=(0.0, 1.0),
                scale=0.0 if last else scale,
                initial_std=INITIAL_STD * scale,
                generator=generator,
            )
            activation: nn.Module = nn.ReLU() if follows_relu else nn.Identity()
            stages.append((Embedding(generator=generator) if first else activation, dense))
            before, first = count, False
    return BayesianNetwork(stages, GaussianLikelihood(pixels, noise=NOISE))


def paper_rff(pixels: int = PIXELS, generator: torch.Generator | None = None) -> BayesianNetwork:
    """DGP-RFF: random Fourier features in pairs, so 202, 514 and 1026 of them.

    >>> [dense.size for dense in paper_rff(pixels=4).maps]
    [202, 514, 1026]
    """
    stages: list[tuple[nn.Module, nn.Module]] = []
    dims, widths = [EMBEDDED, *WIDTHS], [*WIDTHS, pixels]
    for number, (dim, width) in enumerate(zip(dims, widths)):
        dense = Dense(
            2 * (dim + 1),
            width,
            prior=(0.0, 1.0),
            scale=0.0 if number == len(dims) - 1 else 1.0,
            initial_std=INITIAL_STD,
            generator=generator,
        )
        ((activation, found),) = fourier_stages(PriorFixed(dim, dim + 1, math.sqrt(dim), generator), dense)
        stages.append(
            (activation if number else nn.Sequential(Embedding(generator=generator), activation), found)
        )
    return BayesianNetwork(stages, GaussianLikelihood(pixels, noise=NOISE))


PAPER = {"DTMGP": paper_dtmgp, "BNN-ReLU": paper_bnn, "DGP-RFF": paper_rff}
