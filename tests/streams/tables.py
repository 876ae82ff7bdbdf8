"""Data of the tests of streams: small tables, written in small row groups."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def table(rows: int = 1000, replicates: int = 1, dim: int = 3, seed: int = 0) -> dict[str, np.ndarray]:
    """Columns x0, x1, ... and y; with replicates, unequal numbers of adjacent ones."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(rows, dim)) * [1.0, 10.0, 100.0][:dim]
    if replicates > 1:
        x = x.repeat(rng.integers(1, 2 * replicates, rows), axis=0)[:rows]
    columns = {f"x{k}": x[:, k] for k in range(dim)}
    return {**columns, "y": np.sin(5 * x[:, 0]) + 0.1 * rng.normal(size=len(x))}


def write(folder: Path, columns: dict[str, np.ndarray], files: int = 3, rows: int = 64) -> Path:
    """A folder of Parquet files with row groups of so many rows."""
    folder.mkdir(exist_ok=True)
    whole = pa.table(columns)
    ends = np.linspace(0, whole.num_rows, files + 1).astype(int)
    for k, (begin, end) in enumerate(itertools.pairwise(ends)):
        pq.write_table(whole.slice(begin, end - begin), folder / f"part-{k}.parquet", row_group_size=rows)
    return folder


def arrays(columns: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, d) and outputs (n,)."""
    return np.stack([c for name, c in columns.items() if name != "y"], axis=1), columns["y"]
