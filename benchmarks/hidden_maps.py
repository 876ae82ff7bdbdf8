"""Maps from hidden outputs to grid coordinates: affine with a learned scale, affine fixed, normal cdf.

    python benchmarks/hidden_maps.py [--seeds 0 1 2] [--epochs 250]
    python benchmarks/hidden_maps.py --started [--seeds 0 1 2]    # the Gauss-Newton start alone: evidence and RMSE

Two tasks with 300 inputs: the activity network (13 inputs, averages of 1000 runs) and a ridge of two inputs with a
kink. The model is the estimator's shape with a Gaussian likelihood (two layers, as wide as the inputs, 60 and 300
features at most, Matern-3/2) and everything trained by `Predictive` and Adam from the same weights; maps alternate in
every seed. Held-out negative log density and RMSE in units of the standardised outputs, on 1000 new inputs. Trained
without the Gauss-Newton start, so that the map and not the start decides; the start, which the estimator makes, is
compared by itself (it does not move the scales of maps).
"""

from __future__ import annotations

import argparse
import functools
import time
from pathlib import Path

import numpy as np
import torch

from dtmgp.estimators.deep_fit import largest_level
from dtmgp.experiments.results import Value, origin, read_csv, write_csv
from dtmgp.inference import Predictive, Runs
from dtmgp.inference.gauss_newton import GaussNewton, gauss_newton_start
from dtmgp.inference.trainer import Settings, train
from dtmgp.inference.validation import negative_log_density
from dtmgp.kernels import Matern32
from dtmgp.layers import AffineMap, NormalCdfMap
from dtmgp.likelihoods import GaussianLikelihood
from dtmgp.model import DTMGP, deep_model
from dtmgp.simulators import ActivityNetwork

OUT = Path(__file__).resolve().parents[1] / "experiments" / "results" / "bench_hidden_maps.csv"
STARTED = OUT.with_name("bench_hidden_maps_started.csv")
MAPS = {
    "affine, learned": AffineMap,
    "affine, fixed": functools.partial(AffineMap, learn=False),
    "normal cdf, learned": NormalCdfMap,
    "normal cdf, fixed": functools.partial(NormalCdfMap, learn=False),
}
TASKS = ("network, means of 1000", "ridge with a kink")
LEARN, TEST = 300, 1000


def data(task: str, seed: int) -> tuple[Runs, Runs]:
    """Runs to learn from and runs to judge, inputs in the unit cube, outputs standardised by the former."""
    rng = np.random.default_rng([seed, 5])
    if task == TASKS[0]:
        x = rng.uniform(size=(LEARN + TEST, 13))
        simulator = ActivityNetwork(runs=1000)
        low, high = simulator.bounds.T
        y = simulator.sample(low + (high - low) * x, 1, random_state=seed)
    else:
        x = rng.uniform(size=(LEARN + TEST, 2))
        y = np.abs(2 * x[:, :1] + x[:, 1:] - 1.5) + np.sin(6 * x[:, 1:]) + 0.1 * rng.normal(size=(len(x), 1))
    y = (y - y[:LEARN].mean()) / y[:LEARN].std()
    return Runs.group(x[:LEARN], y[:LEARN]), Runs.group(x[LEARN:], y[LEARN:])


def build(dim: int, name: str, seed: int) -> DTMGP:
    """A fresh model."""
    return deep_model(
        dim,
        GaussianLikelihood(),
        hidden_widths=(dim,),
        levels=tuple(largest_level(Matern32(), dim, most) for most in (60, LEARN)),
        mapping=MAPS[name],  # type: ignore[arg-type]
        generator=torch.Generator().manual_seed(seed),
    )


def started(task: str, name: str, seed: int) -> dict[str, Value]:
    """Start one model and judge its mean path."""
    learn, test = data(task, seed)
    model = build(learn.x.shape[1], name, seed)
    found = gauss_newton_start(model, learn, GaussNewton())
    assert found is not None
    with torch.no_grad():
        quiet = model.shared_noise(1, test.x)
        mean = model(test.x, noise=quiet._replace(hidden=tuple(h * 0 for h in quiet.hidden))).mean[0]
    return {
        "task": task,
        "map": name,
        "seed": seed,
        "log_evidence": found.log_evidence,
        "steps": found.steps,
        "rmse": float((mean - test.y).square().mean().sqrt()),
    }


def one(task: str, name: str, seed: int, epochs: int) -> dict[str, Value]:
    """Train and judge one model."""
    learn, test = data(task, seed)
    model = build(learn.x.shape[1], name, seed)
    cpu = time.process_time()
    settings = Settings(epochs=epochs, batch_size=100, learning_rate=0.02)
    train(model, learn, Predictive(8), settings, generator=torch.Generator().manual_seed(seed))
    cpu = time.process_time() - cpu
    with torch.no_grad():
        mean = model(test.x, noise=model.shared_noise(128, test.x)).mean.mean(0)
    return {
        "task": task,
        "map": name,
        "seed": seed,
        "nlpd": negative_log_density(model, test, samples=128),
        "rmse": float((mean - test.y).square().mean().sqrt()),
        "train_cpu": round(cpu, 1),
    }


def table() -> str:
    """Mean and standard error over seeds, as Markdown."""
    rows = read_csv(OUT).rows
    lines = ["| task | map | NLPD | RMSE |", "|---|---|---|---|"]
    for task in TASKS:
        for name in MAPS:
            cells = []
            for column in ("nlpd", "rmse"):
                own = [float(r[column] or 0) for r in rows if r["task"] == task and r["map"] == name]
                error = np.std(own, ddof=1) / np.sqrt(len(own)) if len(own) > 1 else float("nan")
                cells.append(f"{np.mean(own):.3f} ± {error:.3f}")
            lines.append(f"| {task} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(seeds: tuple[int, ...] = (0,), epochs: int = 20) -> None:
    """All tasks, seeds and maps; the table is rewritten after each."""
    rows: list[dict[str, Value]] = []
    for seed in seeds:
        for task in TASKS:
            for name in MAPS:
                rows.append(one(task, name, seed, epochs))
                print(rows[-1], flush=True)
                command = (
                    f"python benchmarks/hidden_maps.py --seeds {' '.join(map(str, seeds))} --epochs {epochs}"
                )
                write_csv(OUT, rows, origin(command, None))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--started", action="store_true", help="the Gauss-Newton start instead of training")
    parser.add_argument("--table", action="store_true", help="print the table of the CSV, run nothing")
    options = parser.parse_args()
    if options.table:
        print(table())
    elif options.started:
        fixed = [name for name in MAPS if name.endswith("fixed")]
        starts = [started(task, name, seed) for task in TASKS for seed in options.seeds for name in fixed]
        print(*starts, sep="\n")
        stated = f"python benchmarks/hidden_maps.py --started --seeds {' '.join(map(str, options.seeds))}"
        write_csv(STARTED, starts, origin(stated, None))
    else:
        main(tuple(options.seeds), options.epochs)
