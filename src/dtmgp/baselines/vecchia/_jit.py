"""Compiled loops of the Vecchia approximation: neighbour search, conditioning rows, products, solves, prediction.

Row i conditions on its ``min(i, m)`` neighbours, ``neighbours[i]``, all of them before i. Every row is written by
itself, so the results do not depend on how the rows are shared among threads.
"""

from __future__ import annotations

import numba
import numpy as np

MATERN12, MATERN32, MATERN52, EXP2 = 1, 3, 5, 0
LOG2_E = 1.4426950408889634
LN2_HIGH = (
    6.93147180369123816490e-01  # the upper 33 bits of ln 2: products with integers below 2^20 are exact
)
LN2_LOW = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits


@numba.njit(cache=True, nogil=True)
def exponential(values, count, scale):
    """``values[:count] = exp(values[:count])`` for arguments <= 0; below -700 they count as -700.

    2^n times the Taylor polynomial of degree 13 on |r| <= ln(2)/2. Branch-free, so that the loops become vector
    instructions: numba's own exp is a call per element, and half the time of a row.
    """
    bits = scale.view(np.int64)
    for i in range(count):
        x = values[i] if values[i] > -700.0 else -700.0
        shifted = x * LOG2_E + ROUND
        scale[i] = shifted
        n = shifted - ROUND
        r = (x - n * LN2_HIGH) - n * LN2_LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        values[i] = p * r + 1.0
    for i in range(count):
        bits[i] = (bits[i] << 52) + (1023 << 52)
    for i in range(count):
        values[i] *= scale[i]


@numba.njit(cache=True, nogil=True)
def correlations(values, count, covariance, theta, root, scale):
    """Turn squared distances into correlations in place; theta divides the squared distance."""
    inverse = 1.0 / theta
    if covariance == EXP2:
        for i in range(count):
            values[i] *= -inverse
        exponential(values, count, scale)
        return
    factor = covariance * inverse
    for i in range(count):
        root[i] = np.sqrt(values[i] * factor)
    for i in range(count):
        values[i] = -root[i]
    exponential(values, count, scale)
    if covariance == MATERN32:
        for i in range(count):
            values[i] *= 1.0 + root[i]
    elif covariance == MATERN52:
        for i in range(count):
            values[i] *= 1.0 + root[i] + root[i] * root[i] / 3.0


@numba.njit(cache=True, nogil=True)
def squared_distances(local, size, dims, values):
    """Packed lower triangle, row after row, of the squared distances between the first ``size`` rows of ``local``."""
    position = 0
    for j in range(size):
        for k in range(j + 1):
            total = 0.0
            for a in range(dims):
                difference = local[j, a] - local[k, a]
                total += difference * difference
            values[position] = total
            position += 1


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def cholesky(values, size):
    """Packed Cholesky factor in place, with *inverse* diagonal; False if a pivot is not positive."""
    for j in range(size):
        row = j * (j + 1) // 2
        for k in range(j):
            other = k * (k + 1) // 2
            total = values[row + k]
            for p in range(k):
                total -= values[row + p] * values[other + p]
            values[row + k] = total * values[other + k]
        total = values[row + j]
        for p in range(j):
            total -= values[row + p] * values[row + p]
        if not total > 0.0:
            return False
        values[row + j] = 1.0 / np.sqrt(total)
    return True


