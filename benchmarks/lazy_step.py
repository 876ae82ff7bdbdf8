"""Bar 4: a training step (forward, backward, update, KL of the touched rows) at m = 1e5 and 1e7 with equal T.

Memory is measured in a fresh process per table: how much the peak grows from before the table to after some steps.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from fused_common import medians, save

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import AbstractGrid, FullGrid, LowerSet
from dtmgp.kernels import Laplace
from dtmgp.ops import LineFunctions, NaturalTable, Plan, contract, plans_of

TABLES: dict[str, tuple[list[int], list[tuple[int, ...]]]] = {  # full grids, and what is added to them
    "5x12 + 2": ([5, 12], [(1, 13), (2, 13)]),
    "3x20 + 2": ([3, 20], [(1, 21), (2, 21)]),
    "5x12": ([5, 12], []),
    "3x20": ([3, 20], []),
    "7x9": ([7, 9], []),
    "3x3x7": ([3, 3, 7], []),
    "3x21": ([3, 21], []),
}


def grid(name: str) -> AbstractGrid:
    """The grid of a table."""
    levels, more = TABLES[name]
    return LowerSet(FullGrid(levels).multi_indices).add(more) if more else FullGrid(levels)


def training_step(name: str, batch: int, width: int) -> tuple[Plan, NaturalTable, Callable[[], int]]:
    """Plan, table, and a step on fresh inputs that returns the number of rows touched."""
    generator = torch.Generator().manual_seed(0)
    expansion = HierarchicalExpansion(Laplace(1.0), grid(name))
    (plan,), line = plans_of(expansion), LineFunctions(expansion.blocks[0])
    table = NaturalTable(plan.size, width)
    target = torch.randn(batch, width, generator=generator)

    def step() -> int:
        values, positions = line(torch.rand(batch, plan.dim, generator=generator))
        touched = table.touch(plan, positions)
        mean, variance = contract(plan, values, touched.slots, touched.mean, touched.variance)
        assert variance is not None
        ((mean - target).square() + variance).sum().backward()
        with torch.no_grad():
            table.kl_rows(touched.mean, touched.variance)
        table.step(touched, 0.05, scale=10.0)
        return len(touched.rows)

    return plan, table, step


def resident(field: str) -> float:
    """MiB of this process: VmRSS (now) or VmHWM (the peak)."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def growth_of_memory(name: str, batch: int, width: int, steps: int = 20) -> float:
    """MiB by which the peak of this process grows through the table and its steps (Linux)."""
    _, _, small = training_step("3x3x7", batch, width)  # compiles
    for _ in range(steps):
        small()
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = resident("VmRSS")
    _, _, step = training_step(name, batch, width)
    for _ in range(steps):
        step()
    return resident("VmHWM") - before


def main(batch: int = 1000, width: int = 4, repeats: int = 31) -> None:
    torch.set_num_threads(1)
    tasks, rows = {}, []
    for name in TABLES:
        plan, table, step = training_step(name, batch, width)
        tasks[name] = step
        stored = (table._excess.nbytes + table._last.nbytes) / 2**20
        rows.append(
            {"levels": name, "m": plan.size, "T": plan.active, "touched": step(), "table MiB": stored}
        )
    times = medians(tasks, repeats)
    for row, seconds in zip(rows, times.values(), strict=True):
        least = min((r for r in rows if r["T"] == row["T"] and r["m"] > 5e4), key=lambda r: r["m"])
        row["step ms"] = seconds * 1e3
        row["us per touched row"] = seconds * 1e6 / row["touched"]
        row["against m of about 1e5, same T"] = seconds / times[least["levels"]]
        command = [sys.executable, __file__, "--memory", row["levels"], str(batch), str(width)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        row["growth of peak memory MiB"] = json.loads(done.stdout)
    save("fused_lazy", rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        torch.set_num_threads(1)
        print(growth_of_memory(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    else:
        main()
