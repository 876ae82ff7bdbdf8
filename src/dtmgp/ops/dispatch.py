"""Which way a contraction is computed: a cost model measured by ``benchmarks/fused_dispatch.py``."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from dtmgp.ops.contraction import contract
from dtmgp.ops.dense import contract_dense
from dtmgp.ops.plan import Plan
from dtmgp.ops.quadratic.operator import contract_quadratic

Path = Callable[..., tuple[Tensor, Tensor | None]]
LARGEST_DENSE = 1 << 28  # entries of the dense features (N, m) beyond which they are not formed


def costs(plan: Plan, width: int) -> dict[Path, float]:
    """Nanoseconds per input, forward and backward of mean and variance, one core, float32.

    Sparse: per active feature, and per 16 columns (rows far apart in memory cost more). Dense: per feature, and per
    multiplication. Quadratic: per function, and per column of the halves (at GEMM speed: k matters little up to 64).
    """
    chunks = math.ceil(width / 16)
    per_row = 6.5 if width in (4, 8) else 9.0 + chunks * (6.0 + 0.12 * chunks)
    found: dict[Path, float] = {
        contract: plan.active * per_row,
        contract_dense: plan.size * (13.0 + 0.165 * width),
    }
    if plan.quadratic is not None:
        paired, functions = plan.quadratic.paired, len(plan.quadratic.functions)
        found[contract_quadratic] = 28.0 * functions + 11.0 * paired * width
    return found


def path_for(plan: Plan, batch: int, width: int, device: torch.device | str = "cpu") -> Path:
    """The cheapest of `contract`, `contract_dense` and `contract_quadratic` for a batch of inputs.

    Off the CPU, where nothing has been measured, dense from density 1/4 on.
    """
    if batch * plan.size > LARGEST_DENSE:
        return contract
    if torch.device(device).type != "cpu":
        return contract_dense if 4 * plan.active >= plan.size else contract
    found = costs(plan, width)
    return min(found, key=partial(dict.__getitem__, found))


def contract_fast(
    plan: Plan, values: Tensor, positions: Tensor, mean: Tensor, variance: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """`contract` by whichever way is cheapest: the same numbers to rounding."""
    batch = math.prod(values.shape[:-2])
    return path_for(plan, batch, mean.shape[1], values.device)(plan, values, positions, mean, variance)
