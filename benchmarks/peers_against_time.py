"""The peers and the default model side by side: accuracy after 10, 30, 60 and 300 s, and at each one's end.

    make bench-peers PEERS_ARGS="--data DIR"              # everything: hours, resumed where it stopped
    .venv-peers/bin/python benchmarks/peers_against_time.py --tasks field-40 bimodal --marks 10 30 [--seed 0]
    .venv-peers/bin/python benchmarks/peers_against_time.py --table --figure docs/_static/peers.png

Processor seconds of training, one thread, one model after the other; scoring does not count. Where outputs are positive
and skewed (networks, queue) the models that assume normal noise are also fitted to the logarithm of the outputs. Models
that cannot be stopped (forest, hetGPy, ours) have one row, at their end. The peers run in ``.venv-peers``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from board.follow import follow
from board.models import factory
from board.problem import FULL, TINY, Size
from board.scores import COLUMNS
from board.tasks import chosen, problem

from dtmgp.experiments.results import Value, commit, origin, read_csv, write_csv

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "experiments" / "results" / "bench_peers.csv"
MARKS = (10.0, 30.0, 60.0, 300.0)
TASKS = (
    "network-single-4",
    "network-means-20",
    "field-200",
    "bimodal",
    "queue",
    "epidemic",
    "uci-concrete",
)
ALWAYS = (
    "default",
    "tmgp",
    "peers:SVGP",
    "peers:DeepGP(learning_rate=0.03, decay_steps=3000)",
    "peers:DSPP",
    "peers:StochasticImputationDGP",
    "peers:StochasticImputationDGP(hetero=False)",
    "peers:HetGP",
    "peers:QuantileForest",
    "peers:NaturalGradientBoosting",
    "peers:MixtureNetwork",
)
LOGGED = (
    "peers:SVGP(log_outputs=True)",
    "peers:DeepGP(learning_rate=0.03, decay_steps=1000, log_outputs=True)",
    "peers:NaturalGradientBoosting(log_outputs=True)",
    "peers:MixtureNetwork(log_outputs=True)",
)


def roster(task: str) -> tuple[str, ...]:
    """The models of a task."""
    return (*ALWAYS, *(LOGGED if task.startswith(("network", "queue")) else ()))


def main(
    tasks: Sequence[str] = TASKS,
    models: Sequence[str] = (),
    seed: int = 0,
    marks: Sequence[float] = MARKS,
    out: Path = OUT,
    *,
    data: Path | None = None,
    size: Size = FULL,
) -> list[dict[str, Value]]:
    """Run what is missing: a model on a task counts as done when its row at the last mark, or its end, is there."""
    rows = list(read_csv(out).rows) if out.exists() else []
    done = {
        _key(row) for row in rows if row["ended"] or float(row["train_cpu"] or 0) >= max(marks)
    }  # a failed model has ended, too
    for task in chosen(tuple(tasks)):
        if task.startswith("uci") and data is None:
            print(f"{task} left out: no --data DIR")
            continue
        given = None
        for text in models or roster(task):
            if (task, text, seed) in done:
                continue
            given = given or problem(task, seed, size, data)
            rows = [row for row in rows if _key(row) != (task, text, seed)]
            for seconds, ended, scores in _rows(text, given, seed, marks, size):
                row = {"task": task, "model": text, "seed": seed, "train_cpu": seconds, "ended": int(ended)}
                rows.append({**row, **scores, "commit": commit()})
                write_csv(out, rows, origin("make bench-peers", seed))
                print(_line(rows[-1]), flush=True)
    print(table(rows))
    return rows


def _rows(
    text: str, given: object, seed: int, marks: Sequence[float], size: Size
) -> Iterator[tuple[float, bool, dict[str, Value]]]:
    """Rows of one model; a peer that fails has one row, without scores and with the error in it."""
    try:
        for seconds, ended, scores in follow(factory(text)(seed), given, marks, size, seed):
            yield seconds, ended, {**scores, "error": None}
    except Exception as error:
        if not text.startswith("peers:"):
            raise
        message = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        yield 0.0, True, {**dict.fromkeys(COLUMNS), "error": message}


def _key(row: dict[str, Value]) -> tuple[Value, Value, Value]:
    return row["task"], row["model"], row["seed"]


def _line(row: dict[str, Value]) -> str:
    shown = [f"{name} {value:.4g}" for name, value in row.items() if isinstance(value, float)]
    return (
        f"{row['task']} {row['model']}: {', '.join(shown)}{' ' + str(row['error']) if row['error'] else ''}"
    )


def last_rows(rows: Sequence[dict[str, Value]]) -> dict[tuple[Value, Value, Value], dict[str, Value]]:
    """The last row of every model, task and seed."""
    return {_key(row): row for row in rows}


def table(rows: Sequence[dict[str, Value]]) -> str:
    """All rows by task, and the place of the default by KS10k (or NLL where there is no law) and CRPS at the ends."""
    lines = []
    for task in dict.fromkeys(str(row["task"]) for row in rows):
        own = [row for row in rows if row["task"] == task]
        lines += ["", task, f"    {'model':54} {'cpu s':>7}" + "".join(f"{name:>9}" for name in COLUMNS)]
        for row in own:
            cells = "".join(f"{'' if row[name] is None else format(row[name], '.4f'):>9}" for name in COLUMNS)
            error = f"  {row['error']}" if row["error"] else ""
            lines.append(f"    {row['model']!s:54} {float(row['train_cpu'] or 0):7.1f}{cells}{error}")
        ends = [row for key, row in last_rows(own).items()]
        for score in ("ks10k", "nll", "crps"):
            found = sorted((float(row[score]), str(row["model"])) for row in ends if row[score] is not None)
            names = [name for _, name in found]
            if "default" in names:
                lines.append(f"    default is number {names.index('default') + 1} of {len(names)} by {score}")
    return "\n".join(lines)


def figure(rows: Sequence[dict[str, Value]], target: Path) -> None:
    """CRPS over the best of all, minus one, against processor seconds of training; a panel for every task."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(str(row["task"]) for row in rows))
    models = list(dict.fromkeys(str(row["model"]) for row in rows if row["crps"] is not None))
    columns = min(4, len(tasks))
    drawing = Figure(
        figsize=(max(9.0, 3.6 * columns), 3.2 * -(-len(tasks) // columns) + 1.0), layout="constrained"
    )
    FigureCanvasAgg(drawing)
    panels = drawing.subplots(-(-len(tasks) // columns), columns, squeeze=False).ravel()
    for panel in panels[len(tasks) :]:
        panel.set_axis_off()
    for panel, task in zip(panels, tasks):
        own = [row for row in rows if row["task"] == task and row["crps"] is not None]
        best = min(float(row["crps"] or 0) for row in own)
        for model in models:
            part = sorted(
                (max(float(row["train_cpu"] or 0), 1e-2), float(row["crps"] or 0) / best - 1.0)
                for row in own
                if row["model"] == model
            )
            ours, number = not model.startswith("peers:"), models.index(model)
            style = {"color": "k" if ours else f"C{number % 10}", "ls": "-" if number < 10 else "--"}
            panel.plot(
                *zip(*part or [(np.nan, np.nan)]),
                marker="*" if ours else ".",
                ms=9 if model == "default" else 5,
                label=model.removeprefix("peers:"),
                **style,
            )
        panel.set(
            xscale="log",
            title=task,
            xlabel="training, processor seconds",
            ylabel="CRPS / best - 1",
        )
        panel.set_yscale("symlog", linthresh=1e-3)
        panel.set_ylim(bottom=-2e-4)
        panel.grid(True, which="major", lw=0.3)
    handles, labels = panels[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=7, frameon=False)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    drawing.savefig(part, format="png", dpi=110, metadata={"Software": None})
    part.replace(target)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--models", nargs="*", default=[], help="instead of the roster of each task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--marks", type=float, nargs="*", default=list(MARKS))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--data", type=Path, default=None, help="folder of the UCI sets, for the uci tasks")
    parser.add_argument("--tiny", action="store_true", help="40 inputs: does it run?")
    parser.add_argument("--table", action="store_true", help="print the table of the CSV, run nothing")
    parser.add_argument("--figure", type=Path, default=None, help="draw the CSV into this PNG")
    options = parser.parse_args()
    if options.table:
        print(table(read_csv(options.out).rows))
    else:
        scale = TINY if options.tiny else FULL
        main(
            options.tasks,
            options.models,
            options.seed,
            options.marks,
            options.out,
            data=options.data,
            size=scale,
        )
    if options.figure:
        figure(read_csv(options.out).rows, options.figure)
