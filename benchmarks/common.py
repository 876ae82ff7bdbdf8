"""What the benchmark scripts share: grids of a wanted size, repeated timings, peak memory."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dtmgp.grids import LowerSet, SparseGrid


def prefix_grid(dim: int, size: int) -> LowerSet:
    """The longest prefix of a sparse grid's multi-indices with at most ``size`` points: any prefix is a lower set.

    Levels of one dimension are a factor of 2 to 4 apart; prefixes reach every size.
    """
    level = 1
    while SparseGrid(dim, level).size < size:
        level += 1
    grid = SparseGrid(dim, level)
    count = int(np.searchsorted(grid.layout.offset, size, side="right")) - 1
    return LowerSet(grid.multi_indices[:count])


class Timing(NamedTuple):
    """Seconds of every call: by the clock on the wall, and of this process's CPU time (all threads together).

    CPU time is the one to compare on a machine that others use at the same time.
    """

    wall: list[float]
    cpu: list[float]

    def __add__(self, other: object) -> Timing:  # type: ignore[override]
        assert isinstance(other, Timing)
        return Timing(self.wall + other.wall, self.cpu + other.cpu)


def seconds(action: Callable[[], object], repeats: int) -> Timing:
    """Time every call; results are dropped between calls."""
    taken = Timing([], [])
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        result = action()
        taken.cpu.append(time.process_time() - cpu)
        taken.wall.append(time.perf_counter() - wall)
        del result
    return taken


def peak_gigabytes() -> float:
    """Largest resident memory of this process so far, in GB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def slope(x: list[float], y: list[float]) -> float:
    """Least-squares slope of ``log y`` in ``log x``."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


median = statistics.median
