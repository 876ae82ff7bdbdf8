"""The one-layer model beside scikit-learn's exact GP: RMSE, NLPD and seconds on five UCI sets and the network.

    python benchmarks/one_layer.py --data DIR [--splits 10] [--sets yacht energy ...] [--skip-network]
    python benchmarks/one_layer.py --table        # mean and standard error over splits, as Markdown

DIR holds ``<name>/data.csv.gz`` (last column the target, no header) and ``<name>/test_mask.csv.gz`` (one column per
split). Inputs and target are standardised by the training rows. The exact GP (anisotropic squared exponential or
Matern-5/2, plus noise) learns its hyperparameters on at most 1000 and predicts from at most 3000 training rows.
Results are appended per split, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel
from sklearn.gaussian_process.kernels import ConstantKernel as Constant

from dtmgp import TMGPRegressor
from dtmgp.experiments.results import Table, origin, read_csv, write_csv
from dtmgp.kernels import Laplace
from dtmgp.metrics import gaussian_nlpd, rmse
from dtmgp.simulators import ActivityNetwork, maximin_latin_hypercube

SETS = ("yacht", "energy", "concrete", "elevators", "kin40k")
LEARN_ROWS, CONDITION_ROWS = 1000, 3000
COMMAND = "python benchmarks/one_layer.py --data DIR --splits N --sets NAMES, split by split"
OUT = Path(__file__).resolve().parents[1] / "experiments" / "results" / "bench_one_layer.csv"


class ScikitGP:
    """scikit-learn's exact GP with the two caps on rows that its cubic cost asks for."""

    def __init__(self, correlation: Callable[[np.ndarray], object]) -> None:
        self.correlation = correlation

    def fit(self, x: np.ndarray, y: np.ndarray) -> ScikitGP:
        """Hyperparameters on a random subset, then conditioning on a larger one."""
        rng = np.random.default_rng(0)
        learn = rng.permutation(len(x))[:LEARN_ROWS]
        keep = rng.permutation(len(x))[:CONDITION_ROWS]
        kernel = Constant(1.0, (1e-3, 1e5)) * self.correlation(
            np.full(x.shape[1], x.shape[1] ** 0.5)
        ) + WhiteKernel(0.1, (1e-6, 1e1))
        first = GaussianProcessRegressor(kernel, normalize_y=True).fit(x[learn], y[learn])
        self.model = GaussianProcessRegressor(first.kernel_, optimizer=None, normalize_y=True).fit(
            x[keep], y[keep]
        )
        return self

    def predict(self, x: np.ndarray, return_std: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of a new observation (the white kernel is part of the prior)."""
        return self.model.predict(x, return_std=return_std)


MODELS: dict[str, Callable[[], object]] = {
    "TMGPRegressor()": TMGPRegressor,
    "TMGPRegressor(Laplace())": lambda: TMGPRegressor(Laplace()),
    "exact GP, squared exponential": lambda: ScikitGP(lambda s: RBF(s, (1e-2, 1e3))),
    "exact GP, Matern-5/2": lambda: ScikitGP(lambda s: Matern(s, (1e-2, 1e3), nu=2.5)),
}


def score(
    name: str, x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray
) -> dict[str, float]:
    """Fit and predict once; scores in units of the (standardised) target."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MODELS[name]().fit(x, y)
    fitted = time.perf_counter()
    mean, std = model.predict(x_test, return_std=True)
    return {
        "rmse": rmse(y_test, mean),
        "nlpd": gaussian_nlpd(y_test, mean, std),
        "fit_seconds": fitted - start,
        "predict_seconds": time.perf_counter() - fitted,
    }


def uci(folder: Path, name: str, split: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Standardised training and test parts of one split."""
    table = np.loadtxt(folder / name / "data.csv.gz", delimiter=",")
    test = np.loadtxt(folder / name / "test_mask.csv.gz", delimiter=",")[:, split] > 0
    centre, scale = table[~test].mean(axis=0), table[~test].std(axis=0)
    table = (table - centre) / np.where(scale > 0, scale, 1.0)
    return table[~test, :-1], table[~test, -1], table[test, :-1], table[test, -1]


def network(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """5000 inputs, one average of 1000 runs each; 1000 test inputs, one average each. Output in its own units."""
    simulator = ActivityNetwork(runs=1000)
    x = maximin_latin_hypercube(5000, simulator.bounds, random_state=seed)
    x_test = np.random.default_rng(1000 + seed).uniform(*simulator.bounds.T, size=(1000, 13))
    y, y_test = (simulator.sample(points, 1, seed + k)[:, 0] for k, points in ((0, x), (500, x_test)))
    return x, y, x_test, y_test


def main(data: Path | None, splits: int = 2, sets: tuple[str, ...] = SETS, with_network: bool = True) -> None:
    """Fill the table with what is missing in it."""
    rows = read_csv(OUT).rows if OUT.exists() else []
    done = {(row["task"], row["split"], row["model"]) for row in rows}
    tasks = [(name, split) for name in (sets if data is not None else ()) for split in range(splits)]
    tasks += [("network means of 1000", split) for split in range(min(splits, 3))] if with_network else []
    for task, split in tasks:
        missing = [name for name in MODELS if (task, split, name) not in done]
        if not missing:
            continue
        problem = uci(data, task, split) if task in SETS and data is not None else network(split)
        for name in missing:
            rows.append({"task": task, "split": split, "model": name, **score(name, *problem)})
            write_csv(OUT, rows, origin(COMMAND, 0))
            print(rows[-1], flush=True)


def table() -> str:
    """Mean and standard error over splits of every task and model; seconds are medians."""
    rows = read_csv(OUT).rows
    lines = ["| task | splits | model | RMSE | NLPD | fit, s | predict, s |", "|---|---|---|---|---|---|---|"]
    for task in dict.fromkeys(row["task"] for row in rows):
        for name in MODELS:
            own = Table({}, [row for row in rows if (row["task"], row["model"]) == (task, name)])
            cells = []
            for key in ("rmse", "nlpd"):
                values = np.array(own.column(key))
                cells.append(f"{values.mean():.3f} ± {values.std(ddof=1) / len(values) ** 0.5:.3f}")
            cells += [f"{np.median(own.column(key)):.2g}" for key in ("fit_seconds", "predict_seconds")]
            lines.append(f"| {task} | {len(own.rows)} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--skip-network", action="store_true")
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    if chosen.table:
        print(table())
        raise SystemExit
    main(chosen.data, chosen.splits, tuple(chosen.sets), not chosen.skip_network)
