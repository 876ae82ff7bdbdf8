"""Oracles: exact Bayesian linear regression by dense algebra, `dtmgp.kriging`'s evidence, and `TMGPRegressor`.

One layer with Gaussian noise is linear regression on the features. Its best mean-field bound is
``log evidence - (sum log A_ii - log det A)/2`` with ``A = I + Phi^T Phi / noise^2``: equal to the evidence where A is
diagonal, below it elsewhere; the means of the weights are the exact ones in every case.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from dtmgp import TMGPRegressor
from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.inference import ELBO, Predictive, Runs
from dtmgp.kernels import Laplace, Matern32, as_tensor
from dtmgp.kriging import Evidence, Hyperparameters, collapse
from dtmgp.layers import ExpansionLayer
from dtmgp.likelihoods import GaussianLikelihood
from dtmgp.model import DTMGP

NOISE = 0.3


def root_only(rng):
    """A single active feature at every input."""
    return rng.uniform(size=(12, 2)).repeat(2, axis=0), Laplace(1.0), SparseGrid(2, 1)


def one_point(rng):
    """At the centre all finer features vanish: many weights, only one of which the data touch."""
    return np.full((9, 2), 0.5), Laplace(0.5), SparseGrid(2, 4)


def general(rng):
    return rng.uniform(size=(15, 2)).repeat(2, axis=0), Matern32(0.7), SparseGrid(2, 4)


DESIGNS = {"root only": (root_only, True), "one point": (one_point, True), "general": (general, False)}


def problem(name, outputs=1):
    rng = np.random.default_rng(0)
    make, diagonal = DESIGNS[name]
    x, kernel, grid = make(rng)
    y = np.sin(5 * x[:, :1]) + np.arange(outputs) + NOISE * rng.normal(size=(len(x), outputs))
    return x, y, kernel, grid, diagonal


def best_mean_field(model, runs):
    """Minimum of the loss by L-BFGS: convex in means and log standard deviations."""
    batch = runs.batch(torch.arange(len(runs.x)))
    weights = model.layers[0].weights
    optimiser = torch.optim.LBFGS(
        [weights.mean, weights.log_std],
        max_iter=500,
        tolerance_grad=1e-11,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def closure():
        optimiser.zero_grad()
        loss = ELBO()(model, batch).value
        loss.backward()
        return loss

    optimiser.step(closure)
    return -ELBO()(model, batch).value.item() * len(runs.y)


def fitted(name, outputs=1):
    x, y, kernel, grid, diagonal = problem(name, outputs)
    expansion = HierarchicalExpansion(kernel, grid)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        layer = ExpansionLayer(expansion, outputs, learn_kernel=False)
        model = DTMGP([layer], GaussianLikelihood(outputs, noise=NOISE, learn_noise=False))
    finally:
        torch.set_default_dtype(before)
    layer.bias.requires_grad_(False)
    bound = best_mean_field(model, Runs.group(x, y, dtype=torch.float64))
    phi = expansion.features(x).toarray()
    covariance = NOISE**2 * np.eye(len(x)) + phi @ phi.T
    evidence = sum(stats.multivariate_normal.logpdf(column, cov=covariance) for column in y.T)
    precision = np.eye(expansion.size) + phi.T @ phi / NOISE**2
    return model, bound, evidence, precision, (x, y, kernel, grid, phi), diagonal


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("name", DESIGNS)
def test_best_bound_is_the_evidence_less_the_known_gap(name, outputs):
    _, bound, evidence, precision, _, diagonal = fitted(name, outputs)
    gap = outputs * 0.5 * (np.log(precision.diagonal()).sum() - np.linalg.slogdet(precision)[1])
    assert bound == pytest.approx(evidence - gap, abs=1e-6)
    assert (gap < 1e-10) == diagonal
    assert bound <= evidence + 1e-6


@pytest.mark.parametrize("name", DESIGNS)
def test_optimal_weights_are_the_exact_means_and_the_reciprocal_diagonal(name):
    model, _, _, precision, (_, y, _, _, phi), _ = fitted(name)
    weights = model.layers[0].weights
    exact = np.linalg.solve(precision, phi.T @ y / NOISE**2)
    np.testing.assert_allclose(weights.mean.detach(), exact, atol=1e-5)
    np.testing.assert_allclose(weights.variance.detach()[:, 0], 1 / precision.diagonal(), rtol=1e-4)


@pytest.mark.parametrize("name", DESIGNS)
def test_the_exact_evidence_is_that_of_kriging(name):
    _, bound, evidence, _, (x, y, kernel, grid, _), _ = fitted(name)
    tensor = as_tensor(kernel, 2)
    learner = Evidence(collapse(x, y[:, 0], None), tensor, grid, mean_std=0.0)
    value, _ = learner.posterior(Hyperparameters(tensor.lengthscales, tensor.variances, NOISE**2))
    assert value == pytest.approx(evidence, abs=1e-8)
    assert bound <= value + 1e-6


@pytest.mark.parametrize("name", ["root only", "general"])
def test_predictive_mean_is_that_of_the_exact_regressor(name):
    x, y, kernel, grid, _ = problem(name)
    offset, scale = y.mean(), y.std()
    exact = TMGPRegressor(
        kernel,
        level=grid,
        linear_mean=False,
        learn_kernel=False,
        noise=(NOISE * scale) ** 2,
        bounds=[[0.0, 1.0]] * 2,
    ).fit(x, y[:, 0])
    expansion = HierarchicalExpansion(kernel, grid)
    model = DTMGP(
        [ExpansionLayer(expansion, 1, learn_kernel=False)], GaussianLikelihood(noise=NOISE, learn_noise=False)
    ).double()
    model.layers[0].bias.requires_grad_(False)
    best_mean_field(model, Runs.group(x, (y - offset) / scale, dtype=torch.float64))
    new = np.random.default_rng(1).uniform(size=(50, 2))
    found = offset + scale * model(torch.from_numpy(new)).mean[0, :, 0].detach().numpy()
    np.testing.assert_allclose(found, exact.predict(new), atol=1e-5)


def test_mean_field_variance_is_exact_in_the_diagonal_case():
    model, _, _, precision, (x, _, _, _, phi), _ = fitted("root only")
    variance = (phi @ np.linalg.solve(precision, phi.T)).diagonal()
    np.testing.assert_allclose(model(torch.from_numpy(x)).variance[0, :, 0].detach(), variance, rtol=1e-4)


def test_without_hidden_layers_predictive_scores_the_marginal_of_every_run():
    model, _, _, _, (x, y, _, _, _), _ = fitted("general")
    runs = Runs.group(x, y, dtype=torch.float64)
    law = model(runs.x)
    std = (law.variance[0] + NOISE**2).sqrt().detach().numpy().repeat(2, axis=0)
    mean = law.mean[0].detach().numpy().repeat(2, axis=0)
    expected = -stats.norm.logpdf(runs.y.numpy(), mean, std).mean()
    loss = Predictive(3)(model, runs.batch(torch.arange(len(runs.x))))
    assert loss.data.item() == pytest.approx(expected, rel=1e-6)
