"""Oracle: dense Cholesky in float64 on a thousand random cases, and counts of non-zeros made without the library.

Well-posed lengthscales, for which that oracle holds 1e-10: Laplace 0.1..3.2, Brownian theta 0.3..3.2, Matern-3/2
0.1..0.7, Matern-5/2 0.1..0.3, up to generalised level 9, 8, 9. Beyond them see test_extreme_lengthscales.
"""

from __future__ import annotations

import numpy as np
import pytest
from random_cases import errors, random_case, random_sum

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.kernels import Brownian, Laplace, Matern32, Matern52

TOLERANCE = 1e-10


def check(case):
    expansion = case.expansion
    factor, features = expansion.inverse_cholesky(), expansion.features(case.inputs)
    tensors = [block.kernel for block in expansion.blocks]
    markov = all(kernel.state_size == 1 for tensor in tensors for kernel in tensor.kernels)
    assert expansion.size == case.size
    assert expansion.active_per_input == case.active
    assert factor.nnz == expansion.nonzeros
    assert (np.diff(features.indptr) == case.active).all()
    if markov:  # coefficients on derivatives may vanish by symmetry
        assert np.count_nonzero(factor.data) == expansion.nonzeros
    if case.dyadic:  # the other sequence leaves gaps between its supports
        assert np.count_nonzero(features.data) == features.nnz
    assert max(errors(case)) < TOLERANCE


@pytest.mark.parametrize("seed", range(25))
def test_factor_and_features_small(seed):
    check(random_case(seed, most=250))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_factor_and_features_thousand_cases(block):
    # measured over all cases: R^-1 4.7e-11, features 6.7e-13, R^-T K R^-1 - I 2.3e-11; probably the dense side's,
    # since one-dimensional columns agree with 250 digits to 2e-13
    for seed in range(50 * block, 50 * (block + 1)):
        check(random_case(seed))


@pytest.mark.parametrize("seed", range(10))
def test_sums_over_subsets_of_coordinates_small(seed):
    check(random_sum(seed, most=250))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_a_hundred_sums_over_subsets_of_coordinates(block):
    # measured over all: R^-1 4.8e-11, features 4.5e-13, R^-T K R^-1 - I 1.8e-11
    for seed in range(25 * block, 25 * (block + 1)):
        check(random_sum(seed))


def closed_form_nonzeros(dim, level):
    """Non-zeros of the Markov factor on a dyadic sparse grid: 2^(k-1) columns of 1 + #neighbours on level k."""
    line = [1] + [3 * 2 ** (k - 1) - 2 for k in range(2, level + 1)]
    total = np.zeros(level, dtype=np.int64)
    total[0] = 1
    for _ in range(dim):
        total = np.convolve(total, line)[:level]
    return int(total.sum())


@pytest.mark.parametrize(("dim", "level"), [(1, 10), (2, 6), (3, 5), (10, 3), (40, 2)])
@pytest.mark.parametrize("kernel", [Laplace(0.8), Brownian(0.5)])
def test_nonzeros_of_the_factor(kernel, dim, level):
    expansion = HierarchicalExpansion(kernel, SparseGrid(dim, level))
    factor = expansion.inverse_cholesky()
    expected = closed_form_nonzeros(dim, level)
    assert expansion.nonzeros == factor.nnz == np.count_nonzero(factor.data) == expected
    assert expansion.max_nonzeros_per_column == np.diff(factor.indptr).max()
    assert expansion.max_nonzeros_per_column <= 3**dim


@pytest.mark.parametrize(
    ("kernel", "dim", "level"),
    [(Laplace(4.0), 4, 4), (Brownian(1.0), 2, 9), (Matern32(0.5), 3, 6), (Matern52(1.0), 1, 15)],
)
def test_nonzeros_of_the_features_at_a_hundred_thousand_inputs(kernel, dim, level):
    expansion = HierarchicalExpansion(kernel, SparseGrid(dim, level))
    features = expansion.features(np.random.default_rng(0).random((100_000, dim)))
    assert (np.diff(features.indptr) == expansion.active_per_input).all()
    assert np.count_nonzero(features.data) == features.nnz == 100_000 * expansion.active_per_input
    assert features.has_canonical_format


@pytest.mark.slow
def test_nonzeros_of_the_features_at_the_papers_size():
    expansion = HierarchicalExpansion(Laplace(13.0), SparseGrid(13, 3))
    features = expansion.features(np.random.default_rng(0).random((100_000, 13)))
    assert np.count_nonzero(features.data) == 100_000 * 105
