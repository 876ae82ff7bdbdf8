"""Intervals with a guarantee: the model's own, widened or narrowed until runs that it has not seen say they are right.

With one fresh run ``(x_i, y_i)`` of each of n exchangeable inputs, the scores ``|F(y_i | x_i) - 1/2|`` of the model's
distribution functions and that of a new run are exchangeable, whatever the model. The interval between the quantiles
``1/2 - t`` and ``1/2 + t``, ``t`` the ``ceil((n + 1) c)``-th smallest score, therefore holds a new run with probability
at least ``c``, and at most ``c + 1/(n + 1)`` where scores do not tie: on average over inputs, not at each of them
(distributional conformal prediction, Chernozhukov, Wuthrich and Zhu 2021).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from dtmgp.analysis.base import Array, Emulator, inputs_of
from dtmgp.errors import InputError
from dtmgp.random import RandomState, as_generator

EDGE = 1e-9  # quantiles of a model are asked for between EDGE and 1 - EDGE


@dataclasses.dataclass(frozen=True)
class ConformalIntervals:
    """A model with the sorted scores of runs that it has not seen; made by `conformal_intervals`.

    >>> from dtmgp import TMGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 1))
    >>> y = X[:, 0] + 0.1 * rng.standard_exponential(size=300)
    >>> honest = conformal_intervals(TMGPRegressor().fit(X[:100], y[:100]), X[100:], y[100:])
    >>> low, high = honest.predict_interval([[0.5]], coverage=0.9)
    >>> bool(low[0] < 0.6 < high[0])
    True
    """

    model: Emulator
    scores: Float[Array, " n"]

    def half_width(self, coverage: float) -> float:
        """``t``: the interval lies between the quantiles 1/2 - t and 1/2 + t; infinite if there are too few runs."""
        if not 0.0 < coverage < 1.0:
            raise InputError("coverage", got=repr(coverage), expected="a number between 0 and 1")
        rank = math.ceil((len(self.scores) + 1) * coverage - 1e-9)
        return math.inf if rank > len(self.scores) else float(self.scores[rank - 1])

    def predict_interval(
        self, X: Any, coverage: float = 0.9
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Ends (n,) that hold a new run with this probability; infinite where nothing less is guaranteed."""
        half = self.half_width(coverage)
        x = inputs_of(self.model, X)
        if half >= 0.5 - EDGE:  # some run lay outside the law itself
            return np.full(len(x), -np.inf), np.full(len(x), np.inf)
        ends = self.model.predict_quantiles(X, [max(0.5 - half, EDGE), min(0.5 + half, 1.0 - EDGE)])
        return ends[..., 0], ends[..., 1]

    def nominal(self, coverage: float) -> float:
        """The coverage that the model itself gives to this interval: more than asked for where it is overconfident."""
        return min(1.0, 2.0 * self.half_width(coverage))


def conformal_intervals(
    model: Emulator, X: Any, y: npt.ArrayLike, random_state: RandomState = 0
) -> ConformalIntervals:
    """Calibrate a fitted model of one output on runs (X, y) that it has not seen.

    Of replicates one is used, chosen at random: runs of one input are not exchangeable with runs of others.
    """
    x = inputs_of(model, X)
    outputs = np.asarray(y, dtype=np.float64)
    if outputs.shape != (len(x),) or not len(x) or not np.isfinite(outputs).all():
        raise InputError(
            "calibration runs y",
            got=f"shape {outputs.shape} for {len(x)} inputs",
            expected="one finite value per row of X",
            do="drop rows without an output; calibrate one output at a time",
        )
    order = as_generator(random_state).permutation(len(x))
    rows = order[np.unique(x[order], axis=0, return_index=True)[1]]
    table = X.iloc[rows] if hasattr(X, "iloc") else x[rows]
    values = np.asarray(model.cdf(table, outputs[rows]), dtype=np.float64)
    return ConformalIntervals(model, np.sort(np.abs(values - 0.5)))
