"""Figures of the studies, drawn from their result files only; the one module here that needs matplotlib."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from dtmgp.errors import InputError
from dtmgp.experiments.results import Table, Value, read_csv

WIDTH, HEIGHT = 11.0, 6.6  # inches


def new_figure(width: float, height: float) -> Any:
    """An empty figure that needs no display."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise InputError(
            "figure", got="no matplotlib", expected="matplotlib", do="pip install 'dtmgp[plots]'"
        ) from None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def theory_figure(source: Path, target: Path) -> None:
    """Draw ``theory_residual.csv``: residual against features above, over the two rates in the level below."""
    figure = new_figure(WIDTH, HEIGHT)
    rows = read_csv(source).rows
    dimensions = sorted({int(row["dim"]) for row in rows})  # type: ignore[arg-type]
    kernels = list(dict.fromkeys(str(row["kernel"]) for row in rows))
    axes = figure.subplots(2, len(dimensions), sharey="row", squeeze=False)
    for column, dim in enumerate(dimensions):
        above, below = axes[:, column]
        for number, kernel in enumerate(kernels):
            part = Table({}, _where(rows, kernel, dim))
            if not part.rows:
                continue
            color = f"C{number}"
            features, residual = np.array(part.column("features")), np.array(part.column("residual"))
            markov = part.rows[0]["over_level_rate"] is not None
            above.loglog(
                features, residual, color=color, marker="." if markov else "^", ms=4, lw=1, label=kernel
            )
            if markov:
                below.semilogy(part.column("level"), part.column("over_level_rate"), color=color, lw=1.2)
                if dim > 1:
                    below.semilogy(
                        part.column("level"), part.column("over_sharp_rate"), color=color, ls=":", lw=1.2
                    )
        features = np.unique([float(row["features"]) for row in rows if row["dim"] == dim])  # type: ignore[arg-type]
        features = features[features > 2]
        rate = np.log2(features) ** (2 * dim - 2) / features
        above.loglog(features, rate, color="0.6", lw=3, zorder=0, label=r"$(\log_2 m)^{2d-2}/m$")
        above.set(title=f"d = {dim}", xlabel="features m", ylim=(1e-11, 20))
        below.set(xlabel="level l")
        for axis in (above, below):
            axis.grid(True, which="major", lw=0.3)
    axes[0, 0].set_ylabel("largest residual variance")
    axes[1, 0].set_ylabel("residual / rate")
    axes[0, -1].legend(fontsize=7, loc="lower left")
    axes[1, 0].plot([], [], color="0.3", label=r"over $l^{2d-2}/2^l$ (Theorem 3)")
    axes[1, 0].plot([], [], color="0.3", ls=":", label=r"over $l^{d-1}/2^l$ (d > 1)")
    axes[1, 0].legend(fontsize=7, loc="lower left")
    save_figure(figure, target)


def deep_figure(source: Path, target: Path) -> None:
    """Draw ``theory_deep.csv``: the distance of every case against its features, its rate as a thin line."""
    figure = new_figure(7.5, 4.6)
    rows = read_csv(source).rows
    axes = figure.subplots()
    for number, case in enumerate(dict.fromkeys(str(row["case"]) for row in rows)):
        part = Table({}, [row for row in rows if row["case"] == case])
        size, found, rate = (np.array(part.column(name)) for name in ("features", "distance", "rate"))
        axes.loglog(size, found, color=f"C{number}", marker="o", ms=3, label=case)
        axes.loglog(size, rate * found[-1] / rate[-1], color=f"C{number}", lw=0.7, ls=":")
    axes.plot([], [], color="0.3", ls=":", lw=0.7, label="rate of Theorem 4")
    axes.set(xlabel="features m per layer", ylabel="largest L2 distance")
    axes.grid(True, which="major", lw=0.3)
    axes.legend(fontsize=8)
    save_figure(figure, target)


def _where(rows: list[dict[str, Value]], kernel: str, dim: int) -> list[dict[str, Value]]:
    return [row for row in rows if row["kernel"] == kernel and row["dim"] == dim]


def save_figure(figure: Any, target: Path) -> None:
    """Write a PNG in one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    part = target.with_name(f".{target.name}.part")
    part.write_bytes(buffer.getvalue())
    part.replace(target)
