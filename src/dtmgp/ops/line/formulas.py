"""Matern-(p+1/2) features of one side of a point, Laplace being p = 0, and their slopes, for vectors of inputs.

``value_f = sum_j w_j(r, t) table[j, f]`` with ``w = F(r) Q(t)[0]``: r to the centre, t to the outer neighbour, both in
dimensionless time. With ``m = 2p + 1`` and P the regularised incomplete gamma function, adding positive terms gives

    Q(t)[0, i] = S_i P(m, 2t) + exp(-2t) c_i(t),    c_i a polynomial without terms below the order of Q[0, i],

(Matern-3/2: ``P(3, 2t)`` and ``2 t^2 exp(-2t)``) and ``dQ[0, i]/dt = kappa h_0 h_i``, ``dw/dr = A w`` (A generates F).
Formulas as in ``dtmgp.kernels.matern``.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from dtmgp.kernels.matern import _impulse_response, _nilpotent_powers, _noise_coefficients
from dtmgp.ops.simd.lanes import Lanes, combination, exponential

LONG = 400.0  # as in dtmgp.ops.line.kernels
SPLIT = {
    True: 3.0,
    False: 2.0,
}  # float64, float32: below, P(m, z) is summed as a series, above as a complement
SERIES = {True: 28, False: 12}  # terms: z^28 3!/31! < 2e-20 at z = 3, z^12 3!/15! < 2e-8 at z = 2


class Constants(NamedTuple):
    """Coefficients of one order, as nested lists."""

    stationary: list[float]  # S_i
    extra: list[list[float]]  # c_i(z), in powers of z = 2t
    slope: list[list[float]]  # kappa h_0 h_i exp(2t), in powers of t
    powers: list[list[list[float]]]  # N^k / k!
    generator: list[list[float]]


@cache
def constants(order: int) -> Constants:
    """The constants of Matern-(order + 1/2)."""
    size, terms = order + 1, 2 * order + 1
    noise, powers, response = (
        _noise_coefficients(order)[0],
        _nilpotent_powers(order),
        _impulse_response(order),
    )
    kappa = 2.0**terms * math.factorial(order) ** 2 / math.factorial(2 * order)
    # P(k, z) = P(m, z) + exp(-z) sum_{j=k}^{m-1} z^j / j!
    factorials = np.array([math.factorial(j) for j in range(terms)], dtype=float)
    below = np.concatenate([np.zeros((size, 1)), np.cumsum(noise, axis=1)[:, :-1]], axis=1)
    stationary = noise.sum(1)
    below[abs(below) < 1e-14], stationary[abs(stationary) < 1e-14] = 0.0, 0.0
    slope = [(kappa * np.convolve(response[0], row)).tolist() for row in response]
    generator = (powers[1] if order else np.zeros((1, 1))) - np.eye(size)
    return Constants(
        stationary.tolist(),
        (below / factorials).tolist(),
        slope,
        powers.tolist(),
        generator.tolist(),
    )


class Weights(NamedTuple):
    """The weights and what their slopes share with them."""

    values: list[Lanes]
    r: Lanes
    t: Lanes | None
    decay: Lanes  # exp(-r)
    outer_decay: Lanes | None  # exp(-2t)


def _times_power(z: Lanes, coefficients: list[float]) -> Lanes | None:
    """A polynomial; its lowest powers are multiplied out."""
    kept = [k for k, c in enumerate(coefficients) if c != 0]
    if not kept:
        return None
    value = z.polynomial(coefficients[kept[0] : kept[-1] + 1])
    for _ in range(kept[0]):
        value = value * z
    return value


def _transition(order: int, r: Lanes, decay: Lanes, first: list[Lanes | None]) -> list[Lanes]:
    """``F(r) first``; None in place of zeros."""
    powers = constants(order).powers
    found = []
    for j in range(order + 1):
        total: Lanes | None = None
        for k in range(order, -1, -1):
            term = combination([(powers[k][j][i], f) for i, f in enumerate(first) if f is not None])
            if total is None:
                total = term
            else:
                total = total * r if term is None else total.fma(r, term)
        found.append((r.constant(0.0) if total is None else total) * decay)
    return found


def _noise_row(order: int, t: Lanes) -> tuple[list[Lanes | None], Lanes]:
    """``Q(t)[0]`` and ``exp(-2t)``."""
    if order == 0:
        shared = exponential(t * -2.0, minus_one=True)
        return [-shared], shared + 1.0
    known, terms, z = constants(order), 2 * order + 1, t + t
    decay = exponential(-z)
    series = [math.factorial(terms) / math.factorial(terms + n) for n in range(SERIES[t.double] + 1)]
    power = z
    for _ in range(terms - 1):
        power = power * z
    small = z.polynomial(series) * (power * (1.0 / math.factorial(terms))) * decay
    tail = z.polynomial([1.0 / math.factorial(k) for k in range(terms)]) * decay
    gamma = small.where(z.below(SPLIT[t.double]), -tail + 1.0)
    row: list[Lanes | None] = []
    for share, extra in zip(known.stationary, known.extra, strict=True):
        rest = _times_power(z, extra)
        row.append(combination([(share, gamma), *([(1.0, rest * decay)] if rest is not None else [])]))
    return row, decay


def weights(order: int, r: Lanes, t: Lanes | None) -> Weights:
    """``w = F(r) Q(t)[0]``; None for a neighbour that is infinitely far."""
    decay = exponential(-r)
    if t is None:
        stationary = constants(order).stationary
        ones = [r.constant(s) if s else None for s in stationary]
        return Weights(_transition(order, r, decay, ones), r, None, decay, None)
    row, outer_decay = _noise_row(order, t)
    return Weights(_transition(order, r, decay, row), r, t, decay, outer_decay)


def slopes(order: int, at: Weights) -> tuple[list[Lanes], list[Lanes] | None]:
    """``dw/dr`` and ``dw/dt``."""
    known = constants(order)
    by_inner = [combination(list(zip(row, at.values, strict=True))) for row in known.generator]
    inner = [at.r.constant(0.0) if b is None else b for b in by_inner]
    if at.t is None or at.outer_decay is None:
        return inner, None
    first = [_times_power(at.t, row) for row in known.slope]
    decay = at.decay * at.outer_decay
    return inner, _transition(order, at.r, decay, first)
