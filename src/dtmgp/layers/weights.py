"""Independent Gaussian weights with an independent Gaussian prior (paper, section 4.4)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dtmgp.errors import InputError
from dtmgp.layers.gaussian import standard_normal


class GaussianWeights(nn.Module):
    """``q(w) = N(mean, std^2)`` for a table (m, W) of weights; ``p(w) = N(prior_mean, prior_std^2)``.

    The parameter behind ``std`` is its logarithm. The prior is a pair of numbers or of tensors that broadcast to
    (m, W); it starts the means at the prior mean, the standard deviations at ``initial_std * prior_std``.

    >>> GaussianWeights(3, 2, initial_std=1.0).kl()
    tensor(0., grad_fn=<SumBackward0>)
    """

    prior_mean: Tensor
    prior_std: Tensor

    def __init__(
        self,
        size: int,
        width: int,
        *,
        prior_mean: float | Tensor = 0.0,
        prior_std: float | Tensor = 1.0,
        initial_std: float = math.exp(-1.0),
    ) -> None:
        super().__init__()
        if size < 1 or width < 1 or not 0 < initial_std < math.inf:
            raise InputError(
                "GaussianWeights",
                got=f"size={size}, width={width}, initial_std={initial_std}",
                expected="positive numbers",
            )
        centre, spread = torch.as_tensor(prior_mean), torch.as_tensor(prior_std)
        possible = (spread > 0).all() and torch.isfinite(spread).all() and torch.isfinite(centre).all()
        if not bool(possible):
            raise InputError(
                "prior of the weights",
                got=f"mean {prior_mean}, std {prior_std}",
                expected="finite means and finite positive standard deviations",
            )
        for shape in (tuple(centre.shape), tuple(spread.shape)):
            if len(shape) > 2 or any(have not in (1, want) for have, want in zip(shape[::-1], (width, size))):
                raise InputError(
                    "prior of the weights",
                    got=f"shape {shape}",
                    expected=f"one that broadcasts to ({size}, {width})",
                )
        default = torch.get_default_dtype()
        self.register_buffer("prior_mean", centre.to(default))
        self.register_buffer("prior_std", spread.to(default))
        self.mean = nn.Parameter((torch.zeros(size, width) + self.prior_mean).contiguous())
        self.log_std = nn.Parameter(
            (torch.zeros(size, width) + (initial_std * self.prior_std).log()).contiguous()
        )

    def extra_repr(self) -> str:
        """Size of the table."""
        return f"m={self.mean.shape[0]:,}, W={self.mean.shape[1]:,}"

    @property
    def variance(self) -> Tensor:
        """``std^2`` (m, W)."""
        return (2.0 * self.log_std).exp()

    def kl(self) -> Tensor:
        """``KL(q || p)`` in closed form, summed over the table (paper, section 4.4)."""
        log_ratio = self.log_std - self.prior_std.log()
        distance = (self.mean - self.prior_mean) / self.prior_std
        return (0.5 * ((2.0 * log_ratio).exp() + distance.square() - 1.0) - log_ratio).sum()

    def draw(self, samples: int, generator: torch.Generator | None = None) -> Tensor:
        """Tables (S, m, W) drawn from q."""
        noise = standard_normal((samples, *self.mean.shape), self.mean, generator)
        return torch.addcmul(self.mean, self.log_std.exp(), noise)
