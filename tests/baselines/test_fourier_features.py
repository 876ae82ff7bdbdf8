"""Oracles: the Gaussian kernel with the known Monte Carlo error, q(w) in units of x, Monte Carlo over frequencies."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from dtmgp.baselines.networks import FixedFrequencies, PriorFixed, VariationalFixed, VariationalResampled
from dtmgp.baselines.networks.fourier import CosineSine


def seeded(number):
    return torch.Generator().manual_seed(number)


def set_lengthscales(frequencies, values):
    with torch.no_grad():
        frequencies.log_lengthscale.copy_(torch.tensor(values).log())
    return frequencies.double()


LENGTHSCALES = [0.5, 1.0, 3.0]


@pytest.mark.parametrize("treatment", [FixedFrequencies, PriorFixed, VariationalFixed])
def test_products_of_features_equal_the_gaussian_kernel(treatment):
    count = 50_000
    frequencies = set_lengthscales(treatment(3, count, 1.0, seeded(0)), LENGTHSCALES)
    activation = CosineSine().double()
    x = torch.randn(6, 3, generator=seeded(1), dtype=torch.float64)
    with torch.no_grad():
        features = activation(frequencies(x))
        activation.log_amplitude.fill_(math.log(2.0))
        doubled = activation(frequencies(x))
    assert features.shape == (6, 2 * count)
    distance = ((x[:, None] - x[None]) / torch.tensor(LENGTHSCALES)).square().sum(-1)
    kernel = (-0.5 * distance).exp()
    # var cos(z) = (1 + k(2 x)) / 2 - k(x)^2: five standard errors, 15 pairs, false-alarm rate 1e-5
    error = (((1 + (-2 * distance).exp()) / 2 - kernel**2).clamp(min=0) / count).sqrt()
    assert ((features @ features.T - kernel).abs() <= 5 * error + 1e-12).all()
    np.testing.assert_allclose(doubled @ doubled.T, 4 * (features @ features.T), rtol=1e-12)


def test_fixed_frequencies_have_nothing_to_learn():
    learned = [name for name, part in FixedFrequencies(3, 4, 1.0).named_parameters() if part.requires_grad]
    assert learned == []
    learned = [name for name, part in PriorFixed(3, 4, 1.0).named_parameters() if part.requires_grad]
    assert learned == ["log_lengthscale"]


def test_variational_frequencies_start_at_the_prior():
    x = torch.randn(5, 2, generator=seeded(1))
    prior, learned = PriorFixed(2, 7, 1.3, seeded(0)), VariationalFixed(2, 7, 1.3, seeded(0))
    with torch.no_grad():
        np.testing.assert_allclose(prior(x), learned(x), atol=1e-6)
        assert float(learned.weights.kl()) == 0.0
        learned.weights.mean.add_(0.5)
        assert not np.allclose(prior(x), learned(x), atol=0.1)


@pytest.mark.parametrize("treatment", [VariationalFixed, VariationalResampled])
def test_kl_is_that_of_the_frequencies_in_units_of_x(treatment):
    frequencies = set_lengthscales(treatment(3, 5, 1.0, seeded(0)), LENGTHSCALES)
    weights = frequencies.weights
    with torch.no_grad():
        weights.mean.normal_(generator=seeded(1))
        weights.log_std.normal_(generator=seeded(2))
        scale = torch.tensor(LENGTHSCALES, dtype=torch.float64)[:, None]
        q = Normal(weights.mean / scale, weights.log_std.exp() / scale)
        expected = kl_divergence(q, Normal(torch.zeros_like(scale), 1 / scale)).sum()
        assert float(weights.kl()) == pytest.approx(float(expected), rel=1e-7)


def test_law_of_resampled_phases_equals_monte_carlo_over_frequencies():
    frequencies = set_lengthscales(VariationalResampled(3, 2, 1.0, seeded(0)), LENGTHSCALES)
    x = torch.randn(4, 3, generator=seeded(1), dtype=torch.float64)
    samples = 100_000
    with torch.no_grad():
        table = frequencies.weights.draw(samples, seeded(2)) / torch.tensor(LENGTHSCALES)[:, None]
        values, law = x @ table, frequencies(x)
    # five standard errors, 16 comparisons: false-alarm rate 1e-5
    assert ((values.mean(0) - law.mean).abs() < 5 * (law.variance / samples).sqrt()).all()
    assert ((values.var(0) / law.variance - 1).abs() < 5 * math.sqrt(2 / samples)).all()
