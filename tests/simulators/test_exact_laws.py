"""Oracles: the partial-fraction sum of exponentials, the Erlang law of SciPy, products of cdfs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dtmgp.errors import InputError
from dtmgp.simulators.exact_laws import parallel_cdf, series_cdf

TIMES = np.linspace(0.0, 30.0, 61)


def test_distinct_means_against_partial_fractions():
    means = np.array([0.5, 1.5, 2.5, 5.0])
    rates = 1 / means
    expected = np.ones_like(TIMES)
    for i, rate in enumerate(rates):
        others = np.delete(rates, i)
        expected -= np.prod(others / (others - rate)) * np.exp(-rate * TIMES)
    np.testing.assert_allclose(series_cdf(TIMES, means), expected, atol=1e-13)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_equal_means_against_the_erlang_law(k):
    expected = stats.gamma(k, scale=1.7).cdf(TIMES)
    np.testing.assert_allclose(series_cdf(TIMES, [1.7] * k), expected, atol=1e-13)


def test_parallel_paths_multiply_and_any_shape_of_times_is_kept():
    times = TIMES[1:].reshape(3, 20)
    expected = stats.expon(scale=2.0).cdf(times) * stats.gamma(2, scale=1.0).cdf(times)
    np.testing.assert_allclose(parallel_cdf(times, [[2.0], [1.0, 1.0]]), expected, atol=1e-13)
    assert series_cdf(-1.0, [1.0]) == 0.0


def test_bad_means_are_refused():
    with pytest.raises(InputError, match="positive means"):
        series_cdf(1.0, [1.0, -2.0])
