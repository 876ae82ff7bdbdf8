"""Oracle: the files and lines that the study commands leave, and their exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtmgp.cli import main
from dtmgp.experiments.results import read_csv

SMALL = ["--quick", "--sizes", "20", "--models", "truth,kde", "--time-limit", "5"]


def run(*arguments: str) -> int:
    try:
        main(["reproduce", *arguments])
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 0


def test_a_study_writes_rows_and_goes_on(tmp_path: Path, capsys):
    out = str(tmp_path / "new")
    assert run("random-field", *SMALL, "--out", out) == 0
    said = capsys.readouterr()
    assert "KDE, x ignored" in said.out
    assert "1/1 cells" in said.err
    table = read_csv(tmp_path / "new" / "random_field.csv")
    assert table.origin["command"].startswith("dtmgp reproduce random-field --quick --out ")
    assert table.origin["command"].endswith("--sizes 20 --models truth,kde --time-limit 5")
    assert table.origin["settings"] == "limit 5 s, 10000 draws"
    assert [row["model"] for row in table.rows] == ["truth", "kde"]
    assert run("random-field", *SMALL, "--out", out, "--replications", "2") == 0
    said = capsys.readouterr()
    assert "1 of 2 cells are in" in said.err
    assert len(read_csv(tmp_path / "new" / "random_field.csv").rows) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        ("random-field", "--sizes", "many"),
        ("random-field", "--models", "mars"),
        ("random-field", "--variants", "both"),
        ("random-field", "--executor", "threads"),
        ("random-field", "--address", "localhost:6379"),
        ("theory", "--executor", "ray"),
        ("random-field", "--time-limit", "-1"),
        ("random-field", "--figure", "x.png"),
        ("theory", "--replications", "3"),
    ],
)
def test_what_a_user_can_mend_is_one_line(arguments: tuple[str, ...], tmp_path: Path, capsys):
    assert run(*arguments, "--out", str(tmp_path)) == 2
    said = capsys.readouterr()
    assert said.err.startswith("dtmgp: ")
    assert len(said.err.splitlines()) == 1
    assert "expected" in said.err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow  # starts Ray: 10 to 20 s of processor time
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_study_on_ray_is_the_same(tmp_path: Path, capsys):
    ray = pytest.importorskip("ray", reason="pip install 'dtmgp[ray]'")
    for name, more in (("here", ()), ("ray", ("--executor", "ray", "--jobs", "2"))):
        assert run("random-field", *SMALL, "--replications", "2", *more, "--out", str(tmp_path / name)) == 0
    assert not ray.is_initialized()
    here, there = (
        sorted((row["replication"], row["model"], row["ks10k"], row["crps"]) for row in table.rows)
        for table in (read_csv(tmp_path / name / "random_field.csv") for name in ("here", "ray"))
    )
    assert here == there
