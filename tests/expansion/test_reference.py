"""Oracle: dense Cholesky by NumPy, and the numbers printed in the paper's example."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from dtmgp.expansion import HierarchicalExpansion, InducedExpansion
from dtmgp.expansion.reference import (
    algorithm_1,
    algorithm_2,
    dense_features,
    dense_inverse_cholesky,
    features_1d,
    features_sparse_grid,
    full_grid_points,
    solve_equation_14,
    solve_reference,
    sorted_dyadic,
    sparse_grid_points,
)
from dtmgp.grids import FullGrid, SparseGrid, dyadic_points, paired_points
from dtmgp.kernels import Brownian, BrownianBridge, Laplace, Markov, Tensor

KERNELS = [
    Laplace(0.7, 1.3),
    Brownian(2.0),
    BrownianBridge(0.5),
    Markov(p=lambda x: (1 + x) * np.exp(x), q=lambda x: np.exp(-x)),
]


def upper_inverse(covariance):
    upper = np.linalg.cholesky(covariance).T
    return solve_triangular(upper, np.eye(len(upper)))


def column_error(got, expected):
    return float((np.abs(got - expected) / np.abs(expected).max(axis=0)).max())


def test_points_are_those_of_the_grids():
    assert sorted_dyadic(6) == dyadic_points(6).tolist()
    for dim, level in [(1, 5), (2, 4), (3, 3), (5, 2)]:
        assert np.array_equal(sparse_grid_points(dim, level), SparseGrid(dim, level).points)
    grid = FullGrid([2, 3, 1])
    assert np.array_equal(full_grid_points([2, 3, 1]), grid.points[grid.kronecker_order])


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_algorithm_1_is_the_inverse_cholesky_factor(kernel):
    points = np.array(sorted_dyadic(6))
    assert column_error(algorithm_1(kernel, points), upper_inverse(kernel(points))) < 1e-12  # measured 2e-13


def test_algorithm_1_takes_any_order_and_boundary_points():
    points = paired_points(10).points(10)
    kernel = Laplace(0.4)
    assert column_error(algorithm_1(kernel, points), upper_inverse(kernel(points))) < 1e-13
    shuffled = np.random.default_rng(0).permutation(points)
    assert column_error(algorithm_1(kernel, shuffled), upper_inverse(kernel(shuffled))) < 1e-13


def test_the_three_conditions_of_equation_14():
    kernel = Laplace(0.4)
    points = np.array([0.2, 0.3, 0.6])
    c = np.array(solve_equation_14(kernel, *points))
    covariance = kernel(points)
    assert np.abs((covariance @ c)[[0, 2]]).max() < 1e-15
    assert abs(c @ covariance @ c - 1) < 1e-15
    one_sided = solve_equation_14(kernel, -math.inf, 0.3, 0.6)
    assert one_sided[0] == 0.0
    assert solve_equation_14(kernel, -math.inf, 0.3, math.inf) == (0.0, 1.0, 0.0)


CASES = [(1, 6), (2, 5), (3, 4), (4, 3), (4, 2), (3, 1)]


@pytest.mark.parametrize(("dim", "level"), CASES)
def test_algorithm_2_is_the_inverse_cholesky_factor(dim, level):
    kernels = list(itertools.islice(itertools.cycle(KERNELS), dim))
    covariance = Tensor(kernels)(np.array(sparse_grid_points(dim, level)))
    inverse = algorithm_2(kernels, level)
    assert column_error(inverse, upper_inverse(covariance)) < 1e-12
    built = HierarchicalExpansion(Tensor(kernels), SparseGrid(dim, level)).inverse_cholesky().toarray()
    assert column_error(built, inverse) < 1e-12
    assert (
        (np.abs(inverse) > 1e-12 * np.abs(inverse).max(axis=0)) == (built != 0)
    ).all()  # what telescopes to 0


@pytest.mark.parametrize(("dim", "level"), CASES)
def test_solve_of_the_supplement(dim, level):
    kernels = list(itertools.islice(itertools.cycle(KERNELS), dim))
    covariance = Tensor(kernels)(np.array(sparse_grid_points(dim, level)))
    a = np.random.default_rng(0).standard_normal((3, len(covariance)))
    expected = np.linalg.solve(covariance, a.T).T
    scale = np.abs(expected).max()
    assert np.abs(solve_reference(kernels, level, a) - expected).max() < 1e-11 * scale
    built = HierarchicalExpansion(Tensor(kernels), SparseGrid(dim, level)).solve(a)
    assert np.abs(built - expected).max() < 1e-11 * scale


@pytest.mark.parametrize(("dim", "level"), CASES)
def test_features_of_the_supplement(dim, level):
    kernels = list(itertools.islice(itertools.cycle(KERNELS), dim))
    expansion = HierarchicalExpansion(Tensor(kernels), SparseGrid(dim, level))
    points = np.array(sparse_grid_points(dim, level))
    for x in np.random.default_rng(0).random((4, dim)):
        expected = Tensor(kernels)(x[None], points) @ upper_inverse(Tensor(kernels)(points))
        phi = features_sparse_grid(kernels, level, x)
        assert np.abs(phi - expected[0]).max() < 1e-12
        assert np.abs(phi - expansion.features(x[None]).toarray()[0]).max() < 1e-12
        assert np.abs(phi - dense_features(expansion, x)).max() < 1e-12
        assert np.count_nonzero(np.abs(phi) > 1e-12) <= expansion.active_per_input


def test_features_in_one_dimension():
    kernel, points = Laplace(0.4), paired_points(6).points(6)
    for x in (-0.3, 0.1, 0.5, 0.77, 1.2):
        expected = kernel([x], points) @ upper_inverse(kernel(points))
        assert np.abs(features_1d(kernel, points, x) - expected[0]).max() < 1e-14


def test_dense_inverse_cholesky_is_scale_free():
    covariance = Laplace(0.4)(np.array(sorted_dyadic(4)))
    scale = 10.0 ** np.arange(len(covariance))
    scaled = dense_inverse_cholesky(covariance * scale * scale[:, None]) * scale[:, None]
    assert np.abs(scaled - upper_inverse(covariance)).max() < 1e-12


# --- the paper's example, section 4.2 and supplement ----------------------------------------------------------

X1, X2 = (0.81472369, 0.90579194), (0.27849822, 0.54688152)


def test_the_papers_factor():
    expected = np.eye(5) * 1.5942
    expected[0] = [1.0, -1.2416, -1.2416, -1.2416, -1.2416]
    built = HierarchicalExpansion(Laplace(), SparseGrid(2, 2)).inverse_cholesky().toarray()
    for inverse in (built, algorithm_2([Laplace()] * 2, 2)):
        assert np.array_equal(inverse.round(4) + 0.0, expected)


@pytest.mark.parametrize(
    ("x", "printed"),
    [
        (X1, [0.4865, 0.0, 0.3918, 0.0, 0.3918]),
        # printed with the points of dimension 1 first; 0.0933 needs the unrounded input
        (X2, [0.7646, 0.0, 0.0933, 0.5291, 0.0]),
    ],
)
def test_the_papers_features(x, printed):
    expansion = HierarchicalExpansion(Laplace(), SparseGrid(2, 2))
    found = [
        expansion.features([x]).toarray()[0],
        features_sparse_grid([Laplace()] * 2, 2, x),
        dense_features(expansion, x)[0],
        InducedExpansion(Tensor(Laplace(), dim=2), SparseGrid(2, 2).points).features([x])[0],
    ]
    for phi in found:
        assert np.array_equal(phi.round(4) + 0.0, printed)
