"""What is minimised for images: the bound with the last layer's variance collapsed, and a mixture over latent classes.

For Gaussian noise ``s_j`` the expected squared error needs of the last layer's variances only the sum over pixels
``sum_j v_j / s_j^2 = phi^2 . (V s^-2)``: one column instead of 4096, so the bound costs one large product, not two.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from dtmgp.images.latent_classes import LatentClassDTMGP
from dtmgp.images.layers import last_layer
from dtmgp.inference.data import Batch
from dtmgp.inference.objectives import ELBO, Loss
from dtmgp.likelihoods.gaussian import LOG_2PI
from dtmgp.model import TrainableModel


@dataclasses.dataclass(frozen=True)
class CollapsedELBO(ELBO):
    """`dtmgp.inference.ELBO` for a Gaussian likelihood and an unwarped image, at half its cost: equal to rounding.

    >>> CollapsedELBO()
    CollapsedELBO(samples=1, kl_weight=1.0)
    """

    def data_term(self, model: TrainableModel, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """``-E_h E_f log p(y | f)`` per image."""
        noise = model.noise(self.samples, len(batch.x), batch.x, generator)
        last = last_layer(model, batch.x, noise)  # type: ignore[arg-type]
        log_noise: Tensor = model.likelihood.log_noise  # type: ignore[assignment]
        precision = (-2 * log_noise).exp()
        mean = (last.phi @ last.weights.mean + last.shift).index_select(1, batch.group)
        spread = last.phi.square() @ (last.weights.variance @ precision)
        if last.spread is not None:
            spread = spread + last.spread @ precision
        square = ((batch.y - mean).square() * precision).sum(-1) + spread.index_select(1, batch.group)
        constant = LOG_2PI * batch.y.shape[-1] + 2 * log_noise.sum()
        return 0.5 * (square.mean() + constant)


@dataclasses.dataclass(frozen=True)
class ClassMixture:
    """``-T log sum_k pi_k exp(log N(y | f_k(x), s^2) / T)`` per image plus KL/N: exact over classes at T = 1.

    T falls geometrically from ``start`` to 1 in the first ``cooling`` of training; in ``balanced`` of it the
    classes' shares of a batch are forced to be equal (Sinkhorn), which keeps one class from taking two chairs.

    >>> ClassMixture().temperature(1.0)
    1.0
    """

    start: float = 1000.0
    cooling: float = 0.5
    balanced: float = 0.5
    kl_weight: float = 1.0
    rounds: int = 20

    def temperature(self, progress: float) -> float:
        """T at a fraction of the steps."""
        return self.start ** max(0.0, 1.0 - progress / self.cooling)

    def __call__(
        self,
        model: LatentClassDTMGP,
        batch: Batch,
        generator: torch.Generator | None,
        progress: float = 1.0,
        types: Tensor | None = None,
    ) -> Loss:
        """The loss per image; with ``types`` the classes are given, not inferred."""
        energy = model.energies(batch, generator)  # (n, K)
        weight = model.log_chances(batch.x)[batch.group]
        if types is not None:
            data = (energy - weight).gather(1, types[:, None]).mean()
        elif progress < self.balanced:
            data = (self.shares(energy.detach(), self.temperature(progress)) * energy).sum(1).mean()
        else:
            heat = self.temperature(progress)
            data = -heat * torch.logsumexp(weight - energy / heat, 1).mean()
        kl = model.kl() / batch.total
        return Loss(data + self.kl_weight * kl, data.detach(), kl.detach())

    def shares(self, energy: Tensor, heat: float) -> Tensor:
        """Probabilities (n, K) of the classes whose sums over the batch are equal, by Sinkhorn's scaling."""
        rows, classes = energy.shape
        scaled = -energy / heat
        column = torch.zeros_like(scaled[0])
        level = math.log(rows / classes)
        for _ in range(self.rounds):
            row = -torch.logsumexp(scaled + column, 1, keepdim=True)
            column = level - torch.logsumexp(scaled + row, 0)
        return torch.softmax(scaled + column, 1)
