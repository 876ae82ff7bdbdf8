"""One-dimensional features in torch, kernel by kernel: the local forms of ``dtmgp.kernels`` with autograd.

Every function takes inputs ``x`` (N, J, 1), the active insertion ``(a, b, c)`` of every increment (N, J, K) with
``FAR`` in place of missing neighbours, and one lengthscale per coordinate (J, 1); it returns (N, J, K, s) for unit
variance. Only differences inside ``[a, c]`` enter: float32 keeps its digits at any depth. On a grid point the
derivative is the one from the left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dtmgp.errors import InputError
from dtmgp.kernels import AbstractLineKernel, AbstractMatern, Brownian, BrownianBridge, Laplace, Markov
from dtmgp.kernels.matern import _nilpotent_powers, _noise_coefficients

FAR = 1e30  # stands for an infinite gap: finite, so that no derivative is 0 * inf
LONG = 400.0  # lengthscales beyond which a gap counts as infinite: exp(-2 LONG) = 0
LARGEST = 1e25  # lengthscales above it, or below its inverse, make NaN: FAR would not be far for them


def usable(lengthscale: Tensor) -> Tensor:
    """The lengthscale; NaN where it has left every scale of the unit cube."""
    inside = (lengthscale > 1 / LARGEST) & (lengthscale < LARGEST)
    return torch.where(inside, lengthscale, torch.nan)


class Insertion(NamedTuple):
    """Neighbours of the active point of every increment, and the class of its pair of gaps."""

    a: Tensor
    b: Tensor
    c: Tensor
    kind: Tensor  # (N, J, K) row of ``gaps``
    gaps: Tensor  # (classes, 2) float64: distinct pairs (b - a, c - b)


def laplace(x: Tensor, at: Insertion, lengthscale: Tensor) -> Tensor:
    """``S e^-r (1 - e^-2t) / (1 - e^-2g)``: r to the centre, t to the outer neighbour, g its gap, in lengthscales."""
    rising, lengthscale = x <= at.b, usable(lengthscale)
    gap_left, gap_right = _short((at.b - at.a) / lengthscale), _short((at.c - at.b) / lengthscale)
    outer = _short(torch.where(rising, x - at.a, at.c - x).clamp(min=0) / lengthscale)
    before, after = torch.expm1(-2 * gap_left), torch.expm1(-2 * gap_right)
    peak = torch.sqrt(-before * after / torch.expm1(-2 * (gap_left + gap_right)))
    ratio = torch.expm1(-2 * outer) / torch.where(rising, before, after)
    return (peak * torch.exp(-torch.where(rising, at.b - x, x - at.b) / lengthscale) * ratio).unsqueeze(-1)


def brownian(x: Tensor, at: Insertion, lengthscale: Tensor) -> Tensor:
    """Straight lines in ``x``; from ``-lengthscale`` where the left neighbour is missing."""
    lengthscale = usable(lengthscale)
    start = torch.maximum(at.a, -lengthscale)
    left, right = at.b - start, at.c - at.b
    peak = torch.sqrt(left / lengthscale * (right / (left + right)))
    ratio = torch.where(x <= at.b, (x - start) / left, (at.c - x) / right)
    return (peak * ratio.clamp(min=0)).unsqueeze(-1)


def brownian_bridge(x: Tensor, at: Insertion, lengthscale: Tensor) -> Tensor:
    """Straight lines between the neighbours or the ends of (0, 1)."""
    start, end = at.a.clamp(min=0.0), at.c.clamp(max=1.0)
    peak = torch.sqrt((at.b - start) * (end - at.b) / (end - start))
    ratio = torch.where(x <= at.b, (x - start) / (at.b - start), (end - x) / (end - at.b))
    return (peak * ratio.clamp(min=0)).unsqueeze(-1)


def _short(gap: Tensor) -> Tensor:
    return gap.clamp(max=LONG)


# -- Matern ---------------------------------------------------------------------------------------------------
class _Constants(NamedTuple):
    """The coefficients of one order, as float64 tensors: looked up before anything is traced."""

    order: int
    noise: Tensor  # (s, s, k)
    powers: Tensor  # (k, s, s)


def _constants(order: int) -> _Constants:
    return _Constants(order, torch.tensor(_noise_coefficients(order)), torch.tensor(_nilpotent_powers(order)))


def _gammas(z: Tensor, terms: int) -> Tensor:
    """``P(k, z)`` for k = 1..terms: the last from torch, the others by adding positive terms."""
    found = [torch.special.gammainc(torch.full_like(z, float(terms)), z)]
    for k in range(terms - 1, 0, -1):
        found.append(found[-1] + torch.exp(-z) * z**k / math.factorial(k))
    return torch.stack(found[::-1], dim=-1)


def _noise(constants: _Constants, t: Tensor) -> Tensor:
    return torch.einsum("...k,ijk->...ij", _gammas(2 * t, constants.noise.shape[-1]), constants.noise.to(t))


def _transition(constants: _Constants, t: Tensor) -> Tensor:
    weights = torch.stack([torch.exp(-t) * t**k for k in range(constants.order + 1)], dim=-1)
    return torch.einsum("...k,kij->...ij", weights, constants.powers.to(t))


def matern_tables(constants: _Constants, gaps: Tensor, lengthscale: Tensor) -> Tensor:
    """(J, classes, 2, s, s): the tables of the rising and the falling side for every pair of gaps, in float64."""
    order = constants.order
    rate = math.sqrt(2 * order + 1) / lengthscale.double()
    before, after = _short(gaps[:, 0] * rate), _short(gaps[:, 1] * rate)
    gap = torch.minimum(before, after).clamp(max=1.0)
    powers = torch.arange(order + 1, dtype=gap.dtype, device=gap.device)
    units = gap.unsqueeze(-1) ** powers
    grade = units.unsqueeze(-1) * units.unsqueeze(-2)
    ratio = units.unsqueeze(-1) / units.unsqueeze(-2)
    precision_before = torch.linalg.inv(_noise(constants, before) * grade)
    precision_after = torch.linalg.inv(_noise(constants, after) * grade)
    to_c = _transition(constants, after) * ratio
    lower = torch.linalg.cholesky(torch.linalg.inv(precision_before + to_c.mT @ precision_after @ to_c))
    backwards = ((-1.0) ** powers).unsqueeze(-1)
    sides = torch.stack([precision_before @ lower, precision_after @ (backwards * lower)], dim=-3)
    return units.unsqueeze(-1).unsqueeze(-3) * sides


def matern(order: int) -> Callable[[Tensor, Insertion, Tensor], Tensor]:
    """``e1^T Q(t) F(r)^T`` times the table of the side on which ``x`` lies; t from the outer neighbour, r to b."""
    constants = _constants(order)

    def features(x: Tensor, at: Insertion, lengthscale: Tensor) -> Tensor:
        rising, lengthscale = x <= at.b, usable(lengthscale)
        tables = matern_tables(constants, at.gaps.to(x.device), lengthscale).to(x.dtype)
        rate = math.sqrt(2 * order + 1) / lengthscale
        outer = _short(torch.where(rising, x - at.a, at.c - x).clamp(min=0) * rate)
        inner = _short(torch.where(rising, at.b - x, x - at.b) * rate)
        first = torch.einsum("...k,jk->...j", _gammas(2 * outer, 2 * order + 1), constants.noise[0].to(x))
        weight = torch.einsum("...ji,...i->...j", _transition(constants, inner), first)
        coordinate = torch.arange(x.shape[1], device=x.device).unsqueeze(-1)
        table = tables[coordinate, at.kind, (~rising).long()]
        return torch.einsum("...j,...jf->...f", weight, table)

    return features


def order_of(kernel: AbstractLineKernel) -> int | None:
    """p of a Matern-(p + 1/2) kernel, 0 of Laplace: those that are compiled. None for others."""
    if isinstance(kernel, AbstractMatern):
        return kernel.order
    return 0 if type(kernel) is Laplace else None


# -- a kernel given by p and q --------------------------------------------------------------------------------
STEP = 1e-4  # of the gap (for x) or of the lengthscale: central differences, relative error about STEP^2


class _GivenMarkov(torch.autograd.Function):
    """Values in NumPy and float64; derivatives by central differences on the side of the point on which x lies."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, x: Tensor, lengthscale: Tensor, kernel: Markov, a: Tensor, b: Tensor, c: Tensor
    ) -> Tensor:
        near = [np.asarray(side.detach().cpu().double()) for side in (a, b, c)]
        near[0], near[2] = (
            np.where(near[0] <= -FAR / 2, -np.inf, near[0]),
            np.where(near[2] >= FAR / 2, np.inf, near[2]),
        )
        points = np.broadcast_to(x.detach().cpu().double().numpy(), near[1].shape)
        values, slopes, turns = (np.empty(points.shape) for _ in range(3))
        for j, scale in enumerate(lengthscale.detach().cpu().double().reshape(-1).tolist()):
            at, a_, b_, c_ = points[:, j], near[0][:, j], near[1][:, j], near[2][:, j]
            here = kernel.with_hyperparameters(lengthscale=scale)
            values[:, j], slopes[:, j] = _markov_values(here, at, a_, b_, c_, slope=True)
            if ctx.needs_input_grad[1]:
                ends = []
                for moved in (scale * (1 + STEP), scale * (1 - STEP)):
                    other = kernel.with_hyperparameters(lengthscale=moved)
                    ends.append(_markov_values(other, at, a_, b_, c_)[0])
                turns[:, j] = (ends[0] - ends[1]) / (2 * STEP * scale)
        ctx.save_for_backward(*(torch.from_numpy(d).to(x) for d in (slopes, turns)))
        return torch.from_numpy(values).to(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        slopes, turns = ctx.saved_tensors
        by_scale = (grad * turns).sum((0, 2)).unsqueeze(-1) if ctx.needs_input_grad[1] else None
        return (grad * slopes).sum(2, keepdim=True), by_scale, None, None, None, None


def _markov_values(
    kernel: Markov, x: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, slope: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Peak times the ratio of the side of ``x``, and its derivative in ``x``."""
    peak = kernel.peak(a.ravel(), b.ravel(), c.ravel()).reshape(b.shape)
    rising = x <= b
    low, high = (np.full(b.shape, end) for end in kernel.domain)

    def value(point: np.ndarray) -> np.ndarray:
        up = kernel.rise(a.ravel(), np.where(rising, point, b).ravel(), b.ravel())
        down = kernel.fall(b.ravel(), np.where(rising, b, point).ravel(), c.ravel())
        return peak * (up * down).reshape(b.shape)

    inside = (x >= a) & (x <= c)
    clipped = np.clip(x, np.maximum(a, low), np.minimum(c, high))
    if not slope:
        return np.where(inside, value(clipped), 0.0), clipped
    gap = np.where(rising, b - a, c - b)
    gap = np.where(np.isfinite(gap), gap, np.minimum(b - low, high - b))
    step = STEP * np.where(np.isfinite(gap), gap, kernel.lengthscale)
    left, right = np.maximum(clipped - step, low), np.minimum(clipped + step, high)
    derivative = (value(right) - value(left)) / (right - left)
    return np.where(inside, value(clipped), 0.0), np.where(inside, derivative, 0.0)


def given_markov(kernel: Markov) -> Callable[[Tensor, Insertion, Tensor], Tensor]:
    """The features of a kernel whose ``p`` and ``q`` are NumPy functions; its own variance is left to the caller."""
    unit = kernel.with_hyperparameters(variance=1.0)

    def features(x: Tensor, at: Insertion, lengthscale: Tensor) -> Tensor:
        return _GivenMarkov.apply(x, lengthscale, unit, at.a, at.b, at.c).unsqueeze(-1)

    return features


# -- which function belongs to a kernel -----------------------------------------------------------------------
def features_of(kernel: AbstractLineKernel) -> Callable[[Tensor, Insertion, Tensor], Tensor]:
    """The torch features of a kernel of the library."""
    if isinstance(kernel, AbstractMatern):
        return matern(kernel.order)
    if isinstance(kernel, Markov):
        return given_markov(kernel)
    known = {Laplace: laplace, Brownian: brownian, BrownianBridge: brownian_bridge}
    if type(kernel) not in known:
        raise InputError(
            "line features",
            got=f"a kernel of type {type(kernel).__name__}",
            expected="Laplace, Brownian, BrownianBridge, a Matern kernel or Markov(p, q)",
            do="give the kernel as Markov(p=..., q=...), or add its formula to dtmgp.ops.line_kernels",
        )
    return known[type(kernel)]


def family_of(kernel: AbstractLineKernel) -> tuple[object, ...]:
    """Kernels of one family differ in lengthscale and variance only: their coordinates are evaluated together."""
    if isinstance(kernel, Markov):
        return (Markov, kernel.p, kernel.q, kernel.domain)
    return (type(kernel),)
