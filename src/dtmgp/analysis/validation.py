"""A model against held-out runs: everything that the plots and the report show, computed once."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

from dtmgp.analysis.base import ROWS, Array, Box, Emulator, inputs_of, one_output, rows_for
from dtmgp.errors import InputError
from dtmgp.metrics import crps, pit
from dtmgp.random import RandomState, as_generator


@dataclasses.dataclass(frozen=True)
class Validation:
    """Held-out runs of one output beside what the model says of them; row k of every array is run k.

    ``pit`` is the predictive distribution function at y, uniform if the law is right (randomised where draws tie, as
    for counts); ``crps`` the score of ``draws``; ``group`` numbers the distinct inputs.

    >>> from dtmgp import TMGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(150, 1))
    >>> y = X[:, 0] + 0.1 * rng.normal(size=150)
    >>> found = validate(TMGPRegressor().fit(X[:100], y[:100]), X[100:], y[100:], random_state=0)
    >>> found.pit.shape, bool(0.7 < found.coverage([0.9])[0] < 1.0)
    ((50,), True)
    """

    names: tuple[str, ...]
    x: Float[Array, "n d"]
    y: Float[Array, " n"]
    mean: Float[Array, " n"]
    std: Float[Array, " n"]
    low: Float[Array, " n"]
    high: Float[Array, " n"]
    interval: float
    pit: Float[Array, " n"]
    crps: Float[Array, " n"]
    draws: Float[Array, "n S"]
    group: Int[Array, " n"]

    def coverage(self, levels: npt.ArrayLike) -> Float[Array, " k"]:
        """Share of runs inside the central intervals of the given nominal coverages."""
        nominal = np.asarray(levels, dtype=float).reshape(-1)
        return np.asarray((np.abs(self.pit[:, None] - 0.5) <= nominal / 2).mean(axis=0))

    @property
    def replicated(self) -> bool:
        """Whether some input was run at least four times: enough for two halves of two."""
        return bool(np.bincount(self.group).max(initial=0) >= 4)


def validate(
    model: Emulator,
    X: Any,
    y: npt.ArrayLike,
    *,
    output: int | None = None,
    interval: float = 0.9,
    draws: int = 256,
    random_state: RandomState = None,
) -> Validation:
    """Compare a model with held-out runs (X, y); ``output`` picks one of several."""
    x = inputs_of(model, X)
    outputs = np.asarray(y, dtype=np.float64)
    if outputs.ndim not in (1, 2) or len(outputs) != len(x) or len(x) < 2 or not np.isfinite(outputs).all():
        raise InputError(
            "held-out outputs y",
            got=f"shape {outputs.shape} for {len(x)} inputs",
            expected="finite values, one row per row of X, at least 2",
            do="drop rows without an output",
        )
    rng = as_generator(random_state)
    parts = [
        _part(model, x[k : k + ROWS // 4], outputs[k : k + ROWS // 4], output, interval, draws, rng)
        for k in range(0, len(x), ROWS // 4)
    ]
    columns = [np.concatenate([part[k] for part in parts]) for k in range(7)]
    mean, std, low, high, cdf, sample, observed = columns
    ties = (np.diff(np.sort(sample[:64], axis=1), axis=1) == 0).any()
    integral = pit(observed, sample, rng) if ties else np.clip(cdf, 0.0, 1.0)
    group = np.unique(x, axis=0, return_inverse=True)[1].reshape(-1)
    score = crps(observed, sample)
    return Validation(
        Box.of(model).names, x, observed, mean, std, low, high, interval, integral, score, sample, group
    )


def _part(
    model: Emulator,
    x: Float[Array, "n d"],
    y: Array,
    output: int | None,
    interval: float,
    draws: int,
    rng: np.random.Generator,
) -> list[Array]:
    rows = rows_for(model, x)
    mean, std = model.predict(rows, return_std=True)
    shaped = y.reshape(np.shape(mean)) if y.size == np.size(mean) else y
    low, high = model.predict_interval(rows, interval)
    found = [mean, std, low, high, model.cdf(rows, shaped), model.sample_y(rows, draws, rng), shaped]
    if np.ndim(mean) == 2:
        found = [one_output(values, output) for values in found]
    return [np.asarray(values, dtype=np.float64) for values in found]
