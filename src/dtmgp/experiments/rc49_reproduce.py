"""``dtmgp reproduce rc49``: render the data set into an HDF5 file, train from it, judge, draw."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from dtmgp.errors import InputError
from dtmgp.experiments import rc49
from dtmgp.experiments.rc49_figures import draw_all
from dtmgp.experiments.rc49_train import PARTS, Output, run
from dtmgp.experiments.results import Value, origin, read_csv
from dtmgp.images.rc49 import load_rc49, write_rc49
from dtmgp.images.stream import FileSource

SEED = 0
SHORT = {"energy": "energy", "energy_features": "features", "yaw_error": "yaw error", "chairs": "chairs"}


def reproduce_rc49(out: Path, full: bool, command: str, say: Callable[[str], None]) -> list[str]:
    """The study of section 6: a file of images, tables, figures; stopped runs go on where they were.

    A file ``rc49.h5`` in ``out`` that is there already, such as the real RC-49, is used as it is for training; what is
    true of held-out angles is then taken from the renderer all the same, so put a file of the same chairs there.
    """
    scale = rc49.FULL if full else rc49.QUICK
    out.mkdir(parents=True, exist_ok=True)
    path = out / ("rc49.h5" if full else "rc49_quick.h5")
    if not path.exists():
        say(f"rendering {path}")
        write_rc49(path, steps=scale.steps)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with load_rc49(path) as data:
        rows = data.training_rows(scale.images, SEED)
        say(f"{data!r}: {len(rows):,} of them for training, on {device}")
        study = rc49.Study(scale, FileSource(data, rows), device, SEED, say)
        parts = PARTS if full else [part for part in PARTS if part != "given"]
        run(study, Output(out, origin(command, SEED)), only=parts, checkpoints=out / "checkpoints")
    lines = describe(read_csv(out / "rc49_scores.csv").rows)
    lines.append(f"largest memory of this process: {peak_memory():.1f} GiB")
    try:
        lines += ["", *(f"written: {path}" for path in draw_all(out, out))]
    except InputError as error:
        lines.append(str(error))
    return lines


def peak_memory() -> float:
    """GiB that the process held at most so far."""
    import resource

    unit = 2**30 if sys.platform == "darwin" else 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def describe(rows: Sequence[rc49.Row]) -> list[str]:
    """Means over the held-out angles as text."""

    def cell(value: Value) -> str:
        return f"{float(value):12.3g}"  # type: ignore[arg-type]

    lines = [f"{'':30} epoch" + "".join(f"{name:>12}" for name in SHORT.values())]
    for row in rc49.averages(list(rows)):
        lines.append(f"{row['model']!s:30} {row['epoch']:5}" + "".join(cell(row[key]) for key in SHORT))
    return lines
