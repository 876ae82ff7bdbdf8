"""Bar 4: a training step (forward, backward, update, KL of the touched rows) at m = 1e5 and 1e7, T = 60 and 63."""

from __future__ import annotations

import resource

import torch
from fused_common import Layer, medians, save

from dtmgp.grids import FullGrid
from dtmgp.ops import NaturalTable, contract

GRIDS = [(5, 12), (3, 20), (7, 9), (3, 3, 7), (3, 21)]  # T = 60, 60, 63, 63, 63


def main(grids: list[tuple[int, ...]] = GRIDS, batch: int = 1000, width: int = 4, repeats: int = 15) -> None:
    torch.set_num_threads(1)
    tasks, rows = {}, []
    generator = torch.Generator().manual_seed(0)
    for levels in grids:
        layer = Layer(FullGrid(levels), 1.0, 1, batch)
        plan, table = layer.plan, NaturalTable(layer.plan.size, width)
        target = torch.randn(batch, width, generator=generator)

        def step(plan=plan, table=table, line=layer.line, target=target):
            x = torch.rand(batch, plan.dim, generator=generator)
            values, positions = line(x)
            touched = table.touch(plan, positions)
            mean, variance = contract(plan, values, touched.slots, touched.mean, touched.variance)
            ((mean - target).square() + variance).sum().backward()
            with torch.no_grad():
                table.kl_rows(touched.mean, touched.variance)
            table.step(touched, 0.05, scale=10.0)
            return len(touched.rows)

        tasks[levels] = step
        rows.append(
            {
                "levels": "x".join(map(str, levels)),
                "m": plan.size,
                "T": plan.active,
                "touched": step(),
                "table MiB": (table._excess.nbytes + table._last.nbytes) / 2**20,
            }
        )
    times = medians({str(k): v for k, v in tasks.items()}, repeats)
    for row, seconds in zip(rows, times.values(), strict=True):
        row["step ms"] = seconds * 1e3
        row["us per touched row"] = seconds * 1e6 / row["touched"]
        row["against the first"] = seconds / next(iter(times.values()))
        row["peak memory of the process MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    save("fused_lazy", rows)


if __name__ == "__main__":
    main()
