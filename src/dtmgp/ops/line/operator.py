"""The compiled one-dimensional features as torch operators: CPU, float32 and float64, Laplace and Matern kernels."""

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dtmgp.kernels.matern import _impulse_response, _nilpotent_powers, _noise_coefficients
from dtmgp.ops import threads
from dtmgp.ops.line import _jit

# numba's own annotations do not know the arguments
forward: Any = _jit.forward
backward: Any = _jit.backward


@cache
def _constants(order: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    inverse = 1.0 / np.maximum(np.arange(2 * order + 2 + _jit.SERIES), 1)
    return tuple(
        np.ascontiguousarray(a, dtype).ravel()
        for a in (_noise_coefficients(order)[0], _nilpotent_powers(order), inverse)
    )  # type: ignore[return-value]


@cache
def _slope_constants(order: int, dtype: np.dtype) -> tuple[Any, np.ndarray, np.ndarray]:
    powers, response = _nilpotent_powers(order), _impulse_response(order)
    size = order + 1
    generator = (powers[1] if order else np.zeros((1, 1))) - np.eye(size)
    # dQ_00/dt = kappa h_0^2: kappa from Q_00(inf) = 1
    factorials = np.cumprod([1.0, *range(1, 2 * order + 1)])
    integral = factorials / 2.0 ** np.arange(1, 2 * order + 2)
    kappa = 1.0 / (integral @ np.convolve(response[0], response[0]))
    return dtype.type(kappa), response.astype(dtype).ravel(), generator.astype(dtype).ravel()


def _arguments(
    x: Tensor,
    rates: Tensor,
    tables: Tensor,
    points: Tensor,
    kinds: Tensor,
    increments: Tensor,
    dyadic: bool,
    top: int,
) -> tuple[Any, ...]:
    classes, size = tables.shape[1], tables.shape[-1]
    arrays = [t.detach().contiguous().numpy().reshape(-1) for t in (x, rates, tables, points, kinds)]
    starts, counts = increments.numpy()
    return *arrays, starts, counts, dyadic, classes, size, top


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
    if rows:
        arguments = _arguments(x, rates, tables, points, kinds, increments, dyadic, top)
        constants = _constants(tables.shape[-1] - 1, arguments[0].dtype)
        out = values.numpy().reshape(-1), places.numpy().reshape(-1)

        def task(_: int, start: int, stop: int) -> None:
            forward(*arguments, start, stop, *constants, *out)

        threads.run(task, threads.shares(rows, rows * dim * top * 5.0 * tables.shape[-1]))
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
    by_x = torch.zeros_like(x, memory_format=torch.contiguous_format)
    arguments = _arguments(x, rates, tables, points, kinds, increments, dyadic, top)
    order, dtype = tables.shape[-1] - 1, arguments[0].dtype
    constants = _constants(order, dtype) + _slope_constants(order, dtype)
    ranges = threads.shares(rows, rows * dim * top * 15.0 * tables.shape[-1])
    by_rates, by_tables = np.zeros((len(ranges), dim)), np.zeros((len(ranges), tables.numel()))
    upstream, out = grad.contiguous().numpy().reshape(-1), by_x.numpy().reshape(-1)

    def task(number: int, start: int, stop: int) -> None:
        backward(
            *arguments,
            start,
            stop,
            *constants,
            upstream,
            out,
            by_rates[number],
            by_tables[number],
            want_tables,
        )

    threads.run(task, ranges)
    return (
        by_x,
        torch.from_numpy(by_rates.sum(0)).to(rates.dtype),
        torch.from_numpy(by_tables.sum(0)).to(tables.dtype).reshape(tables.shape),
    )


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


def _first_derivatives(ctx: Any, grad: Tensor, _: Any) -> Any:
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
