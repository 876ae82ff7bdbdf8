"""Cells of a study (one size, one macro-replication) in order, in one process or several, skipping what is done.

Budgets, in seconds of processor time. ``own``: every model until its own loss has converged, at most ``limit``.
``dtmgp`` and ``dgp-vec``: what the paper's DTMGP and DGP-VEC used in this cell for the row ``own``. A model that needed
no more than a budget has its row ``own`` for it; only a model that needed more is fitted again, with the budget as its
limit. So the rows of a budget are those that carry its name, and the rows ``own`` that took no longer.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dtmgp.errors import InputError
from dtmgp.executors import Executor, SerialExecutor
from dtmgp.experiments.convergence import STANDARD, Rule
from dtmgp.experiments.results import Value, commit
from dtmgp.experiments.studies.contestants import CONTESTANTS
from dtmgp.experiments.studies.log import ResultLog
from dtmgp.experiments.studies.problems import AbstractProblem, Data
from dtmgp.experiments.studies.scores import score

OWN = "own"
BUDGETS = ("dtmgp", "dgp-vec")  # contestants whose time is a budget
COLUMNS = (
    "study",
    "variant",
    "model",
    "size",
    "replication",
    "budget",
    "cpu_seconds",
    "wall_seconds",
    "converged",
    "ended",
    "ks100",
    "ks10k",
    "crps",
    "nll",
    "coverage50",
    "coverage90",
    "coverage99",
    "seed",
    "commit",
)
Row = Mapping[str, Value]


@dataclasses.dataclass(frozen=True)
class Protocol:
    """What decides the numbers beside problem, size and replication; written into the head of the result file."""

    limit: float = 14_400.0  # seconds of processor time per fit: the paper's four hours
    draws: int = 10_000
    rule: Rule = STANDARD

    def __post_init__(self) -> None:
        if not self.limit > 0:
            raise InputError("--time-limit", got=repr(self.limit), expected="seconds > 0")

    def describe(self, problem: AbstractProblem) -> str:
        """One line for the head of the file."""
        design = getattr(problem, "design", None)
        words = [f"limit {self.limit:g} s", f"{self.draws} draws"]
        words += [] if design is None else [f"design {design}"]
        words += [] if self.rule == STANDARD else [str(self.rule)]
        return ", ".join(words)


class Cell(NamedTuple):
    """One macro-replication of one problem."""

    problem: AbstractProblem
    size: int
    replication: int

    def owns(self, row: Row) -> bool:
        """Whether a row belongs to this cell."""
        place = (self.problem.name, self.problem.variant, self.size, self.replication)
        return place == (row["study"], row["variant"], row["size"], row["replication"])


class Task(NamedTuple):
    """One fit that is due."""

    model: str
    budget: str
    limit: float


def due(rows: Sequence[Row], models: Sequence[str], limit: float) -> Iterator[Task]:
    """Fits of a cell that its rows ask for, the next one first; ask again after each, since it decides the others."""
    done = {(row["model"], row["budget"]) for row in rows}
    used = {str(row["model"]): float(row["cpu_seconds"]) for row in rows if row["budget"] == OWN}  # type: ignore[arg-type]
    for model in models:
        if (model, OWN) not in done:
            yield Task(model, OWN, limit)
    for budget, model in itertools.product(BUDGETS, models):
        if not CONTESTANTS[model].has_budgets or (model, budget) in done or model == budget:
            continue
        if budget in used and model in used and used[model] > used[budget]:
            yield Task(model, budget, used[budget])


def run_cell(
    cell: Cell, models: Sequence[str], protocol: Protocol, log: ResultLog | None, rows: Sequence[Row]
) -> list[Row]:
    """Make all fits that are due; rows are in the log, if there is one, as soon as they exist. Returns the new ones."""
    found: list[Row] = []
    data: Data | None = None
    truth = np.empty((0, 0))
    while (task := next(due([*rows, *found], models, protocol.limit), None)) is not None:
        if data is None:
            data = cell.problem.data(cell.size, cell.replication)
            truth = data.simulator.sample(data.new, protocol.draws, data.seeds[2])
        row = run_task(cell, task, protocol, data, truth)
        if log is not None:
            log.append(row)
        found.append(row)
    return found


def run_task(cell: Cell, task: Task, protocol: Protocol, data: Data, truth: np.ndarray) -> Row:
    """One fit and its scores; a fit that fails is a row without scores that says why."""
    import torch

    scores: dict[str, Value] = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    begun, begun_cpu = time.perf_counter(), time.process_time()
    try:
        fit = CONTESTANTS[task.model].fit(cell.problem, data, task.limit, protocol.rule)
        wall, used, converged, ended = time.perf_counter() - begun, fit.cpu_seconds, fit.converged, fit.ended
        scores = score(fit.model, data.new, truth, data.seeds[1])
    except Exception as error:
        wall, used, converged = time.perf_counter() - begun, time.process_time() - begun_cpu, None
        ended = f"failed: {type(error).__name__}: {' '.join(str(error).split())}"[:300]
    finally:
        torch.set_num_threads(threads)
    row: dict[str, Value] = dict.fromkeys(COLUMNS)
    return row | {
        "study": cell.problem.name,
        "variant": cell.problem.variant,
        "model": task.model,
        "size": cell.size,
        "replication": cell.replication,
        "budget": task.budget,
        "cpu_seconds": used,
        "wall_seconds": wall,
        "converged": converged,
        "ended": ended,
        **scores,
        "seed": data.seeds[0],
        "commit": commit(),
    }


def warm_up(models: Sequence[str], problem: AbstractProblem) -> None:
    """Compile and load what a process needs, so that the first row's seconds are those of its work."""
    rng = np.random.default_rng(0)
    low, high = problem.simulator.bounds.T
    X = low + (high - low) * rng.random((30, len(low)))
    new = X[:2]
    data = Data(X, problem.simulator.sample(X, 2, rng), new, problem.simulator, (0, 1, 2, 3))
    for model in models:
        if CONTESTANTS[model].has_budgets:
            CONTESTANTS[model].fit(problem, data, 1.0, Rule(np.inf, 2)).model.sample_y(new, 2, random_state=0)


