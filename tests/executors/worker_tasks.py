"""Tasks for executors: importable by workers of every kind."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np


def draw(seed):
    """A number that depends on the seed alone."""
    return float(np.random.default_rng(seed).normal())


def inverse(x):
    return 1.0 / x


def counted(task):
    """Leave a file per execution; the task that is told to waits to be killed, the first time."""
    folder, number, waits = task
    with (Path(folder) / "executions").open("a") as file:
        file.write(f"{number}\n")
    mark = Path(folder) / f"pid-{number}"
    if waits and not mark.exists():
        part = mark.with_suffix(".part")
        part.write_text(str(os.getpid()))
        part.rename(mark)
        time.sleep(120)
    return number**2


def deadly(x):
    """Takes its process with it, every time."""
    if x == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return x
