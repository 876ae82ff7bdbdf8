"""The main job, end to end: emulate the stochastic activity network and see how good the emulator is.

Run by ``make demo``. Two versions of the simulator: single runs (much noise, skewed) and averages of 1000 runs (the
authors' data: the mean must be resolved). Prints accuracy beside the floor (truth against truth) and two trivial
baselines, draws a slice (``demo_slice.png``), and writes a report on the second emulator with a live profiler
(``demo_report.html``). Seeds are fixed.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dtmgp import DTMGPRegressor, TMGPRegressor
from dtmgp.baselines import InputIgnoringKDE, QuadraticBootstrap
from dtmgp.metrics import average_ks, coverage, crps, rmse
from dtmgp.report import write_report
from dtmgp.simulators import ActivityNetwork, maximin_latin_hypercube

INPUTS, TEST_INPUTS, DRAWS = 5000, 100, 100
REPORTED = 20  # of the draws, in the report
STUDIES = (
    ("Single runs, 4 replicates", 1, 4),
    ("Averages of 1000 runs, 4 replicates", 1000, 4),
)  # runs, replicates
COLUMNS = ("model", "KS", "CRPS", "RMSE of the mean", "90% coverage", "seconds")


class Study(NamedTuple):
    """What one data set led to."""

    title: str
    simulator: ActivityNetwork
    model: DTMGPRegressor
    x: np.ndarray  # the design, (n, 13)
    y: np.ndarray  # its runs, (n, replicates)
    x_test: np.ndarray
    truth: np.ndarray  # fresh runs at the test inputs, (100, DRAWS)
    rows: list[tuple[str, ...]]  # of the accuracy table


def study(title: str, runs: int, replicates: int) -> Study:
    """Fit everything on one data set."""
    simulator = ActivityNetwork(runs=runs)
    x = maximin_latin_hypercube(INPUTS, simulator.bounds, random_state=0)
    y = simulator.sample(x, replicates, random_state=1)
    x_test = np.random.default_rng(2).uniform(*simulator.bounds.T, size=(TEST_INPUTS, 13))
    truth = simulator.sample(x_test, DRAWS, random_state=3)
    again = simulator.sample(x_test, DRAWS, random_state=4)
    # the mean of a test input, from many more runs than the data have
    mean = ActivityNetwork(runs=1000).sample(x_test, 40, random_state=5).mean(axis=1)
    rows = [row("truth against truth (the floor)", truth, again, again.mean(axis=1), mean, 0.0)]
    for name, candidate in {
        "resample, ignore x": InputIgnoringKDE(),
        "quadratic + bootstrap": QuadraticBootstrap(),
    }.items():
        start = time.perf_counter()
        candidate.fit(x, y)
        draws = candidate.sample_y(x_test, DRAWS, random_state=6)
        rows.append(row(name, truth, draws, candidate.predict(x_test), mean, time.perf_counter() - start))
    named, seen = frame(simulator, np.repeat(x, replicates, axis=0)), frame(simulator, x_test)
    for model in (TMGPRegressor(bounds=simulator.bounds), DTMGPRegressor(bounds=simulator.bounds)):
        start = time.perf_counter()
        model.fit(named, y.ravel())
        seconds = time.perf_counter() - start
        draws = model.sample_y(seen, DRAWS, random_state=6)
        rows.append(row(f"{type(model).__name__}()", truth, draws, model.predict(seen), mean, seconds))
    return Study(title, simulator, model, x, y, x_test, truth, rows)


def frame(simulator: ActivityNetwork, x: np.ndarray) -> pd.DataFrame:
    """Inputs with their names."""
    return pd.DataFrame(x, columns=list(simulator.input_names))


def row(
    name: str, truth: np.ndarray, draws: np.ndarray, prediction: np.ndarray, mean: np.ndarray, seconds: float
) -> tuple[str, ...]:
    """One line of the table."""
    low, high = np.quantile(draws, [0.05, 0.95], axis=1)
    inside = float(np.mean([coverage(column, low, high) for column in truth.T]))
    score = float(np.mean([np.mean(crps(column, draws)) for column in truth.T[:20]]))
    return (
        name,
        f"{average_ks(truth, draws):.3f}",
        f"{score:.3f}",
        f"{rmse(mean, prediction):.3f}",
        f"{100 * inside:.0f}%",
        f"{seconds:.1f}" if seconds else "",
    )


def picture(studies: list[Study], out: Path) -> None:
    """The paper's slice: all durations 2.5, the seventh from 0.5 to 5; runs, mean and 90% interval."""
    plt.switch_backend("Agg")  # no window, with or without a display
    figure, axes = plt.subplots(1, len(studies), figsize=(10, 4), layout="constrained")
    for axis, case in zip(axes, studies):
        x = np.full((60, 13), 2.5)
        x[:, 6] = np.linspace(0.5, 5, 60)
        given = frame(case.simulator, x)
        true_mean = ActivityNetwork(runs=1000).sample(x, 400, random_state=8).mean(axis=1)
        axis.plot(x[:, 6], case.simulator.sample(x, 30, random_state=7), ".", color="0.6", ms=2, zorder=0)
        low, high = case.model.predict_interval(given, 0.9)
        axis.fill_between(x[:, 6], low, high, alpha=0.25, label="90% interval")
        axis.plot(x[:, 6], case.model.predict(given), label="mean")
        axis.plot(x[:, 6], true_mean, "k--", lw=1, label="true mean")
        axis.set(xlabel="mean duration of activity 7", ylabel="cost", title=case.title)
        axis.legend(frameon=False, loc="upper left")
    figure.savefig(out, dpi=120)
    plt.close(figure)


def show(title: str, rows: list[tuple[str, ...]]) -> None:
    """Print a table."""
    widths = [max(len(line[k]) for line in [COLUMNS, *rows]) for k in range(len(COLUMNS))]
    print(f"\n{title}")
    for line in [COLUMNS, *rows]:
        cells = [cell.rjust(w) if k else cell.ljust(w) for k, (cell, w) in enumerate(zip(line, widths))]
        print("  " + "  ".join(cells))


def main(out: Path = Path("demo_report.html")) -> None:
    """Both studies, a picture, a report."""
    studies = []
    for title, runs, replicates in STUDIES:
        print(f"{title}: {INPUTS} inputs x {replicates} ...", flush=True)
        studies.append(study(title, runs, replicates))
        show(title, studies[-1].rows)
        print("  " + studies[-1].model.summary().replace("\n", "\n  "))
    slice_file = out.with_name("demo_slice.png")
    picture(studies, slice_file)
    last = studies[-1]
    replicates, fresh = last.y.shape[1], last.truth[:, :REPORTED]
    write_report(
        last.model,
        frame(last.simulator, np.repeat(last.x_test, REPORTED, axis=0)),
        fresh.ravel(),
        out,
        X_train=frame(last.simulator, np.repeat(last.x, replicates, axis=0)),
        y_train=last.y.ravel(),
        title=f"Activity network: {last.title[0].lower()}{last.title[1:]}",
        output_names=["cost"],
    )
    print(f"\nReport: {out.resolve()}\nSlice:  {slice_file.resolve()}")


if __name__ == "__main__":
    main()
