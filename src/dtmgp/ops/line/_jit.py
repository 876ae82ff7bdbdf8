"""Compiled one-dimensional features of Matern-(p+1/2) kernels on any nested points: 16 inputs side by side.

Formulas in ``dtmgp.ops.line.formulas``; dyadic points have a faster way, ``dtmgp.ops.line.dyadic``. Arrays are flat;
tables are (J, classes, 2, s, s).
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

from dtmgp.ops.line import formulas
from dtmgp.ops.simd import _jit as simd
from dtmgp.ops.simd._jit import get, load, put
from dtmgp.ops.simd.lanes import Lanes

TILE = 16
LONG = formulas.LONG


class _Rows:
    """Vectors one after the other in an array."""

    def __init__(self, context, builder, kind, array, like):
        self.builder, self.like = builder, like
        first = simd._pointer(context, builder, kind, array, ir.Constant(ir.IntType(64), 0))
        self.pointer = builder.bitcast(first, like.type.as_pointer())

    def store(self, values):
        for number, value in enumerate(values):
            pointer = self.builder.gep(self.pointer, [ir.Constant(ir.IntType(64), number)])
            self.builder.store(value.value, pointer).align = 4


@intrinsic
def _weights(typingctx, inner, outer, weight, state):
    """``w`` (s, 16) for 16 pairs of distances; s is the length of the tuple ``state``."""

    def codegen(context, builder, signature, args):
        r, t = Lanes(builder, args[0]), Lanes(builder, args[1])
        found = formulas.weights(state.count - 1, r, t)
        _Rows(context, builder, weight, args[2], args[0]).store(found.values)
        return context.get_dummy_value()

    return types.void(inner, outer, weight, state), codegen


@intrinsic
def _slopes(typingctx, inner, outer, weight, by_inner, by_outer, state):
    """``w``, ``dw/dr`` and ``dw/dt``."""

    def codegen(context, builder, signature, args):
        r, t = Lanes(builder, args[0]), Lanes(builder, args[1])
        found = formulas.weights(state.count - 1, r, t)
        for place, kind, values in zip(
            args[2:5],
            (weight, by_inner, by_outer),
            (found.values, *formulas.slopes(state.count - 1, found)),
            strict=True,
        ):
            _Rows(context, builder, kind, place, args[0]).store(values)
        return context.get_dummy_value()

    return types.void(inner, outer, weight, by_inner, by_outer, state), codegen


@numba.njit(nogil=True, forceinline=True)
def _locate(x, ends, start, count):
    """First support that does not end before x; the last one for NaN."""
    low, high = np.int64(0), np.int64(count - 1)
    while low < high:
        middle = (low + high) // 2
        if get(ends, start + middle) < x:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(nogil=True, forceinline=True)
def _place(tile, j, start, count, points, kinds, classes, rate, inner, outer, index, sign, cell):
    """Distances, table and side of 16 inputs in one increment of coordinate j."""
    size = kinds.shape[0]
    kind = tile.dtype.type
    for lane in range(TILE):
        value = get(tile, j * TILE + lane)
        here = _locate(value, points[2 * size :], start, count)
        number = start + here
        offset = value - get(points, size + number)
        falling = offset > 0
        gap = get(points, 2 * size + number) - value if falling else value - get(points, number)
        time = max(gap, kind(0)) * rate
        put(outer, lane, min(time, kind(LONG)) if time == time else time)
        put(inner, lane, abs(offset) * rate)
        side = kind(1) if falling else kind(-1)
        put(sign, lane, side if gap >= 0 else kind(0))  # 0 outside the support: no gradient
        put(index, lane, np.int32((j * classes + get(kinds, number)) * 2 + falling))
        put(cell, lane, np.int32(here))


@numba.njit(nogil=True, forceinline=True)
def _transpose_in(x, first, valid, dim, tile):
    for lane in range(TILE):
        base = (first + min(lane, valid - 1)) * dim
        for j in range(dim):
            put(tile, j * TILE + lane, get(x, base + j))


@numba.njit(cache=True, nogil=True)
def forward(
    x, rates, tables, points, kinds, starts, counts, classes, state, top, begin, end, values, places
):  # fmt: skip
    """Values and positions of the inputs ``begin .. end``."""
    dim, increments, dtype, size = rates.shape[0], starts.shape[0], x.dtype, len(state)
    inner, outer, sign = np.empty(TILE, dtype), np.empty(TILE, dtype), np.empty(TILE, dtype)
    index, cell = np.empty(TILE, np.int32), np.empty(TILE, np.int32)
    weight = np.empty(size * TILE, dtype)
    lanes, tile = simd.exact16(x), np.empty(dim * TILE, dtype)
    for base in range(begin, end, TILE):
        valid = min(TILE, end - base)
        _transpose_in(x, base, valid, dim, tile)
        for j in range(dim):
            for k in range(increments):
                _place(
                    tile, j, starts[k], counts[k], points, kinds, classes, rates[j],
                    inner, outer, index, sign, cell,
                )  # fmt: skip
                _weights(load(lanes, inner, 0, 0), load(lanes, outer, 0, 0), weight, state)
                if size == 1:
                    for lane in range(valid):
                        at = ((base + lane) * dim + j) * top + k
                        put(values, at, get(weight, lane) * get(tables, np.int64(get(index, lane))))
                        put(places, at, get(cell, lane))
                    continue
                for lane in range(valid):
                    at = ((base + lane) * dim + j) * top + k * size
                    table = np.int64(get(index, lane)) * size * size
                    for f in range(min(size, top - k * size)):
                        value = dtype.type(0)
                        for i in range(size):
                            value += get(weight, i * TILE + lane) * get(tables, table + i * size + f)
                        put(values, at + f, value)
                        put(places, at + f, get(cell, lane))


@numba.njit(cache=True, nogil=True)
def backward(
    x, rates, tables, points, kinds, starts, counts, classes, state, top, begin, end,
    grad, by_x, by_rate, by_tables, want_tables,
):  # fmt: skip
    """Gradients of the inputs ``begin .. end``; those of rates and tables (float64) are added to the buffers."""
    dim, increments, dtype, size = rates.shape[0], starts.shape[0], x.dtype, len(state)
    inner, outer, sign = np.empty(TILE, dtype), np.empty(TILE, dtype), np.empty(TILE, dtype)
    index, cell = np.empty(TILE, np.int32), np.empty(TILE, np.int32)
    weight, by_inner = np.empty(size * TILE, dtype), np.empty(size * TILE, dtype)
    by_outer, total = np.empty(size * TILE, dtype), np.empty(TILE, dtype)
    lanes, tile = simd.exact16(x), np.empty(dim * TILE, dtype)
    for base in range(begin, end, TILE):
        valid = min(TILE, end - base)
        _transpose_in(x, base, valid, dim, tile)
        for j in range(dim):
            total[:] = 0
            rate_sum = 0.0
            for k in range(increments):
                _place(
                    tile, j, starts[k], counts[k], points, kinds, classes, rates[j],
                    inner, outer, index, sign, cell,
                )  # fmt: skip
                _slopes(load(lanes, inner, 0, 0), load(lanes, outer, 0, 0), weight, by_inner, by_outer, state)
                for lane in range(valid):
                    at = ((base + lane) * dim + j) * top + k * size
                    table = np.int64(get(index, lane)) * size * size
                    t = get(outer, lane)
                    moves = (
                        dtype.type(1) if t < LONG else dtype.type(0)
                    )  # a gap that counts as infinite does not
                    at_r, at_t = dtype.type(0), dtype.type(0)
                    for f in range(min(size, top - k * size)):
                        g = get(grad, at + f)
                        for i in range(size):
                            factor = g * get(tables, table + i * size + f)
                            at_r += factor * get(by_inner, i * TILE + lane)
                            at_t += factor * get(by_outer, i * TILE + lane)
                            if want_tables:
                                by_tables[table + i * size + f] += g * get(weight, i * TILE + lane)
                    at_t *= moves
                    put(total, lane, get(total, lane) + get(sign, lane) * (at_r - at_t))
                    rate_sum += at_r * get(inner, lane) + at_t * t
            by_rate[j] += rate_sum / rates[j]
            for lane in range(valid):
                put(by_x, (base + lane) * dim + j, get(total, lane) * rates[j])
