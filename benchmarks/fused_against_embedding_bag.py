"""Bar 2: against `torch.nn.functional.embedding_bag`, which is given the rows and values that ours has to find.

*contraction* starts from 1-D values and positions, *from x* from the inputs. One core, float32.
"""

# ruff: noqa: B023, E731 - the closures of a case are called before the next case begins

from __future__ import annotations

import torch
from fused_common import medians, save, sparse_layer
from torch.nn.functional import embedding_bag

from dtmgp.ops import contract, reference

CASES = [(13, 3, 10), (2, 8, 8), (3, 10, 4)]


def main(cases: list[tuple[int, int, int]] = CASES, batch: int = 1000, repeats: int = 25) -> None:
    torch.set_num_threads(1)
    rows = []
    for dim, level, width in cases:
        layer = sparse_layer(dim, level, width, batch)
        plan = layer.plan
        values, positions = layer.line(layer.x)
        where = reference.active_rows(positions, plan.tree)
        phi = reference.active_values(values, plan.tree, plan.intervals)
        squares = phi.square()
        x, v, p, q = layer.leaves(layer.x, values, phi, squares)
        mean, variance = layer.leaves(layer.mean, layer.variance)

        def bag(first, second, mean, variance, where=where):
            return (
                embedding_bag(where, mean, per_sample_weights=first, mode="sum"),
                embedding_bag(where, variance, per_sample_weights=second, mode="sum"),
            )

        def forward(task):
            def run():
                with torch.no_grad():
                    task()

            return run

        def both(task, leaves, grads=layer.grads):
            return lambda: torch.autograd.grad(task(), leaves, grads)

        ours = lambda: contract(plan, v, positions, mean, variance)
        whole = lambda: contract(plan, *layer.line(x), mean, variance)
        theirs = lambda: bag(p, q, mean, variance)
        times = medians(
            {
                "contraction": forward(ours),
                "from x": forward(whole),
                "bag": forward(theirs),
                "contraction both": both(ours, (v, mean, variance)),
                "from x both": both(whole, (x, mean, variance)),
                "bag both": both(theirs, (p, q, mean, variance)),
            },
            repeats,
        )
        row: dict[str, object] = {"d": dim, "l": level, "W": width, "m": plan.size, "T": plan.active}
        row |= {f"{name} us": seconds / batch * 1e6 for name, seconds in times.items()}
        row["forward: contraction / bag"] = times["contraction"] / times["bag"]
        row["forward: from x / bag"] = times["from x"] / times["bag"]
        row["both: bag / contraction"] = times["bag both"] / times["contraction both"]
        row["both: bag / from x"] = times["bag both"] / times["from x both"]
        rows.append(row)
    save("fused_embedding_bag", rows)


if __name__ == "__main__":
    main()
