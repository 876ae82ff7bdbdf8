"""Laws of one output given one hidden draw: the components of the predictive mixture.

Parameters have shape (S, n, W): hidden draw, input, output. ``take`` repeats them for the rows (replicates) of a batch.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import ClassVar, Self

import torch
from scipy import special, stats
from torch import Tensor

from dtmgp.layers.gaussian import standard_normal


@dataclasses.dataclass(frozen=True)
class AbstractComponents(abc.ABC):
    """Independent laws with elementwise densities; fields that are tensors have the shape (S, n, W)."""

    reparametrised: ClassVar[bool] = True
    discrete: ClassVar[bool] = False

    def take(self, rows: Tensor) -> Self:
        """The components of some inputs, repeated as asked: index along n."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        moved = {
            name: value.index_select(1, rows) if value.ndim >= 2 else value for name, value in fields.items()
        }
        return dataclasses.replace(self, **moved)

    def choose(self, chosen: Tensor) -> Self:
        """For draws (R, n) of hidden draws: the components chosen at every input, with R in the place of S."""
        place = torch.arange(chosen.shape[1], device=chosen.device)
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        moved = {
            name: value[chosen.to(value.device), place.to(value.device)] if value.ndim >= 2 else value
            for name, value in fields.items()
        }
        return dataclasses.replace(self, **moved)

    @abc.abstractmethod
    def log_prob(self, y: Tensor) -> Tensor:
        """Log density (or probability) at y (n, W): (S, n, W)."""

    @abc.abstractmethod
    def cdf(self, y: Tensor) -> Tensor:
        """``P(Y <= y)``; not differentiable for every law."""

    @property
    @abc.abstractmethod
    def mean(self) -> Tensor:
        """Expectation."""

    @property
    @abc.abstractmethod
    def variance(self) -> Tensor:
        """Variance."""

    def bracket(self) -> tuple[Tensor, Tensor]:
        """Ends (n, W) between which quantiles of the mixture are sought first."""
        mean, spread = self.mean, self.variance.clamp(min=0.0).sqrt()
        return (mean - 10.0 * spread).amin(0) - 1e-6, (mean + 10.0 * spread).amax(0) + 1e-6

    def quantile(self, level: float) -> Tensor:
        """``z`` with ``cdf(z) = level`` for each component of a continuous law; here by bisection."""
        spread = self.variance.sqrt()
        low, high = self.mean - 30 * spread, self.mean + 30 * spread
        for _ in range(40):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < level
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return 0.5 * (low + high)

    @abc.abstractmethod
    def draw(self, generator: torch.Generator | None = None) -> Tensor:
        """One draw each; differentiable in the parameters if ``reparametrised``."""


def _home(value: Tensor, generator: torch.Generator | None) -> Tensor:
    """The value where the generator lives: a generator on the CPU serves tensors of every device."""
    return value if generator is None else value.to(generator.device)


def _numpy(function: object, *arguments: Tensor) -> Tensor:
    """A SciPy function of tensors, in float64."""
    like = arguments[0]
    found = function(*[a.detach().cpu().double().numpy() for a in arguments])  # type: ignore[operator]
    return torch.as_tensor(found).to(like)


