"""Oracle: sets of tuples and nested loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtmgp.errors import InputError
from dtmgp.grids import FullGrid, LowerSet, MultiIndices, SparseGrid
from dtmgp.testing import check_grid


def below(index):
    return itertools.product(*(range(1, level + 1) for level in index))


def ordered(members):
    return sorted(members, key=lambda index: (sum(index), index))


def rows(grid):
    return list(map(tuple, grid.multi_indices.tolist()))


indices = st.integers(1, 4).flatmap(
    lambda dim: st.lists(st.tuples(*[st.integers(1, 4)] * dim), min_size=1, max_size=4)
)


@given(indices)
def test_closure_and_frontier(members):
    expected = {small for index in members for small in below(index)}
    grid = LowerSet.closure(members)
    assert rows(grid) == ordered(expected)
    dim = len(members[0])
    forward = {(*i[:j], i[j] + 1, *i[j + 1 :]) for i in expected for j in range(dim)} - expected
    admissible = [i for i in forward if all(small in expected or small == i for small in below(i))]
    assert list(map(tuple, grid.frontier.tolist())) == ordered(admissible)
    assert set(rows(grid.refine())) == expected | set(admissible)
    check_grid(grid.refine())


@given(indices)
def test_sets_are_taken_exactly_if_they_are_lower(members):
    unique = set(members)
    missing = {small for index in unique for small in below(index)} - unique
    if len(unique) < len(members):
        with pytest.raises(InputError, match="twice"):
            LowerSet(members)
    elif not missing:
        assert rows(LowerSet(members)) == ordered(unique)
    else:
        with pytest.raises(InputError, match="a set without") as error:
            LowerSet(members)
        assert any(str(index) in str(error.value) for index in missing)


def test_the_missing_index_is_named():
    with pytest.raises(InputError, match=r"a set without \(1, 2\); expected a lower set.*LowerSet.closure"):
        LowerSet([(1, 1), (2, 1), (2, 2)])


@given(indices, st.integers(0, 2**32))
def test_find_and_parents(members, seed):
    table = MultiIndices(np.array(ordered({small for index in members for small in below(index)})))
    known = {tuple(index): number for number, index in enumerate(table.levels.tolist())}
    wanted = np.random.default_rng(seed).integers(0, 6, (50, table.dim))
    assert table.find(wanted).tolist() == [known.get(tuple(index), -1) for index in wanted.tolist()]
    for number, index in enumerate(table.levels.tolist()):
        raised = [j for j, level in enumerate(index) if level > 1]
        if raised:
            index[raised[-1]] = 1
            assert table.parents[number] == known[tuple(index)]
        else:
            assert table.parents[number] == -1


def test_refining_one_member():
    grid = LowerSet([(1, 1), (1, 2), (2, 1)])
    assert rows(grid.refine([(1, 2)])) == [(1, 1), (1, 2), (2, 1), (1, 3), (2, 2)]
    assert rows(grid.refine([(2, 1)]).refine([(2, 2)])) == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]
    assert rows(grid.add([(3, 2)])) == ordered(below((3, 2)))
    with pytest.raises(InputError, match=r"got \(3, 3\); expected members of the set"):
        grid.refine([(3, 3)])
    assert rows(grid) == [(1, 1), (1, 2), (2, 1)]


@pytest.mark.parametrize(
    ("weights", "budget"), [([1, 1, 1], 3.0), ([1, 2], 4.0), ([0.5, 3.0, 1.0], 2.5), ([0.1], 0.35)]
)
def test_anisotropic(weights, budget):
    top = [int(budget / w) + 2 for w in weights]
    expected = [
        index
        for index in itertools.product(*(range(1, t + 1) for t in top))
        if sum(w * (level - 1) for w, level in zip(weights, index)) <= budget + 1e-9
    ]
    grid = LowerSet.anisotropic(weights, budget)
    assert rows(grid) == ordered(expected)
    check_grid(grid)


def test_interactions():
    full = SparseGrid(4, 4).multi_indices
    for order in (1, 2, 3, 4):
        expected = full[(full > 1).sum(axis=1) <= order]
        assert np.array_equal(LowerSet.interactions(4, 4, order).multi_indices, expected)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: LowerSet([[0, 1]]), "count levels from 1"),
        (lambda: LowerSet([[1.5, 1.0]]), "array of integers"),
        (lambda: LowerSet(np.ones((0, 2), dtype=int)), "at least 1"),
        (lambda: LowerSet.anisotropic([1.0, -1.0], 2.0), "positive weights"),
        (lambda: LowerSet.anisotropic([1.0], -1.0), "budget"),
        (lambda: SparseGrid(0, 2), "SparseGrid dim: got 0"),
        (lambda: SparseGrid(2, 51), "from 1 to 50"),
        (lambda: FullGrid([2, 0]), "FullGrid level"),
        (lambda: SparseGrid(100, 6).points, "use a lower level"),
        (lambda: FullGrid([30] * 8).points, "use a sparse grid"),
        (lambda: SparseGrid(2, 3).points_at([17]), "from 0 to 16"),
        (lambda: SparseGrid(2, 3).positions_of([[0.5]]), r"expected \(q, 2\)"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(InputError, match=words):
        call()


# --- sizes by formula --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dim", "level", "m", "active"),
    [
        (13, 3, 391, 105),
        (10, 3, 241, 66),
        (100, 2, 201, 101),
        (256, 2, 513, 257),
        (512, 2, 1025, 513),
        (1, 7, 127, 7),
    ],
)
def test_the_papers_sizes(dim, level, m, active):
    grid = SparseGrid(dim, level)
    assert (grid.size, grid.active_per_input) == (m, active)
    check_grid(grid)


@pytest.mark.parametrize("dim", [1, 2, 3, 7, 30, 100])
@pytest.mark.parametrize("level", [1, 2, 3, 6, 12])
def test_sparse_grid_sizes_by_binomials(dim, level):
    grid = SparseGrid(dim, level)
    assert grid.size == sum(2**k * math.comb(k + dim - 1, dim - 1) for k in range(level))
    assert grid.active_per_input == math.comb(level + dim - 1, dim)


def test_sizes_need_no_enumeration():
    assert SparseGrid(100, 6).size == 3_014_935_041
    assert SparseGrid(100, 50).size > 2**64  # plain integers do not overflow
    assert FullGrid([20] * 10).size == (2**20 - 1) ** 10


def test_projections():
    assert np.array_equal(SparseGrid(4, 3).project([0, 2]).points, SparseGrid(2, 3).points)
    assert FullGrid([2, 3, 4]).project([2, 0]).levels == (4, 2)
    grid = LowerSet.closure([(3, 1, 2), (1, 2, 2)])
    assert rows(grid.project([0, 2])) == ordered(set(below((3, 2))))
    assert rows(grid.project([1])) == [(1,), (2,)]


def test_kronecker_order():
    grid = FullGrid([2, 3])
    line = [0.5, 0.25, 0.75], [0.5, 0.25, 0.75, 0.125, 0.375, 0.625, 0.875]
    assert grid.points[grid.kronecker_order].tolist() == [list(pair) for pair in itertools.product(*line)]
