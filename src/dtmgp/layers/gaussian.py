"""What a layer puts out: independent Gaussians, and their draws."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Gaussian(NamedTuple):
    """Independent normal laws, ``mean`` and ``variance`` of equal shape (..., W).

    >>> Gaussian(torch.zeros(1), torch.ones(1)).draw(torch.tensor([2.0]))
    tensor([2.])
    """

    mean: Tensor
    variance: Tensor

    def draw(self, noise: Tensor) -> Tensor:
        """``mean + std * noise`` for standard normal noise: differentiable in mean and variance."""
        return torch.addcmul(self.mean, self.std, noise)

    @property
    def std(self) -> Tensor:
        """Standard deviation; its gradient stays finite where the variance is 0."""
        return self.variance.clamp(min=1e-12).sqrt()

    def pick(self, columns: slice) -> Gaussian:
        """Some of the outputs."""
        return Gaussian(self.mean[..., columns], self.variance[..., columns])


def standard_normal(shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Standard normal noise on the device and in the dtype of a tensor.

    Drawn where the generator lives, so that a generator on the CPU gives the same numbers on every device.
    """
    device = like.device if generator is None else generator.device
    return torch.randn(shape, generator=generator, device=device, dtype=like.dtype).to(like.device)
