"""Oracle: float64; and the published table against the file that it was copied from."""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EPS = 2.0**-24


def benchmark():
    spec = importlib.util.spec_from_file_location("float32_error", ROOT / "benchmarks" / "float32_error.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def published():
    lines = (ROOT / "experiments" / "results" / "float32_error.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.reader(line for line in lines if not line.startswith("#")))[1:]


@pytest.mark.parametrize("level", [1, 4, 8, 12, 16])
@pytest.mark.parametrize("lengthscale", [0.5, 1.0, 10.0])
def test_the_local_form_is_sound_in_float32(level, lengthscale):
    clock, local, rounding = benchmark().relative_errors(level, 5000, lengthscale)
    assert local < 10 * EPS
    assert rounding < 1.1 * EPS / 2 * 2**level * max(1.0, 2.0**-level / lengthscale)
    if lengthscale >= 1:
        assert clock > 0.3 * EPS * 2**level


def test_the_page_shows_the_file():
    page = (ROOT / "docs" / "float32.md").read_text(encoding="utf-8")
    assert [row[0] for row in published()] == [str(level) for level in range(1, 17)]
    for row in published():
        assert f"| {' | '.join(row)} |" in page


def test_the_script_writes_its_file(tmp_path, capsys):
    benchmark().main(tmp_path / "out.csv", levels=2, n_inputs=100)
    lines = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# command: python benchmarks/float32_error.py")
    assert lines[1].startswith("# commit: ")
    assert lines[3] == "level,clock_form,local_form,input_rounding"
    assert len(lines) == 6
