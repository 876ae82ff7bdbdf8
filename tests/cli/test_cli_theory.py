"""Oracle: the files that a command leaves behind, its exit code and the number of lines it prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dtmgp.cli import main
from dtmgp.cli.app import app
from dtmgp.experiments.results import read_csv


def run(*arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    words = ["-m", "dtmgp", *arguments] if code is None else ["-c", code, *arguments]
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "COLUMNS": "120"},
        check=False,
    )


def test_help_names_the_commands():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "reproduce" in result.output
    assert "info" in result.output


def test_info():
    result = CliRunner().invoke(app, ["info"])
    assert result.exit_code == 0
    assert "numba" in result.output
    assert "cores" in result.output
    assert "compiled code" in result.output


def test_quick_run_writes_its_files(tmp_path: Path):
    figure = tmp_path / "docs" / "figure.png"
    done = run("reproduce", "theory", "--out", str(tmp_path / "new"), "--figure", str(figure))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "Brownian bridge" in done.stdout
    table = read_csv(tmp_path / "new" / "theory_residual.csv")
    assert table.origin["seed"] == "0"
    assert table.origin["command"].startswith("dtmgp reproduce theory --quick --out ")
    assert {row["dim"] for row in table.rows} == {1, 2, 3}
    assert read_csv(tmp_path / "new" / "theory_slopes.csv").rows
    assert figure.stat().st_size > 10_000


@pytest.mark.parametrize("arguments", [("nonsense",), ("theory", "--out", __file__)])
def test_what_a_user_can_mend_is_one_line_and_exit_code_2(arguments: tuple[str, ...]):
    done = run("reproduce", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("dtmgp: ")
    assert len(done.stderr.splitlines()) == 1
    assert "expected" in done.stderr


def test_unknown_option_exits_with_2():
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "theory", "--nonsense"])
    assert stopped.value.code == 2


def test_without_typer_there_is_one_clear_line():
    done = run(code="import sys; sys.modules['typer'] = None; from dtmgp.cli import main; main(['info'])")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "dtmgp: the command line needs typer and rich: pip install 'dtmgp[cli]'"
    ]
