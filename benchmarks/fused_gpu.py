"""The plain torch ways on a GPU: forward and backward of mean and variance from the inputs on, float32.

Which way is fastest, and which one does `path_for` take? Needs a CUDA device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import torch
from fused_common import save

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.kernels import Laplace, Matern32
from dtmgp.ops import LineFunctions, contract_quadratic, path_for, plans_of
from dtmgp.ops.contraction import contract
from dtmgp.ops.dense import contract_dense

LAYERS = [
    (Laplace, 13, 3, 10),
    (Matern32, 13, 3, 10),
    (Matern32, 64, 3, 2),
    (Laplace, 2, 8, 8),
    (Laplace, 3, 10, 4),
    (Laplace, 100, 2, 256),
    (Laplace, 512, 2, 4096),
]
MOST = 2e9  # entries of the largest tensor of a way that is still timed


def milliseconds(task: Callable[[], object]) -> float:
    """Of one call, by events on the device."""
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    task()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop)


def main(batches: tuple[int, ...] = (1000, 16_000), repeats: int = 15) -> None:
    device = torch.device("cuda")
    rows: list[dict[str, object]] = []
    for kernel, dim, level, width in LAYERS:
        expansion = HierarchicalExpansion(kernel(float(dim)), SparseGrid(dim, level))
        (plan,), line = plans_of(expansion), LineFunctions(expansion.blocks[0])
        for batch in batches:
            generator = torch.Generator(device).manual_seed(0)
            shapes = (batch, dim), (plan.size, width), (plan.size, width)
            leaves = [
                torch.rand(shape, generator=generator, device=device).requires_grad_() for shape in shapes
            ]
            grads = tuple(torch.rand(batch, width, generator=generator, device=device) for _ in range(2))
            entries = {contract: batch * plan.active * width, contract_dense: batch * plan.size}
            if plan.quadratic is not None:
                entries[contract_quadratic] = batch * plan.quadratic.paired * min(width, 64)
            ways = [way for way, count in entries.items() if count < MOST]

            def step(way, plan=plan, line=line, leaves=leaves, grads=grads):
                torch.autograd.grad(way(plan, *line(leaves[0]), *leaves[1:]), leaves, grads)

            tasks: dict[str, Callable[[], object]] = {
                way.__name__: (lambda way=way, step=step: step(way)) for way in ways
            }
            tasks["features only"] = lambda line=line, leaves=leaves: line(leaves[0])
            times: dict[str, list[float]] = {name: [] for name in tasks}
            for turn in range(repeats + 3):
                for name, task in tasks.items():
                    spent = milliseconds(task)
                    if turn >= 3:
                        times[name].append(spent)
            found = {name: float(np.median(spent)) for name, spent in times.items()}
            chosen = path_for(plan, batch, width, device).__name__
            best = min(found[way.__name__] for way in ways)
            row = {"device": torch.cuda.get_device_name(), "kernel": kernel.__name__, "d": dim, "l": level}
            row |= {"W": width, "m": plan.size, "T": plan.active, "batch": batch}
            names = ("features only", "contract", "contract_dense", "contract_quadratic")
            row |= {f"{name} ms": found.get(name) for name in names}
            row |= {"chosen": chosen, "chosen / best": found[chosen] / best if chosen in found else None}
            rows.append(row)
    save("fused_gpu", rows)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("fused_gpu.py: no CUDA device on this machine")
    main()
