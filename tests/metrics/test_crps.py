"""Oracles: the double loop, quadrature of the definition, closed forms for Gaussians with stated Monte Carlo error."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln

from dtmgp.errors import InputError
from dtmgp.metrics import crps, crps_gaussian, energy_score


def naive_energy(y, draws):
    """y (W,), draws (W, S), from the definition."""
    size = draws.shape[1]
    distance = np.mean([np.linalg.norm(draws[:, i] - y) for i in range(size)])
    pairs = [np.linalg.norm(draws[:, i] - draws[:, j]) for i in range(size) for j in range(size) if i != j]
    return distance - 0.5 * np.mean(pairs)


@pytest.mark.parametrize("size", [2, 3, 10, 41])
def test_crps_equals_the_double_loop(size):
    generator = np.random.default_rng(0)
    y, draws = generator.normal(size=8), generator.normal(size=(8, size)).round(1)
    expected = [naive_energy(y[i : i + 1], draws[i : i + 1]) for i in range(8)]
    np.testing.assert_allclose(crps(y, draws), expected, atol=1e-14)


def test_crps_keeps_its_digits_far_from_zero():
    generator = np.random.default_rng(1)
    y, draws = generator.normal(size=5), generator.normal(size=(5, 200))
    # Adding 2^20 loses 20 bits of the data themselves, 1e-10; the score should lose no more.
    np.testing.assert_allclose(crps(y + 2.0**20, draws + 2.0**20), crps(y, draws), atol=1e-9)


@pytest.mark.parametrize(("y", "mean", "std"), [(0.3, 0.0, 1.0), (-4.0, 1.0, 0.5), (12.0, 10.0, 3.0)])
def test_gaussian_formula_equals_the_integral(y, mean, std):
    law = stats.norm(mean, std)
    below = integrate.quad(lambda t: law.cdf(t) ** 2, mean - 40 * std, y, points=[mean], epsabs=1e-12)[0]
    above = integrate.quad(lambda t: law.sf(t) ** 2, y, mean + 40 * std, points=[mean], epsabs=1e-12)[0]
    np.testing.assert_allclose(crps_gaussian([y], mean, std), below + above, rtol=1e-8)


@pytest.mark.parametrize("size", [2, 5, 100])
def test_fair_estimate_is_unbiased_for_any_number_of_draws(size):
    y, mean, std = 0.7, 0.2, 1.5
    draws = np.random.default_rng(size).normal(mean, std, size=(20_000, size))
    scores = crps(np.full(20_000, y), draws)
    error = 5 * scores.std() / np.sqrt(20_000)  # five standard errors
    assert scores.mean() == pytest.approx(float(crps_gaussian(y, mean, std)), abs=error)
    # The unfair estimate (pairs with themselves included) is off by E|X - X'|/(2 S), which this test would see.
    assert std / np.sqrt(np.pi) / size > error


def test_gaussian_limits_and_replicates():
    np.testing.assert_array_equal(crps_gaussian([1.0, 2.0], 0.0, 0.0), [1.0, 2.0])
    assert crps_gaussian([5.0], 0.0, 1e-9)[0] == pytest.approx(5.0)
    y = np.arange(6.0).reshape(2, 3)
    mean, std = np.array([0.0, 3.0]), np.array([1.0, 2.0])
    expected = np.stack([crps_gaussian(y[i], mean[i], std[i]) for i in range(2)])
    np.testing.assert_array_equal(crps_gaussian(y, mean, std), expected)


def test_replicates_share_the_draws_of_their_site():
    generator = np.random.default_rng(2)
    y, draws = generator.normal(size=(4, 3)), generator.normal(size=(4, 25))
    expected = np.stack([crps(y[:, j], draws) for j in range(3)], axis=1)
    np.testing.assert_allclose(crps(y, draws[:, None, :]), expected, rtol=1e-14)


@pytest.mark.parametrize("outputs", [1, 2, 5])
def test_energy_score_equals_the_double_loop(outputs):
    generator = np.random.default_rng(3)
    y, draws = generator.normal(size=(6, outputs)), generator.normal(size=(6, outputs, 11))
    expected = [naive_energy(y[i], draws[i]) for i in range(6)]
    np.testing.assert_allclose(energy_score(y, draws), expected, atol=1e-14)


def test_energy_score_of_one_output_is_the_crps():
    generator = np.random.default_rng(4)
    y, draws = generator.normal(size=(6, 1)), generator.normal(size=(6, 1, 30))
    np.testing.assert_allclose(energy_score(y, draws), crps(y[:, 0], draws[:, 0]), atol=1e-14)


@pytest.mark.parametrize("outputs", [2, 3, 10])
def test_energy_score_of_a_gaussian_at_its_centre(outputs):
    # E|X| = sqrt(2) Gamma((W+1)/2)/Gamma(W/2), and X - X' is sqrt(2) X in law: the score is (1 - 1/sqrt(2)) E|X|.
    norm = np.sqrt(2) * np.exp(gammaln((outputs + 1) / 2) - gammaln(outputs / 2))
    draws = np.random.default_rng(outputs).normal(size=(400, outputs, 50))
    scores = energy_score(np.zeros((400, outputs)), draws)
    assert scores.mean() == pytest.approx((1 - 0.5**0.5) * norm, abs=5 * scores.std() / 20)


def test_refusals():
    with pytest.raises(InputError, match="at least 2 draws"):
        crps([0.0], [[1.0]])
    with pytest.raises(InputError, match=r"draws\[:, None, :\]"):
        crps(np.zeros((2, 3)), np.zeros((2, 9)))
    with pytest.raises(InputError, match="one row of draws"):
        crps(np.zeros(3), np.zeros((2, 9)))
    with pytest.raises(InputError, match=r"y \(n, W\)"):
        energy_score(np.zeros(3), np.zeros((3, 9)))
    with pytest.raises(InputError, match="std"):
        crps_gaussian([0.0], 0.0, -1.0)
    with pytest.raises(InputError, match=r"mean: got shape \(2,\)"):
        crps_gaussian(np.zeros(3), np.zeros(2), 1.0)
