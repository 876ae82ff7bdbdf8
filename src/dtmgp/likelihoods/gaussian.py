"""Gaussian noise: one level for all inputs, or a level that is a process of its own."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dtmgp.errors import InputError
from dtmgp.layers.gaussian import Gaussian
from dtmgp.likelihoods.base import AbstractLikelihood
from dtmgp.likelihoods.components import NormalComponents
from dtmgp.likelihoods.warps import AbstractWarp

LOG_2PI = math.log(2 * math.pi)


def _check_noise(noise: float) -> float:
    if not (noise > 0 and math.isfinite(noise)):
        raise InputError("noise", got=repr(noise), expected="a positive standard deviation")
    return math.log(noise)


class GaussianLikelihood(AbstractLikelihood):
    """``z ~ N(f, noise^2)``; the process is integrated in closed form. ``noise`` starts the standard deviation.

    >>> law = GaussianLikelihood(noise=1.0)(
    ...     Gaussian(torch.zeros(1, 1), torch.full((1, 1), 3.0)), torch.empty(1, 0)
    ... )
    >>> law.variance
    tensor([[4.]], grad_fn=<PowBackward0>)
    """

    def __init__(
        self,
        outputs: int = 1,
        *,
        noise: float = 0.3,
        warp: AbstractWarp | None = None,
        learn_noise: bool = True,
    ) -> None:
        super().__init__(outputs, outputs, 0, warp)
        self.log_noise = nn.Parameter(torch.full((outputs,), _check_noise(noise)), requires_grad=learn_noise)

    def forward(self, f: Gaussian, noise: Tensor) -> NormalComponents:
        """``N(mean, variance + noise^2)``."""
        return NormalComponents(f.mean, (f.variance + (2 * self.log_noise).exp()).sqrt())

    def expected_log_prob(self, f: Gaussian, z: Tensor) -> Tensor:
        """Paper, eq. for the ELBO: quadratic, in closed form."""
        square = (z - f.mean).square() + f.variance
        return -0.5 * (LOG_2PI + square * (-2 * self.log_noise).exp()) - self.log_noise


class HeteroscedasticGaussian(AbstractLikelihood):
    """``z ~ N(f_1, exp(f_2)^2 noise^2)``: the second half of the processes is the log-scale of the noise.

    The location is integrated in closed form. The log-scale enters by one draw per hidden draw, and in the ELBO in
    closed form. ``floor`` keeps the scale from collapsing on noise-free data.
    """

    def __init__(
        self, outputs: int = 1, *, noise: float = 0.3, warp: AbstractWarp | None = None, floor: float = 1e-3
    ) -> None:
        super().__init__(outputs, 2 * outputs, outputs, warp)
        self.log_noise = nn.Parameter(torch.full((outputs,), _check_noise(noise)))
        self.floor = float(floor)

    def _split(self, f: Gaussian) -> tuple[Gaussian, Gaussian]:
        return f.pick(slice(0, self.outputs)), f.pick(slice(self.outputs, None))

    def forward(self, f: Gaussian, noise: Tensor) -> NormalComponents:
        """``N(mean, variance + scale^2)`` at a draw of the scale."""
        location, log_scale = self._split(f)
        scale = (log_scale.draw(noise) + self.log_noise).clamp(max=20.0).exp()
        return NormalComponents(location.mean, (location.variance + scale.square() + self.floor**2).sqrt())

    def expected_log_prob(self, f: Gaussian, z: Tensor) -> Tensor:
        """``E exp(-2 f_2) = exp(-2 m_2 + 2 v_2)``; without the floor, which only ``forward`` needs."""
        location, log_scale = self._split(f)
        mean = log_scale.mean + self.log_noise
        square = (z - location.mean).square() + location.variance
        return -0.5 * (LOG_2PI + square * (2 * (log_scale.variance - mean)).exp()) - mean
