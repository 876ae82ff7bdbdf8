"""Strong and weak scaling of the training step from one process to two, and what a step is made of.

Both processes are started once; then the variants alternate: one process alone, while the other sleeps, and both. All
see the same machine. Wall-clock times need two free cores; CPU times show what is left on a busy machine.

python benchmarks/distributed_scaling.py [--repeats 7] [--seconds 0.6]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist
from fused_common import save
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dtmgp.inference import AbstractObjective, Batch, Predictive, Runs, reduction
from dtmgp.inference.distributed import Interrupts, Processes, join
from dtmgp.inference.objectives import noise_of
from dtmgp.inference.reduction import sum_gradients
from dtmgp.inference.trainer import (
    Settings,
    Training,
    gradient_norm,
    gradients_of,
    optimiser_of,
    step,
)
from dtmgp.likelihoods import GaussianLikelihood
from dtmgp.model import DTMGP, deep_model


class Case(NamedTuple):
    """A model and a batch."""

    name: str
    dim: int
    widths: tuple[int, ...]
    levels: tuple[int, ...]
    batch: int
    samples: int


CASES = (
    Case("two layers, batch 1000", 13, (13,), (3, 3), 1000, 8),
    Case("two layers, batch 8000", 13, (13,), (3, 3), 8000, 8),
    Case("two layers, batch 16000", 13, (13,), (3, 3), 16_000, 8),
)
TABLE = (1_000_000, 4, 35_000)  # rows, columns, and rows that a batch touches, as in docs/fused.md


class Work:
    """A model and its data in one process, and steps of every variant."""

    def __init__(self, case: Case, processes: Processes) -> None:
        self.case, self.processes = case, processes
        generator = torch.Generator().manual_seed(0)
        self.model: DTMGP = deep_model(
            case.dim, GaussianLikelihood(), hidden_widths=case.widths, levels=case.levels, generator=generator
        )
        x = torch.rand(4 * case.batch, case.dim, generator=generator)
        y = torch.sin(5 * x[:, :1]) + 0.1 * torch.randn(len(x), 1, generator=generator)
        self.runs = Runs(x, y, torch.arange(len(x) + 1))
        self.objective: AbstractObjective = Predictive(case.samples)
        self.settings = Settings(batch_size=case.batch)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.state = Training(
            self.model, optimiser_of(self.parameters, self.settings), torch.Generator().manual_seed(1)
        )
        self.interrupts = Interrupts(processes)

    def batch(self, inputs: int, processes: Processes) -> Batch:
        """This process's part of a global batch."""
        return self.runs.shared(torch.arange(inputs), processes.share)

    def whole_step(self, inputs: int, processes: Processes) -> Callable[[], object]:
        """What the training loop does with a global batch of so many inputs."""
        batch = self.batch(inputs, processes)

        def run() -> None:
            self.state.optimiser.zero_grad(set_to_none=True)
            gradients_of(self.state, self.objective, batch, 1.0, processes, self.interrupts)
            norm = gradient_norm(self.parameters)
            step(self.state.optimiser, self.parameters, norm, self.settings)

        return run

    def without_data(self) -> Callable[[], object]:
        """The part of a step that does not depend on the batch: KL term, norm, Adam."""

        def run() -> None:
            self.state.optimiser.zero_grad(set_to_none=True)
            (self.model.kl() / 1e6).backward()
            norm = gradient_norm(self.parameters)
            step(self.state.optimiser, self.parameters, norm, self.settings)

        return run

    def noise(self, inputs: int, seed: int | None = None) -> Callable[[], object]:
        """The draws of a global batch, which every process makes; with a seed in blocks, as each makes its own."""
        whole = self.batch(inputs, Processes())._replace(noise_seed=seed)
        return lambda: noise_of(self.model, self.case.samples, whole, self.state.generator)

    def reduction(self) -> Callable[[], object]:
        """The sums over processes alone, of gradients that are there."""
        self.whole_step(self.case.batch, Processes())()

        def run() -> None:
            sum_gradients(self.processes, self.parameters, [0.0, 0.0])

        return run

    def data_parallel_step(self, inputs: int) -> Callable[[], object]:
        """The same step by torch's DistributedDataParallel: all gradients as one or more buckets."""
        batch = self.batch(inputs, self.processes)
        loss = _Loss(self.model, self.objective, self.state.generator)
        # processes hold a mean: what DistributedDataParallel makes of it is the loss of the global batch
        wrapped = DistributedDataParallel(loss, find_unused_parameters=False)

        def run() -> None:
            self.state.optimiser.zero_grad(set_to_none=True)
            wrapped(batch).backward()
            norm = gradient_norm(self.parameters)
            step(self.state.optimiser, self.parameters, norm, self.settings)

        return run


class _Loss(nn.Module):
    """An objective as a module, which DistributedDataParallel needs."""

    def __init__(self, model: DTMGP, objective: AbstractObjective, generator: torch.Generator) -> None:
        super().__init__()
        self.model, self.objective, self.generator = model, objective, generator

    def forward(self, batch: Batch) -> torch.Tensor:
        """The loss of this process's part."""
        return self.objective(self.model, batch, self.generator).value


class Clocks(NamedTuple):
    """Seconds per step: on the wall, and of this process's CPU."""

    wall: float
    cpu: float


