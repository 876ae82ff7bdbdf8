"""Oracles: Ishigami's and linear-Gaussian closed forms, and SciPy's estimators on the same design."""

from __future__ import annotations

import numpy as np
import pytest
from linear_gaussian import LinearGaussian
from scipy import stats

from dtmgp import TMGPRegressor
from dtmgp.analysis import (
    Mean,
    Quantile,
    StandardDeviation,
    Variance,
    sobol_indices,
    sobol_of_function,
)
from dtmgp.errors import InputError

A, B = 7.0, 0.1
BOX = np.array([[-np.pi, np.pi]] * 3)


def ishigami(x):
    return np.sin(x[:, 0]) + A * np.sin(x[:, 1]) ** 2 + B * x[:, 2] ** 4 * np.sin(x[:, 0])


V1 = 0.5 * (1 + B * np.pi**4 / 5) ** 2
V2 = A**2 / 8
V13 = B**2 * np.pi**8 * (1 / 18 - 1 / 50)
TOTAL = V1 + V2 + V13
FIRST = np.array([V1, V2, 0.0]) / TOTAL
TOTALS = np.array([V1 + V13, V2, V13]) / TOTAL


def test_ishigami():
    found = sobol_of_function(ishigami, BOX, samples=4096, random_state=0)
    # measured with this seed 0.0007; over 20 seeds at most 0.027, twice its standard error
    np.testing.assert_allclose(found.first, FIRST, atol=0.02)
    np.testing.assert_allclose(found.total, TOTALS, atol=0.02)
    assert found.variance == pytest.approx(TOTAL, rel=0.02)
    assert found.mean == pytest.approx(A / 2, abs=0.02)
    assert found.evaluations == 4096 * 5


def test_standard_errors_bound_the_errors():
    # 20 seeds x 6 indices; bootstrap errors are for independent rows, Sobol' points do better: none beyond 4.
    worst, errors = 0.0, []
    for seed in range(20):
        found = sobol_of_function(ishigami, BOX, samples=512, random_state=seed)
        error = np.concatenate([found.first - FIRST, found.total - TOTALS])
        claimed = np.concatenate([found.first_error, found.total_error])
        worst = max(worst, float(np.max(np.abs(error) / claimed)))
        errors.append(claimed)
    assert worst < 4.0
    finer = sobol_of_function(ishigami, BOX, samples=512 * 16, random_state=0)
    ratio = np.mean(errors, axis=0)[:3] / finer.first_error
    assert np.all((ratio > 3.0) & (ratio < 5.3))  # 4 for errors that fall as 1/sqrt(n)


def test_the_estimators_are_scipys():
    rng = np.random.default_rng(3)
    n, d = 256, 3
    a, b = rng.uniform(size=(2, n, d))
    mixed = np.repeat(a[None], d, axis=0)
    mixed[np.arange(d), :, np.arange(d)] = b.T
    scale = lambda u: BOX[:, 0] + u * (BOX[:, 1] - BOX[:, 0])  # noqa: E731
    f_a, f_b = ishigami(scale(a)), ishigami(scale(b))
    f_ab = np.stack([ishigami(scale(m)) for m in mixed])
    from dtmgp.analysis.sobol import _indices

    centre = np.concatenate([f_a, f_b]).mean()
    first, total = _indices(f_a - centre, f_b - centre, f_ab - centre)
    theirs = stats.sobol_indices(func={"f_A": f_a[None], "f_B": f_b[None], "f_AB": f_ab[:, None, :]}, n=n)
    np.testing.assert_allclose(first, theirs.first_order.ravel(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(total, theirs.total_order.ravel(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("functional", "slopes"),
    [
        (Mean(), lambda a, b: a),
        (StandardDeviation(), lambda a, b: b),
        (Quantile(0.95), lambda a, b: a + stats.norm.ppf(0.95) * b),
        (Quantile(0.05), lambda a, b: a + stats.norm.ppf(0.05) * b),
    ],
)
def test_linear_gaussian(functional, slopes):
    model = LinearGaussian([1.0, 2.0, 0.5], [0.2, 0.1, 1.0])
    found = sobol_indices(model, functional, samples=1024, random_state=1)
    share = slopes(model.a, model.b) ** 2
    # additive: first order = total; measured error 1.3e-6
    np.testing.assert_allclose(found.first, share / share.sum(), atol=1e-4)
    np.testing.assert_allclose(found.total, share / share.sum(), atol=1e-4)
    assert found.label == functional.label


def test_variance_of_a_linear_scale():
    """(s + b u)^2 with one active input: everything is its share; its variance in closed form."""
    s, b = 1.0, 2.0
    found = sobol_indices(LinearGaussian([1.0, 1.0], [b, 0.0], s=s), Variance(), samples=1024, random_state=0)
    np.testing.assert_allclose(found.first, [1.0, 0.0], atol=2e-3)
    np.testing.assert_allclose(found.total, [1.0, 0.0], atol=2e-3)
    u = np.polynomial.Polynomial([s, b]) ** 2
    moment = lambda p: p.integ()(1.0) - p.integ()(0.0)  # noqa: E731
    assert found.variance == pytest.approx(moment(u**2) - moment(u) ** 2, rel=2e-3)


def test_fitted_emulator_of_ishigami():
    rng = np.random.default_rng(0)
    X = rng.uniform(-np.pi, np.pi, size=(600, 3))
    model = TMGPRegressor(bounds=BOX).fit(X, ishigami(X) + 0.1 * rng.normal(size=600))
    found = sobol_indices(model, samples=1024, random_state=0)
    # the emulator's error beside that of the integration; measured 0.005
    np.testing.assert_allclose(found.first, FIRST, atol=0.05)
    np.testing.assert_allclose(found.total, TOTALS, atol=0.05)


def test_refusals():
    with pytest.raises(InputError, match="constant"):
        sobol_of_function(lambda x: np.ones(len(x)), BOX)
    with pytest.raises(InputError, match="2 outputs"):
        sobol_indices(TwoOutputs(), random_state=0)
    found = sobol_indices(TwoOutputs(), Mean(output=1), random_state=0)
    np.testing.assert_allclose(found.first, [0.2, 0.8], atol=0.01)


class TwoOutputs(LinearGaussian):
    def __init__(self):
        super().__init__([1.0, 2.0])

    def predict(self, X, return_std=False):
        mean = np.stack([np.zeros(len(X)), super().predict(X)], axis=1)
        return (mean, np.ones_like(mean)) if return_std else mean
