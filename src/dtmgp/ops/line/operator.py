"""The compiled one-dimensional features as torch operators: CPU, float32 and float64, Laplace and Matern kernels."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dtmgp.ops import threads
from dtmgp.ops.line import _jit
from dtmgp.ops.line.dyadic import _jit as dyadic_jit

# numba's own annotations do not know the arguments
forward: Any = _jit.forward
backward: Any = _jit.backward
dyadic_forward: Any = dyadic_jit.forward
dyadic_backward: Any = dyadic_jit.backward
TILE = dyadic_jit.TILE


def _flat(tensor: Tensor) -> np.ndarray:
    found: np.ndarray = tensor.detach().contiguous().numpy().reshape(-1)
    return found


class _Dyadic:
    """Constants as the compiled functions want them: coordinates repeated to vectors, classes by increment."""

    def __init__(self, rates: Tensor, tables: Tensor, kinds: Tensor, increments: Tensor, dtype: Any) -> None:
        starts, counts = increments.numpy()
        places = starts[:, None] + np.stack([0 * counts, np.minimum(1, counts - 1), counts - 1], axis=1)
        self.classes = kinds.numpy()[places]  # (K, 3): of the first, the inner and the last cell
        self.shape, self.dim = tables.shape, len(rates)
        self.phases = self.dim // math.gcd(self.dim, TILE)
        self.repeats = self.phases * TILE // self.dim
        self.counts, self.inverses = counts.astype(dtype), (1.0 / counts).astype(dtype)
        self.rates = np.tile(rates.detach().numpy(), self.repeats)
        size = tables.shape[-1]
        by_increment = tables.detach().numpy()[:, self.classes].reshape(self.dim, -1)  # (J, K 3 2 s s)
        wide = np.tile(by_increment, (self.repeats, 1)).reshape(self.phases, TILE, -1)
        self.tables = np.ascontiguousarray(wide.transpose(0, 2, 1)).reshape(-1)
        self.state = (0,) * size

    def fold(self, wide: np.ndarray) -> np.ndarray:
        """Sums (.., phases, n, 16) over ranges of inputs to (J, n)."""
        total = wide.sum(0).reshape(self.phases, -1, TILE).transpose(0, 2, 1)
        found: np.ndarray = total.reshape(self.repeats, self.dim, -1).sum(0)
        return found

    def by_class(self, found: np.ndarray) -> np.ndarray:
        """Gradients (J, K 3 2 s s) of the increments' tables to those of the classes."""
        out = np.zeros(self.shape)
        parts = found.reshape(self.dim, *self.classes.shape, *self.shape[2:])
        for k, row in enumerate(self.classes.tolist()):
            for cell, kind in enumerate(row):
                out[:, kind] += parts[:, k, cell]  # classes that do not occur have gradient 0
        return out


_kept: dict[tuple[object, ...], tuple[tuple[Tensor, ...], tuple[int, int], _Dyadic]] = {}
KEPT = 16  # layers of a deep model between the passes forward and backward


def _dyadic(rates: Tensor, tables: Tensor, kinds: Tensor, increments: Tensor, dtype: Any) -> _Dyadic:
    """The constants of these tensors, kept as long as nobody writes to them."""
    if rates.is_inference() or tables.is_inference():
        return _Dyadic(rates, tables, kinds, increments, dtype)
    key = rates.data_ptr(), tables.data_ptr(), tables.shape, kinds.data_ptr(), increments.data_ptr()
    versions = rates._version, tables._version
    found = _kept.get(key)
    if found is None or found[1] != versions:
        while len(_kept) >= KEPT:
            _kept.pop(next(iter(_kept)), None)
        # the tensors are kept too: their addresses stay theirs
        held = rates.detach(), tables.detach(), kinds, increments
        found = _kept[key] = held, versions, _Dyadic(rates, tables, kinds, increments, dtype)
    return found[2]


def _arguments(
    rates: Tensor, tables: Tensor, points: Tensor, kinds: Tensor, increments: Tensor, top: int
) -> tuple[Any, ...]:
    """Of the compiled functions for any points, up to ``top``."""
    starts, counts = increments.numpy()
    arrays = [_flat(t) for t in (rates, tables, points, kinds)]
    return *arrays, starts, counts, tables.shape[1], (0,) * tables.shape[-1], top


