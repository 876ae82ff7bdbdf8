"""Runs grouped by distinct input: hidden draws are made once per input and scored against all its replicates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dtmgp.errors import InputError


class Batch(NamedTuple):
    """``x`` (B, d) distinct inputs; ``y`` (M, W) runs; ``group`` (M,) the input of every run; ``total`` runs in all.

    ``weight`` is the batch's mean number of replicates over that of all inputs: with it, the mean over a random batch
    of inputs is an unbiased estimate of the mean over all runs. It is 1 for equal numbers.

    >>> Batch.of(torch.zeros(2, 1), torch.zeros(2, 1)).group
    tensor([0, 1])
    """

    x: Tensor
    y: Tensor
    group: Tensor
    total: int
    weight: float = 1.0

    @classmethod
    def of(cls, x: Tensor, y: Tensor, total: int | None = None) -> Batch:
        """One run per input, without grouping."""
        return cls(x, y, torch.arange(len(x), device=x.device), len(y) if total is None else total)


class Runs(NamedTuple):
    """All runs, sorted by distinct input: runs ``start[i]`` to ``start[i+1]`` belong to input i."""

    x: Tensor
    y: Tensor
    start: Tensor

    @classmethod
    def group(cls, x: np.ndarray, y: np.ndarray, dtype: torch.dtype = torch.float32) -> Runs:
        """Group equal rows of x (n, d); y (n, W). Inputs keep the order of their first appearance."""
        if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or not len(x):
            raise InputError(
                "runs", got=f"shapes {x.shape} and {y.shape}", expected="(n, d) and (n, W), n > 0"
            )
        distinct, first, inverse = np.unique(x, axis=0, return_index=True, return_inverse=True)
        appearance = np.argsort(first, kind="stable")
        rank = np.empty_like(appearance)
        rank[appearance] = np.arange(len(appearance))
        number = rank[inverse.reshape(-1)]
        order = np.argsort(number, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=len(distinct)))])
        return cls(
            torch.as_tensor(distinct[appearance], dtype=dtype),
            torch.as_tensor(y[order], dtype=dtype),
            torch.as_tensor(start),
        )

    def __repr__(self) -> str:
        return (
            f"Runs({len(self.y):,} runs of {len(self.x):,} inputs, d={self.x.shape[1]}, W={self.y.shape[1]})"
        )

    @property
    def counts(self) -> Tensor:
        """Replicates per input."""
        return self.start.diff()

    def take(self, inputs: Tensor) -> Runs:
        """The runs of some inputs, in the order asked."""
        batch = self.batch(inputs)
        start = torch.cat([self.start[:1] * 0, self.counts[inputs].cumsum(0)])
        return Runs(batch.x, batch.y, start)

    def batch(self, inputs: Tensor, total: int | None = None) -> Batch:
        """A minibatch of distinct inputs with all their runs; ``total`` is the number of runs it stands for."""
        counts = self.counts[inputs]
        group = torch.repeat_interleave(torch.arange(len(inputs), device=inputs.device), counts)
        ends = counts.cumsum(0)
        place = torch.arange(len(group), device=inputs.device) - (ends - counts)[group]
        rows = self.start[:-1][inputs][group] + place
        if total is not None:
            return Batch(self.x[inputs], self.y[rows], group, total)
        weight = len(group) * len(self.x) / max(1, len(inputs) * len(self.y))
        return Batch(self.x[inputs], self.y[rows], group, len(self.y), weight)

    def batches(self, size: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """One pass over all inputs in a new random order, in batches of nearly equal size."""
        device = None if generator is None else generator.device
        order = torch.randperm(len(self.x), generator=generator, device=device)
        for part in order.tensor_split(max(1, -(-len(order) // size))):
            yield self.batch(part.to(self.x.device))
