"""Accuracy against training time, side by side: GPyTorch's deep GP and the default model on the activity network.

    .venv-peers/bin/python benchmarks/time_to_quality.py [--tasks network-means-20 network-single-4] [--seed 0]
    .venv-peers/bin/python benchmarks/time_to_quality.py --only deep-gp     # one side now; the other can follow
    .venv-peers/bin/python benchmarks/time_to_quality.py --epochs           # cost of an epoch, 20 against 2 replicates
    .venv-peers/bin/python benchmarks/time_to_quality.py --table --figure docs/_static/time_to_quality.png

Every contestant is a process of its own with one thread. They take turns: one runs for a few seconds while the others
are stopped (SIGSTOP), so that both meet the same machine. Seconds are processor seconds of training alone; scoring,
imports and the compilation of loops (a warm-up fit) are left out. The deep GP (width 10, 128 inducing points, squared
exponential, minibatch 1024, 10 samples, noise started at 0.5; its learning rate falls from 0.03 along a cosine over the
steps that its last mark allows) is scored at the marks as it trains. The default model is scored at the end of complete
fits: with its own budget, and with others if ``--ours`` names them. Its time to quality is that of the cheapest fit
which is at least as accurate as the deep GP at its last mark.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from board.follow import follow
from board.models import factory
from board.problem import FULL, TINY, Size
from board.scores import COLUMNS
from board.tasks import problem

from dtmgp.errors import InputError
from dtmgp.experiments.results import Value, commit, origin, read_csv, write_csv

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "experiments" / "results" / "time_to_quality.csv"
EPOCHS_OUT = ROOT / "experiments" / "results" / "time_per_epoch.csv"
TASKS = ("network-means-20", "network-single-4")
MARKS = {"network-means-20": (10.0, 30.0, 60.0, 120.0, 300.0), "network-single-4": (10.0, 30.0, 60.0)}
SLICE = 5.0  # seconds of one turn
# contestant -> models; those with steps are one model scored at marks, the others complete fits
CONTESTANTS: dict[str, dict[str, tuple[str, ...]]] = {
    "deep-gp": {
        "network-means-20": ("peers:DeepGP(learning_rate=0.03, decay_steps=2500)",),
        "network-single-4": ("peers:DeepGP(learning_rate=0.03, decay_steps=500, log_outputs=True)",),
    },
    "default": {
        "network-means-20": ("default",),
        "network-single-4": ("default",),
    },
}
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


def work(contestant: str, task: str, seed: int, size: Size, models: Sequence[str]) -> None:
    """The body of a contestant's process: a line of JSON on standard output for every score."""
    given = problem(task, seed, size)
    marks = MARKS.get(task, (1.0,)) if size == FULL else (0.2, 0.5)
    for text in models:
        if contestant == "default":
            factory(text)(seed).fit(given.X[:200], given.y[:200])  # compiles
        row = {"task": task, "contestant": contestant, "model": text, "seed": seed}
        for seconds, _, scores in follow(factory(text)(seed), given, marks, size, seed):
            print(json.dumps({**row, "train_cpu": seconds, **scores}), flush=True)


def race(commands: dict[str, list[str]], slice_seconds: float) -> dict[str, list[dict[str, Value]]]:
    """Run the processes in turns until all have ended; their rows, by contestant. Rows are shown as they come."""
    folder = ROOT / "out" / "time_to_quality"
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **ONE_THREAD}
    files = {name: folder / f"{name}.jsonl" for name in commands}
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command in commands.items():
            with files[name].open("wb") as file:
                running[name] = subprocess.Popen(command, stdout=file, env=environment)
            running[name].send_signal(signal.SIGSTOP)
        ended: dict[str, int] = {}
        while len(ended) < len(running):
            for name, process in running.items():
                if name in ended:
                    continue
                process.send_signal(signal.SIGCONT)
                try:
                    ended[name] = process.wait(slice_seconds)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGSTOP)
    finally:
        for process in running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
    failed = [name for name, code in ended.items() if code]
    if failed:
        raise InputError("contestant", got=f"{', '.join(failed)} failed", expected="a run to the end")
    return {
        name: [json.loads(line) for line in file.read_text().splitlines()] for name, file in files.items()
    }


