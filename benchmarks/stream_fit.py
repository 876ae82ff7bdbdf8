"""Rows that do not fit into memory: does streaming keep up with the training step, and does memory stay flat?

    python benchmarks/stream_fit.py [--rows 2000000 20000000] [--buffers 19 17 21] [--batch 8000] [--fit] [--data DIR]

Writes Parquet folders of 13 random inputs and one output (float64, row groups of 131,072 rows, files of 2,000,000)
under the system's folder for temporary files, and deletes them. Every line of the table is a fresh process with one
thread for numbers, besides the one that reads. Rates are rows per CPU second (both threads), since other work shares
the machine; seconds by the clock stand beside them.

- *survey*: the pass before a fit. *stream*: an epoch that is read, shuffled and made into batches, and no more.
- *step*: the training step of the default model (13 inputs, one hidden layer as wide, Predictive with 8 draws) on
  batches that lie in memory, through `dtmgp.inference.trainer.train`.
- *both*: an epoch of training from the stream, for the smallest number of rows.
- ``--fit``: instead of all this, whole fits (survey, start, one epoch, held-out score), in a table of their own.
- *peak*: the largest resident memory of the process after the epoch of reading, and after training on (at least) the
  first 12 batches of the stream; *before*: when the first row was yet to be read.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from common import peak_gigabytes

from dtmgp import DTMGPRegressor
from dtmgp.estimators.deep_checks import resolve
from dtmgp.estimators.deep_fit import build
from dtmgp.experiments.results import origin, write_csv
from dtmgp.inference import Batch
from dtmgp.inference.trainer import Settings, train
from dtmgp.likelihoods import MixtureOfNormals
from dtmgp.streams import ParquetRows, Streaming, survey
from dtmgp.streams.epochs import RunStream

OUT = Path(__file__).resolve().parents[1] / "experiments" / "results" / "bench_stream_fit.csv"
DIM, FILE, ROW_GROUP = 13, 2_000_000, 1 << 17
LANES = 8  # what large data have by default, also for small ones
NAMES = [f"x{k}" for k in range(DIM)]


def generate(folder: Path, rows: int) -> None:
    """Random inputs, a smooth mean, skewed noise whose size depends on an input."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number, first in enumerate(range(0, rows, FILE)):
        path = folder / f"part-{number:04d}.parquet"
        schema = pa.schema([(name, pa.float64()) for name in [*NAMES, "y"]])
        with pq.ParquetWriter(path, schema, use_dictionary=False) as file:
            for begin in range(first, min(first + FILE, rows), ROW_GROUP):
                count = min(ROW_GROUP, first + FILE - begin, rows - begin)
                x = rng.uniform(size=(DIM, count))
                y = np.sin(5 * x[0]) + x[1] * x[2] - x[3] + (0.1 + 0.2 * x[4]) * rng.gumbel(size=count)
                file.write_table(pa.table([*x, y], schema=schema), row_group_size=ROW_GROUP)


class Given:
    """Batches that lie in memory, or the first ones of a stream, as a source."""

    def __init__(self, batches: list[Batch], total: int, stream: RunStream | None = None) -> None:
        self.given, self.total, self.stream = batches, total, stream
        self.inputs = sum(len(batch.x) for batch in batches)

    def steps(self, size: int) -> int:
        """As many as there are."""
        return len(self.given)

    def batches(
        self, size: int, generator: torch.Generator | None = None, share: tuple[int, int] = (0, 1)
    ) -> Iterator[Batch]:
        """The same ones in every pass, or as many of the stream."""
        if self.stream is None:
            return iter(self.given)
        return itertools.islice(self.stream.batches(size, generator, share), len(self.given))

    def fingerprint(self) -> tuple[bytes]:
        """Not compared here."""
        return (b"",)


