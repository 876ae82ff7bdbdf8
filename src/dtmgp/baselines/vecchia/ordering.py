"""Orderings, and the neighbours that a point conditions on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Float, Int

from dtmgp.baselines.vecchia import _jit

_SMALLEST_SHARE = 200  # rows; a thread costs some 0.1 ms to start, a row some microseconds


def in_threads(rows: int, threads: int, work: Callable[[int, int], None]) -> None:
    """Call ``work(first, last)`` on consecutive shares of the rows; the compiled loops release the interpreter lock."""
    shares = max(1, min(threads, rows // _SMALLEST_SHARE))
    if shares == 1:
        work(0, rows)
        return
    bounds = np.linspace(0, rows, shares + 1).astype(int).tolist()
    with ThreadPoolExecutor(shares) as pool:
        for done in [pool.submit(work, *pair) for pair in itertools.pairwise(bounds)]:
            done.result()


def random_order(n: int, generator: np.random.Generator) -> Int[np.ndarray, " n"]:
    """A random permutation: the ordering of Sauer, Cooper and Gramacy (2022), section 3.2."""
    return generator.permutation(n)


def ordered_neighbours(points: Float[np.ndarray, "n D"], count: int) -> Int[np.ndarray, "n m"]:
    """The ``count`` nearest points *before* each one, nearest first, exactly; -1 where there are fewer.

    >>> ordered_neighbours(np.array([[0.0], [1.0], [0.9], [0.2]]), 2).tolist()
    [[-1, -1], [0, -1], [1, 0], [0, 2]]
    """
    return _jit.nearest_before(np.ascontiguousarray(points), min(count, len(points) - 1))


def nearest_neighbours(
    points: Float[np.ndarray, "n D"], queries: Float[np.ndarray, "q D"], count: int, threads: int = 1
) -> Int[np.ndarray, "q m"]:
    """The ``count`` points nearest to each query, nearest first, exactly.

    >>> nearest_neighbours(np.array([[0.0], [1.0], [0.4]]), np.array([[0.1]]), 2).tolist()
    [[0, 2]]
    """
    neighbours = np.empty((len(queries), min(count, len(points))), dtype=np.int64)
    points, queries = np.ascontiguousarray(points), np.ascontiguousarray(queries)
    in_threads(
        len(queries),
        threads,
        lambda first, last: _jit.nearest_to_queries(points, queries, first, last, neighbours),
    )
    return neighbours
