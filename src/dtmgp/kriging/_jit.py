"""Compiled loops of the exact model: Gram matrices and products over active entries, and the features' gradient."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def add_gram(data, columns, gram):
    """``gram += Psi^T Psi``, lower triangle, from active entries (n, T) in increasing column order: T^2/2 per row."""
    for n in range(data.shape[0]):
        for a in range(data.shape[1]):
            value = data[n, a]
            row = gram[columns[n, a]]
            for b in range(a + 1):
                row[columns[n, b]] += value * data[n, b]


@numba.njit(cache=True, nogil=True)
def active_product(data, columns, matrix, out):
    """``out[n, a] = sum_b matrix[col_a, col_b] data[n, b]`` for a symmetric matrix: T^2 per row."""
    for n in range(data.shape[0]):
        for a in range(data.shape[1]):
            row = matrix[columns[n, a]]
            total = 0.0
            for b in range(data.shape[1]):
                total += row[columns[n, b]] * data[n, b]
            out[n, a] = total


@numba.njit(cache=True, nogil=True)
def scatter(data, columns, out):
    """Active entries into zeroed dense rows."""
    for n in range(data.shape[0]):
        for a in range(data.shape[1]):
            out[n, columns[n, a]] = data[n, a]


@numba.njit(cache=True, nogil=True)
def tensor_features_backward(values, parents, last_dim, last_level, data, gradient, out):
    """Gradient in the one-dimensional values (n, d, L) from that in the active features (n, T): the tree in reverse.

    ``gradient`` is overwritten. Rows whose level-1 values underflow have vanishing features and get zeros.
    """
    rows, dims, levels = values.shape
    ratio = np.empty((dims, levels))
    slope = np.empty((dims, levels))
    for n in range(rows):
        out[n] = 0.0
        smallest = np.inf
        for j in range(dims):
            smallest = min(smallest, values[n, j, 0])
        if not smallest > 1e-100 or not abs(data[n, 0]) > 1e-100:
            continue
        for j in range(dims):
            inverse = 1.0 / values[n, j, 0]
            for k in range(1, levels):
                ratio[j, k] = values[n, j, k] * inverse
                slope[j, k] = 0.0
        for t in range(parents.shape[0] - 1, 0, -1):
            parent, j, k = parents[t], last_dim[t], last_level[t] - 1
            slope[j, k] += gradient[n, t] * data[n, parent]
            gradient[n, parent] += gradient[n, t] * ratio[j, k]
        common = gradient[n, 0] * data[n, 0]
        for j in range(dims):
            inverse = 1.0 / values[n, j, 0]
            total = common
            for k in range(1, levels):
                out[n, j, k] = slope[j, k] * inverse
                total -= slope[j, k] * ratio[j, k]
            out[n, j, 0] = total * inverse


@numba.njit(cache=True, nogil=True)
def dual_gram(data, columns, out):
    """``out = Psi Psi^T``, lower triangle: entry t of two rows meets only if both have the same column: n^2 T / 2."""
    rows, active = data.shape
    for i in range(rows):
        for j in range(i + 1):
            total = 0.0
            for t in range(active):
                total += data[i, t] * data[j, t] if columns[i, t] == columns[j, t] else 0.0
            out[i, j] = total


@numba.njit(cache=True, nogil=True)
def dual_product(matrix, data, columns, out):
    """``out[i, t] = sum_j matrix[i, j] Psi[j, col_t(i)]`` at the active entries of row i: n^2 T."""
    rows, active = data.shape
    for i in range(rows):
        out[i] = 0.0
        for j in range(rows):
            weight = matrix[i, j]
            for t in range(active):
                out[i, t] += weight * data[j, t] if columns[i, t] == columns[j, t] else 0.0


@numba.njit(cache=True, nogil=True)
def normal_product(data, columns, weight, vectors, out):
    """``out += Psi^T diag(weight) Psi vectors`` for a block of k vectors (p, k): 2 T k per row, one pass."""
    width = vectors.shape[1]
    fitted = np.empty(width)
    for n in range(data.shape[0]):
        fitted[:] = 0.0
        for a in range(data.shape[1]):
            value = data[n, a]
            row = vectors[columns[n, a]]
            for k in range(width):
                fitted[k] += value * row[k]
        for k in range(width):
            fitted[k] *= weight[n]
        for a in range(data.shape[1]):
            value = data[n, a]
            row = out[columns[n, a]]
            for k in range(width):
                row[k] += value * fitted[k]


@numba.njit(cache=True, nogil=True)
def transposed_product(data, columns, vectors, out):
    """``out += Psi^T vectors`` for a block of k vectors (n, k)."""
    for n in range(data.shape[0]):
        for a in range(data.shape[1]):
            value = data[n, a]
            row = out[columns[n, a]]
            for k in range(vectors.shape[1]):
                row[k] += value * vectors[n, k]


@numba.njit(cache=True, nogil=True)
def add_diagonal(data, columns, weight, out):
    """``out += diag(Psi^T diag(weight) Psi)``."""
    for n in range(data.shape[0]):
        for a in range(data.shape[1]):
            out[columns[n, a]] += weight[n] * data[n, a] * data[n, a]
