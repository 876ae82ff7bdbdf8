"""Deep models of a given shape: what the estimator builds, for people who write their own loop."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import AbstractGrid, SparseGrid
from dtmgp.kernels import AbstractLineKernel, Additive, Matern32, Tensor
from dtmgp.layers import AffineMap, ExpansionLayer, IdentityMap, InducedFeatures, LinearMean
from dtmgp.likelihoods import AbstractLikelihood
from dtmgp.model.dtmgp import DTMGP
from dtmgp.model.large import with_tables

Kernel = AbstractLineKernel | Tensor | Additive


def starting_projections(dim: int, width: int, generator: torch.Generator | None) -> torch.Tensor:
    """(dim, width): the coordinates first, then random directions of unit length; random ones only if width < dim."""
    random = torch.randn(dim, width, generator=generator)
    random = random / random.norm(dim=0, keepdim=True)
    if width >= dim:
        random[:, :dim] = torch.eye(dim)
    return random


def deep_model(
    dim: int,
    likelihood: AbstractLikelihood,
    *,
    hidden_widths: Sequence[int] = (16,),
    levels: Sequence[int | AbstractGrid | InducedFeatures] = (2, 3),
    kernels: Sequence[Kernel] | Kernel | None = None,
    latent_inputs: int = 0,
    linear_means: bool = True,
    prior: tuple[float, float] = (0.0, 1.0),
    initial_std: float = math.exp(-1.0),
    learn_kernel: bool = True,
    mapping: type[nn.Module] = AffineMap,
    generator: torch.Generator | None = None,
) -> DTMGP:
    """A model with one layer per entry of ``levels``; the last is as wide as the likelihood asks.

    ``levels`` are levels of sparse grids (generalised levels for Matern kernels), grids, or features of points, which
    bring their kernel. Linear means of hidden
    layers start as the inputs themselves followed by random projections, that of the last at zero. Layers of
    millions of features keep their weights in tables (`dtmgp.model.large`).

    >>> from dtmgp.likelihoods import GaussianLikelihood
    >>> deep_model(13, GaussianLikelihood(), hidden_widths=(10,)).depth
    2
    """
    if len(levels) != len(hidden_widths) + 1:
        raise InputError(
            "levels",
            got=f"{len(levels)} of them",
            expected=f"{len(hidden_widths) + 1}: one per hidden layer and one for the last",
        )
    widths = [*hidden_widths, likelihood.width]
    dims = [dim + latent_inputs, *hidden_widths]
    given = list(kernels) if isinstance(kernels, Sequence) else [kernels] * len(levels)
    if len(given) != len(levels):
        raise InputError("kernels", got=f"{len(given)} of them", expected=f"{len(levels)}, one per layer")
    layers = []
    for number, (size, width, level, kernel) in enumerate(zip(dims, widths, levels, given)):
        carrier: HierarchicalExpansion | InducedFeatures
        if isinstance(level, InducedFeatures):
            carrier = level
        else:
            grid = level if isinstance(level, AbstractGrid) else SparseGrid(size, level)
            carrier = HierarchicalExpansion(Matern32(lengthscale=2.0) if kernel is None else kernel, grid)
        last = number == len(levels) - 1
        mean = None
        if linear_means:
            scale = 0.0 if last else math.sqrt(12.0) if number == 0 else 1.0  # the cube has variance 1/12
            mean = LinearMean(size, width, matrix=scale * starting_projections(size, width, generator))
        layers.append(
            ExpansionLayer(
                carrier,
                width,
                mapping=IdentityMap(size) if number == 0 else mapping(size),
                mean=mean,
                prior=(prior[0], torch.full((1, width), prior[1])),  # one per process: a start may change it
                initial_std=initial_std,
                learn_kernel=learn_kernel,
            )
        )
        if number == 0 and mean is not None:
            with torch.no_grad():  # centred at the middle of the cube
                layers[0].bias.sub_(0.5 * mean.matrix.sum(0))
    return with_tables(DTMGP(layers, likelihood, latent_inputs=latent_inputs))
