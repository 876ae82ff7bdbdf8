"""Oracles: functions that the interpolants reproduce exactly, SciPy's grid interpolation, and fresh predictions."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator
from scipy.stats import norm

from dtmgp import TMGPRegressor
from dtmgp.report.surrogate import LEVELS, Surrogate, build, encode, functionals, trend_terms


class Smooth:
    """Mean m(x), standard deviation s(x), Gaussian; on a box that is not the unit cube."""

    def __init__(self, dim, mean, std):
        self.mean, self.std = mean, std
        self.cube_ = type(
            "Box",
            (),
            {"low": np.full(dim, -1.0), "high": np.full(dim, 3.0), "names": [*"abcdefghijklm"[:dim]]},
        )()

    def predict(self, X, return_std=False):
        return (self.mean(X), self.std(X)) if return_std else self.mean(X)

    def predict_quantiles(self, X, q):
        return self.mean(X)[:, None] + self.std(X)[:, None] * norm.ppf(q)

    def predict_interval(self, X, coverage=0.9):
        raise NotImplementedError

    sample_y = cdf = log_prob = predict_interval


def unit(x):
    return (x + 1.0) / 4.0


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_grid_is_scipys_linear_interpolation(dim):
    model = Smooth(dim, lambda x: np.sin(3 * x).prod(axis=1), lambda x: 1 + x[:, 0] ** 2)
    found = build(model, seed=1)
    assert found.kind == "grid"
    axes = [np.linspace(0, 1, n) for n in found.sizes]
    table = found.weights.reshape(*found.sizes, -1)
    u = np.random.default_rng(0).uniform(size=(200, dim))
    u[:4] = [[0.0] * dim, [1.0] * dim, [0.5] * dim, [1 / 3] * dim]
    np.testing.assert_allclose(found(u), RegularGridInterpolator(axes, table)(u), atol=1e-12)
    truth = functionals(model, u * 4 - 1, None)
    assert np.abs(found(u) - truth).max() / 3.3 < found.largest.max() * 2  # 3.3: mean std over the box


def test_quadratics_in_many_inputs_are_nearly_exact():
    """The trend holds coordinates and squares; the interpolant must not spoil them."""
    model = Smooth(6, lambda x: 2 * x[:, 0] - 0.5 * x[:, 1] ** 2, lambda x: 1 + 0.2 * x[:, 2])
    found = build(model, points=200, seed=0)
    assert found.kind == "matern"
    assert found.largest.max() < 1e-4  # of the standard deviation; measured 6e-6


def test_stated_error_is_that_at_other_inputs():
    model = Smooth(5, lambda x: np.sin(x[:, 0]) * x[:, 1] + 0.3 * x[:, 2], lambda x: 0.5 + 0.1 * x[:, 3] ** 2)
    found = build(model, seed=0)
    u = np.random.default_rng(5).uniform(size=(1000, 5))
    x = u * 4 - 1
    error = np.abs(found(u) - functionals(model, x, None)) / model.std(x).mean()
    ratio = np.sqrt((error**2).mean(axis=0)) / found.rms
    assert np.all((ratio > 0.5) & (ratio < 2.0))
    assert found.rms.max() < 0.01  # measured 0.002


def test_more_points_are_better():
    model = Smooth(5, lambda x: np.sin(x[:, 0]) * x[:, 1] + 0.3 * x[:, 2], lambda x: np.ones(len(x)))
    few, many = (build(model, points=n, seed=0).rms[0] for n in (100, 800))
    assert many < 0.5 * few


def test_encoding_is_little_endian_rows():
    values = np.arange(6.0).reshape(2, 3)
    assert np.frombuffer(base64.b64decode(encode(values)), "<f8").tolist() == [0, 1, 2, 3, 4, 5]
    assert np.frombuffer(base64.b64decode(encode(values, True)), "<f4").tolist() == [0, 1, 2, 3, 4, 5]
    assert trend_terms(np.array([[0.0, 0.75]])).tolist() == [[1.0, -1.0, 0.5, 1.0, 0.25]]


def test_several_outputs_of_a_fitted_model():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 2))
    Y = np.stack([X[:, 0], 5 + X[:, 1]], axis=1) + 0.1 * rng.normal(size=(80, 2))
    model = TMGPRegressor(level=4).fit(X, Y)
    found = build(model, output=1)
    assert isinstance(found, Surrogate)
    x = X[:5]
    u = (x - model.cube_.low) / (model.cube_.high - model.cube_.low)
    np.testing.assert_allclose(found(u)[:, 0], model.predict(x)[:, 1], atol=0.01)
    np.testing.assert_allclose(found(u)[:, 1:], model.predict_quantiles(x, LEVELS)[:, 1], atol=0.01)
