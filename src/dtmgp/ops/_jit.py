"""Compiled contraction: tiles of 16 inputs walk the tree side by side, then every input sums its weight rows.

The tree part has inputs in its lanes; the sums have outputs in their lanes (4, 8 or 16, masked unless the width is a
multiple). The backward pass recomputes the active values of a tile: that is cheaper than to store them. All arrays
are flat. Functions release the interpreter lock and write to ranges of inputs that do not overlap.
"""

from __future__ import annotations

import numba
import numpy as np

from dtmgp.ops.simd import _jit as simd
from dtmgp.ops.simd._jit import fma, get, load, mul, put, store, total
from dtmgp.ops.tree._jit import TILE, given_rows, tile_rows, transpose_in, transpose_out, walk, walk_back

GROUP = 4  # inputs whose sums are formed together: hides the latency of the additions


@numba.njit(nogil=True)
def _sum_mean(zero, mean, phi, rows, first, valid, width, lanes, out):
    count = phi.shape[0] // TILE
    for column in range(0, width, lanes):
        rest = width - column
        for n in range(0, valid, GROUP):
            a0, a1, a2, a3 = zero, zero, zero, zero
            for t in range(count):
                at = t * TILE + n
                a0 = fma(load(zero, mean, np.int64(get(rows, at)) * width + column, rest), get(phi, at), a0)
                at += 1
                a1 = fma(load(zero, mean, np.int64(get(rows, at)) * width + column, rest), get(phi, at), a1)
                at += 1
                a2 = fma(load(zero, mean, np.int64(get(rows, at)) * width + column, rest), get(phi, at), a2)
                at += 1
                a3 = fma(load(zero, mean, np.int64(get(rows, at)) * width + column, rest), get(phi, at), a3)
            at = (first + n) * width + column
            store(a0, out, at, rest)
            if n + 1 < valid:
                store(a1, out, at + width, rest)
            if n + 2 < valid:
                store(a2, out, at + 2 * width, rest)
            if n + 3 < valid:
                store(a3, out, at + 3 * width, rest)


@numba.njit(nogil=True)
def _pair(zero, mean, variance, phi, rows, at, width, column, rest, a, b):
    """One row of both tables, added to the sums of one input."""
    place = np.int64(get(rows, at)) * width + column
    value = get(phi, at)
    return (
        fma(load(zero, mean, place, rest), value, a),
        fma(load(zero, variance, place, rest), value * value, b),
    )


@numba.njit(nogil=True)
def _sum_both(zero, mean, variance, phi, rows, first, valid, width, lanes, out_mean, out_variance):
    count = phi.shape[0] // TILE
    for column in range(0, width, lanes):
        rest = width - column
        for n in range(0, valid, GROUP):
            a0, a1, a2, a3 = zero, zero, zero, zero
            b0, b1, b2, b3 = zero, zero, zero, zero
            for t in range(count):
                at = t * TILE + n
                a0, b0 = _pair(zero, mean, variance, phi, rows, at, width, column, rest, a0, b0)
                a1, b1 = _pair(zero, mean, variance, phi, rows, at + 1, width, column, rest, a1, b1)
                a2, b2 = _pair(zero, mean, variance, phi, rows, at + 2, width, column, rest, a2, b2)
                a3, b3 = _pair(zero, mean, variance, phi, rows, at + 3, width, column, rest, a3, b3)
            at = (first + n) * width + column
            store(a0, out_mean, at, rest)
            store(b0, out_variance, at, rest)
            if n + 1 < valid:
                store(a1, out_mean, at + width, rest)
                store(b1, out_variance, at + width, rest)
            if n + 2 < valid:
                store(a2, out_mean, at + 2 * width, rest)
                store(b2, out_variance, at + 2 * width, rest)
            if n + 3 < valid:
                store(a3, out_mean, at + 3 * width, rest)
                store(b3, out_variance, at + 3 * width, rest)


