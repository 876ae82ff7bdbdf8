"""The contraction in plain torch: any device, any dtype, differentiable any number of times. The oracle of the kernels.

    mean[n, w] = sum_t value(n, t) M[row(n, t), w]        variance[n, w] = sum_t value(n, t)^2 V[row(n, t), w]

Vectorised over inputs and over all multi-indices of one depth; no loop over multi-indices.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dtmgp.ops.plan import COORDINATE, COUNT, FACTOR, INTERVAL, OFFSET, PARENT, PREVIOUS, SLOT, depths


def active_values(values: Tensor, tree: Tensor, intervals: Tensor) -> Tensor:
    """Values (N, T) of the active features from one-dimensional values (N, d, L)."""
    rows = len(values)
    table = tree.cpu().long()
    first = values[:, :, 0]
    one = values.new_ones(rows, 1)
    # suffix[:, j] = prod_{i >= j} v(i, 0)
    suffix = torch.cat([first.flip(1).cumprod(1).flip(1), one], dim=1)
    ranges = _interval_products(first, intervals.cpu().long(), one)
    flat = values.reshape(rows, -1)
    depth = torch.from_numpy(depths(table.numpy()))
    order = torch.argsort(depth, stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    prefix = one
    for raised in range(1, int(depth.max()) + 1):
        nodes = table[depth == raised].to(values.device)
        parent = prefix.index_select(1, place.to(values.device)[nodes[:, PARENT]])
        step = ranges.index_select(1, nodes[:, INTERVAL]) * flat.index_select(1, nodes[:, SLOT])
        prefix = torch.cat([prefix, parent * step], dim=1)
    place = place.to(values.device)
    after = (table[:, COORDINATE] + 1).to(values.device)
    return prefix.index_select(1, place) * suffix.index_select(1, after)


def _interval_products(first: Tensor, intervals: Tensor, one: Tensor) -> Tensor:
    """(N, E): chains are stored one after the other, each starting from the empty interval."""
    starts = (intervals[1:, PREVIOUS] == 0).nonzero()[:, 0] + 1
    stops = [*starts[1:].tolist(), len(intervals)]
    parts = [one]
    for start, stop in zip(starts.tolist(), stops):
        low, high = int(intervals[start, FACTOR]), int(intervals[stop - 1, FACTOR]) + 1
        parts.append(first[:, low:high].cumprod(1))
    return torch.cat(parts, dim=1)


def active_rows(positions: Tensor, tree: Tensor) -> Tensor:
    """Rows (N, T) of the active features in the weight table; positions (N, d, L), or (N, T) rows already found."""
    if positions.ndim == 2:
        return positions.long()
    rows = positions.shape[0]
    table = tree.cpu().long()
    flat = positions.reshape(rows, -1).long()
    depth = torch.from_numpy(depths(table.numpy()))
    local = flat.new_zeros(rows, len(table))
    for raised in range(1, int(depth.max()) + 1):
        nodes = (depth == raised).nonzero()[:, 0]
        step = table[nodes].to(flat.device)
        index = flat.index_select(1, step[:, SLOT]).clamp(min=0).minimum(step[:, COUNT] - 1)
        parent = local.index_select(1, step[:, PARENT])
        local = local.index_copy(1, nodes.to(flat.device), parent * step[:, COUNT] + index)
    return local + table[:, OFFSET].to(flat.device)


def contract(
    values: Tensor, positions: Tensor, tree: Tensor, intervals: Tensor, mean: Tensor, variance: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Mean and variance contraction (N, W) of inputs (N, d, L) with weight tables (m, W). O(N T W) memory."""
    phi = active_values(values, tree, intervals)
    rows = active_rows(positions, tree).clamp(0, mean.shape[0] - 1)
    first = torch.einsum("nt,ntw->nw", phi, mean[rows])
    if variance is None:
        return first, None
    return first, torch.einsum("nt,ntw->nw", phi.square(), variance[rows])


def contract_backward(
    values: Tensor,
    positions: Tensor,
    tree: Tensor,
    intervals: Tensor,
    mean: Tensor,
    variance: Tensor | None,
    grad_mean: Tensor,
    grad_variance: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of values, weight means and weight variances, by differentiating ``contract``."""
    with torch.enable_grad():
        inputs = [x.detach().requires_grad_() for x in (values, mean, variance) if x is not None]
        outputs = contract(
            inputs[0], positions, tree, intervals, inputs[1], None if variance is None else inputs[2]
        )
        pairs = [
            (o, g) for o, g in zip(outputs, (grad_mean, grad_variance)) if o is not None and g is not None
        ]
        found = torch.autograd.grad([o for o, _ in pairs], inputs, [g for _, g in pairs])
    return found[0], found[1], None if variance is None else found[2]
