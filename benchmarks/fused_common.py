"""What the benchmarks of the fused layer share: alternating timings, layers to time, result files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.experiments.results import origin, write_csv
from dtmgp.grids import AbstractGrid, SparseGrid
from dtmgp.kernels import Laplace
from dtmgp.ops import LineFunctions, plans_of

RESULTS = Path(__file__).resolve().parents[1] / "experiments" / "results"


def medians(
    tasks: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Median seconds of each task; the tasks alternate, so that all see the same machine.

    The clock is CPU time of this process: with one thread it is the time on an idle machine, up to shared caches.
    """
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for round_ in range(repeats + 2):
        for name, task in tasks.items():
            task()  # its own caches and memory, not its predecessor's
            start = clock()
            task()
            if round_ >= 2:  # two rounds to warm up
                times[name].append(clock() - start)
    return {name: float(np.median(found)) for name, found in times.items()}


def save(name: str, rows: list[dict[str, object]], seed: int = 0) -> None:
    """Write the table to experiments/results and print it."""
    load = "/".join(f"{x:.2f}" for x in os.getloadavg())
    stated = origin(f"python benchmarks/{Path(sys.argv[0]).name}", seed) | {"load at end (1/5/15 min)": load}
    write_csv(RESULTS / f"bench_{name}.csv", rows, stated)
    for row in rows:
        print(
            "  ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()),
            flush=True,
        )


class Layer:
    """An expansion with inputs, weights and upstream gradients in float32."""

    def __init__(self, grid: AbstractGrid, lengthscale: float, width: int, batch: int) -> None:
        self.expansion = HierarchicalExpansion(Laplace(lengthscale), grid)
        (self.plan,) = plans_of(self.expansion)
        self.line = LineFunctions(self.expansion.blocks[0])
        generator = torch.Generator().manual_seed(0)
        self.x = torch.rand(batch, grid.dim, generator=generator)
        self.mean = torch.randn(self.plan.size, width, generator=generator)
        self.variance = torch.rand(self.plan.size, width, generator=generator)
        self.grads = tuple(torch.randn(batch, width, generator=generator) for _ in range(2))

    def leaves(self, *tensors: Tensor) -> list[Tensor]:
        """Copies that collect gradients."""
        return [t.clone().requires_grad_() for t in tensors]


def sparse_layer(dim: int, level: int, width: int, batch: int) -> Layer:
    """The layer of a sparse grid with the lengthscale of the paper's experiments."""
    return Layer(SparseGrid(dim, level), float(dim), width, batch)
