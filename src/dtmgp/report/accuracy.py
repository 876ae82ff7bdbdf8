"""How good is the model? Its scores beside those of trivial models, and beside the simulator's own scatter."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dtmgp.analysis.regions import ks_by_input
from dtmgp.analysis.validation import Validation
from dtmgp.baselines import Baseline, InputIgnoringKDE, QuadraticBootstrap
from dtmgp.errors import InputError
from dtmgp.metrics import crps, interval_from_draws, pit, rmse
from dtmgp.random import as_generator

Array = np.ndarray
MOST_TRAINING_ROWS = 20_000  # of a baseline
MOST_REPLICATES = 200  # compared with each other at one input


class Score(NamedTuple):
    """One row of the table; NaN where a score does not apply."""

    name: str
    rmse: float
    crps: float
    coverage50: float
    coverage90: float
    width90: float
    ks: float


class Accuracy(NamedTuple):
    """All rows, the model first; the verdict in words; how many runs and inputs the comparison of laws is based on."""

    scores: list[Score]
    verdict: str
    replicated_runs: int
    replicated_inputs: int


def accuracy(
    found: Validation,
    x_train: Float[Array, "m d"] | None,
    y_train: Float[Array, " m"] | None,
    seed: int,
) -> Accuracy:
    """Scores of the model, of the trivial models if there are training data, and of the runs among themselves."""
    rivals = [] if x_train is None or y_train is None else _rivals(found, x_train, y_train, seed)
    laws = ks_by_input(found, random_state=seed)
    scores = [score("model", found, float(laws.model.mean()) if len(laws.model) else np.nan)]
    for name, rival in rivals:
        distance = ks_by_input(rival, random_state=seed).model
        scores.append(score(name, rival, float(distance.mean()) if len(distance) else np.nan))
    own, runs = truth_against_truth(found)
    if runs:
        truth = float(laws.truth.mean()) if len(laws.truth) else np.nan
        scores.append(Score("other runs at the same input", np.nan, own, np.nan, np.nan, np.nan, truth))
    return Accuracy(scores, verdict(found, rivals), runs, len(laws.model))


def score(name: str, found: Validation, ks: float) -> Score:
    """One row from a validation."""
    half, most = found.coverage([0.5, 0.9])
    low, high = interval_from_draws(found.draws, 0.9)
    return Score(
        name,
        rmse(found.y, found.mean),
        float(found.crps.mean()),
        float(half),
        float(most),
        float((high - low).mean()),
        ks,
    )


def truth_against_truth(found: Validation) -> tuple[float, int]:
    """Mean CRPS of every run against the other runs at its input, and the number of such runs (3 replicates or more).

    By the fair estimator its mean is the score of the true law, which no model beats except by luck.
    """
    values = []
    for number in np.flatnonzero(np.bincount(found.group) >= 3):
        runs = found.y[found.group == number][:MOST_REPLICATES]
        others = np.stack([np.delete(runs, k) for k in range(len(runs))])
        values.append(crps(runs, others))
    if not values:
        return np.nan, 0
    joined = np.concatenate(values)
    return float(joined.mean()), len(joined)


def verdict(found: Validation, rivals: list[tuple[str, Validation]]) -> str:
    """Does the model beat the best trivial model in CRPS, by more than chance?"""
    if not rivals:
        return "No training data were given, so there is no trivial model to compare with."
    name, best = min(rivals, key=lambda pair: pair[1].crps.mean())
    # Runs at one input share the error of the model there: the standard error is over inputs.
    sums = np.bincount(found.group, best.crps - found.crps)
    gain, inputs = float(sums.sum()) / len(found.y), len(sums)
    error = float(sums.std(ddof=1)) * np.sqrt(inputs) / len(found.y) if inputs > 1 else np.inf
    share = gain / float(best.crps.mean()) if best.crps.mean() > 0 else 0.0
    if gain > 2 * error:
        return f"The model beats the best trivial model ({name}) by {share:.0%} in CRPS."
    if gain < -2 * error:
        return f"The model is worse than a trivial model ({name}) by {-share:.0%} in CRPS: do not use it as it is."
    return f"The model and the best trivial model ({name}) cannot be told apart in CRPS on these runs."


def _rivals(
    found: Validation, x: Float[Array, "m d"], y: Float[Array, " m"], seed: int
) -> list[tuple[str, Validation]]:
    step = max(1, -(-len(x) // MOST_TRAINING_ROWS))
    x, y = x[::step], y[::step]
    made: list[tuple[str, Validation]] = []
    models: list[tuple[str, Baseline]] = [
        ("density of y, ignoring x", InputIgnoringKDE()),
        ("quadratic mean and spread, resampled residuals", QuadraticBootstrap()),
    ]
    for name, baseline in models:
        try:
            baseline.fit(x, y)
        except InputError:  # too many inputs for quadratic terms
            continue
        rng = as_generator(seed)
        mean, std = baseline.predict(found.x, return_std=True)
        draws = baseline.sample_y(found.x, found.draws.shape[1], rng)
        low, high = interval_from_draws(draws, found.interval)
        made.append(
            (
                name,
                dataclasses.replace(
                    found,
                    mean=np.asarray(mean),
                    std=np.asarray(std),
                    low=low,
                    high=high,
                    pit=pit(found.y, draws, rng),
                    crps=crps(found.y, draws),
                    draws=draws,
                ),
            )
        )
    return made
