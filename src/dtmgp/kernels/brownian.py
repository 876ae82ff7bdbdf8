"""Brownian motion started at a random value, and the Brownian bridge: ``D(x, y)`` is a plain difference."""

from __future__ import annotations

import dataclasses
from typing import Self

import numpy as np
from jaxtyping import Float

from dtmgp.errors import InputError
from dtmgp.kernels.base import Array, positive
from dtmgp.kernels.markov import AbstractMarkov


@dataclasses.dataclass(frozen=True)
class Brownian(AbstractMarkov):
    """``variance * (1 + theta * min(x, y))``; a tensor product of these is the Brownian sheet of the paper.

    ``p = 1 + theta x``, ``q = 1``, ``D(x, y) = theta (y - x)``. Its lengthscale is ``1/theta``.

    >>> Brownian(theta=2.0)([0.25], [0.5])
    array([[1.5]])
    """

    theta: float = 1.0
    variance: float = 1.0

    def __post_init__(self) -> None:
        positive("Brownian theta", self.theta)
        positive("Brownian variance", self.variance)

    @property
    def lengthscale(self) -> float:
        """``1/theta``."""
        return 1.0 / self.theta

    @property
    def domain(self) -> tuple[float, float]:
        """Where ``1 + theta x`` is positive."""
        return (-1.0 / self.theta, np.inf)

    def covariance(self, x: Float[Array, "*#n"], y: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """``variance * (1 + theta * min(x, y))``."""
        return self.variance * (1.0 + self.theta * np.minimum(x, y))

    def rise(self, a: Float[Array, " n"], x: Float[Array, " n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
        """A straight line from ``a`` to ``b``; from ``-1/theta`` where ``a`` is missing."""
        start = np.maximum(a, -1.0 / self.theta)
        return (x - start) / (b - start)

    def fall(self, b: Float[Array, " n"], x: Float[Array, " n"], c: Float[Array, " n"]) -> Float[Array, " n"]:
        """A straight line down to ``c``; constant where ``c`` is missing."""
        open_right = np.isposinf(c)
        end = np.where(open_right, b + 1.0, c)
        return np.where(open_right, 1.0, (end - x) / (end - b))

    def peak(self, a: Float[Array, " n"], b: Float[Array, " n"], c: Float[Array, " n"]) -> Float[Array, " n"]:
        """``sqrt(theta (b-a)(c-b)/(c-a))`` with the limits at missing neighbours."""
        left = b - np.maximum(a, -1.0 / self.theta)
        right = c - b
        share = np.where(np.isposinf(c), 1.0, right / np.where(np.isposinf(c), 1.0, left + right))
        return np.sqrt(self.variance * self.theta * left * share)

    def with_hyperparameters(
        self, *, lengthscale: float | None = None, variance: float | None = None
    ) -> Self:
        """Another lengthscale ``1/theta`` or variance."""
        return dataclasses.replace(
            self,
            theta=self.theta if lengthscale is None else 1.0 / positive("Brownian lengthscale", lengthscale),
            variance=self.variance if variance is None else variance,
        )


@dataclasses.dataclass(frozen=True)
class BrownianBridge(AbstractMarkov):
    """``variance * min(x, y) (1 - max(x, y))`` on (0, 1): its features are the Faber-Schauder hats.

    ``p = x``, ``q = 1 - x``, ``D(x, y) = y - x``. It is pinned to 0 at both ends and has no lengthscale.

    >>> BrownianBridge()([0.25], [0.5])
    array([[0.125]])
    """

    variance: float = 1.0
    has_lengthscale = False

    def __post_init__(self) -> None:
        positive("BrownianBridge variance", self.variance)

    @property
    def lengthscale(self) -> float:
        """NaN: there is none."""
        return float("nan")

    @property
    def domain(self) -> tuple[float, float]:
        """The unit interval."""
        return (0.0, 1.0)

    def covariance(self, x: Float[Array, "*#n"], y: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """``variance * min(x, y) (1 - max(x, y))``."""
        return self.variance * np.minimum(x, y) * (1.0 - np.maximum(x, y))

    def rise(self, a: Float[Array, " n"], x: Float[Array, " n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
        """A straight line from ``a``, from 0 where ``a`` is missing."""
        start = np.maximum(a, 0.0)
        return (x - start) / (b - start)

    def fall(self, b: Float[Array, " n"], x: Float[Array, " n"], c: Float[Array, " n"]) -> Float[Array, " n"]:
        """A straight line down to ``c``, to 1 where ``c`` is missing."""
        end = np.minimum(c, 1.0)
        return (end - x) / (end - b)

    def peak(self, a: Float[Array, " n"], b: Float[Array, " n"], c: Float[Array, " n"]) -> Float[Array, " n"]:
        """``sqrt((b-a)(c-b)/(c-a))`` between the neighbours or the ends of the interval."""
        start, end = np.maximum(a, 0.0), np.minimum(c, 1.0)
        return np.sqrt(self.variance * (b - start) * (end - b) / (end - start))

    def with_hyperparameters(
        self, *, lengthscale: float | None = None, variance: float | None = None
    ) -> Self:
        """Another variance; a lengthscale is refused."""
        if lengthscale is not None:
            raise InputError(
                "BrownianBridge lengthscale",
                got=repr(lengthscale),
                expected="none: the bridge is tied to (0, 1)",
                do="use Brownian or Laplace for a kernel with a lengthscale",
            )
        return dataclasses.replace(self, variance=self.variance if variance is None else variance)
