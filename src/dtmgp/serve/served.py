"""A fitted model as the service sees it: names, bounds, checked inputs, predictions in parts of bounded size."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dtmgp.analysis.base import Box, rows_for, space_filling
from dtmgp.analysis.labels import axis_label
from dtmgp.errors import InputError
from dtmgp.serve.capacity import Deadline
from dtmgp.serve.faults import Unprocessable

Array = np.ndarray
PART = 512  # rows between two looks at the clock
FARTHEST = 10.0  # widths of the fitted range beyond which no answer means anything


def without_names(model: Any) -> Any:
    """The same fitted model for arrays: names are checked here, and tables would cost ten times a small prediction."""
    if getattr(model, "feature_names_in_", None) is None:
        return model
    same = copy.copy(model)
    del same.feature_names_in_
    return same


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A fitted model with the names of its outputs.

    >>> from dtmgp import TMGPRegressor
    >>> served = ServedModel.of(TMGPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]))
    >>> served.outputs, served.outside(np.array([[0.5], [3.0]]))
    (('y',), [[], ['x0']])
    """

    model: Any
    box: Box
    outputs: tuple[str, ...]
    title: str = ""

    @classmethod
    def of(cls, model: Any, outputs: Sequence[str] | None = None, title: str = "") -> ServedModel:
        """The model, and names of its outputs if they are to be other than ``y`` or ``y0``, ``y1``, .."""
        box = Box.of(model)
        model = without_names(model)
        middle = 0.5 * (box.low + box.high)[None]
        width = np.asarray(model.predict(rows_for(model, middle))).reshape(1, -1).shape[1]
        names = tuple(outputs or (["y"] if width == 1 else [f"y{k}" for k in range(width)]))
        if len(names) != width or len(set(names)) < width:
            raise InputError(
                "names of the outputs", got=", ".join(names), expected=f"{width} different names"
            )
        return cls(model, box, names, title or type(model).__name__)

    @property
    def strict(self) -> bool:
        """Whether the model refuses inputs outside its bounds."""
        return bool(self.model.cube_.strict)

    def describe(self) -> dict[str, Any]:
        """For clients: what goes in, what comes out."""
        box = self.box
        return {
            "title": self.title,
            "kind": type(self.model).__name__,
            "inputs": [
                {"name": name, "label": axis_label(name), "low": low, "high": high}
                for name, low, high in zip(box.names, box.low.tolist(), box.high.tolist())
            ],
            "outputs": list(self.outputs),
            "outside": "refused" if self.strict else "flagged",
        }

    def checked(self, x: Float[Array, "n d"], first: int = 0) -> Float[Array, "n d"]:
        """Refuse rows that the model cannot answer, naming row and input."""
        box = self.box
        bad = ~np.isfinite(x)
        if bad.any():
            row, column = (int(k) for k in np.argwhere(bad)[0])
            raise Unprocessable(f"row {row + first}, input {box.names[column]!r}: not a finite number")
        reach = 0.0 if self.strict else FARTHEST
        width = box.high - box.low
        far = (x < box.low - reach * width) | (x > box.high + reach * width)
        if far.any():
            row, column = (int(k) for k in np.argwhere(far)[0])
            limits = f"[{box.low[column]:g}, {box.high[column]:g}]"
            rule = f"outside the bounds {limits}" if self.strict else f"far outside the fitted range {limits}"
            raise Unprocessable(
                f"row {row + first}, input {box.names[column]!r}: {x[row, column]:g} lies {rule}"
            )
        return x

    def outside_mask(self, x: Float[Array, "n d"]) -> Bool[Array, "n d"]:
        """Which inputs lie outside the fitted range."""
        return np.asarray((x < self.box.low) | (x > self.box.high))

    def outside(self, x: Float[Array, "n d"]) -> list[list[str]]:
        """Names of the inputs outside the fitted range, per row: an answer there extrapolates."""
        names = self.box.names
        mask = self.outside_mask(x)
        found: list[list[str]] = [[] for _ in x]
        for row in np.flatnonzero(mask.any(axis=1)).tolist():
            found[row] = [names[j] for j in np.flatnonzero(mask[row])]
        return found

    def in_parts(
        self, ask: Callable[[Any], Any], x: Float[Array, "n d"], deadline: Deadline
    ) -> list[Float[Array, "n ..."]]:
        """``ask(rows)``, an array or a tuple of arrays with one entry per row, for all rows; the clock is watched."""
        found: list[list[Array]] = []
        for start in range(0, len(x), PART):
            deadline.check()
            answer = ask(rows_for(self.model, x[start : start + PART]))
            parts = answer if isinstance(answer, tuple) else (answer,)
            found.append([np.asarray(part, dtype=np.float64) for part in parts])
        return [np.concatenate(parts) for parts in zip(*found)]

    def moments(self, x: Float[Array, "n d"], deadline: Deadline) -> list[Array]:
        """Mean and standard deviation of Y(x)."""
        return self.in_parts(lambda rows: self.model.predict(rows, return_std=True), x, deadline)

    def interval(self, x: Float[Array, "n d"], coverage: float, deadline: Deadline) -> list[Array]:
        """Ends of the central interval of Y(x)."""
        return self.in_parts(lambda rows: self.model.predict_interval(rows, coverage), x, deadline)

    def quantiles(self, x: Float[Array, "n d"], levels: Sequence[float], deadline: Deadline) -> Array:
        """Quantiles of Y(x), levels last."""
        wanted = list(levels)
        return self.in_parts(lambda rows: self.model.predict_quantiles(rows, wanted), x, deadline)[0]

    def summary(
        self, x: Float[Array, "n d"], levels: Sequence[float], deadline: Deadline
    ) -> tuple[Array, Array, Array]:
        """Mean (n, W), standard deviation (n, W) and quantiles (n, W, q): in one pass, if the model has one."""
        wanted, model = list(levels), self.model
        if hasattr(model, "predict_summary"):
            found = self.in_parts(lambda rows: model.predict_summary(rows, wanted), x, deadline)
        else:
            found = [*self.moments(x, deadline), self.quantiles(x, wanted, deadline)]
        mean, std, quantiles = found
        n = len(x)
        return mean.reshape(n, -1), std.reshape(n, -1), quantiles.reshape(n, -1, len(wanted))

    def for_pictures(self) -> ServedModel:
        """The same model in single precision, if it has that."""
        if not hasattr(self.model, "single_precision"):
            return self
        return dataclasses.replace(self, model=self.model.single_precision())

    def draws(
        self,
        x: Float[Array, "n d"],
        number: int,
        seed: int,
        functions: bool,
        deadline: Deadline,
        part: int = 0,
    ) -> Array:
        """Draws of Y(x), or of functions. Draws of Y(x) differ from part to part of a streamed answer."""
        if functions:  # the same seed for every part: the same functions
            return self.in_parts(
                lambda rows: self.model.sample_functions(rows, number, random_state=seed), x, deadline
            )[0]
        generator = np.random.default_rng([seed, part] if part else seed)
        return self.in_parts(
            lambda rows: self.model.sample_y(rows, number, random_state=generator), x, deadline
        )[0]

    def typical(self) -> tuple[Float[Array, " W"], Float[Array, " W"]]:
        """Range of 5% and 95% quantiles over the box: the vertical axis of the page."""
        unit = space_filling(256, self.box.dim, np.random.default_rng(0))
        found = self.quantiles(self.box.place(unit), [0.05, 0.95], Deadline(600.0))
        found = found.reshape(len(unit), -1, 2)
        return found[..., 0].min(axis=0), found[..., 1].max(axis=0)