@numba.njit(nogil=True)
def _scatter_mean(
    zero, mean, phi, rows, first, valid, width, lanes, grad_out, grad_mean, grad_phi, want_phi, want_weights
):
    for column in range(0, width, lanes):
        rest = width - column
        for n in range(valid):
            g = load(zero, grad_out, (first + n) * width + column, rest)
            for t in range(phi.shape[0] // TILE):
                at = t * TILE + n
                place = np.int64(get(rows, at)) * width + column
                if want_phi:
                    found = total(mul(g, load(zero, mean, place, rest)))
                    put(grad_phi, at, found if column == 0 else get(grad_phi, at) + found)
                if want_weights:
                    store(fma(g, get(phi, at), load(zero, grad_mean, place, rest)), grad_mean, place, rest)


@numba.njit(nogil=True)
def _scatter_both(
    zero,
    mean,
    variance,
    phi,
    rows,
    first,
    valid,
    width,
    lanes,
    grad_out,
    grad_spread,
    grad_mean,
    grad_variance,
    grad_phi,
    want_phi,
    want_weights,
):
    for column in range(0, width, lanes):
        rest = width - column
        for n in range(valid):
            g = load(zero, grad_out, (first + n) * width + column, rest)
            h = load(zero, grad_spread, (first + n) * width + column, rest)
            for t in range(phi.shape[0] // TILE):
                at = t * TILE + n
                place = np.int64(get(rows, at)) * width + column
                value = get(phi, at)
                if want_phi:
                    spread = mul(h, load(zero, variance, place, rest))
                    found = total(fma(spread, value + value, mul(g, load(zero, mean, place, rest))))
                    put(grad_phi, at, found if column == 0 else get(grad_phi, at) + found)
                if want_weights:
                    store(fma(g, value, load(zero, grad_mean, place, rest)), grad_mean, place, rest)
                    spread = load(zero, grad_variance, place, rest)
                    store(fma(h, value * value, spread), grad_variance, place, rest)


@numba.njit(nogil=True)
def _forward(
    zero, lanes, values, places, given, start, stop, tree, intervals, dim, levels, mean, variance, width,
    out_mean, out_variance,
):  # fmt: skip
    count, slots, kind = tree.shape[0] // 6, dim * levels, values.dtype
    tile_values, tile_places = np.empty(slots * TILE, kind), np.empty(slots * TILE, np.int32)
    if given:
        tile_places = np.empty(count * TILE, np.int32)
    ranges = np.empty(intervals.shape[0] // 2 * TILE, kind)
    suffix = np.empty((dim + 1) * TILE, kind)
    prefix, phi = np.empty(count * TILE, kind), np.empty(count * TILE, kind)
    local, rows = np.empty(count * TILE, np.int32), np.empty(count * TILE, np.int32)
    limit = np.int32(mean.shape[0] // width)
    number, integer = simd.exact16(values), simd.exact16(tile_places)
    for first in range(start, stop, TILE):
        valid = min(TILE, stop - first)
        transpose_in(values, first, valid, slots, tile_values)
        walk(number, tree, intervals, dim, levels, tile_values, ranges, suffix, prefix, phi)
        if given:
            transpose_in(places, first, valid, count, tile_places)
            given_rows(integer, tile_places, limit, rows)
        else:
            transpose_in(places, first, valid, slots, tile_places)
            tile_rows(integer, tree, tile_places, local, rows)
        if variance.shape[0]:
            _sum_both(zero, mean, variance, phi, rows, first, valid, width, lanes, out_mean, out_variance)
        else:
            _sum_mean(zero, mean, phi, rows, first, valid, width, lanes, out_mean)


@numba.njit(nogil=True)
def _backward(
    zero, lanes, values, places, given, start, stop, tree, intervals, dim, levels, mean, variance, width,
    grad_out, grad_spread, grad_values, grad_mean, grad_variance, want_values, want_weights,
):  # fmt: skip
    count, slots, kind = tree.shape[0] // 6, dim * levels, values.dtype
    chains = intervals.shape[0] // 2
    tile_values, tile_places = np.empty(slots * TILE, kind), np.empty(slots * TILE, np.int32)
    if given:
        tile_places = np.empty(count * TILE, np.int32)
    ranges = np.empty(chains * TILE, kind)
    suffix = np.empty((dim + 1) * TILE, kind)
    prefix, phi = np.empty(count * TILE, kind), np.empty(count * TILE, kind)
    local, rows = np.empty(count * TILE, np.int32), np.empty(count * TILE, np.int32)
    grad_phi, grad = np.zeros(count * TILE, kind), np.empty(slots * TILE, kind)
    work = np.empty((count + chains + dim + 1) * TILE, kind)
    limit = np.int32(mean.shape[0] // width)
    number, integer = simd.exact16(values), simd.exact16(tile_places)
    for first in range(start, stop, TILE):
        valid = min(TILE, stop - first)
        transpose_in(values, first, valid, slots, tile_values)
        walk(number, tree, intervals, dim, levels, tile_values, ranges, suffix, prefix, phi)
        if given:
            transpose_in(places, first, valid, count, tile_places)
            given_rows(integer, tile_places, limit, rows)
        else:
            transpose_in(places, first, valid, slots, tile_places)
            tile_rows(integer, tree, tile_places, local, rows)
        if variance.shape[0]:
            _scatter_both(
                zero, mean, variance, phi, rows, first, valid, width, lanes,
                grad_out, grad_spread, grad_mean, grad_variance, grad_phi, want_values, want_weights,
            )  # fmt: skip
        else:
            _scatter_mean(
                zero, mean, phi, rows, first, valid, width, lanes,
                grad_out, grad_mean, grad_phi, want_values, want_weights,
            )  # fmt: skip
        if want_values:
            walk_back(
                number,
                tree,
                intervals,
                dim,
                levels,
                tile_values,
                ranges,
                suffix,
                prefix,
                grad_phi,
                grad,
                work,
            )
            transpose_out(grad, first, valid, slots, grad_values)


@numba.njit(cache=True, nogil=True)
def forward4(
    values, places, given, start, stop, tree, intervals, dim, levels, mean, variance, width, out_mean, out_variance
):  # fmt: skip
    """Sums of the inputs ``start .. stop`` for width 4; ``variance`` may be empty."""
    _forward(simd.exact4(mean), 4, values, places, given, start, stop, tree, intervals, dim, levels,
             mean, variance, width, out_mean, out_variance)  # fmt: skip


@numba.njit(cache=True, nogil=True)
def backward4(
    values, places, given, start, stop, tree, intervals, dim, levels, mean, variance, width,
    grad_out, grad_spread, grad_values, grad_mean, grad_variance, want_values, want_weights,
):  # fmt: skip
    """Gradients of the inputs ``start .. stop`` for width 4; those of the weights are added to the buffers given."""
    _backward(simd.exact4(mean), 4, values, places, given, start, stop, tree, intervals, dim, levels,
              mean, variance, width, grad_out, grad_spread, grad_values, grad_mean, grad_variance,
              want_values, want_weights)  # fmt: skip


@numba.njit(cache=True, nogil=True)
def forward8(
    values, places, given, start, stop, tree, intervals, dim, levels, mean, variance, width, out_mean, out_variance
):  # fmt: skip
    """Sums of the inputs ``start .. stop`` for width 8; ``variance`` may be empty."""
    _forward(simd.exact8(mean), 8, values, places, given, start, stop, tree, intervals, dim, levels,
             mean, variance, width, out_mean, out_variance)  # fmt: skip


@numba.njit(cache=True, nogil=True)
def backward8(
    values, places, given, start, stop, tree, intervals, dim, levels, mean, variance, width,
    grad_out, grad_spread, grad_values, grad_mean, grad_variance, want_values, want_weights,
):  # fmt: skip
    """Gradients of the inputs ``start .. stop`` for width 8; those of the weights are added to the buffers given."""
    _backward(simd.exact8(mean), 8, values, places, given, start, stop, tree, intervals, dim, levels,
              mean, variance, width, grad_out, grad_spread, grad_values, grad_mean, grad_variance,
              want_values, want_weights)  # fmt: skip


@numba.njit(cache=True, nogil=True)
def forward16(
    values, places, given, start, stop, tree, intervals, dim, levels, mean, variance, width, out_mean, out_variance
):  # fmt: skip
    """Sums of the inputs ``start .. stop`` for any width; ``variance`` may be empty."""
    _forward(simd.masked16(mean), 16, values, places, given, start, stop, tree, intervals, dim, levels,
             mean, variance, width, out_mean, out_variance)  # fmt: skip


@numba.njit(cache=True, nogil=True)
def backward16(
    values, places, given, start, stop, tree, intervals, dim, levels, mean, variance, width,
    grad_out, grad_spread, grad_values, grad_mean, grad_variance, want_values, want_weights,
):  # fmt: skip
    """Gradients of the inputs ``start .. stop`` for any width; those of the weights are added to the buffers given."""
    _backward(simd.masked16(mean), 16, values, places, given, start, stop, tree, intervals, dim, levels,
              mean, variance, width, grad_out, grad_spread, grad_values, grad_mean, grad_variance,
              want_values, want_weights)  # fmt: skip


FORWARD = {4: forward4, 8: forward8}
BACKWARD = {4: backward4, 8: backward8}
