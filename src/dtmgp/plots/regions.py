"""Where is the model wrong? Scores over two inputs, and along every input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dtmgp.analysis.labels import axis_label
from dtmgp.analysis.regions import crps_by_bin, ks_by_input
from dtmgp.analysis.validation import Validation
from dtmgp.errors import InputError
from dtmgp.plots.axes import BLUE, GREEN, GREY, ORANGE, grid_of_axes, new_axes
from dtmgp.random import RandomState

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def region_map(
    found: Validation,
    first: str | int = 0,
    second: str | int = 1,
    *,
    distance: bool = False,
    bins: int = 8,
    ax: Axes | None = None,
    random_state: RandomState = 0,
) -> Axes:
    """Mean CRPS in cells of two inputs, the others averaged over; cells without runs are grey.

    With ``distance=True``, at replicated inputs, the KS distance of the model's law from the runs, less that of two
    halves of the runs: zero on average where the model is right.
    """
    axes = new_axes(ax)
    pair = [_column(found, name) for name in (first, second)]
    if pair[0] == pair[1]:
        raise InputError("inputs of the map", got="one input twice", expected="two different inputs")
    if distance:
        laws = ks_by_input(found, random_state=random_state)
        x, values, text = laws.x[:, pair], laws.model - laws.truth, "KS distance, less that of halves"
    else:
        x, values, text = found.x[:, pair], found.crps, "mean CRPS"
    if len(x) == 0:
        raise InputError("held-out runs", got="no input with four replicates", expected="replicated inputs")
    edges = [np.linspace(v.min(), v.max() if v.max() > v.min() else v.min() + 1.0, bins + 1) for v in x.T]
    count, _, _ = np.histogram2d(x[:, 0], x[:, 1], bins=edges)
    total, _, _ = np.histogram2d(x[:, 0], x[:, 1], bins=edges, weights=values)
    cells = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    limit = float(np.nanmax(np.abs(cells)))
    colours: dict[str, Any] = {"cmap": "viridis"}
    if distance:
        colours = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    mesh = axes.pcolormesh(edges[0], edges[1], cells.T, **colours)
    axes.figure.colorbar(mesh, ax=axes, label=text)
    axes.set_facecolor("0.8")  # empty cells
    axes.set(xlabel=axis_label(found.names[pair[0]]), ylabel=axis_label(found.names[pair[1]]))
    return axes


def region_bars(found: Validation, *, bins: int = 8, axes: Any = None) -> np.ndarray:
    """Mean CRPS along every input, one panel each, beside its mean over all runs; the number of runs in grey."""
    table = crps_by_bin(found, bins)
    flat = grid_of_axes(len(found.names), axes)
    overall = float(found.crps.mean())
    for column, panel in enumerate(flat):
        edges, score = table.edges[column], table.crps[column]
        worst = score == np.nanmax(score)
        panel.bar(
            edges[:-1], score, np.diff(edges), align="edge", color=np.where(worst, ORANGE, BLUE), alpha=0.8
        )
        panel.axhline(overall, color=GREY, lw=1, ls="--")
        panel.set_xlabel(axis_label(found.names[column]))
        panel.set_ylim(0, 1.15 * max(float(np.nanmax(score)), overall))
        counts = panel.twinx()
        counts.stairs(table.count[column], edges, color=GREEN, lw=0.8, alpha=0.7)
        counts.set_ylim(0, 1.15 * table.count.max())
        counts.tick_params(labelsize="x-small", colors=GREEN)
        if column == 0:
            panel.set_ylabel("mean CRPS")
        if column == len(flat) - 1:
            counts.set_ylabel("runs", color=GREEN)
    return flat


def _column(found: Validation, name: str | int) -> int:
    if isinstance(name, int | np.integer) and 0 <= name < len(found.names):
        return int(name)
    if name in found.names:
        return found.names.index(str(name))
    raise InputError("input", got=repr(name), expected=f"one of {', '.join(found.names)}")
