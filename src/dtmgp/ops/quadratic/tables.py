"""Singles and pairs of one-dimensional functions: the tables of a plan in which no product has three raised factors.

Function f is (coordinate j, level k, index c) with value ``u_f = v(j, k) / v(j, 0)`` if c is the position of the input
and 0 otherwise. Then, with ``root = prod_j v(j, 0)``,

    mean = root (M_0 + sum_f u_f M_f + sum_{f < g} u_f u_g M_{f,g})          variance: squares of root and u

which is a linear and a quadratic form: no list of the T active features is walked. Level-1 values must be positive.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

FUNCTION_SLOT, FUNCTION_ROOT, FUNCTION_COUNT, FUNCTION_INDEX, FUNCTION_ROW = range(
    5
)  # columns of ``functions``
ROUND = 16  # numbers of functions are multiples of this: the length of a vector
SPARSEST = 16  # entries of the quadratic form per pair beyond which there is none: it would be mostly zeros


@dataclasses.dataclass(frozen=True, eq=False)
class PairTables:
    """Which rows of the weight table make the linear and the quadratic form.

    ``functions`` (F, 5) int32: slot ``j*L + k``, slot ``j*L``, number of functions of the level (0: padding), index,
    row. The first ``paired`` of them occur in pairs. ``pairs`` (P, 3) int64: first < second function, row.
    """

    functions: torch.Tensor
    pairs: torch.Tensor
    paired: int


def _runs(single: np.ndarray, levels: int) -> np.ndarray:
    """The functions of some multi-indices: by level and index, then coordinate; runs are padded to multiples of 16."""
    slot, coordinate, count, offset = single[:, 1], single[:, 2], single[:, 3], single[:, 4]
    level = slot - coordinate * levels
    runs = [np.zeros((0, 5), dtype=np.int32)]
    for k in np.unique(level):
        for index in range(int(count[level == k].max())):
            kept = np.flatnonzero((level == k) & (count > index))
            kept = kept[np.argsort(coordinate[kept])]
            run = np.zeros((-(-len(kept) // ROUND) * ROUND, 5), dtype=np.int32)
            run[:, FUNCTION_ROW] = -1
            columns = (
                slot[kept],
                coordinate[kept] * levels,
                count[kept],
                0 * kept + index,
                offset[kept] + index,
            )
            run[: len(kept)] = np.stack(columns, axis=1)
            runs.append(run)
    return np.concatenate(runs)


def pair_tables(tree: np.ndarray, depth: np.ndarray, levels: int) -> PairTables | None:
    """The tables of a plan, or None if three coordinates are raised at once or too few pairs exist."""
    if depth.max(initial=0) != 2:
        return None
    single, double = tree[depth == 1], tree[depth == 2]
    first = tree[double[:, 0]]  # the parents: single, in the lower coordinate
    in_pairs = np.isin(single[:, 1], np.concatenate([first[:, 1], double[:, 1]]))
    counts = single[:, 3].astype(np.int64)
    size, rest = int(counts[in_pairs].sum()), int(counts[~in_pairs].sum())
    if size**2 > SPARSEST * len(double) + ROUND**2 or size + rest > SPARSEST * (len(single) + ROUND):
        return None
    parts = [_runs(single[members], levels) for members in (in_pairs, ~in_pairs)]
    paired = len(parts[0])
    functions = np.concatenate(parts)
    if paired**2 > 4 * SPARSEST * len(double) + 4 * ROUND**2:
        return None
    deepest = int(counts.max())
    number = np.full((int(tree[:, 1].max(initial=0)) + 1, deepest), -1, dtype=np.int64)  # by slot and index
    real = functions[:, FUNCTION_COUNT] > 0
    number[functions[real, FUNCTION_SLOT], functions[real, FUNCTION_INDEX]] = np.flatnonzero(real)
    found = []
    for i in range(int(first[:, 3].max(initial=0))):
        for j in range(int(double[:, 3].max(initial=0))):
            kept = (first[:, 3] > i) & (double[:, 3] > j)
            left, right = number[first[kept, 1], i], number[double[kept, 1], j]
            row = double[kept, 4] + i * double[kept, 3] + j
            found.append(np.stack([np.minimum(left, right), np.maximum(left, right), row], axis=1))
    pairs = np.concatenate(found).astype(np.int64)
    return PairTables(torch.from_numpy(functions), torch.from_numpy(pairs), paired)
