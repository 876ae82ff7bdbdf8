"""Runs of consecutive equal inputs as one piece of arrays, and the grouping of blocks as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt64

from dtmgp.streams.base import Block
from dtmgp.streams.hashing import row_keys

Array = np.ndarray
MOST_RUNS = 4096  # of one input in one group: what is longer is cut, so that memory stays bounded


class Piece(NamedTuple):
    """Inputs x (g, d) with ``counts`` runs each, all runs y (n, W) in the order of their inputs, and their keys.

    ``key`` (n,) numbers the rows of the source; an input is known by the key of its first run.
    """

    x: Float[Array, "g d"]
    y: Float[Array, "n W"]
    counts: Int[Array, " g"]
    key: UInt64[Array, " n"]

    @property
    def first(self) -> Int[Array, " g"]:
        """Where the runs of every input begin."""
        return np.cumsum(self.counts) - self.counts

    def take(self, inputs: Int[Array, " k"]) -> Piece:
        """Some inputs with all their runs, in the order asked."""
        if len(self.x) == len(self.y):
            return Piece(self.x[inputs], self.y[inputs], self.counts[inputs], self.key[inputs])
        count = self.counts[inputs]
        place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        rows = np.repeat(self.first[inputs], count) + place
        return Piece(self.x[inputs], self.y[rows], count, self.key[rows])

    def split(self, inputs: int) -> tuple[Piece, Piece]:
        """The first inputs, and the others."""
        rows = int(self.counts[:inputs].sum())
        head = Piece(self.x[:inputs], self.y[:rows], self.counts[:inputs], self.key[:rows])
        return head, Piece(self.x[inputs:], self.y[rows:], self.counts[inputs:], self.key[rows:])

    def thinned(self, most: int) -> Piece:
        """All inputs with their first runs, at most so many."""
        if not len(self.counts) or self.counts.max() <= most:
            return self
        rows = np.arange(len(self.y)) - np.repeat(self.first, self.counts) < most
        return Piece(self.x, self.y[rows], np.minimum(self.counts, most), self.key[rows])

    @property
    def every(self) -> Float[Array, "n d"]:
        """The input of every run."""
        return np.repeat(self.x, self.counts, axis=0)


def joined(pieces: Sequence[Piece]) -> Piece:
    """One piece after the other."""
    if len(pieces) == 1:
        return pieces[0]
    return Piece(*(np.concatenate(parts) for parts in zip(*pieces)))


def grouped(blocks: Iterable[Block], row_group: int) -> Iterator[Piece]:
    """Blocks of a row group as pieces: adjacent rows with equal inputs are runs of one input.

    A group that goes on in the next block is kept back; one of more than 4096 runs is cut into such parts, wherever
    the blocks end.
    """
    kept: Block | None = None
    for part in blocks:
        if not len(part.x):
            continue
        block = part
        if kept is not None and (kept.x[0] == part.x[0]).all():
            x, y, row = (np.concatenate(pair) for pair in zip(kept[:3], part[:3]))
            block = Block(x, y, row, part.where, part.base)
        elif kept is not None:
            yield _piece(kept, np.zeros(1, dtype=np.int64), len(kept.x), row_group)
        first = _starts(block.x)
        last = int(first[-1])
        if last:
            yield _piece(block, first[:-1], last, row_group)
        kept = block._replace(x=block.x[last:], y=block.y[last:], row=block.row[last:])
    if kept is not None:
        yield _piece(kept, np.zeros(1, dtype=np.int64), len(kept.x), row_group)


def _starts(x: Float[Array, "n d"]) -> Int[Array, " g"]:
    new = np.empty(len(x), dtype=bool)
    new[0] = True
    np.any(x[1:] != x[:-1], axis=1, out=new[1:])
    first = np.flatnonzero(new)
    if len(first) == len(x):
        return first
    count = np.diff(first, append=len(x))
    if count.max() <= MOST_RUNS:
        return first
    place = np.arange(len(x)) - np.repeat(first, count)
    return np.flatnonzero(place % MOST_RUNS == 0)


def _piece(block: Block, first: Int[Array, " g"], end: int, row_group: int) -> Piece:
    x = block.x[:end] if len(first) == end else block.x[first]
    return Piece(x, block.y[:end], np.diff(first, append=end), row_keys(row_group, block.row[:end]))
