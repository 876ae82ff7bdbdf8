"""`VecchiaDGP`: seconds per MCMC iteration against the number of points, d = 2, 25 neighbours, one thread.

    python benchmarks/vecchia_cost.py [--rows 1000 3000 10000] [--iterations 20]

Processor time, so that other work on the machine does not count; the slope is that of log time against log n.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from dtmgp.baselines import VecchiaDGP
from dtmgp.experiments.results import Value, origin, write_csv

OUT = Path(__file__).resolve().parents[1] / "experiments" / "results" / "bench_vecchia_cost.csv"


def one(rows: int, layers: int, iterations: int) -> dict[str, Value]:
    """Set-up (orderings, neighbours, factors) with one sweep, sweeps after five, prediction with one state."""
    rng = np.random.default_rng(0)
    x = rng.random((rows, 2))
    y = np.sin(20 * x[:, 0] * x[:, 1]) + 0.1 * rng.normal(size=rows)
    start = time.process_time()
    model = VecchiaDGP(layers, n_iterations=1, n_draws=1, random_state=0).fit(x, y)
    first = time.process_time()
    model.extend(4)
    ready = time.process_time()
    model.extend(iterations)
    swept = time.process_time()
    model.predict(rng.random((1000, 2)))
    end = time.process_time()
    return {
        "rows": rows,
        "layers": layers,
        "iterations": iterations,
        "seconds_per_iteration": (swept - ready) / iterations,
        "set_up_and_first_iteration_seconds": first - start,
        "prediction_seconds_per_state_and_1000_inputs": end - swept,
    }


def main(rows: tuple[int, ...] = (1000, 3000, 10_000), iterations: int = 20) -> None:
    """Measure every size and depth, print a table, write the CSV."""
    command = f"python benchmarks/vecchia_cost.py --rows {' '.join(map(str, rows))} --iterations {iterations}"
    stated = origin(command, seed=0)
    one(100, 2, 2)  # compiles
    results = []
    print("  rows layers  s/iteration  first s  prediction s per state and 1000 inputs")
    for layers in (1, 2, 3):
        for size in rows:
            row = one(size, layers, iterations)
            results.append(row)
            print(
                f"{size:6} {layers:6}  {row['seconds_per_iteration']:11.4f}  "
                f"{row['set_up_and_first_iteration_seconds']:7.2f}  "
                f"{row['prediction_seconds_per_state_and_1000_inputs']:.4f}",
                flush=True,
            )
        if len(rows) > 1:
            times = [float(row["seconds_per_iteration"] or 0) for row in results[-len(rows) :]]
            print(f"       slope of {layers} layers: {np.polyfit(np.log(rows), np.log(times), 1)[0]:.2f}")
    write_csv(OUT, results, stated)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 3000, 10_000])
    parser.add_argument("--iterations", type=int, default=20)
    arguments = parser.parse_args()
    main(tuple(arguments.rows), arguments.iterations)
