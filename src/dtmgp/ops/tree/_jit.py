"""Compiled walk over the tree of multi-indices: 16 inputs side by side, forwards and in reverse; dense features.

Formulas in ``dtmgp.ops.plan``. All arrays are flat; a tile's array holds 16 inputs per entry.
"""

from __future__ import annotations

import numba
import numpy as np

from dtmgp.ops.simd import _jit as simd
from dtmgp.ops.simd._jit import add, clamp_index, fma, get, load, mul, put, store

TILE = 16  # inputs per tile


@numba.njit(nogil=True)
def transpose_in(source, first, valid, slots, target):
    """target[slot, lane] = source[first + lane, slot]; lanes from ``valid`` on repeat the last input."""
    for lane in range(TILE):
        base = (first + min(lane, valid - 1)) * slots
        for slot in range(slots):
            put(target, slot * TILE + lane, get(source, base + slot))


@numba.njit(nogil=True)
def walk(lanes, tree, intervals, dim, levels, values, ranges, suffix, prefix, phi):
    """Active values of a tile: ``prefix`` is P(t), ``phi`` the value; see ``dtmgp.ops.plan``."""
    one = add(lanes, values.dtype.type(1))
    store(one, suffix, dim * TILE, 0)
    running = one
    for j in range(dim - 1, -1, -1):
        running = mul(running, load(lanes, values, j * levels * TILE, 0))
        store(running, suffix, j * TILE, 0)
    store(one, ranges, 0, 0)
    for e in range(1, intervals.shape[0] // 2):
        previous, j = np.int64(get(intervals, 2 * e)), np.int64(get(intervals, 2 * e + 1))
        factor = load(lanes, values, j * levels * TILE, 0)
        store(mul(load(lanes, ranges, previous * TILE, 0), factor), ranges, e * TILE, 0)
    store(one, prefix, 0, 0)
    store(running, phi, 0, 0)
    for t in range(1, tree.shape[0] // 6):
        parent, slot = np.int64(get(tree, 6 * t)), np.int64(get(tree, 6 * t + 1))
        j, e = np.int64(get(tree, 6 * t + 2)), np.int64(get(tree, 6 * t + 5))
        step = mul(load(lanes, ranges, e * TILE, 0), load(lanes, values, slot * TILE, 0))
        product = mul(load(lanes, prefix, parent * TILE, 0), step)
        store(product, prefix, t * TILE, 0)
        store(mul(product, load(lanes, suffix, (j + 1) * TILE, 0)), phi, t * TILE, 0)


@numba.njit(nogil=True)
def tile_rows(lanes, tree, places, local, rows):
    """Weight rows of a tile, limited to the blocks they belong to."""
    store(lanes, local, 0, 0)
    store(add(lanes, get(tree, 4)), rows, 0, 0)
    for t in range(1, tree.shape[0] // 6):
        parent, slot = np.int64(get(tree, 6 * t)), np.int64(get(tree, 6 * t + 1))
        count, offset = get(tree, 6 * t + 3), get(tree, 6 * t + 4)
        index = clamp_index(load(lanes, places, slot * TILE, 0), count)
        here = fma(load(lanes, local, parent * TILE, 0), count, index)
        store(here, local, t * TILE, 0)
        store(add(here, offset), rows, t * TILE, 0)


@numba.njit(nogil=True)
def given_rows(lanes, places, count, rows):
    for t in range(rows.shape[0] // TILE):
        store(clamp_index(load(lanes, places, t * TILE, 0), count), rows, t * TILE, 0)


@numba.njit(nogil=True)
def walk_back(lanes, tree, intervals, dim, levels, values, ranges, suffix, prefix, grad_phi, grad, work):
    """Gradient of the one-dimensional values of a tile from that of ``phi``; the tree in reverse.

    ``work`` holds the gradients of prefix, ranges and suffix, one after the other.
    """
    count, chains = tree.shape[0] // 6, intervals.shape[0] // 2
    at_range = count * TILE
    at_suffix = at_range + chains * TILE
    for k in range(dim * levels):
        store(lanes, grad, k * TILE, 0)
    for k in range(count + chains + dim + 1):
        store(lanes, work, k * TILE, 0)
    for t in range(count - 1, 0, -1):
        parent, slot = np.int64(get(tree, 6 * t)), np.int64(get(tree, 6 * t + 1))
        j, e = np.int64(get(tree, 6 * t + 2)), np.int64(get(tree, 6 * t + 5))
        outer = load(lanes, grad_phi, t * TILE, 0)
        at = at_suffix + (j + 1) * TILE
        store(fma(outer, load(lanes, prefix, t * TILE, 0), load(lanes, work, at, 0)), work, at, 0)
        here = fma(outer, load(lanes, suffix, (j + 1) * TILE, 0), load(lanes, work, t * TILE, 0))
        above = load(lanes, prefix, parent * TILE, 0)
        between = load(lanes, ranges, e * TILE, 0)
        own = load(lanes, values, slot * TILE, 0)
        scaled = mul(here, above)
        store(fma(scaled, between, load(lanes, grad, slot * TILE, 0)), grad, slot * TILE, 0)
        at = at_range + e * TILE
        store(fma(scaled, own, load(lanes, work, at, 0)), work, at, 0)
        at = parent * TILE
        store(fma(mul(here, between), own, load(lanes, work, at, 0)), work, at, 0)
    store(add(load(lanes, grad_phi, 0, 0), load(lanes, work, at_suffix, 0)), work, at_suffix, 0)
    for e in range(chains - 1, 0, -1):
        previous, j = np.int64(get(intervals, 2 * e)), np.int64(get(intervals, 2 * e + 1))
        outer = load(lanes, work, at_range + e * TILE, 0)
        at = j * levels * TILE
        store(fma(outer, load(lanes, ranges, previous * TILE, 0), load(lanes, grad, at, 0)), grad, at, 0)
        to = at_range + previous * TILE
        store(fma(outer, load(lanes, values, at, 0), load(lanes, work, to, 0)), work, to, 0)
    for j in range(dim):
        outer = load(lanes, work, at_suffix + j * TILE, 0)
        at, to = j * levels * TILE, at_suffix + (j + 1) * TILE
        store(fma(outer, load(lanes, suffix, (j + 1) * TILE, 0), load(lanes, grad, at, 0)), grad, at, 0)
        store(fma(outer, load(lanes, values, at, 0), load(lanes, work, to, 0)), work, to, 0)


@numba.njit(nogil=True)
def transpose_out(source, first, valid, slots, target):
    for lane in range(valid):
        base = (first + lane) * slots
        for slot in range(slots):
            put(target, base + slot, get(source, slot * TILE + lane))


@numba.njit(cache=True, nogil=True)
def dense_forward(values, places, start, stop, tree, intervals, dim, levels, size, out):
    """Write the active features of the inputs ``start .. stop`` into rows of ``out`` (N, m), which holds zeros."""
    count, slots, kind = tree.shape[0] // 6, dim * levels, values.dtype
    tile_values, tile_places = np.empty(slots * TILE, kind), np.empty(slots * TILE, np.int32)
    ranges = np.empty(intervals.shape[0] // 2 * TILE, kind)
    suffix = np.empty((dim + 1) * TILE, kind)
    prefix, phi = np.empty(count * TILE, kind), np.empty(count * TILE, kind)
    local, rows = np.empty(count * TILE, np.int32), np.empty(count * TILE, np.int32)
    number, integer = simd.exact16(values), simd.exact16(tile_places)
    for first in range(start, stop, TILE):
        valid = min(TILE, stop - first)
        transpose_in(values, first, valid, slots, tile_values)
        transpose_in(places, first, valid, slots, tile_places)
        walk(number, tree, intervals, dim, levels, tile_values, ranges, suffix, prefix, phi)
        tile_rows(integer, tree, tile_places, local, rows)
        for lane in range(valid):
            base = (first + lane) * size
            for t in range(count):
                put(out, base + np.int64(get(rows, t * TILE + lane)), get(phi, t * TILE + lane))


@numba.njit(cache=True, nogil=True)
def dense_backward(values, places, start, stop, tree, intervals, dim, levels, size, grad_out, grad_values):
    """Gradient of the one-dimensional values from that of the dense features (N, m)."""
    count, slots, kind = tree.shape[0] // 6, dim * levels, values.dtype
    chains = intervals.shape[0] // 2
    tile_values, tile_places = np.empty(slots * TILE, kind), np.empty(slots * TILE, np.int32)
    ranges, suffix = np.empty(chains * TILE, kind), np.empty((dim + 1) * TILE, kind)
    prefix, phi = np.empty(count * TILE, kind), np.empty(count * TILE, kind)
    local, rows = np.empty(count * TILE, np.int32), np.empty(count * TILE, np.int32)
    grad_phi, grad = np.zeros(count * TILE, kind), np.empty(slots * TILE, kind)
    work = np.empty((count + chains + dim + 1) * TILE, kind)
    number, integer = simd.exact16(values), simd.exact16(tile_places)
    for first in range(start, stop, TILE):
        valid = min(TILE, stop - first)
        transpose_in(values, first, valid, slots, tile_values)
        transpose_in(places, first, valid, slots, tile_places)
        walk(number, tree, intervals, dim, levels, tile_values, ranges, suffix, prefix, phi)
        tile_rows(integer, tree, tile_places, local, rows)
        for lane in range(valid):
            base = (first + lane) * size
            for t in range(count):
                put(grad_phi, t * TILE + lane, get(grad_out, base + np.int64(get(rows, t * TILE + lane))))
        walk_back(
            number, tree, intervals, dim, levels, tile_values, ranges, suffix, prefix, grad_phi, grad, work
        )
        transpose_out(grad, first, valid, slots, grad_values)
