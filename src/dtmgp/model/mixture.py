"""The predictive law of y at every input: an equal mixture over hidden draws, in units of y.

``P(y | x) = 1/S sum_s p(g(y) | h_s(x)) g'(y)`` with components in closed form, g the output warp. Everything here is
exact for the S draws; the error from S being finite is reported by ``log_prob(return_error=True)``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dtmgp.errors import InputError
from dtmgp.likelihoods import (
    AbstractComponents,
    AbstractWarp,
    IdentityWarp,
    NormalComponents,
    NormalMixtureComponents,
    PooledNormals,
)
from dtmgp.likelihoods.base import hermite
from dtmgp.model.inversion import invert_cdf

MOMENT_NODES = 20  # of the quadrature through a warp, per component
BISECTIONS = 60  # from any bracket to float64 rounding
WIDENINGS = 16  # of a bracket, by factors of 3


class Mixture:
    """Components (S, n, W) and the warp behind which they live.

    >>> law = Mixture(
    ...     NormalComponents(torch.tensor([[[-1.0]], [[1.0]]]), torch.ones(2, 1, 1)), IdentityWarp()
    ... )
    >>> law.mean, law.variance
    (tensor([[0.]]), tensor([[2.]]))
    """

    def __init__(self, components: AbstractComponents, warp: AbstractWarp) -> None:
        self.components, self.warp = components, warp

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of y per component."""
        law = self.components
        if isinstance(self.warp, IdentityWarp):
            return law.mean, law.variance
        if self.warp.affine:
            centre = self.warp.inverse(law.mean)
            return centre, law.variance * torch.exp(-2.0 * self.warp.log_derivative(centre))
        if isinstance(law, NormalMixtureComponents):
            parts = NormalComponents(law.loc.movedim(-1, 0), law.scale.movedim(-1, 0))  # outputs stay last
            mean, variance = (part.movedim(0, -1) for part in self._normal_moments(parts))
            total = law.mix(mean)
            return total, law.mix(variance + (mean - total.unsqueeze(-1)).square())
        if not isinstance(law, NormalComponents):
            return self._moments_by_quantiles()
        return self._normal_moments(law)

    def _normal_moments(self, law: NormalComponents) -> tuple[Tensor, Tensor]:
        """Normal laws through the warp, by quadrature unless there is a closed form."""
        known = self.warp.normal_moments(law.loc, law.scale)
        if known is not None:
            return known
        nodes, weights = hermite(MOMENT_NODES)
        mean = torch.zeros_like(law.loc)
        square = torch.zeros_like(law.loc)
        centre = self.warp.inverse(law.loc)  # differences, so that the square does not cancel
        for node, weight in zip(nodes.tolist(), weights.tolist()):
            step = self.warp.inverse(law.loc + node * law.scale) - centre
            mean += weight * step
            square += weight * step.square()
        return centre + mean, (square - mean.square()).clamp(min=0.0)

    def _moments_by_quantiles(self, points: int = 129) -> tuple[Tensor, Tensor]:
        """Heavy tails: midpoint rule in the probability of a warped Student t, whose mean may not exist."""
        levels = (torch.arange(points, dtype=torch.float64) + 0.5) / points
        values = [self.warp.inverse(self.components.quantile(level)) for level in levels.tolist()]
        stacked = torch.stack(values)
        return stacked.mean(0), stacked.var(0, correction=0)

    def component_means(self) -> Tensor:
        """``E(Y | component)`` (S, n, W)."""
        return self._moments()[0]

    @property
    def mean(self) -> Tensor:
        """``E Y`` (n, W)."""
        return self._moments()[0].mean(0)

    @property
    def variance(self) -> Tensor:
        """Law of total variance, (n, W)."""
        return self.mean_and_variance()[1]

    def mean_and_variance(self) -> tuple[Tensor, Tensor]:
        """Both moments in one pass."""
        mean, variance = self._moments()
        return mean.mean(0), variance.mean(0) + mean.var(0, correction=0)

    def variance_of_mean(self) -> Tensor:
        """Variance of ``E[Y | hidden draw]``: what is left when runs are averaged at one hidden draw."""
        return self._moments()[0].var(0, correction=0)

    def log_prob(self, y: Tensor, return_error: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Joint log density of the rows of y (n, W): (n,). With its Monte-Carlo standard error (delta method)."""
        samples = self._samples
        joint = self.components.log_prob(self.warp(y)).sum(-1) + self.warp.log_derivative(y).sum(-1)
        total = torch.logsumexp(joint, dim=0) - math.log(samples)
        if not return_error:
            return total
        weights = torch.exp(joint - total)  # of mean 1
        error = weights.std(0, correction=0) / math.sqrt(samples)
        return total, torch.where(torch.isfinite(total), error, torch.inf)  # no draw has any density there

    def cdf(self, y: Tensor) -> Tensor:
        """``P(Y <= y)`` per output, (n, W)."""
        return self.components.cdf(self.warp(y)).mean(0)

    @property
    def _samples(self) -> int:
        return next(iter(vars(self.components).values())).shape[0]

    def quantiles(self, levels: Tensor) -> Tensor:
        """Quantiles (n, W, q): the mixture's cdf inverted."""
        if not bool(((levels > 0) & (levels < 1)).all()):
            raise InputError(
                "levels of quantiles", got=str(levels.tolist()), expected="numbers between 0 and 1"
            )
        found = self._whole_numbers(levels) if self.components.discrete else self._scores(levels)
        return torch.stack([self.warp.inverse(part) for part in found.unbind(-1)], dim=-1)

    def _scores(self, levels: Tensor) -> Tensor:
        """Quantiles of a continuous law before the warp, sought around those of a normal law of the same moments."""
        law, pooled = self.components, PooledNormals.of(self.components)
        cdf = self._cdf_of if pooled is None else pooled.cdf
        means = law.mean
        mean = means.mean(0).unsqueeze(-1)
        spread = (law.variance.mean(0) + means.var(0, correction=0)).clamp(min=0.0).sqrt().unsqueeze(-1)
        wanted = levels.to(mean).expand(*mean.shape[:-1], len(levels))
        step = (0.5 * spread).clamp(min=1e-6).expand_as(wanted)
        middle = mean + spread * torch.special.ndtri(wanted)
        low, high = middle - step, middle + step
        below, above = cdf(low), cdf(high)
        for _ in range(WIDENINGS):  # laws that are far from normal, and tails that are heavier
            left, right = below > wanted, above < wanted
            if not bool((left | right).any()):
                break
            step = 3.0 * step
            low, high = (
                torch.where(left, low - step, torch.where(right, high, low)),
                torch.where(right, high + step, torch.where(left, low, high)),
            )
            below, above = cdf(low), cdf(high)
        return invert_cdf(cdf, wanted, low, high, (below, above), strength=0.01)

    def _whole_numbers(self, levels: Tensor) -> Tensor:
        """Quantiles of counts by bisection between the extreme components' quantiles."""
        low, high = self.components.bracket()
        wanted = levels.to(low)
        low, high = (end.unsqueeze(-1).repeat(*[1] * end.ndim, len(levels)) for end in (low, high))
        for _ in range(10):  # tails that are heavier than normal ones
            width = high - low
            short_low = self._cdf_of(low) > wanted
            short_high = self._cdf_of(high) < wanted
            if not bool(short_low.any() or short_high.any()):
                break
            low = torch.where(short_low, low - width, low)
            high = torch.where(short_high, high + width, high)
        for _ in range(BISECTIONS if low.dtype == torch.float64 else 32):
            middle = 0.5 * (low + high)
            below = self._cdf_of(middle) < wanted
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return high.floor()  # the upper end is the quantile or a rounding error above it

    def _cdf_of(self, z: Tensor) -> Tensor:
        return torch.stack([self.components.cdf(part).mean(0) for part in z.unbind(-1)], dim=-1)

    def draw(self, generator: torch.Generator | None = None) -> Tensor:
        """One y per component: (S, n, W)."""
        return self.warp.inverse(self.components.draw(generator))
