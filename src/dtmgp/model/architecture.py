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
from dtmgp.layers import AffineMap, ExpansionLayer, IdentityMap, LinearMean
from dtmgp.likelihoods import AbstractLikelihood
from dtmgp.model.dtmgp import DTMGP

Kernel = AbstractLineKernel | Tensor | Additive


def deep_model(
    dim: int,
    likelihood: AbstractLikelihood,
    *,
    hidden_widths: Sequence[int] = (16,),
    levels: Sequence[int | AbstractGrid] = (2, 3),
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

    ``levels`` are levels of sparse grids (generalised levels for Matern kernels) or grids. Linear means start as random
    projections of unit scale in hidden layers and at zero in the last.

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
        grid = level if isinstance(level, AbstractGrid) else SparseGrid(size, level)
        chosen = Matern32(lengthscale=2.0) if kernel is None else kernel
        last = number == len(levels) - 1
        mean = None
        if linear_means:
            # inputs in the cube have variance 1/12: projections of about unit variance
            scale = 0.0 if last else math.sqrt(12.0 / size) if number == 0 else math.sqrt(1.0 / size)
            mean = LinearMean(size, width, matrix=scale * torch.randn(size, width, generator=generator))
        layers.append(
            ExpansionLayer(
                HierarchicalExpansion(chosen, grid),
                width,
                mapping=IdentityMap(size) if number == 0 else mapping(size),
                mean=mean,
                prior=prior,
                initial_std=initial_std,
                learn_kernel=learn_kernel,
            )
        )
        if number == 0 and mean is not None:
            with torch.no_grad():  # centred at the middle of the cube
                layers[0].bias.sub_(0.5 * mean.matrix.sum(0))
    return DTMGP(layers, likelihood, latent_inputs=latent_inputs)
