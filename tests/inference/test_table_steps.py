"""Oracle: Bayesian linear regression in closed form, and runs that were not interrupted."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from dtmgp import DTMGPRegressor
from dtmgp.errors import InputError
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.inference import ELBO, Runs
from dtmgp.inference.optimisers import WithTables, tables_of
from dtmgp.inference.trainer import Settings, train
from dtmgp.kernels import Additive, Laplace
from dtmgp.kernels import Tensor as TensorKernel
from dtmgp.layers import ExpansionLayer
from dtmgp.layers.tables import TABLE_FROM, TableLayer, TableWeights
from dtmgp.likelihoods import GaussianLikelihood
from dtmgp.model import DTMGP, deep_model
from dtmgp.model.large import with_tables

NOISE = 0.3


@pytest.fixture(autouse=True)
def _double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def model(level=4, dim=2, *, learn_noise=False):
    likelihood = GaussianLikelihood()
    with torch.no_grad():
        likelihood.log_noise.fill_(math.log(NOISE))
    likelihood.log_noise.requires_grad_(learn_noise)
    expansion = HierarchicalExpansion(TensorKernel(Laplace(0.8), dim=dim), SparseGrid(dim, level))
    found = DTMGP([ExpansionLayer(expansion, 1, learn_kernel=False)], likelihood)
    return with_tables(found, table_from=1)


@pytest.fixture(scope="module")
def runs():
    rng = np.random.default_rng(0)
    x = rng.random((240, 2))
    y = np.sin(7 * x[:, :1]) + x[:, 1:] + NOISE * rng.normal(size=(240, 1))
    return Runs.group(x, y, torch.float64)


def test_training_ends_at_the_mean_field_posterior(runs):
    m = model()
    trained = train(
        m, runs, ELBO(), Settings(30, 12, 0.01, warm_up=0.02), generator=torch.Generator().manual_seed(0)
    )
    assert isinstance(trained.optimiser, WithTables)
    layer = m.stack[0]
    phi = layer.features.dense(runs.x).detach()
    precision = phi.T @ phi / NOISE**2 + torch.eye(phi.shape[1])
    exact = torch.linalg.solve(precision, phi.T @ (runs.y - layer.bias.detach()) / NOISE**2)
    std = torch.linalg.inv(precision).diagonal().sqrt()[:, None]
    away = (layer.weights.mean - exact) / std
    assert float(away.square().mean().sqrt()) < 0.5  # of a posterior standard deviation; measured 0.2
    found, wanted = m(runs.x).mean[0].detach(), phi @ exact + layer.bias.detach()
    assert float((found - wanted).square().mean().sqrt()) < 0.1 * NOISE  # measured 0.05
    torch.testing.assert_close(
        layer.weights.variance[:, 0], 1.0 / precision.diagonal(), rtol=0.1, atol=0.0
    )  # an average over the last epoch


def test_the_first_epoch_learns_variances_only(runs):
    m = model(learn_noise=True)
    before = m.likelihood.log_noise.clone()
    train(m, runs, ELBO(), Settings(1, 24, 0.01), generator=torch.Generator().manual_seed(0))
    layer = m.stack[0]
    assert float(layer.weights.mean.abs().max()) == 0.0
    torch.testing.assert_close(m.likelihood.log_noise, before)
    phi = layer.features.dense(runs.x).detach()
    exact = 1.0 / (phi.square().sum(0) / NOISE**2 + 1.0)
    # all batches of an epoch have equal weight but for the prior's, which has that of one: 10 batches
    torch.testing.assert_close(layer.weights.variance[:, 0], exact, rtol=0.25, atol=0.0)


def test_an_interrupted_run_ends_with_the_same_bits(runs, tmp_path):
    def run(path, stop_at=None):
        m = model(learn_noise=True)

        def stop(state):
            if state.epoch == stop_at:
                raise KeyboardInterrupt

        state = train(
            m,
            runs,
            ELBO(),
            Settings(7, 30, 0.02),
            generator=torch.Generator().manual_seed(3),
            callbacks=[stop],
            checkpoint=path,
            checkpoint_every=2,
        )
        return m, state

    whole, _ = run(tmp_path / "a")
    _, cut = run(tmp_path / "b", stop_at=5)
    assert cut.reason == "interrupted"
    assert (tmp_path / "b").exists()
    resumed, state = run(tmp_path / "b")
    assert state.epoch == 7
    for (name, one), two in zip(whole.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(one, two), name


def test_states_and_copies_are_the_table(runs):
    m = model()
    train(m, runs, ELBO(), Settings(3, 30, 0.02), generator=torch.Generator().manual_seed(3))
    tables_of(m)[0].touch(m.stack[0].features.plans[0], m.stack[0].features.lines[0](runs.x[:3])[1])
    law = m(runs.x)
    twin = copy.deepcopy(m)
    other = model()
    other.load_state_dict(m.state_dict())
    for found in (twin, other):
        torch.testing.assert_close(found(runs.x).mean, law.mean, rtol=0, atol=1e-14)
        torch.testing.assert_close(found(runs.x).variance, law.variance, rtol=0, atol=1e-14)
    with torch.no_grad():
        twin.stack[0].weights.excess.zero_()  # a copy of its own
    torch.testing.assert_close(twin(runs.x).mean, twin.stack[0].bias.expand(1, 240, 1))
    torch.testing.assert_close(m(runs.x).mean, law.mean, rtol=0, atol=1e-14)
    single = copy.deepcopy(m).to(dtype=torch.float32)
    torch.testing.assert_close(single(runs.x.float()).mean.double(), law.mean, rtol=0, atol=1e-5)


def test_the_kl_term_is_that_of_the_whole_table(runs):
    m = model()
    train(m, runs, ELBO(), Settings(4, 30, 0.02), generator=torch.Generator().manual_seed(3))
    m.eval()
    weights = m.stack[0].weights
    mean, variance = weights.mean, weights.variance
    normal = torch.distributions.Normal(mean, variance.sqrt())
    exact = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)).sum()
    torch.testing.assert_close(m.kl(), exact)
    draws = weights.draw(4000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(draws.std(0), variance.sqrt(), rtol=0.06, atol=0.0)


def test_gradients_of_two_passes_are_added(runs):
    m = model()
    weights = m.stack[0].weights
    for rows in (slice(0, 50), slice(30, 80)):
        (m(runs.x[rows]).mean.sum() + m(runs.x[rows]).variance.sum()).backward()
    weights.step(0.3, 2.0)
    other = model()
    for rows in (slice(0, 50), slice(30, 80)):
        parts = torch.cat([runs.x[rows], runs.x[rows]])
        both = other(parts)
        (both.mean[:, : len(parts) // 2].sum() + both.variance[:, len(parts) // 2 :].sum()).backward()
    other.stack[0].weights.step(0.3, 2.0)
    torch.testing.assert_close(weights.mean, other.stack[0].weights.mean)
    torch.testing.assert_close(weights.variance, other.stack[0].weights.variance)


def test_layers_become_tables_by_their_size():
    expansion = HierarchicalExpansion(Laplace(), SparseGrid(3, 5))
    found = with_tables(DTMGP([ExpansionLayer(expansion, 1)]), table_from=expansion.size)
    assert isinstance(found.stack[0], TableLayer)
    assert not isinstance(
        with_tables(DTMGP([ExpansionLayer(expansion, 1)]), table_from=expansion.size + 1).stack[0], TableLayer
    )
    assert SparseGrid(3, 11).size < TABLE_FROM < SparseGrid(3, 12).size
    additive = Additive([((0,), Laplace()), ((1,), Laplace())])
    kept = DTMGP([ExpansionLayer(HierarchicalExpansion(additive, SparseGrid(2, 5)), 1)])
    assert not tables_of(with_tables(kept, table_from=1))


@pytest.mark.slow  # compiles for more widths: 5 s of processor time
def test_a_table_under_a_hidden_layer_is_trained(runs):
    m = deep_model(2, GaussianLikelihood(), hidden_widths=(2,), levels=(2, 5), kernels=Laplace(2.0))
    m = with_tables(m, table_from=100)
    assert [isinstance(layer, TableLayer) for layer in m.stack] == [False, True]
    trained = train(m, runs, ELBO(), Settings(10, 24, 0.01), generator=torch.Generator().manual_seed(0))
    losses = [line.data for line in trained.trace]
    assert losses[-1] < losses[1] - 0.1
    assert trained.reason == "all epochs done"


def test_what_tables_cannot_do_is_refused(runs):
    m = model()
    with pytest.raises(InputError, match="kl_warm_up"):
        train(m, runs, ELBO(), Settings(2, 30, 0.02, kl_warm_up=0.5), generator=torch.Generator())
    with pytest.raises(InputError, match="the CPU"):
        TableWeights(3, 1).to("meta").table  # noqa: B018


def test_the_regressor_fits_saves_and_loads_a_table(monkeypatch, tmp_path):
    monkeypatch.setattr("dtmgp.model.large.TABLE_FROM", 4000)
    rng = np.random.default_rng(0)
    x = rng.random((300, 2))
    y = np.sin(7 * x[:, 0]) + 0.1 * rng.normal(size=300)
    regressor = DTMGPRegressor(
        hidden_widths=(), levels=(10,), kernel=Laplace(2.0), likelihood=GaussianLikelihood(), max_epochs=12
    ).fit(x, y)
    (table,) = tables_of(regressor.model_)
    assert table.table.size > 4000
    mean, std = regressor.predict(x, return_std=True)
    assert np.sqrt(np.mean((mean - np.sin(7 * x[:, 0])) ** 2)) < 0.3
    regressor.save(tmp_path / "large.dtmgp")
    back = DTMGPRegressor.load(tmp_path / "large.dtmgp")
    found, spread = back.predict(x, return_std=True)
    np.testing.assert_allclose(found, mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(spread, std, rtol=0, atol=1e-6)
    assert regressor.sample_functions(x[:4], 3, random_state=0).shape == (4, 3)
    default = DTMGPRegressor(hidden_widths=(), levels=(10,), kernel=Laplace(2.0), max_epochs=1).fit(
        x[:50], y[:50]
    )
    assert not tables_of(default.model_)  # its processes have priors of different scales
