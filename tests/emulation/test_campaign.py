"""Oracle: the uninterrupted campaign, run by run and bit by bit; counts of calls that a toy simulator leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dtmgp import TMGPRegressor
from dtmgp.emulation import ALC, Campaign, Outcome, Target, emulate, run_seed
from dtmgp.errors import InputError
from dtmgp.simulators import MM1Queue

HERE = Path(__file__).parent
BOX = [(0.0, 1.0)]


def one_layer():
    return TMGPRegressor(max_evaluations=10)


def start(folder=None, **changes):
    settings = {
        "budget": 48,
        "replicates": 2,
        "batch": 8,
        "model": one_layer(),
        "names": ["a"],
        "folder": folder,
    }
    return Campaign(BOX, **{**settings, **changes})


def noisy(run):
    return np.sin(6 * run.x[0]) + 0.1 * np.random.default_rng(run.seed).normal()


def finish(campaign, n=None):
    while runs := campaign.ask(n):
        for run in runs:
            campaign.tell(run, noisy(run))
    return campaign


def same(left, right):
    a, b = left.runs.columns(), right.runs.columns()
    return {k: v for k, v in a.items() if k != "seconds"} == {k: v for k, v in b.items() if k != "seconds"}


def test_a_campaign_spends_its_budget_and_no_more():
    campaign = finish(start())
    assert campaign.spent == campaign.done == 48
    columns = campaign.runs.columns()
    assert columns["purpose"].count("validation") == 10
    assert len(set(columns["seed"])) == 48
    assert columns["seed"][17] == run_seed(0, 17, 0)
    assert all(0 <= value <= 1 for value in columns["a"])
    assert max(columns["round"]) == 3


def test_the_model_never_sees_validation_runs():
    campaign = finish(start())
    x, y = campaign.runs.usable()
    again = TMGPRegressor(max_evaluations=10, bounds=BOX).fit(x, y)
    points = np.linspace(0, 1, 11)[:, None]
    assert np.array_equal(campaign.model.predict(points_frame(points)), again.predict(points))
    fresh = {row["a"] for row in rows(campaign) if row["purpose"] == "validation"}
    assert not fresh & {row["a"] for row in rows(campaign) if row["purpose"] == "design"}


def points_frame(points, name="a"):
    import pandas as pd

    return pd.DataFrame(points, columns=[name])


def rows(campaign):
    columns = campaign.runs.columns()
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def test_the_order_of_outcomes_does_not_matter():
    forward, backward = start(), start()
    finish(forward)
    while runs := backward.ask():
        for run in reversed(runs):
            backward.tell(run, noisy(run))
    assert same(forward, backward)


def test_asking_piece_by_piece_gives_every_run_once():
    campaign = finish(start(), n=7)
    assert campaign.done == 48
    assert len({row["run"] for row in rows(campaign)}) == 48


def test_asking_on_while_runs_are_under_way():
    campaign = start()
    first = campaign.ask(12)
    assert len(campaign.ask()) == 14 + 10 - 12  # the rest of the first designs
    assert campaign.ask() == []  # tell some first
    for run in first:
        campaign.tell(run, noisy(run))
    more = campaign.ask(4)  # 12 of 14 design runs suffice for a model
    assert len(more) == 4
    assert {run.round for run in more} == {1}


def test_a_resumed_campaign_is_the_uninterrupted_one(tmp_path):
    whole = finish(start())
    with start(tmp_path / "cut") as first:
        told = 0
        while told < 37:  # in the middle of a round
            for run in first.ask():
                if told < 37:
                    first.tell(run, noisy(run))
                    told += 1
    with start(tmp_path / "cut") as again:
        assert again.done == 37
        assert again.spent > 37
        assert same(finish(again), whole)


def test_a_torn_last_line_is_dropped_and_other_damage_refused(tmp_path):
    with start(tmp_path) as campaign:
        for run in campaign.ask(5):
            campaign.tell(run, noisy(run))
    log = tmp_path / "runs.jsonl"
    content = log.read_bytes()
    log.write_bytes(content[:-10])
    with start(tmp_path) as campaign:
        assert campaign.done == 4
        assert [run.number for run in campaign.ask()] == [4]
    log.write_bytes(content.replace(b'"told"', b'"gold"', 1))
    with pytest.raises(InputError, match=r"runs\.jsonl, line 6"):
        start(tmp_path)


def test_one_process_at_a_time(tmp_path):
    with start(tmp_path), pytest.raises(InputError, match="another process"):
        start(tmp_path)
    start(tmp_path).close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"replicates": 3}, "replicates"), ({"random_state": 1}, "seed"), ({"names": ["b"]}, "names")],
)
def test_another_campaign_in_the_folder_is_refused(tmp_path, changes, message):
    start(tmp_path).close()
    with pytest.raises(InputError, match=message):
        start(tmp_path, **changes)


def test_a_finished_campaign_can_be_given_a_larger_budget(tmp_path):
    with start(tmp_path) as campaign:
        finish(campaign)
    with start(tmp_path, budget=56) as campaign:
        assert campaign.done == 48
        assert finish(campaign).done == 56


def test_failures_are_tried_again_with_another_seed_then_left_out():
    lines = []
    campaign = start(report=lines.append)
    first = campaign.ask()
    for run in first:
        campaign.tell(
            run, None if run.number in (0, 1) else noisy(run), error="broke" if run.number in (0, 1) else None
        )
    assert lines[0].startswith("run 0 at a = ")
    assert lines[0].endswith("broke; will be tried again")
    again = campaign.ask()
    assert [(run.number, run.attempt) for run in again] == [(0, 1), (1, 1)]
    assert again[0].seed not in {run.seed for run in first}
    assert again[0].x == first[0].x
    campaign.tell(again[0], float("nan"))
    campaign.tell(again[1], noisy(again[1]))
    assert lines[-1].endswith("output nan; left out after 2 attempts")
    finish(campaign)
    assert campaign.spent == 48
    assert campaign.failed == 3
    x, _ = campaign.runs.usable()
    assert len(x) == 38 - 3


def test_a_corner_that_always_fails_is_avoided():
    campaign = start(budget=100, report=lambda line: None)
    while runs := campaign.ask():
        for run in runs:
            campaign.tell(run, error="diverged") if run.x[0] < 0.3 else campaign.tell(run, noisy(run))
    later = [row["a"] for row in rows(campaign) if row["round"] > 0 and row["attempt"] == 0]
    assert len(later) > 20
    assert min(later) > 0.25  # the largest tried input that fails is 0.28; candidates are uniform on [0, 1]


def test_a_simulator_that_always_fails_is_reported_with_its_error():
    campaign = start(report=lambda line: None)
    for _ in range(2):
        for run in campaign.ask():
            campaign.tell(run, error="no licence")
    with pytest.raises(InputError, match="no licence"):
        _ = campaign.model


def test_emulate_stops_when_nothing_but_failures_comes_back(tmp_path):
    calls = []

    def broken(x):
        calls.append(x)
        raise OSError("no licence")

    with pytest.raises(InputError, match="no licence"):
        emulate(broken, BOX, budget=200, model=one_layer(), folder=tmp_path, verbose=0)
    assert len(calls) == 10


def test_tell_refuses_what_was_not_asked():
    campaign = start()
    run = campaign.ask(1)[0]
    with pytest.raises(InputError, match="not asked for"):
        campaign.tell(99, 1.0)
    with pytest.raises(InputError, match="neither"):
        campaign.tell(run)
    campaign.tell(run.number, 1.0, seconds=0.1)
    with pytest.raises(InputError, match="second outcome"):
        campaign.tell(Outcome(run.number, 0, y=2.0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 5}, "at least"),
        ({"names": ["seed"]}, "none of"),
        ({"names": ["a", "b"]}, "1 different"),
        ({"replicates": 0}, "replicates"),
        ({"random_state": None}, "random_state"),
    ],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(InputError, match=message):
        start(**changes)


def test_the_table_of_runs_survives_parquet_and_csv(tmp_path):
    import pandas as pd

    campaign = finish(start())
    table = pd.read_parquet(campaign.runs.write(tmp_path / "runs.parquet"))
    assert table["a"].tolist() == campaign.runs.columns()["a"]
    assert table["y"].tolist() == campaign.runs.columns()["y"]
    csv = pd.read_csv(campaign.runs.write(tmp_path / "runs.csv"), dtype={"y": str})
    assert [float(cell) for cell in csv["y"]] == table["y"].tolist()


# -- emulate ----------------------------------------------------------------------------------------------------
def test_emulate_returns_model_runs_and_report(tmp_path, capsys):
    result = emulate(MM1Queue(), budget=80, replicates=4, model=one_layer(), folder=tmp_path, score=ALC())
    assert len(result.runs) == 80
    assert result.report is not None
    assert result.report.runs == 16
    assert result.report.scores[0].name == "model"
    assert len(result.report.scores) == 4
    report = json.loads((tmp_path / "validation.json").read_text())
    assert report["scores"][0]["crps"] == pytest.approx(result.report.model.crps)
    loaded = TMGPRegressor.load(tmp_path / "model.dtmgp")
    assert loaded.cube_.names == MM1Queue.input_names
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("round 0: ") for line in lines)
    assert "fresh runs" in lines[-1]


def test_a_target_ends_the_campaign_early():
    result = emulate(
        lambda x: x[0], BOX, budget=200, replicates=1, model=one_layer(), target=Target(rmse=0.1), verbose=0
    )
    assert result.stopped == "the target is reached"
    assert len(result.runs) < 200


def test_emulate_needs_bounds():
    with pytest.raises(InputError, match="bounds"):
        emulate(lambda x: 0.0, budget=50)


SCRIPT = """
import sys
from dtmgp import TMGPRegressor
from dtmgp.emulation import emulate
emulate("toys:counted", [(0, 1)], budget=80, replicates=2, batch=16, model=TMGPRegressor(max_evaluations=10),
        folder=sys.argv[1], verbose=0)
