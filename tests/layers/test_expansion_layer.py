"""Oracles: dense features of `HierarchicalExpansion` for mean and variance, Monte-Carlo draws, central differences."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
import torch

from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.kernels import Additive, Brownian, BrownianBridge, Laplace, Matern32, Matern52, Tensor
from dtmgp.layers import AffineMap, ExpansionLayer, LinearMean, NormalCdfMap

EXPANSIONS = {
    "laplace": lambda: HierarchicalExpansion(Laplace(0.7), SparseGrid(3, 4)),
    "matern": lambda: HierarchicalExpansion(Matern32(0.5), SparseGrid(3, 4)),
    "additive": lambda: HierarchicalExpansion(
        Additive([((0, 2), Tensor([Matern32(0.6), Laplace(0.4, variance=2.0)])), ((1,), Matern52(0.8))]),
        SparseGrid(3, 3),
    ),
    "scaled": lambda: HierarchicalExpansion(Tensor([Laplace(0.4)] * 3, variance=2.5), SparseGrid(3, 3)),
    "brownian": lambda: HierarchicalExpansion(Brownian(2.0), SparseGrid(3, 3)),
    "small": lambda: HierarchicalExpansion(Matern32(0.5), SparseGrid(3, 2)),
    "bridge": lambda: HierarchicalExpansion(BrownianBridge(), SparseGrid(3, 3)),
    "root-only": lambda: HierarchicalExpansion(Laplace(1.0), SparseGrid(3, 1)),
}
RTOL = {torch.float64: 1e-11, torch.float32: 2e-4}  # measured: 2e-14 and 1e-5, of entries of size 1


@contextlib.contextmanager
def default(dtype):
    """Parameters start in this dtype, without a detour over float32."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def layer_of(name, width=4, dtype=torch.float64, **options):
    with default(dtype):
        layer = ExpansionLayer(EXPANSIONS[name](), width, **options).to(dtype)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in (layer.weights.mean, layer.weights.log_std, layer.bias):
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return layer


