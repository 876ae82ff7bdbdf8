"""A training step on 1 to 64 nodes, from the measured parts of a step and two networks: a plan, not a measurement.

    step(N, B) = fixed + (data - noise) B / N + draws + sums(N)

``fixed`` and ``data`` (per input) are the line through the measured steps of two batches in one process; ``draws`` are
``noise`` B where every process draws the noise of the whole batch, ``blocks`` B / N where it draws its own; ``sums`` is
the measured CPU time of a call and a ring: 2 (N - 1) messages, and 2 (N - 1) / N times the bytes of all gradients. A
node is one process with one thread, as measured.

python benchmarks/scaling_plan.py [--no-figure]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from fused_common import RESULTS, save

from dtmgp.experiments.results import read_csv

MEASURED = RESULTS / "bench_distributed_scaling.csv"
FIGURE = Path(__file__).resolve().parents[1] / "docs" / "_static" / "scaling_plan.png"
SMALL, LARGE = "two layers, batch 1000", "two layers, batch 8000"
NODES = (1, 2, 4, 8, 16, 32, 64)
WEAK, STRONG = 8000, 64_000  # inputs per node, and of the global batch


class Network(NamedTuple):
    """Seconds per message, bytes per second."""

    name: str
    latency: float
    bandwidth: float


NETWORKS = (Network("10 Gbit/s, 50 us", 50e-6, 1.25e9), Network("100 Gbit/s, 5 us", 5e-6, 12.5e9))


class Parts(NamedTuple):
    """Seconds of a step: fixed, per input, and of a call that sums; gradients in bytes."""

    fixed: float
    data: float
    noise: float
    blocks: float
    call: float
    gradients: float


def measured() -> Parts:
    """The parts, from CPU times."""
    rows = read_csv(MEASURED).rows

    def found(case: str, variant: str, column: str = "cpu ms") -> float:
        (row,) = [row for row in rows if row["case"] == case and row["variant"] == variant]
        return float(row[column])  # type: ignore[arg-type]

    few, many = found(SMALL, "one") / 1e3, found(LARGE, "one") / 1e3
    data = (many - few) / (8000 - 1000)
    return Parts(
        few - 1000 * data,
        data,
        found(LARGE, "noise") / 1e3 / 8000,
        found(LARGE, "noise in blocks") / 1e3 / 8000,
        found(LARGE, "sums") / 1e3,
        found(LARGE, "one", "bytes of gradients"),
    )


def sums(network: Network, nodes: int, gradients: float) -> float:
    """Seconds of a ring all-reduce."""
    return 2 * (nodes - 1) * network.latency + 2 * (nodes - 1) / nodes * gradients / network.bandwidth


def step(parts: Parts, network: Network, nodes: int, batch: int, in_blocks: bool) -> float:
    """Seconds of a step of a global batch."""
    draws = parts.blocks * batch / nodes if in_blocks else parts.noise * batch
    own = parts.fixed + (parts.data - parts.noise) * batch / nodes + draws
    return own + (parts.call + sums(network, nodes, parts.gradients) if nodes > 1 else 0.0)


def plan(parts: Parts) -> list[dict[str, object]]:
    """Step times and speeds of all networks and ways."""
    rows: list[dict[str, object]] = []
    for network in NETWORKS:
        for in_blocks in (False, True):
            one = [step(parts, network, 1, batch, in_blocks) for batch in (WEAK, STRONG)]
            for nodes in NODES:
                weak = step(parts, network, nodes, nodes * WEAK, in_blocks)
                strong = step(parts, network, nodes, STRONG, in_blocks)
                rows.append(
                    {
                        "network": network.name,
                        "noise": "in blocks" if in_blocks else "whole",
                        "nodes": nodes,
                        f"weak ms ({WEAK} inputs each)": weak * 1e3,
                        "weak efficiency": one[0] / weak,
                        f"strong ms ({STRONG} inputs in all)": strong * 1e3,
                        "strong speed-up": one[1] / strong,
                        "inputs/s, weak": nodes * WEAK / weak,
                        "on the network, ms": sums(network, nodes, parts.gradients) * 1e3,
                    }
                )
    return rows


def draw(rows: list[dict[str, object]]) -> None:
    """Speed against nodes, weak and strong."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    axes = figure.subplots(1, 2)
    for network in NETWORKS:
        for noise, dash in (("whole", ":"), ("in blocks", "-")):
            own = [row for row in rows if row["network"] == network.name and row["noise"] == noise]
            label = f"{network.name}, noise {noise}"
            weak = [float(row["nodes"]) * float(row["weak efficiency"]) for row in own]  # type: ignore[arg-type]
            colour = f"C{NETWORKS.index(network)}"
            axes[0].plot(NODES, weak, dash, color=colour, label=label)
            axes[1].plot(NODES, [row["strong speed-up"] for row in own], dash, color=colour, label=label)
    for axis, title in zip(axes, (f"weak, {WEAK:,} inputs a node", f"strong, {STRONG:,} inputs")):
        axis.plot(NODES, NODES, color="0.7", lw=1)
        axis.set(xscale="log", yscale="log", xlabel="nodes", ylabel="speed against one", title=title)
        axis.set_xticks(NODES, NODES)
        axis.set_yticks(NODES, NODES)
        axis.minorticks_off()
    axes[0].legend(fontsize=7)
    figure.savefig(FIGURE, dpi=110)


def main(figure: bool = True) -> None:
    """Print, save, draw."""
    parts = measured()
    print(
        f"fixed {parts.fixed * 1e3:.2f} ms; per input {parts.data * 1e6:.2f} us, of which noise "
        f"{parts.noise * 1e6:.3f} us (in blocks {parts.blocks * 1e6:.3f} us); gradients {parts.gradients:.0f} bytes"
    )
    rows = plan(parts)
    save("scaling_plan", rows)
    if figure:
        draw(rows)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--no-figure", action="store_true")
    main(not options.parse_args().no_figure)
