"""Oracles: numerical integration of the density, the cdf, Kolmogorov-Smirnov tests of draws, finite differences."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from quick import quick, wave
from scipy import integrate, stats

from dtmgp.likelihoods import BoxCox, GaussianLikelihood, HeteroscedasticGaussian, StudentT, YeoJohnson

LAWS = {
    "default": {},
    "latent": {"latent_inputs": 1},
    "deep": {"hidden_widths": (2, 2), "levels": (2, 2, 2)},
    "one layer": {"hidden_widths": (), "levels": (3,)},
    "student": {"likelihood": StudentT(), "warp": YeoJohnson(1.0)},
    "heteroscedastic": {"likelihood": HeteroscedasticGaussian(), "warp": BoxCox(0.0)},
    "gaussian": {"likelihood": GaussianLikelihood()},
}
SOME = 4  # inputs at which integrals are taken


@functools.cache
def fitted(name, outputs=1):
    x, y = wave()
    if outputs > 1:
        y = np.column_stack([y, np.log(y) - x[:, 0]])
    return quick(**LAWS[name]).fit(x, y), x, y


@pytest.mark.parametrize("name", LAWS)
class TestOneLaw:
    def test_density_integrates_to_the_cdf(self, name):
        """Trapezoid on 4,001 points between the 1e-6 quantiles; what is beyond them is in the tolerances."""
        est, x, _ = fitted(name)
        low, high = est.predict_interval(x[:SOME], 1 - 2e-6)
        for row in range(SOME):
            grid = np.linspace(low[row], high[row], 4001)
            at = np.repeat(x[row : row + 1], len(grid), axis=0)
            density = np.exp(est.log_prob(at, grid))
            mass = integrate.cumulative_trapezoid(density, grid, initial=0.0)
            difference = est.cdf(at, grid) - est.cdf(at[:1], grid[:1])
            assert np.abs(mass - difference).max() < 2e-4
            mean, std = est.predict(at[:1], return_std=True)
            tails = 3e-3 if name == "student" else 5e-4
            assert integrate.trapezoid(grid * density, grid) == pytest.approx(mean[0], abs=tails * std[0])
            if name != "student":  # whose variance lies in the tails
                second = integrate.trapezoid((grid - mean[0]) ** 2 * density, grid)
                assert second == pytest.approx(std[0] ** 2, rel=2e-3)

    def test_a_summary_is_the_separate_predictions(self, name):
        est, x, _ = fitted(name)
        levels = [0.05, 0.5, 0.99]
        mean, std, quantiles = est.predict_summary(x, levels)
        expected = (*est.predict(x, return_std=True), est.predict_quantiles(x, levels))
        for found, wanted in zip((mean, std, quantiles), expected):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)  # rounding: the parts have other sizes
        assert est.predict_summary(x, 0.5)[2].shape == (60, 1)

    def test_single_precision_is_the_same_law(self, name):
        est, x, _ = fitted(name)
        fast = est.single_precision()
        wanted, found = est.predict_summary(x, [0.05, 0.95]), fast.predict_summary(x, [0.05, 0.95])
        for one, other in zip(wanted, found):
            # measured: 4e-4, where the search for quantiles ends in float32
            assert np.abs(one - other).max() < 1e-3 * wanted[1].max()
        assert next(est.model_.parameters()).dtype.itemsize == 8

    def test_quantiles_invert_the_cdf(self, name):
        est, x, _ = fitted(name)
        levels = np.array([0.001, 0.1, 0.5, 0.9, 0.999])
        quantiles = est.predict_quantiles(x, levels)
        assert quantiles.shape == (60, 5)
        for k, level in enumerate(levels):
            assert np.abs(est.cdf(x, quantiles[:, k]) - level).max() < 1e-9
            assert np.array_equal(est.predict_quantiles(x, level), quantiles[:, k])
        low, high = est.predict_interval(x, 0.8)
        assert np.allclose(low, quantiles[:, 1])
        assert np.allclose(high, quantiles[:, 3])

    def test_draws_follow_the_cdf(self, name):
        """KS test per input, 2,000 draws, at level 1e-4: a false alarm in 7 x 4 tests has probability 0.003."""
        est, x, _ = fitted(name)
        draws = est.sample_y(x[:SOME], 2000, random_state=1)
        assert draws.shape == (SOME, 2000)
        for row in range(SOME):
            at = np.repeat(x[row : row + 1], 2000, axis=0)
            uniform = est.cdf(at, draws[row])
            assert stats.kstest(uniform, "uniform").pvalue > 1e-4
        assert np.array_equal(est.sample_y(x[:SOME], 2000, random_state=1), draws)
        assert not np.array_equal(est.sample_y(x[:SOME], 2000, random_state=2), draws)

    def test_predictions_do_not_depend_on_batches_or_order(self, name, monkeypatch):
        est, x, y = fitted(name)
        order = np.random.default_rng(0).permutation(60)
        calls = [
            lambda rows: est.predict(x[rows]),
            lambda rows: est.predict(x[rows], return_std=True)[1],
            lambda rows: est.predict_quantiles(x[rows], 0.3),
            lambda rows: est.log_prob(x[rows], y[rows]),
            lambda rows: est.cdf(x[rows], y[rows]),
            lambda rows: est.sample_functions(x[rows], 3, 0),
            lambda rows: est.moment_gradients(x[rows])[1],
        ]
        whole = [call(np.arange(60)) for call in calls]
        for expected, call in zip(whole, calls, strict=True):
            assert np.allclose(call(order), expected[order], rtol=1e-12, atol=1e-12)
        monkeypatch.setattr("dtmgp.estimators.predictive.ENTRIES", 1000)
        for expected, call in zip(whole, calls, strict=True):
            assert np.allclose(call(np.arange(60)), expected, rtol=1e-12, atol=1e-12)

    def test_moment_gradients_against_differences(self, name):
        est, x, _ = fitted(name)
        inside = x[:10] * 0.98 + 0.01 * np.array([0.5, 150.0])
        mean, std = est.moment_gradients(inside)
        assert mean.shape == std.shape == (10, 2)
        for j, step in enumerate((1e-6, 1e-4)):
            ends = []
            for sign in (-1, 1):
                moved = inside.copy()
                moved[:, j] += sign * step
                ends.append(est.predict(moved, return_std=True))
            for found, k in ((mean, 0), (std, 1)):
                difference = (ends[1][k] - ends[0][k]) / (2 * step)
                assert np.allclose(found[:, j], difference, rtol=1e-4, atol=1e-5 * np.abs(found[:, j]).max())


def test_functions_are_functions_and_average_to_the_mean():
    """4,000 functions; the mean of functions has standard error spread/sqrt(4000): five of them, and 3 % of spread."""
    est, x, _ = fitted("gaussian")
    both = est.sample_functions(np.concatenate([x[:5], x[:5]]), 50, 3)
    assert np.array_equal(both[:5], both[5:])
    assert np.allclose(est.sample_functions(x[3:5], 50, 3), both[3:5], rtol=1e-12)
    many = est.sample_functions(x[:5], 4000, 0)
    error = many.std(axis=1) / np.sqrt(4000)
    assert (np.abs(many.mean(axis=1) - est.predict(x[:5])) < 5 * error + 0.03 * many.std(axis=1)).all()
    near = est.sample_functions(x[:5] + np.array([1e-7, 1e-5]), 50, 3)
    assert np.abs(near - both[:5]).max() < 1e-4  # continuous


def test_the_stated_error_of_log_prob_is_that_of_other_draws():
    """Root mean square over inputs and eight sets of draws; Sobol' draws are better than the stated error."""
    from dtmgp.estimators.predictive import PredictiveLaw

    est, x, y = fitted("deep")
    _, error = est.log_prob(x, y, return_error=True)
    assert (error > 0).all()
    others = []
    for seed in range(8):
        law = PredictiveLaw(est.model_, 32, 100 + seed, None)
        others.append(law.log_prob(est.cube_.scale(x), y[:, None])[0])
    spread = np.std(others, axis=0, ddof=1)
    assert np.sqrt(np.mean(spread**2)) < 1.5 * np.sqrt(np.mean(error**2))
    assert np.sqrt(np.mean(spread**2)) > 0.05 * np.sqrt(np.mean(error**2))


