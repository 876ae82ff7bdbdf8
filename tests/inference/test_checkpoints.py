"""Oracle: the uninterrupted run, bit by bit: after exceptions, after SIGKILL of the process, at any epoch."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import resume_worker
import torch
from small import small_model, small_runs

from dtmgp.errors import InputError
from dtmgp.inference import ELBO, Predictive
from dtmgp.inference.checkpoint import fingerprint_of, load_checkpoint, save_checkpoint
from dtmgp.inference.trainer import Settings, Training, train

SETTINGS = Settings(epochs=6, batch_size=8)


class Stop(Exception):
    """Ends a run as a crash would."""


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
    return resume_worker.result(None)


@pytest.mark.parametrize("epoch", [1, 4, 23])
def test_a_run_that_crashed_goes_on_to_the_same_bits(epoch, uninterrupted, tmp_path):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stop):
        resume_worker.result(path, [crash_at(epoch)])
    assert path.exists() == (epoch > 3)  # the crash comes before the third epoch's file
    same(resume_worker.result(path), uninterrupted)
    assert not path.exists()  # the run has ended


def test_a_run_that_crashes_again_and_again(uninterrupted, tmp_path):
    path = tmp_path / "run.checkpoint"
    for epoch in (5, 14):
        with pytest.raises(Stop):
            resume_worker.result(path, [crash_at(epoch)])
    same(resume_worker.result(path), uninterrupted)


def test_writing_checkpoints_does_not_change_the_run(uninterrupted, tmp_path):
    same(resume_worker.result(tmp_path / "run.checkpoint"), uninterrupted)


def kill_once(command, environment, rng):
    """SIGKILL at a random moment after a random epoch; whether the process was still at work."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if rng.random() < 0.15:
            time.sleep(rng.uniform(0.0, 0.03))  # in the middle of the next epoch, or of its checkpoint
            break
        del line
    alive = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    return alive


def survive(kills, seed, tmp_path, expected):
    rng = random.Random(seed)
    checkpoint, target = tmp_path / "run.checkpoint", tmp_path / "result.npz"
    command = [sys.executable, str(Path(resume_worker.__file__)), str(checkpoint), str(target)]
    source = str(Path(sys.modules["dtmgp"].__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    killed = 0
    while killed < kills:
        killed += kill_once([*command, "0.005"], environment, rng)
        if target.exists():  # it got to the end: once more from the start
            with np.load(target) as found:
                same(dict(found), expected)
            target.unlink()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=300)
    with np.load(target) as found:
        same(dict(found), expected)


def test_killed_processes_resume_to_the_same_bits(uninterrupted, tmp_path):
    survive(3, 0, tmp_path, uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_killed_processes_resume_to_the_same_bits_20_of_20(seed, uninterrupted, tmp_path):
    survive(1, seed, tmp_path, uninterrupted)


def run(path, *, runs=None, objective=None, settings=SETTINGS, model=None, fingerprint="a", callbacks=()):
    return train(
        small_model() if model is None else model,
        small_runs() if runs is None else runs,
        ELBO() if objective is None else objective,
        settings,
        generator=torch.Generator().manual_seed(0),
        checkpoint=path,
        checkpoint_every=1,
        fingerprint=fingerprint,
        callbacks=callbacks,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": "b"},
        {"runs": small_runs(seed=1)},
        {"objective": ELBO(2)},
        {"objective": Predictive(2)},
        {"settings": Settings(epochs=7, batch_size=8)},
        {"settings": Settings(epochs=6, batch_size=8, learning_rate=0.01)},
        {"model": small_model(3)},
    ],
    ids=["fingerprint", "data", "samples", "objective", "epochs", "rate", "model"],
)
def test_a_checkpoint_of_another_run_is_refused_and_nothing_is_changed(change, tmp_path):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stop):
        run(path, callbacks=[crash_at(3)])
    before = path.read_bytes()
    model = change.pop("model", small_model())
    parameters = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(InputError, match=r"checkpoint .*delete the file"):
        run(path, model=model, **change)
    same(parameters, model.state_dict())
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", [lambda b: b[:-10], lambda b: b"", lambda b: b[:900] + b"?" + b[901:]])
def test_a_damaged_checkpoint_is_refused(damage, tmp_path):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stop):
        run(path, callbacks=[crash_at(3)])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match="damaged"):
        run(path)


def state_of(seed=0):
    model = small_model(seed=seed)
    return Training(model, torch.optim.Adam(model.parameters()), torch.Generator().manual_seed(seed))


def test_a_checkpoint_is_replaced_in_one_step(tmp_path, monkeypatch):
    """A writer that dies before the rename leaves the old file, whole, and no litter."""
    path, state = tmp_path / "run.checkpoint", state_of()
    save_checkpoint(path, state, "a")
    before = path.read_bytes()
    state.epoch = 7

    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, state, "a")
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]
    save_checkpoint(path, state, "a")
    fresh = state_of(1)
    assert load_checkpoint(path, fresh, "a")
    assert fresh.epoch == 7
    same(state.model.state_dict(), fresh.model.state_dict())


def test_no_file_means_a_fresh_start(tmp_path):
    assert not load_checkpoint(tmp_path / "none", state_of(), "a")


def test_all_shapes_survive_also_those_of_single_numbers(tmp_path):
    model = small_model()
    state = Training(model, torch.optim.Adam(model.parameters()), torch.Generator())
    ELBO()(model, small_runs().batch(torch.arange(5))).value.backward()
    state.optimiser.step()
    state.keep(0.5)
    save_checkpoint(tmp_path / "c", state, "a")
    fresh = state_of(1)
    load_checkpoint(tmp_path / "c", fresh, "a")
    assert {k: v.shape for k, v in fresh.best_state.items()} == {
        k: v.shape for k, v in state.best_state.items()
    }
    for old, new in zip(model.parameters(), fresh.model.parameters(), strict=True):
        one, two = state.optimiser.state[old], fresh.optimiser.state[new]
        assert {k: (v.shape, v.dtype) for k, v in one.items()} == {
            k: (v.shape, v.dtype) for k, v in two.items()
        }
    assert fresh.best_score == 0.5


def test_fingerprints_tell_arrays_and_settings_apart():
    a = np.arange(6.0)
    prints = [
        fingerprint_of(a),
        fingerprint_of(a.reshape(2, 3)),
        fingerprint_of(a.astype(np.float32)),
        fingerprint_of(a + 1),
        fingerprint_of(a, 1),
        fingerprint_of(a, "1"),
    ]
    assert len(set(prints)) == len(prints)
    assert fingerprint_of(a.copy()) == prints[0]
