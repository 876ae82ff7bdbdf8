"""The quadratic form as a torch operator: `dtmgp::quadratic` and `dtmgp::quadratic_backward`.

With U (N, F) the ratios and A_w the symmetric matrix of the pairs' weights, ``H = U A_w`` gives both the form
``1/2 sum U * H`` and its gradient in U; the gradient of the pairs is ``U^T (root g U)``. On the CPU inputs go through
in blocks that stay in the cache, matrix products by torch, the rest compiled; elsewhere ``reference``.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dtmgp.errors import InputError
from dtmgp.ops import threads
from dtmgp.ops.contraction import FAST_DTYPES, _no_second_derivatives, check_arguments
from dtmgp.ops.plan import Plan
from dtmgp.ops.quadratic import _jit
from dtmgp.ops.quadratic.reference import reference, reference_backward
from dtmgp.ops.quadratic.tables import (
    FUNCTION_ROW,
)

# numba's own annotations do not know the arguments
ratios: Any = _jit.ratios
ratios_back: Any = _jit.ratios_back
totals: Any = _jit.totals
spread_back: Any = _jit.spread_back
spread_weights: Any = _jit.spread_weights
collect_weights: Any = _jit.collect_weights
BLOCK_ENTRIES = 1 << 17  # of the block's largest array: half a mebibyte in float32


# -- operators ------------------------------------------------------------------------------------------------
@torch.library.custom_op("dtmgp::quadratic", mutates_args=())
def _quadratic(
    values: Tensor, positions: Tensor, functions: Tensor, pairs: Tensor, paired: int,
    mean: Tensor, variance: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """values, positions (N, d, L), tables (m, W): two (N, W), the second (0, W) if not asked."""
    first, second = reference(values, positions, functions, pairs, paired, mean, variance)
    return first, mean.new_empty(0, mean.shape[1]) if second is None else second


@_quadratic.register_fake
def _(values, positions, functions, pairs, paired, mean, variance):  # type: ignore[no-untyped-def]
    rows, width = values.shape[0], mean.shape[1]
    return mean.new_empty(rows, width), mean.new_empty(0 if variance is None else rows, width)


def _groups(functions: np.ndarray, levels: int, dim: int) -> tuple[np.ndarray, ...]:
    """For the compiled passes: kinds (F/16,), places in the tiles of a row, coordinates, bounds of active positions.

    Positions outside ``0 .. count - 1`` count as the nearest of them.
    """
    tile, limits = _jit.TILE, np.iinfo(np.int32)
    slot, root, count, index, _ = functions.T
    real = count > 0
    coordinate, level = root // levels, slot - root
    place = (coordinate // tile) * tile * levels + level * tile + coordinate % tile
    low = np.where(real, np.where(index == 0, limits.min, index), 1)
    high = np.where(real, np.where(index == count - 1, limits.max, index), 0)
    lane = np.arange(tile)
    together = coordinate.reshape(-1, tile)
    start, first = together[:, :1], level.reshape(-1, tile)[:, :1]
    given = real.reshape(-1, tile)
    follows = ((together == start + lane) & (level.reshape(-1, tile) == first)) | ~given
    ordered = follows.all(1) & (start[:, 0] % tile == 0) & given[:, 0]
    everywhere = (given & (count.reshape(-1, tile) == 1)) | (start + lane >= dim)
    kinds = np.where(ordered, np.where(everywhere.all(1), _jit.ALWAYS, _jit.SOMETIMES), _jit.SCATTERED)
    return tuple(np.ascontiguousarray(a, np.int32) for a in (kinds, place, coordinate, low, high))


_kept: dict[tuple[object, ...], tuple[Tensor, int, tuple[np.ndarray, ...]]] = {}
KEPT = 64  # plans whose groups are kept


def _kept_groups(functions: Tensor, levels: int, dim: int) -> tuple[np.ndarray, ...]:
    """``_groups`` of a plan's table, made once; the table is kept too, so that its address stays its own."""
    if functions.is_inference():
        return _groups(functions.contiguous().numpy(), levels, dim)
    key = functions.data_ptr(), functions.shape, functions.stride(), levels, dim
    found = _kept.get(key)
    if found is None or found[1] != functions._version:
        while len(_kept) >= KEPT:
            _kept.pop(next(iter(_kept)), None)
        groups = _groups(functions.contiguous().numpy(), levels, dim)
        found = _kept[key] = functions.detach(), functions._version, groups
    return found[2]


