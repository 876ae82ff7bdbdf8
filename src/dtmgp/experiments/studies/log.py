"""A result file that grows row by row: a study that was interrupted goes on where it stopped."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dtmgp.errors import InputError
from dtmgp.experiments.results import Table, Value, _cell, read_csv

SETTINGS = "settings"


class ResultLog:
    """CSV under ``# name: value`` lines, one appended line per row.

    A line is one write to a file opened for appending, so that several processes can add rows; a line that was cut
    by a crash is dropped when the file is opened again. ``settings`` decide the numbers: a file that was begun with
    others is refused. Picklable: workers get the log itself.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self.columns = path, tuple(columns)

    def open(self, origin: Mapping[str, str], settings: str) -> None:
        """Create the file, or check and mend the one that is there."""
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            head = "".join(f"# {key}: {' '.join(str(value).split())}\n" for key, value in origin.items())
            part = self.path.with_name(f".{self.path.name}.part")
            part.write_text(f"{head}# {SETTINGS}: {settings}\n" + self._line(self.columns), encoding="utf-8")
            part.replace(self.path)
            return
        text = self.path.read_bytes()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            os.truncate(self.path, whole)
        table = read_csv(self.path)
        if table.origin.get(SETTINGS) != settings:
            raise InputError(
                f"result file {self.path}",
                got=f"settings {table.origin.get(SETTINGS)!r}",
                expected=f"{settings!r}",
                cause="a study that was begun with other options",
                do="choose another --out, or the same options",
            )
        if table.rows and tuple(table.rows[0]) != self.columns:
            raise InputError(
                f"result file {self.path}", got="other columns", expected=", ".join(self.columns)
            )

    def append(self, row: Mapping[str, Value]) -> None:
        """Add one row."""
        line = self._line([_cell(row[name]) for name in self.columns])
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def read(self) -> Table:
        """All rows."""
        return read_csv(self.path)

    @staticmethod
    def _line(cells: Sequence[str]) -> str:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerow(cells)
        return buffer.getvalue()
