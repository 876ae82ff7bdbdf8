"""Oracle: closed forms of additive and bilinear functions, and brute-force averages of a fitted model."""

from __future__ import annotations

import numpy as np
import pytest
from linear_gaussian import LinearGaussian

from dtmgp import TMGPRegressor
from dtmgp.analysis import Mean, Quantile, interactions, main_effects
from dtmgp.errors import InputError


@pytest.fixture(scope="module")
def bilinear():
    rng = np.random.default_rng(0)
    X = rng.uniform([0, 10], [1, 12], size=(300, 2))
    y = X[:, 0] * (X[:, 1] - 11) + 0.05 * rng.normal(size=300)
    return TMGPRegressor(bounds=[[0, 1], [10, 12]]).fit(X, y)


def test_linear_effects_are_exact_up_to_the_average():
    model = LinearGaussian([1.0, 2.0, 0.0], [0.5, 0.0, 0.1], low=2.0, high=4.0)
    found = main_effects(model, points=5, samples=512, random_state=0)
    centred = found.grid - 3.0
    np.testing.assert_allclose(found.effect, 9.0 + centred * model.a[:, None], atol=0.01)
    assert found.low is None  # this model draws no functions
    np.testing.assert_allclose(found.strength, model.a * np.sqrt(0.375), atol=1e-12)
    # the band of the others at x0: 2 x1 uniform on [4, 8], central 90%: width 0.9 * 4
    np.testing.assert_allclose((found.others_high - found.others_low)[0], 3.6, atol=0.03)
    quantile = main_effects(model, Quantile(0.9), inputs=["x0"], points=5, samples=64, random_state=0)
    slope = 1.0 + 1.2815515655446004 * 0.5
    np.testing.assert_allclose(np.diff(quantile.effect[0]), 0.5 * slope, rtol=1e-12)


def test_effects_of_a_fitted_model_are_its_averages(bilinear):
    found = main_effects(bilinear, inputs=[1], points=3, samples=1024, draws=0, random_state=0)
    u = (np.arange(2000) + 0.5) / 2000
    for value, effect in zip(found.grid[0], found.effect[0]):
        brute = bilinear.predict(np.column_stack([u, np.full_like(u, value)])).mean()
        assert effect == pytest.approx(brute, abs=2e-3)


def test_band_holds_the_truth_and_shrinks_with_the_draws_of_functions(bilinear):
    found = main_effects(bilinear, points=5, samples=128, draws=200, random_state=0)
    truth = np.stack([np.zeros(5), 0.5 * (found.grid[1] - 11)])
    assert found.low is not None
    width = found.high - found.low
    assert np.all(np.abs(found.effect - truth) < 1.5 * width)
    # posterior of an average over x0, from the covariance of the mean response
    x = np.column_stack([(np.arange(64) + 0.5) / 64, np.full(64, 11.0)])
    _, covariance = bilinear.predict(x, return_cov=True, include_noise=False)
    std = np.sqrt(covariance.mean())
    assert width[1, 2] == pytest.approx(
        2 * 1.645 * std, rel=0.2
    )  # 200 draws: 5% relative std of a quantile range


def test_interaction_of_a_product(bilinear):
    found = interactions(bilinear, points=5, samples=64, draws=50, random_state=0)
    u, v = found.grid[0] - 0.5, found.grid[1] - 11
    np.testing.assert_allclose(found.effect[0], np.outer(u, v), atol=0.05)
    weights = np.array([0.5, 1, 1, 1, 0.5]) / 4
    np.testing.assert_allclose(found.effect[0] @ weights, 0.0, atol=1e-12)
    np.testing.assert_allclose(weights @ found.effect[0], 0.0, atol=1e-12)
    assert found.low is not None
    # between the draws' quantiles, of which 10% may lie outside: all 25 within 1.5 widths of the middle
    middle, width = (found.low + found.high) / 2, found.high - found.low
    assert np.all(np.abs(np.outer(u, v) - middle[0]) < 1.5 * width[0])


def test_additive_function_has_no_interaction():
    found = interactions(LinearGaussian([1.0, 2.0, 3.0]), pairs=[("x0", "x2")], random_state=0)
    assert found.pairs == ((0, 2),)
    np.testing.assert_allclose(found.effect, 0.0, atol=1e-12)
    assert found.strength.shape == (1,)


def test_refusals():
    model = LinearGaussian([1.0, 2.0])
    with pytest.raises(InputError, match="one of x0, x1"):
        main_effects(model, inputs=["x7"])
    with pytest.raises(InputError, match="itself"):
        interactions(model, pairs=[(0, 0)])
    with pytest.raises(InputError, match="at least 2"):
        main_effects(model, Mean(), points=1)
    with pytest.raises(InputError, match="fitted"):
        main_effects(TMGPRegressor())
