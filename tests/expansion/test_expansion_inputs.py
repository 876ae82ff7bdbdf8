"""Oracle: the refusal that the message should make; for odd but legal inputs the plain product of 1-D features."""

from __future__ import annotations

import numpy as np
import pytest

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion, InducedExpansion
from dtmgp.expansion.reference import dense_features
from dtmgp.grids import FullGrid, LowerSet, Nested, SparseGrid, paired_points
from dtmgp.kernels import Additive, Brownian, BrownianBridge, Laplace, Markov, Matern32, Matern52, Tensor

KERNELS = [Laplace(0.5), Brownian(0.5), Matern32(0.5), Matern52(0.5)]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: HierarchicalExpansion(Tensor(Laplace(), dim=3), SparseGrid(2, 2)),
            ["3 coordinates", "2 coordinates"],
        ),
        (lambda: HierarchicalExpansion(Laplace(), [SparseGrid(2, 2)]), ["grid of type list", "SparseGrid"]),
        (
            lambda: HierarchicalExpansion(
                BrownianBridge(), SparseGrid(1, 2, sequence=Nested([[0.5], [0.0, 1.0]]))
            ).features([0.3]),
            ["BrownianBridge at the grid point 0"],
        ),
        (
            lambda: HierarchicalExpansion(BrownianBridge(), SparseGrid(1, 1, sequence=Nested([[1.5]]))),
            ["1.5", "[0, 1]"],
        ),
        (lambda: HierarchicalExpansion(Matern32(), SparseGrid(1, 9, sequence=Nested([[0.5]]))), ["9"]),
        (
            lambda: HierarchicalExpansion(Additive([((0,), Laplace())]), SparseGrid(2, 2)),
            ["dimension 2", "dimension 1"],
        ),
        (
            lambda: HierarchicalExpansion(
                Additive([((0,), Laplace()), ((1,), Laplace())]), [SparseGrid(1, 2)]
            ),
            ["1 grids", "2, one per term"],
        ),
    ],
)
def test_refused_at_construction(make, words):
    with pytest.raises(InputError) as error:
        make()
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([[0.1, np.nan]], ["x[0] = nan", "finite"]),
        ([[0.1, 0.2], [np.inf, 0.3]], ["x[1] = inf"]),
        ([0.1, 0.2], ["shape (2,)", "(n, 2)"]),
        ([[0.1, 0.2, 0.3]], ["shape (1, 3)"]),
        (0.5, ["shape ()"]),
        ([[-2.5, 0.2]], ["x[0] = -2.5", "[-2, inf]"]),
    ],
)
def test_refused_inputs(x, words):
    expansion = HierarchicalExpansion(Tensor([Brownian(0.5), Laplace()]), SparseGrid(2, 3))
    for call in (expansion.features, expansion.residual_variance, expansion.sample_prior):
        with pytest.raises(InputError) as error:
            call(x)
        for word in words:
            assert word in str(error.value)


def test_refused_right_hand_sides_and_positions():
    expansion = HierarchicalExpansion(Laplace(), SparseGrid(2, 3))
    with pytest.raises(InputError, match=r"solve: got shape \(2, 5\); expected \(r, 17\)"):
        expansion.solve(np.zeros((2, 5)))
    with pytest.raises(InputError, match="0 to 16"):
        expansion.support(17)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_inputs_on_grid_points(kernel):
    expansion = HierarchicalExpansion(kernel, SparseGrid(2, 5))
    points = np.unique(expansion.states()[0][0], axis=0)
    got, expected = expansion.features(points), dense_features(expansion, points)
    assert np.abs(got.toarray() - expected).max() < 1e-12
    if kernel.state_size == 1:  # a value at a node is no later feature's business
        for row, position in enumerate(SparseGrid(2, 5).positions_of(points)):
            assert not np.triu(got.toarray())[row, row + 1 :].any() or position >= 0
        ordered = expansion.features(SparseGrid(2, 5).points).toarray()
        assert not np.triu(ordered, 1).any()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_inputs_outside_the_cube(kernel):
    expansion = HierarchicalExpansion(kernel, SparseGrid(2, 4))
    x = np.array([[-1.5, 0.3], [0.2, 1.7], [3.0, 4.0], [-0.9, -0.8], [0.0, 1.0]])
    got = expansion.features(x)
    assert (np.diff(got.indptr) == expansion.active_per_input).all()
    assert np.abs(got.toarray() - dense_features(expansion, x)).max() < 1e-11
    assert (expansion.residual_variance(x) >= 0).all()


