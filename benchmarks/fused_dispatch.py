"""The measurements behind the cost model of `dtmgp.ops.dispatch`: three ways, forward and backward, one core.

Ways that the model puts at more than 8 times the cheapest are not timed. With the argument `judge`, the measured
times are kept and only the model's columns are made again.
"""

from __future__ import annotations

import sys

import torch
from fused_common import RESULTS, medians, save

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.experiments.results import read_csv
from dtmgp.grids import SparseGrid
from dtmgp.kernels import Laplace, Matern32
from dtmgp.ops import LineFunctions, path_for, plans_of
from dtmgp.ops.dispatch import costs

WAYS = ("contract", "contract_dense", "contract_quadratic")
KERNELS = {"Laplace": Laplace, "Matern32": Matern32}
FAR = 8.0
WIDTHS = (1, 2, 8, 16, 64, 256)
LAYERS = [(kernel, d, 3) for d in (13, 30, 64) for kernel in (Laplace, Matern32)]
LAYERS += [(Laplace, 2, 8), (Laplace, 100, 2), (Laplace, 512, 2), (Matern32, 100, 3)]
CASES = [(*layer, width, 1000) for layer in LAYERS for width in WIDTHS]
CASES += [(*layer, width, 100) for layer in LAYERS for width in (1, 16)]  # what a call costs
CASES += [(Laplace, 100, 2, 1024, 1000), (Laplace, 512, 2, 4096, 200), (Laplace, 30, 2, 4096, 1000)]


def main(cases: list = CASES, repeats: int = 5) -> None:
    torch.set_num_threads(1)
    rows = []
    for kernel, dim, level, width, batch in cases:
        expansion = HierarchicalExpansion(kernel(float(dim)), SparseGrid(dim, level))
        (plan,) = plans_of(expansion)
        values, positions = LineFunctions(expansion.blocks[0])(torch.rand(batch, dim))
        leaves = [
            t.requires_grad_() for t in (values, torch.randn(plan.size, width), torch.rand(plan.size, width))
        ]
        grads = torch.randn(batch, width), torch.randn(batch, width)
        model = costs(plan, width, batch)
        ways = [way for way, cost in model.items() if cost < FAR * min(model.values())]
        tasks = {
            way.__name__: (
                lambda way=way, leaves=leaves, plan=plan, positions=positions, grads=grads: (
                    torch.autograd.grad(way(plan, leaves[0], positions, *leaves[1:]), leaves, grads)
                )
            )
            for way in ways
        }
        times = medians(tasks, repeats)
        row: dict[str, object] = {"kernel": kernel.__name__, "d": dim, "l": level, "W": width, "batch": batch}
        row |= {f"{name} us": times[name] / batch * 1e6 if name in times else None for name in WAYS}
        rows.append(row)
    judge(rows)


def judge(rows: list[dict]) -> None:
    """Add what the cost model says and chooses; write the table."""
    plans = {}
    for row in rows:
        kernel, dim, level, width, batch = (row[key] for key in ("kernel", "d", "l", "W", "batch"))
        if (kernel, dim, level) not in plans:
            chosen = HierarchicalExpansion(KERNELS[kernel](float(dim)), SparseGrid(dim, level))
            (plans[kernel, dim, level],) = plans_of(chosen)
        plan = plans[kernel, dim, level]
        times = {name: row[f"{name} us"] for name in WAYS if row[f"{name} us"] not in (None, "")}
        found = path_for(plan, batch, width).__name__
        row |= {"m": plan.size, "T": plan.active, "chosen": found}
        row["chosen / best"] = times[found] / min(times.values())
        row |= {f"{way.__name__} model us": cost / 1e3 for way, cost in costs(plan, width, batch).items()}
        row.setdefault("contract_quadratic model us", None)
    save("fused_dispatch", rows)


if __name__ == "__main__":
    if sys.argv[1:] == ["judge"]:
        judge(read_csv(RESULTS / "bench_fused_dispatch.csv").rows)
    else:
        main()
