"""Oracles: scores from their definitions on a small case, and laws for which the verdict is known."""

from __future__ import annotations

import numpy as np
import pytest

from dtmgp.analysis import Validation
from dtmgp.metrics import crps
from dtmgp.report.accuracy import accuracy, truth_against_truth, verdict


def validation(shift=0.0, spread=1.0, replicates=6, inputs=80, seed=0):
    """Runs N(3 x, 1), and a model that says N(3 x + shift, spread^2)."""
    rng = np.random.default_rng(seed)
    x = np.repeat(rng.uniform(size=(inputs, 1)), replicates, axis=0)
    n = len(x)
    y = 3 * x[:, 0] + rng.normal(size=n)
    mean = 3 * x[:, 0] + shift
    draws = mean[:, None] + spread * rng.normal(size=(n, 200))
    from scipy.stats import norm

    return Validation(
        names=("x",),
        x=x,
        y=y,
        mean=mean,
        std=np.full(n, spread),
        low=mean - 1.645 * spread,
        high=mean + 1.645 * spread,
        interval=0.9,
        pit=norm.cdf(y, mean, spread),
        crps=crps(y, draws),
        draws=draws,
        group=np.repeat(np.arange(inputs), replicates),
    )


def train(seed=9):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(300, 1))
    return x, 3 * x[:, 0] + rng.normal(size=300)


def test_rows_and_their_order():
    found = accuracy(validation(), *train(), seed=0)
    names = [score.name for score in found.scores]
    assert names[0] == "model"
    assert len(names) == 4
    model, blind, quadratic, truth = found.scores
    # N(0, 1) against itself: CRPS 1/sqrt(pi); 480 runs, standard error 0.02
    assert model.crps == pytest.approx(1 / np.sqrt(np.pi), abs=0.06)
    assert truth.crps == pytest.approx(1 / np.sqrt(np.pi), abs=0.08)
    assert blind.crps > model.crps
    assert quadratic.crps == pytest.approx(model.crps, abs=0.05)
    assert model.coverage90 == pytest.approx(0.9, abs=0.05)
    assert model.width90 == pytest.approx(2 * 1.645, abs=0.15)
    assert model.rmse == pytest.approx(1.0, abs=0.12)
    assert abs(model.ks - truth.ks) < 0.1
    assert found.replicated_runs == 480
    assert found.replicated_inputs == 80


def test_truth_against_truth_is_the_leave_one_out_score():
    found = validation(inputs=3, replicates=4)
    by_hand = [
        crps(
            [found.y[k]],
            np.delete(
                found.y[found.group == found.group[k]],
                np.flatnonzero(found.group == found.group[k]).tolist().index(k),
            )[None],
        )[0]
        for k in range(len(found.y))
    ]
    mean, runs = truth_against_truth(found)
    assert runs == 12
    assert mean == pytest.approx(np.mean(by_hand))
    assert np.isnan(truth_against_truth(validation(replicates=2))[0])


def test_verdicts():
    good, bad = accuracy(validation(), *train(), seed=0), accuracy(validation(shift=4.0), *train(), seed=0)
    assert "cannot be told apart" in good.verdict  # the quadratic model is right here
    assert "worse than a trivial model" in bad.verdict
    right, blind = validation(), validation(spread=3.0)
    assert "beats the best trivial model (wide) by" in verdict(right, [("wide", blind)])
    alone = accuracy(validation(), None, None, seed=0)
    assert "No training data" in alone.verdict
    assert [score.name for score in alone.scores] == ["model", "other runs at the same input"]
