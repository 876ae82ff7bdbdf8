"""Oracles: scipy.stats for densities, cdfs and moments; draws against both; quadrature for their gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from dtmgp.likelihoods import (
    BernoulliComponents,
    CategoricalComponents,
    NegativeBinomialComponents,
    NormalComponents,
    PoissonComponents,
    StudentTComponents,
)

S, N, W = 3, 4, 2
RNG = np.random.default_rng(0)
LOC, SCALE = RNG.normal(size=(S, N, W)), RNG.uniform(0.3, 2.0, size=(S, N, W))
DEGREES, SIZE = np.array([3.5, 9.0]), np.array([0.7, 12.0])
PROBABILITY = RNG.uniform(0.05, 0.95, size=(S, N, W))


def t(a, dtype=torch.float64):
    return torch.as_tensor(a, dtype=dtype)


LAWS = {
    "normal": (lambda d: NormalComponents(t(LOC, d), t(SCALE, d)), stats.norm(LOC, SCALE)),
    "student": (
        lambda d: StudentTComponents(t(LOC, d), t(SCALE, d), t(DEGREES, d)),
        stats.t(np.broadcast_to(DEGREES, LOC.shape), LOC, SCALE),
    ),
    "poisson": (lambda d: PoissonComponents(t(5 * SCALE, d)), stats.poisson(5 * SCALE)),
    "negative binomial": (
        lambda d: NegativeBinomialComponents(t(5 * SCALE, d), t(SIZE, d)),
        stats.nbinom(np.broadcast_to(SIZE, LOC.shape), SIZE / (SIZE + 5 * SCALE)),
    ),
    "bernoulli": (lambda d: BernoulliComponents(t(PROBABILITY, d)), stats.bernoulli(PROBABILITY)),
}
CONTINUOUS = ("normal", "student")
RTOL = {torch.float64: 1e-12, torch.float32: 2e-5}


def outputs(name):
    if name in CONTINUOUS:
        return RNG.normal(scale=2.0, size=(N, W))
    if name == "bernoulli":
        return np.array([[0.0, 1.0]] * N)
    return RNG.integers(0, 15, size=(N, W)).astype(float)


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("name", LAWS)
def test_log_prob_cdf_and_moments_are_those_of_scipy(name, dtype):
    make, law = LAWS[name]
    components, y = make(dtype), outputs(name)
    density = law.logpdf(y) if name in CONTINUOUS else law.logpmf(y)
    tolerance = {"rtol": RTOL[dtype], "atol": RTOL[dtype]}
    for found, expected in [
        (components.log_prob(t(y, dtype)), density),
        (components.cdf(t(y, dtype)), law.cdf(y)),
        (components.mean, law.mean()),
        (components.variance, law.var()),
    ]:
        assert found.dtype == dtype
        assert found.shape == (S, N, W)
        np.testing.assert_allclose(found, expected, **tolerance)


@pytest.mark.parametrize("name", ["poisson", "negative binomial", "bernoulli"])
def test_cdf_of_a_discrete_law_is_a_step_function(name):
    make, law = LAWS[name]
    for y in (-1.0, -1e-9, 0.0, 0.5, 1.0, 3.999, 4.0):
        np.testing.assert_allclose(make(torch.float64).cdf(t(np.full((N, W), y))), law.cdf(y), atol=1e-12)


@pytest.mark.parametrize("name", LAWS)
def test_draws_follow_the_law(name):
    # 24 laws with 20,000 draws: means within 5 standard errors (5e-6 false alarms per law), cdf within 5/(2 sqrt n)
    make, law = LAWS[name]
    count = 20_000
    components = make(torch.float64).take(torch.arange(N).repeat(count))
    draws = components.draw(torch.Generator().manual_seed(1)).reshape(S, count, N, W).numpy()
    error = np.abs(draws.mean(1) - law.mean()) / law.std()
    assert error.max() < 5 / math.sqrt(count)
    y = np.asarray(law.mean()) + 0.3
    assert np.abs((draws <= y[:, None]).mean(1) - law.cdf(y)).max() < 2.5 / math.sqrt(count)


@pytest.mark.parametrize("name", LAWS)
def test_reparametrised_says_whether_draws_have_gradients(name):
    components = LAWS[name][0](torch.float64)
    fields = {k: v.clone().requires_grad_() for k, v in vars(components).items()}
    with_gradient = type(components)(**fields)
    draw = with_gradient.draw(torch.Generator().manual_seed(0))
    assert components.reparametrised == (name in CONTINUOUS)
    if components.reparametrised:
        draw.sum().backward()
        assert all(bool((value.grad != 0).any()) for value in fields.values())
    else:
        assert not any(
            (g != 0).any()
            for g in (
                torch.autograd.grad(draw.sum(), list(fields.values()), allow_unused=True)
                if draw.requires_grad
                else []
            )
            if g is not None
        )


def test_pathwise_gradient_of_the_student_scale_and_degrees():
    # d/dscale E h(Y) and d/dnu E h(Y) for h = tanh, by quadrature; 400,000 draws, 5 standard errors
    nu, count = 4.0, 400_000
    fields = [t(v).requires_grad_() for v in (np.zeros((1, 1, 1)), np.ones((1, 1, 1)), np.array([nu]))]
    grid = np.linspace(-300, 300, 600_001)

    def expectation(scale, degrees):
        return np.trapezoid(np.tanh(grid) ** 2 * stats.t.pdf(grid, degrees, scale=scale), grid)

    draws = StudentTComponents(fields[0].expand(1, count, 1), fields[1].expand(1, count, 1), fields[2]).draw(
        torch.Generator().manual_seed(0)
    )
    draws.tanh().square().mean().backward()
    by_scale = (expectation(1.001, nu) - expectation(0.999, nu)) / 0.002
    by_degrees = (expectation(1.0, nu + 0.01) - expectation(1.0, nu - 0.01)) / 0.02
    assert fields[1].grad.item() == pytest.approx(by_scale, abs=5 * 0.4 / math.sqrt(count))
    assert fields[2].grad.item() == pytest.approx(by_degrees, abs=5 * 0.1 / math.sqrt(count))


def test_negative_binomial_close_to_poisson_keeps_its_digits_in_float32():
    y, rate = np.array([[0.0], [3.0], [40.0]]), np.full((1, 3, 1), 7.0)
    for size in (1e3, 1e5, 1e7):
        law = NegativeBinomialComponents(t(rate, torch.float32), t([size], torch.float32))
        expected = stats.nbinom.logpmf(y, size, size / (size + rate))
        # measured 3e-6; the textbook formula loses 0.1 at 1e5 and everything at 1e7
        np.testing.assert_allclose(law.log_prob(t(y, torch.float32)), expected, atol=3e-5, rtol=1e-5)


def test_gradient_of_the_negative_binomial_size():
    size = t([3.0, 200.0]).requires_grad_()
    y = t([[2.0, 5.0], [0.0, 9.0]])

    def total(size):
        return NegativeBinomialComponents(t([[[4.0, 6.0], [1.0, 8.0]]]), size).log_prob(y)

    assert torch.autograd.gradcheck(total, (size,))


@pytest.mark.parametrize("name", LAWS)
def test_take_repeats_inputs(name):
    components, rows = LAWS[name][0](torch.float64), torch.tensor([2, 0, 0, 3, 1])
    y = t(outputs(name))
    torch.testing.assert_close(components.take(rows).log_prob(y[rows]), components.log_prob(y)[:, rows])


class TestCategorical:
    LOGITS = torch.randn(S, N, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def law(self):
        return CategoricalComponents(torch.log_softmax(self.LOGITS, -1))

    def test_log_prob_is_that_of_torch(self):
        y = torch.tensor([[0.0], [4.0], [2.0], [2.0]], dtype=torch.float64)
        expected = torch.distributions.Categorical(logits=self.LOGITS).log_prob(y[:, 0].long())
        torch.testing.assert_close(self.law().log_prob(y), expected.unsqueeze(-1))

    def test_cdf_sums_the_labels(self):
        y = torch.tensor([[-0.5], [0.0], [2.5], [4.0]], dtype=torch.float64)
        p = torch.softmax(self.LOGITS, -1)
        expected = torch.stack([0 * p[:, 0, 0], p[:, 1, 0], p[:, 2, :3].sum(-1), p[:, 3].sum(-1)], dim=1)
        torch.testing.assert_close(self.law().cdf(y)[..., 0], expected)

    def test_draws_have_the_probabilities(self):
        # 60 frequencies of 20,000 draws: standard error at most 0.0036, five of them; false alarms 4e-5
        many = self.law().take(torch.arange(N).repeat(20_000)).draw(torch.Generator().manual_seed(1))
        labels = many.reshape(S, 20_000, N)
        frequency = torch.stack([(labels == c).double().mean(1) for c in range(5)], dim=-1)
        assert (frequency - self.law().mean).abs().max().item() < 5 * 0.5 / math.sqrt(20_000)

    def test_moments_per_class(self):
        p = torch.softmax(self.LOGITS, -1)
        torch.testing.assert_close(self.law().mean, p)
        torch.testing.assert_close(self.law().variance, p * (1 - p))
