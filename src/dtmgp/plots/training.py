"""The trace of a training run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dtmgp.errors import InputError
from dtmgp.plots.axes import BLUE, GREEN, ORANGE, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def loss_trace(model: Any, ax: Axes | None = None) -> Axes:
    """Loss per epoch and the held-out score, from ``model.trace_`` or a list of its lines; the best epoch is marked."""
    trace = list(getattr(model, "trace_", model) if not isinstance(model, list | tuple) else model)
    if not trace:
        raise InputError(
            "trace", got="no epochs", expected="a model trained by epochs", cause="an exact one-layer model"
        )
    axes = new_axes(ax)
    epochs = [line.number for line in trace]
    axes.plot(epochs, [line.loss for line in trace], color=BLUE, lw=1.5, label="loss")
    scored = [(line.number, line.validation) for line in trace if np.isfinite(line.validation)]
    if scored:
        number, score = np.array(scored).T
        axes.plot(number, score, "o-", ms=3, color=ORANGE, lw=1, label="held-out score")
        axes.axvline(number[score.argmin()], color=GREEN, lw=1, ls="--", label="best epoch")
    axes.set(xlabel="epoch", ylabel="negative log density per run", title="Training")
    axes.legend(fontsize="small", frameon=False)
    return axes
