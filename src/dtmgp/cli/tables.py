"""Tables in and out: CSV and Parquet, files and standard streams; what is wrong with a table, in one line.

CSV is read here, not by pandas: pandas pads short lines, renames repeated columns and does not say where a text is.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dtmgp.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

STREAM = "-"
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
CHUNK = 50_000  # lines
PARQUET_MAGIC = b"PAR1"


def read_table(path: str) -> pd.DataFrame:
    """A CSV or Parquet file, or ``-`` for the standard input; numbers as float64, other columns as texts."""
    import pandas as pd

    where = "standard input" if path == STREAM else path
    content = _content(path, where)
    if content[:4] == PARQUET_MAGIC:
        return _from_parquet(content, where)
    names, columns = _from_csv(_decoded(content, where), where)
    return pd.DataFrame(dict(zip(names, columns)), columns=names)


def _content(path: str, where: str) -> bytes:
    try:
        content = sys.stdin.buffer.read() if path == STREAM else Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            f"table {where}",
            got=error.strerror or str(error),
            expected="a CSV or Parquet file that can be read, or - for the standard input",
            do="check the path",
        ) from None
    if not content.strip():
        raise InputError(
            f"table {where}", got="an empty file", expected="a line of column names, then one line per row"
        )
    return content


def _decoded(content: bytes, where: str) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise _encoding(where, "UTF-16")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _encoding(
            where, f"byte 0x{content[error.start]:02x} in line {line}, which is no UTF-8"
        ) from None


def _encoding(where: str, got: str) -> InputError:
    return InputError(
        f"table {where}",
        got=got,
        expected="UTF-8 text",
        cause="a file saved in another encoding, as spreadsheets do",
        do="save it as 'CSV UTF-8', or convert it: iconv -f latin1 -t utf-8 old.csv > new.csv",
    )


def _from_csv(text: str, where: str) -> tuple[list[str], list[np.ndarray]]:
    if "\x00" in text:
        raise InputError(f"table {where}", got="zero bytes", expected="CSV or Parquet", cause="a binary file")
    first = text.lstrip("\r\n").split("\n", 1)[0]
    counts = {mark: first.count(mark) for mark in (",", ";", "\t")}
    mark = max(counts, key=lambda key: counts[key]) if any(counts.values()) else ","
    lines = _lines(csv.reader(io.StringIO(text, newline=""), delimiter=mark), where)
    _, header = next(lines)
    names = [name.strip() for name in header]
    _check_names(names, where)
    columns: list[list[np.ndarray]] = [[] for _ in names]
    chunk: list[list[str]] = []
    for number, row in lines:
        if len(row) != len(names):
            raise InputError(
                f"table {where}, line {number}",
                got=f"{len(row)} cells",
                expected=f"{len(names)}, as in the first line",
                cause="a missing or an unquoted separator",
                do=f"mend the line: {mark.join(row)[:60]!r}",
            )
        chunk.append(row)
        if len(chunk) == CHUNK:
            _extend(columns, chunk)
            chunk = []
    _extend(columns, chunk)
    if not columns[0]:
        raise InputError(f"table {where}", got="column names only", expected="at least one row")
    return names, [_joined(parts) for parts in columns]


def _lines(reader: Any, where: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with the numbers of their lines."""
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"table {where}, line {reader.line_num}", got=str(error), expected="CSV"
            ) from None
        if row and (len(row) > 1 or row[0].strip()):
            yield reader.line_num, row


