"""Oracles: the formulas by hand and scipy.stats.norm.logpdf."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dtmgp.errors import InputError
from dtmgp.metrics import gaussian_nlpd, rmse


def test_rmse_with_and_without_replicates():
    assert rmse([0.0, 0.0], [3.0, 4.0]) == pytest.approx(np.sqrt(12.5))
    assert rmse([[0.0, 2.0], [5.0, 5.0]], [1.0, 5.0]) == pytest.approx(np.sqrt(0.5))
    # As many replicates as sites: the prediction belongs to the rows.
    assert rmse([[1.0, 1.0], [2.0, 2.0]], [1.0, 2.0]) == 0.0


def test_nlpd_equals_scipy():
    generator = np.random.default_rng(0)
    y, mean, std = generator.normal(size=20), generator.normal(size=20), generator.uniform(0.1, 3, 20)
    expected = -stats.norm(mean, std).logpdf(y).mean()
    assert gaussian_nlpd(y, mean, std) == pytest.approx(expected, rel=1e-13)
    assert gaussian_nlpd(y[:, None], mean, std) == pytest.approx(expected, rel=1e-13)
    # Units: in hundredths the density is a hundredth.
    assert gaussian_nlpd(100 * y, 100 * mean, 100 * std) == pytest.approx(expected + np.log(100))


def test_refusals():
    with pytest.raises(InputError, match="prediction: got shape"):
        rmse(np.zeros(3), np.zeros((3, 1)))
    with pytest.raises(InputError, match="noise"):
        gaussian_nlpd([0.0], [0.0], [0.0])
