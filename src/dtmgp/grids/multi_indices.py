"""Lower sets of multi-indices as arrays: order, membership, parents, frontier. No grid points here.

The required order is by ``|l|_1``, then lexicographic; a set is *lower* if with ``l`` it holds every ``l' <= l``.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property

import numpy as np
import numpy.typing as npt
from jaxtyping import Int

from dtmgp.errors import InputError

Array = np.ndarray
ENUMERATION_LIMIT = 20_000_000  # entries T*d beyond which a set is not listed


def sorted_order(levels: Int[Array, "T d"]) -> Int[Array, " T"]:
    """Permutation into the required order."""
    return np.lexsort((*levels.T[::-1], levels.sum(axis=1)))


def total_degree(dim: int, level: int) -> Int[Array, "T d"]:
    """All ``l >= 1`` with ``|l|_1 <= level + dim - 1`` in the required order.

    Deviation from the paper: its Appendix A prints ``|l| <= l`` once; the size formula needs this set.
    """
    count = math.comb(level + dim - 1, dim)
    if count * dim > ENUMERATION_LIMIT:
        raise InputError(
            f"multi-indices of the sparse grid of dimension {dim}, level {level}",
            got=f"{count:,} multi-indices",
            expected=f"at most {ENUMERATION_LIMIT // dim:,} in {dim} dimensions",
            cause="the level is too high for this dimension (size and active_per_input need no list)",
            do="use a lower level, or an anisotropic LowerSet",
        )
    blocks = [np.ones((1, dim), dtype=np.int32)]
    for raised in range(1, level):
        steps = np.fromiter(
            itertools.chain.from_iterable(itertools.combinations_with_replacement(range(dim), raised)),
            dtype=np.int64,
            count=raised * math.comb(dim + raised - 1, raised),
        ).reshape(-1, raised)
        block = np.ones((len(steps), dim), dtype=np.int32)
        rows = np.arange(len(steps))
        for k in range(raised):
            block[rows, steps[:, k]] += 1
        blocks.append(block[::-1])  # combinations come in descending lexicographic order
    return np.concatenate(blocks)


class MultiIndices:
    """A lower set in the required order, with fast look-up of members.

    ``raised`` lists, per multi-index, the coordinates above level 1: all work on a set goes through these.

    >>> MultiIndices([[1, 1], [2, 1], [1, 2]]).levels
    array([[1, 1],
           [1, 2],
           [2, 1]], dtype=int32)
    """

    def __init__(self, levels: npt.ArrayLike, *, is_sorted: bool = False) -> None:
        table = np.asarray(levels)
        if table.ndim != 2 or not table.size or not np.issubdtype(table.dtype, np.integer) or table.min() < 1:
            raise InputError(
                "multi-indices",
                got=f"{table.dtype} array of shape {table.shape}"
                + (f", least {table.min()}" if table.size else ""),
                expected="a (T, d) array of integers, all at least 1",
                do="count levels from 1",
            )
        table = table.astype(np.int32)
        self.levels = table if is_sorted else table[sorted_order(table)]
        self.levels.flags.writeable = False
        self.max_levels = self.levels.max(axis=0)
        rows, self.raised_dim = np.nonzero(self.levels > 1)
        self.raised_level = self.levels[rows, self.raised_dim]
        self.raised_start = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(self.levels)))])
        if not is_sorted:
            self._check()

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.levels.shape[1]

    def _check(self) -> None:
        same = np.flatnonzero((np.diff(self.levels, axis=0) == 0).all(axis=1))
        if len(same):
            raise InputError(
                "multi-indices", got=f"{tuple(map(int, self.levels[same[0]]))} twice", expected="each once"
            )
        missing = self.missing()
        if len(missing):
            raise InputError(
                "multi-indices",
                got=f"a set without {tuple(map(int, missing[0]))}",
                expected="a lower set: with every multi-index all smaller ones",
                cause="the features are orthonormal only on lower sets",
                do="add it, or use LowerSet.closure(...)",
            )

    # -- look-up ----------------------------------------------------------------------------------------------
    @cached_property
    def _hash_weights(self) -> npt.NDArray[np.uint64]:
        rng = np.random.default_rng(20211205)
        weights = rng.integers(0, 2**64, size=(self.dim, int(self.max_levels.max()) + 1), dtype=np.uint64)
        weights[:, 1] = 0
        return weights

    def _key(self, levels: Int[Array, "q d"]) -> npt.NDArray[np.uint64]:
        keys = np.zeros(len(levels), dtype=np.uint64)
        for j in range(self.dim):
            keys += self._hash_weights[j, levels[:, j]]
        return keys

    @cached_property
    def _keys(self) -> tuple[npt.NDArray[np.uint64], Int[Array, " T"]]:
        weights = self._hash_weights[self.raised_dim, self.raised_level]
        running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weights, dtype=np.uint64)])
        keys = running[self.raised_start[1:]] - running[self.raised_start[:-1]]
        order = np.argsort(keys)
        if (np.diff(keys[order]) == 0).any():
            raise RuntimeError("64-bit key collision between multi-indices: please report this set")
        return keys[order], order

    def find(self, levels: Int[Array, "q d"]) -> Int[Array, " q"]:
        """Number of each multi-index within the set, -1 for those that are not members."""
        wanted = np.asarray(levels)
        inside = ((wanted >= 1) & (wanted <= self.max_levels)).all(axis=1)
        keys, order = self._keys
        found = order[
            np.minimum(np.searchsorted(keys, self._key(np.where(inside[:, None], wanted, 1))), len(keys) - 1)
        ]
        match = inside & (self.levels[found] == wanted).all(axis=1)
        return np.where(match, found, -1)

    @property
    def hash_tables(self) -> tuple[Array, Array, Array]:
        """Weights, sorted keys and their multi-index numbers, for compiled look-ups."""
        keys, order = self._keys
        return self._hash_weights, keys, order

    # -- structure --------------------------------------------------------------------------------------------
    def lowered(self) -> tuple[Int[Array, " r"], Int[Array, "r d"]]:
        """Every multi-index with each raised coordinate lowered by one: (number of the source, result)."""
        source = np.repeat(np.arange(len(self)), np.diff(self.raised_start))
        lower = self.levels[source].copy()
        lower[np.arange(len(lower)), self.raised_dim] -= 1
        return source, lower

    def missing(self) -> Int[Array, "q d"]:
        """Direct predecessors that are not members: empty for a lower set."""
        _, lower = self.lowered()
        return lower[self.find(lower) < 0]

    @cached_property
    def parents(self) -> Int[Array, " T"]:
        """The multi-index with the last raised coordinate set back to level 1; -1 for the root."""
        has_parent = np.diff(self.raised_start) > 0
        last = self.raised_start[1:][has_parent] - 1
        lower = self.levels[has_parent].copy()
        lower[np.arange(len(lower)), self.raised_dim[last]] = 1
        parents = np.full(len(self), -1, dtype=np.int64)
        parents[has_parent] = self.find(lower)
        return parents

    def frontier(self, of: Int[Array, " k"] | None = None) -> Int[Array, "q d"]:
        """Multi-indices outside the set whose direct predecessors are all inside, sorted.

        With ``of``, only forward neighbours of those members.
        """
        members = self.levels if of is None else self.levels[of]
        forward = np.repeat(members, self.dim, axis=0)
        forward[np.arange(len(forward)), np.tile(np.arange(self.dim), len(members))] += 1
        forward = np.unique(forward, axis=0)
        forward = forward[self.find(forward) < 0]
        admissible = np.ones(len(forward), dtype=bool)
        for j in range(self.dim):
            raised = np.flatnonzero(forward[:, j] > 1)
            lower = forward[raised].copy()
            lower[:, j] -= 1
            admissible[raised[self.find(lower) < 0]] = False
        forward = forward[admissible]
        return forward[sorted_order(forward)]


def closure(levels: npt.ArrayLike) -> Int[Array, "T d"]:
    """The smallest lower set that contains the given multi-indices."""
    table = np.unique(np.atleast_2d(np.asarray(levels)), axis=0)
    fresh = table
    while len(fresh):
        rows, columns = np.nonzero(fresh > 1)
        lower = fresh[rows].copy()
        lower[np.arange(len(lower)), columns] -= 1
        lower = np.unique(lower, axis=0) if len(lower) else lower
        before = len(table)
        combined, first = np.unique(np.concatenate([table, lower]), axis=0, return_index=True)
        fresh = combined[first >= before]
        table = combined
    return table
