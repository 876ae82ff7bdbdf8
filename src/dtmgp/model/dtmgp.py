"""The deep tensor Markov Gaussian process (paper, section 4.3): a torch module for anybody's training loop."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from dtmgp.errors import InputError
from dtmgp.layers import ExpansionLayer, FrozenLayer, Gaussian
from dtmgp.likelihoods import AbstractComponents, AbstractLikelihood, GaussianLikelihood
from dtmgp.model.noise import ModelNoise, independent_noise, shared_noise


class DTMGP(nn.Module):
    """``y ~ likelihood(f_H(..f_2(f_1(x))))`` with independent Gaussian weights in every layer.

    Hidden layers are sampled (one standard normal per unit, input and sample); the last one is integrated in closed
    form given its input. Objectives are functions of (model, batch): see `dtmgp.inference`.

    Arguments: ``layers`` whose widths and dimensions follow one another, the last as wide as the likelihood asks;
    ``likelihood`` (Gaussian if not given); ``embedding`` a module in front of the first layer (the paper's linear map);
    ``latent_inputs`` q standard normal inputs, mapped to (0, 1) by the normal cdf and appended to x: noise with which
    hidden layers can make laws that weight noise cannot, such as two branches.

    >>> from dtmgp.expansion import HierarchicalExpansion
    >>> from dtmgp.grids import SparseGrid
    >>> from dtmgp.kernels import Laplace
    >>> first = ExpansionLayer(HierarchicalExpansion(Laplace(13.0), SparseGrid(13, 3)), 10)
    >>> second = ExpansionLayer(HierarchicalExpansion(Laplace(10.0), SparseGrid(10, 3)), 1)
    >>> DTMGP([first, second])(torch.rand(7, 13), samples=4).mean.shape
    torch.Size([4, 7, 1])
    """

    def __init__(
        self,
        layers: Sequence[ExpansionLayer],
        likelihood: AbstractLikelihood | None = None,
        *,
        embedding: nn.Module | None = None,
        latent_inputs: int = 0,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        if not len(self.layers):
            raise InputError("DTMGP", got="no layers", expected="at least one")
        self.likelihood = GaussianLikelihood(layers[-1].width) if likelihood is None else likelihood
        self.embedding = nn.Identity() if embedding is None else embedding
        if isinstance(latent_inputs, bool) or not isinstance(latent_inputs, int) or latent_inputs < 0:
            raise InputError("latent_inputs", got=repr(latent_inputs), expected="0, 1, 2, ..")
        self.latent_inputs = latent_inputs
        for number, (before, after) in enumerate(itertools.pairwise(layers), start=1):
            if before.width != after.dim:
                raise InputError(
                    f"DTMGP, layers {number} and {number + 1}",
                    got=f"{before.width} outputs into {after.dim} inputs",
                    expected="equal numbers",
                )
        if layers[-1].width != self.likelihood.width:
            raise InputError(
                "DTMGP, last layer",
                got=f"{layers[-1].width} outputs",
                expected=f"{self.likelihood.width} for {type(self.likelihood).__name__}",
                cause="a likelihood with several processes per output" if self.likelihood.width > 1 else "",
            )

    @property
    def stack(self) -> list[ExpansionLayer]:
        """The layers, first to last."""
        return [cast(ExpansionLayer, layer) for layer in self.layers]

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @property
    def noise_widths(self) -> tuple[int, tuple[int, ...], int]:
        """Columns of latent, hidden and output noise."""
        return (
            self.latent_inputs,
            tuple(layer.width for layer in self.stack[:-1]),
            self.likelihood.noise_width,
        )

    def noise(
        self, samples: int, rows: int, like: Tensor, generator: torch.Generator | None = None
    ) -> ModelNoise:
        """Independent noise for every input."""
        return independent_noise(self.noise_widths, samples, rows, like, generator)

    def shared_noise(self, samples: int, like: Tensor, seed: int = 0) -> ModelNoise:
        """Noise that all inputs share: what deterministic predictions use."""
        return shared_noise(self.noise_widths, samples, like, seed)

    def forward(
        self,
        x: Tensor,
        samples: int = 1,
        generator: torch.Generator | None = None,
        noise: ModelNoise | None = None,
    ) -> Gaussian:
        """Law of the last layer (S, n, width) given draws of the hidden ones, at inputs (n, d) in grid coordinates."""
        draws = self.noise(samples, len(x), x, generator) if noise is None else noise
        h = self.first_inputs(x, draws.latent)
        for layer, hidden in zip(self.stack[:-1], draws.hidden, strict=True):
            h = layer(h).draw(hidden)
        f: Gaussian = self.stack[-1](h)
        if f.mean.ndim == 2:  # one layer without latent inputs: all samples agree
            shape = (samples if noise is None else len(draws.output), *f.mean.shape)
            f = Gaussian(f.mean.expand(shape), f.variance.expand(shape))
        return f

    def first_inputs(self, x: Tensor, latent: Tensor) -> Tensor:
        """Embedded inputs (n, d), or (S, n, d + q) with latent inputs appended."""
        h: Tensor = self.embedding(x)
        if not self.latent_inputs:
            return h
        shape = (latent.shape[0], len(h) if latent.shape[1] == 1 else latent.shape[1], -1)
        return torch.cat(
            [h.expand(*shape[:2], h.shape[-1]), torch.special.ndtr(latent).expand(shape)], dim=-1
        )

    def components(self, x: Tensor, noise: ModelNoise) -> AbstractComponents:
        """Law of the warped output given each hidden draw, (S, n, W)."""
        f = self(x, noise=noise)
        return self.likelihood(f, noise.output)

    def kl(self) -> Tensor:
        """Sum over the layers of the KL divergence of the weights from their prior."""
        return torch.stack([layer.kl() for layer in self.stack]).sum()

    def draw(self, samples: int, generator: torch.Generator | None = None) -> FrozenModel:
        """Weights of all layers (and latent inputs) drawn once per sample: each sample is one function of x."""
        layers = [layer.draw(samples, generator) for layer in self.stack]
        like = next(self.parameters())
        latent = self.noise(samples, 1, like, generator).latent
        return FrozenModel(self, layers, latent)


class FrozenModel:
    """``samples`` ordinary functions from inputs (n, d) to process outputs (S, n, width)."""

    def __init__(self, model: DTMGP, layers: list[FrozenLayer], latent: Tensor) -> None:
        self.model, self.layers, self.latent = model, layers, latent

    def __call__(self, x: Tensor) -> Tensor:
        """Function values; differentiable in x."""
        h = self.model.first_inputs(x, self.latent)
        for layer in self.layers:
            h = layer(h)
        return h
