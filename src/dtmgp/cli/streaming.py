"""`dtmgp fit` for a Parquet folder, or a file with --stream: rows are read piece by piece, not loaded."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dtmgp.cli.console import emit, say
from dtmgp.cli.tables import PARQUET_MAGIC, STREAM
from dtmgp.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from dtmgp.streams import ParquetRows


def rows_of(
    data: str, targets: list[str], inputs: list[str] | None, *, stream: bool, drop_missing: bool
) -> ParquetRows | None:
    """The rows of a folder, or of a file that is to be streamed; None for a table that is to be loaded."""
    folder = data != STREAM and Path(data).is_dir()
    if not stream and not folder:
        return None
    if data == STREAM:
        raise InputError(
            "--stream", got="the standard input", expected="a Parquet file or folder, read twice or more"
        )
    if not folder and Path(data).is_file():
        with Path(data).open("rb") as file:
            if file.read(4) != PARQUET_MAGIC:
                raise InputError(
                    f"table {data} with --stream",
                    got="a file that is no Parquet",
                    expected="a Parquet file, or a folder of them",
                    do="convert it, or leave --stream out if it fits into memory",
                )
    from dtmgp.streams import ParquetRows

    target = targets[0] if len(targets) == 1 else targets
    return ParquetRows(data, target, inputs, drop_missing=drop_missing)


def loaded(rows: ParquetRows) -> pd.DataFrame:
    """All rows as a table; for as few as a fit takes into memory anyhow."""
    import pandas as pd

    from dtmgp.streams.base import check_finite

    blocks = [block for k in range(rows.row_groups) for block in rows.blocks(k)]
    for block in blocks:
        check_finite(block, rows.names, rows.targets)
    x, y = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("x", "y"))
    return pd.DataFrame(np.hstack([x, y]), columns=[*rows.names, *rows.targets])


def fit_streamed(
    rows: ParquetRows,
    estimator: Any,
    path: Path,
    *,
    held_out: float,
    test: str | None,
    seed: int,
    as_json: bool,
    first: bool = True,
) -> None:
    """Fit, print the scores beside trivial models, save; of several processes the first one prints and saves."""
    from dtmgp.cli.tables import numeric_columns, read_table
    from dtmgp.emulation.assessment import assess

    names, targets = list(rows.names), list(rows.targets)
    if not hasattr(estimator, "validation_fraction"):
        raise InputError(
            "--model", got=type(estimator).__name__, expected="the deep model", cause="rows that are streamed"
        )
    fresh = None
    if test is not None:  # before work starts
        fresh, _ = numeric_columns(read_table(test), [*names, *targets], test, drop_missing=rows.drop_missing)
    estimator.set_params(validation_fraction=held_out)
    if not as_json:
        say(f"{rows.path}: {rows.rows:,} rows in {rows.row_groups:,} row groups, streamed")
        say(f"inputs: {', '.join(names)}; output: {', '.join(targets)}")
    begun = time.perf_counter()
    model = estimator.fit(rows)
    seconds, found = round(time.perf_counter() - begun, 2), model.stream_
    few = found.start
    if not first:
        return
    if fresh is not None:
        x_test, y_test = fresh[names].to_numpy(), fresh[targets].to_numpy()
    elif found.held_out is not None:
        x_test, y_test = found.held_out.every, found.held_out.y
    else:
        x_test, y_test = np.empty((0, len(names))), np.empty((0, len(targets)))
    reports: dict[str, Any] = {}
    for k, name in enumerate(targets if len(x_test) >= 2 else []):
        reports[name] = assess(
            model,
            x_test,
            y_test[:, 0] if len(targets) == 1 else y_test,
            few.every,
            few.y[:, k],
            output=k if len(targets) > 1 else None,
            random_state=seed,
        )
    model.save(path)
    if as_json:
        emit(
            {
                "table": rows.path,
                "rows": found.rows,
                "row_groups": rows.row_groups,
                "inputs": names,
                "targets": targets,
                "groups_of_equal_inputs": found.inputs,
                "sorted": found.is_sorted,
                "scattered_replicates": found.scattered,
                "start_rows": len(few.y),
                "learn_rows": int(found.learn_rows.sum()),
                "test_rows": len(x_test),
                "test": test,
                "seed": seed,
                "model": type(model).__name__,
                "seconds": seconds,
                "held_out": {name: report.to_dict() for name, report in reports.items()},
                "out": str(path),
                "bytes": path.stat().st_size,
            }
        )
        return
    say(f"rows: {found}")
    say(f"model: {type(model).__name__}, fitted in {seconds:g} s")
    say(model.summary())
    which = (
        f"rows of {test}"
        if test
        else "held-out rows, which also chose the epoch; trivial models from the sample"
    )
    for name, report in reports.items():
        say(f"\n{name}, {which}:\n{report}\n")
    say(f"saved: {path} ({max(1, round(path.stat().st_size / 1000))} kB)")
