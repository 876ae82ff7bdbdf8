"""Oracle: the paper's numbers of features and activations, and what method and counting say of other grids."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.expansion.reference import dense_features
from dtmgp.grids import FullGrid, LowerSet, Nested, SparseGrid, dyadic_points, paired_points
from dtmgp.kernels import Additive, Brownian, BrownianBridge, Laplace, Markov, Matern32, Matern52, Tensor

PAPER = [
    (13, 3, 391, 105),
    (10, 3, 241, 66),
    (100, 2, 201, 101),
    (256, 2, 513, 257),
    (512, 2, 1025, 513),
    (1, 7, 127, 7),
]


@pytest.mark.parametrize(("dim", "level", "m", "active"), PAPER)
def test_the_papers_sizes(dim, level, m, active):
    expansion = HierarchicalExpansion(Laplace(float(dim)), SparseGrid(dim, level))
    assert (expansion.size, expansion.active_per_input) == (m, active)
    features = expansion.features(np.random.default_rng(0).random((20, dim)))
    assert features.shape == (20, m)
    assert np.count_nonzero(features.data) == 20 * active
    factor = expansion.inverse_cholesky()
    assert factor.shape == (m, m)
    assert factor.nnz == expansion.nonzeros


def test_the_papers_181_points():
    expansion = HierarchicalExpansion(Laplace(2.0), SparseGrid(2, 10, sequence=paired_points()))
    assert expansion.size == 181 == 1 + 4 * sum(range(1, 10))
    assert expansion.active_per_input == 55
    x = np.random.default_rng(0).random((50, 2))
    features = expansion.features(x)
    assert (np.diff(features.indptr) == 55).all()
    assert np.abs(features.toarray() - dense_features(expansion, x)).max() < 1e-13
    points = SparseGrid(2, 10, sequence=paired_points()).points
    assert (
        np.abs(expansion.features(points) @ expansion.features(points).T - expansion.kernel(points)).max()
        < 1e-13
    )
    assert points.min() == 0.0
    assert points.max() == 1.0


def test_dyadic_grids_have_no_181_points():
    assert [SparseGrid(2, level).size for level in (5, 6)] == [129, 321]


# --- Matern kernels: generalised levels ---------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [Matern32(13.0), Matern52(13.0)])
def test_generalised_total_level_3_in_13_dimensions(kernel):
    expansion = HierarchicalExpansion(kernel, SparseGrid(13, 3))
    assert expansion.active_per_input == 105 == math.comb(15, 2)
    features = expansion.features(np.random.default_rng(0).random((50, 13)))
    assert np.count_nonzero(features.data) == 50 * 105


def test_five_levels_of_matern_32_have_ten_nonzeros_everywhere():
    expansion = HierarchicalExpansion(Matern32(0.5), SparseGrid(1, 10))  # value and derivative of five levels
    assert expansion.size == 2 * 31
    features = expansion.features(np.linspace(-0.2, 1.2, 1001))
    assert (np.diff(features.indptr) == 10).all()
    between = np.random.default_rng(0).random(1000)
    assert np.count_nonzero(expansion.features(between).data) == 10 * 1000
    factor = expansion.inverse_cholesky().toarray()
    relative = np.abs(factor) / np.abs(factor).max(axis=0)
    assert (relative > 1e-12).sum(
        axis=0
    ).max() == 5  # value and slope at a midpoint are independent given the ends
    assert expansion.max_nonzeros_per_column == 6  # stored, with the zero


@pytest.mark.parametrize(("kernel", "states"), [(Matern32(0.5), 2), (Matern52(0.5), 3)])
def test_functions_per_generalised_level(kernel, states):
    sizes = [HierarchicalExpansion(kernel, SparseGrid(1, g)).size for g in range(1, 3 * states + 1)]
    expected = np.cumsum([1] * states + [2] * states + [4] * states)
    assert sizes == expected.tolist()


# --- additive kernels --------------------------------------------------------------------------------------


def additive():
    return Additive(
        [
            ((0, 1), Tensor([Laplace(0.5), Brownian(2.0)])),
            ((2,), Matern52(0.4)),
            ((1, 3), Tensor(Matern32(), dim=2)),
        ],
        dim=5,
    )


@pytest.mark.parametrize("own_grids", [False, True])
def test_additive_is_the_concatenation_of_its_terms(own_grids):
    kernel = additive()
    grids = [SparseGrid(2, 4), SparseGrid(1, 6), LowerSet([(1, 1), (1, 2), (2, 1)])] if own_grids else None
    expansion = HierarchicalExpansion(kernel, grids or SparseGrid(5, 4))
    x = np.random.default_rng(0).random((30, 5))
    terms = [
        HierarchicalExpansion(term, grids[i] if grids else SparseGrid(len(subset), 4))
        for i, (subset, term) in enumerate(kernel.terms)
    ]
    parts = [term.features(x[:, list(subset)]).toarray() for term, (subset, _) in zip(terms, kernel.terms)]
    assert np.array_equal(expansion.features(x).toarray(), np.concatenate(parts, axis=1))
    assert expansion.size == sum(term.size for term in terms)
    assert expansion.active_per_input == sum(term.active_per_input for term in terms)
    factor, start = expansion.inverse_cholesky().toarray(), 0
    for term in terms:
        stop = start + term.size
        assert np.array_equal(factor[start:stop, start:stop], term.inverse_cholesky().toarray())
        assert not factor[start:stop, stop:].any()
        assert not factor[stop:, start:stop].any()
        start = stop
    assert expansion.log_det() == pytest.approx(sum(term.log_det() for term in terms), rel=1e-14)


def test_additive_reproduces_the_covariance_at_the_nodes_of_every_term():
    kernel, grid = additive(), SparseGrid(5, 5)
    expansion = HierarchicalExpansion(kernel, grid)
    for (subset, term), (points, orders), block in zip(kernel.terms, expansion.states(), expansion.blocks):
        nodes = points[(orders == 0).all(axis=1)]
        own = HierarchicalExpansion(term, block.grid)
        phi = own.features(nodes)
        assert np.abs((phi @ phi.T).toarray() - term(nodes)).max() < 1e-12
        assert own.residual_variance(nodes).max() < 1e-12
        assert own.dim == len(subset)


# --- one grid seen in several ways --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernels", [[Laplace(0.5), Brownian(2.0), Matern32(0.7)], [BrownianBridge(), Matern52(), Laplace()]]
)
def test_permuting_the_inputs_permutes_the_features(kernels):
    grid = LowerSet.closure([(3, 2, 1), (1, 4, 2), (2, 1, 3)])
    order = [2, 0, 1]
    permuted = LowerSet(grid.multi_indices[:, order])
    first = HierarchicalExpansion(Tensor(kernels), grid)
    second = HierarchicalExpansion(Tensor([kernels[j] for j in order]), permuted)
    x = np.random.default_rng(0).random((40, 3))
    # features are identified by the state that they belong to
    (points, orders), (points2, orders2) = first.states()[0], second.states()[0]
    names = {tuple(key): i for i, key in enumerate(np.hstack([points[:, order], orders[:, order]]))}
    place = [names[tuple(key)] for key in np.hstack([points2, orders2])]
    got, expected = second.features(x[:, order]).toarray(), first.features(x).toarray()[:, place]
    np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-18)
    factor, factor2 = first.inverse_cholesky().toarray(), second.inverse_cholesky().toarray()
    np.testing.assert_allclose(factor2, factor[np.ix_(place, place)], rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("kernel", [Laplace(0.3), Brownian(), Matern32(), Matern52(0.6)])
def test_one_dimensional_grids_are_all_the_same(kernel):
    x = np.linspace(-0.3, 1.3, 77)
    reference = HierarchicalExpansion(kernel, SparseGrid(1, 6))
    plain = Nested([sorted(dyadic_points(level)[2 ** (level - 1) - 1 :]) for level in range(1, 7)])
    for grid in (FullGrid([6]), LowerSet([[g] for g in range(1, 7)]), SparseGrid(1, 6, sequence=plain)):
        other = HierarchicalExpansion(kernel, grid)
        assert np.array_equal(other.features(x).toarray(), reference.features(x).toarray())
        assert np.array_equal(other.inverse_cholesky().toarray(), reference.inverse_cholesky().toarray())
    if kernel.state_size == 1:
        assert np.array_equal(SparseGrid(1, 6).points[:, 0], dyadic_points(6))


def test_full_grids_are_kronecker_products():
    kernels, levels = [Laplace(0.4), Brownian(), Markov(p=np.exp, q=lambda x: np.exp(-x))], [3, 2, 4]
    grid = FullGrid(levels)
    order = grid.kronecker_order
    expansion = HierarchicalExpansion(Tensor(kernels), grid)
    lines = [HierarchicalExpansion(k, SparseGrid(1, level)) for k, level in zip(kernels, levels)]
    expected = np.ones((1, 1))
    for line in lines:
        expected = np.kron(expected, line.inverse_cholesky().toarray())
    got = expansion.inverse_cholesky().toarray()[np.ix_(order, order)]
    np.testing.assert_allclose(got, expected, rtol=1e-13, atol=0)
    x = np.random.default_rng(0).random((5, 3))
    for row in x:
        phi = np.ones(1)
        for line, value in zip(lines, row):
            phi = np.kron(phi, line.features([value]).toarray()[0])
        np.testing.assert_allclose(expansion.features([row]).toarray()[0, order], phi, rtol=1e-13, atol=0)


@pytest.mark.parametrize("kernel", [Laplace(0.4), Brownian(), Matern32(0.5), Matern52(0.5)])
def test_nested_sequences_with_boundary_points(kernel):
    sequence = Nested([[0.5], [0.0, 1.0], [0.2, 0.7], [0.1, 0.3, 0.6, 0.9], [0.55]])
    expansion = HierarchicalExpansion(kernel, SparseGrid(1, 5, sequence=sequence))
    # an irrational step: no input is a node, where a jump of a support would hide
    x = np.concatenate(
        [np.linspace(-0.2, 1.2, 71) + 1e-3 / np.pi, sequence.points(-(-5 // kernel.state_size))]
    )
    features = expansion.features(x)
    assert (np.diff(features.indptr) == 5).all()
    assert np.abs(features.toarray() - dense_features(expansion, x)).max() < 1e-12
    assert np.abs(expansion.residual_variance(sequence.points(-(-5 // kernel.state_size)))).max() < 1e-13


@pytest.mark.parametrize("kernel", [Laplace(), Brownian(), Matern32()])
def test_level_n_is_a_prefix_of_level_n_plus_1(kernel):
    x = np.random.default_rng(0).random((20, 3))
    small, large = (HierarchicalExpansion(kernel, SparseGrid(3, level)) for level in (4, 5))
    m = small.size
    assert np.array_equal(large.features(x).toarray()[:, :m], small.features(x).toarray())
    assert np.array_equal(large.inverse_cholesky().toarray()[:m, :m], small.inverse_cholesky().toarray())
    gain = small.residual_variance(x) - large.residual_variance(x)
    assert (gain >= -1e-15).all()


def test_repr_shows_the_sizes():
    assert repr(HierarchicalExpansion(Laplace(), SparseGrid(13, 3))) == (
        "HierarchicalExpansion(Laplace, dim=13): m=391, T=105 active per input, 1,431 non-zeros in R^-1"
    )


def test_prior_samples_have_the_expansions_covariance():
    expansion = HierarchicalExpansion(Laplace(0.5), SparseGrid(2, 3))
    x = np.random.default_rng(0).random((4, 2))
    draws = expansion.sample_prior(x, 40_000, random_state=1)
    exact = (expansion.features(x) @ expansion.features(x).T).toarray()
    assert np.abs(np.cov(draws) - exact).max() < 5 * np.sqrt(2 / 40_000)  # five standard errors
    assert np.array_equal(draws[:, :3], expansion.sample_prior(x, 40_000, np.random.default_rng(1))[:, :3])
    assert np.array_equal(expansion.sample_prior(x, 5, 2)[:2], expansion.sample_prior(x[:2], 5, 2))