def _fast_weights(functions: Tensor, pairs: Tensor, paired: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """``_weights`` on the CPU."""
    width = table.shape[1]
    linear = table.new_zeros(len(functions), width)
    matrix = table.new_zeros(paired, width, paired)
    rows = functions[:, FUNCTION_ROW].contiguous().numpy()
    given = rows, pairs.contiguous().numpy(), table.detach().contiguous().numpy()
    spread_weights(*given, linear.numpy(), matrix.numpy())
    return linear, matrix.reshape(paired, width * paired)


class _Block:
    """The arrays of one pass over blocks of inputs, and what both directions do with them."""

    def __init__(self, values: Tensor, positions: Tensor, functions: Tensor, paired: int, width: int) -> None:
        rows, dim, levels = values.shape
        flat = values.detach().contiguous().numpy().reshape(-1)
        count = len(functions)
        self.given = (
            flat,
            positions.to(torch.int32).contiguous().numpy().reshape(-1),
            dim,
            levels,
            flat.dtype.type(np.finfo(flat.dtype).tiny),
            _kept_groups(functions, levels, dim),
        )
        self.size = max(64, min(rows, BLOCK_ENTRIES // max(1, paired * width, count)))
        self.paired, self.width = paired, width
        self.u = values.new_empty(self.size, count)
        self.root = values.new_empty(self.size)
        self.half = values.new_empty(self.size, width * paired)
        self.work = 0.4 * (dim + count)

    def share(self, rows: int, work: float) -> list[tuple[int, int]]:
        """Ranges of a block for the threads."""
        return threads.shares(rows, rows * work)

    def load(self, first: int, rows: int) -> tuple[Tensor, Tensor]:
        """Ratios and roots of a block."""
        u, root = self.u.numpy().reshape(-1), self.root.numpy()
        threads.run(
            lambda _, start, stop: ratios(*self.given, start, stop, first, u, root),
            self.share(rows, self.work),
        )
        return self.u[:rows], self.root[:rows]

    def halves(self, u: Tensor, matrix: Tensor) -> np.ndarray:
        """``U A`` as (rows, W, k)."""
        out = self.half[: len(u)]
        torch.mm(u[:, : self.paired], matrix, out=out)
        return out.numpy().reshape(len(u), self.width, self.paired)


@_quadratic.register_kernel("cpu")
def _(values, positions, functions, pairs, paired, mean, variance):  # type: ignore[no-untyped-def]
    rows, width = values.shape[0], mean.shape[1]
    if values.dtype not in FAST_DTYPES or rows == 0 or width == 0:
        first, second = reference(values, positions, functions, pairs, paired, mean, variance)
        return first, mean.new_empty(0, width) if second is None else second
    block = _Block(values, positions, functions, paired, width)
    outputs = [mean.new_empty(rows, width), mean.new_empty(0 if variance is None else rows, width)]
    forms = [
        (*_fast_weights(functions, pairs, paired, table), table[0])
        for table in (mean, variance)
        if table is not None
    ]
    for begin in range(0, rows, block.size):
        u, root = block.load(begin, min(block.size, rows - begin))
        for number, (linear, matrix, constant) in enumerate(forms):
            if number:
                u, root = u.square(), root.square()
            straight = torch.addmm(constant, u, linear).numpy()
            given = u.numpy(), block.halves(u, matrix), straight, root.numpy()
            out = outputs[number][begin : begin + len(u)].numpy()

            def task(_: int, start: int, stop: int, given: Any = given, out: np.ndarray = out) -> None:
                totals(*given, start, stop, out)

            threads.run(task, block.share(len(u), 0.1 * paired * width))
    return outputs[0], outputs[1]


@torch.library.custom_op("dtmgp::quadratic_backward", mutates_args=())
def _quadratic_backward(
    values: Tensor, positions: Tensor, functions: Tensor, pairs: Tensor, paired: int,
    mean: Tensor, variance: Tensor | None, grad_mean: Tensor, grad_variance: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of values, mean and variance; the last (0, W) without variance."""
    grads = grad_mean, grad_variance
    return reference_backward(values, positions, functions, pairs, paired, mean, variance, grads)


@_quadratic_backward.register_fake
def _(  # type: ignore[no-untyped-def]
    values, positions, functions, pairs, paired, mean, variance, grad_mean, grad_variance
):
    contiguous = torch.contiguous_format
    return (
        torch.empty_like(values, memory_format=contiguous),
        torch.empty_like(mean, memory_format=contiguous),
        mean.new_empty(0, mean.shape[1])
        if variance is None
        else torch.empty_like(variance, memory_format=contiguous),
    )


@_quadratic_backward.register_kernel("cpu")
def _(  # type: ignore[no-untyped-def]
    values, positions, functions, pairs, paired, mean, variance, grad_mean, grad_variance
):
    if values.dtype not in FAST_DTYPES:
        grads = grad_mean, grad_variance
        return reference_backward(values, positions, functions, pairs, paired, mean, variance, grads)
    rows, width = values.shape[0], mean.shape[1]
    out = (torch.empty if rows and width else torch.zeros)(values.shape, dtype=values.dtype)
    tables = [t for t in (mean, variance) if t is not None]
    sums = [_Gradient(functions, paired, table) for table in tables]
    if rows and width:
        block = _Block(values, positions, functions, paired, width)
        upstream = [grad_mean.contiguous(), grad_variance.contiguous()]
        forms = [(*_fast_weights(functions, pairs, paired, table), table[0]) for table in tables]
        target = out.numpy().reshape(-1)
        for begin in range(0, rows, block.size):
            u, root = block.load(begin, min(block.size, rows - begin))
            slopes: list[np.ndarray] = []
            ratio, scale = u, root
            for number, ((linear, matrix, constant), total) in enumerate(zip(forms, sums)):
                if number:
                    ratio, scale = u.square(), root.square()
                grad = upstream[number][begin : begin + len(u)]
                slopes += _one_form(block, ratio, scale, grad, linear, matrix, constant, total)
            slopes += slopes[: 4 - len(slopes)]
            ends = u.numpy().reshape(-1), root.numpy(), *slopes[:2]
            rest = (begin, *ends, len(sums) == 2, *slopes[2:], target)

            def task(_: int, start: int, stop: int, rest: Any = rest) -> None:
                ratios_back(*block.given, start, stop, *rest)

            threads.run(task, block.share(len(u), 2 * block.work))
    found = [total.table(pairs) for total in sums]
    return out, found[0], found[1] if variance is not None else mean.new_empty(0, width)


def _one_form(
    block: _Block, ratio: Tensor, scale: Tensor, grad: Tensor,
    linear: Tensor, matrix: Tensor, constant: Tensor, total: "_Gradient",
) -> list[np.ndarray]:  # fmt: skip
    """Gradients of the ratios and the roots of a block; adds those of the weights to ``total``."""
    straight = torch.addmm(constant, ratio, linear)
    half = block.halves(ratio, matrix)
    up = grad * scale.unsqueeze(-1)
    grad_ratio = up @ linear.T
    grad_root = ratio.new_empty(len(ratio))
    given = ratio.numpy(), half, straight.numpy(), scale.numpy(), grad.numpy()
    results = grad_ratio.numpy(), grad_root.numpy(), half
    threads.run(
        lambda _, start, stop: spread_back(*given, start, stop, *results),
        block.share(len(ratio), 0.3 * block.paired * block.width),
    )
    total.add(ratio, up, block.half[: len(ratio)])
    return [grad_ratio.numpy().reshape(-1), grad_root.numpy()]


class _Gradient:
    """Gradient of one weight table, gathered over blocks."""

    def __init__(self, functions: Tensor, paired: int, table: Tensor) -> None:
        width = table.shape[1]
        self.rows = functions[:, FUNCTION_ROW].contiguous().numpy()
        self.paired, self.shape = paired, table.shape
        self.constant = table.new_zeros(width)
        self.linear = table.new_zeros(len(self.rows), width)
        self.pairs = table.new_zeros(paired, width * paired)

    def add(self, u: Tensor, up: Tensor, outer: Tensor) -> None:
        """A block's part; ``outer`` (rows, W k) is ``up * u``."""
        self.constant += up.sum(0)
        self.linear.addmm_(u.T, up)
        self.pairs.addmm_(u[:, : self.paired].T, outer)

    def table(self, pairs: Tensor) -> Tensor:
        """(m, W)."""
        out = self.linear.new_zeros(self.shape)
        out[0] = self.constant
        square = self.pairs.reshape(self.paired, self.shape[1], self.paired).numpy()
        collect_weights(self.rows, pairs.contiguous().numpy(), self.linear.numpy(), square, out.numpy())
        return out


# -- derivatives ----------------------------------------------------------------------------------------------
def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    values, positions, functions, pairs, paired, mean, variance = inputs
    ctx.save_for_backward(values, positions, functions, pairs, mean, variance)
    ctx.paired = paired


def _first_derivatives(ctx: Any, grad_mean: Tensor, grad_variance: Tensor) -> Any:
    values, positions, functions, pairs, mean, variance = ctx.saved_tensors
    found = _quadratic_backward(
        values, positions, functions, pairs, ctx.paired, mean, variance, grad_mean, grad_variance
    )
    return found[0], None, None, None, None, found[1], None if variance is None else found[2]


_quadratic.register_autograd(_first_derivatives, setup_context=_setup)
_quadratic_backward.register_autograd(_no_second_derivatives)


# -- what layers call -----------------------------------------------------------------------------------------
def contract_quadratic(
    plan: Plan, values: Tensor, positions: Tensor, mean: Tensor, variance: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """`contract` as a linear and a quadratic form in the k functions that occur in pairs: O(k^2 W) per input, by GEMM.

    For plans with ``plan.quadratic``: at most two raised coordinates a multi-index, positive level-1 values.
    """
    check_arguments(plan, values, positions, mean, variance)
    tables = plan.quadratic
    if tables is None or positions.shape != values.shape:
        raise InputError(
            "contract_quadratic",
            got=repr(plan),
            expected="pairs of raised coordinates, positive level-1 functions, and positions (not rows)",
            do="use contract or contract_dense",
        )
    lead = values.shape[:-2]
    shape = (-1, plan.dim, plan.levels)
    device = values.device
    first, second = _quadratic(
        values.reshape(shape),
        positions.reshape(shape),
        tables.functions.to(device),
        tables.pairs.to(device),
        tables.paired,
        mean,
        variance,
    )
    width = mean.shape[1]
    return first.reshape(*lead, width), None if variance is None else second.reshape(*lead, width)
