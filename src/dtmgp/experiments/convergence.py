"""When a training loss has converged: one rule for all models of the studies.

The rule looks at losses per run, in nats, one per iteration (an epoch of variational training, a sweep of a Markov
chain). The loss has converged when the means over the last quarter and over the quarter before it agree to
``TOLERANCE``, up or down. It looks first after ``LEAST`` iterations and then whenever there are a tenth more: a noisy
loss must not pass because it was looked at often.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

TOLERANCE = 0.02  # nats per run
LEAST = 500
GROWTH = 1.1
COOLING = (
    0.25  # of the iterations up to convergence; of a time limit its last fifth, so that the share is the same
)


def look_at(least: int = LEAST, most: int = 10**7) -> list[int]:
    """Numbers of iterations after which the rule looks.

    >>> look_at(500, 700)
    [500, 550, 605, 666]
    """
    looks, place = [], float(least)
    while round(place) <= most:
        looks.append(round(place))
        place = max(GROWTH * place, place + 1)
    return looks


def gap(losses: ArrayLike) -> float:
    """Mean over the third quarter less the mean over the last one.

    >>> gap([9.0, 9.0, 3.0, 3.0, 2.0, 2.0, 1.5, 1.5])
    0.5
    """
    values = np.asarray(losses, dtype=np.float64)
    quarter = max(1, len(values) // 4)
    return float(values[-2 * quarter : -quarter].mean() - values[-quarter:].mean())


def converged_after(losses: Sequence[float], tolerance: float = TOLERANCE, least: int = LEAST) -> int | None:
    """Iterations after which the rule would have stopped, or None if the losses end before.

    >>> falling = [1.0 / (k + 1) for k in range(3000)]
    >>> converged_after(falling), converged_after(falling[:100])
    (500, None)
    """
    for count in look_at(least, len(losses)):
        if abs(gap(losses[:count])) <= tolerance:
            return count
    return None


class Rule(NamedTuple):
    """Tolerance in nats per run and iterations before the first look; None leaves them to the study."""

    tolerance: float = TOLERANCE
    least: int | None = None


STANDARD = Rule()


class ConvergeThenCool:
    """A callback and a learning-rate schedule in one: constant until the loss has converged, then down to zero.

    With a ``limit`` in seconds of processor time the rate falls over the last fifth of it instead, if convergence has
    not come before. Processor time, so that other work on the machine does not count. ``converged`` and ``seconds`` are
    the iteration and the time of convergence, None before it; ``ended`` says why the training should end.

    >>> rule = ConvergeThenCool(least=4)
    >>> [rule.hear(1.0) for _ in range(5)], rule.converged, rule.ended
    ([False, False, False, False, True], 4, 'converged')
    """

    def __init__(
        self,
        limit: float | None = None,
        tolerance: float = TOLERANCE,
        least: int = LEAST,
        clock: Callable[[], float] = time.process_time,
    ) -> None:
        self.limit, self.tolerance = limit, tolerance
        self.losses: list[float] = []
        self.converged: int | None = None
        self.seconds: float | None = None
        self.ended = ""
        self._clock, self._begun = clock, clock()
        self._looks = iter(look_at(least))
        self._next = next(self._looks)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._begun

    def hear(self, loss: float) -> bool:
        """Take the loss of one iteration; True when the training should end."""
        self.losses.append(loss)
        count = len(self.losses)
        if self.converged is None and count >= self._next:
            self._next = next(self._looks)
            if abs(gap(self.losses)) <= self.tolerance:
                self.converged, self.seconds = count, self.elapsed
        if self.converged is not None and count >= (1 + COOLING) * self.converged:
            self.ended = "converged"
        elif self.limit is not None and self.elapsed >= self.limit:
            self.ended = "limit"
        return bool(self.ended)

    def rate(self, progress: float = 0.0) -> float:
        """Factor of the learning rate; what a trainer calls progress is not needed."""
        left = 1.0
        if self.limit is not None:
            left = (1.0 - self.elapsed / self.limit) * (1 + COOLING) / COOLING
        if self.converged is not None:
            since = len(self.losses) - self.converged
            left = min(left, 1.0 - since / (COOLING * self.converged))
        return min(1.0, max(left, 1e-3))