def inputs(rows=9, dtype=torch.float64):
    x = torch.rand(rows, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x[: min(3, rows)] = torch.tensor([[0.5, 0.5, 0.5], [0.25, 1.0, 0.75], [0.0, 0.5, 1.0]])[:rows]
    return x.to(dtype)


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("name", EXPANSIONS)
@pytest.mark.parametrize("width", [1, 4])
def test_mean_and_variance_from_dense_features(name, width, dtype):
    layer, x = layer_of(name, width, dtype), inputs(dtype=dtype)
    phi = layer.features.expansion.features(x.double().numpy()).toarray()
    weights = layer.weights
    mean = phi @ weights.mean.detach().double().numpy() + layer.bias.detach().double().numpy()
    variance = phi**2 @ np.exp(2 * weights.log_std.detach().double().numpy())
    law = layer(x)
    assert law.mean.dtype == dtype
    np.testing.assert_allclose(law.mean.detach(), mean, rtol=RTOL[dtype], atol=RTOL[dtype])
    np.testing.assert_allclose(law.variance.detach(), variance, rtol=RTOL[dtype], atol=RTOL[dtype])


@pytest.mark.parametrize("name", EXPANSIONS)
def test_prior_variance_is_that_of_the_process_on_its_points(name):
    layer, x = layer_of(name), inputs()
    phi = layer.features.expansion.features(x.numpy()).toarray()
    np.testing.assert_allclose(layer.features.prior_variance(x).detach(), (phi**2).sum(1), rtol=1e-11)


@pytest.mark.parametrize("mapping", [AffineMap, NormalCdfMap])
def test_mapping_and_mean_function_come_before_the_features(mapping):
    mean = LinearMean(3, 2, matrix=np.arange(6.0).reshape(3, 2))
    layer = layer_of("matern", 2, mapping=mapping(3), mean=mean)
    h = 2 * inputs() - 1
    u = layer.mapping(h).detach().numpy()
    phi = layer.features.expansion.features(u).toarray()
    expected = phi @ layer.weights.mean.detach().numpy() + layer.bias.detach().numpy()
    expected += h.numpy() @ mean.matrix.detach().numpy()
    np.testing.assert_allclose(layer(h).mean.detach(), expected, rtol=1e-11, atol=1e-11)


def test_changed_lengthscales_and_variances_are_those_of_a_new_expansion():
    layer = layer_of("laplace")
    with torch.no_grad():
        layer.features.log_lengthscales[0].copy_(torch.tensor([0.3, 1.1, 2.0]).log())
        layer.features.log_variances[0].copy_(torch.tensor(1.7).log())
    scales = layer.features.log_lengthscales[0].exp().tolist()
    variance = layer.features.log_variances[0].exp().item()
    kernel = Tensor([Laplace(s) for s in scales], variance=variance)
    phi = HierarchicalExpansion(kernel, SparseGrid(3, 4)).features(inputs().numpy()).toarray()
    expected = phi @ layer.weights.mean.detach().numpy() + layer.bias.detach().numpy()
    np.testing.assert_allclose(layer(inputs()).mean.detach(), expected, rtol=1e-10, atol=1e-10)


def test_moments_are_those_of_drawn_functions():
    # 20,000 functions at 9 inputs, 2 units: within 5 standard errors of mean and variance; false alarms 4e-5
    layer, x, count = layer_of("matern", 2), inputs(), 20_000
    with torch.no_grad():
        law = layer(x)
        draws = layer.draw(count, torch.Generator().manual_seed(2))(x)
    assert draws.shape == (count, 9, 2)
    assert float(((draws.mean(0) - law.mean) / law.std).abs().max()) < 5 / math.sqrt(count)
    assert float((draws.var(0) / law.variance - 1).abs().max()) < 5 * math.sqrt(2 / count)


def test_drawn_functions_have_the_covariance_of_the_features():
    layer, x, count = layer_of("laplace", 1), inputs(), 20_000
    phi = layer.features.expansion.features(x.numpy()).toarray()
    expected = phi * np.exp(2 * layer.weights.log_std.detach().numpy()[:, 0]) @ phi.T
    with torch.no_grad():
        draws = layer.draw(count, torch.Generator().manual_seed(3))(x)[..., 0]
    found = torch.cov(draws.T).numpy()
    scale = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    # an entry of a sample covariance has standard error at most scale * sqrt(2/n)
    assert np.abs((found - expected) / scale).max() < 5 * math.sqrt(2 / count)


def test_a_drawn_function_is_one_function():
    layer, x = layer_of("matern"), inputs()
    frozen = layer.draw(5, torch.Generator().manual_seed(4))
    everywhere = frozen(x)
    torch.testing.assert_close(frozen(x[3:4]), everywhere[:, 3:4], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(frozen(x.flip(0)), everywhere.flip(1), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(frozen(x.expand(5, -1, -1)), everywhere, rtol=1e-12, atol=1e-12)


def test_gradients_against_differences():
    layer = layer_of("small", 2, mapping=AffineMap(3, scale=0.3), mean=LinearMean(3, 2))
    names, values = zip(*layer.named_parameters())

    def outputs(h, *parameters):
        return tuple(torch.func.functional_call(layer, dict(zip(names, parameters)), (h,)))

    # away from grid points, where the features of rough kernels have kinks
    h = torch.linspace(-0.71, 0.83, 6, dtype=torch.float64).reshape(2, 3).requires_grad_()
    assert torch.autograd.gradcheck(outputs, (h, *values), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", EXPANSIONS)
def test_every_parameter_that_is_learned_gets_a_gradient(name):
    layer = layer_of(name)
    law = layer(inputs())
    (law.mean.square().sum() + (1 + law.variance).log().sum() + layer.kl()).backward()
    for label, parameter in layer.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, label
            assert float(parameter.grad.abs().max()) > 0, label


def test_a_kernel_without_lengthscale_has_none_to_learn():
    layer = layer_of("bridge")
    assert not layer.features.log_lengthscales[0].requires_grad
    assert layer.features.log_variances[0].requires_grad


def test_fixed_kernels_stay_fixed():
    layer = layer_of("matern", learn_kernel=False)
    assert not any(p.requires_grad for p in layer.features.parameters())


@pytest.mark.parametrize("lead", [(1,), (0,), (2, 1), (3, 4), (2, 0)])
def test_any_leading_shape_also_one_row_and_none(lead):
    layer = layer_of("matern", 2)
    x = torch.full((*lead, 3), 0.3, dtype=torch.float64)
    law = layer(x)
    assert law.mean.shape == law.variance.shape == (*lead, 2)
    if law.mean.numel():
        torch.testing.assert_close(law.mean.reshape(-1, 2)[:1], layer(x.reshape(-1, 3)[:1]).mean)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mapping": AffineMap(2)}, "AffineMap: got 2 inputs; expected 3"),
        ({"mean": LinearMean(2, 4)}, "LinearMean: got 2 inputs; expected 3"),
        ({"mean": LinearMean(3, 1)}, "mean: got 1 outputs; expected 4"),
        ({"prior": (0.0, -1.0)}, "positive standard deviations"),
    ],
)
def test_parts_that_do_not_fit_are_refused(options, says):
    with pytest.raises(InputError, match=says):
        ExpansionLayer(EXPANSIONS["matern"](), 4, **options)


def test_inputs_in_another_dtype_than_the_weights_are_refused_with_both_names():
    with pytest.raises((InputError, RuntimeError, TypeError), match=r"float(32|64)"):
        layer_of("matern", dtype=torch.float32)(inputs(dtype=torch.float64))
