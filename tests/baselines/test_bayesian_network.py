"""Oracles: Monte Carlo over drawn weights, torch.distributions, finite differences of the objective, the protocol."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

from dtmgp.baselines import BNNReLU, RandomFeatureDGP
from dtmgp.baselines.networks import (
    BayesianNetwork,
    Dense,
    FixedFrequencies,
    PriorFixed,
    VariationalFixed,
    VariationalResampled,
)
from dtmgp.errors import InputError
from dtmgp.inference import ELBO, Batch, Energy, Predictive
from dtmgp.likelihoods import GaussianLikelihood

TREATMENTS = [FixedFrequencies, PriorFixed, VariationalFixed, VariationalResampled]


def seeded(number):
    return torch.Generator().manual_seed(number)


def dense(size, width, seed=0, bias=True, std=0.4):
    layer = Dense(
        size,
        width,
        prior=(0.1, 0.7),
        bias_prior=(0.0, 0.5) if bias else None,
        scale=1.0,
        initial_std=std,
        generator=seeded(seed),
    ).double()
    if layer.bias is not None:
        with torch.no_grad():
            layer.bias.mean.copy_(torch.randn(1, width, generator=seeded(seed + 1)))
    return layer


def drawn(layer, h, samples, generator):
    """Units of a layer with weights drawn anew in each of the samples; h (n, d) or (S, n, d)."""
    units = h @ layer.weights.draw(samples, generator)
    return units if layer.bias is None else units + layer.bias.draw(samples, generator)


@pytest.mark.parametrize("bias", [True, False])
def test_law_of_a_layer_equals_monte_carlo_over_its_weights(bias):
    layer = dense(3, 2, bias=bias)
    h = torch.randn(4, 3, generator=seeded(5), dtype=torch.float64)
    samples = 100_000
    with torch.no_grad():
        law, values = layer(h), drawn(layer, h, samples, seeded(6))
    # five standard errors, 16 comparisons: false-alarm rate 1e-5
    assert ((values.mean(0) - law.mean).abs() < 5 * (law.variance / samples).sqrt()).all()
    assert ((values.var(0) / law.variance - 1).abs() < 5 * math.sqrt(2 / samples)).all()


def test_law_of_a_network_equals_monte_carlo_over_its_weights():
    first, second = dense(2, 3, 0), dense(3, 1, 10)
    network = BayesianNetwork([(nn.Identity(), first), (nn.ReLU(), second)], GaussianLikelihood()).double()
    x = torch.randn(5, 2, generator=seeded(3), dtype=torch.float64)
    samples = 100_000
    with torch.no_grad():
        values = drawn(second, drawn(first, x, samples, seeded(1)).relu(), samples, seeded(2))[..., 0]
        law = network(x, samples, seeded(4))
        mean, variance = law.mean[..., 0], law.variance[..., 0]
    # both sides are estimates: five standard errors of their difference
    error = (values.var(0) / samples + mean.var(0) / samples).sqrt()
    assert ((values.mean(0) - mean.mean(0)).abs() < 5 * error).all()
    total = variance.mean(0) + mean.var(0)
    np.testing.assert_allclose(total, values.var(0), rtol=0.06)  # heavier tails than normal: measured 0.01


def test_kl_equals_torch_distributions():
    first, second = dense(4, 3, 0), dense(3, 1, 10, bias=False)
    network = BayesianNetwork([(nn.Identity(), first), (nn.ReLU(), second)], GaussianLikelihood())
    pairs = [(first.weights, 0.1, 0.7), (first.bias, 0.0, 0.5), (second.weights, 0.1, 0.7)]
    expected = sum(
        kl_divergence(Normal(part.mean, part.log_std.exp()), Normal(mean, std)).sum()
        for part, mean, std in pairs
    )
    assert network.kl().item() == pytest.approx(expected.item(), rel=1e-6)


def networks():
    yield BNNReLU(features=(6,)).build(3, seeded(0))
    yield BNNReLU(features=(6, 5), widths=(2,), prior_std=1.0).build(3, seeded(0))
    for treatment in TREATMENTS:
        options = {"features": (6, 8), "widths": (2,), "frequencies": treatment}
        yield RandomFeatureDGP(**options).build(3, seeded(0))
        yield RandomFeatureDGP(feed_forward=True, **options).build(3, seeded(0))


@pytest.mark.parametrize("network", list(networks()), ids=lambda network: str(network.noise_widths[1]))
@pytest.mark.parametrize("objective", [ELBO(samples=2), Predictive(samples=3), Energy(samples=3)])
def test_every_parameter_gets_a_gradient(network, objective):
    generator = seeded(1)
    x, y = torch.randn(9, 3, generator=generator), torch.randn(9, 1, generator=generator)
    network.zero_grad()
    if isinstance(network.maps[-1], Dense):  # means of zero in the last layer hide the hidden ones
        network.maps[-1].weights.mean.data.normal_(generator=generator)
    objective(network, Batch.of(x, y), generator).value.backward()
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert bool(torch.isfinite(parameter.grad).all()), name
            assert float(parameter.grad.abs().max()) > 0, name


@pytest.mark.parametrize("treatment", TREATMENTS)
def test_gradients_of_the_bound_equal_finite_differences(treatment):
    network = RandomFeatureDGP(
        features=(4, 4), widths=(2,), frequencies=treatment, feed_forward=True, initial_std=0.3
    ).build(2, seeded(0))
    network.double()
    x = torch.randn(5, 2, generator=seeded(1), dtype=torch.float64)
    batch = Batch.of(x, x.sum(1, keepdim=True))

    def value():
        return ELBO(samples=2)(network, batch, seeded(2)).value

    value().backward()
    for name, parameter in network.named_parameters():
        if not parameter.requires_grad:
            continue
        flat, slope = parameter.data.reshape(-1), parameter.grad.reshape(-1)
        place = int(slope.abs().argmax())
        sides = []
        for step in (1e-5, -2e-5):
            flat[place] += step
            sides.append(value().item())
        flat[place] += 1e-5
        assert (sides[0] - sides[1]) / 2e-5 == pytest.approx(float(slope[place]), rel=1e-5), name


def test_samples_of_a_network_without_hidden_units_agree():
    network = BNNReLU(features=()).build(2, seeded(0))
    law = network(torch.randn(4, 2), samples=3, generator=seeded(0))
    assert law.mean.shape == (3, 4, 1)
    assert torch.equal(law.mean[0], law.mean[2])


def test_inputs_are_appended_where_asked():
    first, last = dense(2, 1, 0, std=1e-9), dense(3, 1, 10, std=1e-9)
    stages = [(nn.Identity(), first), (nn.Identity(), last)]
    network = BayesianNetwork(stages, GaussianLikelihood(), joined=[1]).double()
    x = torch.randn(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        expected = torch.cat([x @ first.weights.mean + first.bias.mean, x], dim=1) @ last.weights.mean
        for noise in (network.noise(2, 4, x, seeded(4)), network.shared_noise(2, x)):
            found = network(x, noise=noise).mean
            # hidden draws have a standard deviation of at least 1e-6 (Gaussian.draw), here times a weight near 1
            np.testing.assert_allclose(found[1], expected + last.bias.mean, atol=1e-5)


def test_architectures_of_the_paper():
    network = BNNReLU(features=(391, 241), widths=(10,)).build(13)
    assert [(part.size, part.width) for part in network.maps] == [(13, 391), (391, 10), (10, 241), (241, 1)]
    assert [type(part).__name__ for part in network.activations] == ["Identity", "ReLU"] * 2
    deep = RandomFeatureDGP(features=(391, 241), widths=(10,)).build(13)
    assert [(part.size, part.width) for part in deep.maps] == [(392, 10), (242, 1)]
    forward = RandomFeatureDGP(
        features=(391, 241), widths=(10,), feed_forward=True, frequencies=VariationalResampled
    ).build(13)
    assert forward.joined == {2}
    assert forward.maps[2].dim == 23
    plain = BNNReLU(features=(7, 8)).build(3)
    assert [(part.size, part.width) for part in plain.maps] == [(3, 7), (7, 8), (8, 1)]
    assert plain.noise_widths == (0, (7, 8), 0)


def test_priors_by_number_and_by_fan_in():
    tables = BNNReLU(features=(8,), prior_std=0.2, prior_mean=0.5).build(2).maps[1]
    assert float(tables.weights.prior_std) == float(tables.bias.prior_std) == pytest.approx(0.2)
    assert float(tables.weights.prior_mean) == 0.5
    by_size = BNNReLU(features=(8,)).build(2).maps[1]
    assert (float(by_size.weights.prior_std), float(by_size.bias.prior_std)) == (0.5, 1.0)


def test_refusals():
    with pytest.raises(InputError, match="positive standard deviation"):
        Dense(2, 2, prior=(0.0, 0.0))
    with pytest.raises(InputError, match="1: one between every two of the 2 blocks"):
        BNNReLU(features=(3, 4), widths=(2, 2))
    with pytest.raises(InputError, match="features: got 0"):
        BNNReLU(features=(0,))
    with pytest.raises(InputError, match="one fewer than layers"):
        RandomFeatureDGP(features=(4,), widths=(1,))
    with pytest.raises(
        (InputError, TypeError), match="frequencies"
    ):  # the run-time checks of the tests come first
        RandomFeatureDGP(frequencies=nn.ReLU)
    with pytest.raises(InputError, match="lengthscale=0"):
        PriorFixed(2, 2, 0.0)
