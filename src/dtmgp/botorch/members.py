"""Functions drawn from a fitted model once and for all: hidden weights drawn S times, last weights R times for each.

Given hidden weights, the last layer is a Bayesian linear regression on known features, which is what conditioning uses.
"""

from __future__ import annotations

import abc
import itertools
from typing import Any

import torch
from torch import Tensor

from dtmgp.errors import InputError
from dtmgp.kriging import DensePosterior
from dtmgp.layers import Gaussian
from dtmgp.layers.features import ExpansionFeatures
from dtmgp.layers.gaussian import standard_normal
from dtmgp.likelihoods import (
    AbstractComponents,
    AbstractLikelihood,
    GaussianLikelihood,
    NormalComponents,
    NormalMixtureComponents,
    Standardise,
)
from dtmgp.model import DTMGP


class AbstractMembers(abc.ABC):
    """``S R`` functions of x in grid coordinates: values of all processes of the last layer, differentiable in x.

    ``centre`` (m, W) is the mean of the last weights; ``tables`` (S, m, R W) are their draws.
    """

    likelihood: AbstractLikelihood
    dim: int
    hidden_draws: int
    draws: int
    seed: int
    centre: Tensor
    tables: Tensor

    @abc.abstractmethod
    def features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Last-layer features (..., S, q, m), and mean function and bias (..., S, q, W), at inputs (..., q, d)."""

    @abc.abstractmethod
    def times_covariance(self, phi: Tensor, output: int) -> Tensor:
        """``phi C`` with the covariance C (m, m) of the last weights of one process."""

    def processes(self, phi: Tensor, fixed: Tensor) -> Tensor:
        """Process values (..., S, R, q, W) of all members."""
        values = phi @ self.tables
        values = values.unflatten(-1, (self.draws, self.centre.shape[1])).movedim(-2, -3)
        return values + fixed.unsqueeze(-3)

    def law(self, f: Tensor) -> AbstractComponents:
        """The law of the warped output given process values (..., W)."""
        quiet = f.new_zeros(*f.shape[:-1], self.likelihood.noise_width)
        law: AbstractComponents = self.likelihood(Gaussian(f, torch.zeros_like(f)), quiet)
        return law

    def runs(self, law: AbstractComponents) -> Tensor:
        """One run per member and input, warped; the noise depends on the seed and on the last dimensions only."""
        shape = law.mean.shape[-4:]  # (S, R, q, W): t-batches share it
        generator = torch.Generator().manual_seed(self.seed + 1)
        noise = torch.randn(shape, generator=generator, dtype=law.mean.dtype)
        if isinstance(law, NormalComponents):
            return law.loc + law.scale * noise
        if isinstance(law, NormalMixtureComponents):
            uniform = torch.rand(shape, generator=generator, dtype=law.mean.dtype)
            edges = law.log_weights.detach().exp().cumsum(-1)
            chosen = (uniform.unsqueeze(-1) * edges[..., -1:] > edges).sum(-1, keepdim=True)
            chosen = chosen.clamp(max=edges.shape[-1] - 1)
            return law.loc.gather(-1, chosen)[..., 0] + law.scale.gather(-1, chosen)[..., 0] * noise
        return law.draw(generator)


class DeepMembers(AbstractMembers):
    """Functions of a `DTMGP`."""

    def __init__(self, model: DTMGP, hidden_draws: int, draws: int, seed: int) -> None:
        self.model, self.likelihood, self.seed = model, model.likelihood, seed
        self.dim = model.stack[0].dim - model.latent_inputs
        if model.depth == 1 and not model.latent_inputs:  # nothing is hidden
            hidden_draws, draws = 1, hidden_draws * draws
        self.hidden_draws, self.draws = hidden_draws, draws
        generator = torch.Generator().manual_seed(seed)
        like = next(model.parameters())
        with torch.no_grad():
            self.hidden = [layer.draw(hidden_draws, generator) for layer in model.stack[:-1]]
            self.latent = model.noise(hidden_draws, 1, like, generator).latent
            weights = model.stack[-1].weights
            noise = standard_normal((hidden_draws, draws, *weights.mean.shape), like, generator)
            tables = weights.mean + weights.log_std.exp() * noise
            self.centre = weights.mean.detach()
            self.spread = weights.variance.detach()  # (m, W)
            self.tables = tables.permute(0, 2, 1, 3).flatten(2)

    def features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden layers at their drawn weights, then the features of the last."""
        h = self.model.first_inputs(x.reshape(-1, x.shape[-1]), self.latent)
        for layer in self.hidden:
            h = layer(h)
        last = self.model.stack[-1]
        phi, fixed = last.features.dense(last.mapping(h)), last.mean(h) + last.bias
        if phi.ndim == 2:
            phi, fixed = phi.unsqueeze(0), fixed.unsqueeze(0)
        shape = (self.hidden_draws, *x.shape[:-1], -1)
        return phi.reshape(shape).movedim(0, -3), fixed.reshape(shape).movedim(0, -3)

    def times_covariance(self, phi: Tensor, output: int) -> Tensor:
        """Independent weights."""
        return phi * self.spread[:, output]


