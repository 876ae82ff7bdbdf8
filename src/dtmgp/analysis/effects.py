"""Main effects and two-way interactions: averages over the other inputs, uniform in the box."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from dtmgp.analysis.base import (
    ROWS,
    Array,
    Box,
    Emulator,
    Functional,
    Mean,
    evaluate,
    label_of,
    one_output,
    rows_for,
    space_filling,
)
from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator


@dataclasses.dataclass(frozen=True)
class MainEffects:
    """``effect[j, k] = E f(x) with x_j = grid[j, k]``, the other inputs uniform in the box.

    ``low``, ``high``: central band of the effect under the posterior of the mean function (draws of functions); None if
    the functional is not the mean or the model cannot draw functions. ``others_low``, ``others_high``: central band
    of f(x) over the other inputs: where it is much wider than the effect moves, other inputs matter more.

    >>> from dtmgp import TMGPRegressor
    >>> X = np.random.default_rng(0).uniform(size=(50, 2))
    >>> found = main_effects(TMGPRegressor().fit(X, X[:, 0]), points=3, random_state=0)
    >>> found.effect[0].round(1) + 0.0, found.strength.round(1)  # E f with x0 at its ends and in the middle
    (array([0. , 0.5, 1. ]), array([0.3, 0. ]))
    """

    names: tuple[str, ...]
    label: str
    grid: Float[Array, "e k"]
    effect: Float[Array, "e k"]
    low: Float[Array, "e k"] | None
    high: Float[Array, "e k"] | None
    others_low: Float[Array, "e k"]
    others_high: Float[Array, "e k"]
    coverage: float

    @property
    def strength(self) -> Float[Array, " e"]:
        """Standard deviation of each effect, its input uniform."""
        weights = trapezoid(self.grid.shape[1])
        centred = self.effect - (self.effect @ weights)[:, None]
        return np.asarray(np.sqrt(centred**2 @ weights))


@dataclasses.dataclass(frozen=True)
class Interactions:
    """Second-order effects ``f_ij(u, v) = E[f | x_i = u, x_j = v] - E[f | x_i = u] - E[f | x_j = v] + E f``.

    ``effect[p]`` is (k, k) for ``pairs[p] = (i, j)``, rows x_i; each row and column averages to zero. ``low`` and
    ``high`` as in :class:`MainEffects`.

    >>> from dtmgp import TMGPRegressor
    >>> X = np.random.default_rng(0).uniform(size=(80, 2))
    >>> found = interactions(TMGPRegressor().fit(X, X.prod(axis=1)), points=3, random_state=0)
    >>> found.effect[0].round(1) + 0.0  # (u - 1/2)(v - 1/2)
    array([[ 0.2,  0. , -0.2],
           [ 0. ,  0. ,  0. ],
           [-0.2,  0. ,  0.2]])
    """

    names: tuple[str, ...]
    label: str
    pairs: tuple[tuple[int, int], ...]
    grid: Float[Array, "d k"]
    effect: Float[Array, "p k k"]
    low: Float[Array, "p k k"] | None
    high: Float[Array, "p k k"] | None
    coverage: float

    @property
    def strength(self) -> Float[Array, " p"]:
        """Standard deviation of each interaction, both inputs uniform."""
        weights = trapezoid(self.grid.shape[1])
        return np.asarray(np.sqrt(np.einsum("puv,u,v->p", self.effect**2, weights, weights)))


def main_effects(
    model: Emulator,
    functional: Functional | None = None,
    *,
    inputs: Sequence[str | int] | None = None,
    points: int = 21,
    samples: int = 256,
    draws: int = 64,
    coverage: float = 0.9,
    bounds: npt.ArrayLike | None = None,
    random_state: RandomState = None,
) -> MainEffects:
    """Main effects of a functional (default the mean) at ``points`` values of each input, ends included.

    Averages over the other inputs are over ``samples`` Sobol' points, the same for every input and value. The cost
    is ``inputs * points * samples`` predictions, and as many for ``draws`` functions (``draws=0``: no band).
    """
    box, functional = Box.of(model, bounds), functional or Mean()
    _check(points, samples, coverage)
    rng = as_generator(random_state)
    chosen = box.columns(inputs)
    unit = space_filling(samples, box.dim, rng)
    seed = int(rng.integers(2**31))
    steps = np.linspace(0.0, 1.0, points)
    shape = (len(chosen), points)
    effect, others = np.empty(shape), np.empty((2, *shape))
    band = np.empty((2, *shape)) if _can_draw(model, functional, draws) else None
    ends = [0.5 - coverage / 2, 0.5 + coverage / 2]
    for row, column in enumerate(chosen):
        x = np.tile(unit, (points, 1))
        x[:, column] = np.repeat(steps, samples)
        x = box.place(x)
        values = evaluate(functional, model, x).reshape(points, samples)
        effect[row] = values.mean(axis=1)
        others[:, row] = np.quantile(values, ends, axis=1)
        if band is not None:
            curves = _averaged_functions(model, functional, x, points, draws, seed)
            band[:, row] = np.quantile(curves, ends, axis=1)
    low, high = (None, None) if band is None else (band[0], band[1])
    grid = np.stack([box.low[j] + steps * (box.high[j] - box.low[j]) for j in chosen])
    names = tuple(box.names[j] for j in chosen)
    return MainEffects(names, label_of(functional), grid, effect, low, high, others[0], others[1], coverage)


def interactions(
    model: Emulator,
    functional: Functional | None = None,
    *,
    pairs: Sequence[tuple[str | int, str | int]] | None = None,
    points: int = 9,
    samples: int = 128,
    draws: int = 32,
    coverage: float = 0.9,
    bounds: npt.ArrayLike | None = None,
    random_state: RandomState = None,
) -> Interactions:
    """Two-way interactions of a functional (default the mean); all pairs unless ``pairs`` are named.

    Integrals over the two inputs are by the trapezoidal rule on their ``points`` values, over the others by ``samples``
    Sobol' points. The cost is ``points**2 * samples`` predictions per pair, and as many for ``draws`` functions.
    """
    box, functional = Box.of(model, bounds), functional or Mean()
    _check(points, samples, coverage)
    rng = as_generator(random_state)
    if pairs is None:
        chosen = list(combinations(range(box.dim), 2))
    else:
        chosen = [(box.column(first), box.column(second)) for first, second in pairs]
    if any(first == second for first, second in chosen):
        raise InputError("pairs", got="an input with itself", expected="two different inputs")
    unit = space_filling(samples, box.dim, rng)
    seed = int(rng.integers(2**31))
    steps, size = np.linspace(0.0, 1.0, points), points**2
    effect = np.empty((len(chosen), points, points))
    band = np.empty((2, *effect.shape)) if _can_draw(model, functional, draws) else None
    ends = [0.5 - coverage / 2, 0.5 + coverage / 2]
    for row, (first, second) in enumerate(chosen):
        x = np.tile(unit, (size, 1))
        x[:, first] = np.repeat(np.repeat(steps, points), samples)
        x[:, second] = np.repeat(np.tile(steps, points), samples)
        x = box.place(x)
        table = evaluate(functional, model, x).reshape(size, samples).mean(axis=1)
        effect[row] = _centred(table.reshape(points, points))
        if band is not None:
            curves = _averaged_functions(model, functional, x, size, draws, seed)
            tables = _centred(curves.T.reshape(draws, points, points))
            band[:, row] = np.quantile(tables, ends, axis=0)
    low, high = (None, None) if band is None else (band[0], band[1])
    grid = box.low[:, None] + steps * (box.high - box.low)[:, None]
    return Interactions(box.names, label_of(functional), tuple(chosen), grid, effect, low, high, coverage)


def trapezoid(points: int) -> Float[Array, " k"]:
    """Weights of the trapezoidal rule on [0, 1], which add up to 1."""
    weights = np.ones(points)
    weights[[0, -1]] = 0.5
    return weights / weights.sum()


def _centred(tables: Float[Array, "... k k"]) -> Float[Array, "... k k"]:
    """Both one-way averages taken out."""
    weights = trapezoid(tables.shape[-1])
    tables = tables - (tables @ weights)[..., None]
    return np.asarray(tables - np.einsum("...uv,u->...v", tables, weights)[..., None, :])


def _can_draw(model: object, functional: object, draws: int) -> bool:
    return draws > 0 and isinstance(functional, Mean) and hasattr(model, "sample_functions")


def _averaged_functions(
    model: Emulator, functional: Functional, x: Float[Array, "n d"], groups: int, draws: int, seed: int
) -> Float[Array, "groups draws"]:
    """Each drawn function, averaged within ``groups`` equal blocks of rows.

    The same int gives the same functions, so blocks may come from several calls.
    """
    samples = len(x) // groups
    step = max(1, ROWS // samples) * samples
    parts = []
    for start in range(0, len(x), step):
        rows = rows_for(model, x[start : start + step])
        values = np.asarray(model.sample_functions(rows, draws, random_state=seed))  # type: ignore[attr-defined]
        values = values if values.ndim == 2 else one_output(values, getattr(functional, "output", None))
        parts.append(values.reshape(-1, samples, draws).mean(axis=1))
    return np.concatenate(parts)


def _check(points: int, samples: int, coverage: float) -> None:
    if points < 2 or samples < 1:
        raise InputError("points, samples", got=f"{points}, {samples}", expected="at least 2 and 1")
    if not 0.0 < coverage < 1.0:
        raise InputError("coverage", got=repr(coverage), expected="a number between 0 and 1")
