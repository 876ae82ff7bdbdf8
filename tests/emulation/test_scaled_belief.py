"""Oracle: `kriging_belief` of the outputs, or of their logarithm by hand, with the delta method."""

from __future__ import annotations

import numpy as np
import pytest

from dtmgp import TMGPRegressor
from dtmgp.emulation import Campaign, kriging_belief, replicate_noise, scaled_belief
from dtmgp.emulation import campaign as module
from dtmgp.emulation.scaled import has_covariance
from dtmgp.simulators import latin_hypercube

BOUNDS = np.array([[0.0, 1.0], [0.0, 1.0]])


def runs(replicates):
    rng = np.random.default_rng(0)
    x = np.repeat(latin_hypercube(40, BOUNDS, random_state=0), replicates, axis=0)
    z = 3.0 * x[:, 0] - x[:, 1] + 0.3 * rng.normal(size=len(x))
    return x, z, latin_hypercube(50, BOUNDS, random_state=1)


def test_outputs_that_need_no_scale():
    x, z, points = runs(4)
    found = scaled_belief(points, x, z, BOUNDS)  # negative ones among them: no logarithm
    wanted = kriging_belief(points, x, z, BOUNDS, replicate_noise(x, z, BOUNDS))
    for name in ("covariance", "noise", "spread"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-12)


def test_lognormal_outputs_have_the_belief_of_their_logarithm_times_the_slope():
    x, z, points = runs(4)
    found = scaled_belief(points, x, np.exp(z), BOUNDS)
    noise = replicate_noise(x, z, BOUNDS)
    wanted = kriging_belief(points, x, z, BOUNDS, noise)
    kriging = TMGPRegressor(bounds=BOUNDS, noise=1e-6 * float(np.var(z))).fit(x, z, noise_variance=noise(x))
    slope = np.exp(np.clip(kriging.predict(points), z.min(), z.max()))
    np.testing.assert_allclose(found.covariance, wanted.covariance * np.outer(slope, slope), rtol=1e-9)
    np.testing.assert_allclose(found.noise, wanted.noise * slope**2, rtol=1e-9)


def test_without_replicates_the_noise_is_one_number_on_the_scale():
    x, z, points = runs(1)
    found = scaled_belief(points, x, np.exp(z), BOUNDS)
    ratio = found.noise / np.exp(2.0 * (3.0 * points[:, 0] - points[:, 1]))
    assert (
        ratio.max() / ratio.min() < 3.0
    )  # the slope is that of a prediction; the noise itself goes over a factor 1000
    assert np.ptp(np.log(found.noise)) > 5.0


class Slow:
    """An estimator without a closed-form covariance that counts its fits."""

    fits = 0

    def get_params(self, deep=True):
        return {}

    def set_params(self, **given):
        return self

    def fit(self, X, y):
        Slow.fits += 1
        return self

    def predict(self, X, return_std=False):
        return np.zeros(len(X))


def test_a_model_without_covariance_is_not_fitted_to_plan(monkeypatch):
    monkeypatch.setattr(module, "clone", lambda estimator: Slow())
    campaign = Campaign([(0, 1)], budget=60, replicates=2, model=Slow(), validation=0)
    assert not has_covariance(campaign._estimator)
    while due := campaign.ask():
        for run in due:
            campaign.tell(run, 1.0 + run.x[0] ** 2 + 1e-3 * (run.seed % 7))
    assert campaign.round >= 5
    assert Slow.fits == 0


@pytest.mark.parametrize("constant", [0.0, 5.0])
def test_outputs_that_are_all_the_same(constant):
    x, _, points = runs(3)
    found = scaled_belief(points, x, np.full(len(x), constant), BOUNDS)
    assert np.isfinite(found.covariance).all()
    assert np.isfinite(found.noise).all()
