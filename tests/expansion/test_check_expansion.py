"""Oracles: expansions broken on purpose in one way each, which the check must name; sound ones must pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import FullGrid, LowerSet, Nested, SparseGrid, paired_points
from dtmgp.kernels import Additive, Brownian, BrownianBridge, Laplace, Markov, Matern32, Matern52, Tensor
from dtmgp.testing import check_expansion

USER = Markov(p=lambda x: (1 + x) * np.exp(x), q=lambda x: np.exp(-x))


@pytest.mark.parametrize(
    "kernel",
    [Laplace(0.3), Laplace(3.0, 2.0), Brownian(), BrownianBridge(), USER, Matern32(0.5), Matern52(0.5)],
)
@pytest.mark.parametrize(
    "grid", [SparseGrid(1, 6), SparseGrid(3, 4), FullGrid([2, 3, 1]), LowerSet([(1, 1), (1, 2)])]
)
def test_kernels_on_grids(kernel, grid):
    check_expansion(HierarchicalExpansion(kernel, grid))


@pytest.mark.parametrize("kernel", [Laplace(2.0), Matern32(0.7)])
def test_the_181_points(kernel):
    check_expansion(HierarchicalExpansion(kernel, SparseGrid(2, 10, sequence=paired_points())))


def test_mixed_and_additive():
    mixed = Tensor([Laplace(), Matern32(0.5), Brownian(), BrownianBridge()], variance=3.0)
    check_expansion(HierarchicalExpansion(mixed, SparseGrid(4, 4)))
    terms = [((0, 1), Tensor(Laplace(), dim=2)), ((2,), Matern52(0.5)), ((1, 2), Tensor([Brownian(), USER]))]
    check_expansion(HierarchicalExpansion(Additive(terms), SparseGrid(3, 4)))


@settings(max_examples=25)
@given(
    left=st.lists(st.floats(0.02, 0.48), min_size=1, max_size=5, unique=True),
    lengthscale=st.floats(0.1, 3.0),
    kind=st.sampled_from([Laplace, Brownian, Matern32]),
)
def test_any_nested_sequence(left, lengthscale, kind):
    points = np.round(left, 2)
    points = points[np.sort(np.unique(points, return_index=True)[1])]
    sequence = Nested([[0.5], *([x, 1.0 - x] for x in points)])
    kernel = kind(lengthscale)
    levels = min(1 + len(points), 4 if kernel.state_size == 2 else 9)
    check_expansion(HierarchicalExpansion(kernel, SparseGrid(1, levels, sequence=sequence)), tolerance=1e-6)


class Broken(HierarchicalExpansion):
    def __init__(self):
        super().__init__(Laplace(0.5), SparseGrid(2, 4))


class WrongSign(Broken):
    def inverse_cholesky(self):
        factor = super().inverse_cholesky()
        factor.data[-1] *= -1
        return factor


class SmallError(Broken):
    def inverse_cholesky(self):
        factor = super().inverse_cholesky()
        factor.data[10] *= 1 + 1e-6
        return factor


class ClaimsTooManyNonzeros(Broken):
    @property
    def nonzeros(self):
        return super().nonzeros + 1


class ClaimsTooFullColumns(Broken):
    max_nonzeros_per_column = 10


class StoresTooFew(Broken):
    def features(self, x):
        features = super().features(x)
        features.data[:1] = 0.0
        features.eliminate_zeros()
        return features


class WideSupport(Broken):
    def support(self, position):
        box = super().support(position)
        return np.where(np.isfinite(box), box + np.array([-0.01, 0.01]), box)


class NarrowSupport(Broken):
    def support(self, position):
        box = super().support(position)
        return np.where(np.isfinite(box), box + np.array([0.01, -0.01]), box)


class WrongLogDet(Broken):
    def log_det(self):
        return -super().log_det()


class WrongSolve(Broken):
    def solve(self, a):
        return np.asarray(a @ self.inverse_cholesky())


class ShiftedFeatures(Broken):
    def features(self, x):
        return super().features(np.asarray(x) + 1e-6)


class DependsOnOtherRows(Broken):
    def features(self, x):
        features = super().features(x)
        features.data += 1e-12 * len(np.asarray(x))
        return features


class NotClippedResidual(Broken):
    def residual_variance(self, x):
        return super().residual_variance(x) + 1e-3


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (WrongSign, "diagonal of R\\^-1 should be positive"),
        (SmallError, "R\\^-1 against dense Cholesky"),
        (ClaimsTooManyNonzeros, "nonzeros claims"),
        (ClaimsTooFullColumns, "max_nonzeros_per_column claims 10"),
        (StoresTooFew, "every row should store active_per_input = 10"),
        (WideSupport, "non-zero just inside"),
        (NarrowSupport, "should be 0 there"),
        (WrongLogDet, "log_det"),
        (WrongSolve, "solve"),
        (ShiftedFeatures, "features against dense Cholesky"),
        (DependsOnOtherRows, "other rows"),
        (NotClippedResidual, "residual_variance"),
    ],
)
def test_a_broken_expansion_is_named(broken, words):
    check_expansion(Broken())
    with pytest.raises(AssertionError, match=words):
        check_expansion(broken())


def test_large_expansions_are_refused():
    with pytest.raises(AssertionError, match="smaller expansion"):
        check_expansion(HierarchicalExpansion(Laplace(), SparseGrid(1, 12)))
