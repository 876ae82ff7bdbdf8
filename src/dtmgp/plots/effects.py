"""Main effects, interactions and Sobol' indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dtmgp.analysis.effects import Interactions, MainEffects
from dtmgp.analysis.labels import axis_label, split_unit
from dtmgp.analysis.sobol import SobolIndices
from dtmgp.errors import InputError
from dtmgp.plots.axes import BLUE, GREY, ORANGE, grid_of_axes, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def main_effects(found: MainEffects, *, name: str = "y", axes: Any = None) -> np.ndarray:
    """One panel per input: the effect, its posterior band, and in grey the band of f over the other inputs."""
    flat = grid_of_axes(len(found.names), axes)
    bottom, top = float(found.others_low.min()), float(found.others_high.max())
    margin = 0.05 * (top - bottom) or 1.0
    for row, panel in enumerate(flat):
        along = found.grid[row]
        panel.fill_between(
            along,
            found.others_low[row],
            found.others_high[row],
            color=GREY,
            alpha=0.2,
            lw=0,
            label="others vary",
        )
        if found.low is not None and found.high is not None:
            panel.fill_between(
                along, found.low[row], found.high[row], color=BLUE, alpha=0.4, lw=0, label="posterior"
            )
        panel.plot(along, found.effect[row], color=BLUE, lw=1.6, label="effect")
        panel.set_xlabel(axis_label(found.names[row]))
        panel.set_ylim(bottom - margin, top + margin)
    flat[0].set_ylabel(f"{found.label} of {axis_label(name)}")
    flat[0].legend(fontsize="x-small", frameon=False)
    return flat


def interaction_map(found: Interactions, pair: int = 0, ax: Axes | None = None) -> Axes:
    """One two-way interaction as a map; ``pair`` is its place in ``found.pairs``."""
    if not 0 <= pair < len(found.pairs):
        raise InputError("pair", got=repr(pair), expected=f"0 to {len(found.pairs) - 1}")
    axes = new_axes(ax)
    first, second = found.pairs[pair]
    limit = float(np.abs(found.effect).max()) or 1.0
    mesh = axes.contourf(
        found.grid[first],
        found.grid[second],
        found.effect[pair].T,
        levels=np.linspace(-limit, limit, 22),
        cmap="RdBu_r",
    )
    axes.figure.colorbar(
        mesh,
        ax=axes,
        label=f"interaction in the {found.label}",
        ticks=np.linspace(-limit, limit, 5),
        format="%.2g",
    )
    axes.set(xlabel=axis_label(found.names[first]), ylabel=axis_label(found.names[second]))
    return axes


def sobol_bars(found: SobolIndices, ax: Axes | None = None) -> Axes:
    """First-order and total indices with two standard errors, the largest total on top."""
    axes = new_axes(ax, height=max(2.4, 0.42 * len(found.names) + 1.2))
    order = np.argsort(found.total)
    places = np.arange(len(order))
    for shift, values, errors, colour, text in (
        (0.2, found.first, found.first_error, BLUE, "alone (first order)"),
        (-0.2, found.total, found.total_error, ORANGE, "with others (total)"),
    ):
        axes.barh(places + shift, values[order], 0.38, color=colour, alpha=0.85, label=text)
        axes.errorbar(
            values[order],
            places + shift,
            xerr=2 * errors[order],
            fmt="none",
            ecolor="0.3",
            elinewidth=1,
            capsize=2,
        )
    axes.set_yticks(places, [split_unit(found.names[j])[0] for j in order])
    axes.set_xlim(0, max(1.0, float((found.total + 2 * found.total_error).max())))
    axes.set_xlabel(f"share of the variance of the {found.label}")
    axes.legend(fontsize="small", frameon=False, loc="lower right")
    return axes
