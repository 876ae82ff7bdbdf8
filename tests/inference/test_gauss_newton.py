"""Oracles: dense Bayesian linear regression, `TMGPRegressor`'s kriging, autograd, closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from small import small_model, small_runs

from dtmgp.inference import Runs
from dtmgp.inference.gauss_newton import GaussNewton, gauss_newton_start
from dtmgp.inference.mean_path import BIAS_PRECISION, MeanPath, parameter_count
from dtmgp.kernels import Laplace
from dtmgp.likelihoods import GaussianLikelihood, MixtureOfNormals, Standardise
from dtmgp.model import deep_model

DOUBLE = torch.float64
FIXED = GaussNewton(learn_scales=False)


def one_layer(outputs=1, linear=True, likelihood=None):
    likelihood = GaussianLikelihood(outputs) if likelihood is None else likelihood
    return deep_model(
        2,
        likelihood,
        hidden_widths=(),
        levels=(4,),
        kernels=Laplace(0.8),
        linear_means=linear,
        generator=torch.Generator().manual_seed(0),
    ).double()


def design_of(model, x):
    """Features, bias, inputs if there is a matrix: what the weights of a layer multiply; and their prior precision."""
    layer = model.stack[0]
    phi = layer.features.dense(x).detach()
    linear = hasattr(layer.mean, "matrix")
    basis = torch.cat([phi, torch.ones(len(x), 1).double(), *[x] * linear], dim=1)
    own = [torch.ones(phi.shape[1]).double(), torch.tensor([BIAS_PRECISION]).double()]
    own += [torch.full((2,), float(layer.mean.prior_std) ** -2).double()] if linear else []
    return basis, torch.cat(own)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("replicates", [1, 3])
class TestOneLayer:
    def solved(self, outputs, linear, replicates):
        model = one_layer(outputs, linear)
        runs = small_runs(40, replicates, outputs, dtype=DOUBLE)
        basis, prior = design_of(model, runs.x)
        found = gauss_newton_start(model, runs, FIXED)
        rows = basis.repeat_interleave(runs.counts, dim=0)
        return model, runs, rows, prior, found

    def test_mean_is_that_of_bayesian_linear_regression(self, outputs, linear, replicates):
        """Noise of the last update against the step before: equal to 1 % once the iterations have settled."""
        model, runs, rows, prior, found = self.solved(outputs, linear, replicates)
        layer = model.stack[0]
        for k in range(outputs):
            precision = rows.T @ rows / found.noise[k] ** 2 + torch.diag(prior)
            exact = torch.linalg.solve(precision, rows.T @ runs.y[:, k] / found.noise[k] ** 2)
            fitted = rows @ exact
            own = model(runs.x, noise=model.shared_noise(1, runs.x)).mean[0, :, k]
            assert (own.repeat_interleave(runs.counts) - fitted).abs().max() < 0.02 * found.noise[k]
            std = precision.diagonal().rsqrt()[: layer.features.size]
            np.testing.assert_allclose(layer.weights.log_std[:, k].exp().detach(), std, rtol=0.02)

    def test_noise_and_evidence_agree_with_dense_algebra(self, outputs, linear, replicates):
        _, runs, rows, prior, found = self.solved(outputs, linear, replicates)
        evidence, effective = 0.0, 0.0
        for k in range(outputs):
            noise = float(found.noise[k])
            covariance = noise**2 * np.eye(len(rows)) + (rows / prior).numpy() @ rows.numpy().T
            evidence += stats.multivariate_normal.logpdf(runs.y[:, k].numpy(), cov=covariance)
            precision = rows.T @ rows / noise**2 + torch.diag(prior)
            effective += float((1.0 - prior * torch.linalg.inv(precision).diagonal()).sum())
        assert found.log_evidence == pytest.approx(
            evidence, abs=0.2
        )  # the noise moved a little in the last step
        assert found.effective == pytest.approx(effective, rel=0.02)
        assert not found.interrupted

    def test_noise_is_a_fixed_point_of_mackays_update(self, outputs, linear, replicates):
        _, runs, rows, prior, found = self.solved(outputs, linear, replicates)
        square = 0.0
        for k in range(outputs):
            precision = rows.T @ rows / found.noise[k] ** 2 + torch.diag(prior)
            exact = torch.linalg.solve(precision, rows.T @ runs.y[:, k] / found.noise[k] ** 2)
            residual = runs.y[:, k] - rows @ exact
            free = len(rows) - found.effective / outputs
            square = float(residual @ residual) / free
            assert square == pytest.approx(float(found.noise[k]) ** 2, rel=0.05)


def test_null_evidence_is_that_of_a_mean_alone():
    """Laplace's approximation of a normal with a free mean under its prior, at the sample variance: exact integral."""
    runs = small_runs(40, 2, dtype=DOUBLE)
    found = gauss_newton_start(one_layer(), runs, FIXED)
    y = runs.y[:, 0].numpy()
    centred = y - y.mean()  # the prior of the bias is centred at the mean here, as the formula has it
    variance = centred.var()
    covariance = variance * np.eye(len(y)) + 1 / BIAS_PRECISION
    exact = stats.multivariate_normal.logpdf(centred, cov=covariance)
    assert found.null_evidence == pytest.approx(exact, abs=1e-6)


