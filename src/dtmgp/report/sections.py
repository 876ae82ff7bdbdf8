"""The parts of the page about one output, and about the training."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from dtmgp.analysis.base import Emulator, Mean, StandardDeviation
from dtmgp.analysis.effects import main_effects
from dtmgp.analysis.labels import axis_label
from dtmgp.analysis.regions import CrpsByBin, crps_by_bin, ks_by_input
from dtmgp.analysis.sobol import SobolIndices, sobol_indices
from dtmgp.analysis.validation import Validation
from dtmgp.errors import InputError
from dtmgp.report import figures, html
from dtmgp.report.accuracy import accuracy
from dtmgp.report.facts import short

Array = np.ndarray
SOBOL_SAMPLES = 512
MOST_EFFECTS = 24


@dataclasses.dataclass(frozen=True)
class OutputPart:
    """HTML of the sections about one output, and the figures in them by name."""

    key: str
    name: str
    verdict: str
    accuracy: str
    calibration: str
    regions: str
    effects: str
    figures: dict[str, figures.Figure]


def validation_part(
    key: str,
    name: str,
    found: Validation,
    x_train: Float[Array, "m d"] | None,
    y_train: Float[Array, " m"] | None,
    seed: int,
) -> OutputPart:
    """Everything that compares the model with held-out runs."""
    compared = accuracy(found, x_train, y_train, seed)
    own = compared.scores[0]
    tiles = [
        html.tile(short(own.crps), "mean CRPS, in units of the output (smaller is better)"),
        html.tile(short(own.rmse), "root mean square error of the mean"),
        html.tile(f"{own.coverage90:.1%}", "of runs in the 90% interval"),
        html.tile(f"{len(found.y):,}", "held-out runs"),
    ]
    rows = [
        (
            s.name,
            short(s.crps),
            short(s.rmse),
            _share(s.coverage50),
            _share(s.coverage90),
            short(s.width90),
            short(s.ks, 3),
        )
        for s in compared.scores
    ]
    notes = [compared.verdict]
    if compared.replicated_runs:
        notes.append(
            f"The last line compares the simulator with itself: every run with the others at its input "
            f"({compared.replicated_runs:,} runs). No model beats it except by luck."
        )
    if compared.replicated_inputs:
        notes.append(
            "KS: mean distance between half of the runs at an input and as many draws, over "
            f"{compared.replicated_inputs:,} inputs; between two halves of the runs in the last line."
        )
    head = ["", "CRPS", "RMSE", "in 50% interval", "in 90% interval", "width of 90%", "KS distance"]
    slices = crps_by_bin(found)
    maps, drawn = maps_part(found, key, slices, seed)
    drawn |= {
        f"{key}-parity": figures.parity(found, name),
        f"{key}-pit": figures.pit_histogram(found),
        f"{key}-qq": figures.qq(found),
        f"{key}-coverage": figures.coverage(found),
        f"{key}-regions": figures.regions(slices),
    }
    few = "" if len(found.y) <= figures.MOST_POINTS else f" ({figures.MOST_POINTS} of {len(found.y):,} runs)"
    return OutputPart(
        key,
        name,
        compared.verdict,
        accuracy=f'<div class="tiles">{"".join(tiles)}</div>'
        + html.table(head, rows, own=0)
        + "".join(html.paragraph(words) for words in notes),
        calibration='<div class="figures">'
        + html.figure(
            f"{key}-parity", f"Observed against predicted{few}. A right model has 90% of the runs inside."
        )
        + html.figure(
            f"{key}-pit",
            "Where runs fall in their predicted law. Flat is right; a hump: laws too wide; a bowl: too narrow; "
            "a slope: biased. Grey: 95% of the bars of a right model, for independent runs.",
        )
        + html.figure(f"{key}-qq", "The same in normal scores: shows the tails. On the line is right.")
        + html.figure(
            f"{key}-coverage",
            "Share of runs in central intervals. Above the line: too wide; below: too narrow.",
        )
        + "</div>",
        regions=html.figure(
            f"{key}-regions",
            "Mean CRPS in eight slices of every input: bright slices are where the model does worst.",
        )
        + maps,
        effects="",
        figures=drawn,
    )


def maps_part(
    found: Validation, key: str, table: CrpsByBin, seed: int
) -> tuple[str, dict[str, figures.Figure]]:
    """Maps over the two inputs along which the CRPS varies most."""
    if len(found.names) < 2:
        return "", {}
    weight = table.count / table.count.sum(axis=1, keepdims=True)
    score = np.nan_to_num(table.crps - found.crps.mean())
    order = np.argsort(-(weight * score**2).sum(axis=1), kind="stable")
    first, second = int(order[0]), int(order[1])
    drawn = {f"{key}-map": figures.crps_map(found, first, second)}
    places = html.figure(
        f"{key}-map", "Mean CRPS over the two inputs along which it varies most; empty cells have no runs."
    )
    laws = ks_by_input(found, random_state=seed)
    if len(laws.model) >= 10:
        drawn[f"{key}-ksmap"] = figures.ks_map(laws, found.names, first, second)
        places += html.figure(
            f"{key}-ksmap",
            "KS distance of model and runs, less that of two halves of the runs: zero on average where the "
            "law is right.",
        )
    return f'<div class="figures">{places}</div>', drawn


def effects_part(
    part: OutputPart, model: Emulator, found: Validation, output: int | None, samples: int, seed: int
) -> OutputPart:
    """Main effects and Sobol' indices."""
    key, drawn = part.key, dict(part.figures)
    mean, spread = (
        _indices(model, functional, seed) for functional in (Mean(output), StandardDeviation(output))
    )
    totals = [found.total for found in (mean, spread) if found is not None]
    weight = np.sum(totals, axis=0) if totals else np.zeros(len(found.names))
    order = np.argsort(-weight, kind="stable")
    shown = [int(j) for j in order[:MOST_EFFECTS]]
    effects = main_effects(
        model, Mean(output), inputs=shown, points=17, samples=samples, draws=48, random_state=seed
    )
    for row in range(len(shown)):
        drawn[f"{key}-effect{row}"] = figures.main_effect(effects, row, part.name)
    above = (
        f"Mean of {axis_label(part.name)} along each input, averaged over the others ({samples} points in the model's "
        "box), the most important first. Grey: 90% band over the other inputs."
    )
    words = [above]
    if effects.low is not None:
        words.append("Blue band: 90% posterior band of the effect.")
    if len(shown) < len(found.names):
        words.append(f"The {len(shown)} most important of {len(found.names)} inputs.")
    panels = "".join(html.figure(f"{key}-effect{row}") for row in range(len(shown)))
    bars = ""
    for name, indices in (("mean", mean), ("spread", spread)):
        if indices is not None:
            drawn[f"{key}-sobol-{name}"] = figures.sobol(_largest(indices))
            bars += html.figure(
                f"{key}-sobol-{name}", f"Sobol' indices of the {indices.label}, with two standard errors."
            )
        else:
            bars += html.paragraph(
                "The standard deviation does not vary over the box: no indices."
                if name == "spread"
                else "The mean does not vary over the box: no indices.",
                "small",
            )
    return dataclasses.replace(
        part,
        effects=html.paragraph(" ".join(words))
        + f'<div class="effects">{panels}</div><div class="figures">{bars}</div>',
        figures=drawn,
    )


