"""What the contraction of one tensor block does, as integer tables: the tree of its multi-indices.

Multi-index t has its last raised coordinate j at level k; its parent has j set back to level 1. With v the values of
the one-dimensional functions (level 1 is ``v(i, 0)``) and j' the last raised coordinate of the parent

    P(t)     = P(parent) * prod_{j' < i < j} v(i, 0) * v(j, k)         product over coordinates up to j
    value(t) = P(t) * prod_{i > j} v(i, 0)
    local(t) = local(parent) * count(j, k) + i(j, k)                    row(t) = offset(t) + local(t)

There is no division, so level-1 values may be 0 or underflow. The products over ranges of coordinates ("intervals")
are shared by all multi-indices with the same (j', j); there are at most as many as multi-indices, up to gaps.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.expansion.block import TensorBlock
from dtmgp.grids import Layout
from dtmgp.kernels import Laplace, Matern32, Matern52
from dtmgp.ops.quadratic.tables import PairTables, pair_tables

PARENT, SLOT, COORDINATE, COUNT, OFFSET, INTERVAL = range(6)  # columns of ``tree``
PREVIOUS, FACTOR = range(2)  # columns of ``intervals``
POSITIVE = (Laplace, Matern32, Matern52)  # kernels whose level-1 function is positive everywhere
LARGEST = 2**31 - 1  # rows and local indices are 32-bit


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """Tables for ``dtmgp.ops.contraction``; immutable, shared by all layers on the same grid.

    ``tree`` (T, 6) int32: parent, j*L + k, j, count(j, k), offset, interval. ``intervals`` (E, 2) int32: the interval
    that is one coordinate shorter and that coordinate; entry 0 is the empty interval.

    >>> from dtmgp.expansion import HierarchicalExpansion
    >>> from dtmgp.grids import SparseGrid
    >>> from dtmgp.kernels import Laplace
    >>> plans_of(HierarchicalExpansion(Laplace(), SparseGrid(13, 3)))
    (Plan(dim=13, levels=3): m=391, T=105,)
    """

    tree: torch.Tensor
    intervals: torch.Tensor
    dim: int
    levels: int
    size: int
    coordinates: tuple[int, ...]
    start: int
    quadratic: PairTables | None = None  # if no three coordinates are raised at once and level 1 is positive

    def __repr__(self) -> str:
        return f"Plan(dim={self.dim}, levels={self.levels}): m={self.size:,}, T={self.active:,}"

    @property
    def active(self) -> int:
        """Number of active features ``T``."""
        return self.tree.shape[0]

    @property
    def rows(self) -> slice:
        """The block's rows in the weight table of the whole expansion."""
        return slice(self.start, self.start + self.size)


def depths(tree: np.ndarray) -> np.ndarray:
    """Number of raised coordinates of every multi-index."""
    parents = tree[:, PARENT]
    depth = np.zeros(len(tree), dtype=np.int64)
    found = np.flatnonzero(parents >= 0)
    while len(found):
        before = depth[found].copy()
        depth[found] = depth[parents[found]] + 1
        found = found[depth[found] != before]
    return depth


def block_plan(block: TensorBlock, start: int = 0) -> Plan:
    """The plan of one block whose first row in the weight table is ``start``."""
    layout: Layout = block.layout
    indices = layout.indices
    if layout.size > LARGEST:
        raise InputError(
            "weight table",
            got=f"{layout.size:,} rows",
            expected=f"at most {LARGEST:,}",
            do="use a lower level, or fewer coordinates",
        )
    dim, levels = layout.counts.shape[0], layout.counts.shape[1] - 1
    parents = indices.parents
    last = np.maximum(indices.raised_start[1:] - 1, 0)
    has_parent = parents >= 0
    coordinate = np.full(len(parents), -1, dtype=np.int64)
    level = np.ones(len(parents), dtype=np.int64)
    coordinate[has_parent] = indices.raised_dim[last[has_parent]]
    level[has_parent] = indices.raised_level[last[has_parent]]
    before = np.where(
        has_parent, coordinate[parents], -1
    )  # last raised coordinate of the parent, -1 for the root

    intervals = [(-1, -1)]
    number = np.zeros(len(parents), dtype=np.int64)
    for first in np.unique(before[has_parent]).tolist():
        members = np.flatnonzero(has_parent & (before == first))
        reach = int(coordinate[members].max())
        base = len(intervals) - 1  # the interval (first, first + 1) is empty: entry 0
        intervals += [(base + step if step else 0, first + 1 + step) for step in range(reach - first - 1)]
        length = coordinate[members] - first - 1
        number[members] = np.where(length > 0, base + length, 0)
    tree = np.stack(
        [
            parents,
            np.where(has_parent, coordinate * levels + level - 1, 0),
            coordinate,
            np.where(has_parent, layout.counts[coordinate, level], 1),
            layout.offset[:-1],
            number,
        ],
        axis=1,
    )
    table = tree.astype(np.int32)
    return Plan(
        tree=torch.from_numpy(table),
        intervals=torch.tensor(intervals, dtype=torch.int32),
        dim=dim,
        levels=levels,
        size=layout.size,
        coordinates=block.coordinates,
        start=start,
        quadratic=pair_tables(table, depths(table), levels)
        if all(isinstance(k, POSITIVE) for k in block.kernel.kernels)
        else None,
    )


def plans_of(expansion: HierarchicalExpansion) -> tuple[Plan, ...]:
    """One plan per term of the kernel, with consecutive rows of one weight table."""
    plans: list[Plan] = []
    start = 0
    for block in expansion.blocks:
        plans.append(block_plan(block, start))
        start += block.size
    return tuple(plans)