def run_study(
    cells: Sequence[Cell],
    models: Sequence[str],
    protocol: Protocol,
    log: ResultLog,
    *,
    executor: Executor | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Make every cell, one after the other or as ``executor`` does; ``say`` hears of progress and of the time left.

    Rows do not depend on the executor except through limits of time. Workers that see our files write every row as
    soon as it exists; a cell whose worker died is tried again and goes on after its last row. From other machines rows
    come back, and are written, cell by cell. The time left assumes that half of a cell's cost grows with its size.
    """
    rows = log.read().rows
    mine = [[row for row in rows if cell.owns(row)] for cell in cells]
    open_cells = [
        (cell, own)
        for cell, own in zip(cells, mine)
        if next(due(own, models, protocol.limit), None) is not None
    ]
    if len(open_cells) < len(cells):
        say(f"{len(cells) - len(open_cells)} of {len(cells)} cells are in {log.path}")
    if not open_cells:
        return
    worker: Executor = SerialExecutor() if executor is None else executor
    typical = sum(cell.size for cell, _ in open_cells) / len(open_cells)
    begun, total, done = time.perf_counter(), 2.0 * len(open_cells), 0.0
    theirs = log if worker.shares_files else None
    work: list[Work] = [(cell, tuple(models), protocol, theirs, own) for cell, own in open_cells]
    failed: list[BaseException] = []
    for count, outcome in enumerate(worker.map(_one, work), start=1):
        cell = open_cells[outcome.number][0]
        done += 1.0 + cell.size / typical
        elapsed = time.perf_counter() - begun
        left = elapsed * (total - done) / done
        if outcome.error is not None:
            failed.append(outcome.error)
            found = f"no end: {outcome.error}"
        else:
            found = f"{len(outcome.value)} rows"
            for row in outcome.value if theirs is None else ():
                log.append(row)
        place = (
            f"{cell.problem.variant}, {cell.problem.size_name}={cell.size}, replication {cell.replication}"
        )
        say(
            f"{count}/{len(open_cells)} cells ({place}: {found}), {_clock(elapsed)} so far, "
            f"about {_clock(left)} left"
        )
    if failed:
        raise failed[
            0
        ]  # after all others: the file keeps what was found, and the same command goes on from there


Work = tuple[Cell, tuple[str, ...], Protocol, ResultLog | None, Sequence[Row]]
_warm: set[tuple[str, tuple[str, ...]]] = set()


def _one(work: Work) -> list[Row]:
    cell, models, protocol, log, rows = work
    if (cell.problem.name, models) not in _warm:
        warm_up(models, cell.problem)
        _warm.add((cell.problem.name, models))
    if log is not None:  # a worker before us may have died in this cell
        rows = [row for row in log.read().rows if cell.owns(row)]
    return run_cell(cell, models, protocol, log, rows)


def _clock(seconds: float) -> str:
    """``1 h 05 min``, ``3 min 20 s`` or ``12 s``.

    >>> _clock(3900), _clock(200), _clock(12.4)
    ('1 h 05 min', '3 min 20 s', '12 s')
    """
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
