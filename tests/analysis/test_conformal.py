"""Oracle: the law of the coverage, Beta(k, n + 1 - k) with k = ceil((n + 1) c), whatever the model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from linear_gaussian import LinearGaussian
from scipy import stats

from dtmgp import TMGPRegressor
from dtmgp.analysis import conformal_intervals
from dtmgp.errors import InputError

TRUTH = LinearGaussian([1.0, 2.0], [0.5, 0.0])
MODELS = {
    "right": TRUTH,
    "too narrow": LinearGaussian([1.0, 2.0], [0.5, 0.0], s=0.4),
    "too wide, and off": LinearGaussian([0.0, 3.0], s=3.0),
}


def calibrated(model, n, seed):
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    return conformal_intervals(model, x, TRUTH.sample_y(x, 1, rng)[:, 0], random_state=seed)


@pytest.mark.parametrize("name", MODELS)
def test_coverage_has_its_law_for_right_and_wrong_models(name):
    """Mean of 600 calibrations within four standard errors (false alarm 6e-5), spread by a chi-square band of 1e-4."""
    n, level = 39, 0.9
    k = math.ceil((n + 1) * level)
    law = stats.beta(k, n + 1 - k)
    x = np.random.default_rng(5).random((500, 2))
    mean, std = TRUTH.predict(x, True)
    found = []
    for seed in range(600):
        low, high = calibrated(MODELS[name], n, seed).predict_interval(x, level)
        found.append(np.mean(stats.norm.cdf(high, mean, std) - stats.norm.cdf(low, mean, std)))
    assert np.mean(found) == pytest.approx(level, abs=4 * law.std() / np.sqrt(600))
    assert np.mean(found) >= level - 4 * law.std() / np.sqrt(600)
    ratio = np.var(found) / law.var()
    assert ratio < stats.chi2(599).isf(1e-4) / 599 * 1.1


def test_nominal_tells_overconfidence():
    assert calibrated(MODELS["right"], 4000, 1).nominal(0.9) == pytest.approx(0.9, abs=0.02)
    assert calibrated(MODELS["too narrow"], 4000, 1).nominal(0.9) > 0.98


def test_too_few_runs_promise_nothing_finite():
    honest = calibrated(TRUTH, 8, 0)
    low, high = honest.predict_interval([[0.5, 0.5]], 0.9)
    assert (low, high) == (-np.inf, np.inf)
    assert honest.nominal(0.9) == 1.0
    assert np.isfinite(honest.predict_interval([[0.5, 0.5]], 0.8)).all()


def test_one_run_of_every_input_counts():
    rng = np.random.default_rng(0)
    x = np.repeat(rng.random((50, 2)), 7, axis=0)
    y = TRUTH.sample_y(x, 1, rng)[:, 0]
    honest = conformal_intervals(TRUTH, x, y)
    assert len(honest.scores) == 50
    every = np.abs(TRUTH.cdf(x, y) - 0.5)
    assert set(honest.scores) <= set(every)


def test_data_frames_and_wrong_input():
    import pandas as pd

    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((60, 2)), columns=["a", "b"])
    y = table["a"].to_numpy() + 0.1 * rng.normal(size=60)
    model = TMGPRegressor().fit(table[:30], y[:30])
    honest = conformal_intervals(model, table[30:], y[30:])
    low, high = honest.predict_interval(table[:3], 0.8)
    assert (low < high).all()
    with pytest.raises(InputError, match="coverage"):
        honest.predict_interval(table[:3], 1.0)
    with pytest.raises(InputError, match="calibration runs"):
        conformal_intervals(model, table[30:], y[29:])
