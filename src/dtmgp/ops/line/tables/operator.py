"""The operator `dtmgp::line_tables`: what the compiled line features need to know of the hyperparameters."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dtmgp.kernels.matern import _nilpotent_powers, _noise_coefficients
from dtmgp.ops.line.kernels import LARGEST
from dtmgp.ops.line.tables import _jit

fill: Any = _jit.tables  # numba's own annotations do not know the arguments


@cache
def _constants(order: int) -> tuple[np.ndarray, np.ndarray]:
    return np.ascontiguousarray(_noise_coefficients(order)), np.ascontiguousarray(_nilpotent_powers(order))


@torch.library.custom_op("dtmgp::line_tables", mutates_args=(), device_types="cpu")
def _line_tables(
    gaps: Tensor, lengthscale: Tensor, variance: Tensor, order: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Rates (J,), tables (J, classes, 2, s, s) and, in float64, their derivatives in the rate.

    From gaps (classes, 2), lengthscales (J,) and one variance, of which coordinate 0 takes all.
    """
    scales = lengthscale.detach().double().numpy()
    inside = (scales > 1 / LARGEST) & (scales < LARGEST)  # others make NaN, never a division by zero
    rates = np.full(len(scales), np.nan)
    np.divide(math.sqrt(2 * order + 1), scales, out=rates, where=inside)
    size = order + 1
    shape = (len(rates), gaps.shape[0], 2, size, size)
    found, slopes = np.empty(shape), np.empty(shape)
    fill(gaps.detach().double().contiguous().numpy(), rates, *_constants(order), found, slopes)
    amplitude = math.sqrt(float(variance)) if float(variance) >= 0 else math.nan
    found[:1] *= amplitude
    slopes[:1] *= amplitude
    kind = lengthscale.dtype
    return (
        torch.from_numpy(rates).to(kind, copy=True),
        torch.from_numpy(found).to(kind),
        torch.from_numpy(slopes),
    )


@_line_tables.register_fake
def _(gaps, lengthscale, variance, order):  # type: ignore[no-untyped-def]
    shape = (lengthscale.shape[0], gaps.shape[0], 2, order + 1, order + 1)
    return (
        torch.empty_like(lengthscale, memory_format=torch.contiguous_format),
        lengthscale.new_empty(shape),
        lengthscale.new_empty(shape, dtype=torch.float64),
    )


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    _, lengthscale, variance, _ = inputs
    ctx.save_for_backward(lengthscale, variance, *output)
    ctx.mark_non_differentiable(output[2])
    ctx.set_materialize_grads(False)


def _first_derivatives(ctx: Any, grad_rates: Tensor | None, grad_tables: Tensor | None, _: Any) -> Any:
    """Second ones are refused by `dtmgp::line_backward`, from which ``grad_tables`` comes."""
    lengthscale, variance, rates, tables, slopes = ctx.saved_tensors
    by_scale = by_variance = None
    if grad_tables is None:
        grad_tables = torch.zeros_like(tables)
    if ctx.needs_input_grad[1]:
        by_rate = (grad_tables * slopes).flatten(1).sum(1)
        if grad_rates is not None:
            by_rate = by_rate + grad_rates
        by_scale = (-by_rate * rates / lengthscale).to(lengthscale.dtype)
    if ctx.needs_input_grad[2]:
        by_variance = ((grad_tables[0] * tables[0]).sum() / (2 * variance)).to(variance.dtype)
    return None, by_scale, by_variance, None


_line_tables.register_autograd(_first_derivatives, setup_context=_setup)


def rates_and_tables(
    gaps: Tensor, lengthscale: Tensor, variance: Tensor, order: int
) -> tuple[Tensor, Tensor]:
    """Rates and tables of Matern-(order + 1/2) kernels, in the dtype of the lengthscales (J,)."""
    rates, tables, _ = _line_tables(gaps, lengthscale, variance, order)
    return rates, tables
