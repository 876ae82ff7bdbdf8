"""The scoreboard: how close are the draws of a model to the truth, task by task, with bars and trivial baselines?

    python benchmarks/quality.py --tasks network field-40 bimodal --models default tmgp --seeds 0 1 2 [--out CSV]
    python benchmarks/quality.py --tasks uci --data DIR --models default --seeds 0 1 2 3 4 5 6 7 8 9
    python benchmarks/quality.py --validation --tasks field --models "default(max_epochs=50)" --seeds 0 1 2 3 4
    python benchmarks/quality.py --table               # of the rows that the CSV holds, without running anything

A task is a name or the beginning of several (``--list``). A model is a name of ``board/models.py``, with options in
brackets if any, or ``module:factory``. Rows that the CSV already holds are not run again, and several processes may
fill one CSV. Truth against truth and the trivial baselines are added to every task.

KS100 is the paper's statistic: 100 draws of the model against 100 of the truth, here the mean of ten such samples.
KS10k: 10,000 draws of the model against the exact cdf, or against 10,000 draws of the truth where the cdf is not known
(the networks). CRPS, NLL and coverage are those of 100 observations of the truth per test input; the RMSE is of the
mean against the true mean, or the observations (UCI). Training, test inputs and test draws have streams of their own;
``--validation`` scores on a held-out fifth of the *training* inputs only, and is what a choice of settings may look at.
"""

from __future__ import annotations

import argparse
import fcntl
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from board.bars import BARS, Bar, misses
from board.models import TRIVIAL, factory
from board.problem import FULL, TINY, Problem, Size, held_out
from board.scores import COLUMNS, Scores, score_model, score_truth
from board.tasks import TASKS, chosen, problem

from dtmgp.experiments.results import Value, commit, origin, read_csv, write_csv

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "experiments" / "results" / "quality.csv"
TRUTH = "truth"
COMMAND = "python benchmarks/quality.py --tasks ... --models ... --seeds ..., row by row"
SHOWN = {"ks100": 4, "ks10k": 4, "crps": 4, "nll": 3, "rmse": 4, "cover50": 3, "cover90": 3, "cover99": 3}


def one(task: str, model: str, seed: int, given: Problem, size: Size) -> dict[str, Value]:
    """Fit and score one model once; seconds by the clock and of the processor (all threads)."""
    row: dict[str, Value] = {"task": task, "model": model, "seed": seed}
    if model == TRUTH:
        timing: Scores = {"fit_wall": None, "fit_cpu": None, "score_wall": None}
        scores = score_truth(given, size)
    else:
        estimator = factory(model)(seed)
        wall, cpu = time.perf_counter(), time.process_time()
        estimator.fit(given.X, given.y)
        fitted, spent = time.perf_counter(), time.process_time()
        scores = score_model(given, estimator, size, seed)
        scored = time.perf_counter()
        timing = {"fit_wall": fitted - wall, "fit_cpu": spent - cpu, "score_wall": scored - fitted}
    return {**row, **timing, **{name: scores[name] for name in COLUMNS}, "commit": commit()}


