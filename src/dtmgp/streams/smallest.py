"""Random samples of bounded size that do not depend on the order of reading: the rows with the smallest hashes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int, UInt64

from dtmgp.streams.hashing import ROW_BITS, row_hash
from dtmgp.streams.pieces import Piece, joined

Array = np.ndarray
NONE = np.uint64(0)


class Smallest:
    """The inputs with the smallest hashes of their first row, as long as they have at most ``runs`` runs in all.

    At least one input is kept unless ``runs`` is 0. Every input has the same chance, whatever has been read before it.
    """

    def __init__(self, runs: int, seed: int, purpose: int) -> None:
        self.runs, self.seed, self.purpose = runs, seed, purpose
        self._limit = np.uint64(2**64 - 1)  # what is above it is not among them
        self._pieces: list[Piece] = []
        self._held = 0

    def add(self, piece: Piece) -> None:
        """See more rows."""
        found = row_hash(piece.key[piece.first], self.seed, self.purpose)
        chosen = np.flatnonzero(found <= self._limit)
        if not len(chosen) or not self.runs:
            return
        self._pieces.append(piece if len(chosen) == len(found) else piece.take(chosen))
        self._held += len(self._pieces[-1].y)
        if self._held > 2 * self.runs:
            self._trim()

    def _trim(self, inputs: int | None = None) -> None:
        piece = joined(self._pieces)
        found = row_hash(piece.key[piece.first], self.seed, self.purpose)
        order = np.argsort(found)
        fit = int(np.searchsorted(np.cumsum(piece.counts[order]), self.runs, side="right"))
        kept = order[: max(1, fit) if inputs is None else min(max(1, fit), inputs)]
        self._limit = found[kept].max() if len(kept) else NONE
        self._pieces = [piece.take(np.sort(kept))]
        self._held = len(self._pieces[0].y)

    def result(self, inputs: int | None = None) -> tuple[Piece | None, np.uint64]:
        """These inputs, at most so many, in the order of reading; and the largest hash among them, 0 if none."""
        if not self._pieces or inputs == 0:
            return None, NONE
        self._trim(inputs)
        return self._pieces[0], self._limit


class DistinctInputs:
    """How many different inputs there are among the groups of adjacent equal rows: Bar-Yossef and others (2002).

    The ``size`` smallest hashes of inputs are kept, and how many groups each of them has.
    """

    def __init__(self, size: int = 4096) -> None:
        self.size = size
        self._hash = np.empty(0, dtype=np.uint64)
        self._groups = np.empty(0, dtype=np.int64)

    def add(self, found: UInt64[Array, " g"]) -> None:
        """See more groups, given by the hashes of their inputs."""
        full = len(self._hash) == self.size
        chosen = found[found <= self._hash[-1]] if full else found
        if not len(chosen):
            return
        everything = np.concatenate([self._hash, chosen])
        groups = np.concatenate([self._groups, np.ones(len(chosen), dtype=np.int64)])
        distinct, inverse = np.unique(everything, return_inverse=True)
        self._hash = distinct[: self.size]
        self._groups = np.bincount(inverse, weights=groups).astype(np.int64)[: self.size]

    @property
    def estimate(self) -> float:
        """Different inputs: exact if there are few."""
        if len(self._hash) < self.size:
            return float(len(self._hash))
        return (self.size - 1) * 2.0**64 / float(self._hash[-1])

    @property
    def groups_per_input(self) -> float:
        """1 if equal inputs are always adjacent."""
        return float(self._groups.mean()) if len(self._groups) else 1.0


def row_groups_of(keys: UInt64[Array, " n"]) -> Int[Array, " n"]:
    """The row groups that rows come from."""
    return (keys >> np.uint64(ROW_BITS)).astype(np.int64)