"""


def test_a_killed_campaign_loses_no_finished_run(tmp_path):
    """SIGKILL in the middle, then the same command again: the runs of the uninterrupted campaign, none made twice."""

    def command(folder, calls):
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(folder)],
            env={**os.environ, "PYTHONPATH": str(HERE), "TOY_CALLS": str(calls)},
            stderr=subprocess.PIPE,
        )

    whole = command(tmp_path / "whole", tmp_path / "whole_calls")
    cut = command(tmp_path / "cut", tmp_path / "cut_calls")
    log = tmp_path / "cut" / "runs.jsonl"
    for _ in range(6000):
        if log.exists() and log.read_bytes().count(b'"told"') > 30:
            break
        time.sleep(0.01)
    cut.send_signal(signal.SIGKILL)
    cut.communicate()
    finished = log.read_bytes().count(b'"told"')
    assert 30 < finished < 80
    again = command(tmp_path / "cut", tmp_path / "cut_calls")
    for process in (again, whole):
        message = process.communicate()[1]
        assert process.returncode == 0, message.decode()
    calls = (tmp_path / "cut_calls").read_text().splitlines()
    assert len((tmp_path / "whole_calls").read_text().splitlines()) == 80
    assert 80 <= len(calls) <= 81  # the run that was under way when the process died is made again

    import pandas as pd

    one, two = (
        pd.read_parquet(tmp_path / name / "runs.parquet").drop(columns="seconds") for name in ("whole", "cut")
    )
    assert one.equals(two)
    points = points_frame(np.linspace(0, 1, 11)[:, None], "x0")
    before, after = (
        TMGPRegressor.load(tmp_path / name / "model.dtmgp").predict(points) for name in ("whole", "cut")
    )
    assert np.array_equal(before, after)
