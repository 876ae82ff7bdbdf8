"""Oracles: the conjugate Gaussian posterior, quadrature on a line, and draws with known R-hat and ESS."""

from __future__ import annotations

import numpy as np
import pytest
from linear_gaussian import LinearGaussian

from dtmgp import TMGPRegressor
from dtmgp.analysis import calibrate, effective_sample_size, split_rhat, stretch_sampler
from dtmgp.errors import InputError


def test_conjugate_posterior_in_two_dimensions():
    """y_k ~ N(a.x z_k, s^2) with two known settings and a Gaussian prior; the box is too wide to matter."""
    s, prior_std = 0.5, 1.0
    model = LinearGaussian([1.0, 2.0, 0.7], s=s, low=-20.0, high=20.0)
    rng = np.random.default_rng(1)
    setting = rng.uniform(-1, 1, size=12)
    y = 1.0 * 0.8 + 2.0 * -0.4 + 0.7 * setting + s * rng.normal(size=12)
    found = calibrate(
        model,
        y,
        known={"x2": setting},
        log_prior=lambda x: -0.5 * (x**2).sum(axis=1) / prior_std**2,
        steps=2000,
        random_state=0,
    )
    design = np.tile([1.0, 2.0], (12, 1))
    precision = design.T @ design / s**2 + np.eye(2) / prior_std**2
    mean = np.linalg.solve(precision, design.T @ (y - 0.7 * setting) / s**2)
    covariance = np.linalg.inv(precision)
    std = np.sqrt(np.diag(covariance))
    assert found.names == ("x0", "x1")
    assert np.all(found.rhat < 1.02)
    assert np.all(found.effective > 2000)
    # 5 Monte-Carlo standard errors, 4 numbers: false alarms in about 1 of 400,000
    assert np.all(np.abs(found.mean - mean) < 5 * std / np.sqrt(found.effective))
    assert np.all(np.abs(found.std / std - 1) < 5 / np.sqrt(2 * found.effective))
    correlation = np.corrcoef(found.draws.T)[0, 1]
    assert correlation == pytest.approx(covariance[0, 1] / std.prod(), abs=0.02)


def test_uniform_prior_on_a_box_against_quadrature():
    model = LinearGaussian([1.0], [0.8], s=0.2)
    y = np.array([0.9, 1.3, 0.7])
    found = calibrate(model, y, steps=3000, random_state=0)
    u = (np.arange(20000) + 0.5)[:, None] / 20000
    log = sum(model.log_prob(u, np.full(len(u), v)) for v in y)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    mean = weights @ u[:, 0]
    std = np.sqrt(weights @ (u[:, 0] - mean) ** 2)
    assert abs(found.mean[0] - mean) < 5 * std / np.sqrt(found.effective[0])
    low, high = found.interval(0.9)[0]
    assert np.interp([low, high], u[:, 0], weights.cumsum()) == pytest.approx([0.05, 0.95], abs=0.01)
    assert found.draws.min() >= 0.0
    assert found.draws.max() <= 1.0


def test_emulated_simulator_recovers_the_input():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 2))
    y = np.sin(1.5 * X[:, 0]) + 2 * X[:, 1] + 0.1 * rng.normal(size=400)
    model = TMGPRegressor(level=5, bounds=[[0, 1], [0, 1]]).fit(X, y)
    truth = np.array([0.3, 0.6])
    data = np.sin(0.45) + 1.2 + 0.1 * rng.normal(size=4)
    found = calibrate(model, data, known={1: truth[1]}, steps=300, random_state=0)
    assert abs(found.mean[0] - truth[0]) < 4 * found.std[0]  # 1 of 16,000 for a Gaussian posterior
    assert found.std[0] < 0.08


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_rhat_of_gaussian_chains(shift):
    """Chains N(+-shift, 1): variance ratio 1 + shift^2 of a balanced pair, R-hat near its root before ranking."""
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(2, 500, 10, 1))
    draws[0] += shift
    draws[1] -= shift
    found = split_rhat(draws)[0]
    # within ranks the pooled variance is 1: between/total = shift^2/(1 + shift^2) * 4/3 (4 half chains)
    expected = np.sqrt(1 + shift**2 * 4 / 3)
    assert found == pytest.approx(expected, rel=0.03)


def test_rhat_sees_different_spreads():
    draws = np.random.default_rng(0).normal(size=(2, 500, 10, 1))
    draws[1] *= 3
    assert split_rhat(draws)[0] > 1.1


def test_effective_size_of_an_autoregression():
    """ESS of AR(1) is n (1 - r)/(1 + r)."""
    rng, r = np.random.default_rng(0), 0.8
    noise = rng.normal(size=(4, 4000, 5, 1))
    draws = np.empty_like(noise)
    draws[:, 0] = noise[:, 0] / np.sqrt(1 - r**2)
    for t in range(1, 4000):
        draws[:, t] = r * draws[:, t - 1] + noise[:, t]
    expected = draws.size * (1 - r) / (1 + r)
    assert effective_sample_size(draws)[0] == pytest.approx(expected, rel=0.1)


def test_sampler_is_affine_invariant():
    rng = np.random.default_rng(0)
    start = rng.normal(size=(2, 8, 2))
    matrix, shift = np.array([[3.0, 0.2], [0.0, 1e-3]]), np.array([5.0, -1.0])
    inverse = np.linalg.inv(matrix)
    plain = stretch_sampler(lambda x: -0.5 * (x**2).sum(1), start, 50, 0, np.random.default_rng(1))
    moved = stretch_sampler(
        lambda x: -0.5 * (((x - shift) @ inverse) ** 2).sum(1),
        start @ matrix + shift,
        50,
        0,
        np.random.default_rng(1),
    )
    np.testing.assert_allclose(moved.draws, plain.draws @ matrix + shift, rtol=1e-8, atol=1e-8)
    assert 0.3 < plain.acceptance < 0.95


def test_warns_and_refuses(monkeypatch):
    model = LinearGaussian([1.0], s=0.1)
    with monkeypatch.context() as patch:
        patch.setattr("dtmgp.analysis.calibration.GOOD_RHAT", 0.5)
        with pytest.warns(UserWarning, match="R-hat"):
            calibrate(model, [0.5], steps=20, random_state=1)
    with pytest.raises(InputError, match="every input"):
        calibrate(model, [0.5], known={0: 0.5})
    with pytest.raises(InputError, match="known input"):
        calibrate(model, [0.5], known={0: 7.0})
    with pytest.raises(InputError, match="observations"):
        calibrate(model, [np.nan])
    with pytest.raises(InputError, match="positive density"):
        calibrate(model, [0.5], log_prior=lambda x: np.full(len(x), -np.inf))
    with pytest.raises(InputError, match="walkers"):
        calibrate(model, [0.5], walkers=3)
