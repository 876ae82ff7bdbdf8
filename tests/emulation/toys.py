"""Simulators that behave and misbehave; imported by name, as users' ``module:function`` and in worker processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np


def sine(x, rng):
    """Behaves."""
    return np.sin(6 * x[0]) + 0.1 * rng.normal()


def dies_on_the_left(x, seed):
    """Takes its process with it where x < 0.3."""
    if x[0] < 0.3:
        os.kill(os.getpid(), signal.SIGKILL)
    return x[0]


def hangs_on_the_left(x, seed):
    """Sleeps for ever, in Python, where x < 0.3."""
    while x[0] < 0.3:
        time.sleep(0.05)
    return x[0]


def hangs_deaf_on_the_left(x, seed):
    """Hangs and ignores the alarm, as compiled code does, where x < 0.3."""
    if x[0] < 0.3:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        while True:
            time.sleep(0.05)
    return x[0]


def counted(x, rng):
    """Behaves, and leaves a line per call in the file named by TOY_CALLS; slow enough to be killed in between."""
    with Path(os.environ["TOY_CALLS"]).open("a") as file:
        file.write(f"{x[0]!r}\n")
    time.sleep(0.01)
    return np.sin(6 * x[0]) + 0.1 * rng.normal()