class Clock:
    """Seconds by the clock and of the CPU since it was made."""

    def __init__(self) -> None:
        self.begun = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Both."""
        return time.perf_counter() - self.begun[0], time.process_time() - self.begun[1]


def measure(folder: Path, buffer: int, batch: int, both: bool) -> dict[str, float | None]:
    """One line of the table, in this process."""
    before = peak_gigabytes()
    clock = Clock()
    rows = ParquetRows(folder, "y", streaming=Streaming(buffer=buffer, lanes=LANES))
    found = survey(rows)
    survey_time = clock.read()
    scale = lambda x: (x - found.low) / (found.high - found.low)  # noqa: E731
    stream = RunStream(rows, found, scale)
    clock = Clock()
    count, kept = 0, []
    for part in stream.batches(batch, torch.Generator().manual_seed(0)):
        count += len(part.x)
        if len(kept) < 12:
            kept.append(part)
    stream_time = clock.read()
    assert count == stream.inputs
    line: dict[str, float | None] = {
        "rows": found.rows,
        "row_groups": rows.row_groups,
        "lanes": stream.lanes,
        "buffer_rows": buffer,
        "batch": batch,
        "survey_rows_per_cpu_s": round(found.rows / survey_time[1]),
        "survey_seconds": round(survey_time[0], 2),
        "stream_rows_per_cpu_s": round(count / stream_time[1]),
        "stream_seconds": round(stream_time[0], 2),
        "memory_before_mb": round(1000 * before),
        "peak_stream_mb": round(1000 * peak_gigabytes()),
    }
    est = DTMGPRegressor()
    plan = resolve(est, MixtureOfNormals(1), 0)
    model, _ = build(plan, DIM, (DIM,), 20_000)
    settings = Settings(1, batch, 0.002)
    generator = torch.Generator().manual_seed(0)
    times = []
    for repeat in range(4):  # the first one compiles
        clock = Clock()
        train(model, Given(kept, stream.total), plan.objective, settings, generator=generator)
        if repeat:
            times.append(clock.read()[1])
    rate = sum(len(part.x) for part in kept) / float(np.median(times))
    line |= {
        "step_rows_per_cpu_s": round(rate),
        "stream_over_step": round(rate / (count / stream_time[1]), 4),
    }
    train(model, Given(kept, stream.total, stream), plan.objective, settings, generator=generator)
    line |= {
        "peak_training_mb": round(1000 * peak_gigabytes()),
        "both_rows_per_cpu_s": None,
        "both_seconds": None,
    }
    if both:
        clock = Clock()
        train(model, stream, plan.objective, settings, generator=generator)
        taken = clock.read()
        line |= {
            "both_rows_per_cpu_s": round(count / taken[1]),
            "both_seconds": round(taken[0], 1),
            "peak_training_mb": round(1000 * peak_gigabytes()),
        }
    return line


def fit(folder: Path, buffer: int, batch: int) -> dict[str, float | None]:
    """A whole fit: survey, start from the sample, one epoch over everything."""
    logging.basicConfig(level=logging.INFO)
    before = peak_gigabytes()
    clock = Clock()
    rows = ParquetRows(folder, "y", streaming=Streaming(buffer=buffer))
    model = DTMGPRegressor(max_epochs=1, batch_size=batch).fit(rows)
    taken = clock.read()
    return {
        "rows": model.stream_.rows,
        "buffer_rows": buffer,
        "batch": batch,
        "memory_before_mb": round(1000 * before),
        "peak_training_mb": round(1000 * peak_gigabytes()),
        "both_seconds": round(taken[0], 1),
        "fit_cpu_seconds": round(taken[1], 1),
        "held_out_score": round(model.trace_[-1].validation, 4),
    }


@dataclasses.dataclass
class Runner:
    """Fresh processes, one after the other; the table is rewritten after each."""

    out: Path
    stated: str
    lines: list[dict[str, object]] = dataclasses.field(default_factory=list)

    def add(self, kind: str, *arguments: object) -> None:
        """Run one and keep its line."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--worker", kind, *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
        found = json.loads(done.stdout.splitlines()[-1])
        self.lines.append({name: found.get(name) for name in (self.lines[0] if self.lines else found)})
        print(json.dumps(found), flush=True)
        write_csv(self.out, self.lines, origin(self.stated, 0))  # type: ignore[arg-type]


def main(
    rows: tuple[int, ...] = (200_000,),
    buffers: tuple[int, ...] = (19,),
    batch: int = 8000,
    whole_fit: bool = False,
    data: Path | None = None,
) -> None:
    """All numbers of rows and buffers."""
    options = f"--rows {' '.join(map(str, rows))} --buffers {' '.join(map(str, buffers))} --batch {batch}"
    stated = f"python benchmarks/stream_fit.py {options}{' --fit' if whole_fit else ''}"
    runner = Runner(OUT.with_name("bench_stream_whole_fit.csv") if whole_fit else OUT, stated)
    top = Path(tempfile.mkdtemp(prefix="dtmgp-stream-")) if data is None else data
    try:
        for count in sorted(rows):
            need, free = count * (DIM + 1) * 8 * 1.1, shutil.disk_usage(top).free
            if need > 0.5 * free:
                raise SystemExit(
                    f"{count} rows need {need / 1e9:.1f} GB of {free / 1e9:.1f} GB that are free"
                )
            folder = top / str(count)
            if not folder.exists():
                generate(folder, count)
            size = sum(path.stat().st_size for path in folder.iterdir())
            print(f"{count:,} rows: {size / 1e9:.2f} GB", flush=True)
            if whole_fit:
                runner.add("fit", folder, 1 << buffers[0], batch)
            else:
                for power in buffers if count == max(rows) else buffers[:1]:
                    small = count == min(rows)
                    runner.add("stream", folder, 1 << power, batch, int(small))
    finally:
        if data is None:
            shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="*", type=int, default=[200_000])
    parser.add_argument("--buffers", nargs="*", type=int, default=[19], help="powers of 2")
    parser.add_argument("--batch", type=int, default=8000)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--data", type=Path, help="keep the folders here, and use those that are here")
    parser.add_argument("--worker", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        kind, path, *numbers = options.worker
        torch.set_num_threads(1)
        action = fit if kind == "fit" else measure
        print(json.dumps(action(Path(path), *map(int, numbers))))  # type: ignore[operator]
    else:
        main(tuple(options.rows), tuple(options.buffers), options.batch, options.fit, options.data)
