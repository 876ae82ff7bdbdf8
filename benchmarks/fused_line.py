"""1-D features with all gradients, and one layer of a deep model from its inputs on: one core, float32.

*eager* is the same function in plain torch. The batch of 100 shows what a call costs whatever its size.
"""

from __future__ import annotations

import torch
from fused_common import medians, save

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.grids import SparseGrid
from dtmgp.kernels import Laplace, Matern32, Matern52
from dtmgp.ops import LineFunctions, contract_fast, path_for, plans_of

CASES = [
    (Matern32, 64, 3),
    (Matern52, 64, 3),
    (Laplace, 64, 3),
    (Matern32, 13, 2),
    (Matern32, 13, 3),
    (Laplace, 13, 3),
]


def main(
    cases: list = CASES, batches: tuple[int, ...] = (100, 8000), width: int = 2, repeats: int = 9
) -> None:
    torch.set_num_threads(1)
    rows = []
    for kernel, dim, level in cases:
        expansion = HierarchicalExpansion(kernel(2.0), SparseGrid(dim, level))
        (plan,) = plans_of(expansion)
        line = LineFunctions(expansion.blocks[0])
        for batch in batches:
            leaves = [torch.rand(batch, dim), line.lengthscale.float(), torch.tensor(1.0)]
            leaves = [leaf.requires_grad_() for leaf in leaves]
            weights = [torch.randn(plan.size, width), torch.rand(plan.size, width)]
            weights = [w.requires_grad_() for w in weights]
            upstream = torch.randn(batch, dim, line.levels)
            grads = torch.randn(batch, width), torch.randn(batch, width)

            def forward(line=line, leaves=leaves):
                with torch.no_grad():
                    line(*leaves)

            def both(way, leaves=leaves, upstream=upstream):
                torch.autograd.grad(way(*leaves)[0], leaves, upstream)

            def layer(line=line, plan=plan, leaves=leaves, weights=weights, grads=grads):
                found = contract_fast(plan, *line(*leaves), *weights)
                torch.autograd.grad(found, [*leaves, *weights], grads)

            tasks = {
                "forward": forward,
                "both": lambda line=line, both=both: both(line),
                "layer": layer,
                "eager both": lambda line=line, both=both: both(line.eager),
            }
            times = medians(tasks, repeats)
            row: dict[str, object] = {
                "kernel": kernel.__name__,
                "d": dim,
                "l": level,
                "W": width,
                "batch": batch,
            }
            row["path"] = path_for(plan, batch, width).__name__
            row |= {f"{name} ms": seconds * 1e3 for name, seconds in times.items()}
            row |= {f"{name} us per input": seconds / batch * 1e6 for name, seconds in times.items()}
            row["eager / both"] = times["eager both"] / times["both"]
            rows.append(row)
    save("fused_line", rows)


if __name__ == "__main__":
    main()