@numba.njit(cache=True, nogil=True)
def condition_rows(points, neighbours, covariance, theta, noise, first, last, entries, log_diagonal):
    """Rows ``first`` to ``last`` of U': the neighbours' entries, then the diagonal's in place ``min(i, m)``.

    U U' is the Vecchia precision of points (n, D) with correlation + diag(noise). Entries (n, m + 1). Where
    rounding leaves no positive pivot, log_diagonal is -inf. O(m^3) a row.
    """
    m = neighbours.shape[1]
    dims = points.shape[1]
    local = np.empty((m + 1, dims))
    packed = (m + 1) * (m + 2) // 2
    values, root, scale = np.empty(packed), np.empty(packed), np.empty(packed)
    for i in range(first, last):
        c = min(i, m)
        for j in range(c):
            local[j] = points[neighbours[i, j]]
        local[c] = points[i]
        squared_distances(local, c + 1, dims, values)
        correlations(values, (c + 1) * (c + 2) // 2, covariance, theta, root, scale)
        for j in range(c):
            values[j * (j + 3) // 2] += noise[neighbours[i, j]]
        values[c * (c + 3) // 2] += noise[i]
        if not cholesky(values, c + 1):
            log_diagonal[i] = -np.inf
            entries[i] = 0.0
            continue
        # L' u = e_c, from the last entry to the first, column by column of L'.
        for j in range(c):
            entries[i, j] = 0.0
        entries[i, c] = 1.0
        for j in range(c, -1, -1):
            row = j * (j + 1) // 2
            u = entries[i, j] * values[row + j]
            entries[i, j] = u
            for p in range(j):
                entries[i, p] -= values[row + p] * u
        log_diagonal[i] = np.log(entries[i, c])


@numba.njit(cache=True, nogil=True)
def whiten_rows(entries, neighbours, values):
    """``U' values`` (n,): independent standard normal numbers if the values have the covariance. O(n m)."""
    n, m = neighbours.shape
    white = np.empty(n)
    for i in range(n):
        c = min(i, m)
        total = entries[i, c] * values[i]
        for j in range(c):
            total += entries[i, j] * values[neighbours[i, j]]
        white[i] = total
    return white


@numba.njit(cache=True, nogil=True)
def colour_rows(entries, neighbours, white):
    """The inverse of ``whiten_rows``: values (n,) with the Vecchia covariance from standard normal numbers."""
    n, m = neighbours.shape
    values = np.empty(n)
    for i in range(n):
        c = min(i, m)
        total = white[i]
        for j in range(c):
            total -= entries[i, j] * values[neighbours[i, j]]
        values[i] = total / entries[i, c]
    return values


@numba.njit(cache=True, nogil=True)
def predict_rows(points, outputs, noise, queries, neighbours, covariance, theta, first, last, mean, variance):
    """Conditional mean and variance (without noise) at the queries, each given its own neighbours among the points.

    NaN where rounding leaves no positive pivot. O(m^3) a query.
    """
    m = neighbours.shape[1]
    dims = points.shape[1]
    local = np.empty((m + 1, dims))
    packed = (m + 1) * (m + 2) // 2
    values, root, scale = np.empty(packed), np.empty(packed), np.empty(packed)
    white = np.empty(m)
    for i in range(first, last):
        for j in range(m):
            local[j] = points[neighbours[i, j]]
        local[m] = queries[i]
        squared_distances(local, m + 1, dims, values)
        correlations(values, packed, covariance, theta, root, scale)
        for j in range(m):
            values[j * (j + 3) // 2] += noise[neighbours[i, j]]
        # The last pivot is the variance; it may round to zero or below at a training point, so it is not inverted.
        last_row = m * (m + 1) // 2
        if not cholesky(values, m):
            mean[i] = np.nan
            variance[i] = np.nan
            continue
        total, left = 0.0, values[last_row + m]
        for j in range(m):
            row = j * (j + 1) // 2
            output, cross = outputs[neighbours[i, j]], values[last_row + j]
            for p in range(j):
                output -= values[row + p] * white[p]
                cross -= values[row + p] * values[last_row + p]
            white[j] = output * values[row + j]
            values[last_row + j] = cross * values[row + j]
            total += white[j] * values[last_row + j]
            left -= values[last_row + j] * values[last_row + j]
        mean[i] = total
        variance[i] = max(left, 0.0)


@numba.njit(cache=True, nogil=True)
def _nearest(points, point, end, best, chosen):
    """The nearest of the points before ``end``, sorted by distance; the earlier index wins a tie.

    ``best`` and ``chosen`` have one place per neighbour.
    """
    count, dims = len(chosen), points.shape[1]
    filled = 0
    farthest = np.inf
    for k in range(end):
        distance = 0.0
        for a in range(dims):
            difference = point[a] - points[k, a]
            distance += difference * difference
        if filled == count and not distance < farthest:
            continue
        position = filled if filled < count else count - 1
        while position > 0 and best[position - 1] > distance:
            best[position] = best[position - 1]
            chosen[position] = chosen[position - 1]
            position -= 1
        best[position] = distance
        chosen[position] = k
        if filled < count:
            filled += 1
        farthest = best[filled - 1]


@numba.njit(cache=True, nogil=True)
def nearest_before(points, count):
    """The ``count`` nearest points before each point, nearest first, -1 where there are fewer. O(n^2 D)."""
    n = points.shape[0]
    neighbours = np.full((n, count), -1, dtype=np.int64)
    best = np.empty(count)
    for i in range(1, n):
        _nearest(points, points[i], i, best, neighbours[i])
    return neighbours


@numba.njit(cache=True, nogil=True)
def nearest_to_queries(points, queries, first, last, neighbours):
    """Fill in the nearest points of the queries ``first`` to ``last``, nearest first. O(n D) a query."""
    best = np.empty(neighbours.shape[1])
    for i in range(first, last):
        _nearest(points, queries[i], points.shape[0], best, neighbours[i])
