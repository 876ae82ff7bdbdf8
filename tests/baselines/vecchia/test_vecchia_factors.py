"""Oracles: dense Gaussian algebra, exact for complete conditioning sets; conditionals written out row by row."""

from __future__ import annotations

import numpy as np
import pytest

from dtmgp.baselines.vecchia import Covariance
from dtmgp.baselines.vecchia.factors import DenseSets, VecchiaSets
from dtmgp.baselines.vecchia.kernels import correlation

N, THETA = 40, 0.2
GENERATOR = np.random.default_rng(0)
POINTS = GENERATOR.random((N, 2))
VALUES = GENERATOR.standard_normal(N)
NOISE = 0.01 + 0.05 * GENERATOR.random(N)
QUERIES = GENERATOR.random((15, 2))


def dense_covariance(covariance):
    return correlation(POINTS, POINTS, covariance, THETA) + np.diag(NOISE)


def vecchia(count, threads=1):
    return VecchiaSets(POINTS, count, np.random.default_rng(1), threads)


@pytest.mark.parametrize("covariance", Covariance)
@pytest.mark.parametrize("sets", [DenseSets(), vecchia(N - 1), vecchia(N + 5)], ids=["dense", "n-1", "n+5"])
def test_complete_sets_are_exact(sets, covariance):
    matrix = dense_covariance(covariance)
    factor = sets.factor(POINTS, covariance, THETA, NOISE)
    assert factor.log_det == pytest.approx(-0.5 * np.linalg.slogdet(matrix)[1], rel=1e-10)
    white = factor.whiten(VALUES)
    assert white @ white == pytest.approx(VALUES @ np.linalg.solve(matrix, VALUES), rel=1e-10)
    root = np.column_stack([factor.colour(column) for column in np.eye(N)])
    np.testing.assert_allclose(root @ root.T, matrix, atol=1e-11)


@pytest.mark.parametrize("covariance", Covariance)
@pytest.mark.parametrize("sets", [DenseSets(), vecchia(N - 1)], ids=["dense", "n-1"])
def test_complete_predictions_are_exact(sets, covariance):
    matrix, cross = dense_covariance(covariance), correlation(QUERIES, POINTS, covariance, THETA)
    near = sets.neighbours_of(POINTS, QUERIES)
    mean, variance = sets.predict(POINTS, VALUES, NOISE, QUERIES, near, covariance, THETA)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(matrix, VALUES), atol=1e-10)
    expected = 1.0 - np.einsum("qn,nq->q", cross, np.linalg.solve(matrix, cross.T))
    np.testing.assert_allclose(variance, expected, atol=1e-11)


@pytest.mark.parametrize("count", [1, 6, 20])
def test_rows_are_the_conditionals_of_the_neighbours(count):
    sets = vecchia(count)
    factor = sets.factor(POINTS, Covariance.MATERN52, THETA, NOISE)
    matrix = dense_covariance(Covariance.MATERN52)[np.ix_(sets.order, sets.order)]
    values = VALUES[sets.order]
    white, log_det = np.empty(N), 0.0
    for i in range(N):
        near = [k for k in sets.neighbours[i].tolist() if k >= 0]
        weights = np.linalg.solve(matrix[np.ix_(near, near)], matrix[near, i])
        std = np.sqrt(matrix[i, i] - weights @ matrix[near, i])
        white[i] = (values[i] - weights @ values[near]) / std
        log_det -= np.log(std)
    np.testing.assert_allclose(factor.whiten(VALUES), white, atol=1e-10)
    assert factor.log_det == pytest.approx(log_det, rel=1e-11)


def test_predictions_condition_on_the_nearest_points():
    sets = vecchia(7)
    near = sets.neighbours_of(POINTS, QUERIES)
    mean, variance = sets.predict(POINTS, VALUES, NOISE, QUERIES, near, Covariance.MATERN12, THETA)
    matrix, cross = (
        dense_covariance(Covariance.MATERN12),
        correlation(QUERIES, POINTS, Covariance.MATERN12, THETA),
    )
    for q, chosen in enumerate(near.tolist()):
        weights = np.linalg.solve(matrix[np.ix_(chosen, chosen)], cross[q, chosen])
        assert mean[q] == pytest.approx(weights @ VALUES[chosen], abs=1e-11)
        assert variance[q] == pytest.approx(1.0 - weights @ cross[q, chosen], abs=1e-11)


def test_conditioning_on_few_points_is_an_approximation():
    exact = DenseSets().factor(POINTS, Covariance.MATERN52, THETA, NOISE).log_det
    errors = [
        abs(vecchia(count).factor(POINTS, Covariance.MATERN52, THETA, NOISE).log_det - exact)
        for count in (2, 10, 30)
    ]
    assert errors[0] > errors[1] > errors[2] > 1e-9


@pytest.mark.parametrize("sets", [DenseSets(), vecchia(5)], ids=["dense", "vecchia"])
def test_colouring_inverts_whitening(sets):
    factor = sets.factor(POINTS, Covariance.EXP2, THETA, NOISE)
    white = factor.whiten(VALUES)
    # A Vecchia factor whitens into the order of the conditioning and colours back out of it.
    np.testing.assert_allclose(factor.colour(white), VALUES, atol=1e-11)


@pytest.mark.parametrize("sets", [DenseSets(), vecchia(5)], ids=["dense", "vecchia"])
def test_a_singular_covariance_is_said_to_have_no_factor(sets):
    same = np.zeros((N, 2))
    assert sets.factor(same, Covariance.EXP2, THETA, np.full(N, -1e-3)).log_det == -np.inf


def test_the_jitter_is_enough_for_the_smoothest_kernel_on_close_points():
    close = np.linspace(0, 1, 400)[:, None]
    sets = VecchiaSets(close, 25, np.random.default_rng(0))
    factor = sets.factor(close, Covariance.EXP2, 10.0, np.full(400, 1.5e-8))
    assert np.isfinite(factor.log_det)
    mean, variance = sets.predict(
        close, np.ones(400), np.full(400, 1.5e-8), close, None, Covariance.EXP2, 10.0
    )
    # The zero-mean prior itself shrinks by up to 1.5e-5.
    np.testing.assert_allclose(mean, 1.0, atol=5e-5)
    assert ((variance >= 0) & (variance < 1e-6)).all()


def test_threads_do_not_change_a_bit():
    points = np.random.default_rng(5).random((1000, 3))
    noise = np.full(1000, 0.01)
    first, second = (VecchiaSets(points, 10, np.random.default_rng(1), threads) for threads in (1, 3))
    one, other = (sets.factor(points, Covariance.MATERN52, THETA, noise) for sets in (first, second))
    np.testing.assert_array_equal(one.entries, other.entries)
    assert one.log_det == other.log_det
    predicted = [
        sets.predict(points, points[:, 0].copy(), noise, points, None, Covariance.EXP2, THETA)
        for sets in (first, second)
    ]
    np.testing.assert_array_equal(predicted[0], predicted[1])