class TestSeveralOutputs:
    def test_shapes(self):
        est, x, y = fitted("default", 2)
        mean, std = est.predict(x, return_std=True)
        assert mean.shape == std.shape == (60, 2)
        assert est.predict_quantiles(x, [0.1, 0.5, 0.9]).shape == (60, 2, 3)
        assert est.sample_y(x, 5, 0).shape == (60, 2, 5)
        assert est.sample_functions(x, 5, 0).shape == (60, 2, 5)
        assert est.log_prob(x, y).shape == (60,)
        assert est.cdf(x, y).shape == (60, 2)
        assert est.moment_gradients(x)[0].shape == (60, 2, 2)
        assert est.score(x, y) > 0.3

    def test_one_column_is_not_flat(self):
        x, y = wave()
        est = quick().fit(x, y[:, None])
        assert est.predict(x).shape == (60, 1)
        assert np.array_equal(est.predict(x)[:, 0], quick().fit(x, y).predict(x))

    def test_joint_density_integrates_to_the_marginal(self):
        est, x, y = fitted("default", 2)
        at, first = x[:1], y[0, 0]
        low, high = (end[0, 1] for end in est.predict_interval(at, 1 - 1e-6))
        grid = np.linspace(low, high, 4001)
        rows = np.repeat(at, len(grid), axis=0)
        joint = np.exp(est.log_prob(rows, np.column_stack([np.full(len(grid), first), grid])))
        step = 1e-5 * est.predict(at, return_std=True)[1][0, 0]
        ends = [est.cdf(at, [[first + s * step, 0.0]])[0, 0] for s in (-1, 1)]
        assert integrate.trapezoid(joint, grid) == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-3)

    def test_draws_follow_the_marginals(self):
        """KS tests of 2,000 draws of two outputs at level 1e-4."""
        est, x, _ = fitted("default", 2)
        draws = est.sample_y(x[:1], 2000, 0)[0]
        uniform = est.cdf(np.repeat(x[:1], 2000, axis=0), draws.T)
        for column in uniform.T:
            assert stats.kstest(column, "uniform").pvalue > 1e-4


