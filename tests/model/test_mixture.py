"""Oracles: brute-force draws, fine grids over the density, scipy.stats components mixed by hand, root finding."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from dtmgp.errors import InputError
from dtmgp.likelihoods import (
    BernoulliComponents,
    BoxCox,
    CategoricalComponents,
    Chain,
    IdentityWarp,
    NegativeBinomialComponents,
    NormalComponents,
    PoissonComponents,
    QuantileWarp,
    Standardise,
    StudentTComponents,
    YeoJohnson,
)
from dtmgp.model import Mixture

S, N, W = 6, 3, 2
RNG = np.random.default_rng(0)
LOC, SCALE = RNG.normal(size=(S, N, W)), RNG.uniform(0.2, 0.8, size=(S, N, W))
LEVELS = torch.tensor([0.001, 0.05, 0.5, 0.9, 0.999])


def t(a):
    return torch.as_tensor(a, dtype=torch.float64)


def normal():
    return NormalComponents(t(LOC), t(SCALE))


def student(degrees=5.0):
    return StudentTComponents(t(LOC), t(SCALE), t(np.full(W, degrees)))


WARPS = {
    "identity": IdentityWarp(),
    "standardise": Standardise([3.0, -50.0], [2.0, 0.01]),
    "log": BoxCox(0.0, 1.0),
    "log, standardised": Chain(BoxCox([0.0], [1.0]), Standardise([0.3, -1.0], [0.5, 0.2])),
    "yeojohnson": YeoJohnson(0.5),
    "quantile": QuantileWarp([-2.0, 0.0, 0.5, 4.0], [-2.0, -0.7, 0.5, 2.0]),
    "chain": Chain(Standardise([3.0, -50.0], [2.0, 0.01]), YeoJohnson(1.3)),
}


def law(name, components=normal):
    return Mixture(components(), WARPS[name].double())


def on_a_grid(mixture, column, points=40_001):
    """y and its density at the first input, from the mixture's own log_prob of one column at a time."""
    z = torch.linspace(-9, 9, points, dtype=torch.float64)[:, None].expand(-1, W)
    y = mixture.warp.inverse(z).detach()
    parts = mixture.components
    one = NormalComponents(parts.loc[:, :1, column : column + 1], parts.scale[:, :1, column : column + 1])
    density = (
        one.log_prob(mixture.warp(y)[:, column : column + 1])
        + mixture.warp.log_derivative(y)[:, column : column + 1]
    )
    return y[:, column].numpy(), density.exp().mean(0)[:, 0].detach().numpy()


@pytest.mark.parametrize("name", WARPS)
@pytest.mark.parametrize("column", range(W))
def test_moments_are_integrals_of_the_density(name, column):
    mixture = law(name)
    y, density = on_a_grid(mixture, column)
    # 20 quadrature nodes: exact to 1e-5 for smooth warps, 1 % of the std across the corners of a piecewise one
    error = 2e-2 if name == "quantile" else 1e-4
    total = np.trapezoid(density, y)
    assert total == pytest.approx(1.0, abs=1e-3 if name == "quantile" else 1e-6)
    mean = np.trapezoid(y * density, y)
    variance = np.trapezoid((y - mean) ** 2 * density, y)
    found_mean, found_variance = (part[0, column].item() for part in mixture.mean_and_variance())
    assert found_mean == pytest.approx(mean, abs=error * math.sqrt(variance), rel=1e-9)
    assert found_variance == pytest.approx(variance, rel=2 * error)
    assert mixture.mean[0, column].item() == found_mean
    assert mixture.variance[0, column].item() == found_variance


@pytest.mark.parametrize("name", WARPS)
@pytest.mark.parametrize("components", [normal, student])
def test_draws_agree_with_cdf_and_quantiles(name, components):
    """30,000 draws per component; a frequency has standard error below 0.5/sqrt(180,000): five of them."""
    mixture, count = law(name, components), 30_000
    rows = torch.arange(N).repeat(count)
    draws = Mixture(mixture.components.take(rows), mixture.warp).draw(torch.Generator().manual_seed(1))
    draws = draws.reshape(S, count, N, W).transpose(1, 2).transpose(0, 1).reshape(N, -1, W)
    quantiles = mixture.quantiles(LEVELS)
    assert quantiles.shape == (N, W, len(LEVELS))
    for k, level in enumerate(LEVELS.tolist()):
        below = (draws <= quantiles[..., k].unsqueeze(1)).double().mean(1)
        assert (below - level).abs().max().item() < 5 * 0.5 / math.sqrt(S * count)
        torch.testing.assert_close(
            mixture.cdf(quantiles[..., k]), torch.full((N, W), level).double(), rtol=1e-9, atol=1e-9
        )


