"""The contraction as a torch operator: ``mean = sum_t value_t M[row_t]``, ``variance = sum_t value_t^2 V[row_t]``.

`dtmgp::contract` and `dtmgp::contract_backward` are functional operators with fake and autograd rules. On the CPU
they run the kernels of ``_jit`` (float32, float64); elsewhere ``reference``. Second derivatives are refused by name.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dtmgp.errors import InputError
from dtmgp.ops import _jit, reference, threads
from dtmgp.ops.plan import Plan

FAST_DTYPES = (torch.float32, torch.float64)


# -- operators ------------------------------------------------------------------------------------------------
@torch.library.custom_op("dtmgp::contract", mutates_args=())
def _contract(
    values: Tensor, positions: Tensor, tree: Tensor, intervals: Tensor, mean: Tensor, variance: Tensor | None
) -> tuple[Tensor, Tensor]:
    """values (N, d, L), positions (N, d, L) or rows (N, T), tables (m, W): two (N, W), one (0, W) if not asked."""
    first, second = reference.contract(values, positions, tree, intervals, mean, variance)
    return first, mean.new_empty(0, mean.shape[1]) if second is None else second


@_contract.register_fake
def _(values, positions, tree, intervals, mean, variance):  # type: ignore[no-untyped-def]
    rows, width = values.shape[0], mean.shape[1]
    return mean.new_empty(rows, width), mean.new_empty(0 if variance is None else rows, width)


@_contract.register_kernel("cpu")
def _(values, positions, tree, intervals, mean, variance):  # type: ignore[no-untyped-def]
    rows, width = values.shape[0], mean.shape[1]
    if values.dtype not in FAST_DTYPES:
        first, second = reference.contract(values, positions, tree, intervals, mean, variance)
        return first, mean.new_empty(0, width) if second is None else second
    out_mean = mean.new_empty(rows, width)
    out_variance = mean.new_empty(0 if variance is None else rows, width)
    if rows == 0 or width == 0:
        return out_mean, out_variance
    arguments = _arguments(values, positions, tree, intervals, mean, variance)
    results = _flat(out_mean), _flat(out_variance)
    kernel: Any = _jit.FORWARD.get(width, _jit.forward16)

    def task(_: int, start: int, stop: int) -> None:
        kernel(*arguments[:3], start, stop, *arguments[3:], *results)

    threads.run(task, threads.shares(rows, rows * tree.shape[0] * (1.0 + width / 16)))
    return out_mean, out_variance


@torch.library.custom_op("dtmgp::contract_backward", mutates_args=())
def _contract_backward(
    values: Tensor,
    positions: Tensor,
    tree: Tensor,
    intervals: Tensor,
    mean: Tensor,
    variance: Tensor | None,
    grad_mean: Tensor,
    grad_variance: Tensor,
    want_values: bool,
    want_weights: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of values, mean and variance; empty ones (first dimension 0) where not wanted."""
    return _reference_backward(
        values,
        positions,
        tree,
        intervals,
        mean,
        variance,
        grad_mean,
        grad_variance,
        want_values,
        want_weights,
    )


