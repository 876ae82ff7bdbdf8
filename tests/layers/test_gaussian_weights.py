"""Oracles: `torch.distributions` for KL and laws of draws, autograd against central differences."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from dtmgp.errors import InputError
from dtmgp.layers import Gaussian, GaussianWeights
from dtmgp.layers.gaussian import standard_normal

DTYPES = {torch.float64: 1e-12, torch.float32: 2e-5}  # measured: 4e-16 and 2e-7 of the KL, of size about 100
PRIORS = {
    "standard": (0.0, 1.0),
    "paper-rc49": (0.0, 0.2),
    "by column": (torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([0.5, 1.0, 3.0])),
    "by row": (torch.linspace(-1, 1, 7)[:, None], torch.linspace(0.1, 2, 7)[:, None]),
}


def randomised(prior=(0.0, 1.0), dtype=torch.float64):
    weights = GaussianWeights(7, 3, prior_mean=prior[0], prior_std=prior[1]).to(dtype)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        weights.mean.copy_(torch.randn(7, 3, generator=generator))
        weights.log_std.copy_(torch.randn(7, 3, generator=generator))
    return weights


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("prior", PRIORS)
def test_kl_is_that_of_torch(prior, dtype):
    weights = randomised(PRIORS[prior], dtype)
    expected = kl_divergence(
        Normal(weights.mean, weights.log_std.exp()), Normal(weights.prior_mean, weights.prior_std)
    ).sum()
    torch.testing.assert_close(weights.kl(), expected, rtol=DTYPES[dtype], atol=0)


def test_kl_is_zero_at_the_prior_and_has_its_minimum_there():
    weights = GaussianWeights(4, 2, prior_mean=0.7, prior_std=0.3, initial_std=1.0).double()
    weights.kl().backward()
    # the parameters start where float32 put them: 1e-7 away
    assert 0 <= weights.kl().item() < 1e-12
    assert float(weights.mean.grad.abs().max()) < 1e-6
    assert float(weights.log_std.grad.abs().max()) < 1e-6


def test_gradient_of_kl_against_differences():
    weights = randomised(PRIORS["by column"])

    def kl(mean, log_std):
        return torch.func.functional_call(_KL(weights), {"w.mean": mean, "w.log_std": log_std}, ())

    assert torch.autograd.gradcheck(kl, (weights.mean, weights.log_std))


class _KL(torch.nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def forward(self):
        return self.w.kl()


@pytest.mark.parametrize("prior", PRIORS)
def test_start_is_the_prior_mean_and_a_share_of_its_std(prior):
    mean, std = PRIORS[prior]
    weights = GaussianWeights(7, 3, prior_mean=mean, prior_std=std, initial_std=0.25)
    torch.testing.assert_close(weights.mean.detach(), torch.zeros(7, 3) + mean)
    torch.testing.assert_close(
        weights.variance.detach().sqrt(), torch.zeros(7, 3) + 0.25 * torch.as_tensor(std)
    )


def test_draws_follow_q():
    # 20,000 draws of 21 weights: each mean within 5 standard errors; false alarms 21 * 6e-7
    weights = randomised()
    draws = weights.draw(20_000, torch.Generator().manual_seed(1)).detach()
    std = weights.log_std.exp().detach()
    assert draws.shape == (20_000, 7, 3)
    assert ((draws.mean(0) - weights.mean) / std).abs().max().item() < 5 / math.sqrt(20_000)
    # the variance of a normal sample's variance is 2/n of its square
    ratio = draws.var(0) / std.square()
    assert float((ratio - 1).abs().max()) < 5 * math.sqrt(2 / 20_000)


def test_draws_carry_gradients_to_mean_and_std():
    weights = randomised()
    weights.draw(2, torch.Generator().manual_seed(1)).square().sum().backward()
    assert bool((weights.mean.grad != 0).all())
    assert bool((weights.log_std.grad != 0).all())


@pytest.mark.parametrize(
    "arguments",
    [
        {"prior_std": 0.0},
        {"prior_std": -1.0},
        {"prior_std": math.nan},
        {"prior_std": math.inf},
        {"prior_mean": math.nan},
        {"prior_mean": torch.zeros(5, 7, 3)},
        {"prior_std": torch.ones(4)},
        {"initial_std": 0.0},
        {"initial_std": math.inf},
    ],
)
def test_impossible_priors_are_refused(arguments):
    with pytest.raises(InputError):
        GaussianWeights(7, 3, **arguments)


@pytest.mark.parametrize(("size", "width"), [(0, 1), (1, 0)])
def test_empty_tables_are_refused(size, width):
    with pytest.raises(InputError, match="positive"):
        GaussianWeights(size, width)


def test_gaussian_draw_and_columns():
    law = Gaussian(torch.tensor([[1.0, 2.0]]), torch.tensor([[4.0, 9.0]]))
    torch.testing.assert_close(law.draw(torch.tensor([[1.0, -1.0]])), torch.tensor([[3.0, -1.0]]))
    torch.testing.assert_close(law.pick(slice(1, None)).mean, torch.tensor([[2.0]]))


def test_gradient_of_a_draw_is_finite_at_variance_zero():
    variance = torch.zeros(3, requires_grad=True)
    Gaussian(torch.zeros(3), variance).draw(torch.ones(3)).sum().backward()
    assert bool(torch.isfinite(variance.grad).all())


@pytest.mark.parametrize("dtype", DTYPES)
def test_standard_normal_noise_repeats_with_the_generator(dtype):
    like = torch.empty(0, dtype=dtype)
    one, two = (standard_normal((4, 2), like, torch.Generator().manual_seed(3)) for _ in range(2))
    assert one.dtype == dtype
    assert torch.equal(one, two)
