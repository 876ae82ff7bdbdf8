"""The standard normal noise that one evaluation of a deep model consumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import qmc
from torch import Tensor

from dtmgp.layers.gaussian import standard_normal


class ModelNoise(NamedTuple):
    """``latent`` (S, n, q) inputs, ``hidden`` (S, n, W) per hidden layer, ``output`` (S, n, w) of the likelihood.

    n may be 1: then all inputs share the draws. Every input still has its exact law, predictions do not depend on the
    other inputs of a call, and they are smooth in x; only the dependence between inputs is not the model's.
    """

    latent: Tensor
    hidden: tuple[Tensor, ...]
    output: Tensor


def independent_noise(
    widths: tuple[int, Sequence[int], int],
    samples: int,
    rows: int,
    like: Tensor,
    generator: torch.Generator | None,
) -> ModelNoise:
    """Fresh noise for every input; latent inputs are stratified over the samples (Latin hypercube, unbiased)."""
    latent_width, hidden, output = widths
    latent = like.new_empty(samples, rows, 0)
    if latent_width:
        device = like.device if generator is None else generator.device
        order = torch.rand(samples, rows, latent_width, generator=generator, device=device).argsort(0)
        inside = torch.rand(samples, rows, latent_width, generator=generator, device=device)
        uniform = ((order + inside) / samples).clamp(1e-6, 1 - 1e-6)
        latent = torch.special.ndtri(uniform).to(like)
    return ModelNoise(
        latent,
        tuple(standard_normal((samples, rows, w), like, generator) for w in hidden),
        standard_normal((samples, rows, output), like, generator),
    )


def shared_noise(widths: tuple[int, Sequence[int], int], samples: int, like: Tensor, seed: int) -> ModelNoise:
    """One set of draws for all inputs, from a scrambled Sobol sequence: error near 1/S instead of 1/sqrt(S)."""
    latent_width, hidden, output = widths
    total = latent_width + sum(hidden) + output
    engine = qmc.Sobol(max(1, min(total, qmc.Sobol.MAXDIM)), seed=np.random.default_rng(seed))
    uniform = engine.random(1 << (samples - 1).bit_length())[:samples]
    if total > uniform.shape[1]:  # beyond the directions that the sequence knows
        extra = np.random.default_rng([seed, 1]).random((samples, total - uniform.shape[1]))
        uniform = np.concatenate([uniform, extra], axis=1)
    normal = torch.special.ndtri(torch.from_numpy(uniform).clamp(1e-9, 1 - 1e-9)).to(like).unsqueeze(1)
    parts = torch.split(normal[..., :total], [latent_width, *hidden, output], dim=-1)
    return ModelNoise(parts[0], tuple(parts[1:-1]), parts[-1])
