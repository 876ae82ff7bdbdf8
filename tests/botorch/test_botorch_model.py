"""Oracle: Bayesian linear regression in the last layer's features, dense algebra, finite differences, and BoTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

pytest.importorskip("botorch")

from botorch.acquisition import (
    LogExpectedImprovement,
    qKnowledgeGradient,
    qLogNoisyExpectedImprovement,
)
from botorch.acquisition.objective import LinearMCObjective, ScalarizedPosteriorTransform
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler

from dtmgp import TMGPRegressor
from dtmgp.botorch import DTMGPModel, MeanResponse, Negative, QuantileResponse
from dtmgp.errors import InputError
from dtmgp.likelihoods import (
    BoxCox,
    GaussianLikelihood,
    HeteroscedasticGaussian,
    MixtureOfNormals,
)
from dtmgp.model import Mixture, deep_model

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


@pytest.fixture(autouse=True)
def _double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def module(likelihood=None, widths=(3,), latent=0, seed=0):
    """A deep model with weights that are not at their start."""
    levels = (2,) * len(widths) + (4,)
    generator = torch.Generator().manual_seed(seed)
    likelihood = GaussianLikelihood(noise=0.2) if likelihood is None else likelihood
    made = deep_model(
        2, likelihood, hidden_widths=widths, levels=levels, latent_inputs=latent, generator=generator
    )
    with torch.no_grad():
        for layer in made.stack:
            layer.weights.mean.add_(0.5 * torch.randn(layer.weights.mean.shape, generator=generator))
    return made.requires_grad_(False)


def points(n, seed=1):
    return torch.rand(n, 2, generator=torch.Generator().manual_seed(seed))


def test_one_layer_is_bayesian_linear_regression():
    """20,000 draws; the largest of 30 statistics lies within 4.5 standard errors but for 2 in 10,000 seeds."""
    net = module(widths=())
    count = 20_000
    model = DTMGPModel(net, hidden_draws=count, draws=1)
    x, y, new = points(6), torch.randn(6, 1, generator=torch.Generator().manual_seed(2)), points(5, 3)
    last = net.stack[-1]

    def design(at):
        return last.features.dense(at), last.mean(at) + last.bias

    phi, fixed = design(x)
    phi_new, fixed_new = design(new)
    v, m = last.weights.variance[:, 0], last.weights.mean
    k = (phi * v) @ phi.T + 0.2**2 * torch.eye(6)
    cross = (phi_new * v) @ phi.T
    mean = fixed_new + phi_new @ m + cross @ torch.linalg.solve(k, y - fixed - phi @ m)
    covariance = (phi_new * v) @ phi_new.T - cross @ torch.linalg.solve(k, cross.T)
    values = model.condition_on_observations(x, y).posterior(new).values[..., 0]  # (N, 5)
    std = covariance.diagonal().sqrt()
    assert ((values.mean(0) - mean[:, 0]) / std * math.sqrt(count)).abs().max() < 4.5
    scale = torch.outer(std, std)
    error = (torch.cov(values.T) - covariance) / scale
    assert error.abs().max() < 4.5 * math.sqrt(2 / count)


def test_the_one_layer_regressor_is_exact():
    """Oracle: the regressor's own means and covariances. 48 statistics, each within 4.5 standard errors."""
    rng = np.random.default_rng(0)
    x, more = rng.uniform(size=(30, 2)) * [1, 9], rng.uniform(size=(4, 2)) * [1, 9]

    def runs(at):
        mean = np.stack([np.sin(5 * at[:, 0]) + at[:, 1], 3 * at[:, 0] ** 2], axis=1)
        return mean + 0.1 * rng.normal(size=mean.shape)

    y, y_more = runs(x), runs(more)
    box = [[0, 1], [0, 9]]
    first = TMGPRegressor(level=4, bounds=box, max_evaluations=8).fit(x, y)
    count = 4000
    model = DTMGPModel(first, hidden_draws=count, draws=1)
    new = rng.uniform(size=(6, 2)) * [1, 9]
    mean, std = first.predict(new, return_std=True, include_noise=False)
    values = model.posterior(torch.from_numpy(new)).values
    assert (np.abs(values.mean(0).numpy() - mean) / std * np.sqrt(count)).max() < 4.5
    assert np.abs(values.std(0).numpy() / std - 1).max() < 4.5 / np.sqrt(2 * count)
    # conditioned: the dense algebra with the regressor's own covariances
    conditioned = model.condition_on_observations(torch.from_numpy(more), torch.from_numpy(y_more))
    values = conditioned.posterior(torch.from_numpy(new)).values
    both = np.concatenate([new, more])
    mean, covariance = first.predict(both, return_cov=True, include_noise=False)
    for o in range(2):
        k = covariance[6:, 6:, o] + first.noise_[o] * np.eye(4)
        gain = covariance[:6, 6:, o] @ np.linalg.inv(k)
        expected = mean[:6, o] + gain @ (y_more[:, o] - mean[6:, o])
        std = np.sqrt(np.diag(covariance[:6, :6, o] - gain @ covariance[6:, :6, o]))
        assert (np.abs(values[..., o].mean(0).numpy() - expected) / std * np.sqrt(count)).max() < 4.5
        assert np.abs(values[..., o].std(0).numpy() / std - 1).max() < 4.5 / np.sqrt(2 * count)


