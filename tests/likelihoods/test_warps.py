"""Oracles: round trips, autograd and central differences, scipy's Box-Cox and Yeo-Johnson, quadrature of densities."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from dtmgp.errors import InputError
from dtmgp.likelihoods import (
    BoxCox,
    Chain,
    GaussianLikelihood,
    IdentityWarp,
    QuantileWarp,
    Standardise,
    YeoJohnson,
)

KNOTS = QuantileWarp(
    [[0.0, 0.5, 2.0, 2.5], [-1.0, 0.0, 1.0, 4.0]], [[-2.0, -0.5, 0.3, 2.0], [-3.0, -1.0, 0.0, 1.0]]
)
WARPS = {
    "identity": IdentityWarp(),
    "standardise": Standardise([1.5, -2.0], [0.3, 4.0]),
    "log": BoxCox(0.0, -3.5),
    "almost log": BoxCox(5e-5, -3.5),
    "root": BoxCox(0.5, -3.5),
    "square": BoxCox(2.0, -3.5),
    "reciprocal": BoxCox(-0.5, -3.5),
    "boxcox by output": BoxCox([0.3, -0.2], [-3.5, -4.0]),
    "yeojohnson 0": YeoJohnson(0.0),
    "yeojohnson 0.6": YeoJohnson(0.6),
    "yeojohnson 2": YeoJohnson([2.0, 1.3]),
    "quantile": KNOTS,
    "chain": Chain(BoxCox(0.0, -3.5), Standardise([1.0, 1.1], [0.4, 0.5]), YeoJohnson(1.2)),
}
Y = torch.from_numpy(np.random.default_rng(0).uniform(-3, 3, size=(40, 2)))
Y[0] = torch.tensor([2.9, -2.9])


def warp_of(name):
    return WARPS[name].double()


@pytest.mark.parametrize("name", WARPS)
def test_inverse_undoes_the_warp(name):
    warp = warp_of(name)
    torch.testing.assert_close(warp.inverse(warp(Y)), Y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", WARPS)
def test_warp_rises(name):
    ordered = torch.linspace(-3.4, 3, 101, dtype=torch.float64)[:, None].expand(-1, 2)
    assert bool((warp_of(name)(ordered).diff(dim=0) > 0).all())


@pytest.mark.parametrize("name", WARPS)
def test_log_derivative_is_that_of_autograd_and_of_differences(name):
    warp, y, step = warp_of(name), Y.clone().requires_grad_(), 1e-6
    (slope,) = torch.autograd.grad(warp(y).sum(), y)
    torch.testing.assert_close(warp.log_derivative(Y).detach(), slope.log(), rtol=1e-9, atol=1e-9)
    difference = (warp(Y + step) - warp(Y - step)) / (2 * step)
    torch.testing.assert_close(warp.log_derivative(Y).exp(), difference, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("power", [-0.7, 0.0, 0.4, 1.0, 2.0])
def test_boxcox_is_that_of_scipy(power):
    y = np.random.default_rng(1).lognormal(size=50)
    np.testing.assert_allclose(BoxCox(power).double()(torch.from_numpy(y)), stats.boxcox(y, power), rtol=1e-6)


@pytest.mark.parametrize("power", [0.0, 0.4, 1.0, 1.7, 2.0])
def test_yeojohnson_is_that_of_scipy(power):
    y = 3 * np.random.default_rng(2).normal(size=50)
    found = YeoJohnson(power).double()(torch.from_numpy(y))
    np.testing.assert_allclose(found, stats.yeojohnson(y, power), rtol=1e-6)  # float32 power


def test_power_zero_is_reached_smoothly():
    y = torch.tensor([1e-4, 0.3, 7.0, 1e6], dtype=torch.float64)
    log = BoxCox(0.0).double()
    for power in (1e-7, 0.99e-4, 1.01e-4):
        near = BoxCox(power).double()
        # log(y)^2 p/2 away from the logarithm, on both sides of the switch to the series
        step = near.power.item() * y.log()
        expected = y.log() * (1 + step / 2 + step**2 / 6)
        torch.testing.assert_close(near(y), expected, rtol=1e-9, atol=0)
        torch.testing.assert_close(near.inverse(near(y)), y, rtol=3e-8, atol=0)
    torch.testing.assert_close(log(y), y.log())


@pytest.mark.parametrize("power", [0.0, 5e-5, 0.5, -0.5, 2.0])
def test_gradient_in_the_power(power):
    warp = BoxCox(power, learn=True).double()
    y = torch.tensor([0.2, 1.0, 9.0], dtype=torch.float64)
    (found,) = torch.autograd.grad(warp(y).sum(), warp.power)

    def total(p):
        return float(np.sum(np.log(y.numpy())) if p == 0 else np.sum((y.numpy() ** p - 1) / p))

    start = float(warp.power.detach())
    expected = (total(start + 1e-3) - total(start - 1e-3)) / 2e-3
    assert found.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", WARPS)
@pytest.mark.parametrize("column", [0, 1])
def test_densities_in_original_units_integrate_to_one(name, column):
    warp = warp_of(name)
    # in z on a fine grid: the density of y times dy, with dy from the inverse; the ends hold less than 1e-9
    loc, scale = warp(torch.tensor([[0.4, 0.6]], dtype=torch.float64))[0].detach(), 0.15
    z = loc + scale * torch.linspace(-6.2, 6.2, 20_001, dtype=torch.float64)[:, None]
    y = warp.inverse(z).detach()
    density = torch.exp(torch.distributions.Normal(loc, scale).log_prob(warp(y)) + warp.log_derivative(y))
    total = torch.trapezoid(density[:, column], y[:, column])
    # corners of the piecewise linear warp cost 1e-4 each in the trapezoidal rule
    assert total.item() == pytest.approx(1.0, abs=3e-4 if name == "quantile" else 2e-6)


def test_boxcox_has_no_density_below_its_shift():
    for power in (0.0, 0.5, -0.5, 2.0):
        warp = BoxCox(power, 1.0).double()
        y = torch.tensor([0.0, 1.0, 1.0 + 1e-9], dtype=torch.float64)
        assert warp(y)[0] == -math.inf
        assert warp.log_derivative(y)[0] == warp.log_derivative(y)[1] == -math.inf
        assert bool(torch.isfinite(warp.log_derivative(y)[2]))


def test_gradients_stay_finite_when_some_outputs_are_below_the_shift():
    warp = BoxCox(0.5, learn=True).double()
    y = torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)
    warp(y)[1:].sum().backward()
    assert bool(torch.isfinite(warp.power.grad))


@pytest.mark.parametrize("power", [0.5, 2.0])
def test_draws_beyond_the_range_end_at_the_shift(power):
    found = BoxCox(power, 3.0).double().inverse(torch.tensor([-100.0], dtype=torch.float64))
    assert found.item() == pytest.approx(3.0, abs=2e-8)


def test_draws_beyond_the_range_of_a_negative_power_are_large_and_finite():
    found = BoxCox(-0.5).double().inverse(torch.tensor([100.0], dtype=torch.float64))
    assert 1e9 < found.item() < math.inf


@pytest.mark.parametrize("warp", [BoxCox(0.0), BoxCox(0.5), Chain(Standardise(0.0, 2.0), BoxCox(0.3))])
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_targets_outside_the_domain_are_refused(warp, value):
    likelihood = GaussianLikelihood(warp=warp)
    likelihood.check_targets(np.array([[1.0], [2.0]]))
    with pytest.raises(InputError, match="domain of"):
        likelihood.check_targets(np.array([[1.0], [value]]))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_targets_that_are_not_finite_are_refused(value):
    with pytest.raises(InputError, match="finite"):
        GaussianLikelihood().check_targets(np.array([[1.0], [value]]))


def test_only_straight_lines_claim_to_be_affine():
    # the claim, and that it is tight: midpoints map to midpoints for these and for no others
    low, high = torch.tensor([[-2.0, -2.5]]).double(), torch.tensor([[2.5, 2.0]]).double()
    for name in WARPS:
        warp = warp_of(name)
        gap = (warp(0.5 * (low + high)) - 0.5 * (warp(low) + warp(high))).abs().max().item()
        assert warp.affine == (gap < 1e-12), name
    assert Chain(Standardise(1.0, 2.0), IdentityWarp()).affine


def test_one_row_of_knots_serves_all_outputs():
    one = QuantileWarp([0.0, 1.0, 3.0], [-1.0, 0.0, 1.0]).double()
    two = QuantileWarp([[0.0, 1.0, 3.0]] * 2, [[-1.0, 0.0, 1.0]] * 2).double()
    assert torch.equal(one(Y), two(Y))
    assert torch.equal(one.inverse(Y), two.inverse(Y))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Standardise(0.0, 0.0),
        lambda: Standardise(0.0, math.inf),
        lambda: YeoJohnson(2.5),
        lambda: QuantileWarp([0.0, 0.0], [0.0, 1.0]),
        lambda: QuantileWarp([0.0, 1.0], [1.0, 0.0]),
        lambda: QuantileWarp([0.0], [1.0]),
        lambda: QuantileWarp([0.0, 1.0, 2.0], [0.0, 1.0]),
    ],
)
def test_impossible_warps_are_refused(make):
    with pytest.raises(InputError):
        make()
