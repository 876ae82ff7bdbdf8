"""The two Markov kernels of the sampler: Metropolis with a sliding uniform window, and elliptical slices."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from dtmgp.errors import InputError

JITTER = float(np.sqrt(np.finfo(float).eps))  # nugget of noise-free layers, and lower bound of all parameters
WINDOW = 2.0  # proposals are uniform between value / WINDOW and value * WINDOW
_MOST_SHRINKS = 200

Extra = TypeVar("Extra")


@dataclasses.dataclass(frozen=True)
class GammaPrior:
    """Gamma(shape, rate) on ``value - JITTER``, as in the R package: values below the jitter have no density.

    >>> round(GammaPrior(1.0, 2.0).log_density(0.5 + JITTER), 4)
    -0.3069
    """

    shape: float
    rate: float

    def __post_init__(self) -> None:
        if not (self.shape > 0 and self.rate > 0):
            raise InputError(
                "gamma prior",
                got=f"shape {self.shape!r}, rate {self.rate!r}",
                expected="two positive numbers",
            )

    def log_density(self, value: float) -> float:
        """Log density at a value."""
        x = value - JITTER
        if not x > 0:
            return -math.inf
        return (
            self.shape * math.log(self.rate)
            - math.lgamma(self.shape)
            + (self.shape - 1.0) * math.log(x)
            - self.rate * x
        )


def log_acceptance(
    current: float,
    proposal: float,
    log_likelihood: float,
    proposal_log_likelihood: float,
    prior: GammaPrior,
) -> float:
    """Log Metropolis-Hastings ratio; the window of a value has width proportional to it, hence current / proposal."""
    return (
        proposal_log_likelihood
        + prior.log_density(proposal)
        - log_likelihood
        - prior.log_density(current)
        + math.log(current / proposal)
    )


def metropolis(
    current: float,
    log_likelihood: float,
    evaluate: Callable[[float], tuple[float, Extra]],
    prior: GammaPrior,
    generator: np.random.Generator,
) -> tuple[float, float, Extra] | None:
    """One step: the accepted value, its log likelihood and what else ``evaluate`` returned, or None if rejected."""
    proposal = float(generator.uniform(current / WINDOW, current * WINDOW))
    log_uniform = -float(generator.exponential())
    if not proposal > JITTER:
        return None
    proposal_log_likelihood, extra = evaluate(proposal)
    if proposal_log_likelihood == -math.inf:
        return None
    ratio = log_acceptance(current, proposal, log_likelihood, proposal_log_likelihood, prior)
    return (proposal, proposal_log_likelihood, extra) if log_uniform < ratio else None


def elliptical_slice(
    current: Float[np.ndarray, " n"],
    prior_draw: Float[np.ndarray, " n"],
    log_likelihood: float,
    evaluate: Callable[[Float[np.ndarray, " n"]], tuple[float, Extra]],
    generator: np.random.Generator,
) -> tuple[Float[np.ndarray, " n"], float, Extra] | None:
    """One step for a zero-mean Gaussian prior (Murray, Adams and MacKay 2010, figure 2).

    Returns as ``metropolis`` does; None (the current state stays) only if rounding keeps the bracket from closing,
    where the R package stops with an error after 100 proposals.
    """
    level = log_likelihood - float(generator.exponential())
    angle = float(generator.uniform(0.0, 2.0 * math.pi))
    low, high = angle - 2.0 * math.pi, angle
    for _ in range(_MOST_SHRINKS):
        proposal = current * math.cos(angle) + prior_draw * math.sin(angle)
        proposed, extra = evaluate(proposal)
        if proposed > level:
            return proposal, proposed, extra
        if angle < 0.0:
            low = angle
        else:
            high = angle
        angle = float(generator.uniform(low, high))
    return None