def test_weights_of_hidden_draws_are_those_of_bayes():
    net = module()
    model = DTMGPModel(net, hidden_draws=5, draws=2)
    x, y = points(4), torch.randn(4, 1)
    update = model.condition_on_observations(x, y)._update
    phi, fixed = model.members.features(x)
    last, expected = net.stack[-1].weights, []
    for s in range(5):
        covariance = (phi[s] * last.variance[:, 0]) @ phi[s].T + 0.2**2 * torch.eye(4)
        mean = (phi[s] @ last.mean + fixed[s])[:, 0]
        expected += [multivariate_normal.logpdf(y[:, 0].numpy(), mean.numpy(), covariance.numpy())] * 2
    np.testing.assert_allclose(update.log_evidence.flatten().numpy(), expected, rtol=1e-7)
    np.testing.assert_allclose(update.weights.numpy(), np.exp(expected) / np.exp(expected).sum(), rtol=1e-7)


def test_draws_are_those_of_the_deep_model():
    """Hidden and last weights of the members, put into the layers of the model, give the members' values."""
    model = DTMGPModel(net := module(latent=1), hidden_draws=3, draws=2)
    x = points(7)
    values = model.posterior(x).values[..., 0]
    members = model.members
    h = net.first_inputs(x, members.latent)
    for layer in members.hidden:
        h = layer(h)
    tables = members.tables.unflatten(-1, (2, -1))  # (S, m, R, W)
    last = net.stack[-1]
    for s in range(3):
        for r in range(2):
            table = tables[s, :, r].contiguous()
            expected = last.features(last.mapping(h[s]), table)[0] + last.mean(h[s]) + last.bias
            torch.testing.assert_close(values[2 * s + r], expected[:, 0], rtol=1e-12, atol=1e-12)


def test_observations_pull_the_mean_and_shrink_the_spread():
    model = DTMGPModel(module())
    x = points(3)
    before = model.posterior(x)
    y = before.mean + 0.3
    after = model.condition_on_observations(x, y, noise=torch.full_like(y, 1e-6)).posterior(x)
    torch.testing.assert_close(after.mean, y, atol=5e-3, rtol=0)
    assert (after.variance < 1e-3 * before.variance).all()
    far = torch.rand(20, 2)
    assert after.variance.mean() < model.posterior(far).variance.mean()


def test_conditioning_in_two_steps_is_conditioning_at_once():
    model = DTMGPModel(module())
    x, y, new = points(5), torch.randn(5, 1), points(4, 9)
    once = model.condition_on_observations(x, y)
    twice = model.condition_on_observations(x[:2], y[:2]).condition_on_observations(x[2:], y[2:])
    torch.testing.assert_close(once.posterior(new).values, twice.posterior(new).values)
    assert 1.0 <= once.effective_hidden_draws.item() <= 32.0
    assert model.effective_hidden_draws.item() == 32.0


