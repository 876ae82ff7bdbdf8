"""Oracles: counts by hand, exchangeability (exact for every number of draws), uniformity of the transform."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dtmgp.errors import InputError
from dtmgp.metrics import coverage, interval_from_draws, pit, pit_against_cdf


def test_coverage_counts_the_closed_interval():
    assert coverage([0.0, 1.0, 2.0, 3.0], [0, 0, 0, 0], [0, 1, 1, 4]) == 0.75
    y = np.array([[0.0, 2.0], [5.0, 5.0]])
    assert coverage(y, [0.0, 5.0], [1.0, 6.0]) == 0.75
    assert coverage(y, -np.inf, np.inf) == 1.0


@pytest.mark.parametrize(("size", "level"), [(19, 0.9), (9, 0.5), (50, 0.9), (199, 0.9)])
def test_interval_covers_as_stated_for_every_number_of_draws(size, level):
    generator = np.random.default_rng(size)
    n = 40_000
    lower, upper = interval_from_draws(generator.exponential(size=(n, size)), level)
    # Interpolated ends (size 50) are exact for the uniform law only; exponential: within 0.002. Noise: 5 sigma.
    tolerance = 5 * np.sqrt(level * (1 - level) / n) + 0.002
    assert coverage(generator.exponential(size=n), lower, upper) == pytest.approx(level, abs=tolerance)


def test_too_few_draws_give_the_extremes():
    lower, upper = interval_from_draws([[3.0, 1.0, 2.0]], 0.9)
    assert (lower.tolist(), upper.tolist()) == ([1.0], [3.0])


@pytest.mark.parametrize("size", [1, 4, 50])
@pytest.mark.parametrize("discrete", [False, True])
def test_pit_is_uniform_when_the_model_is_right(size, discrete):
    generator = np.random.default_rng(7)
    sample = (
        generator.poisson(2.0, size=(5000, size + 1)) if discrete else generator.normal(size=(5000, size + 1))
    )
    values = pit(sample[:, 0], sample[:, 1:], random_state=1)
    # False-alarm rate 1e-3 per case; the seeds are fixed.
    assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_pit_counts_by_hand_and_repeats_by_seed():
    draws = np.array([[0.0, 1.0, 1.0, 2.0]])
    value = pit([1.0], draws, random_state=3)
    assert value[0] == pytest.approx((1 + 3 * np.random.default_rng(3).random()) / 5)
    assert value.tobytes() == pit([1.0], draws, random_state=3).tobytes()
    y = np.zeros((1, 3))
    assert pit(y, draws[:, None, :], random_state=3).shape == (1, 3)


def test_exact_pit_is_uniform_with_and_without_atoms():
    generator = np.random.default_rng(8)
    y = generator.normal(size=5000)
    np.testing.assert_array_equal(pit_against_cdf(y, stats.norm.cdf), stats.norm.cdf(y))
    counts = generator.poisson(2.0, size=(1000, 5))
    law = stats.poisson(2.0)
    values = pit_against_cdf(counts, law.cdf, lambda t: law.cdf(t - 1), random_state=1)
    # False-alarm rate 1e-3; the seeds are fixed. Without the randomisation atoms are left.
    assert stats.kstest(values.ravel(), "uniform").pvalue > 1e-3
    assert stats.kstest(pit_against_cdf(counts, law.cdf).ravel(), "uniform").pvalue < 1e-9
    again = pit_against_cdf(counts, law.cdf, lambda t: law.cdf(t - 1), random_state=1)
    assert values.tobytes() == again.tobytes()
    by_hand = law.cdf(counts - 1) + np.random.default_rng(1).random((1000, 5)) * law.pmf(counts)
    np.testing.assert_allclose(values, by_hand, atol=1e-14)


def test_refusals():
    with pytest.raises(InputError, match="left: got P"):
        pit_against_cdf([0.5], lambda t: t, lambda t: t + 0.1)
    with pytest.raises(InputError, match="cdf: got values outside"):
        pit_against_cdf([0.5], lambda t: t + 1)
    with pytest.raises(InputError, match="lower > upper"):
        coverage([0.0], [1.0], [0.0])
    with pytest.raises(InputError, match="lower: got shape"):
        coverage(np.zeros(3), np.zeros(2), np.ones(3))
    with pytest.raises(InputError, match="coverage: got 90"):
        interval_from_draws([[0.0, 1.0]], 90.0)
    with pytest.raises(InputError, match="one row of draws"):
        pit(np.zeros(3), np.zeros((2, 9)))
    with pytest.raises(InputError, match=r"draws\[:, None, :\]"):
        pit(np.zeros((2, 3)), np.zeros((2, 9)))
