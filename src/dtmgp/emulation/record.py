"""All runs of a campaign as a table, in memory and as a Parquet or CSV file."""

from __future__ import annotations

import csv
import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from dtmgp.emulation.runs import Outcome, Purpose, Run
from dtmgp.errors import InputError

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class RunTable:
    """Runs and outcomes, one row per attempt, in the order of their numbers whatever order they finished in.

    >>> table = RunTable(("a",), "y", [Run(0, (0.5,), seed=1)], {(0, 0): Outcome(0, 0, y=2.0)})
    >>> table.columns()["y"], table.usable()
    ([2.0], (array([[0.5]]), array([2.])))
    """

    names: tuple[str, ...]
    output: str
    runs: Sequence[Run]
    outcomes: Mapping[tuple[int, int], Outcome]

    def __len__(self) -> int:
        return len(self.runs)

    def usable(self, purpose: Purpose = Purpose.DESIGN) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """Inputs and outputs of the runs that have one."""
        found = [
            (run.x, outcome.y)
            for run in self._sorted()
            if run.purpose is purpose and (outcome := self.outcomes.get(run.key)) and outcome.y is not None
        ]
        x = np.array([x for x, _ in found], dtype=np.float64).reshape(len(found), len(self.names))
        return x, np.array([y for _, y in found], dtype=np.float64)

    def columns(self) -> dict[str, list[Any]]:
        """Every column as a list; missing outputs, errors and times are None."""
        runs = self._sorted()
        told = [self.outcomes.get(run.key) for run in runs]
        inputs = {name: [run.x[j] for run in runs] for j, name in enumerate(self.names)}
        return {
            "run": [run.number for run in runs],
            "attempt": [run.attempt for run in runs],
            "round": [run.round for run in runs],
            "purpose": [run.purpose.value for run in runs],
            **inputs,
            self.output: [outcome.y if outcome else None for outcome in told],
            "error": [outcome.error if outcome else None for outcome in told],
            "seconds": [outcome.seconds if outcome else None for outcome in told],
            "seed": [run.seed for run in runs],
        }

    def frame(self) -> Any:
        """As a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write a Parquet file (extra ``tables``), or CSV if the name ends in .csv; in one step."""
        target = Path(path)
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            if target.suffix == ".csv":
                self._write_csv(part)
            else:
                self._write_parquet(part)
            os.replace(part, target)
        except OSError as error:
            raise InputError(
                f"{target}", got=error.strerror or str(error), expected="a path that can be written"
            ) from None
        finally:
            part.unlink(missing_ok=True)
        return target

    def _write_parquet(self, path: Path) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ModuleNotFoundError:
            raise InputError(
                "Parquet",
                got="no pyarrow",
                expected="pyarrow",
                do="pip install 'dtmgp[tables]', or write .csv",
            ) from None
        columns = self.columns()
        texts = {"purpose": pa.string(), "error": pa.string()}
        whole = dict.fromkeys(("run", "attempt", "round", "seed"), pa.int64())
        types = {name: texts.get(name, whole.get(name, pa.float64())) for name in columns}
        pq.write_table(
            pa.table({name: pa.array(values, types[name]) for name, values in columns.items()}), path
        )

    def _write_csv(self, path: Path) -> None:
        columns = self.columns()
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*columns.values()))

    def _sorted(self) -> list[Run]:
        return sorted(self.runs, key=lambda run: run.key)
