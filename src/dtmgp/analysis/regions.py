"""Where is a model wrong? Scores by slices of every input, and distances of laws at replicated inputs."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from dtmgp.analysis.base import Array
from dtmgp.analysis.validation import Validation
from dtmgp.errors import InputError
from dtmgp.metrics import ks_statistic
from dtmgp.random import RandomState, as_generator


@dataclasses.dataclass(frozen=True)
class CrpsByBin:
    """Mean CRPS of the runs in each slice of each input, with the number of runs; NaN in empty slices.

    ``bias`` is the mean of ``y - mean`` in units of the overall standard deviation of that error.
    """

    names: tuple[str, ...]
    edges: Float[Array, "d b1"]
    crps: Float[Array, "d b"]
    bias: Float[Array, "d b"]
    count: Int[Array, "d b"]


@dataclasses.dataclass(frozen=True)
class KsByInput:
    """At each input with enough replicates: distance of the model's law from the runs, and of two halves of the runs.

    ``model`` and ``truth`` compare equally many draws, so that a perfect model has the same mean in both.
    """

    x: Float[Array, "k d"]
    model: Float[Array, " k"]
    truth: Float[Array, " k"]
    replicates: Int[Array, " k"]


def crps_by_bin(found: Validation, bins: int = 8) -> CrpsByBin:
    """Mean CRPS in slices of equal width of every input.

    >>> from dtmgp import TMGPRegressor
    >>> from dtmgp.analysis import validate
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> crps_by_bin(validate(TMGPRegressor().fit(X, X[:, 0]), X, X[:, 0], random_state=0), bins=4).count
    array([[10, 10, 10, 10]])
    """
    if bins < 1:
        raise InputError("bins", got=repr(bins), expected="at least 1")
    dim = found.x.shape[1]
    low, high = found.x.min(axis=0), found.x.max(axis=0)
    high = np.where(high > low, high, low + 1.0)
    edges = low[:, None] + np.linspace(0.0, 1.0, bins + 1) * (high - low)[:, None]
    error = found.y - found.mean
    scale = max(float(error.std()), 1e-300)
    score, bias = np.full((dim, bins), np.nan), np.full((dim, bins), np.nan)
    count = np.zeros((dim, bins), dtype=np.int64)
    for column in range(dim):
        place = np.clip(np.searchsorted(edges[column], found.x[:, column], side="right") - 1, 0, bins - 1)
        count[column] = np.bincount(place, minlength=bins)
        some = count[column] > 0
        score[column, some] = np.bincount(place, found.crps, bins)[some] / count[column, some]
        bias[column, some] = np.bincount(place, error, bins)[some] / count[column, some] / scale
    return CrpsByBin(found.names, edges, score, bias, count)


def ks_by_input(found: Validation, *, smallest: int = 4, random_state: RandomState = None) -> KsByInput:
    """Two-sample distances at inputs with at least ``smallest`` replicates: r/2 runs against r/2 draws, or runs."""
    rng = as_generator(random_state)
    counts = np.bincount(found.group)
    rows, model, truth = [], [], []
    for number in np.flatnonzero(counts >= smallest):
        members = np.flatnonzero(found.group == number)
        runs = rng.permutation(found.y[members])
        half = min(len(runs) // 2, found.draws.shape[1])
        drawn = found.draws[members[0], :half]
        rows.append(members[0])
        model.append(float(ks_statistic(runs[:half], drawn)))
        truth.append(float(ks_statistic(runs[:half], runs[half : 2 * half])))
    order = np.array(rows, dtype=np.int64)
    return KsByInput(found.x[order], np.array(model), np.array(truth), counts[found.group[order]])
