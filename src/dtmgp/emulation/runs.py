"""One run of a simulator: what is asked for, and what came of it."""

from __future__ import annotations

import dataclasses
import enum

import numpy as np


class Purpose(enum.StrEnum):
    """What a run is for: the model learns from DESIGN runs and never sees VALIDATION runs."""

    DESIGN = "design"
    VALIDATION = "validation"


@dataclasses.dataclass(frozen=True)
class Run:
    """A run to make: the simulator at ``x`` with ``seed``. ``attempt`` counts from 0; every attempt has its own seed.

    >>> run = Run(number=7, x=(0.5, 1.0), seed=run_seed(0, 7, 0))
    >>> run.number, run.purpose.value, run.seed == run_seed(0, 7, 0)
    (7, 'design', True)
    """

    number: int
    x: tuple[float, ...]
    seed: int
    attempt: int = 0
    purpose: Purpose = Purpose.DESIGN
    round: int = 0

    @property
    def key(self) -> tuple[int, int]:
        """Number and attempt: what names the run."""
        return self.number, self.attempt


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a run: an output ``y``, or the ``error`` that it ended with.

    >>> Outcome(7, 0, y=1.5).failed, Outcome(8, 0, error="timeout after 5 s").failed
    (False, True)
    """

    number: int
    attempt: int
    y: float | None = None
    error: str | None = None
    seconds: float | None = None

    @property
    def failed(self) -> bool:
        """Whether the run has no output."""
        return self.y is None

    @property
    def key(self) -> tuple[int, int]:
        """Number and attempt: what names the run."""
        return self.number, self.attempt


def run_seed(campaign_seed: int, number: int, attempt: int) -> int:
    """Seed of a run below 2^32, by NumPy's SeedSequence: a function of campaign, run and attempt, of nothing else.

    >>> run_seed(0, 1, 0) != run_seed(0, 0, 1)
    True
    """
    sequence = np.random.SeedSequence(campaign_seed, spawn_key=(number, attempt))
    return int(sequence.generate_state(1, np.uint32)[0])
