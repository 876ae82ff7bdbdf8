"""The mixture over hidden draws of normals, or of mixtures of normals, as one mixture per input: its cdf."""

from __future__ import annotations

import dataclasses
from typing import Self

import torch
from torch import Tensor

from dtmgp.likelihoods.components import AbstractComponents, NormalComponents
from dtmgp.likelihoods.mixture_components import NormalMixtureComponents

ENTRIES = 1 << 17  # of a block of arguments: 1 MB in float64, which the cache holds


@dataclasses.dataclass(frozen=True)
class PooledNormals:
    """``sum_k w_k N(loc_k, 1 / precision_k^2)`` per input and output; fields (n, W, K), K draws times components.

    >>> law = NormalComponents(torch.tensor([[[-1.0]], [[1.0]]]), torch.ones(2, 1, 1))
    >>> pooled = PooledNormals.of(law)
    >>> pooled.cdf(torch.tensor([[[0.0, 9.0]]]))
    tensor([[[0.5000, 1.0000]]])
    """

    weights: Tensor
    loc: Tensor
    precision: Tensor

    @classmethod
    def of(cls, law: AbstractComponents) -> Self | None:
        """The equal mixture of components (S, n, W), or None where they are no normals."""
        if isinstance(law, NormalComponents):
            loc, scale = law.loc.unsqueeze(-1), law.scale.unsqueeze(-1)
            weights = torch.ones_like(loc)
        elif isinstance(law, NormalMixtureComponents):
            loc, scale, weights = law.loc, law.scale, law.log_weights.exp()
        else:
            return None
        loc, scale, weights = (
            part.permute(1, 2, 0, 3).flatten(2) for part in torch.broadcast_tensors(loc, scale, weights)
        )
        return cls(weights / len(law.loc), loc, scale.reciprocal())

    def cdf(self, z: Tensor) -> Tensor:
        """``P(Z <= z)`` at z (n, W, q): all levels at a time, in blocks that the cache holds."""
        block = max(1, ENTRIES // self.loc.numel())
        weights = self.weights.unsqueeze(-1)
        loc, precision = self.loc.unsqueeze(-2), self.precision.unsqueeze(-2)
        parts = [
            torch.matmul(torch.special.ndtr((part.unsqueeze(-1) - loc) * precision), weights).squeeze(-1)
            for part in z.split(block, dim=-1)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