def timed(run: Callable[[], object], count: int) -> Clocks:
    """Mean of so many steps."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        run()
    return Clocks((time.perf_counter() - wall) / count, (time.process_time() - cpu) / count)


def measure(case: Case, processes: Processes, repeats: int, seconds: float) -> dict[str, list[Clocks]]:
    """Alternating rounds of all variants; those alone run in the first process while the second waits."""
    work, alone = Work(case, processes), Processes()
    size = case.batch
    tasks: dict[str, tuple[bool, Callable[[], object]]] = {
        "one": (False, work.whole_step(size, alone)),
        "two, same batch": (True, work.whole_step(size, processes)),
        "two, twice the batch": (True, work.whole_step(2 * size, processes)),
        "two, DistributedDataParallel": (True, work.data_parallel_step(size)),
        "sums": (True, work.reduction()),
        "without data": (False, work.without_data()),
        "noise": (False, work.noise(size)),
        "noise in blocks": (False, work.noise(size, 1)),
    }
    found: dict[str, list[Clocks]] = {name: [] for name in tasks}
    counts = dict.fromkeys(tasks, 3)
    for round_ in range(repeats + 1):
        for name, (together, run) in tasks.items():
            dist.barrier()
            if together or processes.first:
                clocks = timed(run, counts[name])
                if round_:
                    found[name].append(clocks)
                counts[name] = max(3, int(seconds / max(clocks.wall, 1e-5)))
            counts = processes.once(lambda own=counts: own)  # type: ignore[misc]
    return found


def table_sums(processes: Processes, repeats: int) -> list[dict[str, object]]:
    """A table's gradient, summed whole and by its touched rows."""
    size, width, touched = TABLE
    table = nn.Parameter(torch.zeros(size, width))
    generator = torch.Generator().manual_seed(processes.rank)
    rows = torch.randperm(size, generator=generator)[:touched]
    start = torch.zeros(size, width)
    start[rows] = torch.randn(touched, width, generator=generator)
    found: dict[str, list[Clocks]] = {"table, whole": [], "table, by rows": []}
    bytes_received: dict[str, float] = {}

    def run(name: str) -> None:
        bytes_received[name] = sum(sum_gradients(processes, [table])[1])

    for _ in range(repeats + 1):
        for name, clocks in found.items():
            table.grad = start.clone()
            own, reduction.SPARSE_FROM = (
                reduction.SPARSE_FROM,
                1 if name.endswith("rows") else size * width + 1,
            )
            dist.barrier()
            clocks.append(timed(partial(run, name), 1))
            reduction.SPARSE_FROM = own
    every = processes.gather({name: clocks[1:] for name, clocks in found.items()})
    return [
        {
            "case": f"{size:,} x {width}, {touched:,} rows touched",
            "d": None,
            "parameters": size * width,
            "batch": None,
            "variant": name,
            "wall ms": statistics.median(max(c.wall for c in both) for both in zip(*[e[name] for e in every]))
            * 1e3,
            "cpu ms": statistics.median(max(c.cpu for c in both) for both in zip(*[e[name] for e in every]))
            * 1e3,
            "speed-up by wall": None,
            "speed-up by cpu": None,
            "bytes of gradients": int(bytes_received[name]),
            "load": round(os.getloadavg()[0], 1),
        }
        for name in found
    ]


def rows_of(
    case: Case, every: list[dict[str, list[Clocks]]], processes: Processes
) -> list[dict[str, object]]:
    """Medians of a case. A round counts with the slower of the processes."""
    work = Work(case, processes)
    size = sum(p.numel() for p in work.parameters)
    first = every[0]

    def median(name: str, clock: int) -> float:
        rounds = zip(*[part[name] for part in every if part[name]])
        return statistics.median(max(clocks[clock] for clocks in round_) for round_ in rounds)

    rows = []
    for name in first:
        ratios = {}
        for clock, unit in enumerate(("wall", "cpu")):
            grown = 2.0 if name == "two, twice the batch" else 1.0
            one = [c[clock] for c in first["one"]]
            two = [max(part[name][k][clock] for part in every if part[name]) for k in range(len(one))]
            ratios[unit] = statistics.median(grown * a / b for a, b in zip(one, two))
        speed = name.startswith("two")
        rows.append(
            {
                "case": case.name,
                "d": case.dim,
                "parameters": size,
                "batch": case.batch,
                "variant": name,
                "wall ms": median(name, 0) * 1e3,
                "cpu ms": median(name, 1) * 1e3,
                "speed-up by wall": ratios["wall"] if speed else None,
                "speed-up by cpu": ratios["cpu"] if speed else None,
                "bytes of gradients": 4 * size,
                "load": round(os.getloadavg()[0], 1),
            }
        )
    return rows


def main(repeats: int = 7, seconds: float = 0.6) -> None:
    """Start two processes, or be one of them."""
    if "RANK" not in os.environ:
        sys.exit(
            subprocess.run(
                [
                    *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
                    *("--local-addr", "127.0.0.1", "--nproc-per-node", "2", *sys.argv),
                ],
                env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
            ).returncode
        )
    torch.set_num_threads(1)
    processes, rows = join(), []
    for case in CASES:
        every = processes.gather(measure(case, processes, repeats, seconds))
        if processes.first:
            rows += rows_of(case, every, processes)
    more = table_sums(processes, 3 * repeats)
    if processes.first:
        save("distributed_scaling", rows + more)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeats", type=int, default=7)
    options.add_argument("--seconds", type=float, default=0.6, help="of a variant in a round")
    given = options.parse_args()
    main(given.repeats, given.seconds)
