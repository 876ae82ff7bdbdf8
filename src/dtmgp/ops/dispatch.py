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


def costs(plan: Plan, width: int, batch: int) -> dict[Path, float]:
    """Nanoseconds per input, forward and backward of mean and variance, one core, float32.

    Sparse: per active feature and column, more where weights and gradients do not fit the cache. Dense: per feature
    and multiplication. Quadratic: per function, per column of the halves (k each), and per weight of a pair, which
    is moved to and from the matrices once a call. A call costs the rest.
    """
    mebibytes = plan.size * width * 16 / 2**20
    per_column = 0.45 * (1 + min(mebibytes / 4, 6.0))
    per_row = 8.0 if width in (4, 8) else max(14.0 if width < 8 else 11.0, 4.0 + per_column * width)
    found: dict[Path, float] = {
        contract: 2.5e5 / batch + plan.active * per_row,
        contract_dense: 3e5 / batch + plan.size * (11.0 + 0.1 * width) + 5.0 * plan.active,
    }
    if plan.quadratic is not None:
        paired, functions = plan.quadratic.paired, len(plan.quadratic.functions)
        call = 7e5 + 30.0 * len(plan.quadratic.pairs) * width
        columns = (5.0 + 0.12 * paired) * paired * width
        found[contract_quadratic] = call / batch + 18.0 * functions + columns
    return found


def path_for(plan: Plan, batch: int, width: int, device: torch.device | str = "cpu") -> Path:
    """The cheapest of `contract`, `contract_dense` and `contract_quadratic` for a batch of inputs.

    Off the CPU the quadratic form where there is one (a few matrix products), else dense from density 1/4 on.
    """
    too_large = batch * plan.size > LARGEST_DENSE
    if torch.device(device).type != "cpu":
        if plan.quadratic is not None:
            return contract_quadratic
        return contract_dense if 4 * plan.active >= plan.size and not too_large else contract
    found = costs(plan, width, max(batch, 1))
    if too_large:
        del found[contract_dense]
    return min(found, key=partial(dict.__getitem__, found))


def contract_fast(
    plan: Plan, values: Tensor, positions: Tensor, mean: Tensor, variance: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """`contract` by whichever way is cheapest: the same numbers to rounding."""
    batch = math.prod(values.shape[:-2])
    return path_for(plan, batch, mean.shape[1], values.device)(plan, values, positions, mean, variance)
