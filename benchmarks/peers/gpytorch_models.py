"""GPyTorch's sparse variational GP, doubly stochastic deep GP, and deep sigma point process."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean, LinearMean
from gpytorch.mlls import (
    DeepApproximateMLL,
    DeepPredictiveLogLikelihood,
    VariationalELBO,
)
from gpytorch.models import ApproximateGP
from gpytorch.models.deep_gps import DeepGP as GPyTorchDeepGP
from gpytorch.models.deep_gps import DeepGPLayer
from gpytorch.models.deep_gps.dspp import DSPP as GPyTorchDSPP
from gpytorch.models.deep_gps.dspp import DSPPLayer
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    MeanFieldVariationalDistribution,
    VariationalStrategy,
)
from scipy.special import logsumexp

from peers.base import AbstractPeer, Mixture, batches
from peers.mixture_network import split

TEST_BATCH = 500


class _Parts:
    """Mean and kernel of a variational GP; ``width`` is None for a single output."""

    def parts(self, dim: int, width: int | None, linear: bool) -> None:
        shape = torch.Size([] if width is None else [width])
        self.mean_module = LinearMean(dim) if linear else ConstantMean(batch_shape=shape)
        self.covar_module = ScaleKernel(RBFKernel(batch_shape=shape, ard_num_dims=dim), batch_shape=shape)

    def forward(self, x: torch.Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def _inducing(start: torch.Tensor, width: int | None) -> torch.Tensor:
    return start if width is None else start.expand(width, *start.shape).clone()


class _SVGP(_Parts, ApproximateGP):
    def __init__(self, start: torch.Tensor) -> None:
        posterior = CholeskyVariationalDistribution(len(start))
        super().__init__(VariationalStrategy(self, start, posterior, learn_inducing_locations=True))
        self.parts(start.shape[1], None, linear=False)


class _Layer(_Parts, DeepGPLayer):
    def __init__(self, start: torch.Tensor, width: int | None, linear: bool) -> None:
        shape = torch.Size([] if width is None else [width])
        posterior = CholeskyVariationalDistribution(len(start), batch_shape=shape)
        strategy = VariationalStrategy(
            self, _inducing(start, width), posterior, learn_inducing_locations=True
        )
        super().__init__(strategy, start.shape[1], width)
        self.parts(start.shape[1], width, linear)


class _Deep(GPyTorchDeepGP):
    def __init__(self, start: torch.Tensor, width: int) -> None:
        super().__init__()
        self.hidden = _Layer(start, width, linear=True)
        self.last = _Layer(torch.randn(len(start), width), None, linear=False)

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(self.hidden(x))


class _SigmaLayer(_Parts, DSPPLayer):
    def __init__(self, start: torch.Tensor, width: int | None, linear: bool, sites: int) -> None:
        shape = torch.Size([] if width is None else [width])
        posterior = MeanFieldVariationalDistribution(len(start), batch_shape=shape)
        strategy = VariationalStrategy(
            self, _inducing(start, width), posterior, learn_inducing_locations=True
        )
        super().__init__(strategy, start.shape[1], width, sites)
        self.parts(start.shape[1], width, linear)


class _Sigma(GPyTorchDSPP):
    def __init__(self, start: torch.Tensor, width: int, sites: int) -> None:
        super().__init__(sites)
        self.hidden = _SigmaLayer(start, width, linear=True, sites=sites)
        self.last = _SigmaLayer(torch.randn(len(start), width), None, linear=False, sites=sites)

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(self.hidden(x))


class _Variational(AbstractPeer):
    """Minibatch Adam; the subclasses make model and objective. Ends after ``max_epochs`` passes.

    With ``decay_steps`` the learning rate falls to a fiftieth along a cosine in so many steps, and stays there. With
    ``hold_out`` a tenth of the distinct inputs is kept from the training, and predictions are those of the state that
    was best there, looked at every 50 steps.
    """

    _best: tuple[float, dict[str, Any], dict[str, Any]] | None = None

    def __init__(
        self,
        *,
        inducing: int = 128,
        batch_size: int = 1024,
        learning_rate: float = 0.01,
        decay_steps: int | None = None,
        start_noise: float = 0.5,
        max_epochs: int = 1000,
        hold_out: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.hold_out = hold_out
        self.inducing = inducing
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.decay_steps = decay_steps
        self.start_noise = start_noise
        self.max_epochs = max_epochs

    def make(self, start: torch.Tensor, rows: int) -> tuple[Any, Any]:
        """The model and the function of (output, target) to be maximised."""
        raise NotImplementedError

    def train(self, X: np.ndarray, y: np.ndarray) -> Iterator[None]:
        inputs, outputs = self.scale(X, y)
        generator = np.random.default_rng(self.random_state)
        torch.manual_seed(self.random_state)
        held_inputs, held_outputs = inputs[:0], outputs[:0]
        if self.hold_out:
            kept, held = split(inputs, generator)
            held_inputs, held_outputs = inputs[held], outputs[held]
            inputs, outputs = inputs[kept], outputs[kept]
        rows = np.unique(inputs, axis=0)
        picked = generator.permutation(len(rows))[: self.inducing]
        x, t = (torch.as_tensor(part, dtype=torch.float32) for part in (inputs, outputs))
        self.likelihood = GaussianLikelihood()
        self.likelihood.noise = self.start_noise
        self.model, objective = self.make(torch.as_tensor(rows[picked], dtype=torch.float32), len(x))
        parameters = [*self.model.parameters(), *self.likelihood.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=self.learning_rate)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, self.rate)
        self._best, step = None, 0
        for _ in range(self.max_epochs):
            for chosen in batches(len(x), self.batch_size, generator):
                # set each time, because the model may have predicted between two steps
                self.model.train()
                self.likelihood.train()
                optimiser.zero_grad()
                (-self.objective(objective, x[chosen], t[chosen])).backward()
                optimiser.step()
                schedule.step()
                step += 1
                if self.hold_out and step % 50 == 0:
                    self.keep(held_inputs, held_outputs)
                yield

    def rate(self, step: int) -> float:
        """Learning rate of a step, relative to the first."""
        if self.decay_steps is None:
            return 1.0
        return 0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * min(1.0, step / self.decay_steps)))

    def objective(self, objective: Any, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Value on one minibatch."""
        return objective(self.model(x), t)

    def keep(self, inputs: np.ndarray, outputs: np.ndarray) -> None:
        """Remember the present state if it is the best so far on scaled held-out rows."""
        weights, means, stds = self.scaled_mixture(inputs)
        z = (outputs[:, None] - means) / stds
        score = -float(np.mean(logsumexp(-0.5 * z**2 - np.log(stds), axis=1, b=weights)))
        if self._best is None or score < self._best[0]:
            self._best = (
                score,
                copy.deepcopy(self.model.state_dict()),
                copy.deepcopy(self.likelihood.state_dict()),
            )

    def mixture(self, X: np.ndarray) -> Mixture:
        if self._best is None:
            return self.scaled_mixture(self.scaling.inputs(X))
        latest = copy.deepcopy(self.model.state_dict()), copy.deepcopy(self.likelihood.state_dict())
        self._load(*self._best[1:])
        found = self.scaled_mixture(self.scaling.inputs(X))
        self._load(*latest)
        return found

    def _load(self, model: dict[str, Any], likelihood: dict[str, Any]) -> None:
        self.model.load_state_dict(model)
        self.likelihood.load_state_dict(likelihood)

    def scaled_mixture(self, inputs: np.ndarray) -> Mixture:
        """The predicted law at scaled inputs, of the present state."""
        self.model.eval()
        self.likelihood.eval()
        x = torch.as_tensor(inputs, dtype=torch.float32)
        state = torch.random.get_rng_state()
        torch.manual_seed(12345)  # the same hidden draws for every call
        with torch.no_grad():
            parts = [self.components(part) for part in x.split(TEST_BATCH)]
        torch.random.set_rng_state(state)
        weights, means, variances = (torch.cat([p[k] for p in parts]).double().numpy() for k in range(3))
        return Mixture(weights, means, np.sqrt(np.maximum(variances, 1e-12)))

    def components(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Weights, means and variances (rows, K), noise included."""
        raise NotImplementedError


class SVGP(_Variational):
    """Sparse variational GP (Hensman et al. 2013), 500 inducing points, squared exponential."""

    def __init__(self, *, inducing: int = 500, **options: Any) -> None:
        super().__init__(inducing=inducing, **options)

    def make(self, start: torch.Tensor, rows: int) -> tuple[Any, Any]:
        model = _SVGP(start)
        return model, VariationalELBO(self.likelihood, model, num_data=rows)

    def components(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        law = self.likelihood(self.model(x))
        return torch.ones(len(x), 1), law.mean[:, None], law.variance[:, None]


class DeepGP(_Variational):
    """Two-layer deep GP (Salimbeni and Deisenroth 2017): width 10, 128 inducing points, 10 samples."""

    def __init__(
        self, *, width: int = 10, samples: int = 10, test_samples: int = 100, **options: Any
    ) -> None:
        super().__init__(**options)
        self.width = width
        self.samples = samples
        self.test_samples = test_samples

    def make(self, start: torch.Tensor, rows: int) -> tuple[Any, Any]:
        model = _Deep(start, self.width)
        return model, DeepApproximateMLL(VariationalELBO(self.likelihood, model, num_data=rows))

    def objective(self, objective: Any, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        with gpytorch.settings.num_likelihood_samples(self.samples):
            return objective(self.model(x), t)

    def components(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        with gpytorch.settings.num_likelihood_samples(self.test_samples):
            law = self.likelihood(self.model(x))
        means, variances = law.mean.T, law.variance.T
        return torch.full_like(means, 1.0 / self.test_samples), means, variances


class DSPP(_Variational):
    """Deep sigma point process (Jankowiak et al. 2020): 8 sites, beta 0.05, as in GPyTorch's example.

    It over-fits, hence ``hold_out``.
    """

    def __init__(
        self, *, width: int = 10, sites: int = 8, beta: float = 0.05, hold_out: bool = True, **options: Any
    ) -> None:
        super().__init__(hold_out=hold_out, **options)
        self.width = width
        self.sites = sites
        self.beta = beta

    def make(self, start: torch.Tensor, rows: int) -> tuple[Any, Any]:
        model = _Sigma(start, self.width, self.sites)
        return model, DeepPredictiveLogLikelihood(self.likelihood, model, num_data=rows, beta=self.beta)

    def components(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        law = self.likelihood(self.model(x))
        weights = self.model.quad_weights.exp().expand(len(x), -1)
        return weights, law.mean.T, law.variance.T
