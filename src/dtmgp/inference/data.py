"""Runs grouped by distinct input: hidden draws are made once per input and scored against all its replicates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from dtmgp.errors import InputError


class Batch(NamedTuple):
    """``x`` (B, d) distinct inputs; ``y`` (M, W) runs; ``group`` (M,) the input of every run; ``total`` runs in all.

    ``weight`` is the batch's mean number of replicates over that of all inputs: with it, the mean over a random batch
    of inputs is an unbiased estimate of the mean over all runs. It is 1 for equal numbers. ``place`` is the first of
    these inputs in the global batch and the number of inputs there; None if this is all of it. ``noise_seed`` makes
    the noise of its inputs in blocks, so that each process draws its own (`Settings.noise_in_blocks`).

    >>> Batch.of(torch.zeros(2, 1), torch.zeros(2, 1)).group
    tensor([0, 1])
    """

    x: Tensor
    y: Tensor
    group: Tensor
    total: int
    weight: float = 1.0
    place: tuple[int, int] | None = None
    noise_seed: int | None = None

    @classmethod
    def of(cls, x: Tensor, y: Tensor, total: int | None = None) -> Batch:
        """One run per input, without grouping."""
        return cls(x, y, torch.arange(len(x), device=x.device), len(y) if total is None else total)


class RunSource(Protocol):
    """What a training loop reads: runs in memory (`Runs`) or streamed from files (`dtmgp.streams`).

    An epoch is a sequence of global batches. Process ``rank`` of ``world`` takes its own part of each, which is never
    empty: where a global batch has too few inputs, a part is one input with weight 0. The mean over the processes of
    the parts' losses is the loss of the global batch, and what the global batches are does not depend on ``world``.
    """

    @property
    def inputs(self) -> int:
        """Distinct inputs of an epoch, or rows where replicates are not grouped."""
        ...

    @property
    def total(self) -> int:
        """Runs in all."""
        ...

    def steps(self, size: int) -> int:
        """Global batches of an epoch; the same in every process."""
        ...

    def batches(
        self, size: int, generator: torch.Generator | None = None, share: tuple[int, int] = (0, 1)
    ) -> Iterator[Batch]:
        """One pass in a new random order: every input once, in global batches of nearly ``size`` inputs.

        ``share`` is (rank, world). The generator is used when the first batch is asked for and not later, so that a
        pass can be repeated from the generator's state.
        """
        ...

    def fingerprint(self) -> tuple[np.ndarray | bytes, ...]:
        """What a checkpoint compares: it changes with the data."""
        ...


def part_of(inputs: Tensor, share: tuple[int, int]) -> tuple[Tensor, int]:
    """The part of a global batch that process ``rank`` of ``world`` takes, and where it begins; may be empty.

    >>> [part_of(torch.arange(5), (rank, 2))[0].tolist() for rank in (0, 1)]
    [[0, 1, 2], [3, 4]]
    """
    rank, world = share
    if not 0 <= rank < world:
        raise InputError("share", got=repr(share), expected="(rank, world) with 0 <= rank < world")
    parts = inputs.tensor_split(world)
    return parts[rank], sum(len(part) for part in parts[:rank])


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

    @property
    def inputs(self) -> int:
        """Distinct inputs."""
        return len(self.x)

    @property
    def total(self) -> int:
        """Runs in all."""
        return len(self.y)

    def fingerprint(self) -> tuple[np.ndarray, ...]:
        """The arrays."""
        return tuple(part.cpu().numpy() for part in self)

    def steps(self, size: int) -> int:
        """Batches of a pass."""
        return max(1, -(-len(self.x) // size))

    def batches(
        self, size: int, generator: torch.Generator | None = None, share: tuple[int, int] = (0, 1)
    ) -> Iterator[Batch]:
        """One pass over all inputs in a new random order, in batches of nearly equal size; see `RunSource`."""
        device = None if generator is None else generator.device
        order = torch.randperm(len(self.x), generator=generator, device=device)
        for inputs in order.tensor_split(self.steps(size)):
            yield self.shared(inputs.to(self.x.device), share)

    def shared(self, inputs: Tensor, share: tuple[int, int]) -> Batch:
        """The part of the global batch of these inputs that process ``rank`` of ``world`` takes."""
        if share == (0, 1):
            return self.batch(inputs)
        own, first = part_of(inputs, share)
        place = first, len(inputs)
        if not len(own):
            return self.batch(inputs[:1])._replace(weight=0.0, place=place)
        # batch() gives the mean over runs the weight (runs per input here) / (runs per input of all)
        batch = self.batch(own)
        return batch._replace(weight=batch.weight * share[1] * len(own) / len(inputs), place=place)
