"""Oracle: the metrics of the package applied by hand, and laws whose scores are known."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from dtmgp.baselines import InputIgnoringKDE
from dtmgp.errors import InputError
from dtmgp.metrics import coverage, crps, interval_from_draws, ks_against_cdf, ks_statistic

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
TINY_TASKS = ["network-means-4", "field-40", "epidemic", "jump-d2-n40"]


@pytest.fixture
def board(monkeypatch, tmp_path):
    """The scripts' folder on the path, their cache and lock in a temporary one, their modules forgotten afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import board.problem
    import board.tasks
    import quality

    monkeypatch.setattr(board.problem, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(quality, "ROOT", tmp_path)
    yield quality
    for name in [name for name in sys.modules if name == "quality" or name.split(".")[0] == "board"]:
        del sys.modules[name]


def test_scores_of_draws_are_the_metrics_of_the_package(board):
    from board.problem import Problem
    from board.scores import score_draws

    rng = np.random.default_rng(0)
    y = rng.uniform(size=(3, 100))
    few, many = rng.uniform(size=(3, 100)) ** 2, rng.uniform(size=(3, 400)) ** 2
    given = Problem(np.zeros((1, 1)), np.zeros(1), np.zeros((3, 1)), y, draw=lambda count, role: y)
    with_cdf = Problem(
        *(getattr(given, name) for name in ("X", "y", "X_test", "y_test", "draw")), cdf=lambda t: t
    )
    found = score_draws(with_cdf, few[None], many)
    assert found["ks100"] == ks_statistic(y, few).mean()
    twice = Problem(
        np.zeros((1, 1)), np.zeros(1), np.zeros((3, 1)), y, draw=lambda count, role: np.hstack([y, few])
    )
    assert score_draws(twice, np.array([few, few]), few)["ks100"] == ks_statistic(y, few).mean() / 2
    assert found["ks10k"] == ks_against_cdf(many, lambda t: t).mean()
    by_hand = [crps([y[i, j]], many[i : i + 1])[0] for i in range(3) for j in range(100)]
    assert found["crps"] == pytest.approx(np.mean(by_hand), rel=1e-12)
    assert found["cover90"] == coverage(y, *interval_from_draws(many, 0.9))
    # without a cdf KS10k is against draws of the truth, here y itself
    assert score_draws(given, few[None], many)["ks10k"] == ks_statistic(y, many).mean()


def test_a_model_with_the_true_law_scores_like_the_truth(board):
    """KS10k of 4000 exact draws averages 0.87/sqrt(4000) = 0.0137 (5 sites: standard error 0.0019)."""
    from board.problem import Size
    from board.scores import score_model
    from board.tasks import problem

    from dtmgp.simulators import MM1Queue

    class Truth:
        def sample_y(self, X, n_samples, random_state):
            return MM1Queue().sample(X, n_samples, random_state)

        def predict(self, X):
            return 1.0 / (X[:, 1] - X[:, 0])

        def log_prob(self, X, y):
            return np.log(MM1Queue().pdf(X, y))

    size = Size(inputs=20, tests=5, draws=4000)
    given = problem("queue", 0, size)
    found = score_model(given, Truth(), size, seed=0)
    assert found["ks10k"] == pytest.approx(0.0137, abs=4 * 0.0019)
    assert found["rmse"] == 0.0
    assert found["nll"] == pytest.approx(-np.log(MM1Queue().pdf(given.X_test, given.y_test)).mean())
    assert found["cover90"] == pytest.approx(0.9, abs=4 * (0.09 / 500) ** 0.5)


def test_main_runs_every_kind_of_task_and_does_not_run_rows_twice(board, tmp_path, capsys):
    from board.problem import TINY

    out = tmp_path / "rows.csv"
    rows = board.main(TINY_TASKS, ["tmgp(level=1, max_evaluations=2)"], [0], out, size=TINY)
    models = ["truth", "quadratic-bootstrap", "ignores-x", "tmgp(level=1, max_evaluations=2)"]
    expected = [
        (task, model) for task in TINY_TASKS for model in models if (task[:4], model) != ("jump", "truth")
    ]
    assert [(row["task"], row["model"]) for row in rows] == expected
    assert all(row["crps"] is not None for row in rows)
    printed = capsys.readouterr().out
    assert "missed: " in printed
    assert board.main(TINY_TASKS, ["tmgp(level=1, max_evaluations=2)"], [0], out, size=TINY) == rows
    assert "seed 0:" not in capsys.readouterr().out


def test_validation_sees_training_inputs_only(board):
    from board.problem import Size, held_out
    from board.tasks import problem

    given = problem("queue", 3, Size(inputs=50, tests=5, draws=100))
    inner = held_out(given, "queue", 3)
    rows = {tuple(row) for row in given.X}
    assert {tuple(row) for row in inner.X} | {tuple(row) for row in inner.X_test} == rows
    assert not {tuple(row) for row in inner.X} & {tuple(row) for row in inner.X_test}
    assert inner.y_test.shape == (10, 5)
    assert sorted([*inner.y, *inner.y_test.ravel()]) == sorted(given.y)
    assert inner.draw is None
    assert inner.mean is None


def test_names_of_tasks_and_models_are_checked(board):
    from board.models import factory
    from board.tasks import chosen

    assert chosen(["network-single-4"]) == ["network-single-4"]
    assert isinstance(factory("ignores-x(bandwidth=0.5)")(0), InputIgnoringKDE)
    with pytest.raises(InputError, match="no such task"):
        chosen(["nothing"])
    with pytest.raises(InputError, match="no such model"):
        factory("nothing")
    with pytest.raises(InputError, match="cannot be read"):
        factory("default(os.system('x'))")
