"""Growing the last layer of a deep model where the evidence says that it pays, between stages of training.

Given the hidden layers at their means, the last layer is a Bayesian linear regression: the exact gains of
`dtmgp.kriging.gains` say what further multi-indices would add to its evidence. Sees training data only.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
import torch

from dtmgp.errors import InputError
from dtmgp.grids import LowerSet
from dtmgp.inference.data import Runs
from dtmgp.kriging import Adaptive, Evidence, Hyperparameters, Replicates, collapse, evidence_gains
from dtmgp.kriging.adaptive import candidates, choose
from dtmgp.layers.features import ExpansionFeatures
from dtmgp.likelihoods import GaussianLikelihood
from dtmgp.model import DTMGP
from dtmgp.model.growth import grown, set_of

MEAN_STD = 10.0  # of the linear mean that is integrated out beside the features
MOST_FEATURES = 5000  # up to which the regression's posterior is dense


class Growth(NamedTuple):
    """What one round of growth did: features before and after, nats promised, the new set."""

    before: int
    after: int
    promised: float
    grid: LowerSet


def last_inputs(model: DTMGP, x: torch.Tensor) -> torch.Tensor:
    """Grid coordinates (n, d) of the last layer's inputs, hidden layers at their means."""
    quiet = x.new_zeros(1, 1, model.latent_inputs)
    with torch.no_grad():
        h = model.first_inputs(x, quiet)
        for layer in model.stack[:-1]:
            h = layer(h).mean
        u: torch.Tensor = model.stack[-1].mapping(h)
    return u[0] if u.ndim == 3 else u


def regressions(model: DTMGP, runs: Runs) -> list[tuple[Evidence, Hyperparameters]]:
    """The last layer as a regression on its inputs, one for every output, at the model's kernel, prior and noise."""
    if not isinstance(model.likelihood, GaussianLikelihood):
        raise InputError(
            "growth of the last layer",
            got=type(model.likelihood).__name__,
            expected="a GaussianLikelihood: gains are those of a regression with normal noise",
        )
    layer, outputs = model.stack[-1], model.likelihood.outputs
    grid, features = set_of(layer), cast(ExpansionFeatures, layer.features)
    u = last_inputs(model, runs.x).double().numpy()[np.repeat(np.arange(len(runs.x)), runs.counts.numpy())]
    with torch.no_grad():
        z = model.likelihood.warp(runs.y).double().numpy()
        noise = model.likelihood.log_noise.double().exp().square().expand(outputs).numpy()
        lengthscales = features.log_lengthscales[0].double().exp().numpy()
        variance = float(features.log_variances[0].double().exp())
        prior = layer.weights.prior_std.double().expand(features.size, layer.width)
        scale = prior.square().mean(0).sqrt().numpy()
    kernel = features.expansion.blocks[0].kernel
    found = []
    for k in range(outputs):
        data: Replicates = collapse(u, z[:, k] - z[:, k].mean())
        values = Hyperparameters(lengthscales, np.array([variance * scale[k] ** 2]), float(noise[k]))
        found.append((Evidence(data, kernel, grid, MEAN_STD), values))
    return found


def grow_last_layer(model: DTMGP, runs: Runs, policy: Adaptive | None = None) -> Growth | None:
    """One round of growth in place, by the gains of all outputs together; None if nothing pays.

    New weights start at the prior (`dtmgp.model.growth.grown`), the others keep their place. Of a policy are used:
    ``least_gain``, ``share``, ``look_ahead``, ``max_level``, ``max_features``. An optimiser made before the round has
    the old weights: make a new one, as every call of `train` does.
    """
    chosen = Adaptive() if policy is None else policy
    layer = model.stack[-1]
    grid = set_of(layer)
    groups = candidates(grid, chosen.look_ahead, chosen.max_level)
    total = np.zeros(len(groups))
    sizes = np.zeros(len(groups), dtype=np.int64)
    for evidence, values in regressions(model, runs):
        posterior = evidence.posterior(values)[1]
        gains, sizes = evidence_gains(posterior, evidence.data, values.noise, grid, groups)
        total += gains
    room = (chosen.max_features or MOST_FEATURES) - layer.features.size
    taken, promised = choose(groups, total, sizes, chosen, room)
    if not taken:
        return None
    larger = grid.add(np.concatenate([groups[k] for k in taken]))
    model.layers[-1] = grown(layer, larger)
    return Growth(layer.features.size, model.stack[-1].features.size, promised, larger)
