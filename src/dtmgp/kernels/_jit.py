"""Compiled feature values of the kernels that have closed forms: one pass over inputs, no temporaries.

Tables are those of ``Local``; ``position[n]`` is the row that belongs to ``x[n]``. Cached on disk.
"""

from __future__ import annotations

import math

import numba
import numpy as np

UNDERFLOW = 745.0  # exp(-x) is 0 in float64 beyond


@numba.njit(cache=True, nogil=True)
def laplace_features(x, position, left, centre, right, rising, falling, rate, values):
    """``table * exp(-r) (1 - exp(-2t))``: r to the centre, t to the outer neighbour, in lengthscales."""
    for n in range(x.shape[0]):
        i = position[n]
        offset = x[n] - centre[i]
        if offset <= 0.0:
            outer, table = x[n] - left[i], rising[i]
        else:
            outer, table = right[i] - x[n], falling[i]
        if outer > 0.0:
            values[n] = table * math.exp(-abs(offset) * rate) * -math.expm1(-2.0 * rate * outer)
        else:
            values[n] = 0.0


@numba.njit(cache=True, nogil=True)
def _incomplete_gammas(z, gammas):
    """``P(k, z)`` for k = 1..len(gammas): the last by series or complement, the others by adding positive terms."""
    last = gammas.shape[0]
    if z > UNDERFLOW:
        gammas[:] = 1.0
        return
    decay = math.exp(-z)
    if z < 1.5 + last:
        term = 1.0
        total = 1.0
        n = last
        while term > 1e-17 * total:
            n += 1
            term *= z / n
            total += term
        power = decay
        for k in range(1, last + 1):
            power *= z / k
        gammas[last - 1] = power * total
    else:
        term = 1.0
        total = 1.0
        for k in range(1, last):
            term *= z / k
            total += term
        gammas[last - 1] = 1.0 - decay * total
    power = decay
    for k in range(1, last):  # power = z^k e^-z / k!, stored first, accumulated downwards
        power *= z / k
        gammas[k - 1] = power
    for k in range(last - 1, 0, -1):
        gammas[k - 1] += gammas[k]


@numba.njit(cache=True, nogil=True)
def matern_features(x, position, left, centre, right, rising, falling, rate, noise_row, nilpotent, values):
    """``e1^T Q(t) F(r)^T table``; noise_row (s, k) are the incomplete-gamma coefficients of the first row of Q."""
    size = rising.shape[1]
    terms = noise_row.shape[1]
    gammas = np.empty(terms)
    first = np.empty(size)
    weight = np.empty(size)
    for n in range(x.shape[0]):
        i = position[n]
        offset = x[n] - centre[i]
        rises = offset <= 0.0
        outer = (x[n] - left[i] if rises else right[i] - x[n]) * rate
        inner = abs(offset) * rate
        if outer <= 0.0 or inner > UNDERFLOW:
            values[n, :] = 0.0
            continue
        is_open = outer == math.inf
        if not is_open:
            _incomplete_gammas(2.0 * outer, gammas)
            for j in range(size):
                total = 0.0
                for k in range(terms):
                    total += noise_row[j, k] * gammas[k]
                first[j] = total
        decay = math.exp(-inner)
        weight[:] = 0.0
        for k in range(size):
            for j in range(size):
                if is_open:
                    weight[j] += decay * nilpotent[k, 0, j]
                else:
                    for i2 in range(size):
                        weight[j] += decay * nilpotent[k, j, i2] * first[i2]
            decay *= inner
        table = rising[i] if rises else falling[i]
        for f in range(size):
            total = 0.0
            for j in range(size):
                total += weight[j] * table[j, f]
            values[n, f] = total
