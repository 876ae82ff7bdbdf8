"""Rows of a Parquet file or folder: only the columns that are asked for, row group by row group."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dtmgp.errors import InputError
from dtmgp.streams.base import BLOCK, AbstractRows, Block, Streaming, as_targets, without_missing
from dtmgp.streams.columns import arrow_values, check_kind, check_names

BUFFERED = 1 << 16  # bytes of a column that are read ahead within a row group


class ParquetRows(AbstractRows):
    """A Parquet file or a folder of them, through pyarrow; ``a=1/part.parquet`` gives its rows the column a.

    Parameters
    ----------
    path: file or folder; files whose names begin with ``_`` or ``.`` are left alone.
    target: output column, or a list of them.
    inputs: input columns. None: all others, which then must be the same in all files.
    drop_missing: leave rows with a missing or infinite value out, instead of refusing them.
    streaming: buffer, sample and lanes, see `Streaming`.
    filesystem: of `pyarrow.fs`, for paths that are not on this machine.

    >>> import pyarrow, pyarrow.parquet, tempfile
    >>> path = tempfile.mkdtemp() + "/runs.parquet"
    >>> pyarrow.parquet.write_table(pyarrow.table({"a": [0.0, 1.0], "b": [1, 2], "y": [3.0, 4.0]}), path)
    >>> ParquetRows(path, target="y")
    ParquetRows(a, b -> y; 1 row groups)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str | Sequence[str],
        inputs: Sequence[str] | None = None,
        *,
        drop_missing: bool = False,
        streaming: Streaming | None = None,
        filesystem: Any = None,
    ) -> None:
        self.path, self.drop_missing, self.filesystem = os.fspath(path), drop_missing, filesystem
        self.streaming = Streaming() if streaming is None else streaming
        self.targets, self.flat = as_targets(target)
        self.named = True
        fragments, columns = _open(self.path, filesystem, inputs)
        self.names = check_names(f"table {self.path}", columns, self.targets, inputs)
        self._schema = _check_files(self.path, fragments, [*self.names, *self.targets], inputs is None)
        self._parts: list[tuple[Any, str]] = []
        self.rows = 0
        for fragment in fragments:
            parts = fragment.split_by_row_group()
            name = os.path.relpath(fragment.path, self.path) if len(fragments) > 1 else fragment.path
            for number, part in enumerate(parts):
                self._parts.append((part, f"row group {number} of {name}"))
                self.rows += part.row_groups[0].num_rows
        if not self.rows:
            raise InputError(f"table {self.path}", got="no rows", expected="at least one row")

    @property
    def row_groups(self) -> int:
        """Of all files."""
        return len(self._parts)

    def blocks(self, row_group: int) -> Iterator[Block]:
        """A row group in blocks, with one thread and without reading ahead: the stream has a thread of its own."""
        import pyarrow.dataset as ds

        part, where = self._parts[row_group]
        options = ds.ParquetFragmentScanOptions(
            use_buffered_stream=True, buffer_size=BUFFERED, pre_buffer=False
        )
        batches = part.to_batches(
            schema=self._schema,
            columns=[*self.names, *self.targets],
            batch_size=BLOCK,
            batch_readahead=1,
            fragment_readahead=1,
            fragment_scan_options=options,
            use_threads=False,
        )
        begin = 0
        for batch in batches:
            block = Block(
                arrow_values(batch, self.names),
                arrow_values(batch, self.targets),
                np.arange(begin, begin + batch.num_rows),
                where,
            )
            begin += batch.num_rows
            yield without_missing(block) if self.drop_missing else block


def _arrow_dataset() -> Any:
    try:
        import pyarrow.dataset as ds
    except ModuleNotFoundError:
        raise InputError(
            "Parquet", got="no pyarrow", expected="pyarrow", do="pip install 'dtmgp[tables]'"
        ) from None
    return ds


def _open(path: str, filesystem: Any, inputs: Sequence[str] | None) -> tuple[list[Any], list[str]]:
    """Files in the order of their names, and the columns of the first one with those of the folders' names."""
    ds = _arrow_dataset()
    if filesystem is None and not Path(path).exists():
        raise InputError(
            f"table {path}", got="no such file or folder", expected="Parquet", do="check the path"
        )
    try:
        dataset = ds.dataset(path, format="parquet", partitioning="hive", filesystem=filesystem)
        fragments = sorted(dataset.get_fragments(), key=lambda fragment: fragment.path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if not fragments:
        raise InputError(
            f"folder {path}",
            got="no Parquet file in it",
            expected="at least one",
            cause="another folder, or files whose names begin with _ or .",
        )
    return fragments, list(dataset.schema.names)


def _unreadable(path: str, error: Exception) -> InputError:
    return InputError(
        f"table {path}",
        got=" ".join(str(error).split())[:160],
        expected="complete Parquet files only",
        cause="a truncated copy, or other files in the folder",
    )


def _check_files(path: str, fragments: Sequence[Any], names: Sequence[str], every: bool) -> Any:
    """The schema to read with; each file must have the columns, as numbers, and no others if all are inputs."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    kinds: dict[str, Any] = {}
    first: set[str] = set()
    for number, fragment in enumerate(fragments):
        try:
            schema = fragment.physical_schema
            fragment.ensure_complete_metadata()
        except (OSError, ValueError) as error:
            raise _unreadable(fragment.path, error) from None
        folders = ds.get_partition_keys(fragment.partition_expression)
        own = {*schema.names, *folders}
        if number == 0:
            first = own
        missing = [name for name in names if name not in own]
        extra = sorted(own ^ first) if every and not missing else []
        if missing or extra:
            name = (missing or extra)[0]
            has = "no column" if missing or name not in own else "the column"
            raise InputError(
                f"file {fragment.path}",
                got=f"{has} {name!r}",
                expected=f"the columns of {fragments[0].path}",
                cause="files with different schemas in one folder",
                do="choose columns that all files have: inputs=[...] (--inputs a,b), or use another folder",
            )
        for name in names:
            if name in schema.names:
                kind = schema.field(name).type
                check_kind(f"file {fragment.path}", name, kind)
            else:
                kind = pa.scalar(folders[name]).type
                check_kind(f"folders of {path}", name, kind)
            if kinds.setdefault(name, kind) != kind:
                kinds[name] = pa.float64()  # numbers of different kinds
    return pa.schema([pa.field(name, kinds[name]) for name in names])
