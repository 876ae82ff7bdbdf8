"""Oracles: exact Bayesian linear regression, the stopping rules by hand, the same runs in another form."""

from __future__ import annotations

import time

import numpy as np
import pytest

from dtmgp.baselines import BNNReLU
from dtmgp.baselines.networks import constant_rate
from dtmgp.baselines.networks.regressor import _Plan
from dtmgp.errors import InputError
from dtmgp.inference import Predictive
from dtmgp.inference.trainer import Settings
from dtmgp.testing import check_baseline


def data(n=60, replicates=1, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.random((n, 2))
    y = np.sin(6 * X[:, :1]) + X[:, 1:] ** 2 + 0.1 * generator.standard_normal((n, replicates))
    return X, 50 + 10 * y


@pytest.mark.parametrize(
    "options", [{"features": (8,)}, {"features": (8, 6), "widths": (2,)}], ids=["plain", "narrow"]
)
def test_interface(options):
    check_baseline(BNNReLU(epochs=3, **options))


def test_without_hidden_units_it_is_exact_bayesian_linear_regression():
    generator = np.random.default_rng(1)
    X = generator.multivariate_normal(np.zeros(3), [[1, 0.6, 0], [0.6, 1, 0.3], [0, 0.3, 1]], 80)
    y = X @ [1.0, -2.0, 0.5] + 0.5 * generator.standard_normal(80)
    model = BNNReLU(features=(), prior_mean=0.3, prior_std=0.4, epochs=500, learning_rate=0.1).fit(X, y)
    layer, likelihood = model.model_.maps[0], model.model_.likelihood
    rows = np.hstack([(X - X.mean(0)) / X.std(0), np.ones((80, 1))])
    target = (y - y.mean()) / y.std()
    noise = likelihood.log_noise.exp().item() ** 2
    precision = rows.T @ rows / noise + np.eye(4) / 0.4**2
    expected = np.linalg.solve(precision, rows.T @ target / noise + 0.3 / 0.4**2)
    found = np.append(layer.weights.mean.detach().numpy()[:, 0], layer.bias.mean.item())
    # Mean-field for a Gaussian posterior: its mean, and variances 1/diag(precision). Measured 7e-7 and 8e-7.
    np.testing.assert_allclose(found, expected, atol=2e-5)
    variances = np.append(layer.weights.variance.detach().numpy()[:, 0], layer.bias.variance.item())
    np.testing.assert_allclose(variances, 1 / np.diag(precision), rtol=2e-4)
    # the noise that maximises the bound is the expected squared residual
    square = np.mean((target - rows @ expected) ** 2) + np.mean(rows**2 @ variances)
    assert noise == pytest.approx(square, rel=1e-4)  # measured 7e-6


def test_training_lowers_the_loss_and_beats_a_constant():
    X, y = data(replicates=4)
    model = BNNReLU(features=(30,), epochs=80, batch_size=20).fit(X, y)
    losses = [step.loss for step in model.trace_]
    assert len(losses) == 80
    # measured: from 9.5 to 1.12; a constant with its normal noise has 1.42 without any KL
    assert np.mean(losses[-5:]) < 1.3 < losses[0]
    new, truth = data(200, 50, seed=5)
    error = np.sqrt(np.mean((model.predict(new) - truth.mean(axis=1)) ** 2))
    assert error < 0.5 * truth.mean(axis=1).std()  # measured 0.30
    seconds = [step.seconds for step in model.trace_]
    assert np.all(np.diff(seconds) > 0)
    assert model.reason_ == "all epochs done"


def test_same_seed_same_bits():
    X, y = data()
    first, second, other = (BNNReLU(features=(6,), epochs=3, random_state=s).fit(X, y) for s in (4, 4, 5))
    assert first.predict(X).tobytes() == second.predict(X).tobytes()
    assert not np.allclose(first.predict(X), other.predict(X))
    assert [step.loss for step in first.trace_] == [step.loss for step in second.trace_]


def test_draws_do_not_depend_on_the_other_rows_or_on_the_pieces(monkeypatch):
    X, y = data()
    model = BNNReLU(features=(6,), epochs=3).fit(X, y)
    whole, moments = model.sample_y(X, 7, 1), model.predict(X, return_std=True)
    np.testing.assert_allclose(model.sample_y(X[:5], 7, 1), whole[:5], rtol=1e-12)
    monkeypatch.setattr("dtmgp.baselines.networks.regressor.ENTRIES", 100)  # two rows, then one, at a time
    np.testing.assert_allclose(model.sample_y(X, 7, 1), whole, rtol=1e-12)
    np.testing.assert_allclose(model.predict(X, return_std=True), moments, rtol=1e-12)
    # independent over rows: equal inputs get different draws
    assert not np.isclose(*model.sample_y(X[[0, 0]], 1, 1)).any()


def test_draws_have_the_predicted_moments():
    X, y = data()
    model = BNNReLU(features=(6,), epochs=3, initial_std=1.0, prediction_samples=4096).fit(X, y)
    mean, std = model.predict(X[:4], return_std=True)
    draws = model.sample_y(X[:4], 100_000, 0)
    # five standard errors of the draws' mean; the prediction's own draws are low-discrepancy
    assert (np.abs(draws.mean(axis=1) - mean) < 5 * std / np.sqrt(100_000) + 0.002 * std).all()
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.03)


