"""One inserted point in 250 digits, from closed-form covariances of values and derivatives alone."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np

DIGITS = 250  # a 9 x 9 Cholesky factor of Matern-5/2 states 1e-9 lengthscales apart loses about 100


def polynomials(order, terms):
    """Coefficients of P_n in (d/dt)^n of P_0(t) exp(-t), P_0 = 1, 1 + t, 1 + t + t^2/3 for order 0, 1, 2."""
    rows = [{0: [1], 1: [1, 1], 2: [1, 1, mp.mpf(1) / 3]}[order]]
    for _ in range(terms):
        last = rows[-1]
        slope = [(k + 1) * c for k, c in enumerate(last[1:])] + [0]
        rows.append([s - c for s, c in zip(slope, last)])
    return rows


def matern_state(order, lengthscale):
    """Cov(G^(i)(x), G^(j)(y)) = (-1)^j K^(i+j)(x - y) for K(u) = P_0(r|u|) exp(-r|u|); order 0 is Laplace."""
    with mp.workdps(DIGITS):
        rate = mp.sqrt(2 * order + 1) / mp.mpf(lengthscale)
        table = polynomials(order, 2 * order)

    def covariance(x, i, y, j):
        n = i + j
        gap = x - y
        t = rate * abs(gap)
        value = rate**n * mp.exp(-t) * mp.polyval(table[n][::-1], t)
        if gap < 0:
            value *= (-1) ** n
        elif gap == 0 and n % 2:
            value = mp.mpf(0)
        return (-1) ** j * value

    return covariance, order + 1


def markov_state(p, q):
    """p(min) q(max), one state per point."""

    def covariance(x, i, y, j):
        return p(min(x, y)) * q(max(x, y))

    return covariance, 1


def inserted(state, a, b, c, inputs):
    """(columns of R^-1 for the states of b on those of [a, c, b], features at the inputs): floats from 250 digits."""
    with mp.workdps(DIGITS):
        covariance, size = state
        places = [(mp.mpf(float(x)), i) for x in (a, c, b) if math.isfinite(x) for i in range(size)]
        matrix = mp.matrix(len(places), len(places))
        for r, (x, i) in enumerate(places):
            for s, (y, j) in enumerate(places):
                matrix[r, s] = covariance(x, i, y, j)
        lower = mp.cholesky(matrix)
        columns, features = [], []
        for f in range(len(places) - size, len(places)):
            unit = mp.matrix(len(places), 1)
            unit[f] = 1
            columns.append(mp.lu_solve(lower.T, unit))
        for x in inputs:
            at = mp.mpf(float(x))
            cross = [covariance(at, 0, y, j) for y, j in places]
            features.append([sum(k * col[r] for r, k in enumerate(cross)) for col in columns])
        return (
            np.array([[float(col[r]) for col in columns] for r in range(len(places))]),
            np.array([[float(v) for v in row] for row in features]),
        )
