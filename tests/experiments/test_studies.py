"""Oracles: rows made in one go, the same rows made with an interruption or in two processes, tables by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from dtmgp.baselines import BNNReLU, ExactGP, InputIgnoringKDE, VecchiaDGP
from dtmgp.baselines.paper_dtmgp import PaperDTMGP
from dtmgp.errors import InputError
from dtmgp.executors import JoblibExecutor, RayExecutor, SerialExecutor
from dtmgp.experiments.convergence import Rule
from dtmgp.experiments.reproduce import reproduce
from dtmgp.experiments.results import read_csv
from dtmgp.experiments.studies import runner
from dtmgp.experiments.studies.contestants import CONTESTANTS, Truth, contestants_of
from dtmgp.experiments.studies.log import ResultLog
from dtmgp.experiments.studies.options import FULL, QUICK, plan
from dtmgp.experiments.studies.problems import NetworkStudy, RandomField
from dtmgp.experiments.studies.runner import COLUMNS, OWN, Cell, Protocol, Task, due, run_study
from dtmgp.experiments.studies.scores import log_density, score
from dtmgp.experiments.studies.summary import at_budget, describe, summary, times
from dtmgp.experiments.study_options import StudyOptions
from dtmgp.testing import check_baseline

SMALL = Protocol(limit=100.0, draws=200, rule=Rule(100.0, 4))
FAST = ("dtmgp", "truth", "kde", "quadratic", "gp")
CELLS = [Cell(RandomField(), size, replication) for replication in (0, 1) for size in (20, 30)]
TIMES = ("cpu_seconds", "wall_seconds", "converged", "commit")


def log_in(folder: Path) -> ResultLog:
    log = ResultLog(folder / "rows.csv", COLUMNS)
    log.open({"command": "test", "seed": "0"}, SMALL.describe(CELLS[0].problem))
    return log


def without_times(rows):
    kept = [{name: value for name, value in row.items() if name not in TIMES} for row in rows]
    return sorted(
        kept, key=lambda row: [str(row[name]) for name in ("size", "replication", "budget", "model")]
    )


def own(rows):
    return [row for row in rows if row["budget"] == OWN]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    log = log_in(tmp_path_factory.mktemp("whole"))
    said: list[str] = []
    run_study(CELLS, FAST, SMALL, log, say=said.append)
    return log, said


def test_every_model_of_every_cell_has_its_row(whole):
    log, said = whole
    rows = log.read().rows
    assert {(r["size"], r["replication"], r["model"]) for r in own(rows)} == {
        (c.size, c.replication, m) for c in CELLS for m in FAST
    }
    assert [line.split()[0] for line in said] == ["1/4", "2/4", "3/4", "4/4"]
    assert all("left" in line for line in said)
    assert all(row["ks100"] is not None for row in rows)
    by_model = {row["model"]: row for row in own(rows)}
    assert by_model["dtmgp"]["ended"] == "converged"
    assert by_model["truth"]["ks10k"] < by_model["quadratic"]["ks10k"]


def test_two_processes_make_the_same_rows(whole, tmp_path):
    log = log_in(tmp_path)
    run_study(CELLS[:2], FAST, SMALL, log, executor=JoblibExecutor(2))
    one = [row for row in own(whole[0].read().rows) if row["replication"] == 0]
    assert without_times(own(log.read().rows)) == without_times(one)


@pytest.mark.slow  # starts Ray: 10 to 20 s of processor time
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ray_makes_the_same_rows(whole, tmp_path):
    pytest.importorskip("ray", reason="pip install 'dtmgp[ray]'")
    log = log_in(tmp_path)
    with RayExecutor(n_jobs=2) as executor:
        run_study(CELLS[:2], FAST, SMALL, log, executor=executor)
    one = [row for row in own(whole[0].read().rows) if row["replication"] == 0]
    assert without_times(own(log.read().rows)) == without_times(one)


def test_a_cell_whose_worker_died_goes_on_after_its_last_row(whole, tmp_path):
    log, cell = log_in(tmp_path), CELLS[0]
    mine = [row for row in whole[0].read().rows if cell.owns(row)]
    for row in mine[:-1]:
        log.append(row)
    made = runner._one((cell, tuple(FAST), SMALL, log, []))  # the worker before it knew of no rows
    found = [
        (row["model"], row["budget"]) for row in made
    ]  # a budget may ask for a row more or less: seconds decide
    assert found[0] == (mine[-1]["model"], mine[-1]["budget"])
    assert not {(row["model"], row["budget"]) for row in mine[:-1]} & set(found)
    assert len([row for row in log.read().rows if cell.owns(row)]) == len(mine) - 1 + len(made)


def test_rows_from_other_machines_are_written_here(whole, tmp_path):
    class Elsewhere(SerialExecutor):
        shares_files = False

    log = log_in(tmp_path)
    run_study(CELLS[:1], FAST, SMALL, log, executor=Elsewhere())
    one = [row for row in own(whole[0].read().rows) if CELLS[0].owns(row)]
    assert without_times(own(log.read().rows)) == without_times(one)


def test_a_study_whose_cell_fails_ends_the_others_first(tmp_path, monkeypatch):
    true_cell = runner.run_cell

    def failing(cell, *others):
        if cell == CELLS[0]:
            raise RuntimeError("no memory")
        return true_cell(cell, *others)

    monkeypatch.setattr(runner, "run_cell", failing)
    log = log_in(tmp_path)
    with pytest.raises(RuntimeError, match="no memory"):
        run_study(CELLS[:2], ["kde", "truth"], SMALL, log)
    assert len(log.read().rows) == 2


def test_an_interrupted_study_goes_on_where_it_stopped(whole, tmp_path, monkeypatch):
    log = log_in(tmp_path)
    fits = []
    true_task = runner.run_task

    def stopping(cell, task, *others):
        if len(fits) == 7:
            raise KeyboardInterrupt
        fits.append((cell.size, cell.replication, task.model, task.budget))
        return true_task(cell, task, *others)

    monkeypatch.setattr(runner, "run_task", stopping)
    with pytest.raises(KeyboardInterrupt):
        run_study(CELLS, FAST, SMALL, log)
    assert len(log.read().rows) == 7
    with log.path.open("ab") as file:  # the power went while a line was written
        file.write(b"random-field,independent,kde,30,")
    again = log_in(tmp_path)
    before = list(fits)
    monkeypatch.setattr(runner, "run_task", lambda *given: (fits.append(given), true_task(*given))[1])
    run_study(CELLS, FAST, SMALL, again)
    made = [(cell.size, cell.replication, task.model, task.budget) for cell, task, *_ in fits[7:]]
    assert not set(made) & set(before)
    assert without_times(own(again.read().rows)) == without_times(own(whole[0].read().rows))
    count = len(fits)
    run_study(CELLS, FAST, SMALL, again)  # nothing is left to do
    assert len(fits) == count


def test_a_file_with_other_settings_is_refused(whole):
    with pytest.raises(InputError, match="other options"):
        whole[0].open({}, "limit 1 s, 10 draws")


def test_data_depend_on_size_and_replication_only():
    first, again, other = (RandomField().data(20, r) for r in (0, 0, 1))
    assert first.y.tobytes() == again.y.tobytes()
    assert first.seeds == again.seeds
    assert not np.array_equal(first.new, other.new)
    assert not np.array_equal(RandomField("path").data(20, 0).y, first.y)
    # one sheet: neighbours agree
    path = RandomField("path").data(400, 0)
    near = np.argmin(np.linalg.norm(path.X[:, None] - path.X, axis=2) + 9 * np.eye(400), axis=1)
    assert np.abs(path.y - path.y[near]).mean() < 0.3 * np.abs(path.y - path.y[::-1]).mean()
    one, many = (NetworkStudy(v, design=30).data(3, 0) for v in ("runs-1", "runs-1000"))
    assert one.y.shape == many.y.shape == (30, 3)
    assert many.y.std(axis=1).mean() < 0.1 * one.y.std(axis=1).mean()
    with pytest.raises(InputError, match="one of independent, path"):
        RandomField("both")


def test_architectures_are_those_of_the_paper():
    sizes = {}
    for problem in (RandomField(), NetworkStudy(design=20)):
        data = problem.data(20, 0)
        for name in problem.architecture.grids:
            model = CONTESTANTS[name].fit(problem, data, 100.0, SMALL.rule).model.model_
            sizes[problem.name, name] = [(part.features.size, part.width) for part in model.stack]
            for layer in model.stack:
                np.testing.assert_allclose(
                    layer.features.log_lengthscales[0].exp().detach(), layer.dim, rtol=1e-6
                )
                assert not any(parameter.requires_grad for parameter in layer.features.parameters())
                assert not list(layer.mean.parameters())
                assert layer.weights.prior_std.unique().item() == pytest.approx(
                    problem.architecture.prior_std
                )
    assert sizes == {
        ("random-field", "dtmgp"): [(181, 1), (127, 1)],
        ("random-field", "dtmgp-level5"): [(129, 1), (127, 1)],
        ("random-field", "dtmgp-level6"): [(321, 1), (127, 1)],
        ("activity-network", "dtmgp"): [(391, 10), (241, 1)],
    }


def test_the_paper_model_is_a_baseline():
    check_baseline(PaperDTMGP(levels=(3, 4), epochs=3))
    with pytest.raises(InputError, match="one per hidden layer"):
        PaperDTMGP(levels=(3, 4), widths=(2, 2))
    with pytest.raises(InputError, match=r"shape \(2, 2\)"):
        PaperDTMGP(levels=(2, 2), bounds=[[0, 1]]).fit(
            np.random.default_rng(0).random((9, 2)), np.arange(9.0)
        )


def test_the_paper_model_learns():
    rng = np.random.default_rng(0)
    X = rng.random((300, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    model = PaperDTMGP(epochs=400, batch_size=300, noise=0.1).fit(X, y)
    new = rng.random((200, 2))
    error = np.sqrt(np.mean((model.predict(new) - np.sin(6 * new[:, 0])) ** 2))
    assert error < 0.45  # measured 0.32; a constant has 0.72


@pytest.mark.parametrize(
    "model",
    [
        ExactGP(),
        InputIgnoringKDE(),
        VecchiaDGP(n_iterations=20, random_state=0),
        BNNReLU(features=(5,), epochs=3),
        PaperDTMGP(levels=(2, 3), epochs=3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_densities_have_mass_one_and_the_moments_of_the_predictions(model):
    rng = np.random.default_rng(0)
    X, new = rng.random((30, 2)), rng.random((2, 2))
    model.fit(X, X.sum(axis=1) + 0.3 * rng.standard_normal(30))
    y = np.tile(np.linspace(-6, 9, 3001), (2, 1))
    density = np.exp(log_density(model, new, y)) * (y[0, 1] - y[0, 0])
    np.testing.assert_allclose(density.sum(axis=1), 1.0, atol=2e-4)
    mean, std = model.predict(new, return_std=True)
    np.testing.assert_allclose((density * y).sum(axis=1), mean, atol=2e-3)
    spread = np.sqrt((density * (y - mean[:, None]) ** 2).sum(axis=1))
    np.testing.assert_allclose(spread, std, rtol=2e-2)  # VecchiaDGP divides by one less


def test_scores_of_the_truth_and_of_a_shifted_law():
    class Shifted:
        def sample_y(self, X, n_samples, random_state):
            return 1.0 + np.random.default_rng(random_state).standard_normal((len(X), n_samples))

        def log_prob(self, X, y):
            return norm.logpdf(y, loc=1.0)

    X = np.zeros((50, 1))
    truth = np.random.default_rng(0).standard_normal((50, 4000))
    found = score(Shifted(), X, truth, 1)
    # sup |Phi(t) - Phi(t - 1)| = 2 Phi(1/2) - 1 = 0.383; crps and log score of N(1, 1) under N(0, 1) by quadrature
    assert found["ks10k"] == pytest.approx(0.383, abs=0.01)
    t = np.linspace(-10, 10, 20001)
    crps = np.sum((norm.cdf(t, 1) - norm.cdf(t)) ** 2 + norm.cdf(t) * norm.sf(t)) * (t[1] - t[0])
    assert found["crps"] == pytest.approx(crps, abs=0.02)
    assert found["nll"] == pytest.approx(0.5 * math.log(2 * math.pi) + 1.0, abs=0.05)
    for level in (50, 90, 99):
        half = norm.ppf(0.5 + level / 200)
        expected = norm.cdf(1 + half) - norm.cdf(1 - half)
        assert found[f"coverage{level}"] == pytest.approx(expected, abs=0.01)
    data = RandomField().data(20, 0)
    honest = score(Truth(data), data.new, data.simulator.sample(data.new, 4000, 9), 1)
    assert honest["ks100"] == pytest.approx(0.118, abs=0.02)
    assert honest["coverage90"] == pytest.approx(0.9, abs=0.01)
    assert log_density(object(), X, truth) is None


def row(model, budget, seconds, ks=0.2, size=40, replication=0, converged=None, ended="converged"):
    base = dict.fromkeys(COLUMNS)
    return base | {
        "study": "random-field",
        "variant": "independent",
        "model": model,
        "size": size,
        "replication": replication,
        "budget": budget,
        "cpu_seconds": seconds,
        "converged": converged,
        "ended": ended,
        "ks100": ks,
        "ks10k": ks,
    }


def test_budgets_ask_for_what_took_longer_only():
    models = ["dtmgp", "dgp-vec", "kde", "gp"]
    assert next(due([], models, 9.0)) == Task("dtmgp", OWN, 9.0)
    rows = [row("dtmgp", OWN, 2.0), row("dgp-vec", OWN, 5.0), row("kde", OWN, 0.0), row("gp", OWN, 3.0)]
    assert list(due(rows, models, 9.0)) == [Task("dgp-vec", "dtmgp", 2.0), Task("gp", "dtmgp", 2.0)]
    rows.append(row("gp", "dtmgp", 2.1, ks=0.3))
    assert list(due(rows, models, 9.0)) == [Task("dgp-vec", "dtmgp", 2.0)]
    rows.append(row("dgp-vec", "dtmgp", 2.0, ks=0.4))
    assert not list(due(rows, models, 9.0))
    at_first = {r["model"]: (r["budget"], r["ks100"]) for r in at_budget(rows, "dtmgp")}
    assert at_first == {
        "dtmgp": (OWN, 0.2),
        "dgp-vec": ("dtmgp", 0.4),
        "kde": (OWN, 0.2),
        "gp": ("dtmgp", 0.3),
    }
    assert {r["model"]: r["budget"] for r in at_budget(rows, "dgp-vec")} == dict.fromkeys(models, OWN)


def test_tables_by_hand():
    rows = [
        row("dtmgp", OWN, 1.25, ks=0.1, converged=1.0),
        row("dtmgp", OWN, 3.75, ks=0.3, converged=3.0, replication=1),
        row("dgp-vec", OWN, 4.0, converged=4.0),
        row("dgp-vec", OWN, 8.0, replication=1, ended="limit"),
        row("gp", OWN, 1.0, ks=None, ended="failed: LinAlgError: singular"),
    ]
    (line,) = times(rows)
    assert line["ratio"] == pytest.approx(2.0 / 6.0)
    assert line["vec_limited"] == 1
    assert line["paper_ratio"] == pytest.approx(28.7 / 44.2)
    first = summary(rows)[0]
    assert (first["model"], first["replications"], first["ks100"]) == ("dtmgp", 2, pytest.approx(0.2))
    assert first["ks100_std"] == pytest.approx(0.1)  # the paper divides by R
    failed = next(line for line in summary(rows) if line["model"] == "gp")
    assert (failed["failed"], failed["replications"], failed["ks100"]) == (1, 0, None)
    text = "\n".join(describe(rows))
    assert "<0.33 (0.65)" in text
    assert "failed: gp" in text


def test_a_failing_model_is_a_row_that_says_why(tmp_path, monkeypatch):
    log = log_in(tmp_path)

    def fail(*_):
        raise np.linalg.LinAlgError("not positive definite,\nat all")

    monkeypatch.setattr(CONTESTANTS["kde"], "fit", fail)
    run_study(CELLS[:1], ["kde", "truth"], SMALL, log)
    rows = {r["model"]: r for r in log.read().rows}
    assert rows["kde"]["ended"] == "failed: LinAlgError: not positive definite, at all"
    assert rows["kde"]["ks100"] is None
    assert rows["truth"]["ks100"] is not None


def test_extents_and_options():
    cells, models, protocol = plan("random-field", True, StudyOptions())
    assert len(cells) == 2 * 20 * 5
    assert [cell.size for cell in cells[:5]] == [40, 80, 120, 160, 200]
    assert set(models) == set(contestants_of(RandomField()))
    assert protocol == Protocol(limit=14_400.0)
    cells, models, protocol = plan(
        "activity-network",
        False,
        StudyOptions(sizes=[3], replications=2, models=["gp", "kde"], time_limit=1.0),
    )
    assert [(c.size, c.replication) for c in cells] == [(3, 0), (3, 1)]
    assert models == ["kde", "gp"]
    assert cells[0].problem.design == QUICK.design < FULL.design == 5000
    for options in (StudyOptions(models=["mars"]), StudyOptions(sizes=[1]), StudyOptions(variants=["x"])):
        with pytest.raises(InputError):
            plan("random-field", True, options)
    with pytest.raises(InputError, match="--jobs with theory"):
        reproduce("theory", Path("out"), options=StudyOptions(jobs=2))


def test_the_whole_command_writes_tables_and_figures(tmp_path):
    options = StudyOptions(sizes=[20], models=["dtmgp", "dgp-vec", "truth"], time_limit=0.2)
    lines = reproduce("random-field", tmp_path, command="test", options=options)
    assert any("DGP-VEC" in line for line in lines)
    assert {path.name for path in tmp_path.iterdir()} == {
        "random_field.csv",
        "random_field_summary.csv",
        "random_field_times.csv",
        "random_field_independent.png",
    }
    rows = read_csv(tmp_path / "random_field.csv").rows
    limited = {r["model"]: r["ended"] for r in own(rows)}
    assert limited == {"dtmgp": "limit", "dgp-vec": "limit", "truth": "at once"}
