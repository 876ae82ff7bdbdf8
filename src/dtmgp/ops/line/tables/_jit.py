"""Compiled tables of Matern-(p+1/2) features and their derivatives in the lengthscale, Laplace being p = 0.

Everything is analytic in the rate ``sqrt(2p + 1)/lengthscale``, so the derivative is the imaginary part at a rate with
a small imaginary part (the complex step): exact, without differences and without a second formula. Matrices are
symmetric or triangular in the complex sense, without conjugation.
"""

from __future__ import annotations

import numba
import numpy as np

LONG = 400.0  # as in dtmgp.ops.line.kernels
SPLIT = 3.0  # below, P(m, z) is summed as a series, above as a complement
SERIES = 28
STEP = 1e-100  # the imaginary part, relative to the rate: its square is 0 in float64


@numba.njit(nogil=True)
def _noise(t, coefficients, unit, out, gammas):
    """``Q_ij(t) unit^(i+j)``."""
    size, terms = coefficients.shape[0], coefficients.shape[2]
    z = 2.0 * t
    decay = np.exp(-z)
    power = decay
    tail = decay
    for k in range(1, terms):
        power = power * z / k
        gammas[k - 1] = power
        tail += power
    if z.real < SPLIT:
        series = 1.0 + 0.0j
        for k in range(SERIES, 0, -1):
            series = series * z / (terms + k) + 1.0
        gammas[terms - 1] = power * z / terms * series
    else:
        gammas[terms - 1] = 1.0 - tail
    for k in range(terms - 1, 0, -1):
        gammas[k - 1] += gammas[k]
    for i in range(size):
        for j in range(size):
            total = 0.0j
            for k in range(terms):
                total += coefficients[i, j, k] * gammas[k]
            out[i, j] = total * unit ** (i + j)


@numba.njit(nogil=True)
def _invert(matrix, out):
    """The inverse of a matrix whose real part is positive definite; overwrites the matrix."""
    size = matrix.shape[0]
    out[:] = 0
    for i in range(size):
        out[i, i] = 1
    for i in range(size):
        pivot = 1 / matrix[i, i]
        for k in range(size):
            matrix[i, k] *= pivot
            out[i, k] *= pivot
        for j in range(size):
            factor = matrix[j, i]
            if j != i and factor != 0:
                for k in range(size):
                    matrix[j, k] -= factor * matrix[i, k]
                    out[j, k] -= factor * out[i, k]


@numba.njit(nogil=True)
def _factor(matrix):
    """The lower triangular L with ``L L^T`` the matrix, in its place."""
    size = matrix.shape[0]
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = np.sqrt(total) if i == j else total / matrix[j, j]
        for j in range(i + 1, size):
            matrix[i, j] = 0


@numba.njit(nogil=True, cache=True)
def tables(gaps, rates, coefficients, powers, out, slopes):
    """``out`` and ``slopes`` (derivatives in the rate), (J, classes, 2, s, s), from gaps (classes, 2) and rates."""
    size = coefficients.shape[0]
    gammas = np.empty(coefficients.shape[2], np.complex128)
    work = np.empty((5, size, size), np.complex128)
    noise, before, after, moved, total = work[0], work[1], work[2], work[3], work[4]
    for j in range(rates.shape[0]):
        rate = complex(rates[j], STEP * rates[j])
        for c in range(gaps.shape[0]):
            left, right = gaps[c, 0] * rate, gaps[c, 1] * rate
            if left.real > LONG:
                left = LONG + 0.0j
            if right.real > LONG:
                right = LONG + 0.0j
            unit = min(left.real, right.real, 1.0)  # states scaled by its powers are of one size
            _noise(left, coefficients, unit, noise, gammas)
            _invert(noise, before)
            _noise(right, coefficients, unit, noise, gammas)
            _invert(noise, after)
            decay = np.exp(-right)
            for a in range(size):
                for b in range(size):
                    value = 0.0j
                    for k in range(size - 1, -1, -1):
                        value = value * right + powers[k, a, b]
                    moved[a, b] = value * decay * unit**a / unit**b
            for a in range(size):
                for b in range(size):
                    value = before[a, b]
                    for k in range(size):
                        for m in range(size):
                            value += moved[k, a] * after[k, m] * moved[m, b]
                    total[a, b] = value
            _invert(total, noise)
            _factor(noise)
            for a in range(size):
                for f in range(size):
                    rising, falling = 0.0j, 0.0j
                    for k in range(size):
                        rising += before[a, k] * noise[k, f]
                        falling += (1.0 - 2.0 * (k % 2)) * after[a, k] * noise[k, f]
                    scale = unit**a
                    out[j, c, 0, a, f], out[j, c, 1, a, f] = rising.real * scale, falling.real * scale
                    slopes[j, c, 0, a, f] = rising.imag * scale / (STEP * rates[j])
                    slopes[j, c, 1, a, f] = falling.imag * scale / (STEP * rates[j])
