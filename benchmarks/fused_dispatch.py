"""The measurements behind the cost model of `dtmgp.ops.dispatch`: three ways, forward and backward, one core."""

from __future__ import annotations

import torch
from fused_common import medians, save

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.kernels import Laplace, Matern32
from dtmgp.ops import LineFunctions, contract, contract_dense, contract_quadratic, path_for, plans_of
from dtmgp.ops.dense import has_quadratic_form
from dtmgp.ops.dispatch import costs

CASES = [
    (Laplace, 13, 3, 10), (Laplace, 13, 3, 64), (Laplace, 13, 3, 256), (Laplace, 2, 8, 64), (Laplace, 100, 2, 16),
    (Laplace, 100, 2, 256), (Laplace, 100, 2, 1024), (Matern32, 20, 3, 20), (Matern32, 64, 3, 4),
    (Matern32, 64, 3, 64), (Matern32, 64, 3, 256),
]  # fmt: skip


def main(cases: list = CASES, batch: int = 1000, repeats: int = 7) -> None:
    torch.set_num_threads(1)
    rows = []
    for kernel, dim, level, width in cases:
        expansion = HierarchicalExpansion(kernel(float(dim)), SparseGrid(dim, level))
        (plan,) = plans_of(expansion)
        values, positions = LineFunctions(expansion.blocks[0])(torch.rand(batch, dim))
        leaves = [
            t.requires_grad_() for t in (values, torch.randn(plan.size, width), torch.rand(plan.size, width))
        ]
        grads = torch.randn(batch, width), torch.randn(batch, width)
        ways = [contract, contract_dense] + [contract_quadratic] * has_quadratic_form(plan)
        tasks = {
            way.__name__: (
                lambda way=way, leaves=leaves, plan=plan, positions=positions, grads=grads: (
                    torch.autograd.grad(way(plan, leaves[0], positions, *leaves[1:]), leaves, grads)
                )
            )
            for way in ways
        }
        times = medians(tasks, repeats)
        model = {way.__name__: cost / 1e3 for way, cost in costs(plan, width).items()}
        chosen = path_for(plan, batch, width).__name__
        row: dict[str, object] = {"kernel": kernel.__name__, "d": dim, "l": level, "W": width, "m": plan.size}
        row |= {"T": plan.active, "chosen": chosen, "chosen / best": times[chosen] / min(times.values())}
        for name in ("contract", "contract_dense", "contract_quadratic"):
            row[f"{name} us"] = times[name] / batch * 1e6 if name in times else None
            row[f"{name} model us"] = model.get(name)
        rows.append(row)
    save("fused_dispatch", rows)


if __name__ == "__main__":
    main()
