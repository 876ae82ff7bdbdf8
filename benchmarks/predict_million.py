"""`DTMGPRegressor` on many inputs: seconds and memory of ``predict(X, return_std=True)``.

    python benchmarks/predict_million.py [--rows 1000000 100000] [--threads 1]

Models of the default architecture on the activity network (13 inputs; single runs on a logarithmic scale, averages of
1000 runs) and on a curve (1 input). A few epochs of training: the cost of a prediction does not depend on the weights.
Every prediction runs in a fresh process that loads the model. *Extra* memory is the peak resident memory less that
before the call, when the model is loaded, the inputs are there and one row has been predicted (which loads compiled
code).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dtmgp import DTMGPRegressor
from dtmgp.experiments.results import origin, write_csv
from dtmgp.simulators import ActivityNetwork, maximin_latin_hypercube

OUT = Path(__file__).resolve().parents[1] / "experiments" / "results" / "bench_predict_million.csv"
CASES = ("network, single runs", "network, means of 1000", "curve")


def fit(case: str, path: Path) -> None:
    """Train a little and save."""
    rng = np.random.default_rng(0)
    if case == "curve":
        x = rng.uniform(size=(400, 1))
        y = np.sin(6 * x[:, 0]) + 0.1 * rng.normal(size=400)
    else:
        simulator = ActivityNetwork(runs=1000 if "means" in case else 1)
        inputs = maximin_latin_hypercube(2000, simulator.bounds, random_state=0)
        y = simulator.sample(inputs, 2, random_state=1).ravel()
        x = inputs.repeat(2, axis=0)
    DTMGPRegressor(max_epochs=2).fit(x, y).save(path)


def _kilobytes(field: str) -> int:
    """``VmRSS`` (now) or ``VmHWM`` (peak) of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise OSError("no /proc/self/status: this script needs Linux")


def predict(path: Path, rows: int) -> dict[str, object]:
    """One prediction in this process."""
    model = DTMGPRegressor.load(path)
    box = np.stack([model.cube_.low, model.cube_.high])
    x = np.random.default_rng(1).uniform(box[0], box[1], size=(rows, box.shape[1]))
    model.predict(x[:1], return_std=True)
    before = _kilobytes("VmRSS")
    wall, cpu = time.perf_counter(), time.process_time()
    mean, std = model.predict(x, return_std=True)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    layers = model.model_.stack
    return {
        "rows": rows,
        "inputs": x.shape[1],
        "widths": "-".join(str(layer.width) for layer in layers),
        "features": "-".join(str(layer.features.size) for layer in layers),
        "scale": model.warp_,
        "hidden_draws": model.prediction_samples,
        "seconds": round(wall, 1),
        "cpu_seconds": round(cpu, 1),
        "extra_mb": round((_kilobytes("VmHWM") - before) / 1000),
        "inputs_and_outputs_mb": round((x.nbytes + mean.nbytes + std.nbytes) / 1e6),
    }


def main(rows: tuple[int, ...] = (20_000,), threads: int = 1, cases: tuple[str, ...] = CASES) -> None:
    """All cases and sizes; the table is rewritten after each."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "NUMBA_NUM_THREADS": str(threads)}
    table: list[dict[str, object]] = []
    named = "" if cases == CASES else " --cases " + " ".join(f'"{case}"' for case in cases)
    stated = (
        f"python benchmarks/predict_million.py --rows {' '.join(map(str, rows))} --threads {threads}{named}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            path = Path(folder) / "model.dtmgp"
            fit(case, path)
            for size in rows:
                command = [sys.executable, __file__, "--predict", str(path), "--rows", str(size)]
                done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
                table.append({"case": case, **json.loads(done.stdout.splitlines()[-1]), "threads": threads})
                print(json.dumps(table[-1]), flush=True)
                write_csv(OUT, table, origin(stated, 0))  # type: ignore[arg-type]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="*", type=int, default=[20_000])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--predict", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.predict:
        print(json.dumps(predict(options.predict, options.rows[0])))
    else:
        main(tuple(options.rows), options.threads, tuple(options.cases))