def main(
    tasks: Sequence[str] = TASKS,
    only: Sequence[str] = tuple(CONTESTANTS),
    seed: int = 0,
    out: Path = OUT,
    *,
    size: Size = FULL,
    models: dict[str, dict[str, tuple[str, ...]]] = CONTESTANTS,
    slice_seconds: float = SLICE,
) -> list[dict[str, Value]]:
    """Race on every task; rows of these contestants, tasks and seed replace older ones. Returns all rows."""
    for task in tasks:
        problem(task, seed, size)  # makes the data and the truth before the clock matters
        commands = {}
        for name in only:
            call = ["--work", name, "--tasks", task, "--seed", str(seed), "--models", *models[name][task]]
            commands[name] = [
                sys.executable,
                __file__,
                *call,
                *(["--tiny"] if size != FULL else []),
            ]
        run = time.strftime("%Y-%m-%d %H:%M")
        found = race(commands, slice_seconds)
        rows = list(read_csv(out).rows) if out.exists() else []
        new = {(name, task, seed) for name in only}
        rows = [row for row in rows if (row["contestant"], row["task"], row["seed"]) not in new]
        for name in only:
            rows += [
                {**row, "run": run, "side_by_side": len(only), "commit": commit()} for row in found[name]
            ]
        write_csv(
            out, rows, origin(f"python benchmarks/time_to_quality.py --seed {seed}, task by task", seed)
        )
    rows = list(read_csv(out).rows)
    print(table(rows))
    return rows


def table(rows: Sequence[dict[str, Value]]) -> str:
    """Scores against time, and the ratio of the times to the deep GP's last accuracy."""
    lines = []
    for task in dict.fromkeys(str(row["task"]) for row in rows):
        own = [row for row in rows if row["task"] == task]
        lines += ["", task, f"    {'model':60} {'cpu s':>7}" + "".join(f"{name:>9}" for name in COLUMNS)]
        for row in own:
            cells = "".join(f"{'' if row[name] is None else format(row[name], '.4f'):>9}" for name in COLUMNS)
            lines.append(f"    {row['model']!s:60} {float(row['train_cpu'] or 0):7.1f}{cells}")
        lines += verdict(own)
    return "\n".join(lines)


def verdict(rows: Sequence[dict[str, Value]]) -> list[str]:
    """Time of the cheapest fit of the default that is as accurate as the deep GP at its last mark, and at its best."""
    ours = [row for row in rows if row["contestant"] == "default"]
    theirs = [row for row in rows if row["contestant"] == "deep-gp"]
    if not ours or not theirs:
        return []
    found = []
    for what, target in (
        ("last", theirs[-1]),
        ("best", min(theirs, key=lambda row: float(row["ks100"] or 1))),
    ):
        enough = [row for row in ours if float(row["ks100"] or 1) <= float(target["ks100"] or 0)]
        text = f"deep GP's {what}: KS100 {target['ks100']:.4f} at {target['train_cpu']:.0f} s; default: "
        if enough:
            seconds = min(float(row["train_cpu"] or 0) for row in enough)
            text += f"as good after {seconds:.1f} s, 1/{float(target['train_cpu'] or 0) / seconds:.1f} of its time"
        else:
            text += "not reached"
        found.append(f"    {text}")
    return found


