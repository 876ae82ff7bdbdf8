"""Oracles: data from a quadratic mean and log scale (recovered), weighted least squares by lstsq, the network."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dtmgp.baselines import InputIgnoringKDE, QuadraticBootstrap
from dtmgp.errors import InputError
from dtmgp.metrics import average_ks
from dtmgp.simulators import ActivityNetwork, latin_hypercube
from dtmgp.testing import check_baseline


def mean(x):
    return 3 + x[:, 0] - 2 * x[:, 0] * x[:, 1] + x[:, 1] ** 2


def scale(x):
    return np.exp(-1 + x[:, 0] - 0.5 * x[:, 1] ** 2)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_interface(dim):
    check_baseline(QuadraticBootstrap(), dim=dim)


def test_exact_quadratic_is_reproduced():
    X = np.random.default_rng(0).uniform(-3, 7, (50, 2))
    model = QuadraticBootstrap(ridge=1e-14).fit(X, mean(X))
    np.testing.assert_allclose(model.predict(X), mean(X), rtol=1e-9)
    assert (model.predict(X, return_std=True)[1] < 1e-6).all()


def test_mean_scale_and_shape_of_the_noise_are_recovered():
    generator = np.random.default_rng(1)
    X = generator.random((2000, 2))
    noise = generator.exponential(size=(2000, 20)) - 1  # mean 0, variance 1, skewed
    model = QuadraticBootstrap().fit(X, mean(X)[:, None] + scale(X)[:, None] * noise)
    new = generator.random((20, 2))
    predicted, std = model.predict(new, return_std=True)
    # 40,000 outputs, six weights each: errors of about 1 % of the scale; three times that is the alarm.
    np.testing.assert_allclose(predicted, mean(new), atol=0.03 * scale(new).max())
    np.testing.assert_allclose(std, scale(new), rtol=0.05)
    draws = model.sample_y(new[:1], 4000, 2)[0]
    expected = stats.expon(loc=mean(new[:1])[0] - scale(new[:1])[0], scale=scale(new[:1])[0])
    assert stats.ks_1samp(draws, expected.cdf).statistic < 0.04


def test_replicates_equal_repeated_rows():
    generator = np.random.default_rng(2)
    X = generator.random((100, 2))
    y = mean(X)[:, None] + generator.normal(size=(100, 2))
    stacked = QuadraticBootstrap().fit(X, y).predict(X, return_std=True)
    repeated = QuadraticBootstrap().fit(np.vstack([X, X]), y.T.ravel()).predict(X, return_std=True)
    np.testing.assert_allclose(stacked, repeated, rtol=1e-9)


@pytest.mark.parametrize("y", [np.zeros(20), np.full(20, 7.0)])
def test_constant_outputs_and_constant_columns_do_no_harm(y):
    X = np.random.default_rng(3).random((20, 3))
    X[:, 1] = 5.0
    model = QuadraticBootstrap().fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-6)
    np.testing.assert_allclose(model.sample_y(X, 4, 0), np.repeat(y[:, None], 4, axis=1), atol=1e-4)


def test_fewer_rows_than_terms():
    X = np.random.default_rng(4).random((10, 6))
    assert np.isfinite(QuadraticBootstrap().fit(X, X[:, 0]).sample_y(X, 3, 0)).all()


def test_better_than_ignoring_the_inputs_on_the_activity_network():
    network = ActivityNetwork()
    X = latin_hypercube(2000, network.bounds, 0)
    y = network.sample(X, 10, 1)
    test = np.random.default_rng(2).uniform(0.5, 5.0, (100, 13))
    truth = network.sample(test, 1000, 3)
    scores = [
        average_ks(truth, model.fit(X, y).sample_y(test, 1000, 4))
        for model in (QuadraticBootstrap(), InputIgnoringKDE())
    ]
    # Measured 0.05 and 0.10; two equal laws score 0.037.
    assert scores[0] < 0.065
    assert scores[1] > 0.085


def test_refusals():
    with pytest.raises(InputError, match="quadratic terms"):
        QuadraticBootstrap().fit(np.zeros((3, 200)), np.zeros(3))
    with pytest.raises(InputError, match="2 columns, as in the training data"):
        QuadraticBootstrap().fit(np.eye(4)[:, :2], np.arange(4.0)).predict(np.zeros((1, 3)))
    with pytest.raises(InputError, match="row 1, column 0"):
        QuadraticBootstrap().fit([[0.0], [np.inf]], [0.0, 1.0])
    with pytest.raises(InputError, match="ridge"):
        QuadraticBootstrap(ridge=0.0)
