"""The page from a model and held-out runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dtmgp.analysis.base import Box, Emulator, inputs_of, rows_for
from dtmgp.analysis.labels import axis_label
from dtmgp.analysis.validation import validate
from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator
from dtmgp.report import facts, figures, html, surrogate
from dtmgp.report.sections import OutputPart, effects_part, training_part, validation_part

MOST_OUTPUTS = 6
MOST_TEST_ROWS = 20_000  # 256 draws of each are held at once


def write_report(
    model: Emulator,
    X_test: Any,
    y_test: npt.ArrayLike,
    path: str | os.PathLike[str],
    *,
    X_train: Any = None,
    y_train: npt.ArrayLike | None = None,
    title: str | None = None,
    output_names: Sequence[str] | None = None,
    draws: int = 256,
    effect_samples: int = 128,
    profile_points: int = 0,
    random_state: RandomState = 0,
) -> Path:
    """Write one HTML file about a fitted model and runs (X_test, y_test) that it has not seen; returns its path.

    With the training data the page compares the model with trivial ones. The file needs no network and holds plotly's
    code once; it replaces ``path`` in one step. ``draws`` per held-out run give CRPS and KS; ``effect_samples`` points
    are averaged in main effects; ``profile_points`` predictions carry the profiler (0: chosen by the number of inputs).

    >>> import tempfile
    >>> from dtmgp import TMGPRegressor
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> model = TMGPRegressor().fit(X[::2], X[::2, 0])
    >>> write_report(model, X[1::2], X[1::2, 0], tempfile.mkdtemp() + "/page.html").name
    'page.html'
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(
            f"report {target}",
            got=f"no folder {target.parent}",
            expected="a folder that exists",
            do="make it first",
        )
    seed = _seed(random_state)
    names = _output_names(y_test, output_names)
    x_test, outputs, wide, left_out = _held_out(model, X_test, y_test)
    x_train, trained = _training(model, X_train, y_train, outputs.shape[1])
    box = Box.of(model)
    shown = min(len(names), MOST_OUTPUTS)
    drawings: dict[str, figures.Figure] = {}
    parts: list[OutputPart] = []
    for number in range(shown):
        output = number if wide else None
        found = validate(
            model, x_test, outputs if wide else outputs[:, 0], output=output, draws=draws, random_state=seed
        )
        own = None if trained is None else trained[:, number]
        part = validation_part(f"o{number}", names[number], found, x_train, own, seed)
        part = effects_part(part, model, found, output, effect_samples, seed)
        drawings |= part.figures
        parts.append(part)
    training, lines = training_part(model)
    drawings |= lines
    profiler, profile_words = _profiler(model, box, names[:shown], wide, profile_points, seed)
    few = "" if shown == len(names) else f" The page shows the first {shown} of {len(names)} outputs."
    headings = [len(parts) > 1 and axis_label(part.name) for part in parts]

    def joined(kind: str) -> list[str]:
        return [
            (f"<h3>{html.escape(head)}</h3>" if head else "") + getattr(part, kind)
            for head, part in zip(headings, parts)
        ]

    log_density = np.asarray(model.log_prob(rows_for(model, x_test), outputs if wide else outputs[:, 0]))
    sections = [
        ("data", "Data", [_data(box, x_test, x_train, names, outputs)]),
        (
            "accuracy",
            "Accuracy",
            [
                *joined("accuracy"),
                html.paragraph(
                    f"Mean log predictive density of a held-out run: {facts.short(float(log_density.mean()))}"
                    + (" (all outputs jointly)." if len(names) > 1 else "."),
                    "small",
                ),
            ],
        ),
        ("calibration", "Calibration", joined("calibration")),
        ("regions", "Where is it wrong?", joined("regions")),
        ("effects", "What the inputs do", joined("effects")),
        ("profiler", "Profiler", [profile_words]),
        ("training", "Training", [training]),
        ("facts", "Settings, versions, seeds", [_facts(model, seed)]),
    ]
    title = title or f"{type(model).__name__}: {', '.join(axis_label(name) for name in names[:3])}"
    content = html.page(
        title,
        " ".join((f"{axis_label(p.name)}: " if len(parts) > 1 else "") + p.verdict for p in parts)
        + few
        + left_out,
        [(name, words) for name, words, _ in sections],
        "".join(html.section(name, words, *body) for name, words, body in sections),
        {"figures": drawings, "profiler": profiler},
    )
    _replace(target, content)
    return target


def _seed(random_state: RandomState) -> int:
    """The int itself, or one drawn from the generator: the page states it."""
    if isinstance(random_state, int | np.integer):
        as_generator(random_state)  # refuses what is no seed
        return int(random_state)
    return int(as_generator(random_state).integers(2**31))


