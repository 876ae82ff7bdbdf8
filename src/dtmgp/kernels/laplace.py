"""The Laplace (exponential, Ornstein-Uhlenbeck, Matern-1/2) kernel: ``p = exp(x/l)``, ``q = exp(-x/l)``."""

from __future__ import annotations

import dataclasses
from typing import Self

import numpy as np
from jaxtyping import Float, Int

from dtmgp.kernels._jit import laplace_features
from dtmgp.kernels.base import Array, Local, positive
from dtmgp.kernels.markov import AbstractMarkov


@dataclasses.dataclass(frozen=True)
class Laplace(AbstractMarkov):
    """``variance * exp(-|x - y| / lengthscale)``.

    Deviation from the paper: its Laplace kernel is printed without the minus sign and with two scalings;
    its experiments use ``exp(-|x - x'|_1 / d)``, which is ``Tensor(Laplace(lengthscale=d), dim=d)``.
    ``D(x, y) = 2 sinh((y - x)/l)`` is evaluated through ``expm1`` of local differences: no clock value is formed.

    >>> Laplace(lengthscale=2.0)([0.0], [1.0])
    array([[0.60653066]])
    """

    lengthscale: float = 1.0
    variance: float = 1.0

    def __post_init__(self) -> None:
        positive("Laplace lengthscale", self.lengthscale)
        positive("Laplace variance", self.variance)

    @property
    def domain(self) -> tuple[float, float]:
        """The real line."""
        return (-np.inf, np.inf)

    def covariance(self, x: Float[Array, "*#n"], y: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """``variance * exp(-|x - y| / lengthscale)``."""
        with np.errstate(under="ignore", over="ignore"):
            return self.variance * np.exp(-np.abs(x - y) / self.lengthscale)

    def rise(self, a: Float[Array, " n"], x: Float[Array, " n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
        """``sinh((x-a)/l) / sinh((b-a)/l)`` in a form that neither overflows nor cancels."""
        scale = self.lengthscale
        return np.exp((x - b) / scale) * (np.expm1((a - x) * (2 / scale)) / np.expm1((a - b) * (2 / scale)))

    def fall(self, b: Float[Array, " n"], x: Float[Array, " n"], c: Float[Array, " n"]) -> Float[Array, " n"]:
        """The mirror image of ``rise``."""
        return self.rise(-c, -x, -b)

    def peak(self, a: Float[Array, " n"], b: Float[Array, " n"], c: Float[Array, " n"]) -> Float[Array, " n"]:
        """``sqrt((1-e^-2u)(1-e^-2v)/(1-e^-2(u+v)))`` with ``u, v`` the gaps over the lengthscale."""
        gap_left, gap_right = (b - a) * (-2 / self.lengthscale), (c - b) * (-2 / self.lengthscale)
        product = np.expm1(gap_left) * np.expm1(gap_right)
        return np.sqrt(-self.variance * product / np.expm1(gap_left + gap_right))

    def local(self, a: Float[Array, " N"], b: Float[Array, " N"], c: Float[Array, " N"]) -> Local:
        """``S / (1 - e^-2u)`` and ``S / (1 - e^-2v)``: what remains of the ratios is ``e^-r (1 - e^-2t)``."""
        base = super().local(a, b, c)
        with np.errstate(under="ignore"):
            before = -np.expm1((a - b) * (2 / self.lengthscale))
            after = -np.expm1((b - c) * (2 / self.lengthscale))
        return base._replace(
            rising=base.rising / before[:, None, None], falling=base.falling / after[:, None, None]
        )

    def features(
        self, x: Float[Array, " n"], local: Local, position: Int[Array, " n"]
    ) -> Float[Array, "n s"]:
        """``S rise(x) fall(x)`` in one compiled pass."""
        values = np.empty((len(x), 1))
        a, b, c, rising, falling = local
        laplace_features(
            x, position, a, b, c, rising[:, 0, 0], falling[:, 0, 0], 1.0 / self.lengthscale, values[:, 0]
        )
        return values

    def with_hyperparameters(
        self, *, lengthscale: float | None = None, variance: float | None = None
    ) -> Self:
        """The Laplace kernel with another lengthscale or variance."""
        return dataclasses.replace(
            self,
            lengthscale=self.lengthscale if lengthscale is None else lengthscale,
            variance=self.variance if variance is None else variance,
        )
