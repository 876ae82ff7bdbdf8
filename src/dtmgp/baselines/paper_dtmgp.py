"""The deep model word for word as in the paper's studies, as a baseline for the one that the library recommends."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike

from dtmgp.baselines.networks import AbstractNetworkRegressor
from dtmgp.baselines.networks.regressor import check_sizes
from dtmgp.errors import InputError
from dtmgp.grids import AbstractGrid
from dtmgp.kernels import Laplace
from dtmgp.layers import IdentityMap
from dtmgp.likelihoods import GaussianLikelihood
from dtmgp.model import DTMGP, deep_model


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class PaperDTMGP(AbstractNetworkRegressor):
    """Layers ``Z^T phi(h) + mu``, phi the features of the fixed kernel ``exp(-|h - h'|_1 / d)``, trained by the ELBO.

    Section 5 of the paper: prior ``N(prior_mean, prior_std^2)`` of every weight, free biases, no mean functions, no map
    between layers, Gaussian noise. ``levels`` are those of sparse grids, or grids, one per layer; ``widths`` (one
    fewer) the hidden processes. Inputs are scaled to the unit cube (``bounds``, (d, 2), or the ranges of the data),
    outputs to [0, 1].

    What the paper leaves open: hidden biases start at 1/2, the middle of the next grid, weight means at draws of a
    tenth of the prior, standard deviations at ``initial_std`` of it. Other options: `AbstractNetworkRegressor`.

    >>> X = np.random.default_rng(0).uniform(size=(40, 2))
    >>> PaperDTMGP(levels=(3, 4), epochs=2).fit(X, X[:, 0])
    PaperDTMGP(2 -> 1 -> 1, epochs=2)
    """

    levels: Sequence[int | AbstractGrid] = (5, 7)
    widths: Sequence[int] = (1,)
    prior_mean: float = 0.0
    prior_std: float = 1.0
    initial_std: float = math.exp(-1.0)
    bounds: ArrayLike | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if not self.levels or len(check_sizes("widths", self.widths)) != len(self.levels) - 1:
            raise InputError(
                "widths",
                got=f"{len(self.widths)} of them for {len(self.levels)} layers",
                expected="one per hidden layer, which is one fewer than layers",
            )

    def build(self, dim: int, generator: torch.Generator | None = None) -> DTMGP:
        """The model for ``dim`` inputs before training."""
        model = deep_model(
            dim,
            GaussianLikelihood(noise=self.noise),
            hidden_widths=tuple(self.widths),
            levels=tuple(self.levels),
            kernels=[Laplace(lengthscale=float(size)) for size in (dim, *self.widths)],
            linear_means=False,
            prior=(self.prior_mean, self.prior_std),
            initial_std=self.initial_std,
            learn_kernel=False,
            mapping=IdentityMap,
        )
        with torch.no_grad():
            for layer in model.stack:
                mean = layer.weights.mean
                mean.add_(torch.randn(mean.shape, generator=generator), alpha=0.1 * self.prior_std)
                layer.bias.fill_(0.5)
        return model

    def input_scale(
        self, inputs: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Lower ends and widths of the bounds."""
        if self.bounds is None:
            low, high = inputs.min(axis=0), inputs.max(axis=0)
            return low, np.where(high > low, high - low, 1.0)
        box = np.asarray(self.bounds, dtype=np.float64)
        if box.shape != (inputs.shape[1], 2) or not (box[:, 0] < box[:, 1]).all():
            raise InputError(
                "bounds",
                got=f"an array of shape {box.shape}",
                expected=f"shape ({inputs.shape[1]}, 2) with lower < upper",
            )
        return box[:, 0], box[:, 1] - box[:, 0]

    def output_scale(self, outputs: Float[np.ndarray, "n r"]) -> tuple[float, float]:
        """Least output and range."""
        low, high = float(outputs.min()), float(outputs.max())
        return low, high - low or 1.0
