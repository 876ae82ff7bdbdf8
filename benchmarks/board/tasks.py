"""The tasks of the board, by name: each makes its problem from a seed and a size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from board.functions import jump, product_peak
from board.problem import OBSERVATIONS, Problem, Size, cached, stream
from dtmgp.errors import InputError
from dtmgp.simulators import (
    ActivityNetwork,
    BrownianField,
    Epidemic,
    MM1Queue,
    TwoBranches,
    maximin_latin_hypercube,
)

Make = Callable[[str, int, Size, Path | None], Problem]
FIELD_SIZES = (40, 80, 120, 160, 200)
FUNCTION_DIMENSIONS = (2, 4, 8)
FUNCTION_SIZES = (20, 100, 500)  # inputs per dimension
UCI = ("yacht", "energy", "concrete", "elevators", "kin40k")


def _uniform(bounds: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    return generator.uniform(*bounds.T, size=(n, len(bounds)))


def _network(
    runs: int, replicates: int, task: str, seed: int, size: Size, data: Path | None = None
) -> Problem:
    """5000 inputs. Test inputs and draws are shared by the seeds 0 to 99, those of 100 to 199 have others, ...

    The large samples of the truth take 100 s each for means of 1000 runs; they, and the training data, are kept
    in ``out/board``.
    """
    simulator = ActivityNetwork(runs=runs)
    n, tests, block = size.cap(5000), size.cap_tests(100), seed // 100
    tag = f"network-{runs}"
    X = cached(
        f"{tag}-x-{n}-{seed}",
        lambda: maximin_latin_hypercube(n, simulator.bounds, random_state=stream(tag, "inputs", seed)),
    )
    y = cached(
        f"{tag}-y-{n}-{replicates}-{seed}",
        lambda: simulator.sample(X, replicates, random_state=stream(f"{tag}-{replicates}", "train", seed)),
    )
    X_test = _uniform(simulator.bounds, tests, stream(tag, "test inputs", block))

    def draw(count: int, role: str) -> np.ndarray:
        key = f"{tag}-truth-{role.replace(' ', '-')}-{tests}-{count}-{block}"
        return cached(key, lambda: simulator.sample(X_test, count, stream(tag, role, block)))

    averages = 400 if size.draws >= 10_000 else 20
    mean = cached(
        f"network-mean-{runs}-{tests}-{averages}-{block}",
        lambda: ActivityNetwork(runs=1000).sample(X_test, averages, stream(tag, "mean", block)).mean(axis=1),
    )
    return Problem(
        np.repeat(X, replicates, axis=0), y.ravel(), X_test, draw(OBSERVATIONS, "test"), draw, mean=mean
    )


def _known_law(
    simulator: object,
    inputs: int,
    replicates: int,
    tests: int,
    task: str,
    seed: int,
    size: Size,
    data: Path | None = None,
) -> Problem:
    """A simulator with an exact cdf: its own test inputs for every seed."""
    bounds = simulator.bounds
    n = size.cap(inputs)
    X = maximin_latin_hypercube(n, bounds, random_state=stream(task, "inputs", seed))
    y = simulator.sample(X, replicates, random_state=stream(task, "train", seed))
    X_test = _uniform(bounds, size.cap_tests(tests), stream(task, "test inputs", seed))

    def draw(count: int, role: str) -> np.ndarray:
        return simulator.sample(X_test, count, stream(task, role, seed))

    if isinstance(simulator, Epidemic):
        # Sizes are whole numbers, so P(Y < t) is the cdf at the whole number before t.
        law = simulator.pmf(X_test)
        left = lambda t: simulator.cdf(X_test, np.ceil(t) - 1.0)  # noqa: E731
        log_density = lambda t: np.log(np.take_along_axis(law, t.astype(int), axis=1))  # noqa: E731
        mean = law @ np.arange(law.shape[1])
    else:
        left = None
        log_density = lambda t: np.log(simulator.pdf(X_test, t))  # noqa: E731
        mean = _mean(simulator, X_test)
    return Problem(
        np.repeat(X, replicates, axis=0),
        y.ravel(),
        X_test,
        draw(OBSERVATIONS, "test"),
        draw,
        partial(simulator.cdf, X_test),
        left,
        log_density,
        mean,
    )


def _mean(simulator: object, X: np.ndarray) -> np.ndarray:
    """Exact means, from the inverse cdf, the rate, or the two branches."""
    if isinstance(simulator, BrownianField):
        return np.full(len(X), 0.5)  # the law is symmetric about 1/2
    if isinstance(simulator, MM1Queue):
        return 1.0 / (X[:, 1] - X[:, 0])
    chance = 1.0 / (1.0 + np.exp(-6.0 * (X[:, 0] - 0.5)))
    return chance * (2.0 + X[:, 1]) + (1.0 - chance) * (-1.0 + 0.5 * np.sin(6.0 * X[:, 1]))


def _function(
    function: Callable[[np.ndarray], np.ndarray],
    dim: int,
    inputs: int,
    task: str,
    seed: int,
    size: Size,
    data: Path | None = None,
) -> Problem:
    """A deterministic function on the unit cube: one run per input, no noise."""
    bounds = np.tile([0.0, 1.0], (dim, 1))
    X = maximin_latin_hypercube(size.cap(inputs), bounds, random_state=stream(task, "inputs", seed))
    X_test = _uniform(bounds, size.cap_tests(1000), stream(task, "test inputs", seed))
    truth = function(X_test)
    return Problem(X, function(X), X_test, truth[:, None], mean=truth, deterministic=True)


def _uci(name: str, task: str, seed: int, size: Size, data: Path | None = None) -> Problem:
    """A UCI set, standardised by its training rows; the seed is the number of the given split."""
    if data is None:
        raise InputError(
            f"task {task}", got="no --data", expected="the folder of the UCI sets", do="add --data DIR"
        )
    table = np.loadtxt(data / name / "data.csv.gz", delimiter=",")
    masks = np.loadtxt(data / name / "test_mask.csv.gz", delimiter=",")
    if not 0 <= seed < masks.shape[1]:
        raise InputError(
            f"seed of task {task}", got=str(seed), expected=f"a split, 0 to {masks.shape[1] - 1}"
        )
    test = masks[:, seed] > 0
    centre, scale = table[~test].mean(axis=0), table[~test].std(axis=0)
    table = (table - centre) / np.where(scale > 0, scale, 1.0)
    train, rows = (np.flatnonzero(part) for part in (~test, test))
    train = train[np.linspace(0, len(train) - 1, size.cap(len(train))).astype(int)]
    rows = rows[: size.cap_tests(len(rows))]
    varies = np.flatnonzero(np.ptp(table[train, :-1], axis=0) > 0)  # a small part can hold a column fixed
    X, y = table[:, varies], table[:, -1]
    return Problem(X[train], y[train], X[rows], y[rows, None])


TASKS: dict[str, Make] = {
    **{
        f"network-{kind}-{m}": partial(_network, runs, m)
        for kind, runs in (("single", 1), ("means", 1000))
        for m in (4, 20)
    },
    **{f"field-{n}": partial(_known_law, BrownianField(), n, 1, 100) for n in FIELD_SIZES},
    "bimodal": partial(_known_law, TwoBranches(), 5000, 1, 200),
    "queue": partial(_known_law, MM1Queue(), 2000, 5, 200),
    "epidemic": partial(_known_law, Epidemic(), 2000, 5, 200),
    **{
        f"{name}-d{dim}-n{k * dim}": partial(_function, function, dim, k * dim)
        for name, function in (("peak", product_peak), ("jump", jump))
        for dim in FUNCTION_DIMENSIONS
        for k in FUNCTION_SIZES
    },
    **{f"uci-{name}": partial(_uci, name) for name in UCI},
}


def chosen(names: list[str] | tuple[str, ...]) -> list[str]:
    """Tasks by name or by the beginning of their names, in the order of the board; all if none is named.

    >>> chosen(["network-means", "field-40"])
    ['network-means-4', 'network-means-20', 'field-40']
    """
    for name in names:
        if not any(task.startswith(name) for task in TASKS):
            raise InputError(f"task {name!r}", got="no such task", expected=f"one of {', '.join(TASKS)}")
    return [
        task
        for task in TASKS
        if not names or task in names or any(task.startswith(n) for n in names if n not in TASKS)
    ]


def problem(task: str, seed: int, size: Size, data: Path | None = None) -> Problem:
    """The problem of a task for one seed."""
    return TASKS[task](task, seed, size, data)
