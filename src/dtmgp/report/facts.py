"""Facts for the page: the data in numbers, the settings of the model, versions and seeds."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from jaxtyping import Float

from dtmgp import __version__
from dtmgp.analysis.base import Box
from dtmgp.analysis.labels import split_unit

Array = np.ndarray
Rows = list[tuple[str, ...]]
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "torch", "plotly")


def short(value: float, digits: int = 4) -> str:
    """A number of a few digits; a dash for NaN."""
    return "–" if not np.isfinite(value) else f"{value:.{digits}g}"


def sizes(x: Float[Array, "n d"]) -> tuple[int, int, int]:
    """Rows, distinct rows, and the most replicates of one."""
    _, counts = np.unique(x, axis=0, return_counts=True)
    return len(x), len(counts), int(counts.max(initial=0))


def data_rows(x_test: Float[Array, "n d"], x_train: Float[Array, "m d"] | None) -> Rows:
    """Rows, distinct inputs and replicates of the two sets."""
    sets = [("training", x_train)] if x_train is not None else []
    return [
        (name, *(f"{k:,}" for k in sizes(x))) for name, x in [*sets, ("held out", x_test)] if x is not None
    ]


def input_rows(box: Box, x: Float[Array, "n d"]) -> Rows:
    """Name, unit, box, and the range of the held-out runs, per input."""
    found: Rows = []
    for column, name in enumerate(box.names):
        values = x[:, column]
        outside = int(((values < box.low[column]) | (values > box.high[column])).sum())
        found.append(
            (
                *split_unit(name),
                f"{short(box.low[column])} to {short(box.high[column])}",
                f"{short(values.min())} to {short(values.max())}",
                f"{len(np.unique(values)):,}",
                f"{outside:,}",
            )
        )
    return found


def output_rows(names: Sequence[str], y: Float[Array, "n w"]) -> Rows:
    """Name, unit, and the spread of the held-out runs, per output."""
    return [
        (
            *split_unit(name),
            *(
                short(float(v))
                for v in (values.mean(), values.std(), values.min(), np.median(values), values.max())
            ),
        )
        for name, values in zip(names, y.T)
    ]


def settings_rows(model: Any) -> Rows:
    """Parameters of the model and what the fit found, as text."""
    found: Rows = [("model", type(model).__name__)]
    if hasattr(model, "get_params"):
        found += [(name, _plain(value)) for name, value in sorted(model.get_params(deep=False).items())]
    for name in ("path_", "level_", "log_evidence_", "n_iter_", "stop_reason_", "best_epoch_"):
        value = getattr(model, name, None)
        if value is not None:
            found.append((name, _plain(value)))
    return found


def version_rows(seed: int) -> Rows:
    """Versions, machine, seed of this page."""
    found: Rows = [
        ("dtmgp", __version__),
        ("Python", platform.python_version()),
        ("system", platform.platform(terse=True)),
    ]
    for name in PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            found.append((name, "not installed"))
    return [*found, ("seed of this page", str(seed))]


def _plain(value: object) -> str:
    if isinstance(value, float):
        return short(value, 6)
    if isinstance(value, np.ndarray) and value.size > 12:
        return f"array of shape {value.shape}"
    words = " ".join(str(value.tolist() if isinstance(value, np.ndarray) else value).split())
    return words if len(words) <= 160 else words[:157] + "..."
