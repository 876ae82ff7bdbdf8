"""The quadratic form in plain torch, for any device and dtype, with its first derivatives written out.

Inside an operator autograd is off; outside, ``reference`` has derivatives of all orders.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dtmgp.ops.quadratic.tables import (
    FUNCTION_COUNT,
    FUNCTION_INDEX,
    FUNCTION_ROOT,
    FUNCTION_ROW,
    FUNCTION_SLOT,
)


class _Ratios(NamedTuple):
    below: Tensor  # (N, d L) values, kept away from 0
    active: Tensor  # (N, F)
    u: Tensor  # (N, F)
    root: Tensor  # (N, 1)


def _ratios(values: Tensor, positions: Tensor, functions: Tensor) -> _Ratios:
    table = functions.long()
    flat = values.flatten(1)
    slot, count = table[:, FUNCTION_SLOT], table[:, FUNCTION_COUNT]
    place = positions.flatten(1).long().index_select(1, slot).clamp(min=0).minimum(count - 1)
    active = (place == table[:, FUNCTION_INDEX]) & (count > 0)
    below = flat.clamp(min=torch.finfo(values.dtype).tiny)
    ratio = flat.index_select(1, slot) / below.index_select(1, table[:, FUNCTION_ROOT])
    u = torch.where(active, ratio, flat.new_zeros(()))
    return _Ratios(below, active, u, below[:, :: values.shape[2]].prod(1, keepdim=True))


def _weights(functions: Tensor, pairs: Tensor, paired: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of the functions (F, W), and the symmetric matrices of the pairs (k, W k)."""
    rows = functions[:, FUNCTION_ROW].long()
    linear = table[rows.clamp(min=0)] * (rows >= 0).to(table).unsqueeze(-1)
    width = table.shape[1]
    found = table[pairs[:, 2]]
    matrix = table.new_zeros(paired, paired, width)
    matrix = matrix.index_put((pairs[:, 0], pairs[:, 1]), found).index_put((pairs[:, 1], pairs[:, 0]), found)
    return linear, matrix.transpose(1, 2).reshape(paired, width * paired)


def reference(
    values: Tensor, positions: Tensor, functions: Tensor, pairs: Tensor, paired: int,
    mean: Tensor, variance: Tensor | None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Mean and variance contraction (N, W) in plain torch: any device, dtype, order of derivatives."""
    at = _ratios(values, positions, functions)

    def form(ratio: Tensor, scale: Tensor, weights: Tensor) -> Tensor:
        linear, matrix = _weights(functions, pairs, paired, weights)
        half = (ratio[:, :paired] @ matrix).reshape(len(ratio), weights.shape[1], paired)
        return scale * (weights[0] + ratio @ linear + 0.5 * (half * ratio[:, None, :paired]).sum(-1))

    first = form(at.u, at.root, mean)
    return first, None if variance is None else form(at.u.square(), at.root.square(), variance)


def reference_backward(
    values: Tensor, positions: Tensor, functions: Tensor, pairs: Tensor, paired: int,
    mean: Tensor, variance: Tensor | None, grads: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of values, mean and variance; the last (0, W) without variance."""
    at = _ratios(values, positions, functions)
    rows = functions[:, FUNCTION_ROW].long()

    def form(ratio: Tensor, scale: Tensor, weights: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        linear, matrix = _weights(functions, pairs, paired, weights)
        near, width = ratio[:, :paired], weights.shape[1]
        half = (near @ matrix).reshape(len(ratio), width, paired)
        inside = weights[0] + ratio @ linear + 0.5 * (half * near.unsqueeze(1)).sum(-1)
        up = grad * scale
        by_ratio = up @ linear.T
        by_ratio[:, :paired] += (up.unsqueeze(-1) * half).sum(1)
        outer = (up.unsqueeze(-1) * near.unsqueeze(1)).flatten(1)  # (N, W k)
        square = (near.T @ outer).reshape(paired, width, paired)
        by_weights = torch.zeros_like(weights)
        by_weights[0] = up.sum(0)
        by_weights.index_add_(0, rows[rows >= 0], (ratio.T @ up)[rows >= 0])
        by_weights.index_add_(0, pairs[:, 2], square[pairs[:, 0], :, pairs[:, 1]])
        return by_ratio, (grad * inside).sum(1, keepdim=True), by_weights

    by_u, by_root, by_mean = form(at.u, at.root, mean, grads[0])
    by_variance = mean.new_empty(0, mean.shape[1])
    if variance is not None:
        by_ratio, by_scale, by_variance = form(at.u.square(), at.root.square(), variance, grads[1])
        by_u, by_root = by_u + 2 * at.u * by_ratio, by_root + 2 * at.root * by_scale
    return _values_backward(values, functions.long(), at, by_u, by_root), by_mean, by_variance


def _values_backward(values: Tensor, table: Tensor, at: _Ratios, by_u: Tensor, by_root: Tensor) -> Tensor:
    levels = values.shape[2]
    slot, root = table[:, FUNCTION_SLOT], table[:, FUNCTION_ROOT]
    scaled = torch.where(at.active, by_u / at.below.index_select(1, root), by_u.new_zeros(()))
    by_below = torch.zeros_like(at.below).index_add(1, root, -scaled * at.u)
    by_below[:, ::levels] += by_root * at.root / at.below[:, ::levels]
    by_flat = torch.where(values.flatten(1) >= at.below, by_below, by_below.new_zeros(()))
    return by_flat.index_add(1, slot, scaled).reshape(values.shape)
