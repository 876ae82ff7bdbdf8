"""Oracles: numpy's exp, scikit-learn's kernels, sorting all distances, SciPy's k-d tree."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import cKDTree
from sklearn.gaussian_process.kernels import RBF, Matern

from dtmgp.baselines.vecchia import Covariance, _jit
from dtmgp.baselines.vecchia.kernels import correlation
from dtmgp.baselines.vecchia.ordering import nearest_neighbours, ordered_neighbours, random_order

NU = {Covariance.MATERN12: 0.5, Covariance.MATERN32: 1.5, Covariance.MATERN52: 2.5}


def test_exponential_is_exact_to_rounding():
    x = np.concatenate([-np.logspace(-20, np.log10(699), 20_001), np.linspace(-700, 0, 20_001)])
    values = x.copy()
    _jit.exponential(values, len(values), np.empty(len(values)))
    # Measured: 4.5e-16.
    np.testing.assert_allclose(values, np.exp(x), rtol=9e-16, atol=0)


def test_exponential_of_very_negative_numbers_is_tiny_and_leaves_the_rest():
    values = np.array([-1e300, -1e5, -701.0, -1.0])
    _jit.exponential(values, 3, np.empty(3))
    assert (values[:3] > 0).all()
    assert (values[:3] < 1e-300).all()
    assert values[3] == -1.0


@pytest.mark.parametrize("covariance", Covariance)
def test_dense_correlations_are_scikit_learn_s(covariance):
    generator = np.random.default_rng(0)
    a, b = generator.random((20, 3)), generator.random((30, 3))
    theta = 0.37
    kernel = (
        RBF(np.sqrt(theta / 2))
        if covariance is Covariance.EXP2
        else Matern(np.sqrt(theta), nu=NU[covariance])
    )
    np.testing.assert_allclose(correlation(a, b, covariance, theta), kernel(a, b), rtol=1e-13)


@pytest.mark.parametrize("covariance", Covariance)
def test_compiled_correlations_are_the_dense_ones(covariance):
    points = np.random.default_rng(1).random((9, 3))
    values, root, scale = np.empty(45), np.empty(45), np.empty(45)
    _jit.squared_distances(points, 9, 3, values)
    _jit.correlations(values, 45, int(covariance), 0.21, root, scale)
    dense = correlation(points, points, covariance, 0.21)
    np.testing.assert_allclose(values, dense[np.tril_indices(9)], rtol=1e-14)


@pytest.mark.parametrize(("n", "count"), [(2, 1), (40, 7), (40, 39), (40, 100)])
def test_ordered_neighbours_are_the_nearest_earlier_points(n, count):
    points = np.random.default_rng(2).random((n, 3))
    neighbours = ordered_neighbours(points, count)
    assert neighbours.shape == (n, min(count, n - 1))
    for i in range(n):
        distances = ((points[:i] - points[i]) ** 2).sum(axis=1)
        expected = np.argsort(distances, kind="stable")[:count].tolist()
        filled = [k for k in neighbours[i].tolist() if k >= 0]
        assert filled == expected
        assert (neighbours[i, len(filled) :] == -1).all()


def test_ties_go_to_the_earlier_point():
    grid = np.array([[0.0], [2.0], [0.0], [1.0]])
    assert ordered_neighbours(grid, 3)[3].tolist() == [0, 1, 2]


def test_neighbours_of_queries_are_those_of_a_tree():
    generator = np.random.default_rng(3)
    points, queries = generator.random((500, 2)), generator.random((700, 2))
    expected = cKDTree(points).query(queries, k=25)[1]
    np.testing.assert_array_equal(nearest_neighbours(points, queries, 25), expected)
    np.testing.assert_array_equal(nearest_neighbours(points, queries, 25, threads=3), expected)


def test_orders_are_permutations_that_differ_between_seeds():
    first, second = (random_order(50, np.random.default_rng(seed)) for seed in (0, 1))
    assert sorted(first.tolist()) == list(range(50))
    assert first.tolist() != second.tolist()
