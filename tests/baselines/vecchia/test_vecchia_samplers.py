"""Oracles: SciPy's gamma law, detailed balance written out, a Gaussian posterior in closed form.

The statistical tests have fixed seeds; each would fail with another seed in at most 1 case of 1000.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dtmgp.baselines.vecchia.samplers import (
    JITTER,
    WINDOW,
    GammaPrior,
    elliptical_slice,
    log_acceptance,
    metropolis,
)
from dtmgp.errors import InputError

PRIOR = GammaPrior(1.2, 2.0)


def test_the_prior_is_scipy_s_shifted_by_the_jitter():
    for value in (1e-6, 0.01, 0.3, 4.0):
        expected = stats.gamma(1.2, loc=JITTER, scale=0.5).logpdf(value)
        assert PRIOR.log_density(value) == pytest.approx(expected, rel=1e-12)
    assert PRIOR.log_density(JITTER) == -math.inf
    assert PRIOR.log_density(0.0) == -math.inf


def test_a_prior_needs_positive_numbers():
    with pytest.raises(InputError, match="gamma prior"):
        GammaPrior(0.0, 1.0)


@pytest.mark.parametrize(("a", "b"), [(0.2, 0.3), (1.5, 0.8), (0.01, 0.0199)])
def test_acceptance_keeps_detailed_balance(a, b):
    def log_likelihood(value):
        return -3.0 * (value - 0.4) ** 2

    def log_flow(start, end):
        """log of density(start) window(start -> end) min(1, acceptance)."""
        width = start * WINDOW - start / WINDOW
        ratio = log_acceptance(start, end, log_likelihood(start), log_likelihood(end), PRIOR)
        return PRIOR.log_density(start) + log_likelihood(start) - math.log(width) + min(0.0, ratio)

    assert log_flow(a, b) == pytest.approx(log_flow(b, a), abs=1e-12)


def test_metropolis_with_a_flat_likelihood_samples_the_prior():
    generator = np.random.default_rng(0)
    value, values = 0.5, []
    for _ in range(20_000):
        moved = metropolis(value, 0.0, lambda _: (0.0, None), PRIOR, generator)
        if moved is not None:
            value = moved[0]
        values.append(value)
    # Autocorrelations vanish within some 20 steps.
    assert stats.kstest(values[100::25], stats.gamma(1.2, loc=JITTER, scale=0.5).cdf).pvalue > 1e-3


def test_a_failed_factor_is_rejected():
    generator = np.random.default_rng(0)
    assert all(metropolis(0.5, 0.0, lambda _: (-math.inf, None), PRIOR, generator) is None for _ in range(20))


def test_slices_with_a_flat_likelihood_take_the_first_ellipse():
    generator = np.random.default_rng(0)
    calls = []

    def flat(values):
        calls.append(values)
        return 0.0, None

    moved = elliptical_slice(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0.0, flat, generator)
    assert moved is not None
    assert len(calls) == 1
    assert np.linalg.norm(moved[0]) == pytest.approx(1.0)


@pytest.mark.parametrize("informative", [0.0, 1.0, 100.0])
def test_slices_sample_a_conjugate_posterior(informative):
    generator = np.random.default_rng(1)
    covariance = np.array([[1.0, 0.8], [0.8, 1.0]])
    root = np.linalg.cholesky(covariance)
    precision = informative * np.array([[1.0, 0.0], [0.0, 0.1]])
    target = np.array([1.0, -1.0])

    def log_likelihood(values):
        difference = values - target
        return -0.5 * difference @ precision @ difference, None

    posterior = np.linalg.inv(np.linalg.inv(covariance) + precision)
    mean = posterior @ precision @ target
    state, samples = np.zeros(2), []
    likelihood = log_likelihood(state)[0]
    for _ in range(10_000):
        moved = elliptical_slice(
            state, root @ generator.standard_normal(2), likelihood, log_likelihood, generator
        )
        assert moved is not None
        state, likelihood, _ = moved
        samples.append(state)
    white = np.linalg.solve(np.linalg.cholesky(posterior), (np.array(samples[100:]) - mean).T)
    for series in (white[0], white[1], white[0] ** 2 - 1, white[1] ** 2 - 1, white[0] * white[1]):
        batches = series[: len(series) // 50 * 50].reshape(50, -1).mean(axis=1)
        assert abs(batches.mean()) < 4 * batches.std(ddof=1) / np.sqrt(50)


def test_a_bracket_that_cannot_close_keeps_the_state():
    generator = np.random.default_rng(0)
    assert elliptical_slice(np.ones(2), np.ones(2), 0.0, lambda values: (-math.inf, None), generator) is None
