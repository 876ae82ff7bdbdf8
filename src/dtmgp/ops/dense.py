"""Contractions for high density T/m: dense features and a matrix product, or a quadratic form without features.

Same results as ``contraction.contract`` to rounding. The feature operator `dtmgp::dense_features` has the fake and
autograd rules of the contraction; the products are torch's.
"""

from typing import Any

import torch
from torch import Tensor

from dtmgp.errors import InputError
from dtmgp.ops import reference, threads
from dtmgp.ops.contraction import FAST_DTYPES, _flat, _no_second_derivatives, check_arguments, contract
from dtmgp.ops.plan import OFFSET, PARENT, SLOT, Plan, depths
from dtmgp.ops.tree import _jit


def reference_features(
    values: Tensor, positions: Tensor, tree: Tensor, intervals: Tensor, size: int
) -> Tensor:
    """Features (N, m) with their zeros, in plain torch."""
    phi = reference.active_values(values, tree, intervals)
    rows = reference.active_rows(positions, tree)
    return phi.new_zeros(len(phi), size).scatter(1, rows, phi)


@torch.library.custom_op("dtmgp::dense_features", mutates_args=())
def _features(values: Tensor, positions: Tensor, tree: Tensor, intervals: Tensor, size: int) -> Tensor:
    """(N, m) from values and positions (N, d, L)."""
    return reference_features(values, positions, tree, intervals, size)


@_features.register_fake
def _(values, positions, tree, intervals, size):  # type: ignore[no-untyped-def]
    return values.new_empty(values.shape[0], size)


@_features.register_kernel("cpu")
def _(values, positions, tree, intervals, size):  # type: ignore[no-untyped-def]
    if values.dtype not in FAST_DTYPES:
        return reference_features(values, positions, tree, intervals, size)
    rows, dim, levels = values.shape
    out = values.new_zeros(rows, size)
    given, result = (_flat(values), _flat(positions.to(torch.int32))), _flat(out)
    tables = _flat(tree), _flat(intervals), dim, levels, size
    threads.run(
        lambda _, start, stop: _jit.dense_forward(*given, start, stop, *tables, result),
        threads.shares(rows, 1.0 * rows * tree.shape[0]),
    )
    return out


@torch.library.custom_op("dtmgp::dense_features_backward", mutates_args=())
def _features_backward(
    values: Tensor, positions: Tensor, tree: Tensor, intervals: Tensor, grad: Tensor
) -> Tensor:
    """Gradient of the values."""
    with torch.enable_grad():
        inputs = values.detach().requires_grad_()
        out = reference_features(inputs, positions, tree, intervals, grad.shape[1])
        return torch.autograd.grad(out, inputs, grad)[0]


@_features_backward.register_fake
def _(values, positions, tree, intervals, grad):  # type: ignore[no-untyped-def]
    return torch.empty_like(values, memory_format=torch.contiguous_format)


@_features_backward.register_kernel("cpu")
def _(values, positions, tree, intervals, grad):  # type: ignore[no-untyped-def]
    rows, dim, levels = values.shape
    out = torch.zeros_like(values, memory_format=torch.contiguous_format)
    given = _flat(values), _flat(positions.to(torch.int32))
    tables = _flat(tree), _flat(intervals), dim, levels, grad.shape[1]
    upstream, result = _flat(grad), _flat(out)
    threads.run(
        lambda _, start, stop: _jit.dense_backward(*given, start, stop, *tables, upstream, result),
        threads.shares(rows, 2.0 * rows * tree.shape[0]),
    )
    return out


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:4])


def _first_derivatives(ctx: Any, grad: Tensor) -> Any:
    return _features_backward(*ctx.saved_tensors, grad), None, None, None, None


_features.register_autograd(_first_derivatives, setup_context=_setup)
_features_backward.register_autograd(_no_second_derivatives)


def features(plan: Plan, values: Tensor, positions: Tensor) -> Tensor:
    """Dense features (..., m): zeros and the T active values."""
    lead = values.shape[:-2]
    shape = (-1, plan.dim, plan.levels)
    found = _features(values.reshape(shape), positions.reshape(shape), plan.tree, plan.intervals, plan.size)
    return found.reshape(*lead, plan.size)


def contract_dense(
    plan: Plan, values: Tensor, positions: Tensor, mean: Tensor, variance: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """``phi M`` and ``phi^2 V`` by matrix products: O(m W) per input at the speed of a GEMM."""
    check_arguments(plan, values, positions, mean, variance)
    phi = features(plan, values, positions)
    return phi @ mean, None if variance is None else phi.square() @ variance


# -- quadratic form -------------------------------------------------------------------------------------------
def has_quadratic_form(plan: Plan) -> bool:
    """At most two raised coordinates a multi-index, and one function per raised level wherever there are two."""
    return plan.most_raised == 2 and plan.single_raised


def _pairs(plan: Plan) -> tuple[Plan, Tensor, Tensor]:
    """The plan without pairs; the slots that occur in pairs; (first, second, row) of every pair."""
    table = plan.tree.long()
    depth = torch.from_numpy(depths(plan.tree.numpy()))
    pairs = table[depth == 2]
    slots, numbers = torch.stack([table[pairs[:, PARENT], SLOT], pairs[:, SLOT]]).unique(return_inverse=True)
    keep = depth < 2  # parents of these are the root, number 0
    few = Plan(
        plan.tree[keep], plan.intervals, plan.dim, plan.levels, plan.size, plan.coordinates, plan.start
    )
    return few, slots, torch.cat([numbers, pairs[:, OFFSET].unsqueeze(0)])


def contract_quadratic(
    plan: Plan, values: Tensor, positions: Tensor, mean: Tensor, variance: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """``root (u^T A_w u)`` for the pairs, ``u`` the ratios to level 1, ``A_w`` from rows of the table.

    Level-1 values must not be 0 (true of Laplace and Matern kernels). O(k^2 W) per input, k slots in pairs.
    """
    check_arguments(plan, values, positions, mean, variance)
    if not has_quadratic_form(plan):
        raise InputError(
            "contract_quadratic",
            got=repr(plan),
            expected="pairs of raised coordinates with one function a level",
            do="use contract or contract_dense",
        )
    few, slots, (first, second, rows) = _pairs(plan)
    low_mean, low_variance = contract(few, values, positions, mean, variance)
    level_one = values[..., :1]
    root = level_one.squeeze(-1).prod(-1, keepdim=True)
    ratio = (values / level_one).flatten(-2).index_select(-1, slots)
    count, width = len(slots), mean.shape[1]

    def form(u: Tensor, table: Tensor) -> Tensor:
        matrix = table.new_zeros(count, count, width).index_put((first, second), table[rows])
        half = (u.reshape(-1, count) @ matrix.reshape(count, -1)).reshape(-1, count, width)
        return torch.einsum("nsw,ns->nw", half, u.reshape(-1, count)).reshape(*u.shape[:-1], width)

    total = low_mean + root * form(ratio, mean)
    if variance is None or low_variance is None:
        return total, None
    return total, low_variance + root.square() * form(ratio.square(), variance)
