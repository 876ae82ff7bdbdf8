"""Oracles: the mixture written with SciPy's normal law, quadrature of its density, a KS test of the draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dtmgp.metrics import ks_against_cdf
from dtmgp.simulators import KnownLaw, TwoBranches
from dtmgp.testing import check_simulator

X = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.3], [0.2, 0.9]])
# A right simulator fails a random test with this probability, all rows together; the seeds are fixed.
FALSE_ALARM = 1e-3


def mixture_cdf(x, y):
    chance = 1 / (1 + np.exp(-6 * (x[0] - 0.5)))
    noise = 0.2 * (0.5 + x[0])
    upper, lower = stats.norm(2 + x[1], noise), stats.norm(-1 + 0.5 * np.sin(6 * x[1]), noise)
    return chance * upper.cdf(y) + (1 - chance) * lower.cdf(y)


def test_cdf_is_the_mixture():
    y = np.linspace(-3.0, 5.0, 41)
    expected = [mixture_cdf(x, y) for x in X]
    np.testing.assert_allclose(TwoBranches().cdf(X, np.tile(y, (4, 1))), expected, rtol=1e-12, atol=1e-15)


def test_density_integrates_to_the_cdf():
    law = TwoBranches()
    for x in X:
        area = integrate.quad(lambda t, x=x: float(law.pdf(x[None], t)[0]), -3.0, 2.4, points=[-1.0, 2.0])[0]
        assert area == pytest.approx(float(law.cdf(x[None], 2.4)[0]), abs=1e-7)


def test_draws_have_the_exact_law():
    law = TwoBranches()
    distances = ks_against_cdf(law.sample(X, 5000, 1), lambda y: law.cdf(X, y))
    assert stats.kstwo(5000).sf(distances.max()) > FALSE_ALARM / 4


def test_interface():
    check_simulator(TwoBranches())
    assert isinstance(TwoBranches(), KnownLaw)
