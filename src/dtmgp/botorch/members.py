"""Functions drawn from a deep model once and for all: hidden weights drawn S times, last weights R times for each.

Given hidden weights, the last layer is a Bayesian linear regression on known features, which is what conditioning uses.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dtmgp.layers import Gaussian
from dtmgp.layers.gaussian import standard_normal
from dtmgp.likelihoods import AbstractComponents, NormalComponents, NormalMixtureComponents
from dtmgp.model import DTMGP


class Members:
    """``S R`` functions of x in grid coordinates: values of all processes of the last layer, differentiable in x."""

    def __init__(self, model: DTMGP, hidden_draws: int, draws: int, seed: int) -> None:
        self.model = model
        generator = torch.Generator().manual_seed(seed)
        like = next(model.parameters())
        if model.depth == 1 and not model.latent_inputs:  # nothing is hidden
            hidden_draws, draws = 1, hidden_draws * draws
        self.hidden_draws, self.draws, self.seed = hidden_draws, draws, seed
        with torch.no_grad():
            self.hidden = [layer.draw(hidden_draws, generator) for layer in model.stack[:-1]]
            self.latent = model.noise(hidden_draws, 1, like, generator).latent
            weights = model.stack[-1].weights
            shape = (hidden_draws, draws, *weights.mean.shape)
            noise = standard_normal(shape, like, generator)
            tables = weights.mean + weights.log_std.exp() * noise
            self.centre = weights.mean.detach()  # (m, W)
            self.spread = weights.variance.detach()  # (m, W)
            # one matrix product for all draws of a hidden draw: (S, m, R W)
            self.tables = tables.permute(0, 2, 1, 3).flatten(2)

    def features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Last-layer features (..., S, q, m), and mean function and bias (..., S, q, W), at inputs (..., q, d)."""
        h = self.model.first_inputs(x.reshape(-1, x.shape[-1]), self.latent)
        for layer in self.hidden:
            h = layer(h)
        last = self.model.stack[-1]
        phi, fixed = last.features.dense(last.mapping(h)), last.mean(h) + last.bias
        if phi.ndim == 2:
            phi, fixed = phi.unsqueeze(0), fixed.unsqueeze(0)
        shape = (self.hidden_draws, *x.shape[:-1], -1)
        return phi.reshape(shape).movedim(0, -3), fixed.reshape(shape).movedim(0, -3)

    def processes(self, phi: Tensor, fixed: Tensor) -> Tensor:
        """Process values (..., S, R, q, W) of all members."""
        values = phi @ self.tables
        values = values.unflatten(-1, (self.draws, self.centre.shape[1])).movedim(-2, -3)
        return values + fixed.unsqueeze(-3)

    def law(self, f: Tensor) -> AbstractComponents:
        """The law of the warped output given process values (..., W)."""
        quiet = f.new_zeros(*f.shape[:-1], self.model.likelihood.noise_width)
        law: AbstractComponents = self.model.likelihood(Gaussian(f, torch.zeros_like(f)), quiet)
        return law

    def runs(self, law: AbstractComponents) -> Tensor:
        """One run per member and input, warped; the noise depends on the seed and on the last dimensions only."""
        shape = law.mean.shape[-4:]  # (S, R, q, W): t-batches share it
        generator = torch.Generator().manual_seed(self.seed + 1)
        noise = torch.randn(shape, generator=generator, dtype=law.mean.dtype)
        if isinstance(law, NormalComponents):
            return law.loc + law.scale * noise
        if isinstance(law, NormalMixtureComponents):
            uniform = torch.rand(shape, generator=generator, dtype=law.mean.dtype)
            edges = law.log_weights.detach().exp().cumsum(-1)
            chosen = (uniform.unsqueeze(-1) * edges[..., -1:] > edges).sum(-1, keepdim=True)
            chosen = chosen.clamp(max=edges.shape[-1] - 1)
            return law.loc.gather(-1, chosen)[..., 0] + law.scale.gather(-1, chosen)[..., 0] * noise
        return law.draw(generator)
