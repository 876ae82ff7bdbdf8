"""Oracles: derivatives in closed form, and the observed order of the difference formula."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from linear_gaussian import LinearGaussian

from dtmgp import TMGPRegressor
from dtmgp.analysis import Mean, Quantile, StandardDeviation, moment_gradients
from dtmgp.errors import InputError


class Curved(LinearGaussian):
    """Mean sin(x0) x1, standard deviation exp(x0 / 2)."""

    def __init__(self):
        super().__init__([0.0, 0.0], low=0.0, high=2.0)

    def predict(self, X, return_std=False):
        super().predict(X)  # refuses inputs outside
        X = np.asarray(X)
        mean = np.sin(X[:, 0]) * X[:, 1]
        return (mean, np.exp(X[:, 0] / 2)) if return_std else mean


# in the middle, next to a face, and at corners
POINTS = np.array([[1.0, 0.5], [1e-4, 1.0], [2.0, 2.0], [0.0, 0.3], [1.3, 2.0 - 1e-5]])


def exact(x):
    mean = np.column_stack([np.cos(x[:, 0]) * x[:, 1], np.sin(x[:, 0])])
    std = np.column_stack([0.5 * np.exp(x[:, 0] / 2), np.zeros(len(x))])
    return mean, std


def test_closed_forms_inside_and_at_the_faces():
    mean, std = exact(POINTS)
    np.testing.assert_allclose(moment_gradients(Curved(), POINTS), mean, atol=5e-6)
    np.testing.assert_allclose(moment_gradients(Curved(), POINTS, StandardDeviation()), std, atol=5e-6)
    both = mean + 1.6448536269514722 * std
    np.testing.assert_allclose(moment_gradients(Curved(), POINTS, Quantile(0.95)), both, atol=1e-5)


def test_second_order():
    errors = [
        np.abs(moment_gradients(Curved(), POINTS, step=step)[:, 0] - exact(POINTS)[0][:, 0])
        for step in (0.04, 0.02, 0.01)
    ]
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert np.all((orders > 1.8) & (orders < 2.2))


def test_exact_for_linear_functions_in_any_units():
    model = LinearGaussian([3e-6, -2e6], [1.0, 2.0], low=-5.0, high=1000.0)
    x = np.array([[0.0, 10.0], [-5.0, 1000.0]])
    np.testing.assert_allclose(moment_gradients(model, x), np.tile(model.a, (2, 1)), rtol=1e-6, atol=1e-4)


def test_integral_of_a_fitted_gradient_is_the_difference_of_the_mean():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    model = TMGPRegressor(bounds=[[0, 1], [0, 1]]).fit(X, np.sin(4 * X[:, 0]) * X[:, 1])
    u = (np.arange(400) + 0.5) / 400
    line = np.column_stack([u, np.full(400, 0.3)])
    slope = moment_gradients(model, line)[:, 0].mean()
    ends = model.predict([[0.0, 0.3], [1.0, 0.3]])
    assert slope == pytest.approx(ends[1] - ends[0], abs=2e-4)


def test_a_model_may_bring_its_own():
    model = LinearGaussian([1.0, 2.0])
    model.moment_gradients = lambda X: (np.full((len(X), 2), 7.0), np.full((len(X), 2), 8.0))
    x = np.array([[0.5, 0.5]])
    assert moment_gradients(model, x).tolist() == [[7.0, 7.0]]
    assert moment_gradients(model, x, StandardDeviation()).tolist() == [[8.0, 8.0]]
    np.testing.assert_allclose(moment_gradients(model, x, own=False), [[1.0, 2.0]], rtol=1e-9)
    model.moment_gradients = lambda X: (np.full((len(X), 2, 2), 7.0),) * 2
    assert moment_gradients(model, x, Mean(output=1)).shape == (1, 2)


def test_refusals():
    model = LinearGaussian([1.0, 2.0])
    with pytest.raises(InputError, match="step"):
        moment_gradients(model, [[0.5, 0.5]], step=0.0)
    with pytest.raises(InputError, match="'x1'"):
        moment_gradients(model, [[0.5, 1.5]])
    with pytest.raises(InputError, match="shape"):
        moment_gradients(model, [[0.5]])
    assert isinstance(model.cube_, SimpleNamespace)
