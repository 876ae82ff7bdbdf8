"""Oracles: scipy.stats densities integrated over f on a fine grid, and Monte Carlo over f."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import special, stats

from dtmgp.errors import InputError
from dtmgp.layers import Gaussian
from dtmgp.likelihoods import (
    Bernoulli,
    Categorical,
    GaussianLikelihood,
    HeteroscedasticGaussian,
    NegativeBinomial,
    Poisson,
    StudentT,
)

GRID = np.linspace(-9, 9, 20_001)
WEIGHTS = stats.norm.pdf(GRID) * (GRID[1] - GRID[0])
# log density of y given f; the likelihood; the y that are scored; the error that its quadrature makes
CASES = {
    "gaussian": (
        lambda y, f: stats.norm.logpdf(y, f, 0.3),
        GaussianLikelihood(2, noise=0.3),
        (-1.0, 0.2, 3.0),
        1e-6,
    ),
    "student": (
        lambda y, f: stats.t.logpdf(y, 5.0, f, 0.5),
        StudentT(2, noise=0.5, degrees=5.0),
        (-1.0, 0.2, 3.0),
        1e-4,
    ),
    "bernoulli": (
        lambda y, f: y * special.log_expit(f) + (1 - y) * special.log_expit(-f),
        Bernoulli(2),
        (0.0, 1.0),
        1e-7,
    ),
    "poisson": (lambda y, f: stats.poisson.logpmf(y, np.exp(f)), Poisson(2), (0.0, 1.0, 9.0), 1e-6),
    "negative binomial": (
        lambda y, f: stats.nbinom.logpmf(y, 4.0, 4.0 / (4.0 + np.exp(f))),
        NegativeBinomial(2, size=4.0),
        (0.0, 1.0, 9.0),
        1e-6,
    ),
}


def laws(dtype=torch.float64):
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=(3, 4, 2)), rng.uniform(0.05, 0.7, size=(3, 4, 2))
    return Gaussian(torch.as_tensor(mean, dtype=dtype), torch.as_tensor(std**2, dtype=dtype))


@pytest.mark.parametrize("name", CASES)
def test_expected_log_prob_by_integration(name):
    density, likelihood, values, error = CASES[name]
    f = laws()
    for y in values:
        found = likelihood.double().expected_log_prob(f, torch.full((4, 2), y).double()).detach()
        nodes = f.mean.numpy()[..., None] + f.std.numpy()[..., None] * GRID
        expected = density(y, nodes) @ WEIGHTS
        np.testing.assert_allclose(found, expected, atol=3 * error, rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_at_a_known_f_it_is_the_log_density(name):
    density, likelihood, values, _ = CASES[name]
    f = Gaussian(laws().mean, torch.zeros(3, 4, 2, dtype=torch.float64))
    for y in values:
        found = likelihood.double().expected_log_prob(f, torch.full((4, 2), y).double()).detach()
        np.testing.assert_allclose(found, density(y, f.mean.numpy()), rtol=2e-6, atol=2e-6)
        components = likelihood(f, torch.zeros(3, 4, likelihood.noise_width, dtype=torch.float64))
        tilted = components.log_prob(torch.full((4, 2), y).double()).detach()
        np.testing.assert_allclose(tilted, density(y, f.mean.numpy()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_components_mix_to_the_law_of_y(name):
    """E over f and the likelihood's own noise of p(y | f): 40,000 draws, five standard errors (6e-7 each)."""
    density, likelihood, values, _ = CASES[name]
    mean, std, count = 0.4, 0.6, 40_000
    f = Gaussian(*(torch.full((count, 1, 2), v, dtype=torch.float64) for v in (mean, std**2)))
    noise = torch.randn(count, 1, likelihood.noise_width, generator=torch.Generator().manual_seed(0)).double()
    law = likelihood.double()(f, noise)
    for y in values:
        sample = law.log_prob(torch.full((1, 2), y).double()).exp().detach().mean(-1)
        expected = np.exp(density(y, mean + std * GRID)) @ WEIGHTS
        slack = 5 * sample.std().item() / math.sqrt(count) + 1e-5
        assert sample.mean().item() == pytest.approx(expected, abs=slack)


def test_heteroscedastic_expectation_by_integration_over_both_processes():
    likelihood = HeteroscedasticGaussian(1, noise=0.4).double()
    m, v = np.array([0.3, -0.2]), np.array([0.5, 0.3]) ** 2
    f = Gaussian(torch.tensor(m)[None, None], torch.tensor(v)[None, None])
    coarse = np.linspace(-8, 8, 801)
    weight = stats.norm.pdf(coarse) * (coarse[1] - coarse[0])
    location, scale = m[0] + np.sqrt(v[0]) * coarse, 0.4 * np.exp(m[1] + np.sqrt(v[1]) * coarse)
    for y in (-1.0, 0.3):
        expected = weight @ stats.norm.logpdf(y, location[:, None], scale[None, :]) @ weight
        found = likelihood.expected_log_prob(f, torch.tensor([[y]]).double())
        assert found.item() == pytest.approx(expected, rel=1e-5)


