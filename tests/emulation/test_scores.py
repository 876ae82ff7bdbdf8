"""Oracle: conditioning of a joint Gaussian by dense algebra; the law of sample covariances by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from dtmgp import TMGPRegressor
from dtmgp.emulation import ALC, ALM, Belief, LawError, belief_of, choose, model_belief, replicate_noise
from dtmgp.metrics import crps_gaussian
from dtmgp.simulators import latin_hypercube


def gaussian_belief(size=12, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size))
    return Belief(root @ root.T / size, rng.uniform(0.5, 2.0, size), rng.uniform(0.5, 2.0, size))


def conditioned(belief, site, replicates):
    """Covariance given k noisy observations at a site: the textbook formula, observations one by one."""
    size = len(belief.noise)
    pick = np.zeros((replicates, size))
    pick[:, site] = 1.0
    observed = pick @ belief.covariance @ pick.T + belief.noise[site] * np.eye(replicates)
    cross = belief.covariance @ pick.T
    return belief.covariance - cross @ np.linalg.solve(observed, cross.T)


def test_updates_are_gaussian_conditioning():
    belief = gaussian_belief()
    np.testing.assert_allclose(belief.after(3, 4).covariance, conditioned(belief, 3, 4), atol=1e-13)


def test_alc_is_the_fall_of_the_average_variance():
    belief = gaussian_belief()
    reference = np.arange(6, 12)
    for site in range(12):
        fall = np.diag(belief.covariance) - np.diag(conditioned(belief, site, 3))
        assert ALC()(belief, reference, 3)[site] == pytest.approx(fall[reference].mean(), abs=1e-13)


def test_law_score_is_the_fall_of_the_crps_loss_of_a_small_sample():
    """Its loss E|Y - Y'| v/(2 s) with v = s/n is that of an empirical law of n Gaussian runs: E int (F_n - F)^2."""
    rng = np.random.default_rng(0)
    n, sites = 20, 40_000
    draws = rng.normal(size=(sites, n))
    truth = rng.normal(size=sites)
    own = crps_gaussian(truth, np.zeros(sites), np.ones(sites))
    # CRPS of the empirical law (not the fair one): E|X - y| - E|X - X'|/2 with all n^2 pairs.
    sorted_draws = np.sort(draws, axis=1)
    weights = 2.0 * np.arange(1, n + 1) - n - 1.0
    empirical = np.abs(draws - truth[:, None]).mean(axis=1) - sorted_draws @ weights / n**2
    loss = empirical - own
    expected = (2.0 / np.sqrt(np.pi)) / (2.0 * n)
    assert abs(loss.mean() - expected) < 4 * loss.std() / np.sqrt(
        sites
    )  # fails by chance 1 in 16,000; seed fixed
    # One site alone, many runs: the whole loss is gained.
    belief = Belief(np.array([[1.0 / n]]), np.ones(1), np.array([2.0 / np.sqrt(np.pi)]))
    assert LawError()(belief, [0], 10**9)[0] == pytest.approx(expected, rel=1e-6)


def test_law_score_with_one_noise_is_alc_up_to_a_factor():
    belief = gaussian_belief()
    same = Belief(belief.covariance, np.full(12, 2.0), np.full(12, 3.0))
    reference = np.arange(12)
    np.testing.assert_allclose(
        LawError()(same, reference, 2), ALC()(same, reference, 2) * 3.0 / 4.0, rtol=1e-13
    )


def test_law_score_without_noise_is_alc():
    belief = gaussian_belief()
    exact = Belief(belief.covariance, np.zeros(12), np.zeros(12))
    assert np.array_equal(LawError()(exact, [0, 1], 1), ALC()(exact, [0, 1], 1))


def test_squares_of_sampled_covariances_are_unbiased():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(4, 4))
    truth = root @ root.T
    found = []
    for _ in range(4000):
        values = root @ rng.normal(size=(4, 9))
        centred = values - values.mean(axis=1, keepdims=True)
        found.append(
            Belief(centred @ centred.T / 8, np.ones(4), np.ones(4), freedom=8.0).squares(np.arange(4))
        )
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - truth**2) < 4.5 * error).all()  # 10 distinct means: 1 in 15,000


