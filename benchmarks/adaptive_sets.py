"""Adaptive lower sets against isotropic sparse grids: features needed for an accuracy, d = 6, anisotropic.

    python benchmarks/adaptive_sets.py [--seeds 5] [--rows 2000] [--figure docs/_static/adaptive_sets.png]

The response is rough in one input, kinked in a second, has one interaction, and is nearly linear in the rest:
``sin(20 x1) + 2 |x2 - 0.4| + 1.5 x1 x3 + x4^2 / 2 + x5 / 5 + N(0, 0.02^2)``, x6 does nothing. Every model sees the same
training data; the indicator sees nothing else; the error is that of the mean response at 5,000 other inputs. Rows are
written as they are made, and those that are there are not made again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from dtmgp import TMGPRegressor
from dtmgp.experiments.results import Value, origin, read_csv, write_csv
from dtmgp.kernels import AbstractLineKernel, Laplace, Matern32
from dtmgp.kriging import Adaptive
from dtmgp.metrics import rmse

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "experiments" / "results" / "bench_adaptive_sets.csv"
KERNELS: dict[str, AbstractLineKernel] = {"Matern32": Matern32(), "Laplace": Laplace()}
LEVELS = {"Matern32": (3, 4, 5, 6, 7), "Laplace": (2, 3, 4, 5)}
LIMITS = (25, 50, 100, None)  # features that the adaptive set may have


def response(x: np.ndarray) -> np.ndarray:
    """The true mean."""
    rough = np.sin(20 * x[:, 0]) + 2 * np.abs(x[:, 1] - 0.4)
    return rough + 1.5 * x[:, 0] * x[:, 2] + 0.5 * x[:, 3] ** 2 + 0.2 * x[:, 4]


def one(kernel: str, level: int | Adaptive, seed: int, rows: int) -> dict[str, Value]:
    """Fit and score one model."""
    rng = np.random.default_rng([9, seed])
    x, new = rng.random((rows, 6)), rng.random((5000, 6))
    y = response(x) + 0.02 * rng.normal(size=rows)
    start = time.process_time()
    model = TMGPRegressor(KERNELS[kernel], level, bounds=[(0, 1)] * 6).fit(x, y)
    return {
        "kernel": kernel,
        "grid": "adaptive" if isinstance(level, Adaptive) else "isotropic",
        "asked": str(level if isinstance(level, int) else level.max_features or "all"),
        "seed": seed,
        "rows": rows,
        "features": model.expansion_.size,
        "active": model.expansion_.active_per_input,
        "highest levels": "-".join(map(str, model.expansion_.blocks[0].grid.max_levels)),
        "rmse": rmse(response(new), model.predict(new)),
        "log evidence": model.log_evidence_,
        "cpu seconds": round(time.process_time() - start, 2),
    }


def main(seeds: int = 1, rows: int = 500, kernels: tuple[str, ...] = ("Matern32",), out: Path = OUT) -> None:
    """All models that are not in the table yet."""
    table = read_csv(out).rows if out.exists() else []
    done = {(row["kernel"], row["grid"], str(row["asked"]), row["seed"], row["rows"]) for row in table}
    for seed in range(seeds):
        for kernel in kernels:
            grids: list[int | Adaptive] = [*(Adaptive(max_features=k) for k in LIMITS), *LEVELS[kernel]]
            for level in grids:
                asked = str(level if isinstance(level, int) else level.max_features or "all")
                kind = "adaptive" if isinstance(level, Adaptive) else "isotropic"
                if (kernel, kind, asked, seed, rows) in done:
                    continue
                table.append(one(kernel, level, seed, rows))
                print(table[-1], flush=True)
                words = f"--seeds {seeds} --rows {rows} --kernels {' '.join(kernels)}"
                command = f"python benchmarks/adaptive_sets.py {words}"
                write_csv(out, table, origin(command, seeds))


def figure(table: Path, path: Path) -> None:
    """Error against features, one line per kernel and kind of grid; thin lines are seeds."""
    import matplotlib.pyplot as plt

    rows = read_csv(table).rows
    names = list(dict.fromkeys(str(row["kernel"]) for row in rows))
    _, panels = plt.subplots(
        1, len(names), figsize=(5 * len(names), 3.8), sharey=True, layout="constrained", squeeze=False
    )
    for axes, name in zip(panels[0], names, strict=True):
        for kind, colour in (("isotropic", "tab:gray"), ("adaptive", "tab:blue")):
            for seed in sorted({int(str(row["seed"])) for row in rows}):
                own = [r for r in rows if (r["kernel"], r["grid"], r["seed"]) == (name, kind, seed)]
                points = sorted((float(str(r["features"])), float(str(r["rmse"]))) for r in own)
                label = f"{kind} set" if seed == 0 else None
                axes.loglog(
                    *zip(*points, strict=True), "o-", ms=4, lw=0.9, alpha=0.7, color=colour, label=label
                )
        axes.set(xlabel="features m", title=name)
    panels[0][0].set(ylabel="RMSE of the mean response")
    panels[0][0].legend(frameon=False)
    plt.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--kernels", nargs="*", default=["Matern32"])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--figure", type=Path, default=None)
    chosen = parser.parse_args()
    main(chosen.seeds, chosen.rows, tuple(chosen.kernels), chosen.out)
    if chosen.figure is not None:
        figure(chosen.out, chosen.figure)
