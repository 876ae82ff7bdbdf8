"""Do `inverse_cholesky` and point generation take time proportional to m, and how much memory?

Every size runs in a fresh process: the first call there is reported as `first` (it includes touching new memory),
medians of the following ones as `seconds` (wall) and `cpu_seconds`; ns and slopes are of CPU time.
`--full` goes to m = 5,000,000.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from common import median, peak_gigabytes, prefix_grid, seconds, slope

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.experiments.results import Value, load, origin, write_csv
from dtmgp.grids import LowerSet
from dtmgp.kernels import Laplace

SMALL = [10_000, 30_000, 100_000]
LARGE = [10_000, 30_000, 100_000, 300_000, 1_000_000, 2_500_000, 5_000_000]
DIMENSIONS = [2, 5, 10]
REPEATS = 5
TARGET_SECONDS = 0.3  # small sizes are repeated until they have taken this long


def measure(dim: int, size: int) -> dict[str, Value]:
    """One size, in this process. A new expansion every time: nothing is remembered between calls."""
    warm_up = HierarchicalExpansion(Laplace(), prefix_grid(dim, 500))
    warm_up.inverse_cholesky()
    _ = warm_up.grid.points  # type: ignore[union-attr]
    grid = prefix_grid(dim, size)
    first = seconds(lambda: HierarchicalExpansion(Laplace(), grid).inverse_cholesky(), 1).wall[0]
    repeats = max(REPEATS, min(200, int(TARGET_SECONDS / first)))
    factor = seconds(lambda: HierarchicalExpansion(Laplace(), grid).inverse_cholesky(), repeats)
    factor_cpu = median(factor.cpu)
    factor_memory = peak_gigabytes()
    members = grid.multi_indices  # a grid of its own every time: its tables are built again
    points = seconds(lambda: LowerSet(members).points, repeats)
    expansion = HierarchicalExpansion(Laplace(), grid)
    return {
        "dim": dim,
        "m": expansion.size,
        "T": expansion.active_per_input,
        "nonzeros": expansion.nonzeros,
        "nonzeros_per_column": expansion.nonzeros / expansion.size,
        "first": first,
        "seconds": median(factor.wall),
        "cpu_seconds": factor_cpu,
        "ns_per_nonzero": factor_cpu / expansion.nonzeros * 1e9,
        "ns_per_column": factor_cpu / expansion.size * 1e9,
        "points_seconds": median(points.wall),
        "points_cpu_seconds": median(points.cpu),
        "points_ns": median(points.cpu) / expansion.size * 1e9,
        "peak_gb": factor_memory,
        "load": load(),
    }


def main(
    sizes: list[int] | None = None,
    dimensions: list[int] | None = None,
    out: Path = Path("experiments/results"),
    command: str = "python benchmarks/inverse_cholesky.py",
) -> list[dict[str, Value]]:
    """Measure all sizes and dimensions in turn; write ``bench_inverse_cholesky.csv`` and ``.._slopes.csv``."""
    stated = origin(command, None)
    rows: list[dict[str, Value]] = []
    for dim in dimensions or DIMENSIONS:
        for size in sizes or SMALL:
            done = subprocess.run(
                [sys.executable, __file__, "--one", str(dim), str(size)],
                capture_output=True,
                text=True,
                check=True,
            )
            rows.append(json.loads(done.stdout))
            print(
                ", ".join(f"{key} {value:.4g}" for key, value in rows[-1].items() if key != "load"),
                flush=True,
            )
    write_csv(out / "bench_inverse_cholesky.csv", rows, stated)
    fitted: list[dict[str, Value]] = []
    for dim in dimensions or DIMENSIONS:
        own = [row for row in rows if row["dim"] == dim]
        m, nonzeros = ([float(row[name]) for row in own] for name in ("m", "nonzeros"))  # type: ignore[arg-type]
        time, points = ([float(row[name]) for row in own] for name in ("cpu_seconds", "points_cpu_seconds"))  # type: ignore[arg-type]
        fitted.append(
            {
                "dim": dim,
                "time_in_m": slope(m, time),
                "nonzeros_in_m": slope(m, nonzeros),
                "time_in_nonzeros": slope(nonzeros, time),
                "points_in_m": slope(m, points),
            }
        )
        print(", ".join(f"{key} {value:.3f}" for key, value in fitted[-1].items()))
    write_csv(out / "bench_inverse_cholesky_slopes.csv", fitted, stated)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="up to m = 5,000,000")
    parser.add_argument("--out", type=Path, default=Path("experiments/results"))
    parser.add_argument("--one", nargs=2, type=int, metavar=("DIM", "SIZE"), help="one size, printed as JSON")
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(*chosen.one)))
    else:
        words = "python benchmarks/inverse_cholesky.py" + (" --full" if chosen.full else "")
        main(LARGE if chosen.full else SMALL, out=chosen.out, command=words)
