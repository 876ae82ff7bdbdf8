"""`TMGPRegressor` on many rows: seconds, peak memory and accuracy at d=3, level 10 (47,103 features).

    python benchmarks/kriging_scale.py [--rows 1000000 100000]

The response is sin(20 x1 x2) + cos(15 x3) + N(0, 0.1^2) on the unit cube; every size runs in its own process, which
reports its own peak resident memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from dtmgp import TMGPRegressor
from dtmgp.experiments.results import origin, write_csv
from dtmgp.kernels import Laplace
from dtmgp.metrics import coverage, rmse

OUT = Path(__file__).resolve().parents[1] / "experiments" / "results" / "bench_kriging_scale.csv"


def response(x: np.ndarray) -> np.ndarray:
    """The true mean."""
    return np.sin(20 * x[:, 0] * x[:, 1]) + np.cos(15 * x[:, 2])


def one(rows: int, level: int) -> dict[str, object]:
    """Fit and score one size."""
    rng = np.random.default_rng(0)
    x = rng.random((rows, 3))
    y = response(x) + 0.1 * rng.normal(size=rows)
    start, cpu = time.perf_counter(), time.process_time()
    model = TMGPRegressor(Laplace(), level).fit(x, y)
    fitted, cpu = time.perf_counter(), time.process_time() - cpu
    x_test = rng.random((2000, 3))
    mean, std = model.predict(x_test, return_std=True)
    y_test = response(x_test) + 0.1 * rng.normal(size=2000)
    return {
        "rows": rows,
        "features": model.expansion_.size,
        "active": model.expansion_.active_per_input,
        "fit_seconds": round(fitted - start, 1),
        "fit_cpu_seconds": round(cpu, 1),  # of all threads: what to compare on a machine that others use
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "cg_iterations": getattr(model.models_[0].posterior, "iterations", 0),
        "evaluations": model.n_iter_,
        "rmse_of_mean": rmse(response(x_test), mean),
        "noise_std": float(np.sqrt(model.noise_[0])),
        "coverage_90": coverage(y_test, mean - 1.645 * std, mean + 1.645 * std),
        "path": model.path_,
    }


def main(rows: tuple[int, ...] = (10_000,), level: int = 10) -> None:
    """Every size in a fresh process; the table is rewritten after each."""
    table: list[dict[str, object]] = []
    for size in rows:
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(size), "--level", str(level)],
            capture_output=True,
            text=True,
            check=True,
        )
        table.append(json.loads(done.stdout.splitlines()[-1]))
        table.sort(key=lambda row: int(str(row["rows"])))
        print(done.stdout.splitlines()[-1], flush=True)
        command = f"python benchmarks/kriging_scale.py --rows {' '.join(map(str, rows))}"
        write_csv(OUT, table, origin(command, 0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="*", type=int, default=[10_000])
    parser.add_argument("--level", type=int, default=10)
    parser.add_argument("--one", type=int, default=None)
    chosen = parser.parse_args()
    if chosen.one is None:
        main(tuple(chosen.rows), chosen.level)
    else:
        print(json.dumps(one(chosen.one, chosen.level)))
