"""The contraction in plain torch: any device, any dtype, differentiable any number of times. The oracle of the kernels.

    mean[n, w] = sum_t value(n, t) M[row(n, t), w]        variance[n, w] = sum_t value(n, t)^2 V[row(n, t), w]

Vectorised over inputs and over all multi-indices of one depth; no loop over multi-indices. The first derivatives are
also written out, for the operators: inside an operator autograd is off.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dtmgp.ops.plan import COORDINATE, COUNT, FACTOR, INTERVAL, OFFSET, PARENT, PREVIOUS, SLOT, depths


class _Walk(NamedTuple):
    """What the products along the tree leave behind: the tree is taken depth by depth, ``order`` says in which way."""

    first: Tensor  # (N, d) level-1 values
    flat: Tensor  # (N, d L)
    suffix: Tensor  # (N, d + 1): prod_{i >= j} v(i, 0)
    ranges: Tensor  # (N, E): products over intervals
    prefix: Tensor  # (N, T) P(t), depth by depth
    nodes: list[
        Tensor
    ]  # the rows of ``tree`` of every depth from 1 on, with parents as columns of ``prefix``
    place: Tensor  # column of ``prefix`` of every multi-index
    after: Tensor  # column of ``suffix`` of every multi-index


def _walk(values: Tensor, tree: Tensor, intervals: Tensor) -> _Walk:
    rows, device = len(values), values.device
    table = tree.cpu().long()
    first = values[:, :, 0]
    one = values.new_ones(rows, 1)
    suffix = torch.cat([first.flip(1).cumprod(1).flip(1), one], dim=1)
    ranges = torch.cat([one, *(first[:, c].cumprod(1) for c, _ in _chains(intervals))], dim=1)
    flat = values.reshape(rows, -1)
    depth = torch.from_numpy(depths(table.numpy()))
    place = torch.empty_like(depth)
    place[torch.argsort(depth, stable=True)] = torch.arange(len(depth))
    nodes, prefix = [], one
    for raised in range(1, int(depth.max()) + 1):
        found = table[depth == raised]
        found[:, PARENT] = place[found[:, PARENT]]
        nodes.append(found.to(device))
        prefix = torch.cat(
            [prefix, prefix.index_select(1, nodes[-1][:, PARENT]) * _step(ranges, flat, nodes[-1])], 1
        )
    after = table[:, COORDINATE] + 1
    return _Walk(first, flat, suffix, ranges, prefix, nodes, place.to(device), after.to(device))


def _chains(intervals: Tensor) -> list[tuple[slice, slice]]:
    """Intervals are stored chain after chain, each growing by a coordinate: its coordinates, its entries."""
    table = intervals.cpu().long()
    starts = ((table[1:, PREVIOUS] == 0).nonzero()[:, 0] + 1).tolist()
    return [
        (slice(int(table[start, FACTOR]), int(table[stop - 1, FACTOR]) + 1), slice(start, stop))
        for start, stop in zip(starts, [*starts[1:], len(table)])
    ]


def _step(ranges: Tensor, flat: Tensor, nodes: Tensor) -> Tensor:
    return ranges.index_select(1, nodes[:, INTERVAL]) * flat.index_select(1, nodes[:, SLOT])


def active_values(values: Tensor, tree: Tensor, intervals: Tensor) -> Tensor:
    """Values (N, T) of the active features from one-dimensional values (N, d, L)."""
    walk = _walk(values, tree, intervals)
    return walk.prefix.index_select(1, walk.place) * walk.suffix.index_select(1, walk.after)


def active_values_backward(values: Tensor, tree: Tensor, intervals: Tensor, grad: Tensor) -> Tensor:
    """Gradient of the values (N, d, L) from that of the active values (N, T): the same walk in reverse."""
    walk = _walk(values, tree, intervals)
    by_suffix = torch.zeros_like(walk.suffix)
    by_suffix.index_add_(1, walk.after, grad * walk.prefix.index_select(1, walk.place))
    by_prefix = torch.zeros_like(walk.prefix)
    by_prefix.index_add_(1, walk.place, grad * walk.suffix.index_select(1, walk.after))
    by_ranges, by_flat = torch.zeros_like(walk.ranges), torch.zeros_like(walk.flat)
    stop = by_prefix.shape[1]
    for nodes in reversed(walk.nodes):
        start = stop - len(nodes)
        up, parent = by_prefix[:, start:stop], nodes[:, PARENT]
        by_step = up * walk.prefix.index_select(1, parent)
        by_prefix.index_add_(1, parent, up * _step(walk.ranges, walk.flat, nodes))
        by_ranges.index_add_(1, nodes[:, INTERVAL], by_step * walk.flat.index_select(1, nodes[:, SLOT]))
        by_flat.index_add_(1, nodes[:, SLOT], by_step * walk.ranges.index_select(1, nodes[:, INTERVAL]))
        stop = start
    by_values = by_flat.reshape(values.shape)
    turned = [x.flip(1) for x in (by_suffix[:, :-1], walk.first, walk.suffix[:, :-1])]
    by_values[:, :, 0] += torch.ops.aten.cumprod_backward(turned[0], turned[1], 1, turned[2]).flip(1)
    for coordinates, entries in _chains(intervals):
        given = by_ranges[:, entries], walk.first[:, coordinates], 1, walk.ranges[:, entries]
        by_values[:, coordinates, 0] += torch.ops.aten.cumprod_backward(*given)
    return by_values


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
    """Gradients of values, weight means and weight variances, written out: an operator cannot differentiate itself."""
    phi = active_values(values, tree, intervals)
    rows = active_rows(positions, tree).clamp(0, mean.shape[0] - 1)

    def gathered(weights: Tensor, grad: Tensor) -> Tensor:
        return torch.einsum("nw,ntw->nt", grad, weights[rows])

    def scattered(weights: Tensor, grad: Tensor, share: Tensor) -> Tensor:
        parts = (share.unsqueeze(-1) * grad.unsqueeze(1)).flatten(0, 1)
        return torch.zeros_like(weights).index_add(0, rows.flatten(), parts)

    by_phi, by_variance = gathered(mean, grad_mean), None
    if variance is not None and grad_variance is not None:
        by_phi = by_phi + 2 * phi * gathered(variance, grad_variance)
        by_variance = scattered(variance, grad_variance, phi.square())
    by_values = active_values_backward(values, tree, intervals, by_phi)
    return by_values, scattered(mean, grad_mean, phi), by_variance