@pytest.mark.parametrize(
    "kernel", [Laplace(0.5), Matern32(0.5), Matern52(0.5)], ids=lambda k: type(k).__name__
)
def test_inputs_far_outside_are_zero_and_the_residual_is_the_prior(kernel):
    expansion = HierarchicalExpansion(kernel, SparseGrid(2, 4))
    x = np.array([[1e6, 0.5], [-1e300, 1e300], [0.5, -1e4], [1.7e308, 0.5]])
    features = expansion.features(x)
    assert not features.toarray().any()
    assert (np.diff(features.indptr) == expansion.active_per_input).all()
    assert np.array_equal(expansion.residual_variance(x), np.ones(4))


def test_brownian_far_outside():
    expansion = HierarchicalExpansion(Brownian(), SparseGrid(1, 4))
    far, near = expansion.features([1e9, 1.0]).toarray()
    assert far[-1] > 0  # a plateau
    assert np.count_nonzero(far) == 4
    np.testing.assert_allclose(far @ near, 1 + 15 / 16, rtol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_signed_zeros_and_denormals_are_zero(kernel):
    expansion = HierarchicalExpansion(kernel, SparseGrid(2, 5))
    zero = expansion.features([[0.0, 0.7]]).toarray()
    for tiny in (-0.0, 5e-324, -5e-324, 2.2e-308):
        assert np.array_equal(expansion.features([[tiny, 0.7]]).toarray(), zero)


def test_the_bridge_is_zero_at_its_ends():
    features = HierarchicalExpansion(BrownianBridge(), SparseGrid(2, 4)).features(
        [[0.0, 0.4], [1.0, 0.4], [-0.0, 0.4]]
    )
    assert not features.toarray().any()


def plain_products(expansion, x):
    """Features by one multiplication per coordinate, in extended precision."""
    grid = expansion.grid
    result = np.zeros((len(x), expansion.size))
    lines = [
        HierarchicalExpansion(kernel, SparseGrid(1, int(top), sequence=grid.sequence))
        for kernel, top in zip(expansion.kernel.kernels, grid.max_levels)
    ]
    values = [line.features(x[:, j]).toarray().astype(np.longdouble) for j, line in enumerate(lines)]
    starts = [np.concatenate([[0], np.cumsum(line.blocks[0].layout.block_size)]) for line in lines]
    block, local = expansion.blocks[0].layout.addresses(np.arange(expansion.size))
    for column in range(expansion.size):
        product = np.full(len(x), np.sqrt(np.longdouble(expansion.kernel.variance)))
        for j in range(grid.dim):
            product *= values[j][:, starts[j][grid.multi_indices[block[column], j] - 1] + local[column, j]]
        result[:, column] = product
    return result


@pytest.mark.parametrize(
    "lengthscales", [[1e-3, 1e-3, 1e-3], [1e-3, 1.0, 2e-3], [2e-3, 1e-2, 1e-2], [0.5, 0.2, 1.0]]
)
@pytest.mark.parametrize("kind", [Laplace, Matern32, Matern52])
def test_underflow_equals_the_plain_product(kind, lengthscales):
    kernel = Tensor([kind(scale) for scale in lengthscales], variance=1.7)
    expansion = HierarchicalExpansion(kernel, SparseGrid(3, 5))
    rng = np.random.default_rng(0)
    x = rng.random((60, 3))
    x[:20] = 0.5 + 1e-3 * rng.standard_normal((20, 3))  # near the root
    x[20:40] = rng.integers(0, 33, (20, 3)) / 32 + 1e-4
    with np.errstate(under="ignore"):
        expected = plain_products(expansion, x)
    got = expansion.features(x).toarray()
    np.testing.assert_allclose(got, expected, rtol=1e-14, atol=1e-307)


def test_tiny_lengthscales_keep_the_deep_features():
    """Root values underflow to 0, the feature of the nearest deep point is about 1."""
    expansion = HierarchicalExpansion(Tensor(Laplace(1e-4), dim=2), FullGrid([6, 6]))
    x = np.array([[1 / 64 + 1e-5, 63 / 64 - 1e-5]])
    features = expansion.features(x)
    expected = np.exp(-0.2)
    assert features.max() == pytest.approx(expected, rel=1e-10)
    assert expansion.residual_variance(x)[0] == pytest.approx(1 - expected**2, rel=1e-10)


def test_a_user_kernel_that_overflows_outside_is_named():
    kernel = Markov(p=lambda x: np.exp(2 * x**3), q=lambda x: np.exp(x**3), domain=(0.0, 100.0))
    expansion = HierarchicalExpansion(kernel, SparseGrid(1, 3))
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(InputError, match=r"not finite at x\[1\]"),
    ):
        expansion.features([0.3, 50.0])


