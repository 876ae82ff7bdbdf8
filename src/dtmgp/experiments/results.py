"""Result tables: CSV files that say in their first lines how they were made, written in one step and read back."""

from __future__ import annotations

import csv
import math
import os
import platform
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from dtmgp._version import __version__
from dtmgp.errors import InputError

Value = str | int | float | None
PACKAGE = Path(__file__).resolve().parents[1]


class Table(NamedTuple):
    """Rows of a result file and the origin that its first lines state."""

    origin: dict[str, str]
    rows: list[dict[str, Value]]

    def column(self, name: str) -> list[float]:
        """A column as floats, NaN where a cell is empty."""
        return [math.nan if row[name] is None else float(row[name]) for row in self.rows]  # type: ignore[arg-type]


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(PACKAGE), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def commit() -> str:
    """Short hash of the commit that this package was imported from, or the version if it is no checkout."""
    top = _git("rev-parse", "--show-toplevel")
    if top is None or Path(top) / "src" / "dtmgp" != PACKAGE:
        return f"release {__version__}"
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/src")
    return f"{_git('rev-parse', '--short', 'HEAD')}{' with local changes' if changed else ''}"


def machine() -> str:
    """Cores that this process may use, memory, and the interpreter."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        memory = f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"
    except (AttributeError, ValueError, OSError):
        memory = "unknown memory"
    return f"{cores} cores, {memory}, {platform.machine()}, Python {platform.python_version()}"


def load() -> str:
    """Load average over the last minute, in runnable processes."""
    return f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"


def origin(command: str, seed: int | None) -> dict[str, str]:
    """What the first lines of a result file say: command, seed, commit, machine, load.

    >>> sorted(origin("dtmgp info", seed=0))
    ['command', 'commit', 'load at start', 'machine', 'seed']
    """
    return {
        "command": command,
        "seed": "none" if seed is None else str(seed),
        "commit": commit(),
        "machine": machine(),
        "load at start": load(),
    }


def write_csv(path: Path, rows: Sequence[Mapping[str, Value]], origin: Mapping[str, str]) -> None:
    """Write a table under ``# name: value`` lines; a reader sees the old file or the whole new one.

    Floats keep six significant digits; None and NaN become empty cells. All rows have the columns of the first.
    """
    if not rows:
        raise InputError("result table", got="no rows", expected="at least one")
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            for key, value in origin.items():
                file.write(f"# {key}: {' '.join(str(value).split())}\n")
            writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            for row in rows:
                writer.writerow({key: _cell(value) for key, value in row.items()})
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _cell(value: Value) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def read_csv(path: Path) -> Table:
    """Read what ``write_csv`` wrote: numbers as int or float, empty cells as None."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(
            "result table",
            got=f"{path}: {error.strerror}",
            expected="a readable file",
            do="run the study first",
        ) from None
    stated = {}
    while lines and lines[0].startswith("# "):
        key, _, value = lines.pop(0)[2:].partition(": ")
        stated[key] = value
    return Table(stated, [{key: _value(cell) for key, cell in row.items()} for row in csv.DictReader(lines)])


def _value(cell: str) -> Value:
    if cell == "":
        return None
    for number in (int, float):
        try:
            return number(cell)
        except ValueError:
            continue
    return cell
