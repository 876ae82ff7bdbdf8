"""Oracles: the kernel of the sheet, its logit-normal law by SciPy, quadrature of the density."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logit

from dtmgp.errors import InputError
from dtmgp.kernels import Brownian, Tensor
from dtmgp.metrics import ks_against_cdf
from dtmgp.simulators import BrownianField, KnownLaw
from dtmgp.testing import check_simulator

# A right simulator fails a random test with this probability, all comparisons of the test together; fixed seeds.
FALSE_ALARM = 1e-3


def inputs(dim, n, seed=0):
    return np.random.default_rng(seed).random((n, dim))


def sheet(outputs):
    """B from Y = 1 / (1 + exp(B))."""
    return -logit(outputs)


def covariance_z_scores(values, covariance):
    """Empirical second moments (the mean is known to be 0) against the covariance, in standard errors.

    For normal values the product of two has variance k_ij^2 + k_ii k_jj (Isserlis).
    """
    variances = np.diag(covariance)
    error = np.sqrt((covariance**2 + np.outer(variances, variances)) / values.shape[1])
    return np.abs(values @ values.T / values.shape[1] - covariance) / error


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_paths_have_the_covariance_of_the_sheet(dim):
    X, n_paths = inputs(dim, 12), 40_000
    paths = sheet(BrownianField(dim).sample_paths(X, n_paths, 3))
    comparisons = 12 * 13 / 2
    limit = stats.norm.isf(FALSE_ALARM / comparisons / 2)
    z = covariance_z_scores(paths, Tensor(Brownian(), dim=dim)(X, X))
    assert z.max() < limit
    # The test has power: independent draws, the wrong kind of sample, are far off.
    apart = sheet(BrownianField(dim).sample(X, n_paths, 3))
    assert covariance_z_scores(apart, Tensor(Brownian(), dim=dim)(X, X)).max() > 10 * limit


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_independent_draws_have_a_diagonal_covariance(dim):
    X, n_draws = inputs(dim, 12), 40_000
    draws = sheet(BrownianField(dim).sample(X, n_draws, 4))
    limit = stats.norm.isf(FALSE_ALARM / (12 * 13 / 2) / 2)
    assert covariance_z_scores(draws, np.diag(np.prod(1 + X, axis=1))).max() < limit


@pytest.mark.parametrize("kind", ["sample", "sample_paths"])
def test_both_kinds_of_draws_have_the_exact_law(kind):
    field, X = BrownianField(), np.array([[0.0, 0.0], [1.0, 1.0], [0.3, 0.8]])
    draws = getattr(field, kind)(X, 5000, 5)
    distances = ks_against_cdf(draws, lambda y: field.cdf(X, y))
    assert stats.kstwo(5000).sf(distances.max()) > FALSE_ALARM / 3


def test_cdf_density_and_quantiles_belong_together():
    field, X = BrownianField(), inputs(2, 5)
    levels = np.array([0.001, 0.1, 0.5, 0.9, 0.999])
    quantiles = field.quantile(X, levels)
    np.testing.assert_allclose(field.cdf(X, quantiles), np.tile(levels, (5, 1)), rtol=1e-10)
    np.testing.assert_allclose(field.quantile(X, 0.1), quantiles[:, 1], rtol=0)
    for row in range(5):
        x, y = X[row : row + 1], float(quantiles[row, 3])
        area = integrate.quad(lambda t, x=x: float(field.pdf(x, t)[0]), 0.0, y, epsabs=1e-12)[0]
        assert area == pytest.approx(0.9, abs=1e-9)
    by_hand = stats.norm(scale=np.sqrt(1.5 * 1.25)).cdf(np.log(0.7 / 0.3))
    assert field.cdf([[0.5, 0.25]], 0.7)[0] == pytest.approx(by_hand, rel=1e-14)


def test_cdf_and_density_outside_the_unit_interval():
    field = BrownianField()
    values = [[-1.0, 0.0, 0.5, 1.0, 2.0]]
    np.testing.assert_allclose(field.cdf([[0.2, 0.2]], values), [[0.0, 0.0, 0.5, 1.0, 1.0]], atol=1e-15)
    np.testing.assert_array_equal(field.pdf([[0.2, 0.2]], values) > 0, [[False, False, True, False, False]])
    assert field.cdf(inputs(2, 3), np.full((3, 4, 2), 0.5)).shape == (3, 4, 2)
    assert field.cdf(inputs(2, 0), 0.5).shape == (0,)


def test_paths_are_functions_and_repeat():
    field, X = BrownianField(), inputs(2, 6)
    paths = field.sample_paths(np.vstack([X, X[::-1]]), 3, 7)
    np.testing.assert_array_equal(paths[:6], paths[6:][::-1])
    assert paths.tobytes() == field.sample_paths(np.vstack([X, X[::-1]]), 3, 7).tobytes()
    assert field.sample_paths(X[:0], 3, 7).shape == (0, 3)


def test_rows_a_rounding_error_apart_are_no_trouble():
    # Their covariance matrix has no Cholesky factor in floating point.
    X = np.tile([[0.5, 0.5]], (30, 1)) + np.arange(30)[:, None] * 1e-16
    paths = BrownianField().sample_paths(np.vstack([X, [[1.0, 1.0]]]), 2, 8)
    assert np.isfinite(paths).all()
    assert np.ptp(paths[:30], axis=0).max() < 1e-6


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_interface(dim):
    check_simulator(BrownianField(dim))
    assert isinstance(BrownianField(dim), KnownLaw)


def test_refusals():
    field = BrownianField()
    with pytest.raises(InputError, match="dim: got 0"):
        BrownianField(0)
    with pytest.raises(InputError, match=r"row 0, column 1 \(x2\)"):
        field.sample_paths([[0.5, 1.5]], 2, 0)
    with pytest.raises(InputError, match="n_paths: got 0"):
        field.sample_paths([[0.5, 0.5]], 0, 0)
    with pytest.raises(InputError, match=r"levels q.*in \[0, 1\]"):
        field.quantile([[0.5, 0.5]], [0.5, 1.1])
    with pytest.raises(InputError, match=r"outputs y: got shape \(3,\) for 2 inputs.*row by row"):
        field.cdf([[0.5, 0.5], [0.1, 0.1]], [0.1, 0.2, 0.3])
    with pytest.raises(InputError, match="1 NaN"):
        field.cdf([[0.5, 0.5]], [np.nan])