def epochs(seed: int = 0, size: Size = FULL, passes: int = 4, repeats: int = 3) -> dict[str, Value]:
    """Processor seconds of an epoch of the default on 5000 inputs with 2 and 20 replicates, in turns; medians."""
    given = problem("network-single-20", seed, size)
    taken: dict[int, list[float]] = {2: [], 20: []}
    for repeat in range(repeats + 1):  # the first one compiles
        for replicates, times in taken.items():
            kept = (np.arange(len(given.y)) % 20) < replicates
            ticks: list[float] = []
            model = factory("default")(seed).set_params(
                max_epochs=passes, callbacks=(lambda state, ticks=ticks: ticks.append(time.process_time()),)
            )
            model.fit(given.X[kept], given.y[kept])
            if repeat:
                times += list(np.diff(ticks))
    two, twenty = (float(np.median(taken[m])) for m in (2, 20))
    row: dict[str, Value] = {
        "epoch_x2": two,
        "epoch_x20": twenty,
        "ratio": twenty / two,
        "epochs": len(taken[2]),
    }
    print(f"an epoch costs {two:.3f} s at 2 replicates, {twenty:.3f} s at 20: ratio {twenty / two:.2f}")
    return row


def figure(rows: Sequence[dict[str, Value]], target: Path) -> None:
    """KS100 against processor seconds of training, a panel for every task."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(str(row["task"]) for row in rows))
    drawing = Figure(figsize=(5.2 * len(tasks), 3.8), layout="constrained")
    FigureCanvasAgg(drawing)
    for axis, task in zip(np.atleast_1d(drawing.subplots(1, len(tasks))), tasks):
        lines: dict[tuple[str, str], list[dict[str, Value]]] = {}  # a line for every contestant and seed
        for row in rows:
            if row["task"] == task:
                lines.setdefault((str(row["contestant"]), str(row["seed"])), []).append(row)
        labels = {"deep-gp": "GPyTorch DeepGP", "default": "DTMGPRegressor()"}
        for (name, _), own in lines.items():
            seconds, ks = ([float(row[key] or 0) for row in own] for key in ("train_cpu", "ks100"))
            order = np.argsort(seconds)
            axis.plot(
                np.take(seconds, order),
                np.take(ks, order),
                "o-",
                ms=4,
                color=f"C{list(CONTESTANTS).index(name)}",
                label=labels.pop(name, None),
            )
        axis.set(xscale="log", xlabel="training, processor seconds", ylabel="KS100", title=task)
        axis.set_xticks([5, 10, 30, 100, 300], labels=["5", "10", "30", "100", "300"])
        axis.minorticks_off()
        axis.grid(True, which="major", lw=0.3)
        axis.legend(frameon=False)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    drawing.savefig(part, format="png", dpi=110, metadata={"Software": None})
    part.replace(target)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--only", nargs="*", default=list(CONTESTANTS), choices=list(CONTESTANTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--epochs", action="store_true", help="measure the cost of an epoch instead")
    parser.add_argument("--table", action="store_true", help="print the table of the CSV, run nothing")
    parser.add_argument("--figure", type=Path, default=None, help="draw the CSV into this PNG")
    parser.add_argument(
        "--tiny", action="store_true", help="small data and a second of training: does it run?"
    )
    parser.add_argument(
        "--ours", nargs="*", default=[], help="more fits of the default, e.g. default(max_epochs=10)"
    )
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--models", nargs="*", default=[], help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    scale = TINY if chosen.tiny else FULL
    if chosen.work:
        work(chosen.work, chosen.tasks[0], chosen.seed, scale, chosen.models)
    elif chosen.epochs:
        stated = origin("python benchmarks/time_to_quality.py --epochs", chosen.seed)
        write_csv(EPOCHS_OUT, [epochs(chosen.seed, scale)], stated)
    else:
        if not chosen.table:
            extended = {
                name: {
                    task: (*texts, *(chosen.ours if name == "default" else ())) for task, texts in own.items()
                }
                for name, own in CONTESTANTS.items()
            }
            main(chosen.tasks, chosen.only, chosen.seed, chosen.out, size=scale, models=extended)
        kept = list(read_csv(chosen.out).rows)
        if chosen.table:
            print(table(kept))
        if chosen.figure:
            figure(kept, chosen.figure)
