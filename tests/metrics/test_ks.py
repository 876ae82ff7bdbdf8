"""Oracles: scipy.stats.ks_2samp and kstest, the definition evaluated on a grid, the known mean of the statistic."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dtmgp.errors import InputError
from dtmgp.metrics import average_ks, ks_against_cdf, ks_statistic


@pytest.mark.parametrize("sizes", [(2, 2), (7, 7), (10, 33), (100, 100), (40, 3)])
@pytest.mark.parametrize("decimals", [16, 0])
def test_statistic_equals_scipy_with_and_without_ties(sizes, decimals):
    generator = np.random.default_rng(0)
    a = generator.normal(size=(20, sizes[0])).round(decimals)
    b = generator.normal(0.3, 2.0, size=(20, sizes[1])).round(decimals)
    expected = [stats.ks_2samp(x, y, method="asymp").statistic for x, y in zip(a, b)]
    np.testing.assert_allclose(ks_statistic(a, b), expected, rtol=0, atol=1e-14)


def test_statistic_equals_the_definition():
    generator = np.random.default_rng(1)
    a, b = generator.integers(0, 6, size=(2, 4, 9)), generator.integers(0, 6, size=(2, 4, 5))
    expected = np.zeros((2, 4))
    for t in range(6):
        difference = np.abs((a <= t).mean(axis=-1) - (b <= t).mean(axis=-1))
        expected = np.maximum(expected, difference)
    np.testing.assert_allclose(ks_statistic(a, b), expected, atol=1e-15)


def test_single_draws_are_equal_or_not():
    np.testing.assert_array_equal(ks_statistic([[1.0], [2.0]], [[1.0], [1.0]]), [0.0, 1.0])


def test_limits_symmetry_and_order():
    generator = np.random.default_rng(2)
    a, b = generator.normal(size=(5, 12)), generator.normal(size=(5, 31))
    np.testing.assert_array_equal(ks_statistic(a, a[:, ::-1]), 0.0)
    np.testing.assert_array_equal(ks_statistic(a, a + 100), 1.0)
    np.testing.assert_array_equal(ks_statistic(a, b), ks_statistic(b, a))
    # Invariant under increasing maps of both samples.
    np.testing.assert_array_equal(ks_statistic(a, b), ks_statistic(np.exp(a), np.exp(b)))


def test_average_of_equal_laws_is_the_known_floor():
    generator = np.random.default_rng(3)
    truth, draws = generator.normal(size=(2, 4000, 100))
    # One statistic has standard deviation 0.036; five standard errors of the mean of 4000 are 0.003.
    assert average_ks(truth, draws) == pytest.approx(0.118, abs=0.003)


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_one_sample_statistic_equals_scipy(size):
    draws = np.random.default_rng(4).normal(0.2, 1.0, size=(6, size))
    expected = [stats.kstest(row, stats.norm.cdf).statistic for row in draws]
    np.testing.assert_allclose(ks_against_cdf(draws, stats.norm.cdf), expected, atol=1e-14)


def test_each_row_has_its_own_cdf():
    means = np.array([[0.0], [10.0]])
    draws = means + np.random.default_rng(5).normal(size=(2, 50))
    together = ks_against_cdf(draws, lambda t: stats.norm.cdf(t - means))
    apart = [stats.kstest(row, stats.norm(mean).cdf).statistic for row, mean in zip(draws, (0.0, 10.0))]
    np.testing.assert_allclose(together, apart, atol=1e-14)


@pytest.mark.parametrize("size", [1, 4, 60])
def test_a_law_with_atoms_by_its_left_limits(size):
    # P(Y = 0) = 0.4, otherwise exponential: the waiting time of a queue; and a binomial law. Oracle: the definition on
    # a fine grid that holds both sides of every jump.
    generator = np.random.default_rng(6)
    draws = generator.exponential(size=(5, size)).round(2) * (generator.random((5, size)) > 0.3)
    laws = [
        (
            lambda t: np.where(t < 0, 0.0, 1 - 0.6 * np.exp(-np.maximum(t, 0))),
            lambda t: np.where(t <= 0, 0.0, 1 - 0.6 * np.exp(-np.maximum(t, 0))),
        ),
        (lambda t: stats.binom.cdf(t, 3, 0.3), lambda t: stats.binom.cdf(np.ceil(t) - 1, 3, 0.3)),
    ]
    points = np.arange(-100, 1000) / 100
    for cdf, left in laws:
        empirical = (draws[:, :, None] <= points).mean(axis=1), (draws[:, :, None] < points).mean(axis=1)
        expected = np.maximum(np.abs(empirical[0] - cdf(points)), np.abs(empirical[1] - left(points))).max(
            axis=-1
        )
        np.testing.assert_allclose(ks_against_cdf(draws, cdf, left), expected, atol=1e-12)
        assert (ks_against_cdf(draws, cdf) >= expected - 1e-12).all()


def test_the_true_law_with_an_atom_scores_its_sampling_error():
    generator = np.random.default_rng(7)
    draws = generator.exponential(size=20_000) * (generator.random(20_000) > 0.5)
    law = (lambda t: 1 - 0.5 * np.exp(-t), lambda t: np.where(t == 0, 0.0, 1 - 0.5 * np.exp(-t)))
    # below 1.95/sqrt(n) with probability 0.999 (continuous laws; less with atoms), and 0.5 without the left limits
    assert ks_against_cdf(draws, *law) < 1.95 / np.sqrt(20_000)
    assert ks_against_cdf(draws, law[0]) == pytest.approx(0.5)


def test_refusals():
    with pytest.raises(InputError, match=r"\(3, 5\) and \(5, 3\).*transposed"):
        ks_statistic(np.zeros((3, 5)), np.zeros((5, 3)))
    with pytest.raises(InputError, match="1 NaN among 2"):
        ks_statistic([0.0, np.nan], [1.0])
    with pytest.raises(InputError, match="infinite draws"):
        ks_statistic([0.0, np.inf], [1.0])
    with pytest.raises(InputError, match="at least 1 draws"):
        ks_statistic(np.zeros((2, 0)), np.zeros((2, 4)))
    with pytest.raises(InputError, match="no inputs"):
        average_ks(np.zeros((0, 4)), np.zeros((0, 4)))
    with pytest.raises(InputError, match="cdf"):
        ks_against_cdf([0.0, 1.0], lambda t: t + 1)
    with pytest.raises(InputError, match="cdf"):
        ks_against_cdf([0.0, 1.0], lambda t: t[0])
