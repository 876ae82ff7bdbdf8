"""Axes to draw into, colours, and the one message for a missing matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dtmgp.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which most colour-blind readers tell apart; they hold on light and dark grounds.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#7f7f7f"
MOST_POINTS = 3000  # of a scatter; the rest is left out at regular places, and the title says so


def pyplot() -> Any:
    """matplotlib.pyplot, or the reason why not."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        raise InputError(
            "plots", got="no matplotlib", expected="matplotlib", do="pip install 'dtmgp[plots]'"
        ) from None
    return plt


def new_axes(ax: Axes | None, width: float = 4.6, height: float = 3.6) -> Axes:
    """The given axes, or those of a new figure."""
    if ax is not None:
        return ax
    _, made = pyplot().subplots(figsize=(width, height), layout="constrained")
    return made  # type: ignore[no-any-return]


def grid_of_axes(count: int, axes: Any = None, width: float = 2.6, height: float = 2.2) -> np.ndarray:
    """``count`` axes, flat: the given ones, or a new figure of at most four columns with the rest hidden."""
    if axes is not None:
        flat = np.atleast_1d(np.asarray(axes, dtype=object)).reshape(-1)
        if len(flat) < count:
            raise InputError("axes", got=str(len(flat)), expected=f"at least {count}, one per panel")
        return flat[:count]
    columns = min(count, 4)
    rows = -(-count // columns)
    _, made = pyplot().subplots(
        rows, columns, figsize=(width * columns, height * rows), layout="constrained", squeeze=False
    )
    for spare in made.reshape(-1)[count:]:
        spare.set_visible(False)
    return np.asarray(made.reshape(-1)[:count])


def thin(count: int, most: int = MOST_POINTS) -> np.ndarray:
    """Row numbers of at most ``most`` rows, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
