"""Adaptive lower sets: start coarse and add multi-indices where they raise the evidence of the training data."""

from __future__ import annotations

import dataclasses
import logging
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from dtmgp.errors import InputError
from dtmgp.grids import LowerSet, SparseGrid
from dtmgp.kernels import Tensor
from dtmgp.kriging.evidence import Evidence, Hyperparameters
from dtmgp.kriging.gains import evidence_gains
from dtmgp.kriging.model import DENSE_WEIGHTS, KrigingModel, Settings, fit
from dtmgp.kriging.posterior import DensePosterior
from dtmgp.kriging.replicates import Replicates
from dtmgp.random import RandomState, as_generator

Array = np.ndarray
log = logging.getLogger("dtmgp")
# of the kernel variance at which gains are taken, one after the other: a few features of long lengthscales want a large
# variance, at which many small weights are unlikely (measured once, Laplace kernel, 1,000 rows: growth ended at 129
# features and 1,287 nats with the first alone, at 309 and 1,339 with all three)
SCALES = (1.0, 0.1, 0.01)


@dataclasses.dataclass(frozen=True)
class Adaptive:
    """How a grid grows: `TMGPRegressor(level=Adaptive())`.

    Growth starts from the sparse grid of level ``start``. In every round each multi-index that may be added (and, along
    each coordinate whose next level does not pay, the next ``look_ahead`` levels together) gets its exact gain of log
    evidence at the present hyperparameters (`dtmgp.kriging.gains`); those of the highest gain per feature are added,
    until they make up ``share`` of what all together promise, and hyperparameters are learned again in ``evaluations``
    of the evidence. A round counts if that raises the evidence by ``least_gain`` nats; if it does not, gains at smaller
    kernel variances are tried, since what a coarse set has learned may belittle fine features. Growth ends when this
    fails too, or at ``max_features`` (None: 1500, and 5 per distinct input).

    Sees training data only. Oscillations of several inputs together that no coarse level sees are not looked ahead
    for: raise ``start``.

    >>> Adaptive(max_features=300).start
    2
    """

    start: int = 2
    max_features: int | None = None
    least_gain: float = 1.0
    share: float = 0.5
    look_ahead: int = 3
    max_level: int = 14
    evaluations: int = 10
    rounds: int = 40

    def __post_init__(self) -> None:
        whole = (self.start, self.max_level, self.rounds, self.max_features or 1)
        natural = (self.look_ahead, self.evaluations)
        if (
            not all(isinstance(k, int) for k in (*whole, *natural))
            or min(whole) < 1
            or min(natural) < 0
            or not 0 < self.share <= 1
            or not self.least_gain > 0
        ):
            raise InputError(
                "Adaptive",
                got=repr(self),
                expected="start, max_features, max_level, rounds >= 1; look_ahead, evaluations >= 0; "
                "0 < share <= 1; least_gain > 0",
            )
        if (self.max_features or 0) > DENSE_WEIGHTS:
            raise InputError(
                "Adaptive max_features",
                got=f"{self.max_features:,}",
                expected=f"at most {DENSE_WEIGHTS:,}, up to which posteriors are exact",
                do="grow a set of that size, then refine it by hand: level=model.level_.refine()",
            )


class Round(NamedTuple):
    """One round of growth: features and multi-indices of the set, its log evidence, the gain that was promised."""

    features: int
    multi_indices: int
    log_evidence: float
    promised: float


class Grown(NamedTuple):
    """The model on the set of the highest evidence, that set, and all rounds."""

    model: KrigingModel
    grid: LowerSet
    rounds: tuple[Round, ...]


def candidates(grid: LowerSet, look_ahead: int, max_level: int) -> list[Int[Array, "_ d"]]:
    """Groups of multi-indices that may be added: every one of the frontier, then the chains along the axes.

    >>> [group.tolist() for group in candidates(LowerSet([(1, 1), (2, 1)]), 2, 9)]
    [[[1, 2]], [[3, 1]], [[1, 2], [1, 3]], [[3, 1], [4, 1]]]
    """
    frontier = grid.frontier
    frontier = frontier[(frontier <= max_level).all(axis=1)]
    groups = [row[None, :] for row in frontier]
    if look_ahead > 1:
        for row in frontier[(frontier > 1).sum(axis=1) == 1]:
            steps = np.arange(min(look_ahead, max_level - int(row.max()) + 1))
            groups.append(row + steps[:, None] * (row > 1))
    return groups


