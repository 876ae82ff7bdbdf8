"""A problem of the board: training rows, test inputs, and what is known of the truth there."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

CACHE = Path(__file__).resolve().parents[2] / "out" / "board"
OBSERVATIONS = 100  # of the truth at every test input, and draws of KS100


class Size(NamedTuple):
    """How large a problem is made: at most so many training inputs and test inputs; draws of the large samples."""

    inputs: int | None = None
    tests: int | None = None
    draws: int = 10_000

    def cap(self, inputs: int) -> int:
        """Training inputs, of ``inputs`` asked for."""
        return inputs if self.inputs is None else min(inputs, self.inputs)

    def cap_tests(self, tests: int) -> int:
        """Test inputs, of ``tests`` asked for."""
        return tests if self.tests is None else min(tests, self.tests)


FULL = Size()
TINY = Size(inputs=40, tests=5, draws=200)


@dataclass(frozen=True)
class Problem:
    """Training rows X (N, d), y (N,), replicates as repeated rows; observations y_test (n, r) at X_test (n, d).

    What is known of the truth: ``draw(S, role)`` draws it afresh, (n, S), other roles other streams; ``cdf(t)`` and,
    with atoms, ``left(t)`` at t (n, S); ``log_density(t)``; ``mean`` (n,). None where unknown.
    ``smooth`` says whether the law of Y(x) has no atoms (a deterministic function has nothing else).
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    draw: Callable[[int, str], np.ndarray] | None = None
    cdf: Callable[[np.ndarray], np.ndarray] | None = None
    left: Callable[[np.ndarray], np.ndarray] | None = None
    log_density: Callable[[np.ndarray], np.ndarray] | None = None
    mean: np.ndarray | None = None
    deterministic: bool = False


def stream(task: str, role: str, seed: int) -> np.random.Generator:
    """The random stream of one role in one task: training, test inputs, test draws, ... never meet.

    >>> stream("a", "train", 0).random() == stream("a", "test", 0).random()
    False
    """
    return np.random.default_rng([zlib.crc32(task.encode()), zlib.crc32(role.encode()), seed])


def cached(name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
    """An array from ``out/board``, made on first use; written in one step, so that processes may share it."""
    path = CACHE / f"{name}.npz"
    if path.exists():
        with np.load(path) as stored:
            return np.asarray(stored["array"])
    array = make()
    CACHE.mkdir(parents=True, exist_ok=True)
    descriptor, part = tempfile.mkstemp(dir=CACHE, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.savez(file, array=array)
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
    return array


def held_out(problem: Problem, task: str, seed: int, share: float = 0.2) -> Problem:
    """The validation form: a random share of the distinct training inputs is held out, and nothing else is seen.

    Inputs with the same number of replicates keep them as observations; otherwise each held-out row is one.
    """
    inputs, place = np.unique(problem.X, axis=0, return_inverse=True)
    place = place.reshape(-1)
    order = stream(task, "validation", seed).permutation(len(inputs))
    out = np.sort(order[: max(1, round(share * len(inputs)))])
    train = ~np.isin(place, out)
    counts = np.bincount(place, minlength=len(inputs))[out]
    if (counts == counts[0]).all():
        observed = np.stack([problem.y[place == k] for k in out])
        return Problem(problem.X[train], problem.y[train], inputs[out], observed)
    return Problem(problem.X[train], problem.y[train], problem.X[~train], problem.y[~train][:, None])
