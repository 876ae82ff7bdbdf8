"""The figures of the page as plotly descriptions, plain dictionaries; the page adds fonts, grounds and grids."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
from scipy.stats import binom, norm

from dtmgp.analysis.effects import MainEffects
from dtmgp.analysis.labels import axis_label, split_unit
from dtmgp.analysis.regions import CrpsByBin, KsByInput
from dtmgp.analysis.sobol import SobolIndices
from dtmgp.analysis.validation import Validation

# Okabe and Ito's colours: they hold on light and dark grounds and for most colour-blind readers.
BLUE, ORANGE, GREEN, GREY = "#3a8fc4", "#d9691e", "#1a9e74", "#8a8a8a"
BLUE_BAND, GREY_BAND = "rgba(58,143,196,0.30)", "rgba(138,138,138,0.32)"
BAND = 0.95
MOST_POINTS = 600

Figure = dict[str, Any]


def text(value: object) -> str:
    """A name as plotly text, in which < and & would be markup."""
    return html.escape(str(value), quote=False)


def label(column: object) -> str:
    """Axis label of a column, as plotly text."""
    return text(axis_label(column))


def numbers(values: Any) -> list[float | None]:
    """Plain numbers of five digits, None for NaN."""
    flat = np.asarray(values, dtype=float).reshape(-1)
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in flat]


def table(values: Any) -> list[list[float | None]]:
    """Rows of plain numbers."""
    return [numbers(row) for row in np.asarray(values, dtype=float)]


def parity(found: Validation, name: str) -> Figure:
    """Observed against predicted with intervals."""
    rows = np.unique(np.linspace(0, len(found.y) - 1, min(len(found.y), MOST_POINTS)).astype(np.int64))
    mean, y, low, high = found.mean[rows], found.y[rows], found.low[rows], found.high[rows]
    outside = (y < low) | (y > high)
    traces: list[Figure] = []
    for mask, colour, where in ((~outside, BLUE, "inside"), (outside, ORANGE, "outside")):
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{where} the interval ({mask.mean():.0%})",
                "x": numbers(mean[mask]),
                "y": numbers(y[mask]),
                "marker": {"size": 4, "color": colour},
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": numbers(high[mask] - mean[mask]),
                    "arrayminus": numbers(mean[mask] - low[mask]),
                    "thickness": 0.7,
                    "width": 0,
                    "color": colour,
                },
            }
        )
    ends = [min(low.min(), y.min()), max(high.max(), y.max())]
    traces.append(_line(ends, ends, GREY, dash="dash"))
    return _figure(
        traces, f"predicted {label(name)}: mean and {found.interval:.0%} interval", f"observed {label(name)}"
    )


def pit_histogram(found: Validation, bins: int = 20) -> Figure:
    """PIT with the band of a right model."""
    total = len(found.pit)
    counts, edges = np.histogram(found.pit, bins=bins, range=(0.0, 1.0))
    low, high = (float(binom.ppf(0.5 + s * BAND / 2, total, 1 / bins)) * bins / total for s in (-1, 1))
    bars = {
        "type": "bar",
        "x": numbers((edges[:-1] + edges[1:]) / 2),
        "y": numbers(counts * bins / total),
        "width": 1 / bins,
        "marker": {"color": BLUE, "opacity": 0.8},
        "showlegend": False,
        "hovertemplate": "%{y:.2f}<extra></extra>",
    }
    figure = _figure([bars], "predicted probability of a smaller output", "density")
    figure["layout"]["shapes"] = [
        {
            "type": "rect",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": low,
            "y1": high,
            "fillcolor": GREY,
            "opacity": 0.35,
            "line": {"width": 0},
        },
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": 1,
            "y1": 1,
            "line": {"color": GREY, "dash": "dash"},
        },
    ]
    figure["layout"]["xaxis"]["range"] = [0, 1]
    return figure


def qq(found: Validation) -> Figure:
    """Normal scores of the PIT."""
    total = len(found.pit)
    values = norm.ppf(np.clip(np.sort(found.pit), 1e-12, 1 - 1e-12))
    theory = norm.ppf((np.arange(total) + 0.5) / total)
    tail = min(total, 30)
    rows = np.unique(
        np.concatenate(
            [
                np.linspace(0, total - 1, min(total, MOST_POINTS)).astype(np.int64),
                np.arange(tail),
                np.arange(total - tail, total),
            ]
        )
    )
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": numbers(theory[rows]),
        "y": numbers(values[rows]),
        "marker": {"size": 4, "color": BLUE},
        "showlegend": False,
    }
    ends = [theory[0], theory[-1]]
    return _figure(
        [_line(ends, ends, GREY, dash="dash"), dots],
        "quantile of a right model (standard normal)",
        "quantile found",
    )


def coverage(found: Validation) -> Figure:
    """Observed against nominal coverage with the band of a right model."""
    levels = np.linspace(0.02, 0.98, 49)
    low, high = (
        np.asarray(binom.ppf(0.5 + s * BAND / 2, len(found.y), levels)) / len(found.y) for s in (-1, 1)
    )
    traces = [
        *_band(levels, low, high, GREY_BAND, f"right model ({BAND:.0%})"),
        _line([0, 1], [0, 1], GREY, dash="dash"),
        _line(levels, found.coverage(levels), BLUE, name="model"),
    ]
    figure = _figure(traces, "nominal coverage of the central interval", "share of runs inside")
    figure["layout"]["xaxis"]["range"] = figure["layout"]["yaxis"]["range"] = [0, 1]
    return figure


def regions(found: CrpsByBin) -> Figure:
    """Mean CRPS by slices of every input."""
    notes = [
        [
            f"{text(axis_label(name))} from {edges[k]:.4g} to {edges[k + 1]:.4g}<br>{count[k]} runs, mean error "
            f"{bias[k]:+.2f} of its standard deviation"
            for k in range(len(count))
        ]
        for name, edges, count, bias in zip(found.names, found.edges, found.count, found.bias)
    ]
    bins = found.crps.shape[1]
    heat = {
        "type": "heatmap",
        "z": table(found.crps),
        "y": [text(split_unit(name)[0]) for name in found.names],
        "x": [f"{k + 1}/{bins}" for k in range(bins)],
        "text": notes,
        "colorscale": "Viridis",
        "xgap": 1,
        "ygap": 1,
        "colorbar": {"title": {"text": "CRPS"}, "thickness": 12},
        "hovertemplate": "%{text}<br>mean CRPS %{z:.4g}<extra></extra>",
    }
    figure = _figure([heat], "slice of the input's range, from low to high", "")
    figure["layout"]["yaxis"] = {"autorange": "reversed", "automargin": True, "type": "category"}
    figure["layout"]["xaxis"]["type"] = "category"
    figure["height"] = 140 + 26 * len(found.names)
    return figure


def crps_map(found: Validation, first: int, second: int, bins: int = 8) -> Figure:
    """Mean CRPS over cells of two inputs."""
    return _map(found.x[:, [first, second]], found.crps, found.names, (first, second), bins, "CRPS", None)


def ks_map(laws: KsByInput, names: tuple[str, ...], first: int, second: int, bins: int = 8) -> Figure:
    """Distance of laws above that of two halves of the runs."""
    values = laws.model - laws.truth
    limit = float(np.abs(values).max()) or 1.0
    return _map(laws.x[:, [first, second]], values, names, (first, second), bins, "KS excess", limit)


def _map(
    x: np.ndarray,
    values: np.ndarray,
    names: tuple[str, ...],
    pair: tuple[int, int],
    bins: int,
    title: str,
    limit: float | None,
) -> Figure:
    edges = [np.linspace(v.min(), v.max() if v.max() > v.min() else v.min() + 1, bins + 1) for v in x.T]
    count, _, _ = np.histogram2d(x[:, 0], x[:, 1], bins=edges)
    total, _, _ = np.histogram2d(x[:, 0], x[:, 1], bins=edges, weights=values)
    cells = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    heat: Figure = {
        "type": "heatmap",
        "z": table(cells.T),
        "x": numbers(edges[0]),
        "y": numbers(edges[1]),
        "text": [[f"{int(n)} runs" for n in row] for row in count.T],
        "colorscale": "Viridis" if limit is None else "RdBu",
        "colorbar": {"title": {"text": title}, "thickness": 12},
        "hovertemplate": "%{text}<br>" + title + " %{z:.4g}<extra></extra>",
        "hoverongaps": False,
    }
    if limit is not None:
        heat |= {"zmin": -limit, "zmax": limit}
    return _figure([heat], label(names[pair[0]]), label(names[pair[1]]))


def main_effect(found: MainEffects, row: int, name: str) -> Figure:
    """One input: the effect, its posterior band, and the band over the other inputs."""
    along = found.grid[row]
    traces = _band(along, found.others_low[row], found.others_high[row], GREY_BAND, "other inputs vary")
    if found.low is not None and found.high is not None:
        traces += _band(along, found.low[row], found.high[row], BLUE_BAND, "posterior of the effect")
    traces.append(_line(along, found.effect[row], BLUE, name="main effect"))
    figure = _figure(traces, label(found.names[row]), f"{found.label} of {text(split_unit(name)[0])}")
    margin = 0.04 * float(found.others_high.max() - found.others_low.min()) or 1.0
    low, high = float(found.others_low.min()) - margin, float(found.others_high.max()) + margin
    figure["layout"]["yaxis"]["range"] = numbers([low, high])
    figure["layout"]["showlegend"] = False
    figure["height"] = 210
    return figure


def sobol(found: SobolIndices) -> Figure:
    """First-order and total indices with two standard errors."""
    order = np.argsort(found.total)
    names = [text(split_unit(found.names[j])[0]) for j in order]
    traces = []
    for values, errors, colour, title in (
        (found.total, found.total_error, ORANGE, "with others (total)"),
        (found.first, found.first_error, BLUE, "alone (first order)"),
    ):
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": names,
                "x": numbers(np.maximum(values[order], 0.0)),
                "name": title,
                "marker": {"color": colour},
                "error_x": {
                    "type": "data",
                    "array": numbers(2 * errors[order]),
                    "thickness": 1,
                    "width": 2,
                    "color": GREY,
                },
            }
        )
    figure = _figure(traces, f"share of the variance of the {found.label}", "")
    figure["layout"] |= {"barmode": "group", "yaxis": {"automargin": True, "type": "category"}}
    figure["layout"]["xaxis"]["range"] = [0, 1.02]
    figure["height"] = 150 + 30 * len(names)
    return figure


def loss(trace: list[Any]) -> Figure:
    """Loss and held-out score by epoch."""
    step = max(1, -(-len(trace) // MOST_POINTS))
    shown = trace[::step]
    epochs = [int(line.number) for line in shown]
    traces = [_line(epochs, [line.loss for line in shown], BLUE, name="loss")]
    scored = [line for line in trace if np.isfinite(line.validation)]
    if scored:
        dots = _line(
            [line.number for line in scored],
            [line.validation for line in scored],
            ORANGE,
            name="held-out score",
        )
        traces.append(dots | {"mode": "lines+markers"})
    return _figure(traces, "epoch", "negative log density per run")


def _line(x: Any, y: Any, colour: str, name: str = "", dash: str = "solid") -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": numbers(x),
        "y": numbers(y),
        "name": name,
        "showlegend": bool(name),
        "line": {"color": colour, "width": 1.2 if dash != "solid" else 2, "dash": dash},
        **({} if name else {"hoverinfo": "skip"}),
    }


def _band(x: Any, low: Any, high: Any, colour: str, name: str) -> list[Figure]:
    edge = {"type": "scatter", "mode": "lines", "x": numbers(x), "line": {"width": 0}, "hoverinfo": "skip"}
    return [
        edge | {"y": numbers(low), "showlegend": False},
        edge | {"y": numbers(high), "fill": "tonexty", "fillcolor": colour, "name": name},
    ]


def _figure(traces: list[Figure], x: str, y: str) -> Figure:
    axes = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}
    return {"data": traces, "layout": axes, "height": 340}
