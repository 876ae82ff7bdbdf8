"""Oracles: the interface check, textbook kriging under each kept state, equivalent data, limits in seconds."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import stats

from dtmgp.baselines import Baseline, VecchiaDGP
from dtmgp.baselines.vecchia import Covariance, Priors
from dtmgp.baselines.vecchia.kernels import correlation
from dtmgp.errors import InputError
from dtmgp.testing import check_baseline

GENERATOR = np.random.default_rng(0)
X = GENERATOR.random((30, 2)) * [2.0, 30.0] - [1.0, 5.0]
Y = 5.0 + 3.0 * np.sin(2 * X[:, 0] + X[:, 1] / 10) + 0.1 * GENERATOR.standard_normal(30)
NEW = GENERATOR.random((11, 2)) * [2.0, 30.0] - [1.0, 5.0]


@pytest.mark.parametrize(
    "model",
    [
        VecchiaDGP(1, n_iterations=40, random_state=0),
        VecchiaDGP(2, n_iterations=20, neighbours=8, n_draws=7, random_state=0),
        VecchiaDGP(2, n_iterations=20, neighbours=None, covariance=Covariance.EXP2, random_state=0),
        VecchiaDGP(3, n_iterations=10, width=1, covariance=Covariance.MATERN12, random_state=0),
    ],
    ids=repr,
)
def test_it_is_a_baseline(model):
    assert isinstance(model, Baseline)
    check_baseline(model)


def krige(points, values, queries, theta, nugget, covariance):
    matrix = correlation(points, points, covariance, theta) + nugget * np.eye(len(points))
    cross = correlation(queries, points, covariance, theta)
    mean = cross @ np.linalg.solve(matrix, values)
    return mean, 1 + nugget - np.einsum("qn,nq->q", cross, np.linalg.solve(matrix, cross.T))


@pytest.mark.parametrize("neighbours", [None, 29])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_predictions_are_kriging_through_the_layers(layers, neighbours):
    model = VecchiaDGP(layers, neighbours=neighbours, n_iterations=15, n_draws=4, random_state=1).fit(X, Y)
    low, high = X.min(axis=0), X.max(axis=0)
    order = np.lexsort(X.T[::-1])
    inputs, outputs = ((X - low) / (high - low))[order], ((Y - Y.mean()) / Y.std())[order]
    means, variances = [], []
    for state in model.states_:
        points, queries = inputs, (NEW - low) / (high - low)
        for values, thetas in zip(state.hidden, state.theta, strict=True):
            queries = np.column_stack(
                [
                    krige(points, values[:, k], queries, theta, 1.49e-8, Covariance.MATERN52)[0]
                    for k, theta in enumerate(thetas)
                ]
            )
            points = values
        mean, variance = krige(points, outputs, queries, state.outer_theta, state.nugget, Covariance.MATERN52)
        means.append(Y.mean() + Y.std() * mean)
        variances.append(Y.var() * state.scale * variance)
    got_means, got_variances = model.predict_draws(NEW)
    np.testing.assert_allclose(got_means, means, atol=1e-5)
    np.testing.assert_allclose(got_variances, variances, rtol=1e-4)
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, np.mean(means, axis=0), atol=1e-5)
    total = np.mean(variances, axis=0) + np.var(means, axis=0, ddof=1)
    np.testing.assert_allclose(std, np.sqrt(total), rtol=1e-4)


def test_draws_follow_the_mixture():
    model = VecchiaDGP(n_iterations=40, n_draws=10, random_state=0).fit(X, Y)
    means, variances = model.predict_draws(NEW[:1])
    draws = model.sample_y(NEW[:1], 4000, random_state=0)[0]

    def cdf(y):
        return stats.norm(means[:, 0], np.sqrt(variances[:, 0])).cdf(np.asarray(y)[..., None]).mean(axis=-1)

    # False alarms: 1 in 1000 seeds.
    assert stats.kstest(draws, cdf).pvalue > 1e-3


def test_replicates_in_columns_and_in_rows_are_the_same_data():
    replicates = Y[:, None] + 0.3 * GENERATOR.standard_normal((30, 3))
    settings = {"n_iterations": 20, "random_state": 0}
    columns = VecchiaDGP(**settings).fit(X, replicates)
    rows = VecchiaDGP(**settings).fit(np.repeat(X, 3, axis=0), replicates.reshape(-1))
    np.testing.assert_allclose(columns.predict(NEW), rows.predict(NEW), rtol=1e-9)
    assert len(columns._chain.inputs) == 30


def test_units_do_not_matter():
    settings = {"n_iterations": 20, "random_state": 0}
    first = VecchiaDGP(**settings).fit(X, Y).predict(NEW, return_std=True)
    second = VecchiaDGP(**settings).fit(4 * X - 8, 16 * Y - 2).predict(4 * NEW - 8, return_std=True)
    # Rounding is amplified along a chain; powers of two and few sweeps keep it small.
    np.testing.assert_allclose(second[0], 16 * first[0] - 2, rtol=1e-5)
    np.testing.assert_allclose(second[1], 16 * first[1], rtol=1e-5)


def test_the_same_seed_gives_the_same_bytes_with_any_number_of_threads():
    x = np.random.default_rng(3).random((500, 2))
    y = np.sin(9 * x[:, 0])
    predictions = [
        VecchiaDGP(n_iterations=4, neighbours=8, threads=threads, random_state=seed).fit(x, y).predict(x[:9])
        for threads, seed in ((1, 0), (2, 0), (1, 1))
    ]
    np.testing.assert_array_equal(predictions[0], predictions[1])
    assert not np.array_equal(predictions[0], predictions[2])


def test_it_learns_a_curve_and_its_noise():
    x = np.random.default_rng(0).random((150, 1))
    y = np.sin(8 * x[:, 0] ** 2) + 0.2 * np.random.default_rng(1).standard_normal(150)
    grid = np.linspace(0.02, 0.98, 40)[:, None]
    model = VecchiaDGP(n_iterations=400, neighbours=15, random_state=0).fit(x, y)
    mean, std = model.predict(grid, return_std=True)
    # Measured over seeds 0 to 4: at most 0.071, between 0.183 and 0.192; the noise has 0.2.
    assert np.sqrt(np.mean((mean - np.sin(8 * grid[:, 0] ** 2)) ** 2)) < 0.09
    assert 0.165 < np.median(std) < 0.21


def test_a_constant_input_and_wider_hidden_layers_do_no_harm():
    x = np.column_stack([X, np.full(30, 7.0)])
    model = VecchiaDGP(width=4, n_iterations=6, random_state=0).fit(x, Y)
    assert model.states_[0].hidden[0].shape == (30, 4)
    assert np.isfinite(model.predict(x)).all()


def test_the_hidden_layer_may_have_the_inputs_as_mean():
    model = VecchiaDGP(identity_mean=True, neighbours=None, n_iterations=1, random_state=0).fit(X, Y)
    inputs, state = model._chain.inputs, model._chain.state
    state.hidden[0] = inputs.copy()
    model.states_ = [state]
    # With hidden values at their mean, queries are mapped to themselves.
    mean, _ = krige(
        inputs,
        model._chain.outputs.mean,
        inputs[:3] + 0.01,
        state.outer_theta,
        state.nugget,
        model.covariance,
    )
    queries = (inputs[:3] + 0.01) * model._span + model._low
    np.testing.assert_allclose(model.predict(queries), Y.mean() + Y.std() * mean, rtol=1e-9)
    with pytest.raises(InputError, match="identity_mean"):
        VecchiaDGP(identity_mean=True, width=1, n_iterations=1).fit(X, Y)


def test_the_time_limit_stops_the_chain():
    model = VecchiaDGP(n_iterations=10**9, time_limit=0.3, random_state=0)
    start = time.perf_counter()
    model.fit(X, Y)
    # The set-up and one sweep come on top; half a minute is for a busy machine.
    assert 0.3 <= time.perf_counter() - start < 30
    assert model.seconds_ >= 0.3
    assert 1 <= model.n_iterations_ == len(model.trace_)


def test_extending_is_running_longer():
    together = VecchiaDGP(n_iterations=30, random_state=0).fit(X, Y)
    parts = VecchiaDGP(n_iterations=10, random_state=0).fit(X, Y).extend(20)
    np.testing.assert_array_equal(together.predict(NEW), parts.predict(NEW))
    np.testing.assert_array_equal(together.trace_, parts.trace_)
    with pytest.raises(InputError, match="fit"):
        VecchiaDGP().extend(3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"layers": 4}, "layers"),
        ({"n_iterations": 0}, "n_iterations"),
        ({"neighbours": 0}, "neighbours"),
        ({"burn_in": 1.0}, "burn_in"),
        ({"time_limit": 0}, "time_limit"),
        ({"nugget": 0.0}, "nugget"),
        ({"priors": Priors.of_depth(3)}, "priors"),
    ],
)
def test_impossible_settings_are_refused_at_once(settings, words):
    with pytest.raises(InputError, match=words):
        VecchiaDGP(**settings)


def test_impossible_data_are_refused():
    with pytest.raises(InputError, match="equal numbers"):
        VecchiaDGP().fit(X, np.ones(30))
    with pytest.raises(InputError, match="one distinct row"):
        VecchiaDGP().fit(np.ones((5, 2)), np.arange(5.0))
    with pytest.raises(InputError, match="neighbours=25"):
        VecchiaDGP(neighbours=None).fit(np.random.default_rng(0).random((2001, 1)), np.arange(2001.0))
    with pytest.raises(InputError, match="bounds"):
        VecchiaDGP(bounds=[[0, 1]]).fit(X, Y)
