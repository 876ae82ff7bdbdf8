"""The predictive law of a deep model in bounded memory: one mixture over draws that are always the same.

Moments, quantiles, cdf, densities and draws of Y(x) all come from this law, so that they agree with each other and do
not depend on how the inputs are split into calls.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dtmgp.estimators.lattice import Lattice
from dtmgp.layers import Gaussian
from dtmgp.likelihoods import Categorical
from dtmgp.model import DTMGP, Mixture
from dtmgp.model.noise import ModelNoise

Array = np.ndarray
ENTRIES = 1 << 19  # numbers of one layer held at once: 4 MB in float64, which the cache holds
FUNCTIONS = 64  # drawn at once by sample_functions


class PredictiveLaw:
    """The law of Y(x) for inputs in grid coordinates: an equal mixture over ``samples`` fixed hidden draws."""

    def __init__(self, model: DTMGP, samples: int, seed: int, lattice: Lattice | None) -> None:
        self.model, self.samples, self.lattice = model, samples, lattice
        like = next(model.parameters())
        self.noise = model.shared_noise(samples, like, seed)
        self.width = model.likelihood.outputs
        # of means: a probability for each class
        self.columns = model.likelihood.width if isinstance(model.likelihood, Categorical) else self.width

    def _parts(self, x: Float[Array, "n d"], times: int = 1) -> Iterator[tuple[slice, Mixture]]:
        latent, hidden, output = self.model.noise_widths
        widest = max(self.model.likelihood.width, latent, output, *hidden, 1)
        rows = max(1, ENTRIES // (self.samples * widest * times))
        like = next(self.model.parameters())
        for begin in range(0, len(x), rows):
            part = slice(begin, begin + rows)
            inputs = torch.as_tensor(x[part]).to(like)
            yield part, Mixture(self.model.components(inputs, self.noise), self.model.likelihood.warp)

    def moments(self, x: Float[Array, "n d"]) -> tuple[Array, Array]:
        """Mean and standard deviation (n, W)."""
        means, stds = np.empty(
            (2, len(x), self.columns)
        )  # filled in place: small pieces would split the heap
        with torch.no_grad():
            for part, law in self._parts(x):
                mean, variance = law.mean_and_variance()
                means[part], stds[part] = mean.cpu().numpy(), variance.clamp(min=0.0).sqrt().cpu().numpy()
        return means, stds

    def moment_gradients(self, x: Float[Array, "n d"]) -> tuple[Array, Array]:
        """Gradients of mean and standard deviation in grid coordinates, each (n, W, d)."""
        like = next(self.model.parameters())
        gradients = np.empty((2, len(x), self.columns, x.shape[1]))
        for begin in range(0, len(x), rows := max(1, ENTRIES // (32 * self.samples))):
            part = slice(begin, begin + rows)
            inputs = torch.as_tensor(x[part]).to(like).requires_grad_()
            law = Mixture(self.model.components(inputs, self.noise), self.model.likelihood.warp)
            mean, variance = law.mean_and_variance()
            for values, kept in zip((mean, variance.clamp(min=1e-300).sqrt()), gradients):
                for number, column in enumerate(values.unbind(-1)):
                    slope = torch.autograd.grad(column.sum(), inputs, retain_graph=True)[0]
                    kept[part, number] = slope.cpu().numpy()
        return gradients[0], gradients[1]

    def quantiles(self, x: Float[Array, "n d"], levels: Float[Array, " q"]) -> Float[Array, "n W q"]:
        """Quantiles of each output."""
        found = np.empty((len(x), self.width, len(levels)))
        with torch.no_grad():
            for part, law in self._parts(x, len(levels)):
                found[part] = law.quantiles(torch.as_tensor(levels)).cpu().numpy()
        return self._whole(found)

    def summary(self, x: Float[Array, "n d"], levels: Float[Array, " q"]) -> tuple[Array, Array, Array]:
        """Mean, standard deviation (n, W) and quantiles (n, W, q), the layers evaluated once."""
        means, stds = np.empty((2, len(x), self.columns))
        found = np.empty((len(x), self.width, len(levels)))
        with torch.no_grad():
            for part, law in self._parts(x):
                mean, variance = law.mean_and_variance()
                means[part], stds[part] = mean.cpu().numpy(), variance.clamp(min=0.0).sqrt().cpu().numpy()
                found[part] = law.quantiles(torch.as_tensor(levels)).cpu().numpy()
        return means, stds, self._whole(found)

    def _whole(self, quantiles: Array) -> Array:
        """Quantiles of whole numbers are whole."""
        return quantiles if self.lattice is None else np.maximum(np.ceil(quantiles - 0.5), self.lattice.low)

    def single(self) -> PredictiveLaw:
        """The same law, the same draws, computed in float32."""
        same = copy.copy(self)
        same.model = copy.deepcopy(self.model).float()
        latent, hidden, output = self.noise
        same.noise = ModelNoise(latent.float(), tuple(part.float() for part in hidden), output.float())
        return same

    def cdf(self, x: Float[Array, "n d"], y: Float[Array, "n W"]) -> Float[Array, "n W"]:
        """``P(Y <= y)`` per output."""
        ends = y if self.lattice is None else self.lattice.upper(y)
        return self._continuous_cdf(x, ends)

    def _continuous_cdf(self, x: Array, ends: Array) -> Array:
        found = np.empty((len(x), self.width))
        with torch.no_grad():
            for part, law in self._parts(x):
                points = torch.as_tensor(np.where(np.isfinite(ends[part]), ends[part], 0.0))
                found[part] = law.cdf(points.to(law.components.mean)).cpu().numpy()
        return np.where(ends == -np.inf, 0.0, np.where(ends == np.inf, 1.0, found))

    def log_prob(self, x: Float[Array, "n d"], y: Float[Array, "n W"]) -> tuple[Array, Array]:
        """Log density (log probability for whole numbers) per row, (n,), and its Monte-Carlo standard error."""
        found, error = np.empty(len(x)), np.empty(len(x))
        with torch.no_grad():
            for part, law in self._parts(x):
                values, errors = self._log_prob(law, y[part])
                found[part], error[part] = values.cpu().numpy(), errors.cpu().numpy()
        return found, error

    def _log_prob(self, law: Mixture, y: Array) -> tuple[Tensor, Tensor]:
        like = law.components.mean
        if self.lattice is None:
            found = law.log_prob(torch.as_tensor(y).to(like), return_error=True)
            return cast(tuple[Tensor, Tensor], found)
        upper, whole = self.lattice.upper(y), (y == np.floor(y)) & (y >= self.lattice.low)
        ends = [upper, np.where(y <= self.lattice.low, -np.inf, upper - 1.0)]
        masses = [
            torch.where(
                torch.as_tensor(np.isfinite(end)).to(like.device),
                law.components.cdf(law.warp(torch.as_tensor(np.where(np.isfinite(end), end, 1.0)).to(like))),
                torch.zeros_like(like),
            )
            for end in ends
        ]
        joint = (masses[0] - masses[1]).clamp(min=0.0).log().sum(-1)  # (S, n)
        total = torch.logsumexp(joint, dim=0) - np.log(self.samples)
        error = torch.exp(joint - total).std(0, correction=0) / np.sqrt(self.samples)
        inside = torch.as_tensor(whole.all(axis=1)).to(like.device)
        return (
            torch.where(inside, total, -torch.inf),
            torch.where(inside & torch.isfinite(total), error, 0.0),
        )

    def draws(self, x: Float[Array, "n d"], count: int, rng: np.random.Generator) -> Float[Array, "n W S"]:
        """Independent draws of Y(x), noise included, rows independent of each other."""
        found = np.empty((len(x), self.width, count))
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        with torch.no_grad():
            for part, law in self._parts(x, max(1, -(-count // self.samples))):
                rows = len(x[part])
                chosen = torch.randint(self.samples, (count, rows), generator=generator)
                mixed = Mixture(law.components.choose(chosen), law.warp)
                found[part] = mixed.draw(generator).cpu().numpy().transpose(1, 2, 0)
        return found if self.lattice is None else self.lattice.round(found)

    def functions(
        self, x: Float[Array, "n d"], count: int, rng: np.random.Generator
    ) -> Float[Array, "n W S"]:
        """Mean responses ``E(Y(x) | weights)`` of weights drawn once each: (n, W, S)."""
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        like = next(self.model.parameters())
        found = np.empty((len(x), self.columns, count))
        with torch.no_grad():
            for begin in range(0, count, FUNCTIONS):
                some = slice(begin, min(begin + FUNCTIONS, count))
                frozen = self.model.draw(some.stop - begin, generator)
                rows = max(1, ENTRIES // (FUNCTIONS * max(32, self.model.likelihood.width)))
                for start in range(0, len(x), rows):
                    part = slice(start, start + rows)
                    f = frozen(torch.as_tensor(x[part]).to(like))
                    quiet = f.new_zeros(*f.shape[:-1], self.model.likelihood.noise_width)
                    law = self.model.likelihood(Gaussian(f, torch.zeros_like(f)), quiet)
                    means = Mixture(law, self.model.likelihood.warp).component_means()
                    found[part, :, some] = means.cpu().numpy().transpose(1, 2, 0)
        return found