class ExactMembers(AbstractMembers):
    """Functions of a fitted `TMGPRegressor`: one layer whose weights have their exact posterior, all correlations kept.

    Outputs have kernels of their own: their features stand side by side.
    """

    def __init__(self, fitted: Any, hidden_draws: int, draws: int, seed: int) -> None:
        self.seed, self.hidden_draws, self.draws = seed, 1, hidden_draws * draws
        posteriors = [model.posterior for model in fitted.models_]
        if not all(isinstance(posterior, DensePosterior) for posterior in posteriors):
            raise InputError(
                "DTMGPModel",
                got="a TMGPRegressor with a posterior by conjugate gradients",
                expected="one with a dense posterior, up to some thousand features",
                do="lower its level",
            )
        self.dim = posteriors[0].design.kernel.dim
        outputs = len(posteriors)
        warp = Standardise(fitted.offset_, fitted.scale_).double()
        self.likelihood = GaussianLikelihood(outputs, warp=warp).double().requires_grad_(False)
        noises = torch.tensor([model.hyperparameters.noise for model in fitted.models_])
        self.likelihood.log_noise.copy_(0.5 * noises.double().log())
        self.bases = [exact_features(posterior.design) for posterior in posteriors]
        self.mean_stds = [posterior.design.mean_std for posterior in posteriors]
        sizes = [posterior.design.size for posterior in posteriors]
        ends = torch.tensor([0, *sizes]).cumsum(0).tolist()
        self.parts = [slice(*pair) for pair in itertools.pairwise(ends)]
        self.covariances = [torch.from_numpy(posterior.covariance) for posterior in posteriors]
        self.centre = torch.zeros(ends[-1], outputs, dtype=torch.float64)
        tables = torch.zeros(1, ends[-1], self.draws, outputs, dtype=torch.float64)
        for o, (part, posterior) in enumerate(zip(self.parts, posteriors)):
            self.centre[part, o] = torch.from_numpy(posterior.mean)
            weights = posterior.sample_weights(self.draws, int(seed) + o)
            tables[0, part, :, o] = torch.from_numpy(weights)
        self.tables = tables.flatten(2)

    def features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """``[b, b (2 x - 1), phi(x)]`` of every output; the mean function is among the features."""
        parts = []
        for basis, mean_std in zip(self.bases, self.mean_stds):
            if mean_std > 0:
                parts += [torch.full_like(x[..., :1], mean_std), mean_std * (2.0 * x - 1.0)]
            parts.append(basis.dense(x))
        phi = torch.cat(parts, dim=-1).unsqueeze(-3)
        return phi, phi.new_zeros(*phi.shape[:-1], len(self.parts))

    def times_covariance(self, phi: Tensor, output: int) -> Tensor:
        """The block of one output."""
        part = self.parts[output]
        found = torch.zeros_like(phi)
        found[..., part] = phi[..., part] @ self.covariances[output]
        return found


def exact_features(design: Any) -> ExpansionFeatures:
    """The features of a design, with hyperparameters that no default type has rounded."""
    basis = ExpansionFeatures(design.expansion, learn_kernel=False).double()
    for number, line in enumerate(basis.lines):
        lengthscale = line.lengthscale.double().nan_to_num(1.0)
        basis.log_lengthscales[number] = torch.nn.Parameter(lengthscale.log(), requires_grad=False)
        variance = torch.tensor(float(line.variance), dtype=torch.float64)
        basis.log_variances[number] = torch.nn.Parameter(variance.log(), requires_grad=False)
    return basis
