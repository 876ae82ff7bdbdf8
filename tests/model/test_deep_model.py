"""Oracles: two layers by hand from dense features, Monte Carlo over drawn functions, finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.kernels import Laplace, Matern32, Matern52
from dtmgp.layers import ExpansionLayer, NormalCdfMap
from dtmgp.likelihoods import GaussianLikelihood, HeteroscedasticGaussian, Poisson
from dtmgp.model import DTMGP, Mixture, deep_model
from dtmgp.model.noise import ModelNoise, independent_noise, shared_noise

X = torch.rand(7, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def model_of(depth=2, likelihood=None, **options):
    likelihood = GaussianLikelihood() if likelihood is None else likelihood
    model = deep_model(
        2,
        likelihood,
        hidden_widths=(3,) * (depth - 1),
        levels=(3,) * depth,
        generator=torch.Generator().manual_seed(1),
        **options,
    ).double()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for layer in model.layers:
            layer.weights.mean.normal_(generator=generator)
            layer.weights.log_std.normal_(-1.0, 0.3, generator=generator)
    return model


def dense(layer, h):
    """Mean and variance of one layer from dense features."""
    phi = layer.features.expansion.features(layer.mapping(h).detach().numpy()).toarray()
    mean = phi @ layer.weights.mean.detach().numpy() + layer.mean(h).detach().numpy()
    return mean + layer.bias.detach().numpy(), phi**2 @ layer.weights.variance.detach().numpy()


def test_two_layers_by_hand():
    model, noise = model_of(), None
    noise = model.noise(4, 7, X, torch.Generator().manual_seed(3))
    law = model(X, noise=noise)
    assert law.mean.shape == law.variance.shape == (4, 7, 1)
    mean, variance = dense(model.layers[0], X)
    for s in range(4):
        h = mean + np.sqrt(variance) * noise.hidden[0][s].numpy()
        expected_mean, expected_variance = dense(model.layers[1], torch.from_numpy(h))
        # lengthscales went through float32 on their way
        np.testing.assert_allclose(law.mean[s].detach(), expected_mean, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(law.variance[s].detach(), expected_variance, rtol=1e-5, atol=1e-5)


def test_kl_sums_the_layers():
    model = model_of(3)
    assert model.kl().item() == pytest.approx(sum(layer.kl().item() for layer in model.layers), rel=1e-12)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("latent", [0, 2])
@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("make", [GaussianLikelihood, HeteroscedasticGaussian, Poisson])
def test_shapes_for_any_depth_latent_inputs_outputs_and_rows(depth, latent, rows, make):
    model = model_of(depth, make(2), latent_inputs=latent)
    assert model.depth == depth
    for noise in (model.noise(3, rows, X), model.shared_noise(3, X)):
        law = model(X[:rows], noise=noise)
        assert law.mean.shape == law.variance.shape == (3, rows, model.likelihood.width)
        components = model.components(X[:rows], noise)
        assert components.mean.shape == (3, rows, 2)
    assert model(X[:rows], samples=2).mean.shape == (2, rows, model.likelihood.width)
    assert model.draw(4)(X[:rows]).shape == (4, rows, model.likelihood.width)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("latent", [0, 1])
def test_every_parameter_gets_a_gradient(depth, latent):
    model = model_of(depth, latent_inputs=latent)
    embedding = torch.nn.Linear(2, 2).double()
    model = DTMGP(list(model.layers), model.likelihood, embedding=embedding, latent_inputs=latent)
    law = model.components(X, model.noise(2, 7, X, torch.Generator().manual_seed(0)))
    (law.log_prob(torch.ones(7, 1).double()).sum() + model.kl()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad, name
        assert bool((parameter.grad != 0).any()), name
        assert bool(torch.isfinite(parameter.grad).all()), name


def test_gradient_through_two_layers_against_differences():
    model = model_of()
    noise = model.noise(1, 2, X, torch.Generator().manual_seed(3))
    names, values = zip(*[(n, p) for n, p in model.named_parameters() if not n.startswith("likelihood")])

    def outputs(x, *parameters):
        return tuple(torch.func.functional_call(model, dict(zip(names, parameters)), (x,), {"noise": noise}))

    picked = [
        v.detach().clone().requires_grad_(n.endswith(("matrix", "bias", "log_scale", "lengthscales.0")))
        for n, v in zip(names, values)
    ]
    x = X[:2].clone().requires_grad_()
    assert torch.autograd.gradcheck(outputs, (x, *picked), atol=1e-6, rtol=1e-4)


class TestDrawnFunctions:
    def test_the_same_value_at_the_same_input(self):
        for latent in (0, 2):
            model = model_of(3, latent_inputs=latent)
            frozen = model.draw(4, torch.Generator().manual_seed(0))
            with torch.no_grad():
                values = frozen(X)
                torch.testing.assert_close(frozen(X[2:3]), values[:, 2:3], rtol=1e-10, atol=1e-10)
                torch.testing.assert_close(frozen(X.flip(0)), values.flip(1), rtol=1e-10, atol=1e-10)
                torch.testing.assert_close(frozen(X), values, rtol=0, atol=0)

    def test_are_continuous(self):
        model = model_of(2, latent_inputs=1)
        frozen = model.draw(3, torch.Generator().manual_seed(0))
        line = torch.linspace(0, 1, 2001).double()[:, None].expand(-1, 2)
        with torch.no_grad():
            values = frozen(line)[..., 0]
        assert (values.diff(dim=1).abs().max() / (values.amax() - values.amin())).item() < 0.02

    def test_have_the_moments_of_the_model(self):
        """3,000 functions against 3,000 hidden draws at 7 inputs: 5 standard errors of the difference."""
        model, count = model_of(2, latent_inputs=1), 3_000
        with torch.no_grad():
            values = model.draw(count, torch.Generator().manual_seed(0))(X)[..., 0]
            f = model(X, count, torch.Generator().manual_seed(1))
        mean = f.mean.mean(0)[:, 0]
        variance = (f.variance.mean(0) + f.mean.var(0))[:, 0]
        assert ((values.mean(0) - mean) / variance.sqrt()).abs().max().item() < 5 * math.sqrt(2 / count)
        # fourth moments are about normal here: relative error of a variance sqrt(2/n), twice
        assert (values.var(0) / variance - 1).abs().max().item() < 5 * math.sqrt(4 / count) * 1.5

    def test_repeat_with_the_generator_and_differ_from_each_other(self):
        model = model_of()
        one, two = (model.draw(2, torch.Generator().manual_seed(5))(X) for _ in range(2))
        assert torch.equal(one, two)
        assert not torch.equal(one[0], one[1])

    def test_are_differentiable_in_the_input(self):
        model = model_of()
        frozen = model.draw(2, torch.Generator().manual_seed(0))
        assert torch.autograd.gradcheck(frozen, (X[:2].clone().requires_grad_(),), atol=1e-6, rtol=1e-4)


class TestNoise:
    WIDTHS = (2, (3, 4), 1)

    def test_independent_noise_is_standard_normal_with_stratified_latent_inputs(self):
        noise = independent_noise(self.WIDTHS, 64, 200, X, torch.Generator().manual_seed(0))
        assert noise.latent.shape == (64, 200, 2)
        assert [h.shape for h in noise.hidden] == [(64, 200, 3), (64, 200, 4)]
        assert noise.output.shape == (64, 200, 1)
        # one draw per 64th of the probability at every input
        cells = (torch.special.ndtr(noise.latent) * 64).long().sort(dim=0).values
        assert torch.equal(cells, torch.arange(64)[:, None, None].expand_as(cells))
        for part in (*noise.hidden, noise.output):
            n = part.numel()
            assert abs(part.mean().item()) < 5 / math.sqrt(n)
            assert abs(part.var().item() - 1) < 5 * math.sqrt(2 / n)

    @pytest.mark.parametrize("samples", [1, 3, 64])
    def test_shared_noise_is_one_row_and_repeats(self, samples):
        one, two = (shared_noise(self.WIDTHS, samples, X, 7) for _ in range(2))
        other = shared_noise(self.WIDTHS, samples, X, 8)
        assert one.latent.shape == (samples, 1, 2)
        assert torch.equal(one.hidden[1], two.hidden[1])
        assert not torch.equal(one.hidden[1], other.hidden[1])

    def test_shared_noise_integrates_better_than_random_draws(self):
        noise = shared_noise((0, (2,), 0), 256, X, 0).hidden[0][:, 0]
        # E cos(z1 + z2) = exp(-1); random draws err by 0.04
        assert noise.sum(-1).cos().mean().item() == pytest.approx(math.exp(-1), abs=5e-3)
        assert noise.mean(0).abs().max().item() < 0.01

    def test_no_noise_is_needed_for_one_gaussian_layer(self):
        noise = model_of(1).shared_noise(4, X)
        assert noise.hidden == ()
        assert noise.latent.shape == noise.output.shape == (4, 1, 0)

    def test_more_columns_than_the_sequence_has(self):
        noise = shared_noise((0, (22_000,), 1), 2, X, 0)
        assert noise.hidden[0].shape == (2, 1, 22_000)
        assert bool(torch.isfinite(noise.hidden[0]).all())

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_noise_has_the_dtype_of_the_inputs(self, dtype):
        for noise in (
            independent_noise(self.WIDTHS, 3, 5, X.to(dtype), None),
            shared_noise(self.WIDTHS, 3, X.to(dtype), 0),
        ):
            assert {part.dtype for part in (noise.latent, *noise.hidden, noise.output)} == {dtype}
            assert isinstance(noise, ModelNoise)


def test_predictions_with_shared_noise_do_not_depend_on_the_other_inputs():
    model = model_of(3, HeteroscedasticGaussian(), latent_inputs=1)
    noise = model.shared_noise(16, X)
    with torch.no_grad():
        together = Mixture(model.components(X, noise), model.likelihood.warp).mean
        alone = torch.cat([Mixture(model.components(x[None], noise), model.likelihood.warp).mean for x in X])
    torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-12)


def test_one_input_with_many_latent_draws_per_row():
    """Noise with rows for an input without: the input is repeated."""
    model = model_of(2, latent_inputs=1)
    noise = model.noise(3, 5, X, torch.Generator().manual_seed(0))
    one = model(X[:1], noise=noise)
    same = model(X[:1].expand(5, -1), noise=noise)
    torch.testing.assert_close(one.mean, same.mean)


def test_zero_weights_leave_the_mean_functions():
    model = model_of(3)
    with torch.no_grad():
        for layer in model.layers:
            layer.weights.mean.zero_()
            layer.weights.log_std.fill_(-50.0)
        h = X
        for layer in model.layers:
            h = layer.mean(h) + layer.bias
        law = model(X, samples=2)
    # hidden draws have a standard deviation of 1e-6, where its gradient is cut
    torch.testing.assert_close(law.mean, h.expand(2, -1, -1), rtol=1e-4, atol=1e-4)


def test_hidden_linear_means_start_with_unit_scale():
    """Projections of uniform inputs: variance 1 on average over 2,000 units, within 5 standard errors."""
    model = deep_model(
        13,
        GaussianLikelihood(),
        hidden_widths=(2000,),
        levels=(1, 1),
        generator=torch.Generator().manual_seed(0),
    )
    x = torch.rand(4000, 13, generator=torch.Generator().manual_seed(1))
    h = model.layers[0].mean(x) + model.layers[0].bias
    assert h.var(0).mean().item() == pytest.approx(1.0, abs=0.05)
    assert abs(h.mean().item()) < 0.02
    assert float(model.layers[1].mean.matrix.detach().abs().max()) == 0.0


def test_kernels_grids_and_maps_per_layer():
    model = deep_model(
        2,
        GaussianLikelihood(),
        hidden_widths=(3,),
        levels=(SparseGrid(3, 2), 2),
        kernels=(Matern52(), Laplace()),
        latent_inputs=1,
        mapping=NormalCdfMap,
        linear_means=False,
        learn_kernel=False,
    )
    assert "Matern52" in repr(model.layers[0].features)
    assert "Laplace" in repr(model.layers[1].features)
    assert isinstance(model.layers[1].mapping, NormalCdfMap)
    assert model(torch.rand(4, 2)).mean.shape == (1, 4, 1)


def layer(dim, width):
    return ExpansionLayer(HierarchicalExpansion(Matern32(), SparseGrid(dim, 2)), width)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: DTMGP([]), "no layers"),
        (lambda: DTMGP([layer(2, 3), layer(2, 1)]), "layers 1 and 2: got 3 outputs into 2 inputs"),
        (lambda: DTMGP([layer(2, 1)], HeteroscedasticGaussian()), "last layer: got 1 outputs; expected 2"),
        (lambda: DTMGP([layer(2, 1)], latent_inputs=-1), "latent_inputs"),
        (lambda: DTMGP([layer(2, 1)], latent_inputs=True), "latent_inputs"),
        (lambda: deep_model(2, GaussianLikelihood(), hidden_widths=(3,), levels=(2,)), "levels: got 1"),
        (lambda: deep_model(2, GaussianLikelihood(), kernels=[Laplace()]), "kernels: got 1"),
        (lambda: DTMGP([layer(2, 1)])(torch.rand(3, 5)), r"shape \(3, 5\)"),
    ],
)
def test_models_that_do_not_fit_together_are_refused(make, says):
    with pytest.raises(InputError, match=says):
        make()
