"""Monotone maps ``z = g(y)`` of the output, with inverse and log-derivative: densities stay correct in units of y.

Parameters are learned by the objectives, through the Jacobian, unless ``learn=False``.
"""

from __future__ import annotations

import abc
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dtmgp.errors import InputError


class AbstractWarp(nn.Module, abc.ABC):
    """``forward``, ``inverse`` and ``log_derivative``, elementwise over (..., W)."""

    @property
    def affine(self) -> bool:
        """Whether ``g`` is a straight line, so that moments pass through it in closed form."""
        return False

    @abc.abstractmethod
    def forward(self, y: Tensor) -> Tensor:
        """``g(y)``."""

    @abc.abstractmethod
    def inverse(self, z: Tensor) -> Tensor:
        """``g^-1(z)``."""

    @abc.abstractmethod
    def log_derivative(self, y: Tensor) -> Tensor:
        """``log g'(y)``."""

    def normal_moments(self, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mean and variance of ``g^-1(N(mean, std^2))`` where they have a closed form."""
        return None


class IdentityWarp(AbstractWarp):
    """``z = y``.

    >>> IdentityWarp().log_derivative(torch.tensor([3.0]))
    tensor([0.])
    """

    @property
    def affine(self) -> bool:
        """True."""
        return True

    def forward(self, y: Tensor) -> Tensor:
        """``g(y)``."""
        return y

    def inverse(self, z: Tensor) -> Tensor:
        """``g^-1(z)``."""
        return z

    def log_derivative(self, y: Tensor) -> Tensor:
        """``log g'(y)``."""
        return torch.zeros_like(y)


class Standardise(AbstractWarp):
    """``z = (y - centre) / scale``, fixed, per output.

    >>> Standardise([1.0], [2.0])(torch.tensor([[5.0]]))
    tensor([[2.]])
    """

    centre: Tensor
    scale: Tensor

    def __init__(self, centre: npt.ArrayLike, scale: npt.ArrayLike) -> None:
        super().__init__()
        spread = torch.as_tensor(np.asarray(scale, dtype=np.float64), dtype=torch.get_default_dtype())
        if not bool((spread > 0).all() and torch.isfinite(spread).all()):
            raise InputError("Standardise", got=f"scale {scale!r}", expected="positive numbers")
        self.register_buffer("centre", torch.as_tensor(np.asarray(centre, dtype=np.float64)).to(spread))
        self.register_buffer("scale", spread)

    @property
    def affine(self) -> bool:
        """True."""
        return True

    def forward(self, y: Tensor) -> Tensor:
        """``g(y)``."""
        return (y - self.centre) / self.scale

    def inverse(self, z: Tensor) -> Tensor:
        """``g^-1(z)``."""
        return self.centre + self.scale * z

    def log_derivative(self, y: Tensor) -> Tensor:
        """``-log scale``."""
        return -self.scale.log().expand_as(y)


class BoxCox(AbstractWarp):
    """``z = ((y - shift)^power - 1) / power``, the logarithm for power 0; for y above ``shift``.

    Below ``shift`` z is ``-inf`` and the density 0. The inverse limits z to the range of g, so that draws beyond it end
    at ``shift`` for a positive power (which holds this probability) and at a very large value for a negative one.

    >>> BoxCox(0.0)(torch.tensor([1.0]))
    tensor([0.])
    """

    shift: Tensor

    def __init__(
        self, power: npt.ArrayLike = 0.0, shift: npt.ArrayLike = 0.0, *, learn: bool = False
    ) -> None:
        super().__init__()
        dtype = torch.get_default_dtype()
        self.power = nn.Parameter(
            torch.as_tensor(np.asarray(power, np.float64), dtype=dtype), requires_grad=learn
        )
        self.register_buffer("shift", torch.as_tensor(np.asarray(shift, np.float64), dtype=dtype))

    def forward(self, y: Tensor) -> Tensor:
        """``g(y)``."""
        above = y - self.shift
        z = _power(torch.log(above.clamp(min=torch.finfo(y.dtype).tiny)), self.power)
        return torch.where(above < 0, -torch.inf, z)

    def inverse(self, z: Tensor) -> Tensor:
        """``g^-1(z)``."""
        return self.shift + torch.exp(_inverse_power(z, self.power))

    def log_derivative(self, y: Tensor) -> Tensor:
        """``(power - 1) log(y - shift)``; ``-inf`` from ``shift`` down."""
        above = y - self.shift
        slope = (self.power - 1.0) * torch.log(above.clamp(min=torch.finfo(y.dtype).tiny))
        return torch.where(above <= 0, -torch.inf, slope)

    def normal_moments(self, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor] | None:
        """The lognormal law's, for power 0."""
        if bool((self.power != 0).any()):
            return None
        variance = std.square()
        centre = torch.exp(mean + 0.5 * variance)
        return self.shift + centre, centre.square() * torch.expm1(variance)


class Logit(AbstractWarp):
    """``z = log(y / (1 - y))`` for outputs inside (0, 1), the density 0 elsewhere.

    >>> Logit()(torch.tensor([0.5]))
    tensor([0.])
    """

    def forward(self, y: Tensor) -> Tensor:
        """``g(y)``; the ends of the interval count as the nearest numbers inside."""
        edge = torch.finfo(y.dtype).eps
        return torch.logit(y.clamp(edge, 1.0 - edge))

    def inverse(self, z: Tensor) -> Tensor:
        """``1 / (1 + exp(-z))``."""
        return torch.sigmoid(z)

    def log_derivative(self, y: Tensor) -> Tensor:
        """``-log y - log(1 - y)``, minus infinity outside."""
        edge = torch.finfo(y.dtype).eps
        inside = y.clamp(edge, 1.0 - edge)
        slope = -torch.log(inside) - torch.log1p(-inside)
        return torch.where((y >= 0) & (y <= 1), slope, torch.full_like(slope, -torch.inf))


class YeoJohnson(AbstractWarp):
    """Box-Cox of ``1 + y`` for y >= 0 and of ``1 - y`` with power ``2 - power``, mirrored, below; power in [0, 2].

    >>> YeoJohnson(1.0)(torch.tensor([-2.0, 3.0]))
    tensor([-2.,  3.])
    """

    def __init__(self, power: npt.ArrayLike = 1.0, *, learn: bool = False) -> None:
        super().__init__()
        start = torch.as_tensor(np.asarray(power, np.float64), dtype=torch.get_default_dtype())
        if not bool(((start >= 0) & (start <= 2)).all()):
            raise InputError("YeoJohnson power", got=repr(power), expected="numbers from 0 to 2")
        self.power = nn.Parameter(start, requires_grad=learn)

    def _powers(self, negative: Tensor) -> Tensor:
        power = self.power.clamp(0.0, 2.0)
        return torch.where(negative, 2.0 - power, power)

    def forward(self, y: Tensor) -> Tensor:
        """``g(y)``."""
        return torch.sign(y) * _power(torch.log1p(y.abs()), self._powers(y < 0))

    def inverse(self, z: Tensor) -> Tensor:
        """``g^-1(z)``."""
        return torch.sign(z) * torch.expm1(_inverse_power(z.abs(), self._powers(z < 0)))

    def log_derivative(self, y: Tensor) -> Tensor:
        """``(power - 1) log(1 + |y|)`` with the power of the side of y."""
        return (self._powers(y < 0) - 1.0) * torch.log1p(y.abs())


def _power(log_y: Tensor, power: Tensor) -> Tensor:
    """``(y^power - 1) / power`` from ``log y``; near power 0 by its series, where the quotient cancels."""
    small = power.abs() < 1e-4
    safe = torch.where(small, torch.ones_like(power), power)
    step = power * log_y
    series = log_y * (1.0 + step * (0.5 + step / 6.0))
    return torch.where(small, series, torch.expm1(safe * log_y) / safe)


def _inverse_power(z: Tensor, power: Tensor) -> Tensor:
    """``log y`` from z; ``1 + power z`` is kept positive."""
    small = power.abs() < 1e-4
    safe = torch.where(small, torch.ones_like(power), power)
    # a positive power ends near y = 0, and the nearer the better; a negative one ends at infinity
    edge = torch.where(safe > 0, torch.finfo(z.dtype).eps, 1e-6).to(z)
    inside = torch.log1p(torch.maximum(safe * z, edge - 1.0)) / safe
    step = power * z
    return torch.where(small, z * (1.0 - step * (0.5 - step / 3.0)), inside)


class QuantileWarp(AbstractWarp):
    """A piecewise linear increasing map through knots (y_k, z_k), continued by its outer slopes.

    Knots and levels are (k,), for all outputs, or (W, k), one row per output.

    >>> QuantileWarp([0.0, 1.0, 3.0], [-1.0, 0.0, 1.0])(torch.tensor([2.0, 5.0]))
    tensor([0.5000, 2.0000])
    """

    knots: Tensor
    levels: Tensor

    def __init__(self, knots: npt.ArrayLike, levels: npt.ArrayLike) -> None:
        super().__init__()
        dtype = torch.get_default_dtype()
        self.register_buffer(
            "knots", torch.as_tensor(np.atleast_2d(np.asarray(knots, np.float64)), dtype=dtype)
        )
        self.register_buffer(
            "levels", torch.as_tensor(np.atleast_2d(np.asarray(levels, np.float64)), dtype=dtype)
        )
        rising = (self.knots.diff(dim=1) > 0).all() and (self.levels.diff(dim=1) > 0).all()
        if self.knots.shape != self.levels.shape or self.knots.shape[1] < 2 or not bool(rising):
            raise InputError(
                "QuantileWarp",
                got=f"knots {tuple(self.knots.shape)}",
                expected="two or more increasing knots a row",
            )

    @staticmethod
    def _map(value: Tensor, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
        """Interpolated values and slopes, output by output."""
        values, slopes = [], []
        for column in range(value.shape[-1]):
            row = column if len(start) > 1 else 0
            a, b = start[row], end[row]
            x = value[..., column].contiguous()
            k = torch.searchsorted(a, x.detach()).clamp(1, len(a) - 1)
            slope = (b[k] - b[k - 1]) / (a[k] - a[k - 1])
            values.append(b[k - 1] + slope * (x - a[k - 1]))
            slopes.append(slope)
        return torch.stack(values, dim=-1), torch.stack(slopes, dim=-1)

    def forward(self, y: Tensor) -> Tensor:
        """``g(y)``."""
        return self._map(y, self.knots, self.levels)[0]

    def inverse(self, z: Tensor) -> Tensor:
        """``g^-1(z)``."""
        return self._map(z, self.levels, self.knots)[0]

    def log_derivative(self, y: Tensor) -> Tensor:
        """Log of the slope of the piece."""
        return self._map(y, self.knots, self.levels)[1].log()


class Chain(AbstractWarp):
    """One warp after the other.

    >>> Chain(YeoJohnson(1.0), Standardise(0.0, 2.0))(torch.tensor([4.0]))
    tensor([2.])
    """

    def __init__(self, *warps: AbstractWarp) -> None:
        super().__init__()
        self.warps = nn.ModuleList(warps)

    @property
    def parts(self) -> list[AbstractWarp]:
        """The warps, first to last."""
        return [cast(AbstractWarp, warp) for warp in self.warps]

    @property
    def affine(self) -> bool:
        """Whether all of them are."""
        return all(warp.affine for warp in self.parts)

    def forward(self, y: Tensor) -> Tensor:
        """``g(y)``."""
        for warp in self.parts:
            y = warp(y)
        return y

    def inverse(self, z: Tensor) -> Tensor:
        """``g^-1(z)``."""
        for warp in reversed(self.parts):
            z = warp.inverse(z)
        return z

    def log_derivative(self, y: Tensor) -> Tensor:
        """Sum of the log-derivatives along the way."""
        total = torch.zeros_like(y)
        for warp in self.parts:
            total = total + warp.log_derivative(y)
            y = warp(y)
        return total

    def normal_moments(self, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor] | None:
        """Of the first warp, if all others are straight lines."""
        first, *rest = self.parts
        for warp in reversed(rest):
            if not warp.affine:
                return None
            mean = warp.inverse(mean)
            std = std * torch.exp(-warp.log_derivative(mean))
        return first.normal_moments(mean, std)
