"""The interface check of hierarchical expansions."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dtmgp.expansion import HierarchicalExpansion
from dtmgp.expansion.reference import dense_covariances, dense_inverse_cholesky
from dtmgp.grids import Dyadic, SparseGrid
from dtmgp.kernels import Additive, Tensor
from dtmgp.testing._require import require
from dtmgp.testing.kernels import window

MOST_FEATURES = 3000
INSIDE = 1e-3  # of the gap to the neighbour: Matern features rise with its power, no faster than 1e-9


def check_expansion(expansion: HierarchicalExpansion, tolerance: float = 1e-8) -> None:
    """Check an expansion against dense algebra and its claims against what it does, tightness included.

    The dense side is a Cholesky factor of ``K``, so there should be at most 3,000 features and the kernel should be
    well conditioned on the grid; ``tolerance`` is relative to the largest entry of a column of ``R^-1``, to the
    standard deviation for features.
    """
    size = expansion.size
    require(size <= MOST_FEATURES, f"check a smaller expansion: {size:,} features, {MOST_FEATURES:,} at most")
    inputs = _inputs(expansion)
    pairs = dense_covariances(expansion, inputs)
    covariance = sp.block_diag([pair[0] for pair in pairs]).toarray()
    cross = np.concatenate([pair[1] for pair in pairs], axis=1)
    inverse = sp.block_diag([dense_inverse_cholesky(pair[0]) for pair in pairs]).toarray()
    _check_factor(expansion, covariance, inverse, tolerance)
    _check_algebra(expansion, covariance, tolerance)
    _check_features(expansion, inputs, cross @ inverse, tolerance)
    _check_supports(expansion)
    _check_residual(expansion, inputs, tolerance)
    _check_prefix(expansion, inputs)


def _terms(expansion: HierarchicalExpansion) -> list[tuple[tuple[int, ...], Tensor]]:
    kernel = expansion.kernel
    return list(kernel.terms) if isinstance(kernel, Additive) else [(tuple(range(kernel.dim)), kernel)]


def _is_markov(expansion: HierarchicalExpansion) -> bool:
    return all(factor.state_size == 1 for _, term in _terms(expansion) for factor in term.kernels)


def _box(expansion: HierarchicalExpansion) -> np.ndarray:
    """(d, 2): where all factors are defined, within (0, 1)."""
    box = np.tile([-np.inf, np.inf], (expansion.dim, 1))
    for subset, term in _terms(expansion):
        for j, factor in zip(subset, term.kernels, strict=True):
            low, high = window(factor)
            box[j] = max(box[j, 0], low), min(box[j, 1], high)
    return np.where(np.isfinite(box), box, [[0.0, 1.0]])


def _inputs(expansion: HierarchicalExpansion, count: int = 60) -> np.ndarray:
    box = _box(expansion)
    random = np.random.default_rng(0).random((count, expansion.dim))
    return np.asarray(box[:, 0] + random * (box[:, 1] - box[:, 0]))


def _require_small(error: np.ndarray, scale: object, tolerance: float, what: str) -> None:
    worst = float(np.max(np.abs(error) / scale)) if error.size else 0.0
    require(
        worst <= tolerance, f"{what}: the relative error is {worst:.1e}, at most {tolerance:.0e} expected"
    )


def _check_factor(
    expansion: HierarchicalExpansion, covariance: np.ndarray, dense: np.ndarray, tolerance: float
) -> None:
    factor = expansion.inverse_cholesky()
    size = expansion.size
    require(sp.issparse(factor) and factor.format == "csc", "inverse_cholesky should be scipy CSC")
    require(factor.shape == (size, size), f"inverse_cholesky should be (m, m), not {factor.shape}")
    require(
        factor.has_sorted_indices and factor.has_canonical_format, "row indices should be sorted and unique"
    )
    columns = np.repeat(np.arange(size), np.diff(factor.indptr))
    require((factor.indices <= columns).all(), "R^-1 should be upper triangular")
    require((factor.diagonal() > 0).all(), "the diagonal of R^-1 should be positive")
    require(
        factor.nnz == expansion.nonzeros, f"nonzeros claims {expansion.nonzeros}, stored are {factor.nnz}"
    )
    most = int(np.diff(factor.indptr).max())
    claim = expansion.max_nonzeros_per_column
    require(most == claim, f"max_nonzeros_per_column claims {claim}, the fullest column has {most}")
    if _is_markov(expansion):  # coefficients on derivatives vanish at midpoints, by symmetry
        require((factor.data != 0).all(), "every stored entry of a Markov kernel's factor should be non-zero")
    array = factor.toarray()
    _require_small(array - dense, np.abs(dense).max(axis=0), tolerance, "R^-1 against dense Cholesky")
    _require_small(array.T @ covariance @ array - np.eye(size), 1.0, tolerance, "R^-T K R^-1 against I")


def _check_algebra(expansion: HierarchicalExpansion, covariance: np.ndarray, tolerance: float) -> None:
    spread = np.sqrt(np.diag(covariance))
    correlation = covariance / spread / spread[:, None]
    log_det = np.linalg.slogdet(correlation)[1] + 2 * np.log(spread).sum()
    _require_small(np.array(expansion.log_det() - log_det), max(1.0, abs(log_det)), tolerance, "log_det")
    right = np.random.default_rng(1).standard_normal((3, expansion.size))
    solved = expansion.solve(right * spread)
    require(solved.shape == right.shape, f"solve should keep the shape (r, m), not give {solved.shape}")
    back = (solved * spread) @ correlation
    scale = np.abs(solved * spread).max()
    _require_small(back - right, scale, tolerance, "solve(A) K against A")
    one = expansion.solve(right[0] * spread)
    _require_small(one - solved[0], np.abs(solved[0]).max(), 1e-14, "solve of one row")


def _check_features(
    expansion: HierarchicalExpansion, inputs: np.ndarray, dense: np.ndarray, tolerance: float
) -> None:
    features = expansion.features(inputs)
    active = expansion.active_per_input
    require(sp.issparse(features) and features.format == "csr", "features should be scipy CSR")
    require(
        features.shape == (len(inputs), expansion.size), f"features should be (n, m), not {features.shape}"
    )
    require(
        (np.diff(features.indptr) == active).all(),
        f"every row should store active_per_input = {active} entries",
    )
    columns = features.indices.reshape(len(inputs), -1)
    require((np.diff(columns, axis=1) > 0).all(), "columns of a row should increase")
    nonzero = (features.data.reshape(len(inputs), -1) != 0).sum(axis=1)
    grids = [expansion.grid] if hasattr(expansion.grid, "sequence") else list(expansion.grid)
    if all(
        isinstance(grid.sequence, Dyadic) for grid in grids
    ):  # other sequences may leave gaps between supports
        require((nonzero == active).all(), f"between the points exactly {active} features should be non-zero")
    spread = np.sqrt(expansion.kernel.diagonal(inputs))[:, None]
    _require_small(features.toarray() - dense, spread, tolerance, "features against dense Cholesky")
    one = expansion.features(inputs[:1]).toarray()
    require(np.array_equal(one, features[:1].toarray()), "features should not depend on the other rows")
    require(expansion.features(inputs[:0]).shape == (0, expansion.size), "no inputs, no rows")


def _check_supports(expansion: HierarchicalExpansion, most: int = 40) -> None:
    """Non-zero just inside every end of the support of some features, zero on it and just outside."""
    positions = np.arange(expansion.size)
    if expansion.size > most:
        positions = np.random.default_rng(2).choice(positions, most, replace=False)
    box = _box(expansion)
    start = 0
    for (subset, _), (centres, _) in zip(_terms(expansion), expansion.states(), strict=True):
        for position in positions[(positions >= start) & (positions < start + len(centres))]:
            support = expansion.support(int(position))
            base = box.mean(axis=1)
            centre = centres[position - start]
            for j, point in zip(subset, centre, strict=True):
                low = support[j, 0] if np.isfinite(support[j, 0]) else min(box[j, 0], point - 0.01)
                base[j] = point + 0.37 * (
                    low - point
                )  # between points: derivatives' features vanish at their own
            for j, point in zip(subset, centre, strict=True):
                _check_ends(expansion, int(position), base, j, point, support[j], box[j])
        start += len(centres)


def _check_ends(
    expansion: HierarchicalExpansion,
    position: int,
    base: np.ndarray,
    j: int,
    point: float,
    support: np.ndarray,
    box: np.ndarray,
) -> None:
    def value(at: float) -> float:
        x = base.copy()
        x[j] = at
        return float(expansion.features(x[None, :]).toarray()[0, position])

    for end, edge, side in ((support[0], box[0], "left"), (support[1], box[1], "right")):
        what = f"feature {position}, coordinate {j}, {side} end {end:g} of its support"
        if np.isfinite(end):
            gap = abs(point - end)
            inside, outside = (end + direction * np.sign(point - end) * INSIDE * gap for direction in (1, -1))
            require(value(inside) != 0.0, f"{what}: it should be non-zero just inside")
            require(value(end) == 0.0, f"{what}: it should be 0 there")
            if box[0] <= outside <= box[1]:
                require(value(outside) == 0.0, f"{what}: it should be 0 just outside")
        elif (edge < point) == (side == "left"):
            require(value(edge) != 0.0, f"{what}: it should be non-zero up to the edge of the domain")


def _check_residual(expansion: HierarchicalExpansion, inputs: np.ndarray, tolerance: float) -> None:
    prior = expansion.kernel.diagonal(inputs)
    explained = np.square(expansion.features(inputs).toarray()).sum(axis=1)
    require((prior - explained >= -tolerance * prior).all(), "|phi(x)|^2 should not exceed k(x, x)")
    residual = expansion.residual_variance(inputs)
    _require_small(residual - np.maximum(prior - explained, 0), prior, 1e-12, "residual_variance")
    if isinstance(expansion.kernel, Additive):
        return  # a node of one term is none of another's
    points, orders = expansion.states()[0]
    nodes = points[(orders == 0).all(axis=1)]
    at_nodes = expansion.residual_variance(nodes)
    _require_small(at_nodes, expansion.kernel.diagonal(nodes), tolerance, "residual_variance at the nodes")


def _check_prefix(expansion: HierarchicalExpansion, inputs: np.ndarray) -> None:
    grid = expansion.grid
    if not isinstance(grid, SparseGrid) or isinstance(expansion.kernel, Additive) or grid.level == 1:
        return
    smaller = HierarchicalExpansion(
        expansion.kernel, SparseGrid(grid.dim, grid.level - 1, sequence=grid.sequence)
    )
    part = smaller.size
    whole = expansion.inverse_cholesky()[:part, :part].toarray()
    require(
        np.allclose(whole, smaller.inverse_cholesky().toarray(), rtol=1e-13, atol=0),
        "the factor of level n should be the leading block of that of level n+1",
    )
    require(
        np.allclose(
            expansion.features(inputs)[:, :part].toarray(),
            smaller.features(inputs).toarray(),
            rtol=1e-13,
            atol=0,
        ),
        "the features of level n should be the first ones of level n+1",
    )
