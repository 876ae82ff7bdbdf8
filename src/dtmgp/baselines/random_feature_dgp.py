"""The deep Gaussian process with random Fourier features of Cutajar, Bonilla, Michiardi and Filippone (2017)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch
from torch import nn

from dtmgp.baselines.networks import AbstractFrequencies, AbstractNetworkRegressor, BayesianNetwork, Dense
from dtmgp.baselines.networks.fourier import PriorFixed, fourier_stages
from dtmgp.baselines.networks.regressor import check_sizes
from dtmgp.errors import InputError
from dtmgp.likelihoods import GaussianLikelihood


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class RandomFeatureDGP(AbstractNetworkRegressor):
    """Layers ``f = W^T phi(h)``, phi random Fourier features of a Gaussian kernel with one lengthscale per input.

    ``features`` are the numbers of features per layer (an odd one is raised by one: cosine and sine come in pairs),
    ``widths`` (one fewer) the processes of the hidden layers: the paper's 13 -> 391 -> 10 -> 241 -> 1 is
    ``features=(391, 241), widths=(10,)``. ``frequencies`` is a treatment from `dtmgp.baselines.networks`:
    `PriorFixed`, `FixedFrequencies`, `VariationalResampled`, or `VariationalFixed`, which learns frequencies as
    points in effect and so can fit the noise of small data. ``feed_forward`` appends x to the input of every layer but
    the first.
    The prior of W is ``N(prior_mean, prior_std^2)``, N(0, 1) in the paper. Lengthscales start at the root of the number
    of inputs of the layer, in units of standardised inputs.

    Deviations from the paper and its code: noise is drawn per unit by local reparameterisation instead of per weight,
    also for resampled frequencies, and the last layer is integrated in closed form (same bound, less variance); all
    parameters are learned from the first step; means of hidden W start at draws of N(0, 1) instead of 0.
    Other options: `AbstractNetworkRegressor`.

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> RandomFeatureDGP(features=(20, 20), widths=(3,), epochs=2).fit(X, X[:, 0] ** 2)
    RandomFeatureDGP(1 -> 3 -> 1, epochs=2)
    """

    features: Sequence[int] = (128, 128)
    widths: Sequence[int] = (10,)
    frequencies: type[AbstractFrequencies] = PriorFixed
    feed_forward: bool = False
    prior_mean: float = 0.0
    prior_std: float = 1.0
    initial_std: float = 0.1

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        features = check_sizes("features", self.features)
        if not features or len(check_sizes("widths", self.widths)) != len(features) - 1:
            raise InputError(
                "widths",
                got=f"{len(self.widths)} of them for {len(features)} layers",
                expected="one per hidden layer, which is one fewer than layers",
            )
        if not (isinstance(self.frequencies, type) and issubclass(self.frequencies, AbstractFrequencies)):
            raise InputError(
                "frequencies", got=repr(self.frequencies), expected="a treatment such as PriorFixed"
            )

    def build(self, dim: int, generator: torch.Generator | None = None) -> BayesianNetwork:
        """The network for ``dim`` inputs before training."""
        stages: list[tuple[nn.Module, nn.Module]] = []
        joined: list[int] = []
        before = dim
        for number, (count, width) in enumerate(zip(self.features, [*self.widths, 1], strict=True)):
            if number and self.feed_forward:
                joined.append(len(stages))
                before += dim
            pairs = -(-count // 2)
            dense = Dense(
                2 * pairs,
                width,
                prior=(self.prior_mean, self.prior_std),
                scale=1.0 if number < len(self.widths) else 0.0,
                initial_std=self.initial_std,
                generator=generator,
            )
            spectrum = self.frequencies(before, pairs, math.sqrt(before), generator)
            stages.extend(fourier_stages(spectrum, dense))
            before = width
        return BayesianNetwork(stages, GaussianLikelihood(noise=self.noise), joined)
