"""How much faster are sparse features than a dense `k(x, X) R^-1`, and does their cost follow T?

Three dense forms take turns with ours in one process. `plain`: |x - X| summed over coordinates, one `exp`, one GEMM
with the dense R^-1; `blocked`: the same in chunks of rows that stay in the cache, the chunk chosen by trial (the
fastest NumPy that we know); `kernel_call`: `kernel(x, X) @ R^-1` as a user would write it.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from common import Timing, median, seconds

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.experiments.results import Value, origin, write_csv
from dtmgp.grids import SparseGrid
from dtmgp.kernels import AbstractLineKernel, Laplace, Matern32

SEED = 0
DIM, LEVEL, ROWS = 13, 3, 20_000
FULL_ROWS = 100_000
TURNS = 7
SCALING = {13: [2, 3, 4, 5], 5: [2, 4, 6, 8], 2: [3, 6, 9, 12, 15]}
SCALING_ROWS = 20_000


def dense_features(
    x: np.ndarray, points: np.ndarray, inverse: np.ndarray, lengthscale: float, chunk: int
) -> np.ndarray:
    """``k(x, X) R^-1`` for the Laplace kernel."""
    result = np.empty((len(x), len(points)))
    total, part = np.empty((chunk, len(points))), np.empty((chunk, len(points)))
    columns = np.ascontiguousarray(points.T)
    for start in range(0, len(x), chunk):
        rows = x[start : start + chunk]
        s, p = total[: len(rows)], part[: len(rows)]
        np.abs(np.subtract(rows[:, None, 0], columns[None, 0], out=s), out=s)
        for j in range(1, x.shape[1]):
            np.abs(np.subtract(rows[:, None, j], columns[None, j], out=p), out=p)
            s += p
        s *= -1.0 / lengthscale
        np.matmul(np.exp(s, out=s), inverse, out=result[start : start + chunk])
    return result


def compare(rows: int) -> list[dict[str, Value]]:
    """Medians of alternating turns."""
    kernel = Laplace(float(DIM))
    expansion = HierarchicalExpansion(kernel, SparseGrid(DIM, LEVEL))
    x = np.random.default_rng(SEED).uniform(size=(rows, DIM))
    points, inverse = SparseGrid(DIM, LEVEL).points, expansion.inverse_cholesky().toarray()
    error = np.abs(
        dense_features(x[:500], points, inverse, DIM, 256) - expansion.features(x[:500]).toarray()
    ).max()
    trial = {
        chunk: min(seconds(lambda c=chunk: dense_features(x, points, inverse, DIM, c), 2).cpu)  # type: ignore[misc]
        for chunk in (64, 256, 1024, 4096)
    }
    chunk = min(trial, key=trial.__getitem__)
    expansion.features(x)
    ours, blocked, plain, kernel_call = (Timing([], []) for _ in range(4))
    for _ in range(TURNS):
        ours += seconds(lambda: expansion.features(x), 1)
        blocked += seconds(lambda: dense_features(x, points, inverse, DIM, chunk), 1)
        plain += seconds(lambda: dense_features(x, points, inverse, DIM, len(x)), 1)
        kernel_call += seconds(lambda: expansion.kernel(x, points) @ inverse, 1)
    return [
        {
            "dim": DIM,
            "level": LEVEL,
            "rows": rows,
            "m": expansion.size,
            "T": expansion.active_per_input,
            "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "all"),
            "ours_cpu": median(ours.cpu),
            "ours_wall": median(ours.wall),
            **{
                f"{name}_{column}": value
                for name, dense in (("blocked", blocked), ("plain", plain), ("kernel_call", kernel_call))
                for column, value in (
                    ("cpu", median(dense.cpu)),
                    ("wall", median(dense.wall)),
                    ("cpu_speed_up", median(dense.cpu) / median(ours.cpu)),
                    ("wall_speed_up", median(dense.wall) / median(ours.wall)),
                )
            },
            "chunk": chunk,
            "ours_ns_per_active": median(ours.cpu) / (rows * expansion.active_per_input) * 1e9,
            "largest_difference": float(error),
        }
    ]


def scaling(rows: int) -> list[dict[str, Value]]:
    """Time per input and per active feature, as the level grows at a fixed number of coordinates."""
    found: list[dict[str, Value]] = []
    kernels: dict[str, AbstractLineKernel] = {"Laplace": Laplace(2.0), "Matern-3/2": Matern32(2.0)}
    for name, kernel in kernels.items():
        for dim, levels in SCALING.items():
            x = np.random.default_rng(SEED).uniform(size=(rows, dim))
            for level in levels:
                expansion = HierarchicalExpansion(kernel, SparseGrid(dim, level))
                expansion.features(x)
                taken = median(seconds(lambda e=expansion, at=x: e.features(at), TURNS).cpu)  # type: ignore[misc]
                active = expansion.active_per_input
                found.append(
                    {
                        "kernel": name,
                        "dim": dim,
                        "level": level,
                        "m": expansion.size,
                        "T": active,
                        "us_per_row": taken / rows * 1e6,
                        "ns_per_active": taken / (rows * active) * 1e9,
                        "ns_per_active_and_line_value": taken / (rows * (active + dim * level)) * 1e9,
                    }
                )
    return found


def main(
    rows: int = ROWS,
    out: Path = Path("experiments/results"),
    command: str = "python benchmarks/features.py",
) -> None:
    """Write ``bench_features.csv`` and ``bench_features_scaling.csv``."""
    stated = origin(command, SEED)
    for name, measured in (
        ("bench_features", compare(rows)),
        ("bench_features_scaling", scaling(SCALING_ROWS)),
    ):
        write_csv(out / f"{name}.csv", measured, stated)
        for row in measured:
            print(", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help=f"{FULL_ROWS:,} rows instead of {ROWS:,}")
    parser.add_argument("--out", type=Path, default=Path("experiments/results"))
    chosen = parser.parse_args()
    threads = os.environ.get("OPENBLAS_NUM_THREADS")
    words = ("" if threads is None else f"OPENBLAS_NUM_THREADS={threads} ") + "python benchmarks/features.py"
    main(FULL_ROWS if chosen.full else ROWS, chosen.out, words + (" --full" if chosen.full else ""))
