"""Oracle: the Python interface, called with the same data; exit code 2 and one line for what users can mend."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dtmgp import TMGPRegressor
from dtmgp.cli import main
from dtmgp.cli.app import app
from dtmgp.estimators.loading import load_model

FIT = ["--target", "wait", "--model", "one-layer", "--set", "max_evaluations=5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables of a noisy line with five runs per input, and a model of them."""
    place = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    for name, inputs in (("runs", 40), ("fresh", 12)):
        x = np.repeat(rng.uniform(size=(inputs, 2)), 5, axis=0)
        frame = pd.DataFrame(x, columns=["load", "speed"])
        frame["wait"] = np.sin(8 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=len(x))
        frame.to_csv(place / f"{name}.csv", index=False)
    run("fit", place / "runs.csv", *FIT, "--bounds", "load=0:1,speed=0:1", "--out", place / "m.dtmgp")
    return place


def run(*arguments):
    """The command line in this process; exit code 0 or SystemExit."""
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in arguments])
    if stopped.value.code not in (0, None):
        raise stopped.value
    return 0


def refused(capsys, *arguments):
    """The one line that a command refuses with; exit code 2."""
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in arguments])
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("dtmgp: ")
    assert len(captured.err.splitlines()) == 1
    assert "Traceback" not in captured.err
    return captured.err


def test_fit_says_what_it_found(folder, tmp_path, capsys):
    run("fit", folder / "runs.csv", *FIT, "--out", tmp_path / "m.dtmgp")
    out = capsys.readouterr().out
    for words in (
        "runs.csv: 200 rows\n",
        "inputs: load, speed; output: wait\n",
        "distinct inputs: 40, 5 runs each\n",
        "split: 160 rows to learn, 40 held out",
        "model: TMGPRegressor, fitted in ",
        "density of y, ignoring x",
        "40 fresh runs at 8 inputs. The model beats the best trivial model",
        "fitted again to all 200 rows",
        f"saved: {tmp_path / 'm.dtmgp'} (",
    ):
        assert words in out


def test_the_saved_model_is_the_one_that_python_fits(folder):
    frame = pd.read_csv(folder / "runs.csv")
    bounds = [(0.0, 1.0), (0.0, 1.0)]
    expected = TMGPRegressor(max_evaluations=5, bounds=bounds).fit(frame[["load", "speed"]], frame["wait"])
    fresh = pd.read_csv(folder / "fresh.csv")[["load", "speed"]]
    assert np.array_equal(load_model(folder / "m.dtmgp").predict(fresh), expected.predict(fresh))


def test_fit_for_machines(folder, tmp_path, capsys):
    out = tmp_path / "m.dtmgp"
    run(
        "fit",
        folder / "runs.csv",
        *FIT,
        "--test",
        folder / "fresh.csv",
        "--json",
        "--out",
        out,
        "--seed",
        "3",
    )
    facts = json.loads(capsys.readouterr().out)
    assert facts["rows"] == facts["learn_rows"] == 200
    assert facts["test_rows"] == 60
    assert facts["distinct_inputs"] == 40
    assert facts["fewest_replicates"] == facts["most_replicates"] == 5
    assert facts["refitted"] is False
    scores = facts["held_out"]["wait"]["scores"]
    assert scores[0]["name"] == "model"
    assert scores[0]["crps"] < 0.5 * scores[1]["crps"]
    assert facts["bytes"] == out.stat().st_size


def test_several_outputs(folder, tmp_path, capsys):
    frame = pd.read_csv(folder / "runs.csv")
    frame["cost"] = -frame["wait"]
    frame.to_parquet(tmp_path / "two.parquet")
    run("fit", tmp_path / "two.parquet", *FIT[2:], "-t", "wait,cost", "--out", tmp_path / "m.dtmgp")
    assert "cost, held-out rows:" in capsys.readouterr().out
    run("predict", tmp_path / "m.dtmgp", folder / "fresh.csv", "--only", "-q", "0.5")
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert list(table.columns) == ["y0_mean", "y1_mean", "y0_std", "y1_std", "y0_q0.5", "y1_q0.5"]
    np.testing.assert_allclose(table["y0_mean"], -table["y1_mean"], atol=1e-9)