def choose(
    groups: list[Int[Array, "_ d"]],
    gains: Float[Array, " g"],
    sizes: Int[Array, " g"],
    policy: Adaptive,
    room: int,
) -> tuple[list[int], float]:
    """Numbers of the groups to add, and the sum of their gains: the highest gain per feature first.

    A chain is taken only where its first level alone does not pay.
    """
    paid = {
        tuple(groups[k][0])
        for k in range(len(groups))
        if len(groups[k]) == 1 and gains[k] >= policy.least_gain
    }
    open_ = [
        k
        for k in range(len(groups))
        if gains[k] >= policy.least_gain and (len(groups[k]) == 1 or tuple(groups[k][0]) not in paid)
    ]
    total = float(gains[open_].sum())
    taken: list[int] = []
    promised = 0.0
    for k in sorted(open_, key=lambda k: -gains[k] / sizes[k]):
        if sizes[k] > room:
            continue
        taken.append(k)
        room -= int(sizes[k])
        promised += float(gains[k])
        if promised >= policy.share * total:
            break
    return taken, promised


def fit_adaptive(
    data: Replicates,
    kernel: Tensor,
    policy: Adaptive,
    start: Hyperparameters,
    settings: Settings,
    random_state: RandomState = 0,
    *,
    max_features: int,
) -> Grown:
    """Grow from the sparse grid of level ``policy.start``; the last fit has all evaluations of ``settings``."""
    rng = as_generator(random_state)
    brief = dataclasses.replace(settings, max_evaluations=min(policy.evaluations, settings.max_evaluations))
    grid = LowerSet(SparseGrid(kernel.dim, policy.start).multi_indices)
    model = fit(data, kernel, grid, start, brief, rng)
    rounds = [_round(model, grid, 0.0)]
    while len(rounds) <= policy.rounds:
        for scale in SCALES if settings.learn_kernel else SCALES[:1]:
            taken, promised = _proposal(data, kernel, policy, settings, model, grid, scale, max_features)
            if not len(taken):
                continue
            larger = grid.add(taken)
            tried = fit(data, kernel, larger, model.hyperparameters, brief, rng)
            if tried.log_evidence >= model.log_evidence + policy.least_gain:
                grid, model = larger, tried
                rounds.append(_round(model, grid, promised))
                log.info("adaptive grid: %s", rounds[-1])
                break
        else:
            break
    last = fit(data, kernel, grid, model.hyperparameters, settings, rng)
    return Grown(max(last, model, key=lambda fitted: fitted.log_evidence), grid, tuple(rounds))


def _proposal(
    data: Replicates,
    kernel: Tensor,
    policy: Adaptive,
    settings: Settings,
    model: KrigingModel,
    grid: LowerSet,
    scale: float,
    max_features: int,
) -> tuple[Int[Array, "k d"], float]:
    """Multi-indices to add, by gains at the kernel variance times ``scale``."""
    values, posterior = model.hyperparameters, model.posterior
    if scale != 1.0 or not isinstance(posterior, DensePosterior):
        values = dataclasses.replace(values, variances=scale * values.variances)
        posterior = Evidence(data, kernel, grid, settings.mean_std).posterior(values)[1]
    room = max_features - posterior.design.expansion.size
    groups = candidates(grid, policy.look_ahead, policy.max_level)
    gains, sizes = evidence_gains(posterior, data, values.noise, grid, groups)
    taken, promised = choose(groups, gains, sizes, policy, room)
    nothing = np.empty((0, kernel.dim), dtype=np.int64)
    return np.concatenate([nothing, *(groups[k] for k in taken)]), promised


def _round(model: KrigingModel, grid: LowerSet, promised: float) -> Round:
    size = model.posterior.design.expansion.size
    return Round(size, grid.active_per_input, model.log_evidence, promised)
