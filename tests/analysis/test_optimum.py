"""Oracles: optima known in closed form: corners of linear functions, a quadratic, and many local minima."""

from __future__ import annotations

import numpy as np
import pytest
from linear_gaussian import LinearGaussian

from dtmgp import TMGPRegressor
from dtmgp.analysis import Mean, Quantile, TailProbability, optimal_input
from dtmgp.errors import InputError


class Shaped(LinearGaussian):
    def __init__(self, function, dim, low=-1.0, high=1.0):
        super().__init__(np.zeros(dim), low=low, high=high)
        self.function = function

    def predict(self, X, return_std=False):
        super().predict(X)
        mean = self.function(np.asarray(X))
        return (mean, np.ones(len(mean))) if return_std else mean


def test_linear_functions_end_in_a_corner():
    model = LinearGaussian([1.0, -2.0, 0.5], [0.0, 3.0, 0.0])
    best = optimal_input(model, random_state=0)
    np.testing.assert_allclose(best.x, [0.0, 1.0, 0.0], atol=1e-9)
    assert best.value == pytest.approx(-2.0)
    assert best.at_bound.all()
    # 1.28 * 3 > 2: the large quantile is smallest where the noise is
    tail = optimal_input(model, Quantile(0.9), random_state=0)
    np.testing.assert_allclose(tail.x, [0.0, 0.0, 0.0], atol=1e-9)
    top = optimal_input(model, maximise=True, fixed={"x1": 0.25}, random_state=0)
    np.testing.assert_allclose(top.x, [1.0, 0.25, 1.0], atol=1e-9)
    assert top.value == pytest.approx(1.0)
    assert top.at_bound.tolist() == [True, False, True]


def test_tail_probability():
    """P(Y > 1) with mean -x0^2: smallest at the ends, largest at 0."""
    model = Shaped(lambda x: -((x[:, 0] - 0.2) ** 2), 1)
    best = optimal_input(model, TailProbability(1.0), maximise=True, random_state=0)
    assert best.x[0] == pytest.approx(0.2, abs=1e-4)
    assert best.value == pytest.approx(0.15865525393145707, rel=1e-6)
    worst = optimal_input(model, TailProbability(1.0, above=False), maximise=True, random_state=0)
    assert worst.x[0] == pytest.approx(-1.0)


def test_many_local_minima():
    """Rastrigin on [-1, 1]^2 around an off-centre optimum: nine local minima, one global."""
    shift = np.array([0.31, -0.17])

    def rastrigin(x):
        z = 1.5 * (x - shift)
        return (z**2 - 0.3 * np.cos(2 * np.pi * z) + 0.3).sum(axis=1)

    for seed in range(5):
        best = optimal_input(Shaped(rastrigin, 2), screen=256, random_state=seed)
        np.testing.assert_allclose(best.x, shift, atol=1e-4)
        assert np.all(np.diff(best.values) >= 0)


def test_a_kink_is_found():
    best = optimal_input(Shaped(lambda x: np.abs(x - 0.3).sum(axis=1), 4), random_state=0)
    np.testing.assert_allclose(best.x, 0.3, atol=1e-4)


def test_fitted_model_with_names_and_bounds():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform([0, 5], [1, 6], size=(150, 2)), columns=["rate [1/h]", "size"])
    y = (X["rate [1/h]"] - 0.4) ** 2 + (X["size"] - 5.7) ** 2
    best = optimal_input(TMGPRegressor(bounds=[[0, 1], [5, 6]]).fit(X, y), random_state=0)
    np.testing.assert_allclose(best.x, [0.4, 5.7], atol=0.02)  # of the emulator; measured 0.0009
    assert best.names == ("rate [1/h]", "size")
    inner = optimal_input(LinearGaussian([1.0]), bounds=[[0.25, 0.5]], random_state=0)
    assert inner.x[0] == pytest.approx(0.25)


def test_refusals():
    model = LinearGaussian([1.0, 2.0])
    with pytest.raises(InputError, match="'x0'"):
        optimal_input(model, fixed={"x0": 3.0})
    with pytest.raises(InputError, match="nothing to search"):
        optimal_input(model, Mean(), fixed={0: 0.5, 1: 0.5})
