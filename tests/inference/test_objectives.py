"""Oracles: naive loops over runs and draws with the same noise, scipy densities, closed forms of the energy score."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from small import small_model, small_runs

from dtmgp.errors import InputError
from dtmgp.inference import ELBO, Batch, Energy, Predictive
from dtmgp.layers import Gaussian
from dtmgp.likelihoods import (
    Bernoulli,
    BoxCox,
    Categorical,
    Chain,
    GaussianLikelihood,
    HeteroscedasticGaussian,
    NegativeBinomial,
    Poisson,
    Standardise,
    StudentT,
)

LOG_WARP = Chain(Standardise(0.0, 2.0), BoxCox(0.0, -4.0))
MODELS = {
    "gaussian": lambda: small_model(dtype=torch.float64),
    "one layer": lambda: small_model(1, dtype=torch.float64),
    "latent": lambda: small_model(2, latent_inputs=1, dtype=torch.float64),
    "one layer, latent": lambda: small_model(1, latent_inputs=2, dtype=torch.float64),
    "two outputs": lambda: small_model(likelihood=GaussianLikelihood(2), dtype=torch.float64),
    "heteroscedastic": lambda: small_model(likelihood=HeteroscedasticGaussian(2), dtype=torch.float64),
    "student, warped": lambda: small_model(likelihood=StudentT(1, warp=LOG_WARP), dtype=torch.float64),
}
COUNTS = {
    "bernoulli": (lambda: Bernoulli(2), 2),
    "categorical": (lambda: Categorical(3), 1),
    "poisson": (lambda: Poisson(2), 2),
    "negative binomial": (lambda: NegativeBinomial(1), 1),
}


def batch_for(model, inputs=6):
    x, y, start = small_runs(inputs, 3, model.likelihood.outputs, dtype=torch.float64)
    keep = torch.ones(len(y), dtype=torch.bool)
    keep[[4, 5, 9]] = False  # 3, 1, 3, 2, 3, .. replicates
    group = torch.repeat_interleave(torch.arange(len(x)), start.diff())
    return Batch(x, y[keep], group[keep], 100)


def ungrouped(batch):
    """Every run with an input of its own."""
    return batch.x[batch.group], batch.y


def noise_of(model, samples, batch, seed):
    """The noise that an objective draws, repeated for every run."""
    noise = model.noise(samples, len(batch.x), batch.x, torch.Generator().manual_seed(seed))
    pick = [part[:, batch.group] for part in (noise.latent, *noise.hidden, noise.output)]
    return type(noise)(pick[0], tuple(pick[1:-1]), pick[-1])


@pytest.mark.parametrize("samples", [1, 5])
@pytest.mark.parametrize("name", MODELS)
def test_elbo_is_the_naive_sum_over_runs_and_draws(name, samples):
    model = MODELS[name]()
    batch = batch_for(model)
    x, y = ungrouped(batch)
    f = model(x, noise=noise_of(model, samples, batch, 3))
    likelihood = model.likelihood
    total = 0.0
    for m in range(len(y)):
        for s in range(samples):
            law = Gaussian(f.mean[s : s + 1, m : m + 1], f.variance[s : s + 1, m : m + 1])
            z = likelihood.warp(y[m : m + 1])
            total += likelihood.expected_log_prob(law, z).sum().item() / samples
        total += likelihood.warp.log_derivative(y[m : m + 1]).sum().item()
    kl = sum(layer.kl().item() for layer in model.layers)
    loss = ELBO(samples, kl_weight=0.5)(model, batch, torch.Generator().manual_seed(3), kl_scale=0.2)
    assert loss.data.item() == pytest.approx(-total / len(y), rel=1e-10)
    assert loss.kl.item() == pytest.approx(kl / 100, rel=1e-12)
    assert loss.value.item() == pytest.approx(-total / len(y) + 0.5 * 0.2 * kl / 100, rel=1e-10)


@pytest.mark.parametrize("samples", [1, 5])
@pytest.mark.parametrize("name", MODELS)
def test_predictive_is_the_log_of_the_mean_density_of_every_run(name, samples):
    model = MODELS[name]()
    batch = batch_for(model)
    x, y = ungrouped(batch)
    law = model.components(x, noise_of(model, samples, batch, 4))
    warp = model.likelihood.warp
    z, slope = warp(y).numpy(), warp.log_derivative(y).exp().numpy()
    fields = {k: v.detach().numpy() for k, v in vars(law).items()}
    if "degrees" in fields:
        density = stats.t.pdf(z, fields["degrees"], fields["loc"], fields["scale"])
    else:
        density = stats.norm.pdf(z, fields["loc"], fields["scale"])
    joint = np.prod(density * slope, axis=-1)  # outputs share the hidden draw
    loss = Predictive(samples)(model, batch, torch.Generator().manual_seed(4))
    assert loss.data.item() == pytest.approx(-np.log(joint.mean(0)).mean(), rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_energy_is_the_fair_score_by_loops_over_pairs(name):
    model, samples = MODELS[name](), 5
    batch = batch_for(model)
    generator = torch.Generator().manual_seed(5)
    law = model.components(batch.x, model.noise(samples, len(batch.x), batch.x, generator))
    draws = law.draw(generator).detach().numpy()  # (K, B, W)
    total = 0.0
    for target, place in zip(model.likelihood.warp(batch.y).numpy(), batch.group.tolist()):
        own = draws[:, place]
        near = np.mean([np.linalg.norm(d - target) for d in own])
        pairs = [np.linalg.norm(a - b) for i, a in enumerate(own) for j, b in enumerate(own) if i != j]
        total += near - 0.5 * np.mean(pairs)
    loss = Energy(samples)(model, batch, torch.Generator().manual_seed(5))
    assert loss.data.item() == pytest.approx(total / len(batch.y), rel=1e-6)  # 1e-6 in place of a distance 0


def test_energy_of_normal_draws_has_the_closed_form_of_the_crps():
    """20,000 draws at one input: error 1/sqrt(20,000) of a standard deviation, five of them."""
    model = small_model(1, dtype=torch.float64)
    batch = Batch.of(torch.full((1, 2), 0.3).double(), torch.full((1, 1), 0.7).double())
    law = model.components(batch.x, model.noise(1, 1, batch.x))
    m, s = law.mean.item(), law.variance.sqrt().item()
    z = (0.7 - m) / s
    crps = s * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / math.sqrt(math.pi))
    found = Energy(20_000)(model, batch, torch.Generator().manual_seed(0)).data.item()
    assert found == pytest.approx(crps, abs=5 * s / math.sqrt(20_000))


@pytest.mark.parametrize("objective", [ELBO(3), Predictive(3), Energy(3)])
@pytest.mark.parametrize("name", MODELS)
def test_a_batch_of_one_input_and_one_run(name, objective):
    model = MODELS[name]()
    x, y, _ = small_runs(1, 1, model.likelihood.outputs, dtype=torch.float64)
    loss = objective(model, Batch.of(x, y), torch.Generator().manual_seed(0))
    loss.value.backward()
    assert loss.value.ndim == 0
    assert math.isfinite(loss.value.item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", COUNTS)
def test_counts_and_classes_are_scored_by_elbo_and_predictive(name, dtype):
    make, columns = COUNTS[name]
    model = small_model(likelihood=make(), dtype=dtype)
    x, _, start = small_runs(5, 2, dtype=dtype)
    y = torch.tensor([[0.0], [1.0]] * 5, dtype=dtype).expand(-1, columns)
    batch = Batch(x, y, torch.repeat_interleave(torch.arange(5), start.diff()), 10)
    for objective in (ELBO(2), Predictive(2)):
        model.zero_grad()
        loss = objective(model, batch, torch.Generator().manual_seed(0))
        loss.value.backward()
        assert loss.value.dtype == dtype
        assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None)
    with pytest.raises(InputError, match="no gradient"):
        Energy(2)(model, batch, torch.Generator().manual_seed(0))


def test_more_samples_lower_the_predictive_loss_on_average():
    """K-sample bounds rise with K: 40 repetitions with strong hidden noise, differences of several standard errors."""
    model = small_model(dtype=torch.float64)
    with torch.no_grad():  # an output that depends on the hidden draw
        model.layers[-1].weights.mean.normal_(std=3.0, generator=torch.Generator().manual_seed(0))
    batch = batch_for(model)
    generator = torch.Generator().manual_seed(0)
    means = [
        np.mean([Predictive(k).data_term(model, batch, generator).item() for _ in range(40)])
        for k in (1, 8, 64)
    ]
    assert means == sorted(means, reverse=True)
    # and the bound of the log likelihood's mean is below all of them
    elbo = np.mean([ELBO(1).data_term(model, batch, generator).item() for _ in range(40)])
    assert elbo > means[0]


def test_energy_refuses_a_warp_that_it_would_shrink():
    model = small_model(likelihood=GaussianLikelihood(warp=BoxCox(0.5, -9.0, learn=True)))
    x, y, _ = small_runs(3, 1)
    with pytest.raises(InputError, match="warp that is learned"):
        Energy(2)(model, Batch.of(x, y))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ELBO(0),
        lambda: ELBO(True),
        lambda: ELBO(1.5),
        lambda: Energy(1),
        lambda: Predictive(4, kl_weight=-1.0),
        lambda: ELBO(1, kl_weight=math.nan),
    ],
)
def test_impossible_objectives_are_refused(make):
    with pytest.raises(InputError):
        make()


def test_same_generator_same_bits():
    model = small_model()
    x, y, _ = small_runs(5, 1)
    for objective in (ELBO(2), Predictive(2), Energy(2)):
        one, two = (
            objective(model, Batch.of(x, y), torch.Generator().manual_seed(1)).value for _ in range(2)
        )
        assert torch.equal(one, two)
