"""Where the next runs help most: scores of candidate inputs, new ones and tried ones alike, and the greedy choice."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from dtmgp.emulation.beliefs import Belief

Array = np.ndarray


@runtime_checkable
class Score(Protocol):
    """How much ``replicates`` more runs at each point of a belief would help; ``reference`` are indices of points
    spread over the box, for scores that average over it."""

    def __call__(self, belief: Belief, reference: Any, replicates: int) -> Float[Array, " N"]:
        """One number per point; larger is better."""
        ...


@dataclasses.dataclass(frozen=True)
class ALM:
    """Variance of the mean response at the point itself (active learning MacKay).

    >>> belief = Belief(np.diag([1.0, 3.0]), np.ones(2), np.ones(2))
    >>> ALM()(belief, [0, 1], 1).tolist()
    [1.0, 3.0]
    """

    def __call__(self, belief: Belief, reference: Any, replicates: int) -> Float[Array, " N"]:
        """The diagonal."""
        return np.diag(belief.covariance).copy()


@dataclasses.dataclass(frozen=True)
class ALC:
    """Reduction of the variance of the mean response, averaged over the box (active learning Cohn; IMSE).

    ``mean over r of c(r, x)^2 / (v(x) + noise(x)/k)`` for k runs at x.

    >>> belief = Belief(np.diag([1.0, 3.0]), np.ones(2), np.ones(2))
    >>> ALC()(belief, [0, 1], 1).tolist()
    [0.25, 1.125]
    """

    def __call__(self, belief: Belief, reference: Any, replicates: int) -> Float[Array, " N"]:
        """Average reductions."""
        return _reduction(belief, reference, replicates, np.ones(len(belief.noise[reference])))


@dataclasses.dataclass(frozen=True)
class LawError:
    """Reduction of the expected CRPS loss of the predicted *law*, averaged over the box.

    A law estimated from n runs loses ``E int (F_n - F)^2 = int F (1 - F)/n = E|Y - Y'| / (2n)`` in CRPS. A model whose
    mean response has variance v where a run has variance s uses ``n = s/v`` runs' worth of data. Hence the loss is
    ``E|Y - Y'| v/(2 s)``: ALC with the weight ``E|Y - Y'|/(2 s)``, which is large where the law is narrow. ALC itself
    counts squared errors of the mean and so prefers places with a wide law.

    >>> belief = Belief(np.diag([1.0, 1.0]), np.array([1.0, 4.0]), np.array([1.0, 2.0]))
    >>> LawError()(belief, [0, 1], 1).tolist()
    [0.125, 0.025]
    """

    def __call__(self, belief: Belief, reference: Any, replicates: int) -> Float[Array, " N"]:
        """Average reductions, in the units of the output."""
        noise = belief.noise[reference]
        weight = np.where(noise > 0, belief.spread[reference] / (2.0 * np.where(noise > 0, noise, 1.0)), 0.0)
        # Without noise there is no law to lose; the mean alone counts.
        return _reduction(belief, reference, replicates, weight if weight.any() else np.ones_like(weight))


def _reduction(
    belief: Belief, reference: Any, replicates: int, weight: Float[Array, " R"]
) -> Float[Array, " N"]:
    total = np.diag(belief.covariance) + belief.noise / replicates
    gain = weight @ belief.squares(reference) / len(weight)
    return np.asarray(np.where(total > 0, gain / np.where(total > 0, total, 1.0), 0.0))


def choose(
    score: Score, belief: Belief, sites: Sequence[int], reference: Any, replicates: int, count: int
) -> list[int]:
    """Indices of ``count`` points among ``sites``, greedily: the belief is updated after every choice.

    A point can be chosen again: more replicates there were worth more than anything else.

    >>> belief = Belief(np.diag([1.0, 3.0, 0.1]), np.full(3, 9.0), np.ones(3))
    >>> choose(ALM(), belief, [0, 1, 2], [0, 1, 2], 1, 3)
    [1, 1, 1]
    """
    allowed = np.asarray(sites)
    chosen: list[int] = []
    for _ in range(count):
        gains = score(belief, reference, replicates)[allowed]
        best = int(allowed[int(np.argmax(gains))])
        chosen.append(best)
        belief = belief.after(best, replicates)
    return chosen


SCORES: dict[str, Score] = {"alm": ALM(), "alc": ALC(), "law": LawError()}
