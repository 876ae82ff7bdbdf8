"""Quantiles from a distribution function that is known by value only: many of them at once, each in a bracket."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.special import ndtri

SLACK = 8  # iterations that may be spent beyond bisection's, n0 of the source
ROUNDING = 256.0  # relative units of rounding of a sum of cdfs: at such a value the search is over
HALVINGS = {torch.float64: 60, torch.float32: 32}  # of the bracket, for full precision


def invert_cdf(
    cdf: Callable[[Tensor], Tensor],
    levels: Tensor,
    low: Tensor,
    high: Tensor,
    ends: tuple[Tensor, Tensor] | None = None,
    strength: float = 0.2,
) -> Tensor:
    """``z`` with ``cdf(z) = levels``, elementwise, for a continuous cdf and brackets ``low <= z <= high``.

    The equation is solved in normal scores, ``ndtri(cdf(z)) = ndtri(level)``, where the cdf of anything like a normal
    is a straight line, by the method of Oliveira and Takahashi (ACM Transactions on Mathematical Software 47(1), 2020,
    with k1 = strength / width, k2 = 2, n0 = 8): never more than 8 evaluations beyond bisection, and 10 to 14 for
    mixtures of normals, where bisection takes 60. In a narrow bracket the straight line is good, and a small
    ``strength`` trusts it: 8 evaluations. ``ends`` are the values of the cdf at ``low`` and ``high``, if known.

    >>> half = torch.tensor([0.5, 0.975], dtype=torch.float64)
    >>> found = invert_cdf(
    ...     torch.special.ndtr, half, torch.full((2,), -9.0).double(), torch.full((2,), 9.0).double()
    ... )
    >>> [round(value, 6) + 0.0 for value in found.tolist()]
    [0.0, 1.959964]
    """
    info, most = torch.finfo(low.dtype), HALVINGS.get(low.dtype, 60)
    target = ndtri(levels)

    def score(values: Tensor) -> Tensor:
        return ndtri(values.clamp(info.tiny, 1.0 - 0.5 * info.eps)) - target

    width = high - low
    accuracy = torch.maximum(
        2.0 ** (-most - 1) * width, 2.0 * info.eps * torch.maximum(low.abs(), high.abs())
    ).clamp(min=info.tiny)
    steps = torch.ceil(torch.log2((width / (2.0 * accuracy)).clamp(min=1.0))) + SLACK
    pull = strength / width.clamp(min=info.tiny)
    below, above = (score(value) for value in ((cdf(low), cdf(high)) if ends is None else ends))
    result, done = low, torch.zeros_like(low, dtype=torch.bool)
    for number in range(most + SLACK + 1):
        gap = high - low
        if bool((done | (gap <= 2.0 * accuracy)).all()):
            break
        middle = 0.5 * (low + high)
        reach = (accuracy * torch.exp2(steps - number) - 0.5 * gap).clamp(min=0.0)
        secant = torch.where(above > below, (high * below - low * above) / (below - above), middle)
        side = torch.sign(middle - secant)
        trial = secant + side * torch.minimum(pull * gap.square(), (middle - secant).abs())
        trial = torch.where((trial - middle).abs() <= reach, trial, middle - side * reach)
        trial = torch.minimum(torch.maximum(trial, low), high)
        value = cdf(trial)
        exact = (value - levels).abs() <= ROUNDING * info.eps * levels
        left, found = value < levels, score(value)
        result = torch.where(done, result, trial)
        done = done | exact
        low, below = torch.where(left, trial, low), torch.where(left, found, below)
        high, above = torch.where(left, high, trial), torch.where(left, above, found)
    return torch.where(done, result, 0.5 * (low + high))
