"""Oracles: dense kriging with the trend plugged in, the regressor's own file, the process that made the data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dtmgp import DTMGPRegressor
from dtmgp.estimators.exact_layer import features_at, null_evidence, replicates_of, write_posterior
from dtmgp.inference import Runs
from dtmgp.kriging.exact import ExactKriging, correlation
from dtmgp.layers import InducedFeatures
from dtmgp.likelihoods import GaussianLikelihood
from dtmgp.model.architecture import deep_model


def smooth(n=60, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    return x, np.sin(5 * x[:, 0]) * x[:, 1] + noise * rng.normal(size=n)


def written(replicates=2, noise=0.05):
    x, y = smooth(25, 0.2)
    x, y = np.repeat(x, replicates, axis=0), np.repeat(y, replicates)
    y = y + 0.1 * np.random.default_rng(1).normal(size=len(y))
    runs = Runs.group(x, y[:, None], dtype=torch.float64)
    data = replicates_of(runs, runs.y)
    kriging = ExactKriging(data, 2, np.array([0.4, 1.0]), 1.3, noise, 0.7, -12.0, 3)
    model = deep_model(2, GaussianLikelihood(), hidden_widths=(), levels=(features_at(kriging, 0),)).double()
    return model, kriging, write_posterior(model, kriging)


@pytest.mark.parametrize("noise", [0.05, 1e-6])
def test_the_layer_is_kriging_with_its_trend_plugged_in(noise):
    model, kriging, _ = written(noise=noise)
    data = kriging.data
    new = np.random.default_rng(3).random((9, 2)) * 1.4 - 0.2
    own = 1.3 * correlation(data.inputs, data.inputs, kriging.lengthscales, 2) + np.diag(noise / data.count)
    cross = 1.3 * correlation(new, data.inputs, kriging.lengthscales, 2)
    b = kriging.trend
    residual = data.mean - b[0] - (data.inputs - 0.5) @ b[1:]
    mean = b[0] + (new - 0.5) @ b[1:] + cross @ np.linalg.solve(own, residual)
    variance = 1.3 - np.einsum("ij,ji->i", cross, np.linalg.solve(own, cross.T))
    with torch.no_grad():
        law = model(torch.from_numpy(new))
    np.testing.assert_allclose(law.mean[0, :, 0], mean, atol=1e-6)
    np.testing.assert_allclose(law.variance[0, :, 0], variance, atol=1e-6)
    np.testing.assert_allclose(law.mean[0, :, 0], kriging.predict(new)[0], atol=1e-6)


def test_the_start_knows_leverage_and_evidence():
    _, kriging, found = written()
    total = float((found.leverage[:, 0] * torch.from_numpy(kriging.data.count)).sum())
    assert found.effective == pytest.approx(total)
    assert found.exact
    assert found.log_evidence == -12.0
    z = np.repeat(kriging.data.mean, 2)
    expected = -0.5 * 50 * np.log(2 * np.pi * z.var())  # roughly: one number and its noise
    spread = kriging.data.spread.sum()
    assert null_evidence(kriging.data) < expected + spread


def test_smooth_functions_are_kriged_and_kept_in_files(tmp_path):
    x, y = smooth()
    est = DTMGPRegressor(random_state=0).fit(x, y)
    assert isinstance(est.model_.stack[0].features, InducedFeatures)
    assert "exact kriging" in est.summary()
    new = np.random.default_rng(5).random((200, 2))
    truth = np.sin(5 * new[:, 0]) * new[:, 1]
    mean, std = est.predict(new, return_std=True)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.01
    low, high = est.predict_interval(new, 0.9)
    assert ((low < truth) & (truth < high)).mean() > 0.8
    est.save(tmp_path / "model.dtmgp")
    again = DTMGPRegressor.load(tmp_path / "model.dtmgp")
    np.testing.assert_array_equal(again.predict(new, return_std=True)[1], std)
    functions = est.sample_functions(new, 300, random_state=0)
    spread = functions.std(axis=1)
    np.testing.assert_allclose(functions.mean(axis=1), mean, atol=5 * std.max())
    assert 0.5 < np.median(spread / std) < 1.1  # functions hold no noise


def test_an_output_scale_must_not_make_the_function_rougher():
    """Branin from 20 inputs: a quadratic fit asks for a power, kriging for none."""
    rng = np.random.default_rng(7)
    u = (rng.permuted(np.tile(np.arange(20), (2, 1)), axis=1).T + rng.random((20, 2))) / 20
    a, b = -5 + 15 * u[:, 0], 15 * u[:, 1]
    y = (b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6) ** 2
    y += 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10
    est = DTMGPRegressor(random_state=0).fit(u, y)
    assert est.warp_ == "identity"
    assert np.isfinite(est.log_prob(u, y)).all()


def test_what_does_not_depend_on_the_inputs_is_one_number():
    rng = np.random.default_rng(2)
    x, y = rng.random((40, 3)), rng.normal(size=40)
    est = DTMGPRegressor(random_state=0).fit(x, y)
    assert np.ptp(est.predict(rng.random((50, 3)))) < 0.1
