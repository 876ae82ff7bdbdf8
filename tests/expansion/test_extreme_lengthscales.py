"""Oracle: one insertion in 250 digits with mpmath, from covariances of values and derivatives in closed form."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from exact_line import inserted, markov_state, matern_state

from dtmgp.kernels import Brownian, BrownianBridge, Laplace, Markov, Matern32, Matern52

EPS = np.finfo(float).eps
LEVELS = [1, 2, 5, 10, 16]
PLACES = np.array([-0.999, -0.5, -1e-3, 0.0, 0.25, 0.75, 0.9999])  # in units of the gap


def insertions(level):
    gap = 2.0**-level
    for b in {gap, gap * (2 ** (level - 1) + 1) if level > 1 else gap, 1 - gap}:
        yield (b - gap if b > gap else -np.inf), b, (b + gap if b + gap < 1 else np.inf), gap


def pairs(level, kernel, state, lengthscale):
    """Per insertion: (columns, exact columns) in units in which derivatives are comparable, (features, exact)."""
    for a, b, c, gap in insertions(level):
        a1, b1, c1 = (np.array([v]) for v in (a, b, c))
        x = np.clip(b + gap * PLACES, 0.0, 1.0)
        features = kernel.features(x, kernel.local(a1, b1, c1), np.zeros(len(x), dtype=np.int64))
        found = kernel.columns(a1, b1, c1)
        parts = [(found.left, np.isfinite(a)), (found.right, np.isfinite(c)), (found.own, True)]
        columns = np.concatenate([part[0] for part, present in parts if present])
        exact_columns, exact_features = inserted(state, a, b, c, x)
        unit = min(gap, lengthscale) ** -np.arange(float(kernel.state_size))
        unit = np.tile(unit, len(columns) // len(unit))[:, None]
        is_open = np.isinf(a) & (x <= b) | np.isinf(c) & (x > b)
        yield (columns * unit, exact_columns * unit), (features, exact_features), is_open


def column_error(got, exact):
    return float((np.abs(got - exact) / np.abs(exact).max(axis=0)).max())


@pytest.mark.parametrize("lengthscale", [1e-4, 1e-2, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("level", LEVELS)
def test_laplace(level, lengthscale):
    # measured: columns 2.2e-16; features 3.9e-16 for ordinary lengthscales, relative to every single value (the
    # exponent of values of exp(-2500) is rounded: 3e-14)
    for columns, (got, exact), _ in pairs(
        level, Laplace(lengthscale), matern_state(0, lengthscale), lengthscale
    ):
        assert column_error(*columns) < 1e-15
        visible = exact > 1e-290
        np.testing.assert_allclose(got[visible], exact[visible], rtol=1e-15 if lengthscale >= 1 else 2e-13)
        assert (got[~visible] < 1e-289).all()


@pytest.mark.parametrize("lengthscale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("level", LEVELS)
def test_brownian(level, lengthscale):
    state = markov_state(lambda x: 1 + x / mp.mpf(lengthscale), lambda x: mp.mpf(1))
    for columns, features, _ in pairs(level, Brownian(1 / lengthscale), state, 1.0):
        assert column_error(*columns) < 2e-15
        np.testing.assert_allclose(*features, rtol=1e-14, atol=1e-200)


@pytest.mark.parametrize("level", LEVELS)
def test_brownian_bridge(level):
    state = markov_state(lambda x: x, lambda x: 1 - x)
    for columns, features, _ in pairs(level, BrownianBridge(), state, 1.0):
        assert column_error(*columns) < 2e-15
        np.testing.assert_allclose(*features, rtol=1e-14, atol=1e-200)


@pytest.mark.parametrize("lengthscale", [1e-2, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("level", LEVELS)
def test_user_markov_loses_what_its_docstring_says(level, lengthscale):
    # D(x, y) is a difference of products: its relative error is eps over the gap in lengthscales
    kernel = Markov(p=np.exp, q=lambda x: np.exp(-x), lengthscale=lengthscale)
    tolerance = 40 * EPS * max(2.0**level * lengthscale, 1 / lengthscale)
    for columns, (got, exact), _ in pairs(level, kernel, matern_state(0, lengthscale), lengthscale):
        assert column_error(*columns) < tolerance
        assert np.abs(got - exact).max() < tolerance * exact.max()


@pytest.mark.parametrize("lengthscale", [1e-4, 1e-2, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("kernel", "order"), [(Matern32, 1), (Matern52, 2)])
def test_matern(kernel, order, level, lengthscale):
    # measured: columns 2e-14 and 2e-13; features 1.1e-13 and 3e-12 of their largest value between two neighbours.
    # Where a neighbour is missing the prior takes its place, and much smaller features carry its rounding.
    for columns, (got, exact), is_open in pairs(
        level, kernel(lengthscale), matern_state(order, lengthscale), lengthscale
    ):
        assert column_error(*columns) < 1e-12
        size = np.abs(exact).max(axis=0)
        assert (np.abs(got - exact)[~is_open] <= 1e-11 * size).all()
        assert (np.abs(got - exact)[is_open] <= 1e-11 * size).all()
