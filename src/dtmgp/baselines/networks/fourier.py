"""Random Fourier features of the Gaussian kernel, and the treatments of their frequencies in Cutajar et al. (2017).

``exp(-sum_j (x_j - x'_j)^2 / (2 l_j^2)) = E cos(w^T (x - x'))`` for ``w_j ~ N(0, 1/l_j^2)``, so N frequencies give 2N
features ``phi(x) = a / sqrt(N) [cos(w_k^T x), sin(w_k^T x)]`` with ``E phi(x)^T phi(x') = a^2 k(x, x')``.
Frequencies are ``w = e / l`` with e in units of the prior: q(e) and its prior N(0, 1) give the family and the KL
divergence of q(w) and N(0, 1/l^2), and lengthscales get gradients from the data term alone.
"""

from __future__ import annotations

import abc
import math

import torch
from torch import Tensor, nn

from dtmgp.baselines.networks.network import Dense
from dtmgp.errors import InputError
from dtmgp.layers import Gaussian, GaussianWeights
from dtmgp.layers.gaussian import standard_normal

INITIAL_STD = 0.3  # of resampled frequencies in units of the prior: at 1 all features would start as noise


class AbstractFrequencies(nn.Module, abc.ABC):
    """``w^T h`` for ``count`` frequencies in ``dim`` dimensions; ``learn_lengthscales`` is a fact of the treatment."""

    learn_lengthscales = True

    def __init__(
        self, dim: int, count: int, lengthscale: float, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        if dim < 1 or count < 1 or not lengthscale > 0:
            raise InputError(
                type(self).__name__,
                got=f"dim={dim}, count={count}, lengthscale={lengthscale}",
                expected="positive numbers",
            )
        self.dim, self.width = dim, count
        self.log_lengthscale = nn.Parameter(
            torch.full((dim,), math.log(lengthscale)), requires_grad=self.learn_lengthscales
        )
        self.register_buffer("prior_draw", standard_normal((dim, count), self.log_lengthscale, generator))

    prior_draw: Tensor

    def scaled(self, h: Tensor) -> Tensor:
        """``h_j / l_j``."""
        return h * (-self.log_lengthscale).exp()

    @abc.abstractmethod
    def forward(self, h: Tensor) -> Tensor | Gaussian:
        """Phases (..., count), or their law, at inputs (..., dim)."""


class PriorFixed(AbstractFrequencies):
    """Drawn once from the prior; the draw stays, lengthscales are learned ("prior-fixed")."""

    def forward(self, h: Tensor) -> Tensor:
        """Phases (..., count)."""
        return self.scaled(h) @ self.prior_draw


class FixedFrequencies(AbstractFrequencies):
    """Drawn once from the prior of the initial lengthscales, which are not learned either."""

    learn_lengthscales = False

    def forward(self, h: Tensor) -> Tensor:
        """Phases (..., count)."""
        return self.scaled(h) @ self.prior_draw


class VariationalFixed(AbstractFrequencies):
    """``e = m + s z`` with z drawn once: q(w) is learned, its randomness stays ("var-fixed"). Starts at the prior."""

    def __init__(
        self, dim: int, count: int, lengthscale: float, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(dim, count, lengthscale, generator)
        self.weights = GaussianWeights(dim, count, initial_std=1.0)

    def forward(self, h: Tensor) -> Tensor:
        """Phases (..., count)."""
        table = torch.addcmul(self.weights.mean, self.weights.log_std.exp(), self.prior_draw)
        return self.scaled(h) @ table


class VariationalResampled(AbstractFrequencies):
    """q(w) is learned and drawn anew at every use ("var-resampled"), by its phases: Gaussian given h."""

    def __init__(
        self, dim: int, count: int, lengthscale: float, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(dim, count, lengthscale, generator)
        self.weights = GaussianWeights(dim, count, initial_std=INITIAL_STD)
        with torch.no_grad():
            self.weights.mean.copy_(self.prior_draw)

    def forward(self, h: Tensor) -> Gaussian:
        """Law of the phases (..., count)."""
        scaled = self.scaled(h)
        return Gaussian(scaled @ self.weights.mean, scaled.square() @ self.weights.variance)


class CosineSine(nn.Module):
    """``a / sqrt(N) [cos z, sin z]`` of N phases; the amplitude a starts at 1 and is learned.

    >>> CosineSine()(torch.zeros(1, 4))
    tensor([[0.5000, 0.5000, 0.5000, 0.5000, 0.0000, 0.0000, 0.0000, 0.0000]],
           grad_fn=<MulBackward0>)
    """

    def __init__(self) -> None:
        super().__init__()
        self.log_amplitude = nn.Parameter(torch.zeros(()))

    def forward(self, phases: Tensor) -> Tensor:
        """Features (..., 2 N) of phases (..., N)."""
        features = torch.cat([phases.cos(), phases.sin()], dim=-1)
        return features * (self.log_amplitude.exp() / math.sqrt(phases.shape[-1]))


def fourier_stages(frequencies: AbstractFrequencies, dense: Dense) -> list[tuple[nn.Module, nn.Module]]:
    """One layer of the random feature model as stages of a `BayesianNetwork`: two if the phases are drawn."""
    if isinstance(frequencies, VariationalResampled):
        return [(nn.Identity(), frequencies), (CosineSine(), dense)]
    return [(nn.Sequential(frequencies, CosineSine()), dense)]
