"""Oracle: `dtmgp.emulation.emulate`, called with the same arguments; the files in the folder."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest

from dtmgp import TMGPRegressor
from dtmgp.cli import main
from dtmgp.emulation import ALC, emulate
from dtmgp.estimators.loading import load_model
from dtmgp.simulators import MM1Queue

MODEL = ["--model", "one-layer", "--set", "max_evaluations=5", "--quiet"]


def code_of(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in arguments])
    return stopped.value.code


def test_emulate_is_the_function(tmp_path, capsys):
    arguments = [
        "emulate",
        "dtmgp.simulators:MM1Queue",
        "-n",
        "60",
        "-r",
        "4",
        "--batch",
        "12",
        "--score",
        "alc",
    ]
    assert code_of(*arguments, *MODEL, "-o", tmp_path / "q") == 0
    out = capsys.readouterr().out
    assert "60 runs, 0 failed; the budget is spent" in out
    assert "density of y, ignoring x" in out
    assert "model.dtmgp, runs.jsonl, runs.parquet, validation.json" in out
    model = TMGPRegressor(max_evaluations=5)
    same = emulate(MM1Queue(), budget=60, replicates=4, batch=12, score=ALC(), model=model, verbose=0)
    assert pd.read_parquet(tmp_path / "q" / "runs.parquet")["y"].tolist() == same.runs.columns()["y"]
    assert load_model(tmp_path / "q" / "model.dtmgp").cube_.names == MM1Queue.input_names
    # the same command again: nothing is left to do
    assert code_of(*arguments, *MODEL, "-o", tmp_path / "q", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["runs"] == 60
    assert facts["validation"]["scores"][0]["name"] == "model"


SCRIPT = """import csv, random, sys
row = next(csv.DictReader(sys.stdin))
random.seed(int(row["seed"]))
if float(row["load"]) > 0.9:
    sys.exit("overloaded")
print("debug: done", file=sys.stderr)
print("wait,cost")
print(float(row["load"]) + random.gauss(0, 0.1), 1.0, sep=",")
"""


def test_a_shell_command_with_failures(tmp_path, capsys):
    (tmp_path / "model.py").write_text(SCRIPT)
    command = f"{sys.executable} -S {tmp_path / 'model.py'}"
    code = code_of(
        *[
            "emulate",
            command,
            "-n",
            "60",
            "-r",
            "3",
            "--bounds",
            "load=0:1",
            "--output",
            "wait",
            "--batch",
            "12",
        ],
        *["--timeout", "30", "--retries", "0", *MODEL, "-o", tmp_path / "out"],
    )
    assert code == 0, capsys.readouterr().err
    runs = pd.read_parquet(tmp_path / "out" / "runs.parquet")
    failed = runs["load"] > 0.9
    assert failed.any()
    assert (runs["error"].notna() == failed).all()
    assert set(runs["error"][failed]) == {"exit status 1: overloaded"}
    assert np.abs(runs["wait"] - runs["load"])[~failed].max() < 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_module_here:f", "-n", "60"], "no_module_here"),
        (["echo 1", "-n", "60"], "bounds"),
        (["echo 1", "-n", "60", "--bounds", "a"], "NAME=LOW:HIGH"),
        (["echo 1", "-n", "6", "--bounds", "a=0:1"], "at least"),
        (["echo 1", "-n", "60", "--bounds", "a=0:1", "--score", "best"], "law"),
        (["exit 1", "-n", "60", "--bounds", "a=0:1"], "10 failures in the first 10 runs"),
    ],
)
def test_what_a_user_can_mend_is_one_line(arguments, message, tmp_path, capsys):
    assert code_of("emulate", *arguments, *MODEL, "-o", tmp_path / "out") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert captured.err.startswith("dtmgp: ")
    assert message in captured.err
