"""What the profiler page draws: the law at one point, and how it changes along every input from there."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from dtmgp.analysis.base import one_output, rows_for
from dtmgp.serve.answers import plain
from dtmgp.serve.capacity import Deadline
from dtmgp.serve.faults import Unprocessable
from dtmgp.serve.requests import ProfileRequest, point_from
from dtmgp.serve.served import ServedModel

Array = np.ndarray
SCORES = np.linspace(-3.5, 3.5, 45)  # normal scores of the quantiles that the density is made of
BUDGET = 0.015  # seconds of work of the model for the curves of a picture
FEWEST, ENOUGH, MOST = 9, 13, 25  # points per curve
DIGITS = 7  # of numbers that are only drawn


class Profiler:
    """Pictures of one model; the number of points per curve follows from the model's speed, measured here.

    >>> from dtmgp import TMGPRegressor
    >>> model = TMGPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> picture = Profiler(ServedModel.of(model))(ProfileRequest(at=[1.0]), Deadline(10.0))
    >>> round(picture["mean"], 2), len(picture["curves"])
    (1.0, 1)
    """

    def __init__(self, served: ServedModel, points: int | None = None) -> None:
        self.served, self.drawn = served, served.for_pictures()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="dtmgp-profile")
        self.inner = True  # whether the band of half of all runs is drawn
        self.points = self._affordable() if points is None else points
        low, high = served.typical()
        self.low, self.high = low, high

    def _affordable(self) -> int:
        """Odd, so that the middle of the range is among them. A model that is too slow loses the inner band."""
        box = self.served.box
        x = np.repeat(0.5 * (box.low + box.high)[None], box.dim * FEWEST, axis=0)

        def points() -> float:
            seconds = []
            for _ in range(4):  # the first one compiles
                start = time.thread_time()  # work, not waiting: other programs should not thin the curves
                self._curves(x, 0.9, Deadline(600.0))
                seconds.append(time.thread_time() - start)
            return BUDGET / max(min(seconds[1:]), 1e-9) * FEWEST

        wanted = points()
        self.inner = wanted >= ENOUGH
        return int(np.clip((wanted if self.inner else points()) // 2 * 2 + 1, FEWEST, MOST))

    def _levels(self, coverage: float) -> list[float]:
        """Ends of the interval, and of half of all runs between them if these are drawn."""
        tail = 0.5 - coverage / 2
        return [tail, 0.25, 0.75, 1.0 - tail] if self.inner else [tail, 1.0 - tail]

    def _curves(self, x: Float[Array, "n d"], coverage: float, deadline: Deadline) -> tuple[Array, Array]:
        """Mean (n, W) and quantiles (n, W, q), only to be looked at."""
        mean, _, quantiles = self.drawn.summary(x, self._levels(coverage), deadline)
        return mean, quantiles

    def output(self, number: int) -> int:
        """A number of an output that exists."""
        if number >= len(self.served.outputs):
            raise Unprocessable(f"output: {number}, the model has {len(self.served.outputs)}, counted from 0")
        return number

    def __call__(self, request: ProfileRequest, deadline: Deadline) -> dict[str, Any]:
        """Numbers and density at the point, and one curve per input."""
        served, box = self.served, self.served.box
        output = self.output(request.output)
        at = served.checked(point_from(request.at, box)[None])[0]
        unit = np.linspace(0.0, 1.0, self.points)
        ticks = box.place(np.repeat(unit[:, None], box.dim, axis=1))  # (G, d)
        rows = np.repeat(at[None], box.dim * self.points, axis=0)
        lines = rows.reshape(box.dim, self.points, box.dim)
        lines[np.arange(box.dim), :, np.arange(box.dim)] = ticks.T
        here = self._pool.submit(self.here, at, output, request.coverage, deadline)  # on the other core
        mean, quantiles = (column(part, output) for part in self._curves(rows, request.coverage, deadline))
        bands = ("low", "low50", "high50", "high") if self.inner else ("low", "high")
        curves = []
        for j in range(box.dim):
            part = slice(j * self.points, (j + 1) * self.points)
            curves.append(
                {
                    "x": shown(ticks[:, j]),
                    "mean": shown(mean[part]),
                    **{name: shown(quantiles[part, k]) for k, name in enumerate(bands)},
                }
            )
        return {
            "at": at.tolist(),
            "output": served.outputs[output],
            "coverage": request.coverage,
            **here.result(),
            "curves": curves,
            "range": shown(column(np.stack([self.low, self.high]), output)),
            "extrapolates": served.outside(at[None])[0],
        }

    def here(
        self, at: Float[Array, " d"], output: int, coverage: float, deadline: Deadline
    ) -> dict[str, Any]:
        """Moments, interval and density at the point: the numbers of ``predict``."""
        tail, scores = 0.5 - coverage / 2, ndtr(SCORES)
        found = self.served.summary(at[None], [tail, 1.0 - tail, *scores], deadline)
        mean, std, quantiles = (column(part, output)[0] for part in found)
        numbers = {"mean": mean, "std": std, "low": quantiles[0], "high": quantiles[1]}
        return {
            **{name: plain(float(value)) for name, value in numbers.items()},
            "density": self._density(at, output, scores, quantiles[2:]),
        }

    def _density(
        self, at: Float[Array, " d"], output: int, levels: Float[Array, " q"], y: Float[Array, " q"]
    ) -> dict[str, Any]:
        """Density of Y(at) by differences of its quantiles, or the probabilities of values if it is discrete."""
        steps = np.diff(y)
        if (steps <= 1e-9 * max(np.ptp(y), 1e-300)).sum() > 3:
            return self._masses(at, output, np.unique(y))
        middle = 0.5 * (y[1:] + y[:-1])
        return {"y": shown(middle), "density": shown(np.diff(levels) / np.maximum(steps, 1e-300))}

    def _masses(self, at: Float[Array, " d"], output: int, values: Float[Array, " v"]) -> dict[str, Any]:
        """Probabilities of the values that Y(at) takes."""
        model = self.served.model
        median = np.asarray(model.predict_quantiles(rows_for(model, at[None]), 0.5))
        rows = rows_for(model, np.repeat(at[None], len(values), axis=0))
        wide = values if median.ndim == 1 else np.repeat(values[:, None], median.shape[1], axis=1)
        below = np.asarray(model.cdf(rows, wide), dtype=np.float64)
        below = below if below.ndim == 1 else one_output(below, output)
        return {"y": shown(values), "mass": shown(np.diff(below, prepend=0.0))}


def column(values: Float[Array, "n W ..."], output: int) -> Float[Array, "n ..."]:
    """One output; probabilities of classes are several outputs, whose class is one."""
    return values[:, min(output, values.shape[1] - 1)]


def shown(values: Array) -> Any:
    """Numbers for drawing, shortened."""
    return plain([float(f"{value:.{DIGITS}g}") for value in np.asarray(values, dtype=float).tolist()])
