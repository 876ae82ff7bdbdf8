"""Contractions for high density T/m: dense features and a matrix product.

Same results as ``contraction.contract`` to rounding. The feature operator `dtmgp::dense_features` has the fake and
autograd rules of the contraction; the products are torch's.
"""

from typing import Any

import torch
from torch import Tensor

from dtmgp.ops import reference, threads
from dtmgp.ops.contraction import FAST_DTYPES, _flat, _no_second_derivatives, check_arguments
from dtmgp.ops.plan import Plan
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
    return _reference_backward(values, positions, tree, intervals, grad)


def _reference_backward(
    values: Tensor, positions: Tensor, tree: Tensor, intervals: Tensor, grad: Tensor
) -> Tensor:
    by_phi = grad.gather(1, reference.active_rows(positions, tree))
    return reference.active_values_backward(values, tree, intervals, by_phi)


@_features_backward.register_fake
def _(values, positions, tree, intervals, grad):  # type: ignore[no-untyped-def]
    return torch.empty_like(values, memory_format=torch.contiguous_format)


@_features_backward.register_kernel("cpu")
def _(values, positions, tree, intervals, grad):  # type: ignore[no-untyped-def]
    if values.dtype not in FAST_DTYPES:
        return _reference_backward(values, positions, tree, intervals, grad)
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