def _reference_backward(
    values: Tensor,
    positions: Tensor,
    tree: Tensor,
    intervals: Tensor,
    mean: Tensor,
    variance: Tensor | None,
    grad_mean: Tensor,
    grad_variance: Tensor,
    want_values: bool,
    want_weights: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    found = reference.contract_backward(
        values, positions, tree, intervals, mean, variance, grad_mean, grad_variance
    )
    blank = [x.new_empty(0, *x.shape[1:]) for x in (values, mean, mean)]
    wanted = (want_values, want_weights, want_weights and variance is not None)
    first, second, third = (
        g if w and g is not None else b for g, b, w in zip(found, blank, wanted, strict=True)
    )
    return first, second, third


@_contract_backward.register_fake
def _(  # type: ignore[no-untyped-def]
    values, positions, tree, intervals, mean, variance, grad_mean, grad_variance, want_values, want_weights
):
    rows, width = mean.shape
    return (
        values.new_empty(values.shape[0] if want_values else 0, *values.shape[1:]),
        mean.new_empty(rows if want_weights else 0, width),
        mean.new_empty(rows if want_weights and variance is not None else 0, width),
    )


@_contract_backward.register_kernel("cpu")
def _(  # type: ignore[no-untyped-def]
    values, positions, tree, intervals, mean, variance, grad_mean, grad_variance, want_values, want_weights
):
    if values.dtype not in FAST_DTYPES:
        return _reference_backward(
            values, positions, tree, intervals, mean, variance,
            grad_mean, grad_variance, want_values, want_weights,
        )  # fmt: skip
    (rows, dim, levels), (size, width) = values.shape, mean.shape
    out_values = values.new_empty(rows if want_values else 0, dim, levels)
    out_mean = mean.new_zeros(size if want_weights else 0, width)
    out_variance = mean.new_zeros(size if want_weights and variance is not None else 0, width)
    if rows == 0 or width == 0:
        return out_values.zero_(), out_mean, out_variance
    arguments = _arguments(values, positions, tree, intervals, mean, variance)
    gradients = _flat(grad_mean), _flat(grad_variance)
    kernel: Any = _jit.BACKWARD.get(width, _jit.backward16)
    ranges = threads.shares(rows, rows * tree.shape[0] * (2.0 + width / 4))
    sums = [(_flat(out_mean), _flat(out_variance))]
    sums += [tuple(np.zeros_like(buffer) for buffer in sums[0]) for _ in ranges[1:]]  # type: ignore[misc]

    def task(number: int, start: int, stop: int) -> None:
        kernel(
            *arguments[:3], start, stop, *arguments[3:], *gradients, _flat(out_values), *sums[number],
            want_values, want_weights,
        )  # fmt: skip

    threads.run(task, ranges)
    for extra in sums[1:]:  # in order, by one thread: the same in every run
        for buffer, part in zip(sums[0], extra, strict=True):
            np.add(buffer, part, out=buffer)
    return out_values, out_mean, out_variance


def _flat(x: Tensor) -> np.ndarray:
    return x.detach().contiguous().numpy().reshape(-1)


def _no_second_derivatives(ctx: Any, *_: Any) -> Any:
    raise NotImplementedError(
        "dtmgp::contract has first derivatives only. For second derivatives call "
        "dtmgp.ops.reference.contract, which is plain torch, with the same arguments."
    )


def _arguments(
    values: Tensor, positions: Tensor, tree: Tensor, intervals: Tensor, mean: Tensor, variance: Tensor | None
) -> tuple[Any, ...]:
    """What both kernels take, as flat arrays: before and after the range of inputs."""
    dtype = values.dtype
    spread = mean[:0] if variance is None else variance
    return (
        _flat(values),
        _flat(positions.to(torch.int32)),
        positions.ndim == 2,
        _flat(tree),
        _flat(intervals),
        values.shape[1],
        values.shape[2],
        _flat(mean.to(dtype)),
        _flat(spread.to(dtype)),
        mean.shape[1],
    )


# -- derivatives ----------------------------------------------------------------------------------------------
def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _first_derivatives(ctx: Any, grad_mean: Tensor, grad_variance: Tensor) -> Any:
    values, positions, tree, intervals, mean, variance = ctx.saved_tensors
    need = ctx.needs_input_grad
    weights = need[4] or need[5]
    found = _contract_backward(
        values, positions, tree, intervals, mean, variance, grad_mean, grad_variance, need[0], weights
    )
    return (
        found[0] if need[0] else None,
        None,
        None,
        None,
        found[1] if need[4] else None,
        found[2] if need[5] else None,
    )


_contract.register_autograd(_first_derivatives, setup_context=_setup)
_contract_backward.register_autograd(_no_second_derivatives)


# -- what layers call -----------------------------------------------------------------------------------------
def contract(
    plan: Plan, values: Tensor, positions: Tensor, mean: Tensor, variance: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """``sum_t value_t M[row_t]`` and, if asked, ``sum_t value_t^2 V[row_t]``: O(T W) per input, whatever m is.

    Arguments: ``values`` (..., d, L) and ``positions`` (..., d, L) from ``dtmgp.ops.line``, or the rows (..., T)
    already found; ``mean`` and ``variance`` (m, W). Leading dimensions (draws, batch) are not copied. Positions beyond
    a level are limited to it. Returns two (..., W), the second None without ``variance``.

    >>> from dtmgp.expansion import HierarchicalExpansion
    >>> from dtmgp.grids import SparseGrid
    >>> from dtmgp.kernels import BrownianBridge
    >>> from dtmgp.ops.plan import plans_of
    >>> (plan,) = plans_of(HierarchicalExpansion(BrownianBridge(), SparseGrid(1, 2)))
    >>> values, positions = torch.tensor([[[0.25, 0.25]]]), torch.tensor([[[0, 1]]], dtype=torch.int32)
    >>> contract(plan, values, positions, torch.tensor([[1.0], [2.0], [3.0]]))[0]
    tensor([[1.]])
    """
    check_arguments(plan, values, positions, mean, variance)
    lead = values.shape[:-2]
    first, second = _contract(
        values.reshape(-1, plan.dim, plan.levels),
        positions.reshape(-1, *positions.shape[len(lead) :]),
        plan.tree,
        plan.intervals,
        mean,
        variance,
    )
    width = mean.shape[1]
    return first.reshape(*lead, width), None if variance is None else second.reshape(*lead, width)


def check_arguments(
    plan: Plan, values: Tensor, positions: Tensor, mean: Tensor, variance: Tensor | None
) -> None:
    """Shapes and dtypes that belong together, or an error that says which do not."""
    lead, tail = values.shape[:-2], values.shape[-2:]
    places = positions.shape[len(lead) :]
    if tail != (plan.dim, plan.levels) or positions.shape[: len(lead)] != lead:
        raise InputError(
            "contract: values and positions",
            got=f"shapes {tuple(values.shape)} and {tuple(positions.shape)}",
            expected=f"(..., {plan.dim}, {plan.levels}) for both",
            do="take both from dtmgp.ops.line for the same plan",
        )
    explicit = places == (plan.active,)
    if places != tail and not explicit:
        raise InputError(
            "contract: positions",
            got=f"shape {tuple(positions.shape)}",
            expected=f"(..., {plan.dim}, {plan.levels}) positions or (..., {plan.active}) rows",
        )
    shapes = [tuple(table.shape) for table in (mean, variance) if table is not None]
    if len(set(shapes)) != 1 or len(shapes[0]) != 2 or (shapes[0][0] != plan.size and not explicit):
        raise InputError(
            "contract: weight tables",
            got=f"shapes {', '.join(map(str, shapes))}",
            expected=f"({plan.size}, W)",
            do="slice the table of an additive expansion with plan.rows",
        )
    if mean.dtype != values.dtype or (variance is not None and variance.dtype != values.dtype):
        raise InputError(
            "contract: dtypes",
            got=f"values {values.dtype}, mean {mean.dtype}",
            expected="one floating dtype",
            do="convert the inputs of the layer to the dtype of its weights",
        )
