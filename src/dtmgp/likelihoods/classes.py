"""Classes: two (logistic link) or several (softmax)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from dtmgp.errors import InputError
from dtmgp.layers.gaussian import Gaussian
from dtmgp.likelihoods.base import AbstractLikelihood, check_counts
from dtmgp.likelihoods.components import BernoulliComponents, CategoricalComponents


class Bernoulli(AbstractLikelihood):
    """``P(y = 1) = sigmoid(f)``; f is integrated by Gauss-Hermite quadrature.

    >>> Bernoulli()(Gaussian(torch.zeros(1, 1), torch.ones(1, 1)), torch.empty(1, 0)).mean
    tensor([[0.5000]])
    """

    def __init__(self, outputs: int = 1) -> None:
        super().__init__(outputs, outputs, 0, None)

    def forward(self, f: Gaussian, noise: Tensor) -> BernoulliComponents:
        """``E sigmoid(f)``, kept away from 0 and 1 by rounding's distance."""
        values, weights = self.hermite_nodes(f)
        edge = torch.finfo(f.mean.dtype).eps
        return BernoulliComponents((weights * torch.sigmoid(values)).sum(0).clamp(edge, 1 - edge))

    def expected_log_prob(self, f: Gaussian, z: Tensor) -> Tensor:
        """``E [y log sigmoid(f) + (1 - y) log sigmoid(-f)]`` by quadrature."""
        values, weights = self.hermite_nodes(f)
        return (weights * (z * functional.logsigmoid(values) + (1 - z) * functional.logsigmoid(-values))).sum(
            0
        )

    def check_targets(self, y: np.ndarray) -> None:
        """0 and 1 only."""
        if not np.isin(y, (0.0, 1.0)).all():
            raise InputError(
                "y for Bernoulli", got=f"{y[~np.isin(y, (0.0, 1.0))].flat[0]!r}", expected="0 or 1"
            )


class Categorical(AbstractLikelihood):
    """One of ``classes`` labels 0 .. C-1 with probabilities ``softmax(f)``; y has one column, f has C."""

    def __init__(self, classes: int) -> None:
        if classes < 2:
            raise InputError("Categorical classes", got=repr(classes), expected="at least 2")
        super().__init__(1, classes, classes, None)

    def forward(self, f: Gaussian, noise: Tensor) -> CategoricalComponents:
        """Probabilities at a draw of f."""
        return CategoricalComponents(torch.log_softmax(f.draw(noise), dim=-1))

    def expected_log_prob(self, f: Gaussian, z: Tensor) -> Tensor:
        """``m_y - E logsumexp(f) >= m_y - logsumexp(m + v/2)`` (Jensen): a lower bound of the ELBO."""
        labels = z.long().expand(*f.mean.shape[:-1], 1)
        return f.mean.gather(-1, labels) - torch.logsumexp(f.mean + 0.5 * f.variance, dim=-1, keepdim=True)

    def check_targets(self, y: np.ndarray) -> None:
        """Labels below the number of classes."""
        check_counts("Categorical", y)
        if y.max() >= self.width:
            raise InputError(
                "y for Categorical", got=f"label {y.max():g}", expected=f"labels 0 to {self.width - 1}"
            )
