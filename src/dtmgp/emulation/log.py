"""The state of a campaign on disk: settings, and a log of runs that is only ever appended to."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from dtmgp.emulation.runs import Outcome, Purpose, Run
from dtmgp.errors import InputError

SCHEMA = 1
SYNC_SECONDS = 1.0  # a power cut loses no more than this; a killed process loses nothing


class RunLog:
    """``campaign.json`` and ``runs.jsonl`` in a folder: one line per run asked for and per outcome.

    A line is written at once and whole. A last line that a power cut tore is dropped on opening; any other damage is
    refused with the number of the line. Only one process at a time can have a log open.
    """

    def __init__(self, folder: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self.folder / "lock")
            try:
                self._check_settings(settings)
                self.events = list(self._read())
                self._file: BinaryIO | None = (self.folder / "runs.jsonl").open("ab", buffering=0)
            except BaseException:
                self._lock.close()
                raise
        except OSError as error:
            raise InputError(
                f"campaign folder {self.folder}",
                got=error.strerror or str(error),
                expected="a folder that can be written",
            ) from None
        self._synced = time.monotonic()

    def asked(self, runs: Sequence[Run]) -> None:
        """Record runs before they are handed out."""
        self._append(
            [
                {
                    "event": "asked",
                    "run": run.number,
                    "attempt": run.attempt,
                    "x": list(run.x),
                    "seed": run.seed,
                    "purpose": run.purpose.value,
                    "round": run.round,
                }
                for run in runs
            ]
        )

    def told(self, outcome: Outcome) -> None:
        """Record an outcome."""
        self._append(
            [
                {
                    "event": "told",
                    "run": outcome.number,
                    "attempt": outcome.attempt,
                    "y": outcome.y,
                    "error": outcome.error,
                    "seconds": outcome.seconds,
                }
            ]
        )

    def close(self) -> None:
        """Write everything to the disk and let go of the folder."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
            self._lock.close()

    def _append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        if self._file is None:
            raise InputError(
                "campaign", got="a closed log", expected="an open one", do="make the campaign again"
            )
        self._file.write("".join(json.dumps(line, allow_nan=False) + "\n" for line in lines).encode())
        if time.monotonic() - self._synced > SYNC_SECONDS:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def _check_settings(self, settings: Mapping[str, Any]) -> None:
        path = self.folder / "campaign.json"
        wanted = {"schema": SCHEMA, **json.loads(json.dumps(settings))}
        if not path.exists():
            if (self.folder / "runs.jsonl").exists():
                raise InputError(
                    f"campaign folder {self.folder}",
                    got="runs.jsonl without campaign.json",
                    expected="both or neither",
                    do="use another folder",
                )
            write_text(path, json.dumps(wanted, indent=1) + "\n")
            return
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise InputError(f"{path}", got="no JSON", expected="the settings of a campaign") from None
        for key in sorted(wanted.keys() | stored.keys()):
            if stored.get(key) != wanted.get(key):
                raise InputError(
                    f"campaign folder {self.folder}",
                    got=f"{key} = {wanted.get(key)!r}",
                    expected=f"{stored.get(key)!r}, with which the campaign was begun",
                    cause="another campaign in the same folder",
                    do="use another folder, or the settings of this one (budget, model and score may change)",
                )

    def _read(self) -> Iterator[Run | Outcome]:
        path = self.folder / "runs.jsonl"
        if not path.exists():
            return
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with path.open("rb+") as file:
                file.truncate(whole)
        for number, line in enumerate(content[:whole].splitlines(), start=1):
            try:
                yield _parse(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"{path}, line {number}",
                    got=f"{line[:60].decode(errors='replace')!r} ({type(error).__name__})",
                    expected="a run or an outcome",
                    cause="a damaged disk, or an edit by hand",
                    do="restore the file, or delete this line",
                ) from None


def _parse(entry: dict[str, Any]) -> Run | Outcome:
    if entry["event"] == "asked":
        x = tuple(float(value) for value in entry["x"])
        return Run(
            entry["run"], x, entry["seed"], entry["attempt"], Purpose(entry["purpose"]), entry["round"]
        )
    if entry["event"] != "told":
        raise ValueError(entry["event"])
    return Outcome(entry["run"], entry["attempt"], entry["y"], entry["error"], entry["seconds"])


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _locked(path: Path) -> BinaryIO:
    """The lock file, locked until it is closed; the system lets go of it when the process dies."""
    file = path.open("wb")
    with contextlib.suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise InputError(
                f"campaign folder {path.parent}",
                got="a folder that another process works in",
                expected="one process at a time",
                do="wait for it, or end it",
            ) from None
    return file