def test_greedy_choice_prefers_replicates_where_noise_hides_much():
    # Two independent places, equally unknown; runs at the second are noisy, so it takes more of them.
    belief = Belief(np.diag([1.0, 1.0]), np.array([0.01, 25.0]), np.ones(2))
    chosen = choose(ALC(), belief, [0, 1], [0, 1], 1, 8)
    assert chosen[0] == 0
    assert chosen[1:] == [1] * 7
    # and new inputs where noise is small: both places are visited once before any twice
    quiet = Belief(np.diag([1.0, 1.0]), np.full(2, 0.01), np.ones(2))
    assert sorted(choose(ALM(), quiet, [0, 1], [0, 1], 1, 2)) == [0, 1]


class OnlyDraws:
    """The one-layer model without its closed form: predict with a standard deviation, draws, nothing else."""

    def __init__(self, model):
        self.model = model

    def predict(self, X, return_std=False):
        return self.model.predict(X, return_std=return_std)

    def sample_functions(self, X, n_samples=1, random_state=None):
        return self.model.sample_functions(X, n_samples, random_state)

    def sample_y(self, X, n_samples=1, random_state=None):
        return self.model.sample_y(X, n_samples, random_state)


def test_scores_from_draws_agree_with_the_closed_form():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(60, 2))
    y = np.sin(4 * x[:, 0]) + x[:, 1] + 0.3 * rng.normal(size=60)
    model = TMGPRegressor(bounds=[(0, 1), (0, 1)]).fit(x, y)
    points = latin_hypercube(150, [(0, 1), (0, 1)], random_state=1)
    exact = model_belief(model, points)
    drawn = model_belief(OnlyDraws(model), points, draws=4000, random_state=2)
    assert drawn.freedom == 3999
    np.testing.assert_allclose(np.diag(exact.covariance), np.diag(drawn.covariance), rtol=0.15)
    np.testing.assert_allclose(exact.noise, model.noise_[0], rtol=1e-10)
    reference = np.arange(50, 150)
    # measured: largest relative difference 0.06
    np.testing.assert_allclose(ALC()(drawn, reference, 3), ALC()(exact, reference, 3), rtol=0.15)
    # E|Y - Y'| of a Gaussian law from 64 draws has a relative error of about 9%
    std = model.predict(points, return_std=True)[1]
    assert np.mean(exact.spread / (2 * std / np.sqrt(np.pi))) == pytest.approx(1.0, abs=0.04)


def test_replicate_noise_finds_the_noise():
    rng = np.random.default_rng(0)
    sites = latin_hypercube(80, [(0, 1), (0, 1)], random_state=0)
    x = np.repeat(sites, 6, axis=0)
    true = np.exp(-1 + 3 * sites[:, 0])
    y = x[:, 1] + np.repeat(np.sqrt(true), 6) * rng.normal(size=len(x))
    noise = replicate_noise(x, y, np.array([[0.0, 1.0], [0.0, 1.0]]))
    assert noise is not None
    # 400 degrees of freedom for a log-linear variance; measured: error of the log 0.09 on average
    assert np.abs(np.log(noise(sites) / true)).mean() < 0.2
    belief = belief_of(TMGPRegressor().fit(x, y), sites, x, y, np.array([[0.0, 1.0], [0.0, 1.0]]))
    assert np.corrcoef(np.log(belief.noise), np.log(true))[0, 1] > 0.98


def test_without_replicates_there_is_no_noise_model():
    x = np.random.default_rng(0).uniform(size=(40, 1))
    assert replicate_noise(x, x[:, 0], np.array([[0.0, 1.0]])) is None
    exact = np.repeat(x, 2, axis=0)  # runs that repeat exactly
    assert (replicate_noise(exact, exact[:, 0], np.array([[0.0, 1.0]]))(x) < 1e-10).all()
