"""Ranges of inputs on a small pool of threads: for compiled functions that release the interpreter lock.

Numba's own threading layers abort when two Python threads enter them; this pool does not mind. The split depends on
the number of threads and inputs only, so that sums are the same in every run with the same number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

_pool: ThreadPoolExecutor | None = None


def _forget_pool() -> None:
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget_pool)  # the threads do not survive a fork


def shares(count: int, work: float, unit: int = 16) -> list[tuple[int, int]]:
    """Consecutive ranges of ``count`` inputs, multiples of ``unit``: one per thread, fewer where the work is small.

    ``work`` is an estimate in nanoseconds; starting a thread costs about 30 microseconds, so each gets 150 or more.
    """
    if count == 0:
        return [(0, 0)]
    threads = int(max(1, min(torch.get_num_threads(), work // 150_000, -(-count // unit))))
    step = -(-count // (unit * threads)) * unit
    return [(start, min(start + step, count)) for start in range(0, count, step)]


def run(task: Callable[[int, int, int], None], ranges: list[tuple[int, int]]) -> None:
    """``task(number, start, stop)`` for every range; the first one in the calling thread."""
    global _pool
    if len(ranges) > 1 and _pool is None:
        _pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="dtmgp")
    waiting = []
    if _pool is not None:
        waiting = [_pool.submit(task, number, *bounds) for number, bounds in enumerate(ranges) if number]
    try:
        task(0, *ranges[0])
    finally:
        for future in waiting:
            future.result()
