"""The validation report: a model on fresh runs, beside trivial models and beside the simulator's own scatter."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dtmgp.analysis.validation import validate
from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator
from dtmgp.report.accuracy import Score, accuracy

Array = np.ndarray
COLUMNS = ("rmse", "crps", "ks", "coverage50", "coverage90", "width90")


@dataclasses.dataclass(frozen=True)
class ValidationReport:
    """Scores on runs that the model has not seen: one row for the model, one per trivial model, one for the simulator.

    ``crps`` and ``rmse`` are in the units of the output, ``ks`` is the mean Kolmogorov-Smirnov distance between runs at
    one input and the predicted law (inputs with at least 4 runs), ``coverage90`` the share of runs in central 90%
    intervals, ``width90`` their width. The row of the simulator compares its runs with one another: no model can be
    better than that, except by luck.
    """

    scores: tuple[Score, ...]
    verdict: str
    runs: int
    inputs: int

    @property
    def model(self) -> Score:
        """The row of the model."""
        return self.scores[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts; a score that does not apply is None."""
        rows = [
            {name: _number(value) for name, value in row._asdict().items() if name in ("name", *COLUMNS)}
            for row in self.scores
        ]
        return {"runs": self.runs, "inputs": self.inputs, "verdict": self.verdict, "scores": rows}

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def __str__(self) -> str:
        width = max(len(row.name) for row in self.scores) + 1
        lines = [f"{'':{width}}" + "".join(f"{name:>12}" for name in COLUMNS)]
        for row in self.scores:
            cells = ["" if math.isnan(value := getattr(row, name)) else f"{value:.4g}" for name in COLUMNS]
            lines.append(f"{row.name:{width}}" + "".join(f"{cell:>12}" for cell in cells))
        lines.append(f"{self.runs} fresh runs at {self.inputs} inputs. {self.verdict}")
        return "\n".join(lines)


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def assess(
    model: Any,
    x_fresh: Float[Array, "n d"],
    y_fresh: Float[Array, "n ..."],
    x: Float[Array, "m d"],
    y: Float[Array, " m"],
    *,
    output: int | None = None,
    draws: int = 256,
    random_state: int = 0,
) -> ValidationReport:
    """Scores of a model fitted to (x, y) on fresh runs; for one ``output`` of several, y_fresh is (n, W).

    >>> from dtmgp import TMGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=(120, 1))
    >>> y = np.sin(6 * x[:, 0]) + 0.1 * rng.normal(size=120)
    >>> report = assess(TMGPRegressor().fit(x[:80], y[:80]), x[80:], y[80:], x[:80], y[:80])
    >>> report.model.crps < 0.2 * report.scores[1].crps, report.inputs
    (True, 40)
    """
    found = validate(model, x_fresh, y_fresh, output=output, draws=draws, random_state=random_state)
    result = accuracy(found, x, y, random_state)
    return ValidationReport(tuple(result.scores), result.verdict, len(found.y), int(found.group.max()) + 1)


@dataclasses.dataclass(frozen=True)
class Target:
    """The accuracy at which a campaign stops: every score that is given must be at most its value.

    The runs that decide are the validation runs, looked at after every round: their last score is a little too good,
    as the smallest of several looks is.

    >>> Target(crps=0.2).crps
    0.2
    """

    crps: float | None = None
    ks: float | None = None
    rmse: float | None = None

    def __post_init__(self) -> None:
        given = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        if not given or not all(math.isfinite(value) and value > 0 for value in given.values()):
            raise InputError(
                "target", got=repr(given), expected="a positive crps, ks or rmse, in the units of the output"
            )

    def reached(self, report: ValidationReport) -> bool:
        """Whether the model is at least that good."""
        return all(
            getattr(report.model, name) <= value
            for name, value in dataclasses.asdict(self).items()
            if value is not None
        )


def hold_out(x: Float[Array, "n d"], share: float, random_state: RandomState = 0) -> Bool[Array, " n"]:
    """Which rows to learn from: all rows of an input are on one side, so that no replicate of a test row is seen.

    ``share`` of the distinct inputs are held out, at least 2 unless it is 0, and never all but 2.

    >>> hold_out(np.array([[0.0], [0.0], [1.0], [2.0], [3.0]]), 0.5, random_state=0).tolist()
    [False, False, True, False, True]
    """
    group = np.unique(x, axis=0, return_inverse=True)[1].reshape(-1)
    inputs = int(group.max()) + 1
    count = 0 if share == 0 else min(max(2, round(share * inputs)), inputs - 2)
    out = as_generator(random_state).permutation(inputs)[: max(0, count)]
    return np.asarray(~np.isin(group, out))
