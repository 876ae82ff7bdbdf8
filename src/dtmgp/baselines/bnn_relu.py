"""A Bayesian neural network: ReLU units, independent Gaussian weights and biases, variational inference."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import torch
from torch import nn

from dtmgp.baselines.networks import AbstractNetworkRegressor, BayesianNetwork, Dense
from dtmgp.baselines.networks.regressor import check_sizes
from dtmgp.errors import InputError
from dtmgp.likelihoods import GaussianLikelihood


def he_std(fan_in: int) -> float:
    """``sqrt(2 / fan_in)``: ReLU layers of any width keep the size of their input (He et al. 2015).

    >>> he_std(50)
    0.2
    """
    return math.sqrt(2.0 / fan_in)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class BNNReLU(AbstractNetworkRegressor):
    """Mean-field variational ReLU network with Gaussian noise (Graves 2011; Blundell et al. 2015).

    ``features`` are the numbers of ReLU units per block. ``widths`` (one fewer) are linear units between the blocks, so
    that the paper's architecture 13 -> 391 -> 10 -> 241 -> 1 is ``features=(391, 241), widths=(10,)``; without them the
    blocks follow one another as in an ordinary network. ``features=()`` is linear regression.

    The prior of every weight and bias is ``N(prior_mean, prior_std^2)``; a function of the number of inputs of a unit
    gives the prior of weights by layer, biases then have standard deviation 1. Weights start at He's random values with
    standard deviation ``initial_std`` of their scale. Noise is drawn per unit by local reparameterisation, and the last
    layer is integrated in closed form. Other options: `AbstractNetworkRegressor`.

    Mean-field inference prunes: with few runs per weight, the maximum of the bound of a wide network is a constant
    prediction. That is the method, not a failed training; ``objective=ELBO(kl_weight=0.1)`` (a tempered prior) or fewer
    features avoid it.

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> BNNReLU(features=(20,), epochs=2).fit(X, X[:, 0] ** 2)
    BNNReLU(1 -> 20 -> 1, epochs=2)
    """

    features: Sequence[int] = (128, 128)
    widths: Sequence[int] | None = None
    prior_mean: float = 0.0
    prior_std: float | Callable[[int], float] = he_std
    initial_std: float = 0.1

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        features = check_sizes("features", self.features)
        if self.widths is not None and len(check_sizes("widths", self.widths)) != max(0, len(features) - 1):
            raise InputError(
                "widths",
                got=f"{len(self.widths)} of them",
                expected=f"{max(0, len(features) - 1)}: one between every two of the {len(features)} blocks",
            )

    def build(self, dim: int, generator: torch.Generator | None = None) -> BayesianNetwork:
        """The network for ``dim`` inputs before training."""
        stages: list[tuple[nn.Module, nn.Module]] = []
        before, follows_relu = dim, False

        def add(width: int) -> None:
            nonlocal before
            scale = math.sqrt((2.0 if follows_relu else 1.0) / before)
            activation = nn.ReLU() if follows_relu else nn.Identity()
            stages.append((activation, self._dense(before, width, scale, generator)))
            before = width

        for number, count in enumerate(self.features):
            if number and self.widths is not None:
                add(self.widths[number - 1])
                follows_relu = False
            add(count)
            follows_relu = True
        add(1)
        return BayesianNetwork(stages, GaussianLikelihood(noise=self.noise))

    def _dense(self, size: int, width: int, scale: float, generator: torch.Generator | None) -> Dense:
        if callable(self.prior_std):
            std, bias_std = float(self.prior_std(size)), 1.0
        else:
            std = bias_std = float(self.prior_std)
        return Dense(
            size,
            width,
            prior=(self.prior_mean, std),
            bias_prior=(self.prior_mean, bias_std),
            scale=scale,
            initial_std=self.initial_std * scale,
            generator=generator,
        )
