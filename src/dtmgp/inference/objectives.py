"""What is minimised, as functions of (model, batch): value per run, so that numbers compare across data sizes.

ELBO        -E log p(y | f) + KL/N                            the paper's bound, doubly stochastic
Predictive  -log 1/K sum_k p(y | h_k) + KL/N                  the K-sample bound of the log predictive density
Energy      energy score of K model draws + KL/N              proper, needs draws only
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dtmgp.errors import InputError
from dtmgp.inference.data import Batch
from dtmgp.layers import Gaussian
from dtmgp.likelihoods import AbstractComponents
from dtmgp.model import ModelNoise, TrainableModel

NOISE_BLOCK = 256  # inputs whose noise has a seed of its own, if asked


class Loss(NamedTuple):
    """``value = data + kl_weight * kl``, each per run."""

    value: Tensor
    data: Tensor
    kl: Tensor


@dataclasses.dataclass(frozen=True)
class AbstractObjective(abc.ABC):
    """``objective(model, batch)``; hidden draws and their noise are shared by the replicates of an input.

    ``kl_weight`` tempers the prior: 1 is the bound, smaller trusts the data more.
    """

    samples: int = 1
    kl_weight: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.samples, bool) or not isinstance(self.samples, int) or self.samples < self.fewest:
            raise InputError(
                f"{type(self).__name__} samples", got=repr(self.samples), expected=f"an int >= {self.fewest}"
            )
        if not (math.isfinite(self.kl_weight) and self.kl_weight >= 0):
            raise InputError("kl_weight", got=repr(self.kl_weight), expected="a finite number >= 0")

    @property
    def fewest(self) -> int:
        """Smallest number of samples with which the objective is defined."""
        return 1

    @abc.abstractmethod
    def data_term(self, model: TrainableModel, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Mean loss per run of the batch, without the prior."""

    def __call__(
        self,
        model: TrainableModel,
        batch: Batch,
        generator: torch.Generator | None = None,
        kl_scale: float = 1.0,
    ) -> Loss:
        """The loss per run; ``kl_scale`` in [0, 1] is the trainer's warm-up."""
        data = batch.weight * self.data_term(model, batch, generator)
        kl = model.kl() / batch.total
        return Loss(data + self.kl_weight * kl_scale * kl, data.detach(), kl.detach())


