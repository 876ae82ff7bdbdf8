"""Oracle: the uninterrupted run, bit by bit; processes that end are killed here, by their own numbers."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from launch import HERE, LIMIT, collect, command, environment

SCRIPT = HERE / "distributed_worker.py"


def tasks(folder, pause, name="keep_on"):
    return json.dumps([[name, {"checkpoint": str(folder / "run.checkpoint"), "pause": pause}]])


def same(one, two):
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name, strict=True)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("whole"), "keep_on")


def undisturbed(folder, name):
    """What a run of two processes leaves behind."""
    done = subprocess.run(
        command(SCRIPT, folder, tasks(folder, 0.0, name)),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = collect(folder, 1)[0]
    same(first, second)
    return first


def kill_now(folder, attempt, rng):
    """SIGKILL to one of the processes of this attempt; whether it was there."""
    file = folder / f"pid.{attempt}.{rng.randrange(2)}"
    try:
        os.kill(int(file.read_text()), signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return False
    return True


def survive(folder, kills, seed, expected, name="keep_on"):
    """One run under torchrun of which random processes are killed at random moments; how often."""
    rng = random.Random(seed)
    process = subprocess.Popen(
        command(SCRIPT, folder, tasks(folder, 0.03, name), restarts=12),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    watchdog = threading.Timer(LIMIT, process.kill)
    watchdog.start()
    done, heard = 0, 0
    assert process.stdout is not None
    for line in process.stdout:
        heard += line.startswith("epoch")
        if done < kills and heard > 0 and rng.random() < 0.4:
            time.sleep(rng.uniform(0.0, 0.08))  # in the middle of a step, a score or a checkpoint
            if kill_now(folder, done, rng):
                done, heard = done + 1, 0
                # what the dying attempt has still printed is not the next one's
                end = time.monotonic() + LIMIT / 3
                while not (folder / f"pid.{done}.0").exists() and process.poll() is None:
                    assert time.monotonic() < end, "the next attempt does not begin"
                    time.sleep(0.05)
    code = process.wait()
    watchdog.cancel()
    process.stdout.close()
    assert code == 0
    for part in collect(folder, 1)[0]:
        same(part, expected)
    return done


@pytest.mark.slow  # a restart imports torch twice: a minute and more
@pytest.mark.parametrize("seed", range(4))
def test_a_run_whose_processes_are_killed_ends_with_the_same_bits(seed, uninterrupted, tmp_path):
    assert survive(tmp_path, 6, seed, uninterrupted) == 6


@pytest.mark.slow  # for the same reason
def test_a_fit_whose_processes_are_killed_ends_with_the_same_bits(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    expected = undisturbed(whole, "keep_on_fitting")
    assert survive(killed, 4, 0, expected, "keep_on_fitting") == 4
    assert not (killed / "run.checkpoint").exists()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def without_torchrun(folder, pause):
    """Two processes that nobody watches."""
    port = free_port()
    for rank in (0, 1):
        own = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        yield subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), tasks(folder, pause)],
            env={**environment(), **{k: str(v) for k, v in own.items()}, "TORCHELASTIC_RESTART_COUNT": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.mark.slow  # starts processes of its own
@pytest.mark.parametrize("killed", [0, 1])
def test_who_is_left_alone_says_so_and_ends(killed, tmp_path):
    pair = list(without_torchrun(tmp_path, 0.05))
    try:
        for line in pair[0].stdout:
            if line.startswith("epoch 2"):
                break
        pair[killed].kill()
        _, said = pair[1 - killed].communicate(timeout=LIMIT)
    finally:
        for process in pair:
            process.kill()
            process.communicate()
    assert pair[1 - killed].returncode == 1
    assert "no answer from another process" in said
    assert "--max-restarts" in said


@pytest.mark.slow  # starts processes of its own
def test_an_interrupt_of_torchrun_ends_all_at_once(tmp_path):
    process = subprocess.Popen(
        command(SCRIPT, tmp_path, tasks(tmp_path, 0.05)),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stdout:
            if line.startswith("epoch 2"):
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    first, second = collect(tmp_path, 1)[0]
    same(first, second)
    assert first["reason"] == "interrupted"
    assert 2 <= len(first["trace"]) < 24
    for rank in (0, 1):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / f"pid.0.{rank}").read_text()), 0)
