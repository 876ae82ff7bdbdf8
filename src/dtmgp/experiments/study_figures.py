"""The paper's figures of the studies, drawn from their tables: mean KS against the size, one deviation as band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dtmgp.experiments.figures import new_figure, save_figure
from dtmgp.experiments.results import Value
from dtmgp.experiments.studies.contestants import CONTESTANTS

PANELS = (
    ("dtmgp", "stopped when DTMGP has converged"),
    ("dgp-vec", "when DGP-VEC has, or the limit strikes"),
    ("own", "each at its own end"),
)
COLOURS = {name: f"C{place}" for place, name in enumerate(n for n in CONTESTANTS if n != "truth")}
DASHED = {"kde", "quadratic", "truth"}
ABOVE = {"dtmgp", "dtmgp-default"}  # drawn thicker, over the others


def study_figure(
    lines: Sequence[Mapping[str, Value]], variant: str, target: Path, xlabel: str, title: str
) -> None:
    """Two rows of panels (KS of 100 draws as in the paper, of 10,000 draws), one column per budget."""
    figure = new_figure(11.0, 6.6)
    grid = figure.subplots(2, len(PANELS), sharex=True, sharey="row", squeeze=False)
    for column, (budget, words) in enumerate(PANELS):
        part = [line for line in lines if (line["variant"], line["budget"]) == (variant, budget)]
        for axes, score in zip(grid[:, column], ("ks100", "ks10k")):
            for model in CONTESTANTS:
                own = [line for line in part if line["model"] == model and line[score] is not None]
                if own:
                    size, mean, std = (
                        np.array([float(line[name]) for line in own])  # type: ignore[arg-type]
                        for name in ("size", score, f"{score}_std")
                    )
                    colour = COLOURS.get(model, "black")
                    style = "--" if model in DASHED else "-"
                    axes.plot(
                        size,
                        mean,
                        style,
                        color=colour,
                        marker="o",
                        ms=3,
                        lw=2.0 if model in ABOVE else 1.2,
                        zorder=3 if model in ABOVE else 2,
                        label=CONTESTANTS[model].label,
                    )
                    axes.fill_between(size, mean - std, mean + std, color=colour, alpha=0.10, lw=0)
            axes.grid(True, lw=0.3)
        grid[0, column].set_title(words, fontsize=9)
        grid[1, column].set_xlabel(xlabel)
    grid[0, 0].set_ylabel("mean KS, 100 draws")
    grid[1, 0].set_ylabel("mean KS, 10,000 draws")
    handles: dict[str, Any] = {}
    for axes in grid[0]:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), fontsize=7, ncols=6, loc="outside lower center")
    figure.suptitle(title, fontsize=10)
    save_figure(figure, target)
