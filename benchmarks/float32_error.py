"""Error of a one-dimensional Laplace feature in float32, level by level, for two ways to write it down.

*Clock form*: ratios of differences of the clock ``tau(x) = exp(2x/l)``, each clock value rounded to float32.
*Local form*: ``peak * rise * fall`` of `dtmgp.kernels.Laplace`, which sees only differences inside one cell.
Both are compared with the local form in float64 at the same (already rounded) inputs, as a fraction of the largest
value of the feature. A third column is what rounding the input to float32 alone does to the exact feature.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from pathlib import Path

import numpy as np

from dtmgp.grids import Dyadic
from dtmgp.kernels import Laplace

RESULTS = Path(__file__).resolve().parents[1] / "experiments" / "results" / "float32_error.csv"
COLUMNS = ["level", "clock_form", "local_form", "input_rounding"]


def cell(x: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neighbours and centre of the cell of ``x``, infinite where a neighbour is missing."""
    gap = 2.0**-level
    b = Dyadic().increment(level)[Dyadic().locate(x, level)]
    return np.where(b > gap, b - gap, -np.inf), b, np.where(b + gap < 1, b + gap, np.inf)


def local_form(x: np.ndarray, level: int, lengthscale: float, dtype: type) -> np.ndarray:
    """``S rise(x) fall(x)`` in the given precision."""
    kernel = Laplace(lengthscale)
    a, b, c = (value.astype(dtype) for value in cell(x, level))
    x = x.astype(dtype)
    return kernel.peak(a, b, c) * kernel.rise(a, np.clip(x, a, b), b) * kernel.fall(b, np.clip(x, b, c), c)


def clock_form(x: np.ndarray, level: int, lengthscale: float, dtype: type) -> np.ndarray:
    """``q(x) sigma min((tau - tau_a)/(tau_b - tau_a), (tau_c - tau)/(tau_c - tau_b))`` in the given precision."""
    rate = dtype(2 / lengthscale)
    a, b, c = (
        np.exp(rate * value.astype(dtype)) for value in cell(x, level)
    )  # the clock at -inf is 0, at inf inf
    tau, scale = np.exp(rate * x.astype(dtype)), np.exp(-x.astype(dtype) / dtype(lengthscale))
    closed = np.isfinite(c)
    end = np.where(closed, c, b + dtype(1))
    share = np.where(closed, (end - b) / (end - a), dtype(1))
    falling = np.where(closed, (end - tau) / (end - b), dtype(1))
    return scale * np.sqrt((b - a) * share) * np.minimum((tau - a) / (b - a), falling)


def relative_errors(level: int, n_inputs: int, lengthscale: float) -> tuple[float, float, float]:
    """Largest error of the clock form, the local form, and of rounding the input, over random inputs."""
    x = np.random.default_rng(level).random(n_inputs)
    rounded = x.astype(np.float32).astype(np.float64)
    exact = local_form(rounded, level, lengthscale, np.float64)
    a, b, c = cell(rounded, level)
    peak = Laplace(lengthscale).peak(a, b, c)
    clock = clock_form(rounded, level, lengthscale, np.float32)
    local = local_form(rounded, level, lengthscale, np.float32)
    same_cell = b == cell(x, level)[1]
    moved = local_form(x, level, lengthscale, np.float64) - exact
    return (
        float(np.max(np.abs(clock - exact) / peak)),
        float(np.max(np.abs(local - exact) / peak)),
        float(np.max(np.abs(moved[same_cell]) / peak[same_cell])),
    )


def main(output: Path = RESULTS, levels: int = 16, n_inputs: int = 200_000, lengthscale: float = 1.0) -> None:
    """Write one row per level; the header says how the file was made."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent
    ).stdout.strip()
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w", newline="", encoding="utf-8") as file:
        command = " ".join(["python benchmarks/float32_error.py", *sys.argv[1:]])
        file.write(f"# command: {command}\n# commit: {commit or 'unknown'}\n")
        file.write(
            f"# Laplace, lengthscale {lengthscale:g}, {n_inputs} random inputs a level, fraction of the peak\n"
        )
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for level in range(1, levels + 1):
            row = [level, *(f"{error:.1e}" for error in relative_errors(level, n_inputs, lengthscale))]
            writer.writerow(row)
            print(*row)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--levels", type=int, default=16)
    parser.add_argument("--n-inputs", type=int, default=200_000)
    parser.add_argument("--lengthscale", type=float, default=1.0)
    main(**vars(parser.parse_args()))
