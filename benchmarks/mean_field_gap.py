"""One layer and Gaussian noise: the best mean-field bound beside the exact evidence, and standard deviations.

    python benchmarks/mean_field_gap.py

The ELBO's optimum over means and standard deviations is the evidence less ``(sum log A_ii - log det A) / 2``, A the
posterior precision of the weights (`tests/inference/test_one_layer_bound.py` reaches it by L-BFGS); the means are
exact. The table also has the ratio of its standard deviations of the mean response to the exact ones, at new inputs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import linalg

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.experiments.results import Value, origin, write_csv
from dtmgp.grids import SparseGrid
from dtmgp.kernels import Laplace, Matern32

OUT = Path(__file__).resolve().parents[1] / "experiments" / "results" / "bench_mean_field_gap.csv"
NOISE = 0.3
CASES = [
    ("one active feature", Laplace(1.0), 2, 1, 100),
    ("Laplace, d=1", Laplace(0.5), 1, 6, 100),
    ("Matern-3/2, d=1", Matern32(0.5), 1, 8, 100),
    ("Matern-3/2, d=2", Matern32(0.7), 2, 6, 200),
    ("Matern-3/2, d=5", Matern32(2.0), 5, 4, 500),
    ("Matern-3/2, d=13", Matern32(3.0), 13, 3, 1000),
]


def one(name: str, kernel: Laplace | Matern32, dim: int, level: int, rows: int) -> dict[str, Value]:
    """Evidence, gap, and the ratio of standard deviations at new inputs."""
    rng = np.random.default_rng(0)
    x, new = rng.uniform(size=(rows, dim)), rng.uniform(size=(500, dim))
    y = np.sin(5 * x[:, 0]) + NOISE * rng.normal(size=rows)
    expansion = HierarchicalExpansion(kernel, SparseGrid(dim, level))
    phi, ahead = expansion.features(x).toarray(), expansion.features(new).toarray()
    precision = np.eye(expansion.size) + phi.T @ phi / NOISE**2
    factor = linalg.cholesky(precision, lower=True)
    half = linalg.solve_triangular(factor, phi.T @ y / NOISE**2, lower=True)
    log_det = 2 * np.log(factor.diagonal()).sum()
    evidence = 0.5 * (half @ half - y @ y / NOISE**2 - log_det - rows * np.log(2 * np.pi * NOISE**2))
    gap = 0.5 * (np.log(precision.diagonal()).sum() - log_det)
    exact = np.sqrt((linalg.solve_triangular(factor, ahead.T, lower=True) ** 2).sum(0))
    mean_field = np.sqrt(ahead**2 @ (1 / precision.diagonal()))
    return {
        "case": name,
        "features": expansion.size,
        "rows": rows,
        "log_evidence": float(evidence),
        "gap": float(gap),
        "gap_per_run": float(gap / rows),
        "std_ratio_median": float(np.median(mean_field / exact)),
    }


def main() -> None:
    """All cases; prints and writes the table."""
    table = [one(*case) for case in CASES]
    for row in table:
        print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()})
    write_csv(OUT, table, origin("python benchmarks/mean_field_gap.py", 0))


if __name__ == "__main__":
    main()
