"""Oracle: closed forms. Faber-Schauder hats, sinh ratios on interior cells, piecewise linear Brownian features."""

from __future__ import annotations

import numpy as np
import pytest

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid, dyadic_points
from dtmgp.kernels import Brownian, BrownianBridge, Laplace, Markov

X = np.random.default_rng(0).random(400)


def hats(x, level):
    """One column per point of the level: max(0, 1 - |x - b| / h)."""
    h = 2.0**-level
    b = np.arange(1, 2**level, 2) * h
    return np.maximum(0.0, 1.0 - np.abs(x[:, None] - b) / h)


def columns_of(level):
    return slice(2 ** (level - 1) - 1, 2**level - 1)


@pytest.mark.parametrize("level", range(1, 11))
def test_bridge_features_are_faber_schauder_hats(level):
    features = HierarchicalExpansion(BrownianBridge(), SparseGrid(1, 10)).features(X).toarray()
    expected = np.sqrt(2.0**-level / 2) * hats(X, level)
    np.testing.assert_allclose(features[:, columns_of(level)], expected, rtol=2e-13, atol=1e-16)


@pytest.mark.parametrize("level", range(2, 11))
def test_brownian_features_are_hats_on_interior_cells_and_a_plateau_at_the_right(level):
    theta = 0.7
    features = (
        HierarchicalExpansion(Brownian(theta), SparseGrid(1, 10)).features(X).toarray()[:, columns_of(level)]
    )
    peak, h = np.sqrt(theta * 2.0**-level / 2), 2.0**-level
    np.testing.assert_allclose(features[:, 1:-1], peak * hats(X, level)[:, 1:-1], rtol=2e-13, atol=1e-16)
    last = np.sqrt(theta * h) * np.clip((X - (1 - 2 * h)) / h, 0, 1)
    np.testing.assert_allclose(features[:, -1], last, rtol=1e-12, atol=1e-16)


def test_brownian_root_is_its_covariance_with_the_middle():
    features = HierarchicalExpansion(Brownian(2.0), SparseGrid(1, 1)).features(X).toarray()[:, 0]
    np.testing.assert_allclose(features, (1 + 2 * np.minimum(X, 0.5)) / np.sqrt(2.0), rtol=1e-14)


@pytest.mark.parametrize("lengthscale", [0.05, 0.5, 1.0, 20.0])
@pytest.mark.parametrize("level", range(2, 11))
def test_laplace_features_are_sinh_ratios_on_interior_cells(level, lengthscale):
    features = HierarchicalExpansion(Laplace(lengthscale), SparseGrid(1, 10)).features(X).toarray()
    h, b = 2.0**-level, np.arange(1, 2**level, 2) * 2.0**-level
    inside = np.maximum(h - np.abs(X[:, None] - b), 0.0) / lengthscale
    # h/l up to 5: peak sqrt(tanh h / 2 * 2) in the stable form sinh(h - |x-b|) / (cosh h sqrt(tanh h))
    expected = np.sinh(inside) / (np.cosh(h / lengthscale) * np.sqrt(np.tanh(h / lengthscale)))
    got = features[:, columns_of(level)]
    np.testing.assert_allclose(got[:, 1:-1], expected[:, 1:-1], rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("lengthscale", [0.2, 1.0, 5.0])
def test_laplace_outer_cells_reach_to_infinity(lengthscale):
    x = np.array([-3.0, -0.5, 0.0, 0.2])
    features = HierarchicalExpansion(Laplace(lengthscale), SparseGrid(1, 2)).features(x).toarray()
    root = np.exp(-np.abs(x - 0.5) / lengthscale)
    outer = np.exp(-np.abs(x - 0.25) / lengthscale) * np.sqrt(1 - np.exp(-0.5 / lengthscale))
    np.testing.assert_allclose(features[:, 0], root, rtol=1e-14)
    np.testing.assert_allclose(features[:3, 1], outer[:3], rtol=1e-13)
    mirrored = HierarchicalExpansion(Laplace(lengthscale), SparseGrid(1, 2)).features(1 - x).toarray()
    np.testing.assert_allclose(mirrored[:, [0, 2, 1]], features, rtol=1e-13)


@pytest.mark.parametrize("level", [3, 8])
def test_the_clock_form(level):
    """q(x) sigma max(0, min((tau - tau_a)/(tau_b - tau_a), (tau_c - tau)/(tau_c - tau_b))), with tau = p/q."""
    p, q = (lambda x: (1 + x) * np.exp(x)), (lambda x: np.exp(-0.5 * x))
    features = HierarchicalExpansion(Markov(p=p, q=q), SparseGrid(1, level)).features(X).toarray()
    tau, w = p(X) / q(X), 2.0**-level
    b = np.arange(1, 2**level, 2) * w
    for j, place in enumerate(b):
        a, c = (place - w, place + w)
        tau_a = 0.0 if a == 0 else p(a) / q(a)
        tau_b = p(place) / q(place)
        rising = (tau - tau_a) / (tau_b - tau_a)
        if c == 1:
            sigma, falling = np.sqrt(tau_b - tau_a), np.ones_like(tau)
        else:
            tau_c = p(c) / q(c)
            sigma = np.sqrt((tau_b - tau_a) * (tau_c - tau_b) / (tau_c - tau_a))
            falling = (tau_c - tau) / (tau_c - tau_b)
        expected = q(X) * sigma * np.maximum(0.0, np.minimum(rising, falling))
        np.testing.assert_allclose(features[:, 2 ** (level - 1) - 1 + j], expected, rtol=1e-10, atol=1e-14)


def test_two_lines_of_a_user_equal_the_closed_forms():
    grid = SparseGrid(2, 6)
    x = np.random.default_rng(1).random((100, 2))
    for own, user in (
        (Laplace(0.6), Markov(p=np.exp, q=lambda z: np.exp(-z), lengthscale=0.6)),
        (Brownian(0.5, 2.0), Markov(p=lambda z: 1 + z, q=np.ones_like, lengthscale=2.0, variance=2.0)),
        (BrownianBridge(), Markov(p=lambda z: z, q=lambda z: 1 - z)),
    ):
        first, second = HierarchicalExpansion(own, grid), HierarchicalExpansion(user, grid)
        # differences of products lose 2^6 eps
        np.testing.assert_allclose(
            first.features(x).toarray(), second.features(x).toarray(), rtol=1e-11, atol=1e-13
        )
        gap = abs(first.inverse_cholesky() - second.inverse_cholesky()).max()
        assert gap < 1e-12 * abs(first.inverse_cholesky()).max()
        assert first.log_det() == pytest.approx(second.log_det(), rel=1e-12)


def test_the_residual_of_the_bridge():
    """The bridge between neighbouring points that are h apart: variance t (h - t) / h."""
    level = 6
    residual = HierarchicalExpansion(BrownianBridge(), SparseGrid(1, level)).residual_variance(X)
    h = 2.0**-level
    t = X - np.floor(X / h) * h
    np.testing.assert_allclose(residual, t * (h - t) / h, atol=1e-15)
    assert (
        np.abs(
            HierarchicalExpansion(BrownianBridge(), SparseGrid(1, level)).residual_variance(dyadic_points(6))
        ).max()
        < 1e-15
    )
