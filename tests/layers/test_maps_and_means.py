"""Oracles: the formulas by hand, `torch.distributions` for densities of learned mean functions, scipy's normal cdf."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch.distributions import Normal

from dtmgp.errors import InputError
from dtmgp.layers import AffineMap, IdentityMap, IdentityMean, LinearMean, NormalCdfMap, ZeroMean

H = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_maps_against_their_formulas():
    scales = torch.tensor([0.1, 0.25, 2.0], dtype=torch.float64)
    affine, cdf = AffineMap(3).double(), NormalCdfMap(3).double()
    with torch.no_grad():
        affine.log_scale.copy_(scales.log())
        cdf.log_spread.copy_(scales.log())
    assert torch.equal(IdentityMap(3)(H), H)
    torch.testing.assert_close(affine(H), 0.5 + scales * H)
    np.testing.assert_allclose(cdf(H).detach(), norm.cdf(H.numpy(), scale=scales.numpy()), rtol=0, atol=1e-15)


@pytest.mark.parametrize("kind", [AffineMap, NormalCdfMap])
def test_scales_are_learned_unless_told_otherwise(kind):
    learned, fixed = kind(3).double(), kind(3, learn=False)
    learned(H).square().sum().backward()
    (parameter,) = learned.parameters()
    assert bool((parameter.grad != 0).all())
    assert not any(p.requires_grad for p in fixed.parameters())


def test_affine_map_puts_two_standard_deviations_on_the_edges():
    torch.testing.assert_close(
        AffineMap(1)(torch.tensor([[-2.0], [0.0], [2.0]])), torch.tensor([[0.0], [0.5], [1.0]])
    )


@pytest.mark.parametrize("make", [lambda: AffineMap(2, scale=0.0), lambda: NormalCdfMap(2, spread=-1.0)])
def test_scales_that_are_not_positive_are_refused(make):
    with pytest.raises(InputError, match="positive"):
        make()


@pytest.mark.parametrize("lead", [(), (5,), (4, 5), (0,)])
@pytest.mark.parametrize("width", [1, 3, 7])
def test_means_have_the_width_of_the_layer_for_any_leading_shape(lead, width):
    h = torch.ones(*lead, 3)
    for mean in (ZeroMean(3, width), IdentityMean(3, width), LinearMean(3, width)):
        assert mean(h).shape == (*lead, width)


def test_identity_mean_repeats_or_drops_columns():
    torch.testing.assert_close(IdentityMean(3, 5)(H), torch.cat([H, H[..., :2]], dim=-1))
    torch.testing.assert_close(IdentityMean(3, 2)(H), H[..., :2])


def test_linear_mean_and_its_prior():
    matrix = torch.randn(3, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    start = torch.randn(3, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    mean = LinearMean(3, 2, matrix=start.tolist(), prior_std=0.7).double()
    with torch.no_grad():
        mean.start.copy_(start)
        mean.prior_std.fill_(0.7)
        mean.matrix.copy_(matrix)
    torch.testing.assert_close(mean(H), torch.einsum("...d,dw->...w", H, matrix))
    # the penalty is minus the log prior, up to its value at the start
    prior = Normal(start, 0.7)
    expected = -(prior.log_prob(matrix) - prior.log_prob(start)).sum()
    torch.testing.assert_close(mean.kl(), expected)


def test_a_fixed_matrix_costs_nothing():
    assert LinearMean(2, 1, matrix=[[3.0], [4.0]], learn=False).kl() == 0.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinearMean(2, 1, matrix=[[1.0]]),
        lambda: LinearMean(2, 1, prior_std=0.0),
        lambda: LinearMean(2, 1, prior_std=float("nan")),
    ],
)
def test_bad_linear_means_are_refused(make):
    with pytest.raises(InputError):
        make()
