"""Oracles: the dense likelihood of all replicates, the scale integrated out by quadrature, SciPy's normal density."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dtmgp.baselines.vecchia import Covariance
from dtmgp.baselines.vecchia.factors import DenseSets
from dtmgp.baselines.vecchia.kernels import correlation
from dtmgp.baselines.vecchia.likelihood import Replicated, hidden_log_likelihood, profile_log_likelihood

GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.random((6, 2))[[0, 1, 2, 3, 4, 5, 2, 2, 4]]
OUTPUTS = GENERATOR.standard_normal((9, 2))
EVERY_INPUT, EVERY_OUTPUT = np.repeat(INPUTS, 2, axis=0), OUTPUTS.reshape(-1)


def dense(theta, nugget):
    covariance = correlation(EVERY_INPUT, EVERY_INPUT, Covariance.MATERN52, theta)
    return covariance + nugget * np.eye(len(covariance))


def ours(theta, nugget):
    points, outputs = Replicated.group(INPUTS, OUTPUTS)
    factor = DenseSets().factor(points, Covariance.MATERN52, theta, outputs.noise(nugget))
    return profile_log_likelihood(factor, outputs, nugget)


def test_groups_hold_means_counts_and_squares():
    points, outputs = Replicated.group(INPUTS, OUTPUTS)
    assert points.shape == (6, 2)
    assert sorted(outputs.count.tolist()) == [2, 2, 2, 2, 4, 6]
    assert outputs.total == 18
    triple = np.flatnonzero(outputs.count == 6)[0]
    np.testing.assert_array_equal(points[triple], INPUTS[2])
    assert outputs.mean[triple] == pytest.approx(OUTPUTS[[2, 6, 7]].mean())
    squares = sum(
        ((OUTPUTS[(row == INPUTS).all(axis=1)] - mean) ** 2).sum()
        for row, mean in zip(points, outputs.mean, strict=True)
    )
    assert outputs.within == pytest.approx(squares, rel=1e-13)


@pytest.mark.parametrize(("theta", "nugget"), [(0.1, 0.01), (2.0, 0.5), (0.5, 1e-4)])
def test_sufficient_statistics_are_exact(theta, nugget):
    matrix = dense(theta, nugget)
    square = EVERY_OUTPUT @ np.linalg.solve(matrix, EVERY_OUTPUT)
    expected = -0.5 * np.linalg.slogdet(matrix)[1] - 9 * np.log(square)
    value, scale = ours(theta, nugget)
    assert value == pytest.approx(expected, rel=1e-9)
    assert scale == pytest.approx(square / 18, rel=1e-9)


def test_the_scale_is_integrated_out_under_its_reference_prior():
    def integrated(theta, nugget):
        normal = stats.multivariate_normal(np.zeros(18), dense(theta, nugget))
        offset = normal.logpdf(EVERY_OUTPUT)

        # d(tau^2) / tau^2 = 2 du with tau = exp(u)
        def density(u):
            return np.exp(normal.logpdf(EVERY_OUTPUT * np.exp(-u)) - 18 * u - offset)

        return offset + np.log(integrate.quad(density, -8, 8, limit=400, epsabs=0)[0])

    cases = [(0.3, 0.3), (1.0, 0.1), (0.05, 0.8)]
    differences = [integrated(*case) - ours(*case)[0] for case in cases]
    np.testing.assert_allclose(differences, differences[0], atol=1e-6)


def test_hidden_likelihood_is_the_normal_density():
    points = GENERATOR.random((8, 1))
    noise = np.full(8, 1e-3)
    matrix = correlation(points, points, Covariance.MATERN32, 0.4) + np.diag(noise)
    factor = DenseSets().factor(points, Covariance.MATERN32, 0.4, noise)
    values = GENERATOR.standard_normal(8)
    expected = stats.multivariate_normal(np.zeros(8), matrix).logpdf(values) + 4 * np.log(2 * np.pi)
    assert hidden_log_likelihood(factor, values) == pytest.approx(expected, rel=1e-9)


def test_without_a_factor_the_likelihood_is_zero():
    failed = DenseSets().factor(np.zeros((9, 1)), Covariance.EXP2, 1.0, np.full(9, -0.5))
    assert hidden_log_likelihood(failed, np.ones(9)) == -np.inf
    outputs = Replicated(np.ones(9), np.ones(9), 0.0)
    assert profile_log_likelihood(failed, outputs, 0.1)[0] == -np.inf
