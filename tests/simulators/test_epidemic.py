"""Oracles: the triangular equations in fractions, a plain loop on the same stream, chi-square of the draws."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy import stats

from dtmgp.errors import InputError
from dtmgp.metrics import ks_statistic
from dtmgp.simulators import Epidemic, KnownLaw
from dtmgp.testing import check_simulator

# A right simulator fails a random test with this probability, all rows together; the seeds are fixed.
FALSE_ALARM = 1e-3


def triangular_law(susceptible, infected, reproduction):
    """Ball (1986): sum_(i<=k) C(n-i, k-i) P_i / phi(k)^(i+m) = C(n, k), phi(k) = 1/(1 + R0 (n-k)/n)."""
    law = []
    for k in range(susceptible + 1):
        phi = 1 / (1 + reproduction * Fraction(susceptible - k, susceptible))
        known = sum(comb(susceptible - i, k - i) * law[i] / phi ** (i + infected) for i in range(k))
        law.append((comb(susceptible, k) - known) * phi ** (k + infected))
    return [float(p) for p in law]


def naive_sample(x, n_replicates, susceptible, generator):
    sizes = []
    for _ in range(n_replicates):
        floor = int(x[1])
        infected, left = floor + int(generator.random() < x[1] - floor), susceptible
        while infected:
            rate = x[0] * left / susceptible
            if generator.random() < rate / (rate + 1):
                infected, left = infected + 1, left - 1
            else:
                infected -= 1
        sizes.append(susceptible - left)
    return sizes


@pytest.mark.parametrize("infected", [1, 3])
@pytest.mark.parametrize("reproduction", [Fraction(1, 2), Fraction(3, 2), Fraction(4)])
@pytest.mark.parametrize("susceptible", [1, 2, 60])
def test_law_solves_the_triangular_equations(susceptible, reproduction, infected):
    found = Epidemic(susceptible).pmf([[float(reproduction), float(infected)]])[0]
    np.testing.assert_allclose(found, triangular_law(susceptible, infected, reproduction), rtol=1e-12)


def test_law_is_linear_between_whole_numbers_of_infected():
    pmf = Epidemic(50).pmf([[1.7, 2.0], [1.7, 3.0], [1.7, 2.25]])
    np.testing.assert_allclose(pmf[2], 0.75 * pmf[0] + 0.25 * pmf[1], rtol=1e-13)


@pytest.mark.parametrize("susceptible", [1, 200, 2000])
def test_law_sums_to_one(susceptible):
    pmf = Epidemic(susceptible).pmf([[0.5, 1.0], [1.0, 2.5], [4.0, 5.0]])
    assert (pmf >= 0).all()
    np.testing.assert_allclose(pmf.sum(axis=1), 1.0, atol=1e-11)


def test_no_infections_at_reproduction_number_zero():
    epidemic = Epidemic(10, bounds=[(0.0, 1.0), (1.0, 2.0)])
    np.testing.assert_array_equal(epidemic.pmf([[0.0, 1.5]]), [[1.0, *[0.0] * 10]])
    np.testing.assert_array_equal(epidemic.sample([[0.0, 1.5]], 5, 0), np.zeros((1, 5)))


def test_sample_equals_the_naive_loop():
    X = np.array([[0.5, 1.0], [2.0, 2.6], [4.0, 5.0]])
    generator = np.random.default_rng(3)
    expected = [naive_sample(x, 20, 30, generator) for x in X]
    np.testing.assert_array_equal(Epidemic(30).sample(X, 20, 3), expected)


def test_draws_have_the_exact_law():
    X = np.array([[0.5, 1.0], [1.0, 2.6], [1.5, 1.3], [4.0, 5.0]])
    epidemic, n = Epidemic(), 20_000
    for draws, pmf in zip(epidemic.sample(X, n, 4), epidemic.pmf(X)):
        # Neighbouring sizes are pooled until each cell expects at least ten draws.
        cells = np.minimum((np.cumsum(pmf) * n / 10).astype(int), int(n / 10) - 1)
        observed = np.bincount(cells[draws.astype(int)], minlength=n)
        expected = np.bincount(cells, weights=pmf * n, minlength=n)
        used = expected > 0
        statistic = ((observed - expected)[used] ** 2 / expected[used]).sum()
        assert stats.chi2(used.sum() - 1).sf(statistic) > FALSE_ALARM / 4


def test_cdf_and_quantiles_are_those_of_the_law():
    epidemic, X = Epidemic(20), np.array([[0.5, 1.0], [2.5, 1.5]])
    pmf = epidemic.pmf(X)
    y = np.array([-1.0, -1e-9, 0.0, 0.5, 1.0, 19.9, 20.0, 99.0, np.inf])
    expected = [[row[: int(np.floor(np.clip(t, -1, 20))) + 1].sum() for t in y] for row in pmf]
    np.testing.assert_allclose(epidemic.cdf(X, np.tile(y, (2, 1))), expected, atol=1e-14)
    assert epidemic.cdf(X, 3.0).shape == (2,)
    assert epidemic.cdf(X, np.ones((2, 3, 4))).shape == (2, 3, 4)
    levels = np.array([0.0, 0.3, 0.7, 1.0])
    quantiles = epidemic.quantile(X, levels)
    assert quantiles.shape == (2, 4)
    assert (epidemic.cdf(X, quantiles) >= levels).all()
    assert (epidemic.cdf(X, quantiles[:, 1:3] - 1) < levels[1:3]).all()
    np.testing.assert_array_equal(epidemic.quantile(X, 0.7), quantiles[:, 2])


def test_law_is_bimodal_above_the_threshold():
    pmf = Epidemic().pmf([[2.0, 1.0]])[0]
    assert pmf[0] == pytest.approx(1 / 3)
    assert pmf[40:80].max() < 0.1 * pmf[120:].max()


def test_rounding_of_the_infected_leaves_no_jump():
    draws = Epidemic(20).sample([[1.5, 1.999], [1.5, 2.0]], 40_000, 5)
    # The two laws differ by at most 0.001; two samples of 40,000 of one law exceed 0.0138 with probability 1e-3.
    assert ks_statistic(draws[0], draws[1]) < 0.0138 + 0.001


def test_interface():
    for epidemic in (Epidemic(), Epidemic(3)):
        check_simulator(epidemic)
        assert isinstance(epidemic, KnownLaw)


def test_refusals():
    with pytest.raises(InputError, match="susceptible: got 0"):
        Epidemic(0)
    with pytest.raises(InputError, match="at least 1 initially infected"):
        Epidemic(bounds=[(0.5, 4.0), (0.5, 5.0)])
    with pytest.raises(InputError, match=r"column 0 \(reproduction number\)"):
        Epidemic().pmf([[9.0, 1.0]])
