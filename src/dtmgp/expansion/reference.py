"""The paper's algorithms as they are printed, with plain loops: the readable definition, and the oracle of the tests.

Nothing here is fast and nothing here uses the hierarchical code. Kernels are functions ``k(x, y)`` of two
one-dimensional arrays that return their covariance matrix. Vectors and matrices are dense, in the required order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular

from dtmgp.kernels import AbstractLineKernel, Additive, Tensor

Array = np.ndarray
LineCovariance = Callable[[Array, Array], Array]


# --- points (Appendix A) ----------------------------------------------------------------------------------


def sorted_dyadic(level: int) -> list[float]:
    """``X*_level = [D_1, .., D_level]`` with ``D_l = {i 2^-l, i odd}``.

    >>> sorted_dyadic(2)
    [0.5, 0.25, 0.75]
    """
    return [i / 2**ell for ell in range(1, level + 1) for i in range(1, 2**ell, 2)]


def multi_indices(dim: int, least: int, most: int) -> list[tuple[int, ...]]:
    """All multi-indices with ``least <= |l| <= most``, by ``|l|``, then lexicographic.

    >>> multi_indices(2, 2, 3)
    [(1, 1), (1, 2), (2, 1)]
    """
    cube = itertools.product(range(1, max(most - dim, 0) + 2), repeat=dim)
    inside = [levels for levels in cube if least <= sum(levels) <= most]
    return sorted(inside, key=lambda levels: (sum(levels), levels))


def sparse_grid_points(dim: int, level: int) -> list[tuple[float, ...]]:
    """``X^SG_level`` in the required order.

    Deviation: Appendix A prints ``|l| <= level`` once; the set is ``|l| <= level + dim - 1``, as the size formula says.

    >>> sparse_grid_points(2, 2)
    [(0.5, 0.5), (0.5, 0.25), (0.5, 0.75), (0.25, 0.5), (0.75, 0.5)]
    """
    points: list[tuple[float, ...]] = []
    for levels in multi_indices(dim, dim, level + dim - 1):
        points += itertools.product(*([i / 2**ell for i in range(1, 2**ell, 2)] for ell in levels))
    return points


def full_grid_points(levels: Iterable[int]) -> list[tuple[float, ...]]:
    """``X*_l``, the Cartesian product of sorted dyadic sets in the order of Kronecker products."""
    return list(itertools.product(*(sorted_dyadic(ell) for ell in levels)))


def _combination(dim: int, level: int) -> Iterable[tuple[int, Int[Array, " k"], tuple[int, ...]]]:
    """Signed binomial, positions of ``X*_l`` within the sparse grid, and ``l``, for all l of the formula."""
    place = {point: position for position, point in enumerate(sparse_grid_points(dim, level))}
    for levels in multi_indices(dim, max(level, dim), level + dim - 1):
        gap = level + dim - 1 - sum(levels)
        inside = np.array([place[point] for point in full_grid_points(levels)])
        yield (-1) ** gap * math.comb(dim - 1, gap), inside, levels


# --- the inverse Cholesky factor (Appendix B) ---------------------------------------------------------------


def solve_equation_14(
    kernel: LineCovariance, x_left: float, x: float, x_right: float
) -> tuple[float, float, float]:
    """``c_1, c_2, c_3`` of eq. (14), ``c = K^-1 e_2 / sqrt(e_2^T K^-1 e_2)`` for the covariance K of the three points.

    The first two conditions say that ``K c`` vanishes at both neighbours, so ``c`` is a multiple of ``K^-1 e_2``; the
    third, ``c^T K c = 1``, fixes the multiple up to the sign, which is taken positive. Where a neighbour is
    infinite, ``k(+-inf, .) = 0`` leaves its coefficient free, and it is set to 0.
    """
    three = np.array([x_left, x, x_right])
    present = np.flatnonzero(np.isfinite(three))
    covariance = np.asarray(kernel(three[present], three[present]), dtype=np.float64)
    middle = (present == 1).astype(np.float64)
    c = np.linalg.solve(covariance, middle)
    coefficients = np.zeros(3)
    coefficients[present] = c / np.sqrt(middle @ c)
    return float(coefficients[0]), float(coefficients[1]), float(coefficients[2])


def algorithm_1(kernel: LineCovariance, points: npt.ArrayLike) -> Float[Array, "m m"]:
    """``R^-1`` of a one-dimensional Markov kernel, point by point. Paper: Alg. 1 / eq. (14).

    Deviation: ``points`` may be any nested sequence in its order of insertion, not only a sorted dyadic set, since
    the neighbours are searched among the points inserted so far.

    >>> algorithm_1(lambda x, y: np.minimum(x[:, None], y), [0.25, 1.0])
    array([[ 2.        , -1.15470054],
           [ 0.        ,  1.15470054]])
    """
    sequence = [float(x) for x in np.asarray(points, dtype=np.float64).ravel()]
    inverse = np.zeros((len(sequence), len(sequence)))
    inserted: dict[float, int] = {}  # the paper's set N without its two infinities
    for column, x in enumerate(sequence):
        x_left = max((y for y in inserted if y < x), default=-math.inf)
        x_right = min((y for y in inserted if y > x), default=math.inf)
        c_1, c_2, c_3 = solve_equation_14(kernel, x_left, x, x_right)
        if x_left != -math.inf:
            inverse[inserted[x_left], column] = c_1
        if x_right != math.inf:
            inverse[inserted[x_right], column] = c_3
        inverse[column, column] = c_2
        inserted[x] = column
    return inverse


def algorithm_2(kernels: Sequence[LineCovariance], level: int) -> Float[Array, "m m"]:
    """``R_level^-1`` of a tensor kernel on a sparse grid, by the combination formula. Paper: Alg. 2 / eqs. (15), (16).

    Deviation: the sum starts at ``|l| = max(level, d)``, below which there are no multi-indices.

    >>> k = lambda x, y: np.exp(-0.5 * abs(x[:, None] - y))
    >>> algorithm_2([k, k], 2)[0].round(4)
    array([ 1.    , -1.8764, -1.8764, -1.8764, -1.8764])
    """
    dim = len(kernels)
    size = len(sparse_grid_points(dim, level))
    inverse = np.zeros((size, size))
    for weight, inside, levels in _combination(dim, level):
        factors = [algorithm_1(k, sorted_dyadic(ell)) for k, ell in zip(kernels, levels, strict=True)]
        inverse[np.ix_(inside, inside)] += weight * reduce(np.kron, factors)
    return inverse


# --- the supplement's algorithms ----------------------------------------------------------------------------


def solve_reference(
    kernels: Sequence[LineCovariance], level: int, a: Float[Array, "r m"]
) -> Float[Array, "r m"]:
    """``A K^-1`` on a sparse grid by the combination formula. Supplement, section 2, eq. (P).

    Deviations: the result has the shape of A (printed as m x m), and the columns of A that enter a term are those of
    the full grid ``X*_l`` with the multi-index l of the term (the printed index is the scalar level).
    """
    result = np.zeros(a.shape)
    for weight, inside, levels in _combination(len(kernels), level):
        covariance: Array = np.ones((1, 1))
        for kernel, ell in zip(kernels, levels, strict=True):
            line = np.array(sorted_dyadic(ell))
            covariance = np.kron(covariance, kernel(line, line))
        result[:, inside] += weight * np.linalg.solve(covariance, a[:, inside].T).T
    return result


def features_1d(kernel: LineCovariance, points: npt.ArrayLike, x: float) -> Float[Array, " m"]:
    """``phi(x) = R^-T k(X, x)`` of a one-dimensional Markov kernel. Supplement, section 4, eq. (s.1).

    Deviation: the points may be any nested sequence, as in `algorithm_1`.
    """
    sequence = [float(y) for y in np.asarray(points, dtype=np.float64).ravel()]
    phi = np.zeros(len(sequence))
    for number, y in enumerate(sequence):
        before = sequence[:number]
        x_left = max((z for z in before if z < y), default=-math.inf)
        x_right = min((z for z in before if z > y), default=math.inf)
        c = solve_equation_14(kernel, x_left, y, x_right)
        for coefficient, z in zip(c, (x_left, y, x_right), strict=True):
            if math.isfinite(z):
                phi[number] += coefficient * kernel(np.array([z]), np.array([x]))[0, 0]
    return phi


def features_sparse_grid(
    kernels: Sequence[LineCovariance], level: int, x: npt.ArrayLike
) -> Float[Array, " m"]:
    """``phi(x)`` of a tensor kernel on a sparse grid. Supplement, section 4, eqs. (s.2), (s.3).

    Note: the supplement's example lists the features of its second point with dimension 1 first; here as everywhere
    they come in the required order.
    """
    coordinates = [float(value) for value in np.asarray(x, dtype=np.float64).ravel()]
    dim = len(kernels)
    phi = np.zeros(len(sparse_grid_points(dim, level)))
    for weight, inside, levels in _combination(dim, level):
        factors = [
            features_1d(kernel, sorted_dyadic(ell), value)
            for kernel, ell, value in zip(kernels, levels, coordinates, strict=True)
        ]
        phi[inside] += weight * reduce(np.kron, factors)
    return phi


# --- the definition, for every kernel -----------------------------------------------------------------------


def _terms(kernel: Tensor | Additive) -> list[tuple[tuple[int, ...], Tensor]]:
    return list(kernel.terms) if isinstance(kernel, Additive) else [(tuple(range(kernel.dim)), kernel)]


def _line_covariance(
    kernel: AbstractLineKernel,
    x: Float[Array, " n"],
    x_order: Int[Array, " n"],
    y: Float[Array, " m"],
    y_order: Int[Array, " m"],
) -> Float[Array, "n m"]:
    """``Cov(G^(i)(x), G^(j)(y))`` for the order i of every x and j of every y."""
    if kernel.state_size == 1:
        return np.asarray(kernel(x, y))
    result = np.empty((len(x), len(y)))
    for i, j in itertools.product(range(kernel.state_size), repeat=2):
        rows, columns = np.flatnonzero(x_order == i), np.flatnonzero(y_order == j)
        states = kernel.state_covariance(x[rows][:, None], y[columns][None, :])
        result[np.ix_(rows, columns)] = states[:, :, i, j]
    return result


def dense_covariances(expansion: Any, x: npt.ArrayLike) -> list[tuple[Array, Array]]:
    """Per term of the kernel: ``Cov(states, states)`` and ``Cov(G(x), states)``."""
    inputs = np.asarray(x, dtype=np.float64).reshape(-1, expansion.kernel.dim)
    pairs = []
    for (subset, tensor), (points, orders) in zip(_terms(expansion.kernel), expansion.states(), strict=True):
        covariance = np.full((len(points), len(points)), tensor.variance)
        cross = np.full((len(inputs), len(points)), tensor.variance)
        value = np.zeros(len(inputs), dtype=np.int64)
        for j, kernel in enumerate(tensor.kernels):
            at, order = points[:, j], orders[:, j]
            covariance *= _line_covariance(kernel, at, order, at, order)
            cross *= _line_covariance(kernel, inputs[:, subset[j]], value, at, order)
        pairs.append((covariance, cross))
    return pairs


def dense_inverse_cholesky(covariance: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """``R^-1``, upper triangular, by Cholesky of the correlation matrix.

    Scaling to a unit diagonal costs nothing for values and keeps derivatives, whose units differ, comparable.
    """
    scale = 1.0 / np.sqrt(np.diag(covariance))
    lower = np.linalg.cholesky(covariance * scale * scale[:, None])
    return np.asarray(scale[:, None] * solve_triangular(lower, np.eye(len(lower)), lower=True).T)


def dense_features(expansion: Any, x: npt.ArrayLike) -> Float[Array, "n m"]:
    """``phi(x) = Cov(G(x), states) R^-1`` with R by dense Cholesky: the definition, eq. (9), for every kernel.

    Deviation: a Matern kernel is not Markov; its states hold derivatives beside values, and their covariances take the
    place of ``k(X, X)`` and ``k(x, X)``. For the other kernels states are the grid's points. O(m^3 + n m^2).

    >>> from dtmgp.expansion import HierarchicalExpansion
    >>> from dtmgp.grids import SparseGrid
    >>> from dtmgp.kernels import Laplace
    >>> (
    ...     dense_features(
    ...         HierarchicalExpansion(Laplace(), SparseGrid(2, 2)), [[0.8147237, 0.9057919]]
    ...     ).round(4)
    ...     + 0.0
    ... )
    array([[0.4865, 0.    , 0.3918, 0.    , 0.3918]])
    """
    return np.concatenate(
        [cross @ dense_inverse_cholesky(covariance) for covariance, cross in dense_covariances(expansion, x)],
        axis=1,
    )
