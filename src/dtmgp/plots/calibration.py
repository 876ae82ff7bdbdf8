"""Held-out runs beside the model: parity with intervals, PIT histogram, QQ plot, coverage against nominal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom, norm

from dtmgp.analysis.labels import axis_label
from dtmgp.analysis.validation import Validation
from dtmgp.errors import InputError
from dtmgp.plots.axes import BLUE, GREY, ORANGE, new_axes, thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAND = 0.95  # of the sampling bands for independent runs


def parity(found: Validation, ax: Axes | None = None, *, name: str = "y", most: int = 400) -> Axes:
    """Observed against predicted: the mean, and the central interval as a line; runs outside it in another colour."""
    axes = new_axes(ax)
    rows = thin(len(found.y), most)
    x, y = found.mean[rows], found.y[rows]
    low, high = found.low[rows], found.high[rows]
    outside = (y < low) | (y > high)
    for mask, colour, text in ((~outside, BLUE, "inside"), (outside, ORANGE, "outside")):
        if mask.any():
            axes.hlines(y[mask], low[mask], high[mask], color=colour, alpha=0.35, lw=1)
            axes.plot(x[mask], y[mask], "o", ms=3, color=colour, label=f"{text} ({mask.mean():.0%})")
    ends = [min(low.min(), y.min()), max(high.max(), y.max())]
    axes.plot(ends, ends, color=GREY, lw=1, ls="--")
    axes.set(
        xlabel=f"predicted {axis_label(name)}: mean, {found.interval:.0%} interval",
        ylabel=f"observed {axis_label(name)}",
    )
    shown = "" if len(rows) == len(found.y) else f" ({len(rows)} of {len(found.y)} runs)"
    axes.set_title(f"Parity{shown}")
    axes.legend(loc="upper left", fontsize="small", frameon=False)
    return axes


def pit_histogram(found: Validation, ax: Axes | None = None, *, bins: int = 20) -> Axes:
    """Histogram of the probability integral transform, with the band of a right model's bars.

    A hump means that the law is too wide, a bowl too narrow, a slope biased. The band is for independent runs; at
    replicated inputs they are not quite.
    """
    if bins < 2:
        raise InputError("bins", got=repr(bins), expected="at least 2")
    axes = new_axes(ax)
    total = len(found.pit)
    counts, edges = np.histogram(found.pit, bins=bins, range=(0.0, 1.0))
    low, high = (float(binom.ppf(0.5 + s * BAND / 2, total, 1.0 / bins)) * bins / total for s in (-1, 1))
    axes.axhspan(low, high, color=GREY, alpha=0.35, lw=0, zorder=3, label=f"right model: {BAND:.0%} of bars")
    axes.axhline(1.0, color=GREY, lw=1, ls="--")
    heights = counts * bins / total
    axes.stairs(heights, edges, fill=True, color=BLUE, alpha=0.7)
    axes.set(xlim=(0, 1), xlabel="predicted probability of a smaller output", ylabel="density", title="PIT")
    axes.set_ylim(0, 1.2 * max(heights.max(), high))
    axes.legend(loc="upper center", fontsize="small", frameon=False)
    return axes


def qq(found: Validation, ax: Axes | None = None) -> Axes:
    """Normal scores of the PIT against normal quantiles: tails are what this picture shows."""
    axes = new_axes(ax)
    total = len(found.pit)
    values = norm.ppf(np.clip(np.sort(found.pit), 1e-12, 1 - 1e-12))
    ranks = (np.arange(total) + 0.5) / total
    rows = thin(total)
    # the tails in full
    rows = np.unique(np.concatenate([rows, np.arange(min(50, total)), np.arange(max(0, total - 50), total)]))
    theory = norm.ppf(ranks)
    axes.plot(theory[[0, -1]], theory[[0, -1]], color=GREY, lw=1, ls="--")
    axes.plot(theory[rows], values[rows], ".", ms=4, color=BLUE)
    axes.set(xlabel="quantile of a right model", ylabel="quantile found", title="QQ (normal scores)")
    return axes


def calibration_curve(found: Validation, ax: Axes | None = None) -> Axes:
    """Share of runs in the central interval, against its nominal coverage, with the band of a right model."""
    axes = new_axes(ax)
    levels = np.linspace(0.01, 0.99, 99)
    low, high = coverage_band(levels, len(found.pit))
    axes.fill_between(levels, low, high, color=GREY, alpha=0.25, lw=0, label=f"right model, {BAND:.0%}")
    axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--")
    axes.plot(levels, found.coverage(levels), color=BLUE, lw=2, label="model")
    axes.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="nominal coverage", ylabel="observed coverage", title="Coverage"
    )
    axes.legend(loc="upper left", fontsize="small", frameon=False)
    return axes


def coverage_band(levels: np.ndarray, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the coverage of a right model lies, level by level, for independent runs."""
    low, high = (np.asarray(binom.ppf(0.5 + s * BAND / 2, runs, levels)) / runs for s in (-1, 1))
    return low, high