def test_quantiles_by_root_finding():
    mixture = law("identity")
    for n in range(N):
        for w in range(W):
            for k, level in enumerate(LEVELS.double().tolist()):
                expected = optimize.brentq(
                    lambda y, n=n, w=w, level=level: (
                        stats.norm.cdf(y, LOC[:, n, w], SCALE[:, n, w]).mean() - level
                    ),
                    -20,
                    20,
                    xtol=1e-13,
                )
                assert mixture.quantiles(LEVELS)[n, w, k].item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("degrees", [2.05, 3.0])
def test_quantiles_reach_into_heavy_tails(degrees):
    mixture = Mixture(student(degrees), IdentityWarp())
    levels = torch.tensor([1e-7, 1 - 1e-7], dtype=torch.float64)
    found = mixture.quantiles(levels)
    for k in range(2):
        torch.testing.assert_close(mixture.cdf(found[..., k]), levels[k].expand(N, W), rtol=0, atol=1e-10)


DISCRETE = {
    "poisson": (
        lambda: PoissonComponents(t(6 * SCALE)),
        lambda y: stats.poisson.cdf(y, 6 * SCALE).mean(0),
    ),
    "rare": (
        lambda: PoissonComponents(t(1e-6 * SCALE)),
        lambda y: stats.poisson.cdf(y, 1e-6 * SCALE).mean(0),
    ),
    "negative binomial": (
        lambda: NegativeBinomialComponents(t(6 * SCALE), t([0.5, 9.0])),
        lambda y: stats.nbinom.cdf(y, [0.5, 9.0], [0.5, 9.0] / ([0.5, 9.0] + 6 * SCALE)).mean(0),
    ),
    "bernoulli": (
        lambda: BernoulliComponents(t(SCALE)),
        lambda y: stats.bernoulli.cdf(y, SCALE).mean(0),
    ),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", DISCRETE)
def test_quantiles_of_counts_are_the_smallest_counts_that_reach_the_level(name, dtype):
    make, cdf = DISCRETE[name]
    components = make()
    moved = type(components)(**{k: v.to(dtype) for k, v in vars(components).items()})
    found = Mixture(moved, IdentityWarp()).quantiles(LEVELS)
    counts = np.arange(400)
    table = np.stack([cdf(k) for k in counts])  # (400, N, W)
    for k, level in enumerate(LEVELS.tolist()):
        expected = (table < level - 1e-7).sum(0)
        np.testing.assert_array_equal(found[..., k].numpy(), expected)


def test_quantiles_of_classes_are_labels():
    logits = torch.randn(S, N, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mixture = Mixture(CategoricalComponents(torch.log_softmax(logits, -1)), IdentityWarp())
    found = mixture.quantiles(LEVELS)
    p = torch.softmax(logits, -1).mean(0).cumsum(-1)
    assert found.shape == (N, 1, len(LEVELS))
    for k, level in enumerate(LEVELS.double().tolist()):
        assert torch.equal(found[:, 0, k], (p < level).sum(-1).double())
    torch.testing.assert_close(mixture.mean, torch.softmax(logits, -1).mean(0))
    torch.testing.assert_close(mixture.variance, mixture.mean * (1 - mixture.mean))


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, math.nan])
def test_levels_outside_the_unit_interval_are_refused(level):
    with pytest.raises(InputError, match="between 0 and 1"):
        law("identity").quantiles(torch.tensor([0.5, level]))


@pytest.mark.parametrize("name", WARPS)
def test_log_prob_is_the_logarithm_of_the_mean_density(name):
    mixture = law(name)
    y = mixture.warp.inverse(t(RNG.normal(size=(N, W)))).detach()
    z, slope = mixture.warp(y).detach().numpy(), mixture.warp.log_derivative(y).exp().detach().numpy()
    density = np.prod(stats.norm.pdf(z, LOC, SCALE) * slope, axis=-1)  # (S, N): outputs share the hidden draw
    value, error = mixture.log_prob(y, return_error=True)
    np.testing.assert_allclose(value.detach(), np.log(density.mean(0)), rtol=1e-9)
    np.testing.assert_allclose(error.detach(), density.std(0) / density.mean(0) / math.sqrt(S), rtol=1e-9)
    assert torch.equal(mixture.log_prob(y), value)


