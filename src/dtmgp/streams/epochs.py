"""A row source as what a training loop reads: global batches in random order, in parts for several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Float, Int, UInt64
from torch import Tensor

from dtmgp.errors import InputError
from dtmgp.inference.data import Batch, Runs, part_of
from dtmgp.streams.base import AbstractRows
from dtmgp.streams.pieces import Piece, grouped, joined
from dtmgp.streams.prefetch import prefetched
from dtmgp.streams.shuffle import Lane, changed_data
from dtmgp.streams.survey import Survey

Array = np.ndarray
Scale = Callable[[Float[Array, "g d"]], Float[Array, "g d"]]
Outputs = Callable[[Float[Array, "n W"], UInt64[Array, " n"]], Float[Array, "n W"]]


class RunStream:
    """A `dtmgp.inference.RunSource` over all rows of a source that are not held out.

    ``scale`` maps inputs to the unit cube, ``outputs`` changes outputs given the keys of their rows. An epoch reads
    the row groups in a new random order, dealt to the lanes; every lane mixes its rows in a buffer, and gives the same
    part of its inputs to every global batch. What the global batches are depends on the generator, not on the number
    of processes.
    """

    def __init__(
        self,
        rows: AbstractRows,
        found: Survey,
        scale: Scale,
        outputs: Outputs | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.rows, self.found, self._scale, self._outputs = rows, found, scale, outputs
        self.dtype, self.device = dtype, torch.device(device)
        self._kind = np.dtype(str(dtype).removeprefix("torch."))
        self._counts = found.learn_inputs
        self._used = np.flatnonzero(self._counts)  # a row group may be empty, or held out as a whole
        self.lanes = rows.streaming.lanes_of(len(self._used)) if len(self._used) else 1
        self._spare = self._ready(found.start.take(np.zeros(1, dtype=np.int64)))

    def __repr__(self) -> str:
        return f"RunStream({self.total:,} runs of {self.inputs:,} inputs, {self.lanes} lanes)"

    @property
    def inputs(self) -> int:
        """Groups of adjacent equal inputs that are learned from."""
        return int(self._counts.sum())

    @property
    def total(self) -> int:
        """Runs that are learned from."""
        return int(self.found.learn_rows.sum())

    def steps(self, size: int) -> int:
        """Global batches of an epoch."""
        return max(1, -(-self.inputs // size))

    def fingerprint(self) -> tuple[np.ndarray | bytes, ...]:
        """A checksum of all rows, and what decides about their order."""
        own = self.rows.streaming
        text = f"{self.found.checksum} {self.found.seed} {self.found.limit} {own.buffer} {self.lanes}"
        return (text.encode(), self.found.group_inputs, self.found.group_rows)

    def group_of(self, piece: Piece) -> Runs:
        """All runs of a piece in memory, with equal inputs grouped wherever they are."""
        ready = self._ready(piece)
        return Runs.group(ready.every, ready.y, dtype=self.dtype)

    def batches(
        self, size: int, generator: torch.Generator | None = None, share: tuple[int, int] = (0, 1)
    ) -> Iterator[Batch]:
        """One pass; see `RunSource`. The generator gives one number, at the start."""
        rank, world = share
        if not 0 <= rank < world:
            raise InputError("share", got=repr(share), expected="(rank, world) with 0 <= rank < world")
        device = None if generator is None else generator.device
        seed = int(torch.randint(2**62, (), generator=generator, device=device))
        with prefetched(self._parts(size, seed, share), self.rows.streaming.ahead) as ready:
            for batch in ready:
                yield batch._replace(
                    **{name: getattr(batch, name).to(self.device) for name in ("x", "y", "group")}
                )

    def _deal(self, seed: int) -> list[Int[Array, " k"]]:
        """Row groups of every lane: in random order, each to the lane with the fewest inputs so far."""
        order = np.random.default_rng([seed, 0]).permutation(self._used)
        lanes: list[list[int]] = [[] for _ in range(self.lanes)]
        held = np.zeros(self.lanes, dtype=np.int64)
        for row_group in order:
            lane = int(held.argmin())
            lanes[lane].append(int(row_group))
            held[lane] += self._counts[row_group]
        return [np.array(lane, dtype=np.int64) for lane in lanes]

    def _parts(self, size: int, seed: int, share: tuple[int, int]) -> Iterator[Batch]:
        """The batches of one process."""
        rank, world = share
        dealt = self._deal(seed)
        steps = self.steps(size)
        # inputs that lane l has given after k batches; lanes take turns at rounding up
        turn = np.arange(self.lanes) * steps // self.lanes
        sizes = np.array([self._counts[lane].sum() for lane in dealt])
        ends = (sizes[:, None] * np.arange(steps + 1) + turn[:, None]) // steps
        own = self.lanes // world if self.lanes % world == 0 else 0
        mine = range(rank * own, (rank + 1) * own) if own else range(self.lanes)
        buffer = max(2, self.rows.streaming.buffer // self.lanes)
        lanes = [Lane(self._pieces(dealt[k]), buffer, np.random.default_rng([seed, 1, k])) for k in mine]
        for step in range(steps):
            counts = ends[:, step + 1] - ends[:, step]
            pieces = [piece for k, lane in zip(mine, lanes) for piece in lane.take(int(counts[k]))]
            whole = int(counts.sum())
            first = int(counts[: mine.start].sum())
            piece = joined(pieces) if pieces else None
            if not own and piece is not None:
                chosen, first = part_of(torch.arange(whole), share)
                piece = piece.take(chosen.numpy()) if len(chosen) else None
            yield self._batch(piece, first, whole, world)
        for lane in lanes:
            lane.finish()

    def _batch(self, piece: Piece | None, first: int, whole: int, world: int) -> Batch:
        used = self._spare if piece is None else piece
        weight = 0.0 if piece is None else len(used.y) * self.inputs * world / (whole * self.total)
        group = torch.repeat_interleave(torch.arange(len(used.x)), torch.from_numpy(used.counts))
        place = None if world == 1 else (first, whole)
        return Batch(_tensor(used.x), _tensor(used.y), group, self.total, weight, place)

    def _pieces(self, row_groups: Int[Array, " k"]) -> Iterator[Piece]:
        """Row groups one after the other, in the form of the training."""
        for number in row_groups:
            found = 0
            for piece in grouped(self.rows.blocks(int(number)), int(number)):
                ready = self._ready(self.found.learns(piece))
                found += len(ready.x)
                yield ready
            if found != self._counts[number]:
                raise changed_data("fewer" if found < self._counts[number] else "more")

    def _ready(self, piece: Piece) -> Piece:
        y = piece.y if self._outputs is None else self._outputs(piece.y, piece.key)
        return piece._replace(x=self._scale(piece.x).astype(self._kind), y=y.astype(self._kind))


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))