def _check_names(names: Sequence[str], where: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        label = "columns without a name" if twice == [""] else f"the column name {twice[0]!r} more than once"
        raise InputError(f"table {where}", got=label, expected="a different name for every column")
    if "" in names:
        raise InputError(
            f"table {where}",
            got=f"no name for column {names.index('') + 1} of {len(names)}",
            expected="a name for every column",
            cause="a row index that was saved without a name",
            do="name it or leave it out (pandas: index=False)",
        )
    numeric = [name for name in names if _is_number(name)]
    if len(numeric) == len(names):
        raise InputError(
            f"table {where}",
            got=f"numbers in the first line ({', '.join(names[:3])}, ...)",
            expected="column names there",
            cause="a file without a header",
            do="put a line of names before it",
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _extend(columns: list[list[np.ndarray]], rows: list[list[str]]) -> None:
    for parts, cells in zip(columns, zip(*rows)):
        parts.append(_numbers(cells))


def _numbers(cells: Sequence[str]) -> np.ndarray:
    """Cells as floats, missing ones as NaN; as texts if one is neither."""
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        pass
    try:
        return np.array([np.nan if cell.strip().lower() in MISSING else float(cell) for cell in cells])
    except ValueError:
        return np.array(cells, dtype=object)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Chunks as one column; a text in one of them makes all of it texts."""
    if any(part.dtype == object for part in parts):
        parts = [part if part.dtype == object else _texts(part) for part in parts]
    return np.concatenate(parts)


def _texts(values: np.ndarray) -> np.ndarray:
    shown = ["" if np.isnan(value) else np.format_float_positional(value, trim="-") for value in values]
    return np.array(shown, dtype=object)


def _from_parquet(content: bytes, where: str) -> pd.DataFrame:
    pq = _pyarrow()
    import pyarrow as pa

    try:
        table = pq.read_table(io.BytesIO(content))
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"table {where}",
            got=" ".join(str(error).split())[:120],
            expected="a complete Parquet file",
            cause="a truncated copy",
        ) from None
    _check_names(table.column_names, where)
    frame = table.to_pandas()
    if not len(frame):
        raise InputError(f"table {where}", got="no rows", expected="at least one row")
    for name in frame.columns:
        if frame[name].dtype.kind in "iufb":
            frame[name] = frame[name].astype(np.float64)
    return frame.reset_index(drop=True)


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise InputError(
            "Parquet", got="no pyarrow", expected="pyarrow", do="pip install 'dtmgp[tables]', or use CSV"
        ) from None
    return pq


def numeric_columns(
    table: pd.DataFrame, names: Sequence[str], where: str, *, drop_missing: bool = False
) -> tuple[pd.DataFrame, np.ndarray]:
    """The named columns as numbers, and which rows were kept; all that can be wrong with them is refused by name."""
    check_present(table, names, where)
    keep = np.ones(len(table), dtype=bool)
    for name in names:
        values = table[name].to_numpy()
        if values.dtype.kind != "f":
            text = next((cell for cell in values if not _is_number(str(cell))), values[0])
            row = int(np.flatnonzero([cell is text for cell in values])[0])
            comma = _is_number(str(text).replace(",", ".", 1))
            raise InputError(
                f"table {where}, column {name!r}",
                got=f"the text {str(text)[:40]!r} in row {row + 1}",
                expected="numbers",
                cause="a decimal comma" if comma else "a category, a name or a unit among the numbers",
                do="save the table with decimal points"
                if comma
                else "encode it as numbers, or leave it out: fit --inputs a,b chooses the columns",
            )
        bad = ~np.isfinite(values)
        if bad.any() and not drop_missing:
            raise InputError(
                f"table {where}, column {name!r}",
                got=f"no number in {bad.sum()} of {len(values)} rows, first in row {int(bad.argmax()) + 1}",
                expected="finite numbers",
                cause="missing values",
                do="fill them in, or leave these rows out: --drop-missing",
            )
        keep &= ~bad
    if not keep.any():
        raise InputError(
            f"table {where}", got="a missing value in every row", expected="at least one whole row"
        )
    return table.loc[keep, list(names)].astype(np.float64).reset_index(drop=True), keep


def check_present(table: pd.DataFrame, names: Sequence[str], where: str) -> None:
    """Refuse a table without one of the named columns, and name the one that may be meant."""
    missing = [name for name in names if name not in table.columns]
    if missing:
        close = _closest(missing[0], list(table.columns))
        raise InputError(
            f"table {where}",
            got=f"no column {missing[0]!r}" + (f" (and {len(missing) - 1} others)" if missing[1:] else ""),
            expected=f"the columns {', '.join(names)}",
            do=(f"did you mean {close!r}? " if close else "") + f"The table has {', '.join(table.columns)}",
        )


def _closest(name: str, names: Sequence[str]) -> str | None:
    import difflib

    lower = {candidate.lower(): candidate for candidate in names}
    found = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    return lower[found[0]] if found else None


def write_table(table: pd.DataFrame, path: str) -> None:
    """CSV to the standard output (``-``), or a CSV or Parquet file by its ending, replaced in one step."""
    if path == STREAM:
        table.to_csv(sys.stdout, index=False, lineterminator="\n")
        return
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(
            f"output {target}", got=f"no folder {target.parent}", expected="a folder that exists"
        )
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if target.suffix.lower() in (".parquet", ".pq"):
            _pyarrow()
            table.to_parquet(part, index=False)
        else:
            table.to_csv(part, index=False, lineterminator="\n")
        os.replace(part, target)
    except OSError as error:
        raise InputError(
            f"output {target}", got=error.strerror or str(error), expected="a path that can be written"
        ) from None
    finally:
        part.unlink(missing_ok=True)