def test_replicate_columns_equal_repeated_rows():
    X, y = data(replicates=3)
    columns = BNNReLU(features=(6,), epochs=5).fit(X, y)
    rows = BNNReLU(features=(6,), epochs=5).fit(np.repeat(X, 3, axis=0), y.ravel())
    assert [s.loss for s in columns.trace_] == pytest.approx([s.loss for s in rows.trace_], rel=1e-5)
    np.testing.assert_allclose(columns.predict(X), rows.predict(X), rtol=1e-5)


def test_units_of_the_data_do_not_matter():
    X, y = data()
    mean, std = BNNReLU(features=(6,), epochs=5).fit(X, y).predict(X, return_std=True)
    other = BNNReLU(features=(6,), epochs=5).fit(1e3 * X - 7, 1e-4 * y + 9).predict(1e3 * X - 7, True)
    np.testing.assert_allclose((other[0] - 9) * 1e4, mean, rtol=1e-3)
    np.testing.assert_allclose(other[1] * 1e4, std, rtol=1e-3)


def test_time_limit_and_callbacks_stop_the_training():
    X, y = data()
    model = BNNReLU(features=(6,), epochs=10_000, time_limit=0.3).fit(X, y)
    assert model.reason_ == "time limit"
    assert 1 <= len(model.trace_) < 10_000
    # everything but the last epoch was within the limit
    assert len(model.trace_) == 1 or model.trace_[-2].seconds < 0.3
    heard = []

    def fourth(state):
        heard.append(state.epoch)
        return state.epoch == 4

    model = BNNReLU(features=(6,), epochs=100, callbacks=[fourth]).fit(X, y)
    assert heard == [1, 2, 3, 4]
    assert model.reason_ == "stopped by a callback"
    with pytest.raises(InputError, match="time_limit"):
        BNNReLU(time_limit=-1.0)


def test_schedule_is_the_callers():
    X, y = data()
    rates = []

    def note(state):
        rates.append(state.trace[-1].rate)

    BNNReLU(features=(6,), epochs=3, schedule=constant_rate, learning_rate=0.02, callbacks=[note]).fit(X, y)
    assert rates == [0.02] * 3
    rates.clear()
    BNNReLU(features=(6,), epochs=10, learning_rate=0.02, callbacks=[note]).fit(X, y)
    assert rates[0] < rates[3] > rates[-1]  # one cycle


def test_schedule_follows_time_where_time_is_further():
    plan = _Plan(begun=time.perf_counter() - 90, time_limit=100.0)
    assert plan.rate(0.2) == pytest.approx(Settings().rate(0.9), rel=0.05)  # half a second is 0.05
    assert plan.rate(0.99) == Settings().rate(0.99)


def test_another_objective():
    X, y = data()
    model = BNNReLU(features=(6,), epochs=5, objective=Predictive(samples=4)).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert "Predictive" not in repr(model)


def test_an_interrupted_run_goes_on_from_its_checkpoint(tmp_path):
    X, y = data()
    options = {"features": (6,), "epochs": 14, "batch_size": 20}
    whole = BNNReLU(**options).fit(X, y)

    def press(state):
        if state.epoch == 12:
            raise KeyboardInterrupt

    path = tmp_path / "run.checkpoint"
    half = BNNReLU(**options, checkpoint=path, callbacks=[press]).fit(X, y)
    assert half.reason_ == "interrupted"
    assert path.exists()  # of epoch 10
    resumed = BNNReLU(**options, checkpoint=path).fit(X, y)
    assert resumed.predict(X).tobytes() == whole.predict(X).tobytes()
    assert len(resumed.trace_) == 14
    assert not path.exists()
    BNNReLU(**options, checkpoint=path, callbacks=[press]).fit(X, y)
    with pytest.raises(InputError, match="the state of another run"):
        BNNReLU(**options, checkpoint=path, noise=0.2).fit(X, y)


def test_constant_outputs_and_constant_columns_do_no_harm():
    X = np.random.default_rng(3).random((20, 3))
    X[:, 1] = 5.0
    model = BNNReLU(features=(6,), epochs=5).fit(X, np.full(20, 7.0))
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
