"""Mixtures of normals as the law of one output given one hidden draw."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor

from dtmgp.layers.gaussian import standard_normal
from dtmgp.likelihoods.components import AbstractComponents, NormalComponents


@dataclasses.dataclass(frozen=True)
class NormalMixtureComponents(AbstractComponents):
    """``sum_c w_c N(loc_c, scale_c^2)``; fields have shape (S, n, W, C).

    >>> half = torch.full((1, 1, 1, 2), 0.5).log()
    >>> law = NormalMixtureComponents(half, torch.tensor([[[[-1.0, 1.0]]]]), torch.ones(1, 1, 1, 2))
    >>> law.mean, law.variance
    (tensor([[[0.]]]), tensor([[[2.]]]))
    """

    reparametrised: ClassVar[bool] = False

    log_weights: Tensor
    loc: Tensor
    scale: Tensor

    @property
    def normals(self) -> NormalComponents:
        """The mixed laws, with the mixture's index as a last axis."""
        return NormalComponents(self.loc, self.scale)

    def mix(self, values: Tensor) -> Tensor:
        """Weighted sum over the components of values (S, n, W, C)."""
        return (self.log_weights.exp() * values).sum(-1)

    def log_prob(self, y: Tensor) -> Tensor:
        """``log sum_c w_c N(y; loc_c, scale_c^2)``."""
        return torch.logsumexp(self.log_weights + self.normals.log_prob(y.unsqueeze(-1)), dim=-1)

    def cdf(self, y: Tensor) -> Tensor:
        """``sum_c w_c Phi((y - loc_c) / scale_c)``."""
        return self.mix(self.normals.cdf(y.unsqueeze(-1)))

    @property
    def mean(self) -> Tensor:
        """``sum_c w_c loc_c``."""
        return self.mix(self.loc)

    @property
    def variance(self) -> Tensor:
        """Within and between the components."""
        return self.mix(self.scale.square() + (self.loc - self.mean.unsqueeze(-1)).square())

    def draw(self, generator: torch.Generator | None = None) -> Tensor:
        """A component by its weight, then a normal; no gradient in the weights."""
        device = self.loc.device if generator is None else generator.device
        shape = self.loc.shape[:-1]
        uniform = torch.rand(shape, generator=generator, device=device, dtype=self.loc.dtype).to(self.loc)
        edges = self.log_weights.exp().cumsum(-1)
        chosen = (uniform.unsqueeze(-1) * edges[..., -1:] > edges).sum(-1, keepdim=True)
        chosen = chosen.clamp(max=self.loc.shape[-1] - 1)
        loc, scale = self.loc.gather(-1, chosen)[..., 0], self.scale.gather(-1, chosen)[..., 0]
        return torch.addcmul(loc, scale, standard_normal(tuple(shape), self.loc, generator))
