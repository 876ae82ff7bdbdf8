"""Compiled passes around the matrix products of the quadratic form: ratios of one input, sums, and their gradients.

Formulas in ``dtmgp.ops.quadratic.tables`` and ``operator``. Rows are inputs; reductions may be reassociated (they are
the same in every run). Level-1 values below ``tiny`` count as ``tiny``: their products underflow anyway.
"""

from __future__ import annotations

import numba
import numpy as np

SUMS = {"reassoc", "contract", "nsz"}


@numba.njit(nogil=True, cache=True)
def ratios(values, positions, functions, levels, tiny, start, stop, first, u, root):
    """``u`` (rows, F) and ``root`` (rows,) of inputs first + start to first + stop."""
    slots = values.shape[1]
    inverse = np.empty(slots, values.dtype)
    for n in range(start, stop):
        product = values.dtype.type(1)
        for slot in range(0, slots, levels):
            value = max(values[first + n, slot], tiny)
            product *= value
            inverse[slot] = 1 / value
        root[n] = product
        for f in range(functions.shape[0]):
            slot, count = functions[f, 0], functions[f, 2]
            place = min(max(positions[first + n, slot], 0), count - 1)
            ratio = values[first + n, slot] * inverse[functions[f, 1]]
            u[n, f] = ratio if place == functions[f, 3] and count > 0 else 0


@numba.njit(nogil=True, cache=True, fastmath=SUMS)
def totals(u, half, linear, root, start, stop, out):
    """``out = root * (linear + 1/2 sum_k half_k u_k)`` for (rows, W), half (rows, W, k)."""
    width, paired = half.shape[1], half.shape[2]
    for n in range(start, stop):
        for w in range(width):
            total = u.dtype.type(0)
            for k in range(paired):
                total += half[n, w, k] * u[n, k]
            out[n, w] = root[n] * (linear[n, w] + u.dtype.type(0.5) * total)


@numba.njit(nogil=True, cache=True, fastmath=SUMS)
def spread_back(u, half, linear, root, grad, start, stop, grad_u, grad_root, outer):
    """Gradients of one form: adds the quadratic part to ``grad_u`` (given the linear one), sets those of the roots.

    ``outer`` (rows, W, k) = root * grad * u: its product with u is the gradient of the pairs. It may be ``half``.
    """
    width, paired = half.shape[1], half.shape[2]
    for n in range(start, stop):
        slope = u.dtype.type(0)
        for w in range(width):
            up = root[n] * grad[n, w]
            total = u.dtype.type(0)
            for k in range(paired):
                h = half[n, w, k]
                total += h * u[n, k]
                grad_u[n, k] += up * h
                outer[n, w, k] = up * u[n, k]
            slope += grad[n, w] * (linear[n, w] + u.dtype.type(0.5) * total)
        grad_root[n] = slope


@numba.njit(nogil=True, cache=True)
def ratios_back(
    values, positions, functions, levels, tiny, start, stop, first, u, root,
    grad_u, grad_root, squares, grad_u2, grad_root2, out,
):  # fmt: skip
    """Gradient of the values from those of u and root, and of their squares (``squares``)."""
    slots = values.shape[1]
    inverse = np.empty(slots, values.dtype)
    for n in range(start, stop):
        slope = grad_root[n]
        if squares:
            slope += 2 * root[n] * grad_root2[n]
        for slot in range(slots):
            out[first + n, slot] = 0
        for slot in range(0, slots, levels):
            inverse[slot] = 1 / max(values[first + n, slot], tiny)
            out[first + n, slot] = slope * root[n] * inverse[slot]
        for f in range(functions.shape[0]):
            slot, base, count = functions[f, 0], functions[f, 1], functions[f, 2]
            place = min(max(positions[first + n, slot], 0), count - 1)
            if place == functions[f, 3] and count > 0:
                g = grad_u[n, f]
                if squares:
                    g += 2 * u[n, f] * grad_u2[n, f]
                out[first + n, slot] += g * inverse[base]
                out[first + n, base] -= g * u[n, f] * inverse[base]
