"""Oracles: the moments of a Gaussian mixture, its cdf by a KS test, Silverman's and Scott's formulas by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dtmgp.baselines import InputIgnoringKDE, scott_bandwidth, silverman_bandwidth
from dtmgp.errors import InputError
from dtmgp.testing import check_baseline

X = np.random.default_rng(0).random((60, 2))
Y = np.random.default_rng(1).exponential(size=60)


@pytest.mark.parametrize("bandwidth", [0.0, 0.4, silverman_bandwidth, scott_bandwidth])
def test_interface(bandwidth):
    check_baseline(InputIgnoringKDE(bandwidth))


@pytest.mark.parametrize("bandwidth", [0.4, silverman_bandwidth])
def test_draws_have_the_law_of_the_mixture(bandwidth):
    model = InputIgnoringKDE(bandwidth).fit(X, Y)
    draws = model.sample_y(X[:1], 5000, 2)[0]
    cdf = lambda t: stats.norm.cdf((t[:, None] - Y) / model.bandwidth_).mean(axis=1)  # noqa: E731
    assert stats.kstest(draws, cdf).pvalue > 1e-3  # false-alarm rate 1e-3, fixed seed


def test_predict_gives_the_moments_of_the_mixture():
    mean, std = InputIgnoringKDE(0.4).fit(X, Y).predict(X[:3], return_std=True)
    np.testing.assert_allclose(mean, Y.mean())
    np.testing.assert_allclose(std, np.sqrt(Y.var() + 0.16))


def test_zero_bandwidth_resamples():
    draws = InputIgnoringKDE(0.0).fit(X, Y).sample_y(X, 50, 0)
    assert set(draws.ravel()) <= set(Y)


def test_bandwidth_rules():
    quartiles = np.quantile(Y, [0.25, 0.75])
    silverman = 0.9 * min(Y.std(), (quartiles[1] - quartiles[0]) / 1.34) * 60**-0.2
    assert silverman_bandwidth(Y) == pytest.approx(silverman)
    assert scott_bandwidth(Y) == pytest.approx(1.06 * Y.std() * 60**-0.2)
    # More than half of the values equal: the quartiles say nothing, the standard deviation does.
    assert silverman_bandwidth(np.array([0.0] * 9 + [1.0])) > 0


def test_replicates_are_pooled():
    flat = InputIgnoringKDE().fit(np.vstack([X, X]), np.concatenate([Y, Y + 1]))
    stacked = InputIgnoringKDE().fit(X, np.stack([Y, Y + 1], axis=1))
    assert flat.bandwidth_ == pytest.approx(stacked.bandwidth_)
    np.testing.assert_allclose(flat.predict(X), stacked.predict(X))


def test_refusals():
    with pytest.raises(InputError, match="bandwidth"):
        InputIgnoringKDE(-1.0)
    with pytest.raises(InputError, match="call fit"):
        InputIgnoringKDE().predict(X)
