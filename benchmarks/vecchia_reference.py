"""`VecchiaDGP` beside the R package deepgp 1.2.3 on its own test problems: distances between runs, ours and theirs.

    python benchmarks/vecchia_reference.py [--seeds 3] [--share 1.0]

The package's predictions are in tests/baselines/data/deepgp, with their settings. A distance is the root mean square
over the test inputs between two runs' predictive means (or standard deviations), averaged over the pairs of runs. If
both samplers have the same law, ``between`` is about ``theirs``. ``--share`` shortens the runs.

They agree but for d2 with Matern-1/2, where the package's runs differ most from each other, and from its own runs with
smooth kernels: see tests/baselines/vecchia/test_vecchia_reference.py.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dtmgp.baselines import VecchiaDGP
from dtmgp.baselines.vecchia import Covariance
from dtmgp.experiments.results import Value, origin, write_csv

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "baselines" / "data" / "deepgp"
OUT = ROOT / "experiments" / "results" / "vecchia_reference.csv"
COVARIANCES = {
    "matern0.5": Covariance.MATERN12,
    "matern2.5": Covariance.MATERN52,
    "exp2": Covariance.EXP2,
}
ITERATIONS = {"d1": 6000, "d2": 4000}

Prediction = tuple[np.ndarray, np.ndarray]


def package_runs(problem: str) -> tuple[np.ndarray, dict[tuple[str, str], list[Prediction]]]:
    """Test inputs, and the package's (mean, standard deviation) per run of each covariance and mode."""
    path = DATA / f"{problem}_predictions.csv"
    with path.open(encoding="utf-8") as file:
        names = next(csv.reader(file))
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    runs: dict[tuple[str, str], list[Prediction]] = {}
    for column, name in enumerate(names):
        if name.endswith(" mean"):
            covariance, mode, _, _ = name.split()
            runs.setdefault((covariance, mode), []).append((table[:, column], np.sqrt(table[:, column + 1])))
    return table[:, : sum(name.startswith("x") for name in names)], runs


def distance(pairs: Iterable[tuple[Prediction, Prediction]], part: int) -> float:
    """Root mean square difference, averaged over pairs of runs."""
    return float(np.mean([np.sqrt(np.mean((a[part] - b[part]) ** 2)) for a, b in pairs]))


def compare(
    problem: str,
    covariance: str,
    mode: str,
    package: list[Prediction],
    queries: np.ndarray,
    seeds: int,
    share: float,
) -> list[dict[str, Value]]:
    """Our runs of one setting, and two rows: means, standard deviations."""
    training = np.loadtxt(DATA / f"{problem}_training.csv", delimiter=",", skiprows=1)
    ours, nuggets, seconds = [], [], 0.0
    for seed in range(seeds):
        start = time.process_time()
        model = VecchiaDGP(
            covariance=COVARIANCES[covariance],
            neighbours=25 if mode == "vecchia" else None,
            n_iterations=round(share * ITERATIONS[problem]),
            bounds=[[0.0, 1.0]] * queries.shape[1],
            random_state=seed,
        ).fit(training[:, :-1], training[:, -1])
        mean, std = model.predict(queries, return_std=True)
        ours.append((mean, std))
        nuggets.append(float(np.mean([state.nugget for state in model.states_])))
        seconds += (time.process_time() - start) / seeds
    rows: list[dict[str, Value]] = []
    for part, quantity in enumerate(("mean", "std")):
        rows.append(
            {
                "problem": problem,
                "covariance": covariance,
                "mode": mode,
                "quantity": quantity,
                "runs_theirs": len(package),
                "runs_ours": seeds,
                "theirs": distance(itertools.combinations(package, 2), part),
                "ours": distance(itertools.combinations(ours, 2), part) if seeds > 1 else None,
                "between": distance(itertools.product(ours, package), part),
                "average_std_theirs": float(np.mean([std for _, std in package])),
                "average_std_ours": float(np.mean([std for _, std in ours])),
                "nugget_ours": float(np.mean(nuggets)),
                "cpu_seconds_ours": round(seconds, 1),
            }
        )
    return rows


def main(seeds: int = 3, share: float = 1.0) -> None:
    """Run every setting of the package's files, print a table, write the CSV."""
    stated = origin(f"python benchmarks/vecchia_reference.py --seeds {seeds} --share {share}", seed=0)
    rows: list[dict[str, Value]] = []
    print(
        "problem covariance mode    quantity  theirs    ours  between  between/theirs  std theirs/ours  cpu s"
    )
    for problem in ITERATIONS:
        queries, package = package_runs(problem)
        for (covariance, mode), runs in package.items():
            for row in compare(problem, covariance, mode, runs, queries, seeds, share):
                rows.append(row)
                ours = f"{row['ours']:.4f}" if row["ours"] is not None else "     -"
                print(
                    f"{problem:7} {covariance:10} {mode:7} {row['quantity']:8}  {row['theirs']:.4f}  {ours}   "
                    f"{row['between']:.4f}  {row['between'] / row['theirs']:14.2f}  "  # type: ignore[operator]
                    f"{row['average_std_theirs']:.4f}/{row['average_std_ours']:.4f}  {row['cpu_seconds_ours']:8.1f}",
                    flush=True,
                )
    write_csv(OUT, rows, stated)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="share of the package's iterations")
    arguments = parser.parse_args()
    main(arguments.seeds, arguments.share)