@torch.library.custom_op("dtmgp::line", mutates_args=(), device_types="cpu")
def _line(
    x: Tensor,
    rates: Tensor,
    tables: Tensor,
    points: Tensor,
    kinds: Tensor,
    increments: Tensor,
    dyadic: bool,
    top: int,
) -> tuple[Tensor, Tensor]:
    """Values and positions (N, J, top) of x (N, J) from rates (J,), tables (J, classes, 2, s, s), points (3, k)."""
    rows, dim = x.shape
    values = x.new_empty(rows, dim, top)
    places = torch.empty(rows, dim, top, dtype=torch.int32)
    if not rows:
        return values, places
    given, out = _flat(x), (values.numpy().reshape(-1), places.numpy().reshape(-1))
    if dyadic:
        at = _dyadic(rates, tables, kinds, increments, given.dtype)
        constants = at.rates, at.tables, at.counts, at.inverses, top

        def task(_: int, start: int, stop: int) -> None:
            dyadic_forward(given, *constants, start * dim, stop * dim, at.state, *out)
    else:
        arguments = _arguments(rates, tables, points, kinds, increments, top)

        def task(_: int, start: int, stop: int) -> None:
            forward(given, *arguments, start, stop, *out)

    threads.run(task, threads.shares(rows, rows * dim * top * tables.shape[-1] * (1.0 if dyadic else 5.0)))
    return values, places


@_line.register_fake
def _(x, rates, tables, points, kinds, increments, dyadic, top):  # type: ignore[no-untyped-def]
    return x.new_empty(*x.shape, top), x.new_empty(*x.shape, top, dtype=torch.int32)


@torch.library.custom_op("dtmgp::line_backward", mutates_args=(), device_types="cpu")
def _line_backward(
    x: Tensor,
    rates: Tensor,
    tables: Tensor,
    points: Tensor,
    kinds: Tensor,
    increments: Tensor,
    dyadic: bool,
    top: int,
    grad: Tensor,
    want_tables: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, rates and tables; the last two are 0 if not wanted."""
    rows, dim = x.shape
    by_x = torch.empty_like(x, memory_format=torch.contiguous_format)
    given, upstream, out = _flat(x), _flat(grad), by_x.numpy().reshape(-1)
    ranges = threads.shares(rows, rows * dim * top * tables.shape[-1] * (2.0 if dyadic else 15.0))
    if dyadic:
        at = _dyadic(rates, tables, kinds, increments, given.dtype)
        constants = at.rates, at.tables, at.counts, at.inverses, top
        turns, sums = (np.zeros((len(ranges), a.size if want_tables else 0)) for a in (at.rates, at.tables))

        def task(number: int, start: int, stop: int) -> None:
            rest = turns[number], sums[number], want_tables
            dyadic_backward(given, *constants, start * dim, stop * dim, at.state, upstream, out, *rest)

        threads.run(task, ranges)
        if not want_tables:
            return by_x, torch.zeros_like(rates), torch.zeros_like(tables)
        by_rates, by_tables = at.fold(turns)[:, 0] / rates.detach().numpy(), at.by_class(at.fold(sums))
    else:
        arguments = _arguments(rates, tables, points, kinds, increments, top)
        turns, sums = np.zeros((len(ranges), dim)), np.zeros((len(ranges), tables.numel()))

        def task(number: int, start: int, stop: int) -> None:
            rest = turns[number], sums[number], want_tables
            backward(given, *arguments, start, stop, upstream, out, *rest)

        threads.run(task, ranges)
        by_rates, by_tables = turns.sum(0), sums.sum(0).reshape(tables.shape)
    return by_x, torch.from_numpy(by_rates).to(rates.dtype), torch.from_numpy(by_tables).to(tables.dtype)


@_line_backward.register_fake
def _(x, rates, tables, points, kinds, increments, dyadic, top, grad, want_tables):  # type: ignore[no-untyped-def]
    return (
        torch.empty_like(x, memory_format=torch.contiguous_format),
        torch.empty_like(rates),
        torch.empty_like(tables, memory_format=torch.contiguous_format),
    )


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.dyadic, ctx.top = inputs
    ctx.save_for_backward(*tensors)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # no zeros in place of the positions' gradient


def _first_derivatives(ctx: Any, grad: Tensor | None, _: Any) -> Any:
    if grad is None:
        return (None,) * 8
    need = ctx.needs_input_grad
    by_x, by_rates, by_tables = _line_backward(
        *ctx.saved_tensors, ctx.dyadic, ctx.top, grad, need[1] or need[2]
    )
    return by_x, by_rates if need[1] else None, by_tables if need[2] else None, *[None] * 5


def _no_second_derivatives(ctx: Any, *_: Any) -> Any:
    raise NotImplementedError(
        "dtmgp::line has first derivatives only. For second derivatives call LineFunctions.eager, which is plain torch."
    )


_line.register_autograd(_first_derivatives, setup_context=_setup)
_line_backward.register_autograd(_no_second_derivatives)


def fused_line(
    x: Tensor,
    rates: Tensor,
    tables: Tensor,
    points: Tensor,
    kinds: Tensor,
    increments: Tensor,
    dyadic: bool,
    top: int,
) -> tuple[Tensor, Tensor]:
    """The operator `dtmgp::line`; see ``_line`` for shapes."""
    found: tuple[Tensor, Tensor] = _line(x, rates, tables, points, kinds, increments, dyadic, top)
    return found