def test_predict_agrees_with_python(folder, tmp_path, capsys):
    out = tmp_path / "p.parquet"
    run("predict", folder / "m.dtmgp", folder / "fresh.csv", "--interval", "0.9", "-q", "0.25,0.5", "-o", out)
    assert capsys.readouterr().out == f"saved: {out} (60 rows, 9 columns)\n"
    table = pd.read_parquet(out)
    model, fresh = load_model(folder / "m.dtmgp"), pd.read_csv(folder / "fresh.csv")
    mean, std = model.predict(fresh[["load", "speed"]], return_std=True)
    low, high = model.predict_interval(fresh[["load", "speed"]], 0.9)
    assert list(table.columns) == ["load", "speed", "wait", "mean", "std", "q0.25", "q0.5", "low", "high"]
    for name, values in (("mean", mean), ("std", std), ("low", low), ("high", high)):
        assert np.array_equal(table[name], values)
    quartiles = model.predict_quantiles(fresh[["load", "speed"]], [0.25, 0.5])
    assert np.array_equal(table[["q0.25", "q0.5"]], quartiles)


def test_sample_agrees_with_python(folder, tmp_path, capsys):
    model, fresh = load_model(folder / "m.dtmgp"), pd.read_csv(folder / "fresh.csv")[["load", "speed"]]
    run("sample", folder / "m.dtmgp", folder / "fresh.csv", "-n", "4", "--seed", "9", "--only")
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert list(table.columns) == ["draw1", "draw2", "draw3", "draw4"]
    np.testing.assert_allclose(table, model.sample_y(fresh, 4, 9), rtol=1e-15)
    run("sample", folder / "m.dtmgp", folder / "fresh.csv", "-n", "2", "--functions", "--only", "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["draw2"] for row in rows] == model.sample_functions(fresh, 2, 0)[:, 1].tolist()


def test_pipes_between_processes(folder):
    """Standard input to standard output, and nothing else on it."""
    done = subprocess.run(
        [sys.executable, "-m", "dtmgp", "predict", str(folder / "m.dtmgp"), "-", "--only"],
        input=(folder / "fresh.csv").read_bytes(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert len(pd.read_csv(io.BytesIO(done.stdout))) == 60
    # a reader that stops early
    shell = f"{sys.executable} -m dtmgp sample {folder / 'm.dtmgp'} {folder / 'fresh.csv'} -n 2000 | head -1"
    first = subprocess.run(shell, shell=True, capture_output=True, check=False, text=True)
    assert first.stdout.startswith("load,speed,wait,draw1,")
    assert "Traceback" not in first.stderr


def test_report(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("report", folder / "m.dtmgp", folder / "fresh.csv", "--train", folder / "runs.csv")
    assert capsys.readouterr().out.startswith("saved: m.html (")
    assert "trivial model" in (tmp_path / "m.html").read_text()


def test_extrapolation_is_noted_on_the_standard_error(folder, tmp_path, capsys):
    run("fit", folder / "runs.csv", *FIT, "--held-out", "0", "--out", tmp_path / "free.dtmgp")
    (tmp_path / "far.csv").write_text("speed,load\n0.5,0.5\n7,0.5\n")
    capsys.readouterr()
    run("predict", tmp_path / "free.dtmgp", tmp_path / "far.csv")
    captured = capsys.readouterr()
    assert captured.err == "note: 1 of 2 rows lie outside the range of the fit: extrapolation\n"
    assert len(captured.out.splitlines()) == 3


TABLES = {
    "text column": ("load,speed,wait\n" + "1,fast,3\n" * 12, "column 'speed': got the text 'fast' in row 1"),
    "missing value": (
        "load,speed,wait\n" + "1,2,3\n" * 12 + ",2,3\n",
        "column 'load': got no number in 1 of 13 rows",
    ),
    "wrong column": ("load,speed,wiat\n" + "1,2,3\n" * 12, "no column 'wait'"),
    "ragged": ("load,speed,wait\n1,2,3\n1,2\n", "line 3"),
    "empty": ("", "an empty file"),
    "duplicates": ("load,load,wait\n1,2,3\n", "'load' more than once"),
    "few rows": ("load,speed,wait\n1,2,3\n", "expected at least 10"),
    "constant input": ("load,speed,wait\n" + "".join(f"1,{k},{k}\n" for k in range(40)), "'load'"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_cannot_be_fitted_is_one_line(name, tmp_path, capsys):
    text, message = TABLES[name]
    (tmp_path / "t.csv").write_text(text)
    assert message in refused(capsys, "fit", tmp_path / "t.csv", *FIT, "--out", tmp_path / "m.dtmgp")
    assert not (tmp_path / "m.dtmgp").exists()


def test_the_deep_model_from_the_command_line(folder, tmp_path, capsys):
    small = ["--set", "hidden_widths=[2]", "--set", "levels=[2,2]", "--set", "max_epochs=2"]
    kinds = [
        "--set",
        "kernel=Laplace(lengthscale=3)",
        "--set",
        "objective=ELBO",
        "--set",
        "likelihood=StudentT()",
    ]
    run("fit", folder / "runs.csv", "-t", "wait", *small, *kinds, "--no-refit", "--out", tmp_path / "m.dtmgp")
    out = capsys.readouterr().out
    for word in ("model: DTMGPRegressor", "layers: 2 (5 features)", "StudentT", "Gauss-Newton", "epochs"):
        assert word in out
    model = load_model(tmp_path / "m.dtmgp")
    assert repr(model.kernel) == "Laplace(lengthscale=3, variance=1.0)"
    assert repr(model.objective) == "ELBO(samples=1, kl_weight=1.0)"
    run("predict", tmp_path / "m.dtmgp", folder / "fresh.csv", "--interval", "0.9")
    assert len(capsys.readouterr().out.splitlines()) == 61


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "{f}/runs.csv", "-t", "wiat"], "did you mean 'wait'"),
        (["fit", "{f}/runs.csv", "-t", "wait", "-i", "load,wait"], "besides the target"),
        (["fit", "{f}/runs.csv", "-t", "wait", "--model", "huge"], "auto, deep or one-layer"),
        (["fit", "{f}/runs.csv", "-t", "wait", "--model", "one-layer", "--set", "depth=3"], "depth"),
        (["fit", "{f}/runs.csv", "-t", "wait", "--model", "one-layer", "--set", "level=0"], "level"),
        (["fit", "{f}/runs.csv", "-t", "wait", "--set", "kernel=Laplace(long=3)"], "plain numbers"),
        (["fit", "{f}/runs.csv", "-t", "wait", "--bounds", "load=0:1"], "bounds of load, speed"),
        (["fit", "{f}/runs.csv", *FIT, "--out", "{f}/no/m.dtmgp"], "no folder"),
        (["predict", "{f}/runs.csv", "{f}/fresh.csv"], "another program"),
        (["predict", "{f}/no.dtmgp", "{f}/fresh.csv"], "No such file"),
        (["predict", "{f}/m.dtmgp", "{f}/fresh.csv", "-q", "95"], "--quantiles"),
        (["predict", "{f}/m.dtmgp", "{f}/fresh.csv", "--interval", "90"], "coverage"),
        (["report", "{f}/m.dtmgp", "{f}/fresh.csv", "-t", "cost"], "no column 'cost'"),
        (["bench", "no_such_script"], "no such script"),
    ],
)
def test_what_a_user_can_mend_is_one_line(arguments, message, folder, capsys):
    assert message in refused(capsys, *(word.replace("{f}", str(folder)) for word in arguments))


def test_no_traceback_from_a_real_process(folder):
    done = subprocess.run(
        [sys.executable, "-m", "dtmgp", "predict", str(folder / "m.dtmgp"), "-"],
        input=b"load\n0.5\n",
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == b""
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "command", ["fit", "predict", "sample", "report", "emulate", "serve", "reproduce", "bench", "info"]
)
def test_every_help_has_an_example(command):
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "100"})
    assert result.exit_code == 0
    assert f"Example: dtmgp {command}" in result.output


def test_shell_completion_offers_the_commands():
    done = subprocess.run(
        [sys.executable, "-c", "from dtmgp.cli import main; main()"],
        env={**os.environ, "_DTMGP_COMPLETE": "complete_bash", "COMP_WORDS": "dtmgp pre", "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["predict"]


def test_bench_lists_and_runs_scripts(tmp_path, monkeypatch, capfd):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "one.py").write_text(
        '"""Is one 1?"""\nimport sys\nprint(sys.argv[1:])\nsys.exit(5)\n'
    )
    (tmp_path / "benchmarks" / "common.py").write_text("")
    monkeypatch.chdir(tmp_path)
    run("bench")
    assert capfd.readouterr().out.split() == ["one", "Is", "one", "1?"]
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "one", "--seeds", "2"])
    assert stopped.value.code == 5
    assert capfd.readouterr().out.strip() == "['--seeds', '2']"


def test_info_for_machines(capsys):
    run("info", "--json")
    assert json.loads(capsys.readouterr().out)["numpy"] == np.__version__
