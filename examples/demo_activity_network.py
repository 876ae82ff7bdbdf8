"""The main job, end to end: emulate the stochastic activity network and see how good the emulator is.

Run by ``make demo``. Two versions of the simulator: single runs (much noise, skewed) and averages of 1000 runs (the
authors' data: the mean must be resolved). Prints accuracy beside the floor (truth against truth) and two trivial
baselines, and writes ``demo_report.html`` with the same table and a picture. Seeds are fixed.
"""

from __future__ import annotations

import base64
import html
import io
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dtmgp import TMGPRegressor, __version__
from dtmgp.baselines import InputIgnoringKDE, QuadraticBootstrap
from dtmgp.metrics import average_ks, coverage, crps, rmse
from dtmgp.simulators import ActivityNetwork, maximin_latin_hypercube

INPUTS, TEST_INPUTS, DRAWS = 5000, 100, 100
STUDIES = (
    ("Single runs, 4 replicates", 1, 4),
    ("Averages of 1000 runs, 4 replicates", 1000, 4),
)  # runs, replicates
COLUMNS = ("model", "KS", "CRPS", "RMSE of the mean", "90% coverage", "seconds")


def study(runs: int, replicates: int) -> tuple[list[tuple[str, ...]], TMGPRegressor, ActivityNetwork]:
    """Fit everything on one data set; rows of the accuracy table."""
    simulator = ActivityNetwork(runs=runs)
    x = maximin_latin_hypercube(INPUTS, simulator.bounds, random_state=0)
    y = simulator.sample(x, replicates, random_state=1)
    x_test = np.random.default_rng(2).uniform(*simulator.bounds.T, size=(TEST_INPUTS, 13))
    truth = simulator.sample(x_test, DRAWS, random_state=3)
    again = simulator.sample(x_test, DRAWS, random_state=4)
    # the mean of a test input, from many more runs than the data have
    mean = ActivityNetwork(runs=1000).sample(x_test, 40, random_state=5).mean(axis=1)
    rows = [row("truth against truth (the floor)", truth, again, truth.mean(axis=1), mean, 0.0)]
    model = TMGPRegressor()
    candidates = {"resample, ignore x": InputIgnoringKDE(), "quadratic + bootstrap": QuadraticBootstrap()}
    for name, candidate in candidates.items():
        start = time.perf_counter()
        candidate.fit(x, y)
        draws = candidate.sample_y(x_test, DRAWS, random_state=6)
        rows.append(row(name, truth, draws, candidate.predict(x_test), mean, time.perf_counter() - start))
    start = time.perf_counter()
    model.fit(np.repeat(x, replicates, axis=0), y.ravel())
    draws = model.sample_y(x_test, DRAWS, random_state=6)
    rows.append(
        row("TMGPRegressor()", truth, draws, model.predict(x_test), mean, time.perf_counter() - start)
    )
    return rows, model, simulator


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


def picture(fitted: list[tuple[str, TMGPRegressor, ActivityNetwork]]) -> bytes:
    """The paper's slice: all durations 2.5, the seventh from 0.5 to 5; runs, mean and 90% interval."""
    plt.switch_backend("Agg")  # no window, with or without a display
    figure, axes = plt.subplots(1, len(fitted), figsize=(10, 4), layout="constrained")
    for axis, (title, model, simulator) in zip(axes, fitted):
        x = np.full((60, 13), 2.5)
        x[:, 6] = np.linspace(0.5, 5, 60)
        axis.plot(x[:, 6], simulator.sample(x, 30, random_state=7), ".", color="0.6", ms=2, zorder=0)
        mean = model.predict(x)
        low, high = model.predict_interval(x, 0.9)
        axis.fill_between(x[:, 6], low, high, alpha=0.25, label="90% interval")
        axis.plot(x[:, 6], mean, label="mean")
        axis.plot(
            x[:, 6], ActivityNetwork(runs=1000).sample(x, 20, 8).mean(axis=1), "k--", lw=1, label="true mean"
        )
        axis.set(xlabel="mean duration of activity 7", ylabel="cost", title=title)
        axis.legend(frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    plt.close(figure)
    return buffer.getvalue()


def show(title: str, rows: list[tuple[str, ...]]) -> str:
    """Print a table and return it as HTML."""
    widths = [max(len(line[k]) for line in [COLUMNS, *rows]) for k in range(len(COLUMNS))]
    print(f"\n{title}")
    for line in [COLUMNS, *rows]:
        print(
            "  "
            + "  ".join(
                cell.rjust(w) if k else cell.ljust(w) for k, (cell, w) in enumerate(zip(line, widths))
            )
        )
    cells = [
        "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in line) for tag, line in [("th", COLUMNS)]
    ]
    cells += ["".join(f"<td>{html.escape(cell)}</td>" for cell in line) for line in rows]
    return (
        f"<h2>{html.escape(title)}</h2><table>" + "".join(f"<tr>{line}</tr>" for line in cells) + "</table>"
    )


def main(out: Path = Path("demo_report.html")) -> None:
    """Both studies, one report."""
    tables, fitted = [], []
    for title, runs, replicates in STUDIES:
        print(f"{title}: {INPUTS} inputs x {replicates} ...", flush=True)
        rows, model, simulator = study(runs, replicates)
        tables.append(show(title, rows))
        fitted.append((title, model, simulator))
    models = "".join(
        f"<p>{html.escape(title)}: {html.escape(repr(model.expansion_))}; {html.escape(model.path_)}.</p>"
        for title, model, _ in fitted
    )
    image = base64.b64encode(picture(fitted)).decode()
    style = (
        "body{font:16px/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
        "table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right}"
        "td:first-child,th:first-child{text-align:left}img{max-width:100%;background:white}"
    )
    page = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>dtmgp demo</title><style>{style}</style>"
        f"<h1>Activity network emulator</h1><p>dtmgp {__version__}; seeds 0-8. KS: two-sample statistic of {DRAWS} "
        f"draws against {DRAWS}, averaged over {TEST_INPUTS} test inputs. CRPS and RMSE in units of the output.</p>"
        f"{''.join(tables)}<h2>A slice</h2><img alt='slice' src='data:image/png;base64,{image}'>{models}</html>"
    )
    partial = out.with_suffix(".part")
    partial.write_text(page, encoding="utf-8")
    partial.replace(out)
    print(f"\nReport: {out.resolve()}")


if __name__ == "__main__":
    main()