def test_heteroscedastic_components_have_the_noise_of_their_draw():
    likelihood = HeteroscedasticGaussian(2, noise=0.4, floor=0.01).double()
    f = Gaussian(torch.randn(3, 5, 4).double(), torch.rand(3, 5, 4).double())
    noise = torch.randn(3, 5, 2).double()
    law = likelihood(f, noise)
    scale = 0.4 * torch.exp(f.mean[..., 2:] + f.variance[..., 2:].sqrt() * noise)
    torch.testing.assert_close(law.mean, f.mean[..., :2])
    expected = f.variance[..., :2] + scale**2 + 1e-4
    torch.testing.assert_close(law.variance.detach(), expected, rtol=1e-6, atol=0)


def test_categorical_bound_is_below_the_expectation_and_tight_for_known_f():
    likelihood = Categorical(4)
    generator = torch.Generator().manual_seed(0)
    mean, std = (torch.randn(1, 6, 4, generator=generator).double() for _ in range(2))
    y = torch.tensor([[0.0], [1.0], [2.0], [3.0], [0.0], [1.0]]).double()
    bound = likelihood.expected_log_prob(Gaussian(mean, std.square()), y)
    draws = mean + std * torch.randn(200_000, 1, 4, generator=generator).double()
    value = torch.log_softmax(draws, -1).gather(-1, y.long().expand(200_000, 6, 1)).mean(0)
    # standard error of the mean 0.004; the gap is at most half the largest variance
    assert bool((bound[0] < value + 0.02).all())
    assert bool((bound[0] > value - 0.5 * std.square().amax(-1)[0].unsqueeze(-1) - 0.02).all())
    known = likelihood.expected_log_prob(Gaussian(mean, torch.zeros_like(mean)), y)
    torch.testing.assert_close(known, torch.log_softmax(mean, -1).gather(-1, y.long()[None]))


@pytest.mark.parametrize("ratio", [(1.5, 3e-4), (3.0, 1e-2), (10.0, 0.2)])
def test_the_error_of_student_quadrature_is_as_stated(ratio):
    times, limit = ratio
    likelihood = StudentT(noise=0.3, degrees=5.0).double()
    f = Gaussian(torch.zeros(1, 1).double(), torch.full((1, 1), (0.3 * times) ** 2).double())
    expected = stats.t.logpdf(0.4, 5.0, 0.3 * times * GRID, 0.3) @ WEIGHTS
    assert abs(likelihood.expected_log_prob(f, torch.tensor([[0.4]]).double()).item() - expected) < limit


@pytest.mark.parametrize("degrees", [2.0001, 5.0, 50.0, 5000.0])
def test_student_starts_at_the_degrees_asked_for(degrees):
    assert StudentT(degrees=degrees).degrees.item() == pytest.approx(degrees, rel=1e-5)


@pytest.mark.parametrize(
    "make",
    [GaussianLikelihood, HeteroscedasticGaussian, StudentT, Bernoulli, Poisson, NegativeBinomial],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_parameters_get_gradients_for_several_outputs(make, dtype):
    likelihood = make(3).to(dtype)
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(2, 1, likelihood.width, generator=generator, dtype=dtype)
    f = Gaussian(mean.requires_grad_(), torch.ones_like(mean).requires_grad_())
    y = torch.ones(1, 3, dtype=dtype)
    noise = torch.randn(2, 1, likelihood.noise_width, generator=generator, dtype=dtype)
    expected = likelihood.expected_log_prob(f, y)
    density = likelihood(f, noise).log_prob(y)
    assert expected.shape == density.shape == (2, 1, 3)
    assert expected.dtype == density.dtype == dtype
    (expected.sum() + density.sum()).backward()
    for tensor in (f.mean, f.variance, *likelihood.parameters()):
        assert bool(torch.isfinite(tensor.grad).all())
        assert bool((tensor.grad != 0).any())


@pytest.mark.parametrize(
    ("likelihood", "good", "bad"),
    [
        (Bernoulli(), (0.0, 1.0), (0.5, 2.0, math.nan)),
        (Categorical(3), (0.0, 2.0), (3.0, -1.0, 0.5, math.nan)),
        (Poisson(), (0.0, 7.0), (-1.0, 0.5, math.nan, math.inf)),
        (NegativeBinomial(), (0.0, 7.0), (-1.0, 0.5, math.nan, math.inf)),
    ],
)
def test_targets_without_probability_are_refused(likelihood, good, bad):
    likelihood.check_targets(np.array(good)[:, None])
    for value in bad:
        with pytest.raises(InputError, match="y for"):
            likelihood.check_targets(np.array([[good[0]], [value]]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianLikelihood(0),
        lambda: GaussianLikelihood(noise=0.0),
        lambda: GaussianLikelihood(noise=math.inf),
        lambda: HeteroscedasticGaussian(noise=-1.0),
        lambda: StudentT(degrees=2.0),
        lambda: StudentT(degrees=math.inf),
        lambda: StudentT(noise=math.nan),
        lambda: NegativeBinomial(size=0.0),
        lambda: NegativeBinomial(size=math.inf),
        lambda: Categorical(1),
    ],
)
def test_impossible_likelihoods_are_refused(make):
    with pytest.raises(InputError):
        make()
