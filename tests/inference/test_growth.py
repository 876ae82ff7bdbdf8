"""Oracle: the smaller layer itself; dense features; the evidence of the regression, dense."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from dtmgp.errors import InputError
from dtmgp.grids import SparseGrid
from dtmgp.inference import ELBO, Runs
from dtmgp.inference.growth import grow_last_layer, regressions
from dtmgp.inference.trainer import Settings, train
from dtmgp.kernels import Additive, Laplace, Matern32
from dtmgp.kriging import Adaptive, Evidence
from dtmgp.likelihoods import GaussianLikelihood, StudentT
from dtmgp.model import deep_model
from dtmgp.model.growth import grown, set_of


@pytest.fixture(autouse=True)
def _double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture(scope="module")
def runs():
    rng = np.random.default_rng(0)
    x = rng.random((150, 3))
    y = np.sin(9 * x[:, :1]) + x[:, 1:2] + 0.1 * rng.normal(size=(150, 1))
    return Runs.group(x, y, torch.float64)


def model(kernel=None, hidden=(3,), seed=0):
    likelihood = GaussianLikelihood()
    with torch.no_grad():
        likelihood.log_noise.fill_(math.log(0.2))
    generator = torch.Generator().manual_seed(seed)
    found = deep_model(
        3,
        likelihood,
        hidden_widths=hidden,
        levels=(2,) * (len(hidden) + 1),
        kernels=kernel,
        generator=generator,
    )
    with torch.no_grad():
        for layer in found.stack:
            layer.weights.mean.normal_(generator=generator)
            layer.weights.log_std.normal_(generator=generator)
    return found


@pytest.mark.parametrize("kernel", [Laplace(0.8), Matern32(0.6)], ids=["laplace", "matern"])
def test_a_layer_predicts_the_same_before_and_after_growth(kernel, runs):
    layer = model(kernel).stack[-1]
    larger = set_of(layer).add([(3, 2, 1), (1, 1, 4)])
    h = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
    before = layer(h)
    after = grown(layer, larger)
    torch.testing.assert_close(after(h).mean, before.mean, rtol=0, atol=1e-12)
    torch.testing.assert_close(after.kl(), layer.kl(), rtol=0, atol=1e-10)
    u = layer.mapping(h)
    squares = [part.features.dense(u).square().sum(1, keepdim=True) for part in (layer, after)]
    torch.testing.assert_close(
        after(h).variance - before.variance, squares[1] - squares[0], rtol=0, atol=1e-10
    )
    narrow = grown(layer, larger, new_std=1e-8)
    torch.testing.assert_close(narrow(h).variance, before.variance, rtol=0, atol=1e-12)
    assert narrow.features.log_lengthscales is layer.features.log_lengthscales
    assert narrow.bias is layer.bias


def test_a_prior_of_its_own_per_weight_moves_along(runs):
    layer = model().stack[-1]
    layer.weights.register_buffer("prior_std", torch.rand(layer.features.size, 1) + 0.5)
    after = grown(layer, set_of(layer).refine())
    torch.testing.assert_close(after.kl(), layer.kl(), rtol=0, atol=1e-10)


def test_growth_follows_the_evidence_of_the_regression(runs):
    m = model(Matern32(0.6))
    (before, values), *_ = regressions(m, runs)
    growth = grow_last_layer(m, runs, Adaptive(share=0.01, look_ahead=0))
    assert growth is not None
    added = len(growth.grid.multi_indices) - len(before.grid.multi_indices)
    assert added == 1
    gain = Evidence(before.data, before.kernel, growth.grid, before.mean_std).posterior(values)[0]
    assert growth.promised == pytest.approx(gain - before.posterior(values)[0], abs=1e-8)
    assert growth.after == m.stack[-1].features.size > growth.before


@pytest.mark.slow  # five stages of training: 5 s of processor time
def test_a_model_that_grows_between_stages_ends_with_a_higher_bound(runs):
    likelihood = GaussianLikelihood()
    with torch.no_grad():
        likelihood.log_noise.fill_(math.log(0.2))
    m = deep_model(3, likelihood, hidden_widths=(), levels=(2,), kernels=Laplace(0.5))
    fixed = copy.deepcopy(m)

    def stage(which, epochs):
        settings = Settings(epochs, 50, 0.05)
        return train(which, runs, ELBO(), settings, generator=torch.Generator().manual_seed(0)).trace[-1].loss

    sizes = [m.stack[-1].features.size]
    for _ in range(4):  # a stage after which nothing pays yet has learned the noise
        stage(m, 15)
        growth = grow_last_layer(m, runs)
        sizes += [] if growth is None else [growth.after]
    assert len(sizes) >= 3
    assert sizes == sorted(set(sizes))
    assert stage(m, 15) < stage(fixed, 75) - 0.2
    levels = set_of(m.stack[-1]).max_levels
    assert levels[0] > levels[1] >= levels[2]


def test_nothing_grows_on_noise():
    rng = np.random.default_rng(1)
    runs = Runs.group(rng.random((80, 3)), rng.normal(size=(80, 1)), torch.float64)
    likelihood = GaussianLikelihood()  # of unit noise
    with torch.no_grad():
        likelihood.log_noise.zero_()
    m = deep_model(3, likelihood, hidden_widths=(), levels=(2,), kernels=Laplace())
    assert grow_last_layer(m, runs) is None


def test_what_cannot_grow_is_refused(runs):
    m = deep_model(3, StudentT(), hidden_widths=(2,), levels=(2, 2))
    with pytest.raises(InputError, match="GaussianLikelihood"):
        grow_last_layer(m, runs)
    layer = model().stack[-1]
    with pytest.raises(InputError, match="without"):
        grown(layer, SparseGrid(3, 1))
    additive = Additive([((0,), Laplace()), ((1, 2), Matern32())])
    m = deep_model(3, GaussianLikelihood(), hidden_widths=(), levels=(2,), kernels=additive)
    with pytest.raises(InputError, match="one tensor kernel"):
        grow_last_layer(m, runs)
