"""The predictive law along one input, and draws from it at chosen inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dtmgp.analysis.base import Box, Emulator, inputs_of, one_output, rows_for
from dtmgp.analysis.labels import axis_label, split_unit
from dtmgp.errors import InputError
from dtmgp.plots.axes import BLUE, GREY, ORANGE, grid_of_axes, new_axes
from dtmgp.random import RandomState, as_generator

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def predictive_bands(
    model: Emulator,
    column: str | int = 0,
    *,
    at: Mapping[str | int, float] | None = None,
    coverages: Sequence[float] = (0.5, 0.9),
    points: int = 201,
    output: int | None = None,
    data: tuple[Any, npt.ArrayLike] | None = None,
    name: str = "y",
    ax: Axes | None = None,
) -> Axes:
    """Mean, median and central bands of Y(x) along one input; the others at ``at`` or in the middle of the box.

    ``data`` (X, y) are drawn as dots: all runs for one input, else only those within 10% of the box of the slice.
    """
    axes = new_axes(ax)
    box = Box.of(model)
    number = box.column(column)
    middle = (box.low + box.high) / 2
    for key, value in (at or {}).items():
        middle[box.column(key)] = value
    x = np.tile(middle, (points, 1))
    x[:, number] = np.linspace(box.low[number], box.high[number], points)
    rows = rows_for(model, x)
    levels = sorted({0.5, *(0.5 + s * c / 2 for c in coverages for s in (-1, 1))})
    mean = np.asarray(model.predict(rows))
    quantiles = np.asarray(model.predict_quantiles(rows, levels))
    if mean.ndim == 2:
        mean, quantiles = one_output(mean, output), one_output(quantiles, output)
    along = x[:, number]
    for coverage in sorted(coverages, reverse=True):
        low, high = (levels.index(0.5 + s * coverage / 2) for s in (-1, 1))
        axes.fill_between(
            along,
            quantiles[:, low],
            quantiles[:, high],
            color=BLUE,
            alpha=0.22,
            lw=0,
            label=f"{coverage:.0%}",
        )
    axes.plot(along, quantiles[:, levels.index(0.5)], color=BLUE, lw=1.2, ls="--", label="median")
    axes.plot(along, mean, color=ORANGE, lw=1.6, label="mean")
    if data is not None:
        points_x, points_y = inputs_of(model, data[0]), np.asarray(data[1], dtype=float)
        points_y = points_y if points_y.ndim == 1 else one_output(points_y, output)
        away = np.abs(points_x - middle) / (box.high - box.low)
        away[:, number] = 0.0
        near = away.max(axis=1) <= 0.1
        axes.plot(
            points_x[near, number], points_y[near], "o", ms=3, color="0.25", alpha=0.6, lw=0, label="runs"
        )
    axes.set(xlabel=axis_label(box.names[number]), ylabel=axis_label(name))
    others = [j for j in range(box.dim) if j != number]
    if others:
        text = ", ".join(f"{split_unit(box.names[j])[0]} = {middle[j]:.3g}" for j in others[:4])
        axes.set_title(text + (", ..." if len(others) > 4 else ""), fontsize="small")
    axes.legend(fontsize="small", frameon=False)
    return axes


def sample_gallery(
    model: Emulator,
    X: Any,
    *,
    draws: int = 1000,
    runs: npt.ArrayLike | None = None,
    output: int | None = None,
    name: str = "y",
    axes: Any = None,
    random_state: RandomState = None,
) -> np.ndarray:
    """Histograms of draws from Y(x), one panel per row of X; ``runs`` (n, r) of the simulator are drawn as steps."""
    x = inputs_of(model, X)
    if not 1 <= len(x) <= 64:
        raise InputError("rows of X", got=str(len(x)), expected="1 to 64 panels")
    sample = np.asarray(model.sample_y(rows_for(model, x), draws, random_state=as_generator(random_state)))
    sample = sample if sample.ndim == 2 else one_output(sample, output)
    observed = None if runs is None else np.asarray(runs, dtype=float).reshape(len(x), -1)
    flat = grid_of_axes(len(x), axes)
    names = Box.of(model).names
    for row, panel in enumerate(flat):
        low, high = np.quantile(sample[row], [0.002, 0.998])
        if observed is not None:
            low, high = min(low, observed[row].min()), max(high, observed[row].max())
        edges = np.linspace(low, high if high > low else low + 1.0, 31)
        panel.hist(sample[row], edges, density=True, color=BLUE, alpha=0.6, label="model")
        if observed is not None:
            panel.hist(
                observed[row], edges[::2], density=True, histtype="step", color=ORANGE, lw=1.5, label="runs"
            )
        shown = "\n".join(f"{split_unit(n)[0]} = {v:.3g}" for n, v in list(zip(names, x[row]))[:2])
        panel.set_title(shown + (" ..." if len(names) > 2 else ""), fontsize="small")
        panel.set_xlabel(axis_label(name))
        panel.set_yticks([])
        panel.axvline(sample[row].mean(), color=GREY, lw=1, ls="--")
    flat[0].legend(fontsize="small", frameon=False)
    return flat
