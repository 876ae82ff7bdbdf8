"""Weight tables of millions of rows: a training step reads and writes the rows that its batch touches, no others.

The update is the natural-gradient step of ``scale * L + KL(q || prior)`` for Gaussian weights. In natural parameters
the KL term pulls every row geometrically to the prior, so that the steps a row has missed are one multiplication:
the lazy table equals the dense one exactly, up to rounding. Derivation in docs/fused.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dtmgp.errors import InputError
from dtmgp.ops.plan import Plan
from dtmgp.ops.sparse_rows import _jit

CHUNK = 1 << 18  # rows at a time where the whole table is visited


class Touched(NamedTuple):
    """The rows that a batch touches, and their weights as leaves of the autograd graph."""

    rows: Tensor  # (U,) int32, distinct, by first appearance
    slots: Tensor  # (..., T) int32: which of them is active; goes to ``contract`` in place of positions
    mean: Tensor  # (U, W)
    variance: Tensor  # (U, W)


def touched_rows(plan: Plan, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct rows (U,) of a batch of positions (..., d, L), and the number (..., T) of each active one among them.

    O(batch T) time and memory, whatever the size of the table.
    """
    lead = positions.shape[:-2]
    flat = positions.to(torch.int32).contiguous().numpy().reshape(-1)
    slots = plan.dim * plan.levels
    inputs = len(flat) // slots
    rows = np.empty(inputs * plan.active, np.int32)
    tree = plan.tree.numpy().reshape(-1)
    _jit.active_rows(flat, slots, tree, np.empty(plan.active, np.int32), rows)
    size = 1 << max(1, (2 * len(rows)).bit_length())
    keys, numbers = np.full(size, -1, np.int32), np.empty(size, np.int32)
    found = np.empty(len(rows), np.int32)
    count = _jit.distinct(rows, keys, numbers, found)
    return torch.from_numpy(found[:count].copy()), torch.from_numpy(rows).reshape(*lead, plan.active)


class NaturalTable:
    """Means and variances of ``size`` x ``width`` Gaussian weights, held as distance from the prior; starts there.

    Memory: 2W floats and one integer a row. ``touch`` fetches what a batch needs, ``step`` updates it; both cost
    O(batch T). Rates must lie in (0, 1). float32 unless told otherwise; lives on the CPU.

    >>> table = NaturalTable(3, 1, prior_std=2.0)
    >>> table.means_and_variances()[1].T
    tensor([[4., 4., 4.]])
    """

    def __init__(
        self,
        size: int,
        width: int,
        *,
        prior_mean: float = 0.0,
        prior_std: float = 1.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if not prior_std > 0 or not math.isfinite(prior_std) or not math.isfinite(prior_mean):
            raise InputError("prior", got=f"mean {prior_mean}, std {prior_std}", expected="finite, std > 0")
        self.size, self.width, self.dtype = size, width, dtype
        self.prior_mean, self.prior_precision = float(prior_mean), prior_std**-2.0
        kind = torch.empty(0, dtype=dtype).numpy().dtype
        # written once here: no page of a large table is first touched within a step
        self._excess = np.empty(size * 2 * width, kind)
        self._excess.fill(0)
        self._last = np.empty(size, np.int32)
        self._last.fill(0)
        self._clock = np.zeros(1024)
        self.steps = 0

    def __repr__(self) -> str:
        bytes_ = self._excess.nbytes + self._last.nbytes
        return f"NaturalTable(m={self.size:,}, W={self.width}, {bytes_ / 2**20:,.1f} MiB, step {self.steps})"

    def fetch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances (U, W) of some rows as of now."""
        mean, variance = (torch.empty(len(rows), self.width, dtype=self.dtype) for _ in range(2))
        _jit.fetch(
            self._excess,
            self._last,
            rows.to(torch.int32).numpy(),
            self.steps,
            self._clock,
            self.prior_precision,
            self.prior_mean,
            mean.numpy(),
            variance.numpy(),
        )
        return mean, variance

    def touch(self, plan: Plan, positions: Tensor) -> Touched:
        """What ``contract`` needs for a batch; gradients arrive in ``mean.grad`` and ``variance.grad``."""
        if plan.size != self.size:
            raise InputError("NaturalTable.touch", got=f"{plan!r}", expected=f"a plan with m={self.size:,}")
        rows, slots = touched_rows(plan, positions)
        mean, variance = self.fetch(rows)
        return Touched(rows, slots, mean.requires_grad_(), variance.requires_grad_())

    def step(self, touched: Touched, rate: float, scale: float = 1.0) -> None:
        """One step on ``scale * L + KL`` from the gradients of ``L``: exact for all rows, visits the touched ones.

        ``scale`` is the number of data over that of the batch if L is the batch's summed loss.
        """
        if not 0 < rate < 1:
            raise InputError("rate", got=repr(rate), expected="a number between 0 and 1, both excluded")
        nothing = torch.zeros_like(touched.mean)
        grads = [nothing if w.grad is None else w.grad.contiguous() for w in (touched.mean, touched.variance)]
        _jit.update(
            self._excess,
            self._last,
            touched.rows.numpy(),
            self.steps,
            self._clock,
            rate,
            scale,
            self.prior_mean,
            touched.mean.detach().numpy(),
            grads[0].numpy(),
            grads[1].numpy(),
        )
        if self.steps + 1 == len(self._clock):
            self._clock = np.concatenate([self._clock, np.zeros_like(self._clock)])
        self._clock[self.steps + 1] = self._clock[self.steps] + math.log1p(-rate)
        self.steps += 1

    def kl_rows(self, mean: Tensor, variance: Tensor) -> Tensor:
        """``KL(q || prior)`` summed over the given weights; differentiable."""
        ratio = variance * self.prior_precision
        distance = (mean - self.prior_mean).square() * self.prior_precision
        return 0.5 * (ratio + distance - 1.0 - torch.log(ratio)).sum()

    def kl(self) -> float:
        """``KL(q || prior)`` of the whole table: visits every row."""
        total = 0.0
        for start in range(0, self.size, CHUNK):
            rows = torch.arange(start, min(start + CHUNK, self.size), dtype=torch.int32)
            total += float(self.kl_rows(*(part.double() for part in self.fetch(rows))))
        return total

    def means_and_variances(self) -> tuple[Tensor, Tensor]:
        """The whole table, (m, W) each."""
        return self.fetch(torch.arange(self.size, dtype=torch.int32))