def training_part(model: Any) -> tuple[str, dict[str, figures.Figure]]:
    """The loss trace, or why there is none."""
    trace = list(getattr(model, "trace_", None) or [])
    if not trace:
        return html.paragraph("This model was fitted in closed form or without epochs: no loss trace."), {}
    seconds = sum(float(getattr(line, "seconds", 0.0)) for line in trace)
    words = f"{len(trace)} epochs in {seconds:.1f} s."
    return html.paragraph(words) + html.figure("loss"), {"loss": figures.loss(trace)}


def _indices(model: Emulator, functional: Mean | StandardDeviation, seed: int) -> SobolIndices | None:
    try:
        return sobol_indices(model, functional, samples=SOBOL_SAMPLES, bootstrap=100, random_state=seed)
    except InputError:  # a constant
        return None


def _largest(found: SobolIndices) -> SobolIndices:
    """Only the inputs that a figure has room for."""
    keep = np.sort(np.argsort(-found.total, kind="stable")[:MOST_EFFECTS])
    return dataclasses.replace(
        found,
        names=tuple(found.names[j] for j in keep),
        first=found.first[keep],
        total=found.total[keep],
        first_error=found.first_error[keep],
        total_error=found.total_error[keep],
    )


def _share(value: float) -> str:
    return "–" if not np.isfinite(value) else f"{value:.1%}"
