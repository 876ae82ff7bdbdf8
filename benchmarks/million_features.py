"""Layers of up to ten million features, trained end to end: error against level, time per step and memory against m.

    python benchmarks/million_features.py [--levels 8 10 12 14 16] [--rows 200000] [--epochs 8] [--decay 0.5]
    [--known-noise]

A field on the unit cube with detail on 14 octaves, ``w1(x1) + w2(x2) x3 + w3(x3) / 2 + N(0, 0.02^2)`` with
``w(t) = sum_{k<14} 2^(-decay k) sin(2 pi 2^k t + phase_k)``: what level l does not hold has a standard deviation of
about 2^(-decay l). Decay 1/2 is that of the kernel's own paths; at 1/4 the finest octave still has a tenth of the
amplitude of the first. One layer with a Laplace kernel of lengthscale and variance 10 (nearly additive), built by
``deep_model`` and trained by ``train`` with ELBO; bias and noise are learned, or the noise is known. Weights are in
tables at all levels (by default: from 2^18 weights on). Every level runs in its own process, which reports how much its
peak resident memory has grown since before the model. Rows are written as they are made; those that are there are not
made again. Processor time of one core; the error is that of the mean at 4,000 other inputs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from lazy_step import resident

from dtmgp.experiments.results import Value, origin, read_csv, write_csv
from dtmgp.inference import ELBO, Runs
from dtmgp.inference.trainer import Callback, Settings, train
from dtmgp.kernels import Laplace, Tensor
from dtmgp.likelihoods import GaussianLikelihood
from dtmgp.model import DTMGP, deep_model
from dtmgp.model.large import with_tables

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "experiments" / "results" / "bench_million_features.csv"
NOISE, OCTAVES = 0.02, 14


def waves(t: np.ndarray, seed: int, decay: float) -> np.ndarray:
    """One coordinate's detail."""
    phases = 2 * np.pi * np.random.default_rng(seed).random(OCTAVES)
    return sum(2 ** (-decay * k) * np.sin(2 * np.pi * 2**k * t + phases[k]) for k in range(OCTAVES))  # type: ignore[return-value]


def field(x: np.ndarray, decay: float) -> np.ndarray:
    """The true mean."""
    first, second, third = (waves(x[:, j], j + 1, decay) for j in range(3))
    return first + second * x[:, 2] + 0.5 * third