def _held_out(model: Emulator, X: Any, y: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray, bool, str]:
    """Inputs, outputs (n, W), whether the model has an axis of outputs, and words about rows left out."""
    x, outputs = inputs_of(model, X), np.asarray(y, dtype=np.float64)
    outputs = outputs[:, None] if outputs.ndim == 1 else outputs
    predicted = np.shape(model.predict(rows_for(model, x[:1])))
    width = predicted[1] if len(predicted) == 2 else 1
    if outputs.shape != (len(x), width):
        raise InputError(
            "held-out outputs y_test",
            got=f"shape {np.shape(y)} for {len(x)} inputs",
            expected=f"{len(x)} rows and {width} output{'s' if width > 1 else ''}, as in fit",
        )
    step = -(-len(x) // MOST_TEST_ROWS)
    words = "" if step <= 1 else f" Of {len(x):,} held-out rows one in {step} is used."
    return x[:: max(1, step)], outputs[:: max(1, step)], len(predicted) == 2, words


def _output_names(y: Any, given: Sequence[str] | None) -> list[str]:
    width = 1 if np.ndim(y) == 1 else np.shape(y)[1] if np.ndim(y) == 2 else 0
    if width == 0:
        raise InputError("y_test", got=f"shape {np.shape(y)}", expected="(n,) or (n, W)")
    if given is not None:
        if len(given) != width:
            raise InputError("output_names", got=f"{len(given)} names", expected=f"{width}, one per output")
        return [str(name) for name in given]
    columns = getattr(y, "columns", None)
    if columns is not None:
        return [str(name) for name in columns]
    name = getattr(y, "name", None)
    if width == 1:
        return ["y" if name is None else str(name)]
    return [f"y{k}" for k in range(width)]


def _training(
    model: Emulator, X: Any, y: npt.ArrayLike | None, width: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    if (X is None) != (y is None):
        raise InputError("training data", got="one of X_train, y_train", expected="both or neither")
    if X is None:
        return None, None
    x, outputs = inputs_of(model, X), np.asarray(y, dtype=np.float64)
    outputs = outputs[:, None] if outputs.ndim == 1 else outputs
    if outputs.shape != (len(x), width):
        raise InputError("y_train", got=f"shape {outputs.shape}", expected=f"{len(x)} rows, {width} outputs")
    return x, outputs


def _data(
    box: Box, x_test: np.ndarray, x_train: np.ndarray | None, names: Sequence[str], outputs: np.ndarray
) -> str:
    words = "" if x_train is not None else " (training data were not given)"
    return "".join(
        [
            html.table(
                ["runs" + words, "rows", "distinct inputs", "most replicates"],
                facts.data_rows(x_test, x_train),
            ),
            html.table(
                ["output (held out)", "unit", "mean", "std", "least", "median", "largest"],
                facts.output_rows(names, outputs),
            ),
            html.table(
                [
                    "input",
                    "unit",
                    "box of the model",
                    "held-out range",
                    "distinct values",
                    "rows outside the box",
                ],
                facts.input_rows(box, x_test),
            ),
        ]
    )


def _profiler(
    model: Emulator, box: Box, names: Sequence[str], wide: bool, points: int, seed: int
) -> tuple[dict[str, Any], str]:
    made = [
        surrogate.build(model, output=number if wide else None, points=points, seed=seed)
        for number in range(len(names))
    ]
    inputs = [
        {"label": axis_label(name), "low": float(low), "high": float(high)}
        for name, low, high in zip(box.names, box.low, box.high)
    ]
    outputs = []
    for name, found in zip(names, made):
        values = found.weights if found.kind == "grid" else found(found.points)
        low, high = float(values.min()), float(values.max())
        margin = 0.05 * (high - low) or 1.0
        outputs.append(
            {"label": axis_label(name), "range": [low - margin, high + margin], "surrogate": found.describe()}
        )
    options = "".join(
        f'<option value="{k}">{html.escape(o["label"])}</option>' for k, o in enumerate(outputs)
    )
    choice = (
        f'<label>Output <select id="profile-output">{options}</select></label> ' if len(outputs) > 1 else ""
    )
    how = (
        f"linearly on a grid of {made[0].predictions:,} predictions"
        if made[0].kind == "grid"
        else f"by a Gaussian process interpolant of {made[0].predictions:,} predictions"
    )
    worst = max(float(found.rms.max()) for found in made)
    largest = max(float(found.largest.max()) for found in made)
    words = (
        "Move a slider: every panel shows how the law of the output changes along one input, the others held at their "
        "sliders. Line: mean; bands: half and 90% of all runs; dashed: where the slider is."
    )
    exact = (
        f"Approximation: mean and quantiles at levels 5, 25, 50, 75 and 95% are interpolated {how}. At "
        f"{surrogate.FRESH} fresh inputs the root mean square error of the worst of them was {worst:.1%} of the mean "
        f"predictive standard deviation, the largest error {largest:.0%}. "
        + ("This is large: read trends here, and ask the model for numbers." if worst > 0.1 else "")
    )
    body = (
        html.paragraph(words)
        + html.paragraph(exact, "note" if worst > 0.1 else "small")
        + f'<p>{choice}<button type="button" id="profile-centre">all sliders to the middle</button></p>'
        + '<p id="readout" aria-live="polite"></p><div id="profiles"></div>'
    )
    return {"inputs": inputs, "outputs": outputs}, body


def _facts(model: Any, seed: int) -> str:
    return html.table([], facts.settings_rows(model), caption="Model", kind="facts") + html.table(
        [], facts.version_rows(seed), caption="Versions and seed", kind="facts"
    )


def _replace(target: Path, content: str) -> None:
    """Write beside the target, then put it in place: a reader sees the old file or the whole new one."""
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise InputError(
            f"report {target}", got=str(error.strerror), expected="a folder to write to"
        ) from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise InputError(f"report {target}", got=str(error.strerror), expected="a path to write") from None
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
