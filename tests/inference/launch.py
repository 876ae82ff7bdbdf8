"""torchrun for tests: two processes on the loopback, a free port, time enough for a busy machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import dtmgp

HERE = Path(__file__).parent
LIMIT = 900  # seconds: only a hang takes that long


def command(script, *arguments, count=2, restarts=0):
    """The command line of a run."""
    return [
        sys.executable,
        *("-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"),
        *("--nproc-per-node", str(count), "--max-restarts", str(restarts)),
        *map(str, (script, *arguments)),
    ]


def environment():
    """One thread each, and the package that is being tested."""
    source = str(Path(dtmgp.__file__).parents[1])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC")}
    return {**kept, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def launch(folder, tasks, count=2):
    """Run tasks of ``distributed_worker``; per task the arrays of every process, and what was printed."""
    done = subprocess.run(
        command(HERE / "distributed_worker.py", folder, json.dumps(tasks), count=count),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return collect(folder, len(tasks), count), done


def collect(folder, tasks, count=2):
    """What the processes have written."""
    found = []
    for number in range(tasks):
        parts = []
        for rank in range(count):
            with np.load(folder / f"{number}.{rank}.npz") as arrays:
                parts.append(dict(arrays))
        found.append(parts)
    return found
