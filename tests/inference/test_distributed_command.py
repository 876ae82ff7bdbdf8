"""Oracle: the same command in one process. ``torchrun -m dtmgp fit`` on a table and on a folder that is streamed."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from launch import LIMIT, environment

from dtmgp import DTMGPRegressor

pytestmark = pytest.mark.slow  # every command imports everything, twice over
TOLERANCE = 1e-5  # of outputs with standard deviation 0.8, in float32; measured: 8e-8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A CSV file with replicates and a folder of Parquet files without."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    place = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)

    def table(inputs, runs):
        x = rng.uniform(size=(inputs, 2)).repeat(runs, axis=0)
        frame = pd.DataFrame(x, columns=["a", "b"])
        return frame.assign(y=np.sin(5 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=len(x)))

    table(60, 3).to_csv(place / "runs.csv", index=False)
    rows = table(30_000, 1)
    (place / "rows").mkdir()
    for k in range(3):
        rows[k::3].to_parquet(place / "rows" / f"{k}.parquet", row_group_size=3000)
    return place


def dtmgp(*arguments, count=1):
    """The command line, in so many processes."""
    start = [sys.executable]
    if count > 1:
        start += ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
        start += ["--nproc-per-node", str(count)]
    return subprocess.run(
        [*start, "-m", "dtmgp", *map(str, arguments)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


@pytest.mark.parametrize("data", ["runs.csv", "rows"])
def test_fit_saves_the_model_of_one_process_and_prints_once(data, folder, tmp_path):
    said, models = [], []
    for count in (1, 2):
        path = tmp_path / f"{count}.dtmgp"
        options = ["--set", "hidden_widths=[2]", "--set", "levels=[2, 4]", "--set", "max_epochs=3"]
        checkpoint = ["--set", f"checkpoint={tmp_path / f'{count}.checkpoint'}"]
        done = dtmgp("fit", folder / data, "--target", "y", "--out", path, *options, *checkpoint, count=count)
        assert done.returncode == 0, done.stderr[-2000:]
        said.append(re.sub(r"fitted in [\d.]+ s|\d\.dtmgp", "", done.stdout))
        models.append(DTMGPRegressor.load(path))
    assert said[0] == said[1]
    import pandas as pd

    x = pd.DataFrame(np.random.default_rng(1).uniform(size=(50, 2)), columns=["a", "b"])
    one, two = (model.predict(x, return_std=True) for model in models)
    np.testing.assert_allclose(two, one, atol=TOLERANCE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.dtmgp", "2.dtmgp"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("runs.csv", "--target", "y", "--model", "one-layer"), "the exact model is not fitted in parts"),
        (("-", "--target", "y"), "one standard input"),
        (("none.csv", "--target", "y"), "none.csv"),
        (("runs.csv", "--target", "y", "--set", "levels=[0, 1]"), "levels"),
    ],
)
def test_what_is_refused_is_said_once(arguments, message, folder):
    name, *rest = arguments
    done = dtmgp("fit", name if name == "-" else folder / name, *rest, count=2)
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("dtmgp")]
    assert len([line for line in lines if ": " in line]) == 1
    assert message in lines[0]
    assert "exitcode  : 2" in done.stderr
