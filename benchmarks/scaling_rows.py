"""Bar 3: time per input against T, and against m at T = 60 from 10^3 to 10^7; figure docs/_static/fused_scaling.png."""

from __future__ import annotations

from pathlib import Path

import torch
from fused_common import RESULTS, Layer, medians, save

from dtmgp.experiments.results import read_csv
from dtmgp.grids import FullGrid, SparseGrid
from dtmgp.ops import contract
from dtmgp.ops.lazy import touched_rows

FIGURE = Path(__file__).resolve().parents[1] / "docs" / "_static" / "fused_scaling.png"
SAME_T = [(2, 2, 3, 5), (3, 4, 5), (2, 5, 6), (2, 3, 10), (6, 10), (5, 12), (4, 15), (3, 20)]
SPARSE = [(5, 2), (10, 2), (5, 3), (13, 2), (10, 3), (13, 3), (8, 4), (13, 4), (10, 5), (15, 5)]


def main(same_t: list[tuple[int, ...]] = SAME_T, sparse: list[tuple[int, int]] = SPARSE, batch: int = 1000,
         width: int = 4, repeats: int = 11) -> None:  # fmt: skip
    torch.set_num_threads(1)
    rows = []
    for study, grids in (
        ("against m", [FullGrid(levels) for levels in same_t]),
        ("against T", [SparseGrid(*pair) for pair in sparse]),
    ):
        for grid in grids:
            layer = Layer(grid, 1.0 if study == "against m" else float(grid.dim), width, batch)
            plan = layer.plan
            values, positions = layer.line(layer.x)
            (v,) = layer.leaves(values)

            def forward(plan=plan, layer=layer, values=values, positions=positions):
                with torch.no_grad():
                    contract(plan, values, positions, layer.mean, layer.variance)

            def backward(study=study, plan=plan, layer=layer, v=v, positions=positions):
                if study == "against T":
                    mean, variance = layer.leaves(layer.mean, layer.variance)
                    out = contract(plan, v, positions, mean, variance)
                else:  # gradients as (rows, values) of the touched rows: nothing of size m is written
                    found, slots = touched_rows(plan, positions)
                    mean, variance = (t[found].requires_grad_() for t in (layer.mean, layer.variance))
                    out = contract(plan, v, slots, mean, variance)
                torch.autograd.grad(out, (v, mean, variance), layer.grads)

            times = medians({"forward": forward, "both": backward}, repeats)
            rows.append(
                {"study": study, "grid": str(grid).split(":")[0], "m": plan.size, "T": plan.active}
                | {f"{name} us": seconds / batch * 1e6 for name, seconds in times.items()}
            )
    save("fused_scaling", rows)
    draw()


def draw() -> None:
    """The figure, from the table."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = read_csv(RESULTS / "bench_fused_scaling.csv").rows
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axis, study, key in ((axes[0], "against T", "T"), (axes[1], "against m", "m")):
        part = sorted((r for r in rows if r["study"] == study), key=lambda r: r[key])
        for name, label in (("forward us", "forward"), ("both us", "forward and backward")):
            axis.loglog([r[key] for r in part], [r[name] for r in part], "o-", label=label)
        axis.set_xlabel(f"{key}" + (" (active features)" if key == "T" else " (features), T = 60"))
        axis.set_ylim(0.02, 100)
        axis.grid(True, which="major", alpha=0.3)
    first = sorted(r["T"] for r in rows if r["study"] == "against T")
    axes[0].plot(first, [0.0016 * t for t in first], "k:", label="proportional to T")
    axes[0].set_ylabel("microseconds per input")
    axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle("Mean and variance, W = 4, batch 1000, float32, one core", fontsize=10)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=130)


if __name__ == "__main__":
    main()