def one(level: int, rows: int, epochs: int, batch: int, decay: float, known: bool) -> dict[str, Value]:
    """Train and score one level in this process."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    x, new = rng.random((rows, 3)), rng.random((4000, 3))
    y = field(x, decay) + NOISE * rng.normal(size=rows)
    centre, spread = y.mean(), y.std()
    inputs, outputs, new_inputs = (
        torch.as_tensor(a, dtype=torch.float32) for a in (x, ((y - centre) / spread)[:, None], new)
    )
    runs = Runs(inputs, outputs, torch.arange(rows + 1))
    _fit(runs.take(torch.arange(2 * batch)), 4, 2, batch, None)  # compiles
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = resident("VmRSS")
    marks: list[float] = []
    model = _fit(
        runs,
        level,
        epochs,
        batch,
        NOISE / spread if known else None,
        lambda _: marks.append(time.process_time()) or None,
    )
    steps = runs.steps(batch)
    per_step = [(b - a) / steps for a, b in itertools.pairwise(marks)]
    with torch.no_grad():
        mean = torch.cat([model(part).mean[0, :, 0] for part in new_inputs.split(1000)]).double().numpy()
    plan = model.stack[0].features.plans[0]  # type: ignore[union-attr]
    table = model.stack[0].weights.table
    milliseconds = 1e3 * sorted(per_step)[len(per_step) // 2]
    return {
        "noise": "known" if known else "learned",
        "decay": decay,
        "level": level,
        "m": plan.size,
        "T": plan.active,
        "kind": type(model.stack[0]).__name__,
        "rows": rows,
        "epochs": epochs,
        "batch": batch,
        "rmse": float(np.sqrt(np.mean((mean * spread + centre - field(new, decay)) ** 2))),
        "noise at the end": float(model.likelihood.log_noise.detach().exp()) * spread,  # type: ignore[operator, union-attr]
        "step ms": milliseconds,
        "ns per active feature": 1e6 * milliseconds / (batch * plan.active),
        "weights and optimiser MiB": (table._excess.nbytes + table._last.nbytes) / 2**20,
        "growth of peak memory MiB": resident("VmHWM") - before,
        "cpu seconds": round(time.process_time(), 1),
    }


def _fit(runs: Runs, level: int, epochs: int, batch: int, noise: float | None, *callbacks: Callback) -> DTMGP:
    likelihood = GaussianLikelihood()
    with torch.no_grad():
        likelihood.log_noise.fill_(math.log(0.1 if noise is None else noise))
    likelihood.log_noise.requires_grad_(noise is None)
    kernel = Tensor(Laplace(10.0), dim=3, variance=10.0)
    model = deep_model(
        3,
        likelihood,
        hidden_widths=(),
        levels=(level,),
        kernels=kernel,
        linear_means=False,
        learn_kernel=False,
    )
    model = with_tables(model, table_from=1)  # small levels too, so that all are trained in one way
    settings = Settings(epochs, batch, 0.01, warm_up=0.1)
    generator = torch.Generator().manual_seed(0)
    train(model, runs, ELBO(), settings, generator=generator, callbacks=callbacks)
    return model


def main(
    levels: tuple[int, ...] = (4, 6),
    rows: int = 5000,
    epochs: int = 4,
    batch: int = 500,
    decay: float = 0.5,
    known: bool = False,
    out: Path = OUT,
) -> None:
    """Every level that is not in the table yet, in a process of its own."""
    table = read_csv(out).rows if out.exists() else []
    done = {
        (row["noise"] == "known", row["decay"], row["level"], row["rows"], row["epochs"], row["batch"])
        for row in table
    }
    command = (
        f"python benchmarks/million_features.py --levels {' '.join(map(str, levels))} --rows {rows} "
        f"--epochs {epochs} --batch {batch} --decay {decay:g}{' --known-noise' if known else ''}"
    )
    for level in levels:
        if (known, decay, level, rows, epochs, batch) in done:
            continue
        words = [sys.executable, __file__, "--one", str(level), "--rows", str(rows), "--epochs", str(epochs)]
        words += ["--batch", str(batch), "--decay", str(decay), *(["--known-noise"] if known else [])]
        made = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        table.append(json.loads(made.stdout.splitlines()[-1]))
        table.sort(
            key=lambda row: (-float(str(row["decay"])), str(row["noise"])[::-1], int(str(row["level"])))
        )
        print(made.stdout.splitlines()[-1], flush=True)
        write_csv(out, table, origin(command, 0))


def figure(table: Path, path: Path) -> None:
    """Error against level, time per step and memory against m."""
    import matplotlib.pyplot as plt

    rows = read_csv(table).rows
    _, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for noise, decay in dict.fromkeys((row["noise"], row["decay"]) for row in rows):
        own = [row for row in rows if (row["noise"], row["decay"]) == (noise, decay)]
        label = f"decay {decay}, noise {noise}"
        left.semilogy(*([row[name] for row in own] for name in ("level", "rmse")), "o-", label=label)
    left.set(xlabel="level", ylabel="RMSE of the mean")
    own = [row for row in rows if (row["noise"], row["decay"]) == (rows[0]["noise"], rows[0]["decay"])]
    size = [row["m"] for row in own]
    middle.loglog(size, [row["step ms"] for row in own], "o-", label="a step, ms")
    middle.loglog(size, [row["ns per active feature"] for row in own], "s--", label="an active feature, ns")
    middle.set(xlabel="features m", ylabel="processor time")
    names = {"weights and optimiser MiB": "o-", "growth of peak memory MiB": "s--"}
    for name, mark in names.items():
        right.loglog(size, [row[name] for row in own], mark, label=name.removesuffix(" MiB"))
    right.set(xlabel="features m", ylabel="MiB")
    left.legend(frameon=False, fontsize=8, loc=(0.02, 0.45))
    for axes in (middle, right):
        axes.legend(frameon=False)
    plt.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--levels", nargs="*", type=int, default=[8, 10, 12, 14, 16])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--decay", type=float, default=0.5)
    parser.add_argument("--known-noise", action="store_true")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--figure", type=Path, default=None)
    parser.add_argument("--one", type=int, default=None)
    chosen = parser.parse_args()
    if chosen.one is not None:
        print(
            json.dumps(
                one(chosen.one, chosen.rows, chosen.epochs, chosen.batch, chosen.decay, chosen.known_noise)
            )
        )
    else:
        main(
            tuple(chosen.levels),
            chosen.rows,
            chosen.epochs,
            chosen.batch,
            chosen.decay,
            chosen.known_noise,
            chosen.out,
        )
        if chosen.figure is not None:
            figure(chosen.out, chosen.figure)
