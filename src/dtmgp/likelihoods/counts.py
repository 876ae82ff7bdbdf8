"""Counts: Poisson, and negative binomial for more spread than Poisson allows. The rate is ``exp(f)``."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from dtmgp.errors import InputError
from dtmgp.layers.gaussian import Gaussian
from dtmgp.likelihoods.base import AbstractLikelihood, check_counts
from dtmgp.likelihoods.components import NegativeBinomialComponents, PoissonComponents

MOST = 40.0  # log rates beyond it overflow float32 in the gradient


class Poisson(AbstractLikelihood):
    """``y ~ Poisson(exp(f))``.

    >>> Poisson()(Gaussian(torch.zeros(1, 1), torch.zeros(1, 1)), torch.zeros(1, 1)).mean
    tensor([[1.]])
    """

    def __init__(self, outputs: int = 1) -> None:
        super().__init__(outputs, outputs, outputs, None)

    def forward(self, f: Gaussian, noise: Tensor) -> PoissonComponents:
        """The law at a draw of f."""
        return PoissonComponents(f.draw(noise).clamp(max=MOST).exp())

    def expected_log_prob(self, f: Gaussian, z: Tensor) -> Tensor:
        """``y m - exp(m + v/2) - log y!``."""
        return z * f.mean - (f.mean + 0.5 * f.variance).clamp(max=MOST).exp() - torch.lgamma(z + 1)

    def check_targets(self, y: np.ndarray) -> None:
        """Counts only."""
        check_counts("Poisson", y)


class NegativeBinomial(AbstractLikelihood):
    """``y`` with mean ``exp(f)`` and variance ``exp(f) + exp(2f) / size``; the size is learned."""

    def __init__(self, outputs: int = 1, *, size: float = 5.0) -> None:
        super().__init__(outputs, outputs, outputs, None)
        if not 0 < size < math.inf:
            raise InputError("NegativeBinomial size", got=repr(size), expected="a positive number")
        self.log_size = nn.Parameter(torch.full((outputs,), math.log(size)))

    def _at(self, f: Tensor) -> NegativeBinomialComponents:
        return NegativeBinomialComponents(f.clamp(max=MOST).exp(), self.log_size.exp())

    def forward(self, f: Gaussian, noise: Tensor) -> NegativeBinomialComponents:
        """The law at a draw of f."""
        return self._at(f.draw(noise))

    def expected_log_prob(self, f: Gaussian, z: Tensor) -> Tensor:
        """By Gauss-Hermite quadrature."""
        values, weights = self.hermite_nodes(f)
        return (weights * self._at(values).log_prob(z)).sum(0)

    def check_targets(self, y: np.ndarray) -> None:
        """Counts only."""
        check_counts("NegativeBinomial", y)
