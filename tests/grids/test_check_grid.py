"""Oracles: grids broken on purpose in one way each, which the check must name; sound ones must pass."""

from __future__ import annotations

import numpy as np
import pytest

from dtmgp.grids import FullGrid, LowerSet, Nested, SparseGrid, paired_points
from dtmgp.testing import check_grid


@pytest.mark.parametrize(
    "grid",
    [
        SparseGrid(1, 1),
        SparseGrid(1, 12),
        SparseGrid(3, 5),
        SparseGrid(20, 3),
        SparseGrid(70, 2),
        FullGrid([2, 3, 1]),
        FullGrid([5]),
        LowerSet([(1, 1), (1, 2), (2, 1), (1, 3)]),
        LowerSet.anisotropic([0.5, 1.0, 2.0], 3.0),
        SparseGrid(2, 10, sequence=paired_points()),
        FullGrid([3, 4], sequence=Nested([[0.5], [0.0, 1.0], [0.2, 0.7], [0.1, 0.3, 0.6, 0.9]])),
    ],
    ids=repr,
)
def test_grids(grid):
    check_grid(grid)


def test_points_come_in_chunks(monkeypatch):
    monkeypatch.setattr("dtmgp.grids.grid.POINTS_CHUNK", 7)
    check_grid(SparseGrid(3, 4))


class WrongSize(SparseGrid):
    size = 18


class WrongActive(SparseGrid):
    active_per_input = 7


class Reordered(SparseGrid):
    @property
    def points(self):
        return super().points[[0, 2, 1, *range(3, 17)]]


class OffGrid(SparseGrid):
    @property
    def points(self):
        return super().points + 1e-9


class NearIsOn(SparseGrid):
    def positions_of(self, points):
        return super().positions_of(np.round(points, 6))


class WrongTotal(SparseGrid):
    def weighted_total(self, weights):
        return super().weighted_total([[1] * 3, *weights[1:]])


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (WrongSize, "size: the formula says 18"),
        (WrongActive, "multi_indices should be \\(T, d\\)"),
        (Reordered, "last coordinate fastest"),
        (OffGrid, "last coordinate fastest"),
        (NearIsOn, "-1 beside the grid"),
        (WrongTotal, "size: the formula|weighted_total"),
    ],
)
def test_a_broken_grid_is_named(broken, words):
    check_grid(SparseGrid(2, 3))
    with pytest.raises(AssertionError, match=words):
        check_grid(broken(2, 3))


def test_large_grids_are_refused():
    with pytest.raises(AssertionError, match="smaller grid"):
        check_grid(SparseGrid(3, 16))
