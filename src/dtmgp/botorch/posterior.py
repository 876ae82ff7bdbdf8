"""A posterior made of weighted functions: every sample is one of them, at all inputs of a call."""

from __future__ import annotations

from typing import Any

import torch
from botorch.posteriors.posterior import Posterior
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Tensor


class FunctionPosterior(Posterior):
    """Values (..., N, q, m) of N functions with weights (..., N) or (N,).

    Base samples are one standard normal number per sample: its probability picks the function, along the cumulated
    weights. Sobol' base samples therefore pick each of N equally weighted functions about equally often, samples are
    consistent over inputs and calls, and they are differentiable in the inputs.

    >>> law = FunctionPosterior(torch.tensor([[[0.0]], [[2.0]]]))
    >>> law.mean, law.variance
    (tensor([[1.]]), tensor([[2.]]))
    """

    def __init__(self, values: Tensor, weights: Tensor | None = None) -> None:
        self.values = values
        count = values.shape[-3]
        given = torch.full((count,), 1.0 / count, dtype=values.dtype) if weights is None else weights
        self.weights = given.expand(values.shape[:-2])

    @property
    def device(self) -> torch.device:
        """Device of the values."""
        return self.values.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the values."""
        return self.values.dtype

    @property
    def batch_shape(self) -> torch.Size:
        """Without functions, inputs and outputs."""
        return self.values.shape[:-3]

    @property
    def event_shape(self) -> torch.Size:
        """Inputs and outputs."""
        return self.batch_shape + self.values.shape[-2:]

    @property
    def base_sample_shape(self) -> torch.Size:
        """One number."""
        return self.batch_shape + torch.Size([1, 1])

    @property
    def batch_range(self) -> tuple[int, int]:
        """All batches share base samples."""
        return 0, -2

    def _extended_shape(self, sample_shape: torch.Size = torch.Size()) -> torch.Size:  # noqa: B008
        return sample_shape + self.event_shape

    @property
    def mean(self) -> Tensor:
        """Weighted mean (..., q, m)."""
        return (self.values * self.weights[..., None, None]).sum(-3)

    @property
    def variance(self) -> Tensor:
        """Weighted variance (..., q, m), unbiased for independent functions."""
        weights = self.weights[..., None, None]
        square = (weights * (self.values - self.mean.unsqueeze(-3)).square()).sum(-3)
        return square / (1.0 - weights.square().sum(-3)).clamp(min=1e-6)

    def quantile(self, value: Tensor) -> Tensor:
        """Marginal quantiles over the functions, (len(value), ..., q, m)."""
        ordered, places = self.values.sort(dim=-3)
        cumulated = self.weights[..., None, None].expand_as(ordered).gather(-3, places).cumsum(-3)
        found = []
        for level in value.reshape(-1).tolist():
            row = (cumulated < level).sum(-3, keepdim=True).clamp(max=ordered.shape[-3] - 1)
            found.append(ordered.gather(-3, row)[..., 0, :, :])
        return torch.stack(found)

    def rsample(self, sample_shape: torch.Size | None = None) -> Tensor:
        """Functions picked at random."""
        shape = torch.Size([1]) if sample_shape is None else sample_shape
        base = torch.randn(shape + self.base_sample_shape, dtype=self.dtype)
        return self.rsample_from_base_samples(shape, base)

    def rsample_from_base_samples(self, sample_shape: torch.Size, base_samples: Tensor) -> Tensor:
        """Functions picked by normal numbers (sample_shape, ..., 1, 1)."""
        uniform = torch.special.ndtr(base_samples[..., :1, 0])  # (*sample, ..., 1)
        uniform = uniform.expand(*sample_shape, *self.batch_shape, 1)
        edges = self.weights.detach().cumsum(-1)
        edges = (edges / edges[..., -1:]).expand(*sample_shape, *edges.shape).contiguous()
        place = torch.searchsorted(edges, uniform.contiguous()).clamp(max=edges.shape[-1] - 1)
        values = self.values.expand(*sample_shape, *self.values.shape)
        index = place[..., None, None].expand(*place.shape[:-1], 1, *values.shape[-2:])
        return values.gather(-3, index)[..., 0, :, :]


@GetSampler.register(FunctionPosterior)
def _sampler(
    posterior: FunctionPosterior, sample_shape: torch.Size, *, seed: int | None = None, **_: Any
) -> SobolQMCNormalSampler:
    """Sobol' numbers that pick functions."""
    return SobolQMCNormalSampler(sample_shape=sample_shape, seed=seed)