def test_the_mean_over_fantasies_is_the_mean():
    """4,096 fantasies of one run; within 4.5 standard errors but for one seed in 15,000 per entry."""
    model = DTMGPModel(module(), hidden_draws=16, draws=16)
    new = points(6, 5)
    sampler = SobolQMCNormalSampler(torch.Size([4096]), seed=1)
    fantasies = model.fantasize(points(1), sampler)
    means = fantasies.posterior(new).mean[..., 0]
    assert means.shape == (4096, 6)
    spread = model.posterior(new).variance[..., 0].sqrt()
    # the noise of the fantasies is one draw per member: 256 of them
    assert ((means.mean(0) - model.posterior(new).mean[:, 0]).abs() < 4.5 * spread / 16).all()


@pytest.mark.parametrize("conditioned", [False, True])
@pytest.mark.parametrize(
    ("likelihood", "functional"),
    [
        (lambda: GaussianLikelihood(noise=0.2), MeanResponse()),
        (lambda: GaussianLikelihood(noise=0.2, warp=BoxCox([0.0], [0.0])), MeanResponse()),
        (lambda: HeteroscedasticGaussian(noise=0.2), QuantileResponse(0.9)),
        (lambda: MixtureOfNormals(components=3, noise=0.2), Negative(MeanResponse())),
        (lambda: MixtureOfNormals(components=3, noise=0.2), QuantileResponse(0.9)),
    ],
)
def test_gradients_in_x(likelihood, functional, conditioned):
    model = DTMGPModel(module(likelihood()), functional=functional, hidden_draws=3, draws=2)
    if conditioned:
        runs = model.functional.observed(torch.rand(2, 1) + 0.5)
        model = model.condition_on_observations(points(2), runs)
    x = points(3, 7).requires_grad_()
    direction = torch.randn(3, 2, generator=torch.Generator().manual_seed(4))
    for what in (lambda p: p.mean.sum(), lambda p: p.variance.sum(), lambda p: p.values.square().sum()):
        exact = (torch.autograd.grad(what(model.posterior(x)), x)[0] * direction).sum().item()
        step = 1e-6
        up, down = (what(model.posterior((x + sign * step * direction).detach())).item() for sign in (1, -1))
        assert exact == pytest.approx((up - down) / (2 * step), rel=2e-5, abs=1e-7)


def test_gradients_in_fantasy_points():
    model = DTMGPModel(module(), hidden_draws=3, draws=2)
    sampler = SobolQMCNormalSampler(torch.Size([4]), seed=0)

    def score(at):
        return model.fantasize(at, sampler).posterior(points(3, 8)).mean.square().sum()

    x = points(1).requires_grad_()
    exact = torch.autograd.grad(score(x), x)[0][0, 0].item()
    step = torch.tensor([[1e-6, 0.0]])
    with torch.no_grad():
        quotient = (score(x + step) - score(x - step)).item() / 2e-6
    assert exact == pytest.approx(quotient, rel=1e-5)


def test_quantiles_are_quantiles():
    net = module(MixtureOfNormals(components=3, noise=0.4))
    model = DTMGPModel(net, functional=QuantileResponse(0.8), hidden_draws=2, draws=2)
    x = points(5)
    phi, fixed = model.members.features(x)
    law = model.members.law(model.members.processes(phi, fixed).flatten(0, 1))
    for n, value in enumerate(model.posterior(x).values[..., 0]):
        one = Mixture(
            type(law)(*(getattr(law, name)[n : n + 1] for name in ("log_weights", "loc", "scale"))),
            net.likelihood.warp,
        )
        expected = one.quantiles(torch.tensor([0.8]))[:, 0, 0]
        torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-9)


def test_runs_have_the_variance_of_the_noise():
    """256 runs against functions at 40 inputs: mean squared residual of 10,240 within 5 percent (3.6 s.e.)."""
    model = DTMGPModel(module(), hidden_draws=16, draws=16)
    x = points(40)
    residual = model.posterior(x, observation_noise=True).values - model.posterior(x).values
    assert residual.square().mean().item() == pytest.approx(0.04, rel=0.05)
    given = model.posterior(x, observation_noise=torch.full((40, 1), 0.25)).values - model.posterior(x).values
    assert given.square().mean().item() == pytest.approx(0.25, rel=0.05)


