"""Half-integer Matern kernels, Markov in ``s = (G, G', .., G^(p))``: p+1 features per point.

In dimensionless time ``t = sqrt(2p+1) |x - y| / lengthscale`` the process solves ``(d/dt + 1)^(p+1) G = noise``:

    transition  ``F(t) = exp(-t) sum_k N^k t^k / k!``            (N nilpotent)
    noise       ``Q(t) = Var(s(t) | s(0)) = kappa int_0^t h h^T``, ``h = (g, g', ..)``, ``g(s) = s^p/p! e^-s``

so every entry of ``Q`` is a sum of regularised incomplete gamma functions, which have full relative precision
at small ``t`` where ``P - F P F^T`` has none. ``Var(s(b) | s(a), s(c))`` comes from adding the two precisions.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from functools import cache
from typing import ClassVar, NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammainc

from dtmgp.kernels._jit import matern_features
from dtmgp.kernels.base import AbstractLineKernel, Array, Columns, Local, positive


@cache
def _impulse_response(order: int) -> Float[Array, "s k"]:
    """Row i: coefficients of ``s^0..s^p`` in ``exp(s) g^(i)(s)``."""
    rows = np.zeros((order + 1, order + 1))
    rows[0, order] = 1.0 / math.factorial(order)
    powers = np.arange(1, order + 1)
    for i in range(order):
        rows[i + 1] = -rows[i]
        rows[i + 1, :-1] += rows[i, 1:] * powers
    return rows


@cache
def _noise_coefficients(order: int) -> Float[Array, "s s k"]:
    """``Q_ij(t) = sum_k coefficients[i, j, k] P(k+1, 2t)``, P the regularised lower incomplete gamma function."""
    response = _impulse_response(order)
    kappa = 2.0 ** (2 * order + 1) * math.factorial(order) ** 2 / math.factorial(2 * order)
    size, terms = order + 1, 2 * order + 1
    integral = np.array([math.factorial(k) / 2.0 ** (k + 1) for k in range(terms)])
    table = np.empty((size, size, terms))
    for i in range(size):
        for j in range(size):
            table[i, j] = kappa * integral * np.convolve(response[i], response[j])
    return table


@cache
def _nilpotent_powers(order: int) -> Float[Array, "k s s"]:
    """``N^k / k!`` for the companion matrix of ``(d/dt + 1)^(p+1)`` plus the identity."""
    size = order + 1
    companion = np.diag(np.ones(order), 1)
    companion[-1] = [-math.comb(size, k) for k in range(size)]
    nilpotent = companion + np.eye(size)
    return np.stack([np.linalg.matrix_power(nilpotent, k) / math.factorial(k) for k in range(size)])


def transition(order: int, t: Float[Array, "*n"]) -> Float[Array, "*#n s s"]:
    """``F(t)``, the zero matrix at ``t = inf``."""
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        weights = np.stack([np.exp(-t) * t**k for k in range(order + 1)], axis=-1)
    weights = np.where(np.isfinite(weights), weights, 0.0)
    return np.einsum("...k,kij->...ij", weights, _nilpotent_powers(order))


def noise(order: int, t: Float[Array, "*n"]) -> Float[Array, "*#n s s"]:
    """``Q(t)``, the stationary covariance at ``t = inf``."""
    z = 2.0 * t
    terms = 2 * order + 1
    gammas = np.empty((*np.shape(t), terms))
    gammas[..., -1] = gammainc(terms, z)
    # P(k, z) = P(k+1, z) + z^k e^-z / k!  downwards: a sum of positive numbers
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        for k in range(terms - 1, 0, -1):
            step = np.exp(-z) * z**k / math.factorial(k)
            gammas[..., k - 1] = gammas[..., k] + np.where(np.isfinite(step), step, 0.0)
    return np.einsum("...k,ijk->...ij", gammas, _noise_coefficients(order))


class _Insertion(NamedTuple):
    """States are scaled by powers of the smaller gap, so that all entries of a matrix are of one size."""

    lower: Float[Array, "N s s"]
    precision_before: Float[Array, "N s s"]
    precision_after: Float[Array, "N s s"]
    from_a: Float[Array, "N s s"]
    from_c: Float[Array, "N s s"]
    units: Float[Array, "N s"]


@dataclasses.dataclass(frozen=True)
class AbstractMatern(AbstractLineKernel):
    """Matern-(order + 1/2) with unit-free state; a new order is a subclass that sets ``order``."""

    lengthscale: float = 1.0
    variance: float = 1.0
    order: ClassVar[int]

    def __post_init__(self) -> None:
        positive(f"{type(self).__name__} lengthscale", self.lengthscale)
        positive(f"{type(self).__name__} variance", self.variance)

    @abc.abstractmethod
    def covariance(self, x: Float[Array, "*#n"], y: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """``k(x, y)`` elementwise."""

    @property
    def state_size(self) -> int:
        """Value and ``order`` derivatives."""
        return self.order + 1

    @property
    def domain(self) -> tuple[float, float]:
        """The real line."""
        return (-np.inf, np.inf)

    @property
    def rate(self) -> float:
        """Dimensionless time per unit of input, ``sqrt(2 order + 1) / lengthscale``."""
        return math.sqrt(2 * self.order + 1) / self.lengthscale

    def _units(self) -> Float[Array, " s"]:
        return self.rate ** np.arange(self.state_size)

    def state_covariance(self, x: Float[Array, "*#n"], y: Float[Array, "*#n"]) -> Float[Array, "*#n s s"]:
        """``Cov(G^(i)(x), G^(j)(y))``: ``P F(y-x)^T`` for ``x <= y``, its transpose with the roles swapped else."""
        gap = (np.asarray(y) - np.asarray(x)) * self.rate
        stationary = noise(self.order, np.array(np.inf))
        forward = stationary @ np.swapaxes(transition(self.order, np.abs(gap)), -1, -2)
        covariance = np.where((gap >= 0)[..., None, None], forward, np.swapaxes(forward, -1, -2))
        units = self._units()
        return self.variance * units[:, None] * units * covariance

    def _insertion(self, a: Float[Array, " N"], b: Float[Array, " N"], c: Float[Array, " N"]) -> _Insertion:
        """``Var(s(b) | s(a), s(c)) = L L^T`` from the two precisions that the neighbours contribute."""
        before, after = (b - a) * self.rate, (c - b) * self.rate
        gap = np.minimum(np.minimum(before, after), 1.0)
        units = gap[:, None] ** np.arange(self.state_size)
        grade = units[:, :, None] * units[:, None, :]
        ratio = units[:, :, None] / units[:, None, :]
        precision_before = np.linalg.inv(noise(self.order, before) * grade)
        precision_after = np.linalg.inv(noise(self.order, after) * grade)
        to_c = transition(self.order, after) * ratio
        pull_back = np.swapaxes(to_c, -1, -2) @ precision_after
        return _Insertion(
            lower=np.linalg.cholesky(np.linalg.inv(precision_before + pull_back @ to_c)),
            precision_before=precision_before,
            precision_after=precision_after,
            from_a=precision_before @ (transition(self.order, before) * ratio),
            from_c=pull_back,
            units=units,
        )

    def local(self, a: Float[Array, " N"], b: Float[Array, " N"], c: Float[Array, " N"]) -> Local:
        """``Q(b-a)^-1 L`` on the left; on the right the same for the process run backwards."""
        parts = self._insertion(a, b, c)
        backwards = (-1.0) ** np.arange(self.state_size)
        # the first row of Q(t) F(r)^T is unscaled in its columns: the scale of the states goes into the table
        scale = math.sqrt(self.variance) * parts.units[:, :, None]
        rising = scale * (parts.precision_before @ parts.lower)
        falling = scale * (parts.precision_after @ (backwards[:, None] * parts.lower))
        # without an outer neighbour Q F^T Q^-1 = S F S, S the signs (the process runs backwards like forwards)
        alone = math.sqrt(self.variance) * parts.lower / parts.units[:, :, None]
        rising = np.where(np.isneginf(a)[:, None, None], backwards[:, None] * alone, rising)
        falling = np.where(np.isposinf(c)[:, None, None], alone, falling)
        return Local(a, b, c, rising, falling)

    def features(
        self, x: Float[Array, " n"], local: Local, position: Int[Array, " n"]
    ) -> Float[Array, "n s"]:
        """``e1^T Q(t) F(r)^T`` times the table of the side on which ``x`` lies; t from the outer neighbour, r to b.

        ``e1^T F(r)`` where there is no outer neighbour.
        """
        values = np.empty((len(x), self.state_size))
        row, powers = _noise_coefficients(self.order)[0], _nilpotent_powers(self.order)
        matern_features(x, position, *local, self.rate, row, powers, values)
        return values

    def columns(self, a: Float[Array, " N"], b: Float[Array, " N"], c: Float[Array, " N"]) -> Columns:
        """``L^-T`` on the states of b, ``-A^T L^-T`` and ``-C^T L^-T`` on those of a and c."""
        parts = self._insertion(a, b, c)
        own = np.linalg.inv(np.swapaxes(parts.lower, -1, -2))
        covariance = parts.lower @ np.swapaxes(parts.lower, -1, -2)
        left = -np.swapaxes(covariance @ parts.from_a, -1, -2) @ own
        right = -np.swapaxes(covariance @ parts.from_c, -1, -2) @ own
        scale = (parts.units / self._units() / math.sqrt(self.variance))[:, :, None]
        own, left, right = np.triu(own) * scale, left * scale, right * scale
        left[np.isneginf(a)] = 0.0
        right[np.isposinf(c)] = 0.0
        return Columns(own, left, right)

    def with_hyperparameters(
        self, *, lengthscale: float | None = None, variance: float | None = None
    ) -> Self:
        """The same kernel with another lengthscale or variance."""
        return dataclasses.replace(
            self,
            lengthscale=self.lengthscale if lengthscale is None else lengthscale,
            variance=self.variance if variance is None else variance,
        )


@dataclasses.dataclass(frozen=True)
class Matern32(AbstractMatern):
    """``variance * (1 + t) exp(-t)`` with ``t = sqrt(3) |x - y| / lengthscale``.

    >>> Matern32()([0.0], [0.0])
    array([[1.]])
    """

    order: ClassVar[int] = 1

    def covariance(self, x: Float[Array, "*#n"], y: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """``variance * (1 + t) exp(-t)``."""
        with np.errstate(under="ignore", over="ignore"):
            t = np.minimum(np.abs(x - y) * self.rate, 1e4)
            return self.variance * (1.0 + t) * np.exp(-t)


@dataclasses.dataclass(frozen=True)
class Matern52(AbstractMatern):
    """``variance * (1 + t + t^2/3) exp(-t)`` with ``t = sqrt(5) |x - y| / lengthscale``.

    >>> Matern52()([0.0], [0.0])
    array([[1.]])
    """

    order: ClassVar[int] = 2

    def covariance(self, x: Float[Array, "*#n"], y: Float[Array, "*#n"]) -> Float[Array, "*#n"]:
        """``variance * (1 + t + t^2/3) exp(-t)``."""
        with np.errstate(under="ignore", over="ignore"):
            t = np.minimum(np.abs(x - y) * self.rate, 1e4)
            return self.variance * (1.0 + t + t * t / 3.0) * np.exp(-t)
