"""Bar 5: two threads against one at batch >= 4000; and the machine's bandwidth and peak for the roofline paragraph.

Besides the wall clock, the CPU time of the calling thread: its own range of inputs, and all that is not shared. If the
other thread has a core of its own and is no slower, that is the elapsed time, and other processes do not disturb it.
"""

from __future__ import annotations

import time
from itertools import product

import numpy as np
import torch
from fused_common import medians, save, sparse_layer

from dtmgp.ops import contract


def main(batches: tuple[int, ...] = (8000, 32_000), repeats: int = 15) -> None:
    rows = []
    a, b = np.ones(1 << 25, np.float32), np.ones(1 << 25, np.float32)
    g = torch.randn(1024, 1024)
    torch.set_num_threads(1)
    times = medians({"copy": lambda: np.copyto(a, b), "gemm": lambda: g @ g}, repeats)
    bandwidth, peak = 2 * a.nbytes / times["copy"] / 1e9, 2 * 1024**3 / times["gemm"] / 1e9
    cases = [(13, 3, 10), (2, 8, 8), (3, 10, 4)]
    for (dim, level, width), batch in product(cases, batches):
        layer = sparse_layer(dim, level, width, batch)
        plan = layer.plan
        values, positions = layer.line(layer.x)
        v, mean, variance = layer.leaves(values, layer.mean, layer.variance)

        def both(
            threads, plan=plan, v=v, positions=positions, mean=mean, variance=variance, grads=layer.grads
        ):
            torch.set_num_threads(threads)
            torch.autograd.grad(contract(plan, v, positions, mean, variance), (v, mean, variance), grads)

        def forward(threads, plan=plan, v=v, positions=positions, mean=mean, variance=variance):
            torch.set_num_threads(threads)
            with torch.no_grad():
                contract(plan, v, positions, mean, variance)

        tasks = {
            f"{name} {n}": (lambda task=task, n=n: task(n))
            for name, task in (("forward", forward), ("both", both))
            for n in (1, 2)
        }
        times = medians(tasks, repeats, time.perf_counter)  # means something on an idle machine only
        busy = medians(tasks, repeats, time.thread_time)  # of the calling thread: it waits for nobody
        flops = plan.active * (3 + 4 * width)  # tree: 3 products; sums: 2 per table entry
        loaded = plan.active * 8 * width
        per_row = busy["forward 1"] / batch
        rows.append(
            {"d": dim, "l": level, "W": width, "m": plan.size, "T": plan.active, "batch": batch}
            | {f"{name} us": seconds / batch * 1e6 for name, seconds in times.items()}
            | {f"{name} calling thread us": seconds / batch * 1e6 for name, seconds in busy.items()}
            | {
                "forward speed-up by calling thread": busy["forward 1"] / busy["forward 2"],
                "both speed-up by calling thread": busy["both 1"] / busy["both 2"],
                "forward speed-up": times["forward 1"] / times["forward 2"],
                "both speed-up": times["both 1"] / times["both 2"],
                "flop per row": flops,
                "bytes per row": loaded,
                "GFLOP/s": flops / per_row / 1e9,
                "GB/s": loaded / per_row / 1e9,
                "machine copy GB/s": bandwidth,
                "machine GEMM GFLOP/s": peak,
            }
        )
    save("fused_threads", rows)


if __name__ == "__main__":
    main()