def test_shapes():
    net = module(GaussianLikelihood(2, noise=0.2))
    model = DTMGPModel(net, hidden_draws=4, draws=2)
    assert model.num_outputs == 2
    assert model.batch_shape == torch.Size()
    x = torch.rand(3, 5, 4, 2)
    law = model.posterior(x)
    assert law.mean.shape == law.variance.shape == (3, 5, 4, 2)
    assert law.rsample(torch.Size([7])).shape == (7, 3, 5, 4, 2)
    assert law.quantile(torch.tensor([0.1, 0.9])).shape == (2, 3, 5, 4, 2)
    sampler = SobolQMCNormalSampler(torch.Size([6]), seed=0)
    assert sampler(law).shape == (6, 3, 5, 4, 2)
    assert model.posterior(x, output_indices=[1]).mean.shape == (3, 5, 4, 1)
    transform = ScalarizedPosteriorTransform(torch.tensor([1.0, -2.0]))
    scalar = model.posterior(x, posterior_transform=transform).mean
    torch.testing.assert_close(scalar[..., 0], law.mean[..., 0] - 2 * law.mean[..., 1])
    one = model.subset_output([1])
    assert one.num_outputs == 1
    torch.testing.assert_close(one.posterior(x).mean, law.mean[..., 1:])
    fantasies = one.fantasize(x, sampler)
    assert fantasies.batch_shape == (6, 3, 5)
    assert fantasies.posterior(torch.rand(6, 3, 5, 8, 2)).mean.shape == (6, 3, 5, 8, 1)
    assert fantasies.posterior(torch.rand(8, 2)).mean.shape == (6, 3, 5, 8, 1)
    conditioned = model.condition_on_observations(x[0, 0], torch.rand(4, 2)).subset_output([1])
    assert conditioned.posterior(x).mean.shape == (3, 5, 4, 1)


def test_samples_are_functions():
    model = DTMGPModel(module())
    x = points(6)
    sampler = SobolQMCNormalSampler(torch.Size([16]), seed=0)
    together = sampler(model.posterior(x))
    apart = torch.cat([sampler(model.posterior(x[k : k + 1])) for k in range(6)], dim=-2)
    torch.testing.assert_close(together, apart)


@pytest.mark.parametrize("wrong", [3.0, None, "model"])
def test_what_is_no_model_is_refused(wrong):
    with pytest.raises(InputError, match="DTMGPModel"):
        DTMGPModel(wrong)


def test_wrong_shapes_are_refused():
    model = DTMGPModel(module())
    with pytest.raises(InputError, match="2, as in the fit"):
        model.posterior(torch.rand(3, 3))
    with pytest.raises(InputError, match="Y of shape"):
        model.condition_on_observations(torch.rand(3, 2), torch.rand(3, 2))
    with pytest.raises(InputError, match="level"):
        QuantileResponse(1.0)


def acquisitions(model, x, y):
    best = y.max()
    yield LogExpectedImprovement(model, best_f=best), {}
    yield qLogNoisyExpectedImprovement(model, X_baseline=x, prune_baseline=True), {}
    yield (
        qLogNoisyExpectedImprovement(
            model, X_baseline=x, objective=LinearMCObjective(torch.tensor([2.0])), prune_baseline=False
        ),
        {},
    )
    yield qKnowledgeGradient(model, num_fantasies=4, inner_sampler=None), {}


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.BotorchWarning")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # an optimiser that stops on a line search says so
def test_acquisition_functions_are_optimised():
    model = DTMGPModel(module(), hidden_draws=8, draws=4)
    x = points(8)
    y = model.posterior(x).mean
    torch.manual_seed(0)
    for acquisition, more in acquisitions(model, x, y):
        found, value = optimize_acqf(
            acquisition,
            bounds=BOUNDS,
            q=1,
            num_restarts=2,
            raw_samples=8,
            options={"maxiter": 8, "batch_limit": 4},
            **more,
        )
        assert found.shape == (1, 2)
        assert ((found >= 0) & (found <= 1)).all()
        if not isinstance(acquisition, qKnowledgeGradient):
            others = acquisition(torch.rand(64, 1, 2))
            assert value >= others.quantile(0.9)
