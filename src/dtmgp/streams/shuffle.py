"""Inputs in random order from a bounded buffer: a lane reads its row groups, mixes, and hands out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dtmgp.errors import InputError
from dtmgp.streams.pieces import Piece, joined


class Lane:
    """Pieces in, inputs in random order out, ``buffer`` runs mixed at a time.

    The buffer is filled and put into random order; half of it is handed out, and the other half is mixed with what
    comes next. So a row travels at any distance forward, and each half of a buffer sees the next rows.
    """

    def __init__(self, pieces: Iterator[Piece], buffer: int, rng: np.random.Generator) -> None:
        self._pieces, self._buffer, self._rng = pieces, buffer, rng
        self._pool: Piece | None = None
        # has been read and waits, so that what is mixed does not depend on where pieces end
        self._rest: Piece | None = None
        self._order = np.empty(0, dtype=np.int64)
        self._next, self._last, self._done = 0, 0, False

    def take(self, count: int) -> list[Piece]:
        """The next inputs, as pieces."""
        found = []
        while count:
            if self._next == self._last:
                self._refill()
            assert self._pool is not None
            some = self._order[self._next : min(self._next + count, self._last)]
            found.append(self._pool.take(some))
            self._next += len(some)
            count -= len(some)
        return found

    def _refill(self) -> None:
        kept = self._order[self._last :]
        pieces = [self._pool.take(kept)] if self._pool is not None and len(kept) else []
        self._pool = None
        runs = sum(len(piece.y) for piece in pieces)
        while runs < self._buffer and not self._done:
            piece, self._rest = self._rest or next(self._pieces, None), None
            self._done = piece is None
            if piece is None or not len(piece.x):
                continue
            if len(piece.y) > self._buffer - runs:
                enough = int(np.searchsorted(np.cumsum(piece.counts), self._buffer - runs)) + 1
                piece, self._rest = piece.split(enough)
            pieces.append(piece)
            runs += len(piece.y)
        if not pieces:
            raise changed_data("fewer")
        self._pool = joined(pieces)
        inputs = len(self._pool.x)
        self._order = self._rng.permutation(inputs)
        self._next, self._last = 0, inputs if self._done else max(1, inputs // 2)

    def finish(self) -> None:
        """After the last inputs: there must be no others."""
        left = self._next < len(self._order) or (self._rest is not None and len(self._rest.x))
        if left or any(len(piece.x) for piece in self._pieces):
            raise changed_data("more")


def changed_data(what: str) -> InputError:
    """For rows that are not what the survey has seen."""
    return InputError(
        "rows",
        got=f"{what} rows than in the pass before",
        expected="the same rows in every pass",
        cause="files that were written meanwhile, or a function of batches that returns a used iterator",
        do="begin again when the data are complete",
    )
