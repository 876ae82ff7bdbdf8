"""Touched rows: distinct rows of a batch by hashing, and passes over a large table that visit those rows only."""

from __future__ import annotations

import math

import numba
import numpy as np

from dtmgp.ops.simd._jit import get, prefetch, put

AHEAD = 24  # rows that are asked for before they are needed


@numba.njit(cache=True, nogil=True)
def active_rows(positions, slots, tree, local, rows):
    """Rows (N, T) of the active features, from positions (N, d*L); flat arrays."""
    count = tree.shape[0] // 6
    for n in range(positions.shape[0] // slots):
        base, out = n * slots, n * count
        put(local, 0, np.int32(0))
        put(rows, out, get(tree, 4))
        for t in range(1, count):
            parent, slot = np.int64(get(tree, 6 * t)), np.int64(get(tree, 6 * t + 1))
            width = get(tree, 6 * t + 3)
            index = min(max(get(positions, base + slot), np.int32(0)), np.int32(width - 1))
            here = np.int32(get(local, parent) * width + index)
            put(local, t, here)
            put(rows, out + t, np.int32(here + get(tree, 6 * t + 4)))


@numba.njit(cache=True, nogil=True)
def distinct(rows, keys, numbers, found):
    """Number the distinct rows in the order of their first appearance, in place; returns how many there are.

    ``keys`` holds -1 and has a power of two of entries, at least twice as many as there are rows.
    """
    bits = 64
    size = keys.shape[0]
    while size > 1:
        size >>= 1
        bits -= 1
    mask = keys.shape[0] - 1
    count = 0
    for i in range(rows.shape[0]):
        row = get(rows, i)
        slot = np.int64((np.uint64(row) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(bits))
        while get(keys, slot) != row and get(keys, slot) >= 0:
            slot = (slot + 1) & mask
        if get(keys, slot) < 0:
            put(keys, slot, row)
            put(numbers, slot, np.int32(count))
            put(found, count, row)
            count += 1
        put(rows, i, get(numbers, slot))
    return count


@numba.njit(cache=True, nogil=True)
def fetch(excess, last, rows, step, clock, prior_precision, prior_mean, mean, variance):
    """Means and variances of the rows after their pending decay; the table itself is not changed.

    ``excess`` (m, 2W): precision - prior precision, then precision * (mean - prior mean); both have decayed by
    ``exp(clock[step] - clock[last[row]])``.
    """
    width = mean.shape[1]
    for i in range(rows.shape[0]):
        if i + AHEAD < rows.shape[0]:
            row = np.int64(rows[i + AHEAD])
            prefetch(excess, row * 2 * width)
            prefetch(last, row)
        row = np.int64(rows[i])
        since = np.int64(get(last, row))
        factor = math.exp(clock[step] - clock[since]) if since < step else 1.0
        for w in range(width):
            precision = prior_precision + factor * get(excess, row * 2 * width + w)
            inverse = 1.0 / precision
            mean[i, w] = prior_mean + factor * get(excess, (row * 2 + 1) * width + w) * inverse
            variance[i, w] = inverse


@numba.njit(cache=True, nogil=True)
def update(excess, last, rows, step, clock, rate, scale, prior_mean, mean, grad_mean, grad_variance):
    """The natural-gradient step of the touched rows, from their gradients and their means of this step.

    h = max(2 scale dL/dvariance, 0)
    excess precision <- (1 - rate) e + rate h
    excess shift     <- (1 - rate) d + rate (h (mean - prior mean) - scale dL/dmean)
    """
    width = mean.shape[1]
    for i in range(rows.shape[0]):
        if i + AHEAD < rows.shape[0]:
            row = np.int64(rows[i + AHEAD])
            prefetch(excess, row * 2 * width)
            prefetch(last, row)
        row = np.int64(rows[i])
        since = np.int64(get(last, row))
        keep = (1.0 - rate) * (math.exp(clock[step] - clock[since]) if since < step else 1.0)
        for w in range(width):
            curvature = max(2.0 * scale * grad_variance[i, w], 0.0)
            push = curvature * (mean[i, w] - prior_mean) - scale * grad_mean[i, w]
            at, to = row * 2 * width + w, (row * 2 + 1) * width + w
            put(excess, at, excess.dtype.type(keep * get(excess, at) + rate * curvature))
            put(excess, to, excess.dtype.type(keep * get(excess, to) + rate * push))
        put(last, row, np.int32(step + 1))
