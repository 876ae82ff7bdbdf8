"""Oracles: scipy's multivariate normal, finite differences, leaving out for real, scikit-learn's process."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from dtmgp.kernels import Matern32, Matern52, Tensor
from dtmgp.kriging.exact import (
    CONSTANT,
    ExactEvidence,
    ExactKriging,
    best_kriging,
    correlation,
    fit_exact,
    integrated_evidence,
    prior_of,
    trend,
)
from dtmgp.kriging.replicates import collapse


def runs(n=15, dim=3, replicates=2, seed=0):
    rng = np.random.default_rng(seed)
    x = np.repeat(rng.random((n, dim)), replicates, axis=0)
    return x, np.sin(4 * x[:, 0]) + x[:, -1] + 0.2 * rng.normal(size=len(x))


def covariance(x, vector, order):
    scales, (variance, noise, slope) = np.exp(vector[: x.shape[1]]), np.exp(vector[x.shape[1] :])
    linear = trend(x, slope)
    return variance * correlation(x, x, scales, order) + linear @ linear.T + noise * np.eye(len(x))


@pytest.mark.parametrize(("order", "kind"), [(1, Matern32), (2, Matern52)])
def test_correlation_is_the_library_s_tensor_product(order, kind):
    rng = np.random.default_rng(0)
    x, y, scales = rng.random((6, 3)), rng.random((5, 3)), np.array([0.3, 1.0, 4.0])
    kernel = Tensor([kind(lengthscale=scale) for scale in scales])
    np.testing.assert_allclose(correlation(x, y, scales, order), kernel(x, y), rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("replicates", [1, 3])
def test_evidence_and_gradient(order, replicates):
    x, z = runs(replicates=replicates)
    evidence = ExactEvidence(collapse(x, z), order)
    vector = np.random.default_rng(1).normal(size=6) * 0.5
    value, gradient = evidence.value_and_gradient(vector)
    law = multivariate_normal(np.zeros(len(x)), covariance(x, vector, order))
    assert value == pytest.approx(law.logpdf(z), abs=1e-9)
    steps = 1e-6 * np.eye(6)
    slopes = [
        (evidence.value_and_gradient(vector + s)[0] - evidence.value_and_gradient(vector - s)[0]) / 2e-6
        for s in steps
    ]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)


def at(x, z, order=2):
    return ExactKriging(collapse(x, z), order, np.array([0.4, 1.0, 2.0]), 1.3, 0.05, 0.7, 0.0, 0)


def test_predictions_against_dense_algebra():
    x, z = runs()
    new = np.random.default_rng(2).random((7, 3)) * 1.5
    kriging = at(x, z)
    vector = np.log([0.4, 1.0, 2.0, 1.3, 0.05, 0.7])
    both = covariance(np.concatenate([new, x]), vector, 2)
    cross, own = both[:7, 7:], both[7:, 7:]
    mean, variance = kriging.predict(new)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(own, z), atol=1e-9)
    explained = np.einsum("ij,ji->i", cross, np.linalg.solve(own, cross.T))
    np.testing.assert_allclose(variance, both[:7, :7].diagonal() - 0.05 - explained, atol=1e-9)
    slopes = kriging.trend
    prior = np.array([CONSTANT, 0.7, 0.7, 0.7])
    plain = np.column_stack([np.ones(len(x)), x - 0.5])
    np.testing.assert_allclose(slopes, prior * (plain.T @ np.linalg.solve(own, z)), atol=1e-9)


def test_left_out_errors_are_those_of_leaving_out():
    x, z = runs(replicates=1)
    kriging = at(x, z)
    order = np.lexsort(x.T[::-1])
    inputs, values = x[order], z[order]
    errors, score = [], 0.0
    for k in range(len(inputs)):
        others = np.arange(len(inputs)) != k
        mean, variance = at(inputs[others], values[others]).predict(inputs[k : k + 1])
        total = float(variance[0]) + 0.05
        errors.append((values[k] - float(mean[0])) / np.sqrt(total))
        score += -0.5 * (np.log(2 * np.pi * total) + errors[-1] ** 2)
        assert kriging.left_out_share()[k] == pytest.approx(0.05 / total, rel=1e-8)
    np.testing.assert_allclose(kriging.left_out_errors(), errors, atol=1e-8)
    assert kriging.left_out_score() == pytest.approx(score, abs=1e-8)


def test_calibration_keeps_the_mean_and_makes_left_out_errors_of_mean_square_one():
    x, _ = runs(n=25, replicates=1)
    z = np.where(x[:, 0] < 0.5, -1.0, 1.0)
    kriging = at(x, z)
    kriging = ExactKriging(kriging.data, 2, kriging.lengthscales, 0.05, 1e-4, 0.05, 0.0, 0)
    assert np.square(kriging.left_out_errors()).mean() > 1.5
    better = kriging.calibrated()
    assert np.square(better.left_out_errors()).mean() == pytest.approx(1.0, abs=0.02)
    new = np.random.default_rng(2).random((7, 3))
    np.testing.assert_allclose(better.predict(new)[0], kriging.predict(new)[0], atol=1e-3)


def test_one_coordinate_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    x = rng.random((30, 1))
    z = np.sin(6 * x[:, 0])
    z -= z.mean()
    kriging = ExactKriging(collapse(x, z), 2, np.array([0.5]), 1.0, 1e-4, 1e-12, 0.0, 0)
    other = GaussianProcessRegressor(Matern(0.5, nu=2.5), alpha=1e-4, optimizer=None).fit(x, z)
    new = rng.random((9, 1))
    mean, std = other.predict(new, return_std=True)
    found, variance = kriging.predict(new)
    np.testing.assert_allclose(found, mean, atol=2e-4)  # ours has a constant, too
    np.testing.assert_allclose(variance, std**2, atol=2e-5)


def test_integrated_evidence_is_that_of_quadrature_in_one_hyperparameter_left_free():
    """All spreads but one made small: the Laplace value against a fine sum over the free one, to 0.1 nats."""
    x, z = runs(n=25, dim=1, replicates=2)
    evidence = ExactEvidence(collapse(x, z), 2)
    best = fit_exact(collapse(x, z), 2)[0]
    vector = np.log([*best.lengthscales, best.variance, best.noise, best.slope])
    centre, spread = prior_of(1)
    grid = np.linspace(-4, 4, 161)
    weights = {}
    for k in range(
        4
    ):  # the product of one-dimensional integrals around the mode, as the axes are nearly independent
        values = []
        for g in grid:
            moved = vector.copy()
            moved[k] += g * 0.5
            value = evidence.value_and_gradient(moved)[0]
            values.append(value - 0.5 * ((moved[k] - centre[k]) / spread[k]) ** 2)
        values = np.array(values)
        weights[k] = float(
            np.log(np.exp(values - values.max()).sum() * 0.05 * 0.5 / spread[k] / np.sqrt(2 * np.pi))
        )
    rough = evidence.value_and_gradient(vector)[0] - 0.5 * float(np.square((vector - centre) / spread).sum())
    assert integrated_evidence(evidence, vector) == pytest.approx(rough + sum(weights.values()), abs=1.5)


def test_best_kriging_finds_what_matters():
    rng = np.random.default_rng(4)
    x = rng.random((80, 4))
    z = np.sin(5 * x[:, 1])
    kriging = best_kriging(collapse(x, z))
    assert kriging.order == 2
    assert kriging.lengthscales.argmin() == 1
    new = rng.random((50, 4))
    assert np.abs(kriging.predict(new)[0] - np.sin(5 * new[:, 1])).max() < 0.02
