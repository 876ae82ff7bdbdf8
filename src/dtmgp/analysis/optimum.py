"""The best input for a functional of Y(x): many starts in the box, then a local search from each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from scipy.optimize import minimize

from dtmgp.analysis.base import (
    Array,
    Box,
    Emulator,
    Functional,
    Mean,
    evaluate,
    label_of,
    space_filling,
)
from dtmgp.analysis.gradients import stencil
from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator

STEP = 1e-4  # of the difference quotients, in units of the box
COARSE, FINE = 0.05, 1e-5  # first and last step of the pattern search, in units of the box


@dataclasses.dataclass(frozen=True)
class Optimum:
    """The best input found, its value, and the local optima of all starts (best first).

    It is a local optimum and the best of all inputs tried, not a proven global one. ``at_bound[j]`` says that x_j sits
    on a face of the box, where the true optimum may lie outside.

    >>> from dtmgp import TMGPRegressor
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> best = optimal_input(TMGPRegressor().fit(X, (X[:, 0] - 0.3) ** 2), random_state=0)
    >>> best.x.round(1), bool(best.at_bound.any())
    (array([0.3]), False)
    """

    names: tuple[str, ...]
    label: str
    x: Float[Array, " d"]
    value: float
    at_bound: npt.NDArray[np.bool_]
    optima: Float[Array, "s d"]
    values: Float[Array, " s"]
    evaluations: int


def optimal_input(
    model: Emulator,
    functional: Functional | None = None,
    *,
    maximise: bool = False,
    fixed: Mapping[str | int, float] | None = None,
    screen: int = 1024,
    starts: int = 8,
    bounds: npt.ArrayLike | None = None,
    random_state: RandomState = None,
) -> Optimum:
    """Minimise (or maximise) a functional, default the mean, over the box; inputs in ``fixed`` are held.

    The ``starts`` best of ``screen`` Sobol' points, far enough from each other, start L-BFGS-B with difference
    quotients; each end is polished by a pattern search, which does not mind kinks.
    """
    box, functional = Box.of(model, bounds), functional or Mean()
    held = {box.column(name): float(value) for name, value in (fixed or {}).items()}
    for column, value in held.items():
        if not box.low[column] <= value <= box.high[column]:
            raise InputError(
                f"fixed input {box.names[column]!r}",
                got=f"{value:g}",
                expected=f"a value in [{box.low[column]:g}, {box.high[column]:g}]",
            )
    free = [j for j in range(box.dim) if j not in held]
    if not free or screen < 1 or starts < 1:
        raise InputError("search", got="nothing to search", expected="a free input, and starts")
    search = _Search(model, functional, box, free, held, -1.0 if maximise else 1.0)
    unit = space_filling(screen, len(free), as_generator(random_state))
    values = search(unit)
    ends = [search.local(unit[row]) for row in _far_apart(unit, values, starts)]
    ends.sort(key=lambda pair: pair[1])
    optima = np.stack([search.full(end[None])[0] for end, _ in ends])
    found = np.array([search.sign * value for _, value in ends])
    width = box.high - box.low
    edge = (optima[0] <= box.low + 1e-6 * width) | (optima[0] >= box.high - 1e-6 * width)
    edge[list(held)] = False
    return Optimum(
        box.names, label_of(functional), optima[0], float(found[0]), edge, optima, found, search.count
    )


@dataclasses.dataclass
class _Search:
    """The functional as a function on the unit cube of the free inputs, to be minimised."""

    model: Emulator
    functional: Functional
    box: Box
    free: list[int]
    held: dict[int, float]
    sign: float
    count: int = 0

    def full(self, unit: Float[Array, "n f"]) -> Float[Array, "n d"]:
        x = np.zeros((len(unit), self.box.dim))
        x[:, self.free] = unit
        x = self.box.place(x)
        for column, value in self.held.items():
            x[:, column] = value
        return x

    def __call__(self, unit: Float[Array, "n f"]) -> Float[Array, " n"]:
        self.count += len(unit)
        return self.sign * evaluate(self.functional, self.model, self.full(unit))

    def with_gradient(self, point: Float[Array, " f"]) -> tuple[float, Float[Array, " f"]]:
        """Value and difference quotients in one call of the model."""
        dim = len(point)
        cube = Box(np.zeros(dim), np.ones(dim), ("",) * dim)
        nodes, weights = stencil(point[None], cube, STEP)
        probes = np.repeat(np.repeat(point[None, None], dim, axis=0), 3, axis=1)  # (f, 3, f)
        probes[np.arange(dim), :, np.arange(dim)] = nodes[0]
        values = self(np.concatenate([point[None], probes.reshape(-1, dim)]))
        return float(values[0]), (values[1:].reshape(dim, 3) * weights[0]).sum(axis=1)

    def local(self, start: Float[Array, " f"]) -> tuple[Float[Array, " f"], float]:
        """L-BFGS-B, then a pattern search."""
        result = minimize(
            self.with_gradient, start, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(start)
        )
        best = np.clip(result.x, 0.0, 1.0)
        value = float(self(best[None])[0])
        step = COARSE
        moves = np.concatenate([np.eye(len(start)), -np.eye(len(start))])
        while step > FINE:
            trials = np.clip(best + step * moves, 0.0, 1.0)
            values = self(trials)
            k = int(values.argmin())
            if values[k] < value:
                best, value = trials[k], float(values[k])
            else:
                step /= 4.0
        return best, value


def _far_apart(unit: Float[Array, "n f"], values: Float[Array, " n"], starts: int) -> list[int]:
    """Best rows first, skipping those near a better one."""
    radius = 0.5 * starts ** (-1.0 / unit.shape[1])
    order = np.argsort(values, kind="stable")
    chosen: list[int] = []
    for row in order:
        near = np.abs(unit[chosen] - unit[row]).max(axis=1) < radius if chosen else np.array([False])
        if not near.any():
            chosen.append(int(row))
        if len(chosen) == starts:
            break
    return chosen
