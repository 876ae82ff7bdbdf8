"""Networks with independent Gaussian weights: every linear map is sampled by local reparameterisation.

Given its input h, ``W^T h + b`` with independent Gaussian weights is Gaussian per unit, mean ``M^T h + m_b``, variance
``(S^2)^T h^2 + s_b^2`` (Kingma, Salimans, Welling 2015). So noise is drawn per unit and input, never per weight.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from dtmgp.errors import InputError
from dtmgp.layers import Gaussian, GaussianWeights
from dtmgp.layers.gaussian import standard_normal
from dtmgp.likelihoods import AbstractComponents, AbstractLikelihood
from dtmgp.model import ModelNoise
from dtmgp.model.noise import independent_noise, shared_noise


class Dense(nn.Module):
    """``W^T h + b`` with ``q(W_ij) = N(m, s^2)``, from ``size`` inputs to ``width`` units; ``bias_prior`` None: no b.

    Priors are pairs (mean, std). The means start at normal draws of standard deviation ``scale`` around the prior mean
    of W (0 for b), the standard deviations at ``initial_std``.

    >>> Dense(3, 2, prior=(0.0, 1.0), bias_prior=(0.0, 1.0))(torch.zeros(7, 3)).mean.shape
    torch.Size([7, 2])
    """

    def __init__(
        self,
        size: int,
        width: int,
        *,
        prior: tuple[float, float],
        bias_prior: tuple[float, float] | None = None,
        scale: float = 0.0,
        initial_std: float = 0.1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.size, self.width = size, width
        self.weights = _table(size, width, prior, initial_std)
        with torch.no_grad():
            noise = standard_normal((size, width), self.weights.mean, generator)
            self.weights.mean.add_(noise, alpha=scale)
        self.bias = None if bias_prior is None else _table(1, width, bias_prior, initial_std)
        if self.bias is not None:
            with torch.no_grad():
                self.bias.mean.zero_()

    def forward(self, h: Tensor) -> Gaussian:
        """Law of the units (..., width) at inputs (..., size)."""
        mean, variance = h @ self.weights.mean, h.square() @ self.weights.variance
        if self.bias is None:
            return Gaussian(mean, variance)
        return Gaussian(mean + self.bias.mean, variance + self.bias.variance)


def _table(size: int, width: int, prior: tuple[float, float], initial_std: float) -> GaussianWeights:
    mean, std = prior
    if not std > 0:
        raise InputError("prior of the weights", got=f"std {std!r}", expected="a positive standard deviation")
    return GaussianWeights(size, width, prior_mean=mean, prior_std=std, initial_std=initial_std / std)


class BayesianNetwork(nn.Module):
    """Stages in a row, ``h <- draw of dense(activation(h))``; the last is not drawn, so its law is closed form.

    ``stages`` are pairs (activation, dense): the first maps (..., w) to features, the second features to a Gaussian (a
    `Dense`, or another module with ``width`` and a Gaussian as result). In front of the stages numbered in ``joined``
    the inputs x are appended to h. It offers what `dtmgp.model.TrainableModel` asks for.

    >>> from dtmgp.likelihoods import GaussianLikelihood
    >>> first, last = Dense(13, 20, prior=(0.0, 1.0)), Dense(20, 1, prior=(0.0, 1.0))
    >>> network = BayesianNetwork([(nn.Identity(), first), (nn.ReLU(), last)], GaussianLikelihood())
    >>> network(torch.rand(7, 13), samples=4).mean.shape
    torch.Size([4, 7, 1])
    """

    def __init__(
        self,
        stages: Sequence[tuple[nn.Module, nn.Module]],
        likelihood: AbstractLikelihood,
        joined: Collection[int] = (),
    ) -> None:
        super().__init__()
        self.activations = nn.ModuleList(activation for activation, _ in stages)
        self.maps = nn.ModuleList(dense for _, dense in stages)
        self.likelihood = likelihood
        self.joined = frozenset(joined)
        self._hidden = tuple(cast(int, dense.width) for _, dense in stages[:-1])

    @property
    def noise_widths(self) -> tuple[int, tuple[int, ...], int]:
        """Columns of latent, hidden and output noise."""
        return 0, self._hidden, self.likelihood.noise_width

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
        """Law of the output (S, n, W) given draws of the hidden units, at inputs (n, d)."""
        draws = self.noise(samples, len(x), x, generator) if noise is None else noise
        count = len(draws.output)
        h = x
        for number, (activation, dense) in enumerate(zip(self.activations, self.maps)):
            if number in self.joined:
                h = torch.cat([h, x.expand(*h.shape[:-1], -1)], dim=-1)
            law: Gaussian = dense(activation(h))
            if number < len(self._hidden):
                h = law.draw(draws.hidden[number])
        if law.mean.ndim == 2:  # nothing hidden: all samples agree
            shape = (count, *law.mean.shape)
            law = Gaussian(law.mean.expand(shape), law.variance.expand(shape))
        return law

    def components(self, x: Tensor, noise: ModelNoise) -> AbstractComponents:
        """Law of the warped output given each draw, (S, n, W)."""
        law: AbstractComponents = self.likelihood(self(x, noise=noise), noise.output)
        return law

    def kl(self) -> Tensor:
        """KL divergence of all weights from their prior."""
        tables = [part.kl() for part in self.modules() if isinstance(part, GaussianWeights)]
        return torch.stack(tables).sum()
