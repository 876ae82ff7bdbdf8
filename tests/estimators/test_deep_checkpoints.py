"""Oracle: the fit that nobody interrupted, bit by bit, after SIGKILL of the process at random moments."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import killed_fit
import numpy as np
import pytest
from quick import quick, wave

from dtmgp.errors import InputError


class Stop(Exception):
    """Ends a fit as a crash would."""


def crash_at(epoch):
    def callback(state):
        if state.epoch == epoch:
            raise Stop

    return callback


def same(one, two):
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name, strict=True)


@pytest.fixture(scope="module")
def uninterrupted():
    return killed_fit.result(None)


def test_a_fit_that_crashed_goes_on_to_the_same_bits(uninterrupted, tmp_path):
    path = tmp_path / "fit.checkpoint"
    for epoch in (12, 31):
        with pytest.raises(Stop):
            killed_fit.result(path, [crash_at(epoch)])
        assert path.exists()
    same(killed_fit.result(path), uninterrupted)
    assert not list(tmp_path.iterdir())  # removed at the end


def killed_and_resumed(kills, seed, tmp_path, expected):
    rng = random.Random(seed)
    checkpoint, target = tmp_path / "fit.checkpoint", tmp_path / "result.npz"
    command = [sys.executable, killed_fit.__file__, str(checkpoint), str(target)]
    source = str(Path(sys.modules["dtmgp"].__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    for _ in range(kills):
        process = subprocess.Popen([*command, "0.01"], env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _line in process.stdout:
            if rng.random() < 0.05:
                time.sleep(rng.uniform(0.0, 0.03))  # in a start, an epoch, or the writing of a checkpoint
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        target.unlink(missing_ok=True)  # if it got to the end
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=300)
    with np.load(target) as found:
        same(dict(found), expected)


def test_killed_fits_resume_to_the_same_bits(uninterrupted, tmp_path):
    killed_and_resumed(2, 0, tmp_path, uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_killed_fits_resume_to_the_same_bits_20_of_20(seed, uninterrupted, tmp_path):
    killed_and_resumed(1, seed, tmp_path, uninterrupted)


def test_a_checkpoint_of_other_data_or_parameters_is_refused(tmp_path):
    path = tmp_path / "fit.checkpoint"
    x, y = wave()
    with pytest.raises(Stop):
        quick(checkpoint=path, max_epochs=30, callbacks=[crash_at(15)]).fit(x, y)
    for options, outputs in (({}, y + 1e-9), ({"random_state": 1}, y), ({"learning_rate": 0.01}, y)):
        with pytest.raises(InputError, match=r"checkpoint .*delete the file"):
            quick(checkpoint=path, max_epochs=30, **options).fit(x, outputs)
    assert path.exists()
