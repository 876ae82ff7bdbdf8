"""Oracle: predictions of the R package deepgp 1.2.3, several seeds of each setting (tests/baselines/data/deepgp).

Two runs of the same sampler differ; ours must differ from the package's no more than the package's from each other.
`python benchmarks/vecchia_reference.py` prints the numbers.
"""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest

from dtmgp.baselines import VecchiaDGP
from dtmgp.baselines.vecchia import Covariance

DATA = Path(__file__).resolve().parents[1] / "data" / "deepgp"
COVARIANCES = {
    "matern0.5": Covariance.MATERN12,
    "matern2.5": Covariance.MATERN52,
    "exp2": Covariance.EXP2,
}
ITERATIONS = {"d1": 6000, "d2": 4000}


def read(problem, covariance, mode):
    """Training inputs and outputs, test inputs, and (mean, standard deviation) of every run of the package."""
    training = np.loadtxt(DATA / f"{problem}_training.csv", delimiter=",", skiprows=1)
    with (DATA / f"{problem}_predictions.csv").open(encoding="utf-8") as file:
        names = next(csv.reader(file))
    table = np.loadtxt(DATA / f"{problem}_predictions.csv", delimiter=",", skiprows=1)
    dim = training.shape[1] - 1
    runs = [
        (table[:, k], np.sqrt(table[:, k + 1]))
        for k, name in enumerate(names)
        if name.startswith(f"{covariance} {mode} ") and name.endswith(" mean")
    ]
    return training[:, :dim], training[:, dim], table[:, :dim], runs


def distances(pairs, part):
    return [float(np.sqrt(np.mean((a[part] - b[part]) ** 2))) for a, b in pairs]


def run(problem, covariance, mode, n_iterations, seed):
    inputs, outputs, queries, _ = read(problem, covariance, mode)
    model = VecchiaDGP(
        covariance=COVARIANCES[covariance],
        neighbours=25 if mode == "vecchia" else None,
        n_iterations=n_iterations,
        bounds=[[0.0, 1.0]] * inputs.shape[1],
        random_state=seed,
    ).fit(inputs, outputs)
    return model.predict(queries, return_std=True), model


def test_one_short_dense_run_is_within_the_package_s_spread():
    *_, package = read("d1", "matern2.5", "dense")
    ours, _ = run("d1", "matern2.5", "dense", 2000, seed=0)
    for part in (0, 1):
        spread = max(distances(itertools.combinations(package, 2), part))
        # Measured for seeds 0 to 4: 0.85 to 1.74 times the spread; the run is three times shorter.
        assert np.mean(distances(((ours, theirs) for theirs in package), part)) < 2 * spread


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "covariance", "mode"),
    [
        ("d1", "matern0.5", "dense"),
        *[("d1", name, mode) for name in ("matern2.5", "exp2") for mode in ("dense", "vecchia")],
        *[("d2", name, "vecchia") for name in ("matern2.5", "exp2")],
    ],
)
def test_full_runs_are_within_the_package_s_spread(problem, covariance, mode):
    *_, package = read(problem, covariance, mode)
    runs = [run(problem, covariance, mode, ITERATIONS[problem], seed) for seed in (0, 1)]
    ours = [prediction for prediction, _ in runs]
    for part in (0, 1):
        spread = max(distances(itertools.combinations(package, 2), part))
        assert np.mean(distances(itertools.product(ours, package), part)) < 1.25 * spread
        averages = [
            np.mean([prediction[part] for prediction in several], axis=0) for several in (ours, package)
        ]
        assert np.sqrt(np.mean((averages[0] - averages[1]) ** 2)) < spread


@pytest.mark.slow
def test_with_a_rough_kernel_and_two_inputs_only_our_runs_find_the_surface():
    """There the package's two runs differ by 0.25 from each other and by 0.4 from its own runs with smooth kernels.

    Ours do not: 0.07 to 0.08 from four starts. So the package's runs are no oracle here; its smooth ones are.
    """
    *_, package = read("d2", "matern0.5", "vecchia")
    smooth = [mean for name in ("matern2.5", "exp2") for mean, _ in read("d2", name, "vecchia")[3]]
    surface = (np.mean(smooth, axis=0), None)
    ours, _ = run("d2", "matern0.5", "vecchia", 2500, seed=0)
    assert min(distances(((theirs, surface) for theirs in package), 0)) > 0.35
    assert distances([(ours, surface)], 0)[0] < 0.11
