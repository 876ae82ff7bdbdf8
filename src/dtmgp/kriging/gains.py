"""What further features would add to the log evidence: exact at fixed hyperparameters, from the training data alone.

With ``A = L L^T`` the posterior precision of the present columns ``Psi`` and a group ``Phi`` of new ones, whose weights
have a standard normal prior,

    ``gain = 1/2 z^T (I + G)^-1 z - 1/2 log det(I + G)``,
    ``z = Phi^T N^-1 (y - Psi mu)``,   ``G = Phi^T N^-1 Phi - V^T V``,   ``V = L^-1 Psi^T N^-1 Phi``.

The functions of one multi-index have disjoint supports, so that its ``Phi^T N^-1 Phi`` is diagonal.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.linalg import cholesky, solve_triangular

from dtmgp.grids import LowerSet
from dtmgp.kriging.design import Design
from dtmgp.kriging.posterior import DensePosterior, dense_rows
from dtmgp.kriging.replicates import Replicates

Array = np.ndarray
CHUNK_COLUMNS = 4096  # new columns whose V is held at once


def group_gain(matrix: Float[Array, "k k"], slope: Float[Array, " k"]) -> float:
    """The formula above for one group: ``matrix`` is G, ``slope`` is z.

    >>> round(group_gain(np.array([[3.0]]), np.array([4.0])), 4)  # 16 / 4 / 2 - log(4) / 2
    1.3069
    """
    lower = cholesky(np.eye(len(slope)) + matrix, lower=True, check_finite=False)
    half = solve_triangular(lower, slope, lower=True, check_finite=False)
    return float(0.5 * half @ half - np.log(np.diag(lower)).sum())


def evidence_gains(
    posterior: DensePosterior,
    data: Replicates,
    noise: float,
    grid: LowerSet,
    groups: Sequence[Int[Array, "_ d"]],
) -> tuple[Float[Array, " g"], Int[Array, " g"]]:
    """Gain in nats and number of features of every group of multi-indices, each added to ``grid`` on its own.

    ``posterior`` is that of ``grid``. O(n T + n T' p + p^2 M) for M new features, T' of them active per input.
    """
    if not groups:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    design = posterior.design
    fresh = np.unique(np.concatenate(groups), axis=0)
    wide = Design(design.kernel, LowerSet(np.concatenate([grid.multi_indices, fresh])), design.mean_std)
    numbers = [wide.grid.indices.find(group) for group in groups]  # type: ignore[union-attr]
    layout = wide.expansion.blocks[0].layout
    sizes = np.array([int(layout.block_size[own].sum()) for own in numbers])
    gains = np.empty(len(groups))
    for part in _parts(sizes.tolist()):
        sums = _Sums(posterior, data, noise, wide, [numbers[k] for k in part])
        solved = solve_triangular(posterior.lower, sums.cross.T, lower=True, check_finite=False)
        for k, columns, gram in zip(part, sums.columns, sums.grams, strict=True):
            within = solved[:, columns]
            gains[k] = group_gain(gram - within.T @ within, sums.slope[columns])
    return gains, sizes


def _parts(sizes: Sequence[int]) -> list[list[int]]:
    """Groups in runs of at most `CHUNK_COLUMNS` columns (or one group)."""
    parts: list[list[int]] = []
    filled = CHUNK_COLUMNS
    for k, size in enumerate(sizes):
        if filled + size > CHUNK_COLUMNS:
            parts.append([])
            filled = 0
        parts[-1].append(k)
        filled += size
    return parts


class _Sums:
    """Sums over the data for some groups, given as numbers of multi-indices of the wide design.

    ``cross`` is ``Phi^T N^-1 Psi`` of all their columns, ``slope`` is z, ``columns`` says which are a group's, and
    ``grams`` has its ``Phi^T N^-1 Phi``.
    """

    def __init__(
        self,
        posterior: DensePosterior,
        data: Replicates,
        noise: float,
        wide: Design,
        groups: Sequence[Int[Array, " _"]],
    ) -> None:
        design, layout, q = posterior.design, wide.expansion.blocks[0].layout, wide.mean_columns
        taken = np.concatenate(groups)  # a multi-index of two groups has its columns twice
        sizes = layout.block_size[taken]
        shift = np.cumsum(sizes) - sizes - layout.offset[taken] - q
        ends = np.cumsum([0] + [int(layout.block_size[own].sum()) for own in groups])
        self.columns = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        places = [slice(int(a), int(b)) for a, b in itertools.pairwise(np.cumsum([0, *map(len, groups)]))]
        width = int(ends[-1])
        self.cross, self.slope = np.zeros((width, design.size)), np.zeros(width)
        self.grams = [np.zeros((c.stop - c.start,) * 2) for c in self.columns]
        precision = data.count / (noise + data.known)
        for part in wide.chunks(data.rows):
            entries, found = wide.rows(data.inputs[part])
            values, local = entries[:, q + taken], found[:, q + taken] + shift
            psi = dense_rows(*design.rows(data.inputs[part]), design.size)
            phi = _sparse(values, local, width).T.tocsr()
            self.cross += phi @ (precision[part, None] * psi)
            self.slope += phi @ (precision[part] * (data.mean[part] - psi @ posterior.mean))
            for own, columns, gram in zip(places, self.columns, self.grams, strict=True):
                inside = _sparse(values[:, own], local[:, own] - columns.start, len(gram))
                gram += (inside.T @ inside.multiply(precision[part, None])).toarray()


def _sparse(values: Float[Array, "n a"], columns: Int[Array, "n a"], width: int) -> sp.csr_array:
    start = np.arange(len(values) + 1) * values.shape[1]
    return sp.csr_array((values.ravel(), columns.ravel(), start), shape=(len(values), width))
