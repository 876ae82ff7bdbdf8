"""Oracle: the Python interface; what `dtmgp info` says of a model file, to people and to machines."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pandas as pd
import pytest

from dtmgp import TMGPRegressor
from dtmgp.cli import main


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("info") / "m.dtmgp"
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(30, 2)), columns=["load", "speed"])
    model = TMGPRegressor(level=3, bounds=[[0, 1], [0, 2]], max_evaluations=5)
    model.fit(X, np.stack([X.load, X.speed], axis=1)).save(path)
    return path


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in arguments])
    return stopped.value.code or 0


def test_for_machines(model_file, capsys):
    assert run("info", model_file, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["model"] == "TMGPRegressor"
    assert facts["inputs"] == {"load": [0.0, 1.0], "speed": [0.0, 2.0]}
    assert facts["outputs"] == 2
    assert facts["outside"] == "refused"
    assert facts["settings"]["level"] == "3"
    assert set(facts["settings"]) == {"level", "bounds", "max_evaluations"}
    assert facts["sha256"] == hashlib.sha256(model_file.read_bytes()).hexdigest()


def test_for_people(model_file, capsys):
    assert run("info", model_file) == 0
    out = capsys.readouterr().out
    assert "2 inputs, 2 outputs\n  load   0 to 1\n  speed  0 to 2\n" in out
    assert "log evidence" in out


def test_what_is_no_model_file_is_one_line(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    assert run("info", tmp_path / "a.csv") == 2
    err = capsys.readouterr().err
    assert err.startswith("dtmgp: ")
    assert len(err.splitlines()) == 1


def test_version(capsys):
    from dtmgp import __version__

    assert run("--version") == 0
    assert capsys.readouterr().out.strip() == f"dtmgp {__version__}"
