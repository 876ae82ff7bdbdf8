"""The optimiser of a run: Adam; and for layers that keep their weights in a table, steps on the rows touched.

Adam visits every weight in every step. A layer of `dtmgp.layers.tables` takes the natural-gradient step of
docs/fused.md instead, whose cost is that of the batch and whose KL term is exact for every row. Its rate is
``TABLE_RATE`` an epoch, spread over the epoch's steps and multiplied by the learning rate over its maximum: a row of a
fine level sees an input an epoch or less, and its weight is an average over ``1 / TABLE_RATE`` epochs. With few steps
in an epoch it is at most ``2 / T``, below which steps on all data cannot overshoot. In the first
epoch only the variances of the tables learn (rates 1/2, 1/3, ..: their average over all data), and nothing else: the
features active at an input are many, all see the same residual, and only the precision of each says how much of it is
its own. Gradients of tables are not clipped; natural steps have the scale of the posterior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from dtmgp.errors import InputError
from dtmgp.inference.distributed import Processes
from dtmgp.inference.reduction import sum_rows
from dtmgp.layers.tables import TableWeights

TABLE_RATE = 1.0  # of an epoch; 3 diverges (measured, d = 3, level 8: docs/scale.md)
FASTEST = 2.0  # over the number T of active features: the rate of one step at most (docs/scale.md)


class WithTables(torch.optim.Optimizer):
    """An optimiser (Adam) for the parameters, and a step for every table.

    `prepare` has to be called before each step. Tables keep their state themselves: it is in the model's state.
    """

    def __init__(self, adam: torch.optim.Optimizer, tables: Sequence[TableWeights]) -> None:
        self.adam, self.tables = adam, list(tables)
        self.largest = float(adam.param_groups[0]["lr"])
        self.scale, self.steps = math.nan, 1

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """Those of Adam."""
        return self.adam.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """That of Adam."""
        return self.adam.state

    def prepare(self, total: int, kl_weight: float, steps: int) -> None:
        """Before a step: runs in all, the present weight of the KL term, steps per epoch."""
        if not kl_weight > 0:
            raise InputError(
                "objective",
                got=f"weight {kl_weight} of the KL term",
                expected="a positive one from the first step on, for layers in tables: their step is the posterior's",
                do="kl_weight > 0 and Settings(kl_warm_up=0)",
            )
        self.scale, self.steps = total / kl_weight, steps

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Adam's step and one of every table; of a table's variances alone while it is in its first epoch."""
        first = [int(table.steps_taken) < self.steps for table in self.tables]
        if not any(first):
            self.adam.step()
        relative = self.param_groups[0]["lr"] / self.largest
        for table, new in zip(self.tables, first):
            if new:
                rate = 1.0 / (int(table.steps_taken) + 2)
            else:
                rate = relative * min(TABLE_RATE / self.steps, FASTEST / (table.active + 2))
            table.step(rate, self.scale, variances_only=new)

    def exchange(self, processes: Processes) -> None:
        """Before a step of several processes: every table has the rows that any of them touches, gradients summed."""
        for table in self.tables:
            own = table.merge()
            if own is None:  # no forward pass through it
                rows = torch.empty(0, dtype=torch.long)
                grads = table.excess.new_empty(0, 2 * table.table.width)
            else:
                rows = own.rows.long()
                parts = [torch.zeros_like(w) if w.grad is None else w.grad for w in (own.mean, own.variance)]
                grads = torch.cat(parts, dim=1)
            union, total = sum_rows(processes, rows, grads)
            table.replace(union, *(part.contiguous() for part in total.chunk(2, dim=1)))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Of parameters, and what forward passes have asked of tables."""
        self.adam.zero_grad(set_to_none=set_to_none)
        for table in self.tables:
            table.forget()

    def state_dict(self) -> dict[str, Any]:
        """Adam's."""
        return self.adam.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Adam's."""
        self.adam.load_state_dict(state_dict)


def tables_of(model: nn.Module) -> list[TableWeights]:
    """The tables of a model's layers."""
    return [module for module in model.modules() if isinstance(module, TableWeights)]


def with_table_steps(optimiser: torch.optim.Optimizer, model: nn.Module) -> torch.optim.Optimizer:
    """The optimiser, and steps for the model's tables if there are any."""
    tables = tables_of(model)
    return WithTables(optimiser, tables) if tables else optimiser