def test_replicates_are_their_means_and_spreads():
    runs = small_runs(30, 4, dtype=DOUBLE)
    single = Runs(
        runs.x.repeat_interleave(4, dim=0) + 0.0, runs.y, torch.arange(len(runs.y) + 1)
    )  # the same rows, not grouped
    found = [gauss_newton_start(one_layer(), part, FIXED) for part in (runs, single)]
    assert found[0].log_evidence == pytest.approx(found[1].log_evidence, abs=1e-6)
    assert torch.allclose(found[0].noise, found[1].noise, rtol=1e-9)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("latent", [0, 1])
def test_jacobian_against_differences(depth, latent):
    """Central differences of the mean path in every weight of a small model; error of order step^2."""
    model = small_model(depth, dtype=DOUBLE, latent_inputs=latent, likelihood=GaussianLikelihood(2))
    with torch.no_grad():
        for layer in model.stack:
            layer.weights.mean.copy_(
                torch.randn(layer.weights.mean.shape, generator=torch.Generator().manual_seed(1))
            )
    x = torch.rand(7, 2, generator=torch.Generator().manual_seed(0)).double()
    path = MeanPath(model, 2)
    f, jacobians, basis = path.jacobian(x, path.weights)
    assert torch.allclose(f, path(x, path.weights), rtol=1e-12)
    step, column = 1e-6, 0
    for number, w in enumerate(path.weights[:-1]):
        for place in range(w.numel()):
            ends = []
            for sign in (1, -1):
                moved = [v.clone() for v in path.weights]
                moved[number].view(-1)[place] += sign * step
                ends.append(path(x, moved))
            slope = (ends[0] - ends[1]) / (2 * step)
            for k in range(2):
                assert torch.allclose(jacobians[k][:, column], slope[:, k], rtol=1e-5, atol=1e-7)
            column += 1
    assert column == jacobians[0].shape[1]
    assert torch.allclose(basis @ path.weights[-1], f, rtol=1e-12)
    assert parameter_count(model, 2) == column + path.weights[-1].numel()


def test_deep_start_finds_the_noise():
    """The noise of the data is found, and no weight is less certain than its prior."""
    runs = small_runs(60, 2, dtype=DOUBLE)
    model = small_model(2, dtype=DOUBLE)
    found = gauss_newton_start(model, runs, GaussNewton(steps=200, patience=50, tolerance=1e-9))
    f = model(runs.x, noise=model.shared_noise(1, runs.x)).mean[0, :, 0].detach()
    residual = runs.y[:, 0] - f.repeat_interleave(runs.counts)
    assert 0.14 < float(found.noise[0]) < 0.26  # 0.2 is the truth
    assert float(residual.std()) == pytest.approx(float(found.noise[0]), rel=0.15)
    assert found.log_evidence > found.null_evidence + 20
    for layer in model.stack:
        assert bool((layer.weights.log_std.exp() <= layer.weights.prior_std * 1.001).all())
        assert bool(torch.isfinite(layer.weights.log_std).all())


def test_is_deterministic_and_leaves_other_processes_alone():
    runs = small_runs(40, 2, dtype=DOUBLE)
    models = [small_model(2, dtype=DOUBLE, likelihood=MixtureOfNormals(components=2)) for _ in range(2)]
    before = models[0].stack[-1].weights.mean[:, 1:].clone()
    for model in models:
        gauss_newton_start(model, runs, GaussNewton())
    one, two = (model.state_dict() for model in models)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert torch.equal(models[0].stack[-1].weights.mean[:, 1:], before)
    assert not torch.equal(models[0].stack[-1].weights.mean[:, :1], torch.zeros_like(before[:, :1]))


def test_warped_outputs_are_what_is_fitted():
    runs = small_runs(40, 2, dtype=DOUBLE)
    shifted = Runs(runs.x, 100.0 + 10.0 * runs.y, runs.start)
    plain, warped = (
        one_layer(),
        one_layer(likelihood=GaussianLikelihood(warp=Standardise([100.0], [10.0])).double()),
    )
    found = [gauss_newton_start(model, data, FIXED) for model, data in ((plain, runs), (warped, shifted))]
    assert torch.allclose(found[0].noise, found[1].noise, rtol=1e-6)
    assert torch.allclose(plain.stack[0].weights.mean, warped.stack[0].weights.mean, atol=1e-6)


def test_outputs_without_information_have_no_evidence_for_a_dependence():
    """Ten data sets of pure noise; the evidence must not be for the inputs by much in any."""
    gains = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.uniform(size=(60, 2))
        runs = Runs.group(x, rng.normal(size=(60, 1)), dtype=DOUBLE)
        found = gauss_newton_start(small_model(2, dtype=DOUBLE), runs, GaussNewton())
        gains.append(found.log_evidence - found.null_evidence)
    assert max(gains) < 4.0
    assert np.median(gains) < 1.0


def test_large_models_have_no_start():
    assert gauss_newton_start(small_model(2), small_runs(), GaussNewton(most_parameters=5)) is None


def test_of_many_inputs_some_are_used():
    runs = small_runs(300, 1, dtype=DOUBLE)
    all_of_them = gauss_newton_start(one_layer(), runs, FIXED)
    some = gauss_newton_start(one_layer(), runs, GaussNewton(learn_scales=False, most_inputs=150))
    assert float(some.noise[0]) == pytest.approx(float(all_of_them.noise[0]), rel=0.2)
    assert math.isfinite(some.log_evidence)