@dataclasses.dataclass(frozen=True)
class ELBO(AbstractObjective):
    """Evidence lower bound (paper, section 4.4): expected log likelihood under q, one hidden draw or several.

    >>> ELBO(samples=4)
    ELBO(samples=4, kl_weight=1.0)
    """

    def data_term(self, model: TrainableModel, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """``-E_h E_f log p(y | f)``, the inner expectation in closed form or by quadrature."""
        f = model(batch.x, noise=noise_of(model, self.samples, batch, generator))
        rows = Gaussian(*(part.index_select(1, batch.group) for part in f))
        z = model.likelihood.warp(batch.y)
        score = model.likelihood.expected_log_prob(rows, z).mean(0) + model.likelihood.warp.log_derivative(
            batch.y
        )
        return -score.sum(-1).mean()


@dataclasses.dataclass(frozen=True)
class Predictive(AbstractObjective):
    """Log predictive density with K hidden draws: fits the distribution of Y(x), not its mean alone.

    >>> Predictive().samples
    8
    """

    samples: int = 8

    def data_term(self, model: TrainableModel, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """``-log mean_k p(y | h_k)``; several outputs share the hidden draw and so need not be independent."""
        noise = noise_of(model, self.samples, batch, generator)
        law = model.components(batch.x, noise).take(batch.group)
        warp = model.likelihood.warp
        joint = law.log_prob(warp(batch.y)).sum(-1)
        score = torch.logsumexp(joint, dim=0) - math.log(self.samples) + warp.log_derivative(batch.y).sum(-1)
        return -score.mean()


@dataclasses.dataclass(frozen=True)
class Energy(AbstractObjective):
    """Energy score ``E|Y - y| - E|Y - Y'|/2`` of model draws, the CRPS for one output; unbiased in both terms.

    In the scale of the warped output, and of all outputs together: proper there, needs no density.

    >>> Energy(samples=4).samples
    4
    """

    samples: int = 8

    @property
    def fewest(self) -> int:
        """Two draws have a distance."""
        return 2

    def data_term(self, model: TrainableModel, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Mean over runs of the fair energy score of K draws."""
        noise = noise_of(model, self.samples, batch, generator)
        law = model.components(batch.x, noise)
        if not law.reparametrised:
            raise InputError(
                "Energy",
                got=f"{type(model.likelihood).__name__}, whose draws have no gradient",
                expected="a continuous likelihood",
                do="use Predictive or ELBO",
            )
        if any(p.requires_grad for p in model.likelihood.warp.parameters()):
            raise InputError(
                "Energy",
                got="a warp that is learned",
                expected="a fixed one",
                cause="the score is in the scale of the warped output, which such a warp would shrink to 0",
                do="use Predictive or ELBO, or fix the warp",
            )
        draws = _draws(law, batch, generator)
        near = _distance(draws.index_select(1, batch.group) - model.likelihood.warp(batch.y)).mean(0)
        if draws.shape[-1] == 1:  # sum over pairs from order statistics
            ordered = draws[..., 0].sort(dim=0).values
            k = torch.arange(self.samples, device=draws.device, dtype=draws.dtype)
            apart = (ordered * (2 * k + 1 - self.samples).unsqueeze(-1)).sum(0)
        else:
            apart = 0.5 * _distance(draws.unsqueeze(0) - draws.unsqueeze(1)).sum((0, 1))
        spread = apart / (self.samples * (self.samples - 1))
        return (near - spread.index_select(0, batch.group)).mean()


def noise_of(
    model: TrainableModel, samples: int, batch: Batch, generator: torch.Generator | None
) -> ModelNoise:
    """Noise of a batch's inputs. It belongs to the global batch: what an input gets does not depend on the process.

    Drawn for the whole global batch and cut, about 4 ns a number in every process; or in blocks of inputs with seeds of
    their own, of which a process draws those that it needs (docs/scale.md).
    """
    if batch.noise_seed is not None:
        return _noise_in_blocks(model, samples, batch, batch.noise_seed)
    if batch.place is None:
        return model.noise(samples, len(batch.x), batch.x, generator)
    latent, hidden, output = model.noise(samples, batch.place[1], batch.x, generator)
    own = _own(batch)
    return ModelNoise(latent[:, own], tuple(part[:, own] for part in hidden), output[:, own])


def _noise_in_blocks(model: TrainableModel, samples: int, batch: Batch, seed: int) -> ModelNoise:
    own = _own(batch)
    blocks = range(own.start // NOISE_BLOCK, -(-own.stop // NOISE_BLOCK))
    drawn = []
    for block in blocks:
        word = int(np.random.SeedSequence([seed, block]).generate_state(1)[0])
        drawn.append(model.noise(samples, NOISE_BLOCK, batch.x, torch.Generator().manual_seed(word)))
    start = own.start - blocks.start * NOISE_BLOCK

    def cut(parts: tuple[Tensor, ...]) -> Tensor:
        return torch.cat(parts, dim=1)[:, start : start + len(batch.x)]

    latent, hidden, output = zip(*drawn)
    return ModelNoise(cut(latent), tuple(cut(parts) for parts in zip(*hidden)), cut(output))


def _own(batch: Batch) -> slice:
    """Where the batch's inputs are in the global batch."""
    if batch.place is None:
        return slice(0, len(batch.x))
    start = min(batch.place[0], batch.place[1] - len(batch.x))
    return slice(start, start + len(batch.x))


def _draws(law: AbstractComponents, batch: Batch, generator: torch.Generator | None) -> Tensor:
    """Draws (S, n, W) of the law of every input; for a part of a global batch, those that the whole would have."""
    if batch.place is None:
        return law.draw(generator)
    own = _own(batch)
    rows = torch.zeros(batch.place[1], dtype=torch.long, device=batch.x.device)  # others' laws do not matter
    rows[own] = torch.arange(len(batch.x), device=batch.x.device)
    return law.take(rows).draw(generator)[:, own]


def _distance(difference: Tensor) -> Tensor:
    """Euclidean length over the outputs; its gradient is finite at 0."""
    if difference.shape[-1] == 1:
        return difference[..., 0].abs()
    return difference.square().sum(-1).clamp(min=1e-12).sqrt()