# --- dense expansions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "grid"),
    [
        (Tensor([Laplace(0.5), Brownian()], variance=2.0), SparseGrid(2, 5)),
        (Tensor(BrownianBridge(), dim=3), LowerSet.closure([(3, 1, 2), (1, 4, 1)])),
        (Tensor(Laplace(2.0), dim=2), SparseGrid(2, 10, sequence=paired_points())),
    ],
)
def test_induced_equals_hierarchical_on_the_same_points(kernel, grid):
    sparse, dense = HierarchicalExpansion(kernel, grid), InducedExpansion(kernel, grid.points)
    x = np.random.default_rng(0).random((40, grid.dim))
    assert (dense.size, dense.active_per_input) == (sparse.size, sparse.size)
    assert np.abs(sparse.features(x).toarray() - dense.features(x)).max() < 1e-12
    gap = np.abs(sparse.inverse_cholesky().toarray() - dense.inverse_cholesky())
    assert (gap / np.abs(dense.inverse_cholesky()).max(axis=0)).max() < 1e-12
    assert sparse.log_det() == pytest.approx(dense.log_det(), rel=1e-12)
    a = np.random.default_rng(1).standard_normal((3, sparse.size))
    assert np.abs(sparse.solve(a) - dense.solve(a)).max() < 1e-11 * np.abs(dense.solve(a)).max()
    assert np.abs(sparse.residual_variance(x) - dense.residual_variance(x)).max() < 1e-12
    assert np.abs(sparse.sample_prior(x, 3, 0) - dense.sample_prior(x, 3, 0)).max() < 1e-10


@pytest.mark.parametrize(("nu", "kernel"), [(0.5, Laplace), (1.5, Matern32), (2.5, Matern52)])
def test_induced_takes_the_kernels_of_scikit_learn(nu, kernel):
    from sklearn.gaussian_process.kernels import RBF, Matern

    points, x = np.random.default_rng(0).random((15, 1)), np.linspace(0, 1, 9)[:, None]
    ours, theirs = InducedExpansion(Tensor(kernel(0.3)), points), InducedExpansion(Matern(0.3, nu=nu), points)
    assert np.abs(ours.features(x) - theirs.features(x)).max() < 1e-8  # 2e-10 measured: condition 1e7
    smooth = InducedExpansion(RBF(0.3), points, jitter=1e-8)
    assert (smooth.residual_variance(x) >= 0).all()
    gram = smooth.features(points) @ smooth.features(points).T
    assert np.abs(gram - RBF(0.3)(points)).max() < 1e-6


def test_induced_names_repeated_points():
    with pytest.raises(InputError, match="jitter"):
        InducedExpansion(Tensor(Matern52()), [[0.3], [0.3]])
