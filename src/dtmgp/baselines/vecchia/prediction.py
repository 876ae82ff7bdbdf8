"""Predictions: every kept state maps the inputs through its hidden layers and gives a normal law."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from dtmgp.baselines.vecchia.chain import State
from dtmgp.baselines.vecchia.factors import ConditioningSets
from dtmgp.baselines.vecchia.kernels import Covariance
from dtmgp.baselines.vecchia.likelihood import Replicated
from dtmgp.baselines.vecchia.samplers import JITTER


def predict_states(
    states: Sequence[State],
    inputs: Float[np.ndarray, "n d"],
    outputs: Replicated,
    sets: Sequence[ConditioningSets],
    covariance: Covariance,
    identity_mean: bool,
    queries: Float[np.ndarray, "q d"],
) -> tuple[Float[np.ndarray, "S q"], Float[np.ndarray, "S q"]]:
    """Mean and variance (noise included) of one new output at each query, for each state.

    Hidden layers map a query to their conditional *mean* (Sauer, Cooper and Gramacy 2022, section 4.2), as the R
    package does by default; a query's neighbours are those in the inputs of each layer.
    """
    means, variances = np.empty((len(states), len(queries))), np.empty((len(states), len(queries)))
    jitter = np.full(len(inputs), JITTER)
    first = sets[0].neighbours_of(inputs, queries)
    for row, state in enumerate(states):
        points, moved, neighbours = inputs, queries, first
        for layer, (values, thetas) in enumerate(zip(state.hidden, state.theta, strict=True)):
            if layer:
                neighbours = sets[layer].neighbours_of(points, moved)
            shifted = layer == 0 and identity_mean
            centred = values - points if shifted else values
            columns = [
                sets[layer].predict(
                    points,
                    np.ascontiguousarray(centred[:, column]),
                    jitter,
                    moved,
                    neighbours,
                    covariance,
                    float(theta),
                )[0]
                for column, theta in enumerate(thetas)
            ]
            mapped = np.column_stack(columns)
            points, moved = values, mapped + moved if shifted else mapped
        last = len(state.hidden)
        mean, variance = sets[last].predict(
            points,
            outputs.mean,
            outputs.noise(state.nugget),
            moved,
            sets[last].neighbours_of(points, moved) if last else first,
            covariance,
            state.outer_theta,
        )
        means[row], variances[row] = mean, state.scale * (variance + state.nugget)
    return means, variances
