"""Compiled one-dimensional features of Matern-(p+1/2) kernels, Laplace being p = 0: 16 inputs side by side.

``value_f = sum_j w_j(r, t) table[side, j, f]``, ``w = F(r) Q(t)[0]``: r to the centre, t to the outer neighbour, in
dimensionless time. Derivatives: ``dw/dr = A w`` (A generates F) and ``dQ_0i/dt = kappa h_0 h_i``. Formulas as in
``dtmgp.kernels._jit``. Arrays are flat; tables are (J, classes, 2, s, s).
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

from dtmgp.ops.simd import _jit as simd
from dtmgp.ops.simd._jit import add, choose_below, exp_minus_one, fma, get, load, mul, put, store

TILE = 16
LONG = 400.0  # as in dtmgp.ops.line.kernels
SPLIT = 3.0  # below, the incomplete gamma function is summed as a series, above as a complement
SERIES = 28  # terms: z^28 8!/36! < 1e-17 at z = 3


@intrinsic
def _place_dyadic(typingctx, x, count, rate, base, low, middle, high, inner, outer, index, sign, cell):
    """Distances, table and side of 16 inputs in a dyadic increment: ``t = h - r`` inside, ``LONG`` where open.

    ``low, middle, high`` are the classes of the first, the inner and the last cell; ``base`` numbers the coordinate's
    first table. NaN lies in cell 0 and keeps its distances.
    """

    def codegen(context, builder, signature, args):
        x_, count_, rate_, base_, low_, middle_, high_ = args[:7]
        kind, lanes = x_.type, x.lanes
        integer = ir.VectorType(ir.IntType(32), lanes)

        def number(value):
            return ir.Constant(kind, [ir.Constant(kind.element, value)] * lanes)

        def whole(value):
            return simd._splat(builder, builder.trunc(value, integer.element), lanes)

        def out(position, value):
            to = simd._pointer(
                context, builder, signature.args[position], args[position], ir.Constant(ir.IntType(64), 0)
            )
            builder.store(value, builder.bitcast(to, value.type.as_pointer())).align = 4

        zero, one = number(0.0), number(1.0)
        size = simd._splat(builder, builder.sitofp(count_, kind.element), lanes)
        inside = builder.select(builder.fcmp_ordered(">", x_, zero), x_, zero)
        inside = builder.select(builder.fcmp_ordered("<", inside, one), inside, one)
        here = builder.fptosi(builder.fmul(inside, size), integer)
        top = builder.sub(whole(count_), ir.Constant(integer, [ir.Constant(integer.element, 1)] * lanes))
        is_last = builder.icmp_signed(">=", here, top)
        here = builder.select(is_last, top, here)
        is_first = builder.icmp_signed("==", here, ir.Constant(integer, None))
        half = builder.fdiv(number(0.5), size)
        place = builder.fadd(builder.sitofp(here, kind), number(0.5))
        offset = builder.fsub(x_, builder.fdiv(place, size))  # count is a power of two: exact
        falling = builder.fcmp_ordered(">", offset, zero)
        distance = builder.select(falling, offset, builder.fneg(offset))
        scale = simd._splat(builder, rate_, lanes)
        time = builder.fmul(builder.fsub(half, distance), scale)
        time = builder.select(builder.fcmp_ordered("<", time, zero), zero, time)
        time = builder.select(builder.fcmp_ordered(">", time, number(LONG)), number(LONG), time)
        is_open = builder.select(falling, is_last, is_first)
        missing = builder.and_(is_open, builder.fcmp_ordered("==", x_, x_))
        time = builder.select(missing, number(LONG), time)
        table = builder.select(is_last, whole(high_), builder.select(is_first, whole(low_), whole(middle_)))
        table = builder.add(table, whole(base_))
        table = builder.add(builder.add(table, table), builder.zext(falling, integer))
        out(7, builder.fmul(distance, scale))
        out(8, time)
        out(9, table)
        out(10, builder.select(falling, one, builder.fneg(one)))
        out(11, here)
        return context.get_dummy_value()

    long = types.int64
    return types.void(x, long, x.scalar, long, long, long, long, inner, outer, index, sign, cell), codegen


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
def _place(
    lanes, tile, j, start, count, dyadic, points, kinds, classes, rate, inner, outer, index, sign, cell
):
    """Distances, table and side of 16 inputs in one increment of coordinate j."""
    if dyadic:
        low, middle = np.int64(kinds[start]), np.int64(kinds[start + count // 2])
        if count > 2:
            middle = np.int64(kinds[start + 1])
        high = np.int64(kinds[start + count - 1])
        x = load(lanes, tile, j * TILE, 0)
        _place_dyadic(x, count, rate, j * classes, low, middle, high, inner, outer, index, sign, cell)
        return
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


@numba.njit(nogil=True, forceinline=True)
def _gammas(lanes, z, decay, terms, inverse, gammas):
    """``P(k, z)`` for k = 1..terms into ``gammas``; ``decay = exp(-z)``; ``inverse[k] = 1/k``."""
    kind = gammas.dtype.type
    if terms == 1:
        store(mul(exp_minus_one(mul(z, kind(-1))), kind(-1)), gammas, 0, 0)
        return
    one = add(lanes, kind(1))
    series = one
    for k in range(SERIES, 0, -1):
        series = fma(mul(series, z), get(inverse, terms + k), one)
    power = decay
    tail = decay
    for k in range(1, terms):
        power = mul(mul(power, z), get(inverse, k))
        store(power, gammas, (k - 1) * TILE, 0)  # z^k e^-z / k!
        tail = add(tail, power)
    power = mul(mul(power, z), get(inverse, terms))
    value = choose_below(z, kind(SPLIT), mul(power, series), fma(tail, kind(-1), one))
    store(value, gammas, (terms - 1) * TILE, 0)
    for k in range(terms - 1, 0, -1):
        value = add(load(lanes, gammas, (k - 1) * TILE, 0), value)
        store(value, gammas, (k - 1) * TILE, 0)


@numba.njit(nogil=True, forceinline=True)
def _weights(lanes, inner, outer, size, noise_row, nilpotent, inverse, gammas, first, weight):
    """``w = F(r) Q(t)[0]`` (s, 16); ``first`` keeps ``Q(t)[0]``."""
    kind = inner.dtype.type
    r, t = load(lanes, inner, 0, 0), load(lanes, outer, 0, 0)
    z = add(t, t)
    terms = 2 * size - 1
    decay = add(exp_minus_one(mul(z, kind(-1))), kind(1))
    _gammas(lanes, z, decay, terms, inverse, gammas)
    for i in range(size):
        value = lanes
        for k in range(terms):
            value = fma(load(lanes, gammas, k * TILE, 0), get(noise_row, i * terms + k), value)
        store(value, first, i * TILE, 0)
    decay = add(exp_minus_one(mul(r, kind(-1))), kind(1))
    for j in range(size):
        value = lanes
        power = decay
        for k in range(size):
            partial = lanes
            for i in range(size):
                partial = fma(
                    load(lanes, first, i * TILE, 0), get(nilpotent, (k * size + j) * size + i), partial
                )
            value = fma(partial, power, value)
            power = mul(power, r)
        store(value, weight, j * TILE, 0)


@numba.njit(nogil=True, forceinline=True)
def _slopes(
    lanes, inner, outer, size, kappa, response, generator, nilpotent, first, weight, by_inner, by_outer
):
    """``dw/dr = A w`` and ``dw/dt = F(r) kappa h_0(t) h(t)``; overwrites ``first``."""
    kind = inner.dtype.type
    r, t = load(lanes, inner, 0, 0), load(lanes, outer, 0, 0)
    decay = add(exp_minus_one(mul(t, kind(-2))), kind(1))
    h0 = lanes
    for i in range(size):
        h = lanes
        for k in range(size - 1, -1, -1):
            h = add(mul(h, t), get(response, i * size + k))
        if i == 0:
            h0 = h
        store(mul(mul(mul(h0, h), decay), kappa), first, i * TILE, 0)
    decay = add(exp_minus_one(mul(r, kind(-1))), kind(1))
    for j in range(size):
        value, slope = lanes, lanes
        power = decay
        for k in range(size):
            partial = lanes
            for i in range(size):
                partial = fma(
                    load(lanes, first, i * TILE, 0), get(nilpotent, (k * size + j) * size + i), partial
                )
            value = fma(partial, power, value)
            power = mul(power, r)
            slope = fma(load(lanes, weight, k * TILE, 0), get(generator, j * size + k), slope)
        store(value, by_outer, j * TILE, 0)
        store(slope, by_inner, j * TILE, 0)


@numba.njit(cache=True, nogil=True)
def forward(
    x, rates, tables, points, kinds, starts, counts, dyadic, classes, size, top, begin, end,
    noise_row, nilpotent, inverse, values, places,
):  # fmt: skip
    """Values and positions of the inputs ``begin .. end``."""
    dim, increments, dtype = rates.shape[0], starts.shape[0], x.dtype
    inner, outer, sign = np.empty(TILE, dtype), np.empty(TILE, dtype), np.empty(TILE, dtype)
    index, cell = np.empty(TILE, np.int32), np.empty(TILE, np.int32)
    gammas, first = np.empty(2 * size * TILE, dtype), np.empty(size * TILE, dtype)
    weight = np.empty(size * TILE, dtype)
    lanes, tile = simd.exact16(x), np.empty(dim * TILE, dtype)
    for base in range(begin, end, TILE):
        valid = min(TILE, end - base)
        _transpose_in(x, base, valid, dim, tile)
        for j in range(dim):
            for k in range(increments):
                _place(
                    lanes, tile, j, starts[k], counts[k], dyadic, points, kinds, classes, rates[j],
                    inner, outer, index, sign, cell,
                )  # fmt: skip
                _weights(lanes, inner, outer, size, noise_row, nilpotent, inverse, gammas, first, weight)
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
    x, rates, tables, points, kinds, starts, counts, dyadic, classes, size, top, begin, end,
    noise_row, nilpotent, inverse, kappa, response, generator, grad, by_x, by_rate, by_tables, want_tables,
):  # fmt: skip
    """Gradients of the inputs ``begin .. end``; those of rates and tables (float64) are added to the buffers."""
    dim, increments, dtype = rates.shape[0], starts.shape[0], x.dtype
    inner, outer, sign = np.empty(TILE, dtype), np.empty(TILE, dtype), np.empty(TILE, dtype)
    index, cell = np.empty(TILE, np.int32), np.empty(TILE, np.int32)
    gammas, first = np.empty(2 * size * TILE, dtype), np.empty(size * TILE, dtype)
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
                    lanes, tile, j, starts[k], counts[k], dyadic, points, kinds, classes, rates[j],
                    inner, outer, index, sign, cell,
                )  # fmt: skip
                _weights(lanes, inner, outer, size, noise_row, nilpotent, inverse, gammas, first, weight)
                _slopes(
                    lanes, inner, outer, size, kappa, response, generator, nilpotent, first, weight,
                    by_inner, by_outer,
                )  # fmt: skip
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
