"""Oracle: the Python interface with the same rows; exit code 2 and one line for what users can mend."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from tables import table, write

from dtmgp.cli import main
from dtmgp.estimators.loading import load_model

QUICK = ["--set", "hidden_widths=[2]", "--set", "levels=[2,2]", "--set", "max_epochs=1"]
FEW_DRAWS = ["--set", "prediction_samples=8"]


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in arguments])
    captured = capsys.readouterr()
    assert stopped.value.code in (0, None), captured.err
    return captured.out


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in arguments])
    assert stopped.value.code == 2
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """More rows than are fitted in memory."""
    place = tmp_path_factory.mktemp("streamed")
    write(place / "runs", table(21_000, dim=2), files=3, rows=600)
    write(place / "few", table(200, dim=2))
    return place


def test_a_folder_is_streamed_and_says_so(folder, tmp_path, capsys):
    model = tmp_path / "m.dtmgp"
    command = ["fit", folder / "runs", "-t", "y", "--held-out", "0.02", "--out", model, *QUICK, *FEW_DRAWS]
    out = run(capsys, *command)
    for words in (
        "21,000 rows in 36 row groups, streamed",
        "inputs: x0, x1; output: y",
        "start from 20,000 rows, 420 held out",
        "held-out rows, which also chose the epoch",
        "420 fresh runs at 420 inputs",
        "saved: ",
    ):
        assert words in out
    found = load_model(model)
    x = pd.DataFrame({"x0": [0.5], "x1": [5.0]})
    assert abs(found.predict(x)[0] - np.sin(2.5)) < 0.3
    test = tmp_path / "test.csv"
    pd.DataFrame(table(50, dim=2, seed=1)).to_csv(test, index=False)
    facts = json.loads(run(capsys, *command, "--json", "--test", test))
    assert (facts["rows"], facts["learn_rows"], facts["test_rows"]) == (21_000, 20_580, 50)
    np.testing.assert_array_equal(load_model(model).predict(x), found.predict(x))


def test_few_rows_are_loaded(folder, tmp_path, capsys):
    command = ["-t", "y", "--out", tmp_path / "m.dtmgp", *QUICK, *FEW_DRAWS, "--json"]
    facts = json.loads(run(capsys, "fit", folder / "few", *command))
    assert (facts["rows"], facts["learn_rows"]) == (200, 160)
    one = folder / "few" / "part-0.parquet"
    assert json.loads(run(capsys, "fit", one, "--stream", *command))["rows"] == 66


def test_what_cannot_be_streamed_is_refused(folder, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    pd.DataFrame(table(50)).to_csv(tmp_path / "t.csv", index=False)
    columns = table(60)
    columns["x1"] = columns["x1"].copy()
    columns["x1"][[41, 43]] = np.nan
    write(tmp_path / "holes", columns)
    for arguments, message in (
        ([tmp_path / "empty", "-t", "y"], "no Parquet file in it"),
        ([tmp_path / "t.csv", "-t", "y", "--stream"], "a file that is no Parquet"),
        (["-", "-t", "y", "--stream"], "the standard input"),
        ([folder / "few", "-t", "z"], "no column 'z'"),
        ([folder / "few", "-t", "y", "-i", "x0,x9"], "no column 'x9'"),
        ([folder / "runs", "-t", "y", "--model", "one-layer"], "expected the deep model"),
        ([tmp_path / "holes", "-t", "y"], "NaN in row 1 of row group 0 of part-2.parquet and in 1 others"),
    ):
        assert message in refused(capsys, "fit", *arguments, "--out", tmp_path / "m.dtmgp")
    assert not (tmp_path / "m.dtmgp").exists()


@pytest.mark.slow  # three interpreters: one process, and two under torchrun
def test_two_processes_end_as_one_does(folder, tmp_path, capsys):
    """To rounding: each reads its own lanes, and the losses of a global batch are summed in another order."""
    command = ["fit", folder / "runs", "-t", "y", "--held-out", "0.02", *QUICK, *FEW_DRAWS, "--json"]
    run(capsys, *command, "--out", tmp_path / "one.dtmgp")
    start = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "dtmgp",
    ]
    done = subprocess.run(
        [*start, *map(str, command), "--out", str(tmp_path / "two.dtmgp")],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)  # the first process alone speaks
    assert facts["rows"] == 21_000
    x = pd.DataFrame(table(500, dim=2, seed=2))[["x0", "x1"]]
    one, two = (load_model(tmp_path / f"{name}.dtmgp").predict(x) for name in ("one", "two"))
    np.testing.assert_allclose(one, two, rtol=0.0, atol=1e-4)