@functools.cache
def counts():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(300, 1))
    y = rng.poisson(np.exp(1.5 * x[:, 0])).astype(float)
    return quick(max_epochs=5).fit(x, y), x, y


class TestCounts:
    def test_whole_numbers_are_found_and_get_probabilities(self):
        est, x, _ = counts()
        assert est.lattice_ is not None
        at = np.repeat(x[:3], 80, axis=0)
        k = np.tile(np.arange(80.0), 3)
        mass = np.exp(est.log_prob(at, k)).reshape(3, 80)
        assert np.allclose(mass.sum(axis=1), 1.0, atol=1e-4)
        assert np.allclose(np.cumsum(mass, axis=1), est.cdf(at, k).reshape(3, 80), atol=1e-9)
        assert np.array_equal(est.cdf(at, k), est.cdf(at, k + 0.4))
        assert np.isneginf(est.log_prob(x[:2], [0.5, -1.0])).all()
        assert est.cdf(x[:1], [-1.0])[0] == 0.0

    def test_draws_and_quantiles_are_whole(self):
        """Frequencies of 4,000 draws: five standard errors, below 0.04."""
        est, x, _ = counts()
        draws = est.sample_y(x[:3], 4000, 0)
        assert np.array_equal(draws, np.round(draws))
        assert draws.min() >= 0
        for k in range(6):
            found = (draws <= k).mean(axis=1)
            assert np.abs(found - est.cdf(x[:3], np.full(3, float(k)))).max() < 0.04
        for level in (0.1, 0.5, 0.9):
            q = est.predict_quantiles(x, level)
            assert np.array_equal(q, np.round(q))
            assert (est.cdf(x, q) >= level - 1e-9).all()
            assert (est.cdf(x, q - 1) < level + 1e-9).all()
