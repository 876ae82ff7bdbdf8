"""The interface check of grids."""

from __future__ import annotations

import itertools

import numpy as np

from dtmgp.grids import AbstractGrid, SparseGrid
from dtmgp.testing._require import require

MOST_POINTS = 100_000


def check_grid(grid: AbstractGrid) -> None:
    """Check a grid against plain enumeration: sizes, order, lowerness, position maps, prefixes of sparse grids.

    The grid is listed, so it should have at most 100,000 points.
    """
    require(grid.size <= MOST_POINTS, f"check a smaller grid: {grid.size:,} points, {MOST_POINTS:,} at most")
    indices = grid.multi_indices
    require(indices.shape == (grid.active_per_input, grid.dim), "multi_indices should be (T, d)")
    require(np.issubdtype(indices.dtype, np.integer) and indices.min() >= 1, "levels are integers from 1")
    members = list(map(tuple, indices.tolist()))
    require(
        members == sorted(members, key=lambda index: (sum(index), index)), "order: by |l|, then lexicographic"
    )
    _check_lower(members)
    require((indices.max(axis=0) == grid.max_levels).all(), "max_levels should be those of multi_indices")
    _check_totals(grid, members)

    points = grid.points
    require(points.shape == (grid.size, grid.dim), f"points should be (m, d), not {points.shape}")
    require(points.dtype == np.float64 and np.isfinite(points).all(), "points should be finite float64")
    require(len(np.unique(points, axis=0)) == grid.size, "points should differ")
    lines = {level: grid.sequence.increment(level).tolist() for level in range(1, int(indices.max()) + 1)}
    expected = [point for index in members for point in itertools.product(*(lines[level] for level in index))]
    require(
        np.array_equal(points, np.array(expected)),
        "points, multi-index by multi-index, last coordinate fastest",
    )
    _check_positions(grid, points)
    if isinstance(grid, SparseGrid) and grid.level > 1:
        smaller = SparseGrid(grid.dim, grid.level - 1, sequence=grid.sequence)
        require(
            np.array_equal(points[: smaller.size], smaller.points), "level n should be a prefix of level n+1"
        )


def _check_lower(members: list[tuple[int, ...]]) -> None:
    known = set(members)
    require(len(known) == len(members), "every multi-index once")
    for index in members:
        for j, level in enumerate(index):
            if level > 1:
                below = (*index[:j], level - 1, *index[j + 1 :])
                require(below in known, f"a lower set holds {below} if it holds {index}")


def _check_totals(grid: AbstractGrid, members: list[tuple[int, ...]]) -> None:
    counts = [[grid.sequence.count(level) for level in range(1, int(top) + 1)] for top in grid.max_levels]
    random = np.random.default_rng(0)
    weights = [[int(w) for w in random.integers(1, 9, size=int(top))] for top in grid.max_levels]
    ones = [[1] * int(top) for top in grid.max_levels]
    for name, table, formula in (
        ("size", counts, grid.size),
        ("active_per_input", ones, grid.active_per_input),
        ("weighted_total", weights, grid.weighted_total(weights)),
    ):
        listed = 0
        for index in members:
            product = 1
            for j, level in enumerate(index):
                product *= table[j][level - 1]
            listed += product
        require(formula == listed, f"{name}: the formula says {formula}, enumeration {listed}")


def _check_positions(grid: AbstractGrid, points: np.ndarray) -> None:
    every = np.arange(grid.size)
    block, local = grid.addresses(every)
    require(np.array_equal(grid.positions(block, local), every), "positions(addresses(i)) should be i")
    some = np.random.default_rng(0).permutation(every)[:50]
    require(np.array_equal(grid.points_at(some), points[some]), "points_at should pick rows of points")
    require(np.array_equal(grid.positions_of(points), every), "positions_of(points) should be 0..m-1")
    require(
        np.array_equal(grid.positions_of(points[some]), some), "positions_of should not need the whole grid"
    )
    off = points.copy()
    off[:, -1] = np.nextafter(off[:, -1], 2.0)
    require((grid.positions_of(off) == -1).all(), "positions_of should be -1 beside the grid")