def test_the_stated_error_is_the_spread_over_repeated_draws():
    """Hidden draws 400 times over: the spread of log_prob against the mean stated error (both to 10 %)."""
    generator, found = torch.Generator().manual_seed(0), []
    for _ in range(400):
        loc = torch.randn(200, 1, 1, generator=generator, dtype=torch.float64)
        mixture = Mixture(NormalComponents(loc, torch.full_like(loc, 0.7)), IdentityWarp())
        found.append(torch.cat(mixture.log_prob(t([[0.8]]), return_error=True)))
    values, errors = torch.stack(found).T
    assert values.std().item() == pytest.approx(errors.mean().item(), rel=0.12)
    exact = stats.norm.logpdf(0.8, scale=math.sqrt(1 + 0.49))
    assert values.mean().item() == pytest.approx(exact, abs=5 * errors.mean().item() / math.sqrt(400) + 1e-3)


def test_outputs_that_no_draw_reaches_have_no_density_and_an_unknown_error():
    value, error = law("log").log_prob(t([[0.5, 2.0]] * N), return_error=True)  # shift 1: nothing below it
    assert bool((value == -math.inf).all())
    assert bool((error == math.inf).all())


def test_student_moments_through_a_straight_line_are_exact():
    mixture = law("standardise", student)
    scale, degrees = np.array([2.0, 0.01]), 5.0
    mean = np.array([3.0, -50.0]) + scale * LOC
    variance = (scale * SCALE) ** 2 * degrees / (degrees - 2)
    np.testing.assert_allclose(mixture.mean, mean.mean(0), rtol=1e-7)
    np.testing.assert_allclose(mixture.variance, variance.mean(0) + mean.var(0), rtol=1e-6)


def test_student_moments_through_a_curve_are_trimmed_ones():
    mixture = law("yeojohnson", student)
    levels = (torch.arange(4001, dtype=torch.float64) + 0.5) / 4001
    inner = levels[(levels > 1 / 258) & (levels < 1 - 1 / 258)]
    y = [
        Mixture(mixture.components, mixture.warp).warp.inverse(t(stats.t.ppf(p, 5.0, LOC, SCALE)))
        for p in inner.tolist()
    ]
    np.testing.assert_allclose(mixture.mean.detach(), torch.stack(y).mean((0, 1)).detach(), atol=0.03)


def test_variance_of_mean_is_the_part_between_draws():
    mixture = law("identity")
    np.testing.assert_allclose(mixture.variance_of_mean(), LOC.var(0), rtol=1e-12)
    np.testing.assert_allclose(mixture.variance, LOC.var(0) + (SCALE**2).mean(0), rtol=1e-12)


def test_moments_of_large_outputs_do_not_cancel():
    # mean 1e8, std 1e-2: the second moment as a difference of squares would be lost
    mixture = Mixture(normal(), Chain(Standardise(1e8, 1e-2), YeoJohnson(1.0)).double())
    np.testing.assert_allclose(mixture.variance, 1e-4 * (LOC.var(0) + (SCALE**2).mean(0)), rtol=1e-4)


def test_one_component_and_one_row():
    mixture = Mixture(NormalComponents(t([[[0.3]]]), t([[[2.0]]])), IdentityWarp())
    assert mixture.mean.item() == pytest.approx(0.3)
    assert mixture.variance.item() == pytest.approx(4.0)
    assert mixture.quantiles(torch.tensor([0.5])).item() == pytest.approx(0.3, abs=1e-6)
    assert mixture.log_prob(t([[0.3]]), return_error=True)[1].item() == 0.0


@pytest.mark.parametrize("gap", [0.0, 40.0, 1e4])
def test_quantiles_of_laws_that_are_far_from_normal(gap):
    """Two narrow groups, far apart, with unequal weights: the first bracket holds few of the quantiles."""
    loc = torch.tensor([0.0] * 9 + [gap], dtype=torch.float64).reshape(10, 1, 1)
    law = Mixture(NormalComponents(loc, torch.full_like(loc, 1e-3)), IdentityWarp())
    levels = torch.tensor([1e-6, 0.1, 0.5, 0.899, 0.901, 0.999999], dtype=torch.float64)
    found = law.quantiles(levels)
    back = torch.stack([law.cdf(part) for part in found.unbind(-1)], dim=-1)[0, 0]
    # measured: 4e-13 at 0.901, where z is known to 2e-12 and the density is 40 a unit
    torch.testing.assert_close(back, levels, rtol=0.0, atol=1e-9)
