"""Scores of a fitted model, or of the truth itself, on a problem: the columns of the board."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from board.problem import OBSERVATIONS, Problem, Size
from dtmgp.metrics import (
    average_ks,
    coverage,
    crps,
    interval_from_draws,
    ks_against_cdf,
    rmse,
)

COLUMNS = ("ks100", "ks10k", "crps", "nll", "rmse", "cover50", "cover90", "cover99")
LEVELS = (0.5, 0.9, 0.99)
REPEATS = 10  # of the 100 against 100 draws
CELLS = 20_000_000  # test inputs x draws held at once

Scores = dict[str, float | None]


def draws_for(problem: Problem, size: Size) -> int:
    """Draws of the large sample per test input: fewer where thousands of test inputs would fill the memory."""
    return max(OBSERVATIONS, min(size.draws, CELLS // len(problem.X_test)))


def score_draws(problem: Problem, few: np.ndarray, many: np.ndarray) -> Scores:
    """KS100 of ``few`` (repeats, n, 100), KS10k, CRPS and coverage of ``many`` (n, S); no NLL and RMSE.

    KS10k is against the exact cdf where it is known, otherwise against as many draws of the truth. One KS100 over 100
    test inputs has a standard error of 0.0034, more than its bars lie apart: hence the mean of ``REPEATS``.
    """
    scores: Scores = dict.fromkeys(COLUMNS)
    if problem.draw is not None:
        truth = problem.draw(OBSERVATIONS * len(few), "small samples")
        parts = np.split(truth, len(few), axis=1)
        scores["ks100"] = float(np.mean([average_ks(part, own) for part, own in zip(parts, few)]))
        if problem.cdf is not None:
            scores["ks10k"] = float(ks_against_cdf(many, problem.cdf, problem.left).mean())
        else:
            scores["ks10k"] = average_ks(problem.draw(many.shape[1], "large sample"), many)
    scores["crps"] = mean_crps(problem.y_test, many)
    for level in LEVELS:
        inside = coverage(problem.y_test, *interval_from_draws(many, level))
        scores[f"cover{100 * level:.0f}"] = inside
    return scores


def mean_crps(y: np.ndarray, draws: np.ndarray) -> float:
    """Mean CRPS of observations y (n, r), all of a row against the same draws (n, S); in parts that fit in memory."""
    total, block = 0.0, max(1, CELLS // (y.shape[1] * draws.shape[1]))
    for start in range(0, len(y), block):
        part = slice(start, start + block)
        total += float(crps(y[part], draws[part, None, :]).sum())
    return total / y.size


def score_model(problem: Problem, model: Any, size: Size, seed: int) -> Scores:
    """All scores of a fitted model with ``sample_y``, and ``predict`` and ``log_prob`` where it has them."""
    X = problem.X_test
    states = np.random.default_rng([seed, REPEATS]).integers(2**31, size=REPEATS + 1).tolist()
    repeats = REPEATS if problem.draw is not None else 0
    few = np.array([model.sample_y(X, OBSERVATIONS, random_state=state) for state in states[:repeats]])
    many = np.asarray(model.sample_y(X, draws_for(problem, size), random_state=states[-1]))
    scores = score_draws(problem, few, many)
    mean = np.asarray(model.predict(X)) if hasattr(model, "predict") else many.mean(axis=1)
    scores["rmse"] = rmse(problem.mean, mean) if problem.mean is not None else rmse(problem.y_test, mean)
    if hasattr(model, "log_prob"):
        scores["nll"] = -float(np.mean(log_densities(model, X, problem.y_test)))
    return scores


def log_densities(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log densities of observations y (n, r): regressors take one per row, baselines and peers all of a row."""
    if isinstance(model, BaseEstimator):
        return np.asarray(model.log_prob(np.repeat(X, y.shape[1], axis=0), y.ravel()))
    return np.asarray(model.log_prob(X, y))


def score_truth(problem: Problem, size: Size) -> Scores:
    """The floor: the truth drawn again in place of a model."""
    assert problem.draw is not None
    many = problem.draw(draws_for(problem, size), "floor, large sample")
    few = problem.draw(OBSERVATIONS * REPEATS, "floor, small samples")
    scores = score_draws(problem, np.array(np.split(few, REPEATS, axis=1)), many)
    if problem.mean is not None:
        scores["rmse"] = 0.0
    if problem.log_density is not None:
        scores["nll"] = -float(np.mean(problem.log_density(problem.y_test)))
    return scores