@dataclasses.dataclass(frozen=True)
class NormalComponents(AbstractComponents):
    """``N(loc, scale^2)``.

    >>> NormalComponents(torch.zeros(1, 1, 1), torch.ones(1, 1, 1)).cdf(torch.zeros(1, 1))
    tensor([[[0.5000]]])
    """

    loc: Tensor
    scale: Tensor

    def log_prob(self, y: Tensor) -> Tensor:
        """``log N(y; loc, scale^2)``."""
        return -0.5 * ((y - self.loc) / self.scale).square() - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, y: Tensor) -> Tensor:
        """``Phi((y - loc) / scale)``."""
        return torch.special.ndtr((y - self.loc) / self.scale)

    @property
    def mean(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """``scale^2``."""
        return self.scale.square()

    def draw(self, generator: torch.Generator | None = None) -> Tensor:
        """``loc + scale * noise``."""
        return torch.addcmul(
            self.loc, self.scale, standard_normal(tuple(self.loc.shape), self.loc, generator)
        )


@dataclasses.dataclass(frozen=True)
class StudentTComponents(AbstractComponents):
    """``loc + scale * t(degrees)`` with more than two degrees of freedom."""

    loc: Tensor
    scale: Tensor
    degrees: Tensor

    def log_prob(self, y: Tensor) -> Tensor:
        """Log density of the scaled t law."""
        nu = self.degrees
        constant = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2) - 0.5 * torch.log(math.pi * nu)
        return (
            constant
            - self.scale.log()
            - 0.5 * (nu + 1) * torch.log1p(((y - self.loc) / self.scale).square() / nu)
        )

    def cdf(self, y: Tensor) -> Tensor:
        """By SciPy: no gradient."""
        return _numpy(special.stdtr, self.degrees.expand_as(self.loc), (y - self.loc) / self.scale)

    def quantile(self, level: float) -> Tensor:
        """By SciPy, once per number of degrees."""
        standard = _numpy(special.stdtrit, self.degrees, torch.full_like(self.degrees, level))
        return self.loc + self.scale * standard

    @property
    def mean(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """``scale^2 nu / (nu - 2)``."""
        return self.scale.square() * (self.degrees / (self.degrees - 2))

    def draw(self, generator: torch.Generator | None = None) -> Tensor:
        """Normal over the root of a gamma variable, whose gradient torch knows."""
        shape = tuple(self.loc.shape)
        half = (0.5 * self.degrees).expand(shape)
        chi = torch._standard_gamma(_home(half, generator), generator=generator).to(half.device)
        return self.loc + self.scale * standard_normal(shape, self.loc, generator) * torch.sqrt(half / chi)


@dataclasses.dataclass(frozen=True)
class PoissonComponents(AbstractComponents):
    """Counts with the given rate."""

    rate: Tensor
    reparametrised: ClassVar[bool] = False
    discrete: ClassVar[bool] = True

    def log_prob(self, y: Tensor) -> Tensor:
        """Log probability of the count y."""
        return torch.xlogy(y, self.rate) - self.rate - torch.lgamma(y + 1)

    def cdf(self, y: Tensor) -> Tensor:
        """``P(Y <= floor(y))``; 0 below 0."""
        count = torch.floor(y).expand_as(self.rate)
        return torch.where(count >= 0, torch.special.gammaincc(count.clamp(min=0) + 1, self.rate), 0.0)

    @property
    def mean(self) -> Tensor:
        """``rate``."""
        return self.rate

    @property
    def variance(self) -> Tensor:
        """``rate``."""
        return self.rate

    def draw(self, generator: torch.Generator | None = None) -> Tensor:
        """Counts as floats."""
        return torch.poisson(_home(self.rate, generator), generator=generator).to(self.rate.device)


@dataclasses.dataclass(frozen=True)
class NegativeBinomialComponents(AbstractComponents):
    """Counts with mean ``rate`` and variance ``rate + rate^2 / size``."""

    rate: Tensor
    size: Tensor
    reparametrised: ClassVar[bool] = False
    discrete: ClassVar[bool] = True

    def log_prob(self, y: Tensor) -> Tensor:
        """Log probability of the count y."""
        r, total = self.size, self.size + self.rate
        # near Poisson r is large, and so are both terms of this difference: float32 would lose it
        rising = (torch.lgamma(y.double() + r.double()) - torch.lgamma(r.double())).to(self.rate)
        return (
            rising - torch.lgamma(y + 1) - r * torch.log1p(self.rate / r) + torch.xlogy(y, self.rate / total)
        )

    def cdf(self, y: Tensor) -> Tensor:
        """By SciPy: no gradient."""
        size = self.size.expand_as(self.rate)
        return _numpy(stats.nbinom.cdf, y.expand_as(self.rate), size, size / (size + self.rate))

    @property
    def mean(self) -> Tensor:
        """``rate``."""
        return self.rate

    @property
    def variance(self) -> Tensor:
        """``rate + rate^2 / size``."""
        return self.rate + self.rate.square() / self.size

    def draw(self, generator: torch.Generator | None = None) -> Tensor:
        """Poisson counts with a gamma rate."""
        size = self.size.expand_as(self.rate).contiguous()
        gamma = torch._standard_gamma(_home(size, generator), generator=generator)
        rate = gamma * _home(self.rate / size, generator)
        return torch.poisson(rate, generator=generator).to(self.rate.device)


@dataclasses.dataclass(frozen=True)
class BernoulliComponents(AbstractComponents):
    """0 or 1 with the given probability of 1."""

    probability: Tensor
    reparametrised: ClassVar[bool] = False
    discrete: ClassVar[bool] = True

    def log_prob(self, y: Tensor) -> Tensor:
        """Log probability of y in {0, 1}."""
        return torch.xlogy(y, self.probability) + torch.xlogy(1 - y, 1 - self.probability)

    def cdf(self, y: Tensor) -> Tensor:
        """A step at 0 and one at 1."""
        return torch.where(y >= 1, 1.0, torch.where(y >= 0, 1 - self.probability, 0.0))

    @property
    def mean(self) -> Tensor:
        """``probability``."""
        return self.probability

    @property
    def variance(self) -> Tensor:
        """``p (1 - p)``."""
        return self.probability * (1 - self.probability)

    def draw(self, generator: torch.Generator | None = None) -> Tensor:
        """0 or 1 as floats."""
        found = torch.bernoulli(_home(self.probability, generator), generator=generator)
        return found.to(self.probability.device)


@dataclasses.dataclass(frozen=True)
class CategoricalComponents(AbstractComponents):
    """One of C classes; ``log_probabilities`` (S, n, C), labels (n, 1) as numbers 0 .. C-1."""

    log_probabilities: Tensor
    reparametrised: ClassVar[bool] = False
    discrete: ClassVar[bool] = True

    def log_prob(self, y: Tensor) -> Tensor:
        """Log probability (S, n, 1) of the labels."""
        labels = y.long().expand(*self.log_probabilities.shape[:-1], 1)
        return self.log_probabilities.gather(-1, labels)

    def cdf(self, y: Tensor) -> Tensor:
        """Probability of the labels up to y: meaningful for ordered classes only."""
        labels = torch.arange(self.log_probabilities.shape[-1]).to(y)
        return (self.log_probabilities.exp() * (labels <= y)).sum(-1, keepdim=True)

    @property
    def mean(self) -> Tensor:
        """Probabilities of the classes (S, n, C)."""
        return self.log_probabilities.exp()

    @property
    def variance(self) -> Tensor:
        """``p (1 - p)`` per class."""
        return self.mean * (1 - self.mean)

    def draw(self, generator: torch.Generator | None = None) -> Tensor:
        """Labels (S, n, 1) as floats."""
        lead, classes = self.log_probabilities.shape[:-1], self.log_probabilities.shape[-1]
        flat = self.mean.reshape(-1, classes)
        return torch.multinomial(_home(flat, generator), 1, generator=generator).reshape(*lead, 1).to(flat)

    def bracket(self) -> tuple[Tensor, Tensor]:
        """Below the first label, and the last one."""
        low = self.log_probabilities.new_full((*self.log_probabilities.shape[1:-1], 1), -1.0)
        return low, torch.full_like(low, self.log_probabilities.shape[-1] - 1.0)
