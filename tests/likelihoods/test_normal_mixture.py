"""Oracle: torch.distributions.MixtureSameFamily, and brute-force draws."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Categorical, MixtureSameFamily, Normal

from dtmgp.errors import InputError
from dtmgp.layers import Gaussian
from dtmgp.likelihoods import BoxCox, MixtureOfNormals, NormalMixtureComponents
from dtmgp.model import Mixture

S, N, W, C = 3, 4, 2, 3


def components(dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    logits, loc, scale = (torch.randn(S, N, W, C, generator=g, dtype=dtype) for _ in range(3))
    return NormalMixtureComponents(torch.log_softmax(logits, dim=-1), loc, (0.5 * scale).exp())


def reference(law):
    return MixtureSameFamily(Categorical(logits=law.log_weights), Normal(law.loc, law.scale))


def test_density_cdf_and_moments_are_those_of_torch():
    law, y = components(), torch.linspace(-4, 4, N * W, dtype=torch.float64).reshape(N, W)
    other = reference(law)
    for own, theirs in (
        (law.log_prob(y), other.log_prob(y.expand(S, N, W))),
        (law.cdf(y), other.cdf(y.expand(S, N, W))),
        (law.mean, other.mean),
        (law.variance, other.variance),
    ):
        torch.testing.assert_close(own, theirs, rtol=1e-12, atol=1e-12)


def test_draws_follow_the_cdf():
    """20,000 draws each: frequencies below the median have standard error 0.0035; six of them for 24 laws."""
    law, count = components(), 20_000
    rows = torch.arange(N).repeat(count)
    draws = law.take(rows).draw(torch.Generator().manual_seed(0)).reshape(S, count, N, W)
    for level in (-0.5, 0.0, 1.0):
        found = (draws <= level).double().mean(1)
        assert (found - law.cdf(torch.full((N, W), level).double())).abs().max() < 6 * 0.5 / math.sqrt(count)


def test_moments_through_a_warp_are_those_of_its_normals():
    law, warp = components(), BoxCox(0.0).double()
    mean, variance = Mixture(law, warp).mean_and_variance()
    weights = law.log_weights.exp() / S
    first = (law.loc + 0.5 * law.scale.square()).exp()
    second = (2 * law.loc + 2 * law.scale.square()).exp()
    centre = (weights * first).sum((0, 3))
    torch.testing.assert_close(mean, centre, rtol=1e-12, atol=0)
    torch.testing.assert_close(variance, (weights * second).sum((0, 3)) - centre.square(), rtol=1e-10, atol=0)


class TestLikelihood:
    def law(self, outputs=2, count=3):
        return MixtureOfNormals(outputs, count).double()

    def process(self, likelihood, spread=0.0):
        g = torch.Generator().manual_seed(1)
        mean = torch.randn(5, likelihood.width, generator=g, dtype=torch.float64)
        return Gaussian(mean, torch.full_like(mean, spread))

    def test_processes_move_location_scale_and_shape(self):
        """By hand for one row and one output of two."""
        likelihood = self.law()
        f = self.process(likelihood)
        law = likelihood(f, torch.zeros(5, likelihood.noise_width).double())
        row, out = f.mean[0], 1
        scale = math.exp(float(row[2 + out]) + float(likelihood.log_noise[out].detach()))
        logits = likelihood.logits[out] + row[4 + 3 * out : 7 + 3 * out]
        centres = likelihood.centres[out] + row[10 + 3 * out : 13 + 3 * out]
        widths = (likelihood.log_widths[out] + row[16 + 3 * out : 19 + 3 * out]).exp()
        torch.testing.assert_close(law.log_weights[0, out], torch.log_softmax(logits, -1))
        torch.testing.assert_close(law.loc[0, out], row[out] + scale * centres)
        torch.testing.assert_close(law.scale[0, out], ((scale * widths).square() + 1e-8).sqrt())
        assert likelihood.width == 2 * (2 + 9)

    def test_location_is_integrated(self):
        """The law with an uncertain location is the average over 200,000 locations; four standard errors."""
        likelihood = self.law(1, 2)
        f = self.process(likelihood)
        wide = Gaussian(f.mean, torch.zeros_like(f.mean).index_fill(-1, torch.tensor([0]), 0.3))
        noise = torch.zeros(5, likelihood.noise_width).double()
        y = torch.linspace(-1, 1, 5).double()[:, None]
        exact = likelihood(wide, noise).log_prob(y).exp()
        g = torch.Generator().manual_seed(2)
        moved = f.mean.expand(200_000, *f.mean.shape).clone()
        moved[..., 0] += math.sqrt(0.3) * torch.randn(moved.shape[:-1], generator=g, dtype=torch.float64)
        found = (
            likelihood(Gaussian(moved, torch.zeros_like(moved)), noise.expand(200_000, -1, -1))
            .log_prob(y)
            .exp()
        )
        error = found.std(0) / math.sqrt(len(found))
        assert ((found.mean(0) - exact).abs() < 4 * error).all()

    def test_expected_log_prob_by_draws(self):
        """Four standard errors of 100,000 draws; widths like the location's spread, as 20 nodes want it."""
        likelihood = MixtureOfNormals(1, 2, noise=0.8).double()
        f = Gaussian(0.3 * self.process(likelihood).mean, torch.zeros(5, likelihood.width).double())
        wide = Gaussian(f.mean, torch.zeros_like(f.mean).index_fill(-1, torch.tensor([0]), 0.3))
        y = torch.linspace(-1, 1, 5).double()[:, None]
        g = torch.Generator().manual_seed(3)
        moved = f.mean.expand(100_000, *f.mean.shape).clone()
        moved[..., 0] += math.sqrt(0.3) * torch.randn(moved.shape[:-1], generator=g, dtype=torch.float64)
        law = likelihood(
            Gaussian(moved, torch.zeros_like(moved)), torch.zeros(5, likelihood.noise_width).double()
        )
        found = law.log_prob(y)
        error = found.std(0) / math.sqrt(len(found))
        assert ((found.mean(0) - likelihood.expected_log_prob(wide, y)).abs() < 4 * error + 1e-3).all()

    def test_shape_is_set_and_has_its_moments(self):
        likelihood = self.law(1, 2)
        weights, centres, widths = (torch.tensor(v).double() for v in ([0.25, 0.75], [-1.5, 0.5], [0.2, 0.4]))
        likelihood.set_shape(0, weights, centres, widths)
        zero = Gaussian(torch.zeros(1, 8).double(), torch.zeros(1, 8).double())
        law = likelihood(zero, torch.zeros(1, 7).double())
        noise = likelihood.log_noise.exp()
        assert torch.allclose(law.mean, 0.0 * noise, atol=1e-12)
        assert torch.allclose(law.variance, noise.square() * (0.25 * 2.29 + 0.75 * 0.41), rtol=1e-6)

    def test_one_component_is_normal(self):
        law = MixtureOfNormals(components=1, noise=0.5)
        zero = Gaussian(torch.zeros(1, 5), torch.zeros(1, 5))
        assert law(zero, torch.zeros(1, 4)).scale.item() == pytest.approx(0.5, abs=1e-6)

    @pytest.mark.parametrize("count", [0, 1.5, True])
    def test_impossible_numbers_of_components(self, count):
        with pytest.raises(InputError, match="MixtureOfNormals components"):
            MixtureOfNormals(components=count)
