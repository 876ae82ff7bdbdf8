"""Oracles: scipy.stats.wasserstein_distance, shifts, and the closed form between two Gaussians of one spread."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dtmgp.errors import InputError
from dtmgp.metrics import wasserstein


@pytest.mark.parametrize("sizes", [(1, 1), (8, 8), (5, 17), (200, 3)])
@pytest.mark.parametrize("decimals", [16, 0])
def test_equals_scipy_with_and_without_ties(sizes, decimals):
    generator = np.random.default_rng(0)
    a = generator.normal(size=(10, sizes[0])).round(decimals)
    b = generator.normal(1.0, 2.0, size=(10, sizes[1])).round(decimals)
    expected = [stats.wasserstein_distance(x, y) for x, y in zip(a, b)]
    np.testing.assert_allclose(wasserstein(a, b), expected, atol=1e-14)


def test_shift_scale_and_symmetry():
    generator = np.random.default_rng(1)
    a, b = generator.normal(size=(3, 4, 30)), generator.normal(size=(3, 4, 20))
    np.testing.assert_allclose(wasserstein(a, a + 2.5), 2.5, rtol=1e-14)
    np.testing.assert_allclose(wasserstein(3 * a, 3 * b), 3 * wasserstein(a, b), rtol=1e-13)
    np.testing.assert_allclose(wasserstein(a, b), wasserstein(b, a), rtol=1e-13)


def test_two_gaussians_of_one_spread_are_as_far_as_their_means():
    generator = np.random.default_rng(2)
    a, b = generator.normal(0, 1, 20_000), generator.normal(3, 1, 20_000)
    # The samples do not overlap much, so the distance is the difference of means: five standard errors.
    assert float(wasserstein(a, b)) == pytest.approx(3.0, abs=5 * np.sqrt(2 / 20_000))


def test_refusals():
    with pytest.raises(InputError, match="two samples"):
        wasserstein(np.zeros((2, 3)), np.zeros(3))
