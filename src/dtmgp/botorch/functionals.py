"""What of the law of Y(x) is optimised: given one function draw, a number at every input, differentiable in it."""

from __future__ import annotations

import dataclasses
from typing import Protocol

import torch
from torch import Tensor

from dtmgp.errors import InputError
from dtmgp.likelihoods import AbstractComponents, AbstractWarp, NormalComponents
from dtmgp.model import Mixture
from dtmgp.model.inversion import invert_cdf


class AbstractFunctional(Protocol):
    """A number of the law of Y given a function draw, and how runs of Y look beside it."""

    def value(self, law: AbstractComponents, warp: AbstractWarp) -> Tensor:
        """The functional (..., W) of laws whose parameters have that shape."""
        ...

    def observed(self, y: Tensor) -> Tensor:
        """A run, in the units and with the sign of the functional."""
        ...

    def run(self, observed: Tensor) -> Tensor:
        """The inverse of ``observed``."""
        ...


@dataclasses.dataclass(frozen=True)
class MeanResponse:
    """``E(Y | function, x)``.

    >>> from dtmgp.likelihoods import IdentityWarp
    >>> MeanResponse().value(NormalComponents(torch.tensor([2.0]), torch.tensor([1.0])), IdentityWarp())
    tensor([2.])
    """

    def value(self, law: AbstractComponents, warp: AbstractWarp) -> Tensor:
        """Through the warp by quadrature."""
        return Mixture(law, warp).component_means()

    def observed(self, y: Tensor) -> Tensor:
        """The run itself."""
        return y

    def run(self, observed: Tensor) -> Tensor:
        """The run itself."""
        return observed


@dataclasses.dataclass(frozen=True)
class QuantileResponse:
    """The quantile of ``Y | function, x`` at ``level``.

    >>> from dtmgp.likelihoods import IdentityWarp
    >>> law = NormalComponents(torch.zeros(1).double(), torch.ones(1).double())
    >>> round(QuantileResponse(0.975).value(law, IdentityWarp()).item(), 6)
    1.959964
    """

    level: float

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise InputError("level of the quantile", got=repr(self.level), expected="between 0 and 1")

    def value(self, law: AbstractComponents, warp: AbstractWarp) -> Tensor:
        """In closed form for normal laws; else found without gradients, and moved by one Newton step that has them."""
        if isinstance(law, NormalComponents):
            score = torch.special.ndtri(torch.tensor(self.level, dtype=law.scale.dtype))
            return warp.inverse(law.loc + score * law.scale)
        if law.discrete:
            raise InputError(
                "QuantileResponse", got=type(law).__name__, expected="a continuous law", do="use MeanResponse"
            )
        with torch.no_grad():
            spread = 40.0 * law.variance.clamp(min=0.0).sqrt()
            levels = torch.full_like(spread, self.level)
            found = invert_cdf(law.cdf, levels, law.mean - spread, law.mean + spread)
            density = law.log_prob(found).exp()
        return warp.inverse(found - (law.cdf(found) - self.level) / density)

    def observed(self, y: Tensor) -> Tensor:
        """The run itself."""
        return y

    def run(self, observed: Tensor) -> Tensor:
        """The run itself."""
        return observed


@dataclasses.dataclass(frozen=True)
class Negative:
    """Minus another functional: BoTorch maximises. Observations change their sign with it.

    >>> Negative(MeanResponse()).observed(torch.tensor(3.0))
    tensor(-3.)
    """

    of: AbstractFunctional

    def value(self, law: AbstractComponents, warp: AbstractWarp) -> Tensor:
        """Minus the functional."""
        return -self.of.value(law, warp)

    def observed(self, y: Tensor) -> Tensor:
        """Minus the run."""
        return -self.of.observed(y)

    def run(self, observed: Tensor) -> Tensor:
        """The run."""
        return self.of.run(-observed)