def append(path: Path, row: dict[str, Value]) -> None:
    """Add a row to the CSV of this and other processes: read, add, replace, one process at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = ROOT / "out" / "board" / "csv.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        rows = [old for old in rows_of(path) if _key(old) != _key(row)]
        write_csv(path, [*rows, row], origin(COMMAND, None))


def rows_of(path: Path) -> list[dict[str, Value]]:
    """The rows of a CSV, none if there is no such file."""
    return list(read_csv(path).rows) if path.exists() else []


def _key(row: dict[str, Value]) -> tuple[Value, Value, Value]:
    return row["task"], row["model"], row["seed"]


def table(rows: Sequence[dict[str, Value]]) -> str:
    """Means over seeds with their standard errors, per task and model; bars missed, and the best of the peers."""
    lines = []
    for task in [name for name in TASKS if any(row["task"] == name for row in rows)]:
        bar = BARS.get(task, Bar({}))
        stated = ", ".join(f"{name} {limit:g}" for name, limit in bar.limits.items())
        lines += [
            "",
            f"{task}   bars: {stated or 'none'}",
            f"    peers before: {bar.peers}" if bar.peers else "",
        ]
        lines.append(f"    {'model':34} seeds {'fit s':>7} " + " ".join(f"{name:>15}" for name in SHOWN))
        truth: Scores = {}
        names = dict.fromkeys(row["model"] for row in rows if row["task"] == task)
        for model in sorted(names, key=lambda name: name != TRUTH):
            own = [row for row in rows if (row["task"], row["model"]) == (task, model)]
            columns = {
                name: np.array([float(row[name]) for row in own if row[name] is not None])
                for name in ("fit_wall", *SHOWN)
            }
            means: Scores = {name: float(v.mean()) if len(v) else None for name, v in columns.items()}
            truth = means if model == TRUTH else truth
            cells = " ".join(f"{_cell(columns[name], digits):>15}" for name, digits in SHOWN.items())
            seconds = "" if means["fit_wall"] is None else f"{means['fit_wall']:.1f}"
            verdict = "" if model in (TRUTH, *TRIVIAL) else _verdict(task, means, truth)
            lines.append(f"    {model!s:34} {len(own):5} {seconds:>7} {cells}{verdict}")
    return "\n".join(lines)


def _cell(values: np.ndarray, digits: int) -> str:
    if not len(values):
        return ""
    error = f"±{values.std(ddof=1) / len(values) ** 0.5:.{digits}f}"[2:] if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}" + (f" ±{error}" if error else "")


def _verdict(task: str, means: Scores, truth: Scores) -> str:
    # Without KS these are rows of --validation, which have no bars.
    unknown = means["ks100"] is None and BARS.get(task, Bar({})).limits.keys() - {"fit_wall"}
    if task not in BARS or unknown:
        return ""
    missed = misses(task, means, truth)
    return "   missed: " + ", ".join(missed) if missed else "   met"


def main(
    tasks: Sequence[str] = (),
    models: Sequence[str] = ("default",),
    seeds: Sequence[int] = (0,),
    out: Path = OUT,
    *,
    data: Path | None = None,
    validation: bool = False,
    size: Size = FULL,
) -> list[dict[str, Value]]:
    """Run what is missing in ``out``, print the table of these tasks, and return its rows."""
    names = [name for name in chosen(tuple(tasks)) if data is not None or not name.startswith("uci") or tasks]
    for task in names:
        for seed in seeds:
            done = {_key(row) for row in rows_of(out)}
            wanted = [*([] if validation else [TRUTH]), *TRIVIAL, *models]
            missing = [model for model in dict.fromkeys(wanted) if (task, model, seed) not in done]
            if not missing:
                continue
            given = problem(task, seed, size, data)
            if validation:
                given = held_out(given, task, seed)
            for model in missing:
                if model == TRUTH and given.draw is None:
                    continue
                row = one(task, model, seed, given, size)
                append(out, row)
                print(_line(row), flush=True)
    rows = [row for row in rows_of(out) if row["task"] in names]
    print(table(rows))
    return rows


def _line(row: dict[str, Value]) -> str:
    shown = [
        f"{name} {value:.4g}" for name, value in row.items() if isinstance(value, float) and value == value
    ]
    return f"{row['task']} {row['model']} seed {row['seed']}: {', '.join(shown)}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="*", default=[], help="names or beginnings of names; all if none")
    parser.add_argument("--models", nargs="*", default=["default"])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--out", type=Path, default=None, help="CSV; rows already there are kept")
    parser.add_argument("--data", type=Path, default=None, help="folder of the UCI sets, for the uci tasks")
    parser.add_argument("--validation", action="store_true", help="score on held-out training inputs only")
    parser.add_argument("--tiny", action="store_true", help="40 inputs, 5 test inputs: does it run?")
    parser.add_argument("--table", action="store_true", help="print the table of the CSV, run nothing")
    parser.add_argument("--list", action="store_true", help="names of the tasks")
    return parser


if __name__ == "__main__":
    arguments = _parser().parse_args()
    kind = "".join(["_validation" if arguments.validation else "", "_tiny" if arguments.tiny else ""])
    target = arguments.out or (ROOT / "out" / f"quality{kind}.csv" if kind else OUT)
    if arguments.list:
        print("\n".join(TASKS))
    elif arguments.table:
        kept = chosen(arguments.tasks)
        print(table([row for row in rows_of(target) if row["task"] in kept]))
    else:
        main(
            arguments.tasks,
            arguments.models,
            arguments.seeds,
            target,
            data=arguments.data,
            validation=arguments.validation,
            size=TINY if arguments.tiny else FULL,
        )
