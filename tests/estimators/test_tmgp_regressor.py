"""Oracle: scikit-learn's estimator checks, Gaussian closed forms, and what the messages must say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from dtmgp import TMGPRegressor
from dtmgp.errors import InputError
from dtmgp.grids import LowerSet, SparseGrid
from dtmgp.kernels import Additive, Brownian, Laplace, Matern32, Tensor
from dtmgp.kriging import Effort


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(-5, 5, 120), rng.uniform(100, 200, 120)])
    y = 3 + np.sin(x[:, 0]) + x[:, 1] / 50 + 0.1 * rng.normal(size=120)
    return x, y


@pytest.fixture(scope="module")
def fitted(data):
    return TMGPRegressor().fit(*data)


@parametrize_with_checks([TMGPRegressor()])
def test_scikit_learn(estimator, check):
    check(estimator)


def test_prediction_and_noise_are_found(data, fitted):
    x, _ = data
    truth = 3 + np.sin(x[:, 0]) + x[:, 1] / 50
    assert np.sqrt(np.mean((fitted.predict(x) - truth) ** 2)) < 0.06
    assert 0.07 < np.sqrt(fitted.noise_[0]) < 0.14
    assert fitted.lengthscales_.shape == (1, 2)
    assert "posterior" in fitted.path_


def test_distribution_is_one_gaussian(data, fitted):
    x, y = data
    mean, std = fitted.predict(x, return_std=True)
    latent = fitted.predict(x, return_std=True, include_noise=False)[1]
    assert np.allclose(std**2, latent**2 + fitted.noise_[0], rtol=1e-12)
    assert np.allclose(fitted.log_prob(x, y), norm.logpdf(y, mean, std))
    assert np.allclose(fitted.cdf(x, y), norm.cdf(y, mean, std))
    assert np.allclose(fitted.predict_quantiles(x, [0.1, 0.9])[:, 1], norm.ppf(0.9, mean, std))
    low, high = fitted.predict_interval(x, 0.8)
    assert np.allclose(low, fitted.predict_quantiles(x, 0.1))
    assert np.allclose(high, fitted.predict_quantiles(x, 0.9))
    covariance = fitted.predict(x[:9], return_cov=True)[1]
    assert np.allclose(np.diag(covariance), std[:9] ** 2, rtol=1e-8)
    draws = fitted.sample_y(x, 4000, 1)
    assert draws.shape == (120, 4000)
    assert (np.abs(draws.mean(axis=1) - mean) / (std / np.sqrt(4000))).max() < 4.7  # false alarm 3e-4
    functions = fitted.sample_functions(x[:30], 4000, 1)
    assert np.abs(functions.std(axis=1) / latent[:30] - 1).max() < 0.06  # 5 standard errors
    assert np.array_equal(fitted.sample_y(x, 3, 7), fitted.sample_y(x, 3, 7))


def test_several_outputs_are_independent_models(data):
    x, y = data
    both = TMGPRegressor().fit(x, np.column_stack([y, -2 * y]))
    one = TMGPRegressor().fit(x, y)
    assert both.predict(x).shape == (120, 2)
    assert np.allclose(both.predict(x)[:, 0], one.predict(x), atol=1e-6)
    assert both.sample_y(x, 5, 0).shape == (120, 2, 5)
    assert both.sample_functions(x, 5, 0).shape == (120, 2, 5)
    assert both.predict_quantiles(x, [0.1, 0.5, 0.9]).shape == (120, 2, 3)
    assert both.log_prob(x, np.column_stack([y, -2 * y])).shape == (120,)
    assert both.predict(x[:4], return_cov=True)[1].shape == (4, 4, 2)


def test_log_evidence_is_in_units_of_y(data):
    x, y = data
    base, scaled = TMGPRegressor().fit(x, y), TMGPRegressor().fit(x, 10 * y)
    assert base.log_evidence_ - scaled.log_evidence_ == pytest.approx(120 * np.log(10), abs=1e-3)
    assert np.allclose(scaled.predict(x), 10 * base.predict(x), rtol=1e-6)


def test_replicates_are_as_good_as_their_rows():
    rng = np.random.default_rng(2)
    x = np.repeat(rng.random((30, 1)), 8, axis=0)
    y = np.cos(6 * x[:, 0]) + 0.3 * rng.normal(size=240)
    order = rng.permutation(240)
    first, second = TMGPRegressor().fit(x, y), TMGPRegressor().fit(x[order], y[order])
    assert first.models_[0].posterior.design is not second.models_[0].posterior.design
    assert np.allclose(first.predict(x), second.predict(x), atol=1e-7)
    assert 0.24 < np.sqrt(first.noise_[0]) < 0.36


def test_known_noise_variances_are_used():
    rng = np.random.default_rng(3)
    x = np.linspace(0, 1, 80)[:, None]
    variance = np.where(x[:, 0] < 0.5, 1e-4, 1.0)
    y = np.sin(6 * x[:, 0]) + np.sqrt(variance) * rng.normal(size=80)
    known = TMGPRegressor(noise=1e-8).fit(x, y, noise_variance=variance)
    std = known.predict(x, return_std=True, include_noise=False)[1]
    assert std[x[:, 0] > 0.6].mean() > 5 * std[x[:, 0] < 0.4].mean()
    with pytest.raises(ValueError, match=r"noise_variance.*got shape"):
        TMGPRegressor().fit(x, y, noise_variance=[0.1])


@pytest.mark.parametrize(
    ("kernel", "level"),
    [
        (Laplace(), 5),
        (Brownian(), 4),
        (Tensor([Matern32(), Laplace()]), [2, 4, 6]),
        (Additive([((0,), Laplace()), ((1,), Matern32()), ((0, 1), Matern32())]), 5),
        (Matern32(), LowerSet.anisotropic([1.0, 2.0], 5)),
        (None, SparseGrid(2, 5)),
    ],
)
def test_kernels_levels_and_grids(data, kernel, level):
    x, y = data
    inside = (x[:, 0] > -4.5) & (x[:, 0] < 4.5)
    est = TMGPRegressor(kernel, level, max_evaluations=20).fit(x, y)
    assert est.score(x[inside], y[inside]) > 0.9
    if isinstance(level, list):
        each = [TMGPRegressor(kernel, k, max_evaluations=20).fit(x, y).log_evidence_ for k in level]
        assert est.log_evidence_ == pytest.approx(max(each))
        assert est.level_ == level[int(np.argmax(each))]


def test_large_problems_take_the_iterative_path():
    rng = np.random.default_rng(4)
    x = rng.random((9000, 2))
    y = np.sin(8 * x[:, 0] * x[:, 1]) + 0.1 * rng.normal(size=9000)
    est = TMGPRegressor(Laplace(), 10, max_evaluations=5, effort=Effort(draws=8, probes=4)).fit(x, y)
    assert "subset" in est.path_
    assert "conjugate gradients" in est.path_
    assert "conjugate gradient iterations" in repr(est.models_[0].posterior)
    grid = np.random.default_rng(5).random((500, 2))
    mean, std = est.predict(grid, return_std=True)
    assert np.sqrt(np.mean((mean - np.sin(8 * grid[:, 0] * grid[:, 1])) ** 2)) < 0.04
    assert 0.08 < std.mean() < 0.13


def test_data_frames_keep_their_names(data):
    x, y = data
    frame = pd.DataFrame(x, columns=["load", "speed"])
    est = TMGPRegressor(max_evaluations=5).fit(frame, pd.Series(y))
    assert list(est.feature_names_in_) == ["load", "speed"]
    assert np.allclose(est.predict(frame), TMGPRegressor(max_evaluations=5).fit(x, y).predict(x))
    with pytest.raises(ValueError, match="feature names"):
        est.predict(frame.rename(columns={"speed": "velocity"}))


def test_bad_input_gets_one_clear_message(data):
    x, y = data
    nan = x.copy()
    nan[3, 1] = np.nan
    with pytest.raises(InputError, match=r"input column 'x1': got NaN in row 3 and in 0 others"):
        TMGPRegressor().fit(nan, y)
    with pytest.raises(ValueError, match="infinity"):
        TMGPRegressor().fit(x, np.where(np.arange(120) == 5, np.inf, y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        TMGPRegressor().fit(x, y[:-1])
    with pytest.raises(ValueError, match="minimum of 2"):
        TMGPRegressor().fit(x[:1], y[:1])
    frame = pd.DataFrame(x, columns=["load", "speed"]).assign(speed=7.0)
    with pytest.raises(ValueError, match=r"input column 'speed': got the constant 7.*drop the column"):
        TMGPRegressor().fit(frame, y)
    est = TMGPRegressor(bounds=[[-5, 5], [100, 200]], max_evaluations=3).fit(x, y)
    with pytest.raises(ValueError, match=r"input 'x1': got 250 in row 1.*\[100, 200\]"):
        est.predict([[0.0, 150.0], [0.0, 250.0]])
    with pytest.raises(ValueError, match="bounds: got an array of shape"):
        TMGPRegressor(bounds=[[0, 1]]).fit(x, y)
    with pytest.raises(ValueError, match="between 0 and 1"):
        est.predict_quantiles(x, 1.5)
    with pytest.raises(ValueError, match="y: got shape"):
        est.log_prob(x, y[:3])
    with pytest.raises(ValueError, match="random_state"):
        TMGPRegressor(random_state=-1).fit(x, y)


def test_bad_columns_of_a_frame_are_named(data, fitted):
    x, y = data
    frame = pd.DataFrame(x, columns=["load", "speed"])
    for broken, message in (
        (
            frame.assign(speed=np.where(frame.index < 2, np.nan, 1.0)),
            "'speed': got NaN in row 0 and in 1 others",
        ),
        (
            frame.assign(load=np.where(frame.index == 7, -np.inf, frame.load)),
            "'load': got inf or -inf in row 7",
        ),
        (frame.assign(site="north"), "'site': got 'north' in row 0.*encode it as numbers"),
    ):
        with pytest.raises(InputError, match=message):
            TMGPRegressor().fit(broken, y)
    assert TMGPRegressor(max_evaluations=2).fit(frame.astype(object), y).n_features_in_ == 2
    with pytest.raises(InputError, match="'x0': got NaN in row 0"):
        fitted.predict(np.array([[np.nan, 150.0]]))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"level": "three"}, "level: got 'three'"),
        ({"level": 1.5}, "level: got 1.5"),
        ({"level": 0}, "level: got 0"),
        ({"level": []}, r"level: got \[\]"),
        ({"level": [2, 40]}, r"a sparse grid of [\d,]+ features.*lower the level"),
        ({"kernel": "matern"}, "kernel: got 'matern'; expected a kernel"),
        ({"noise": -1}, "noise: got -1; expected a number above 0"),
        ({"noise": 0.0}, "noise: got 0.0.*small variance"),
        ({"noise": np.nan}, "noise: got nan"),
        ({"max_evaluations": -3}, "max_evaluations: got -3"),
        ({"max_evaluations": 2.5}, "an integer of at least 0"),
    ],
)
def test_bad_parameters_are_named(data, parameters, message):
    with pytest.raises(InputError, match=message):
        TMGPRegressor(**parameters).fit(*data)


def test_standard_deviation_and_covariance_are_not_asked_for_together(data, fitted):
    with pytest.raises(InputError, match="at most one"):
        fitted.predict(data[0], return_std=True, return_cov=True)


def test_clone_keeps_parameters(data):
    est = TMGPRegressor(Laplace(0.3), [2, 3], bounds=[[0, 1], [0, 1]], noise=0.1)
    assert clone(est).get_params() == est.get_params()
