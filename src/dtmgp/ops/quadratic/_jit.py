"""Compiled passes around the matrix products of the quadratic form: ratios of one input, sums, and their gradients.

Formulas in ``dtmgp.ops.quadratic.tables`` and ``operator``. Rows are inputs; reductions may be reassociated (they are
the same in every run). Level-1 values below ``tiny`` count as ``tiny``: their products underflow anyway.

A row of values (d, L) is taken apart into tiles (d/16, L, 16): then 16 functions of one level and one index in
consecutive coordinates are one vector. Functions come in groups of 16 of a ``kind``: ``ALWAYS`` active and in order,
``SOMETIMES`` active (``low <= position <= high``) and in order, ``SCATTERED``.
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils
from numba.extending import intrinsic

from dtmgp.ops.simd import _jit as simd
from dtmgp.ops.simd._jit import add, fma, get, load, mul, put, store
from dtmgp.ops.simd.lanes import Lanes

SUMS = {"reassoc", "contract", "nsz"}
TILE = 16
ALWAYS, SOMETIMES, SCATTERED = 0, 1, 2


@intrinsic
def _at_least(typingctx, vector, floor):
    """The larger of each lane and a scalar; NaN stays."""

    def codegen(context, builder, signature, args):
        x = Lanes(builder, args[0])
        limit = Lanes(builder, simd._splat(builder, args[1], vector.lanes))
        return limit.where(x.below(limit), x).value

    return vector(vector, vector.scalar), codegen


@intrinsic
def _reciprocal(typingctx, vector):
    def codegen(context, builder, signature, args):
        return builder.fdiv(Lanes(builder, args[0]).constant(1.0).value, args[0])

    return vector(vector), codegen


@intrinsic
def _product(typingctx, vector):
    """Product of the lanes, in the order that is fastest (the same in every run)."""

    def codegen(context, builder, signature, args):
        scalar = context.get_value_type(vector.scalar)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(scalar, [scalar, args[0].type]),
            f"llvm.vector.reduce.fmul.{simd._name(vector)}",
        )
        return builder.call(function, [ir.Constant(scalar, 1.0), args[0]], fastmath=("reassoc",))

    return vector.scalar(vector), codegen


@intrinsic
def _between(typingctx, value, place, low, high):
    """``value`` where ``low <= place <= high``, else 0."""

    def codegen(context, builder, signature, args):
        inside = builder.and_(
            builder.icmp_signed(">=", args[1], args[2]), builder.icmp_signed("<=", args[1], args[3])
        )
        return builder.select(inside, args[0], ir.Constant(args[0].type, None))

    return value(value, place, low, high), codegen


@numba.njit(nogil=True, forceinline=True)
def _tiles(row, at, dim, levels, tiles):
    """A row (dim, levels) from ``at`` on to tiles; lanes beyond ``dim`` are left as they are."""
    for j in range(0, dim, TILE):
        start, to = at + j * levels, j * levels
        if j + TILE <= dim and levels == 3:
            simd.collect3(row, start, tiles, to)
        elif j + TILE <= dim and levels == 2:
            simd.collect2(row, start, tiles, to)
        elif j + TILE <= dim and levels == 4:
            simd.collect4(row, start, tiles, to)
        else:
            for lane in range(min(TILE, dim - j)):
                for k in range(levels):
                    put(tiles, to + k * TILE + lane, get(row, start + lane * levels + k))


@numba.njit(nogil=True, forceinline=True)
def _rows(tiles, dim, levels, row, at):
    """The inverse of ``_tiles``."""
    for j in range(0, dim, TILE):
        start, to = at + j * levels, j * levels
        if j + TILE <= dim and levels == 3:
            simd.spread3(tiles, to, row, start)
        elif j + TILE <= dim and levels == 2:
            simd.spread2(tiles, to, row, start)
        elif j + TILE <= dim and levels == 4:
            simd.spread4(tiles, to, row, start)
        else:
            for lane in range(min(TILE, dim - j)):
                for k in range(levels):
                    put(row, start + lane * levels + k, get(tiles, to + k * TILE + lane))


@numba.njit(nogil=True, forceinline=True)
def _inverses(lanes, tiles, dim, levels, tiny, inverse):
    """``1 / v(j, 0)`` of all coordinates, and their product; lanes beyond the last coordinate are 1."""
    product = lanes
    for j in range(0, dim, TILE):
        value = _at_least(load(lanes, tiles, j * levels, 0), tiny)
        product = mul(product, value) if j else value
        store(_reciprocal(value), inverse, j, 0)
    return _product(product)


@numba.njit(nogil=True, cache=True)
def ratios(values, positions, dim, levels, tiny, groups, start, stop, first, u, root):
    """``u`` (rows, F) and ``root`` (rows,) of inputs first + start to first + stop; arrays are flat."""
    kinds, slots, coordinates, low, high = groups
    count, wide = slots.shape[0], -(-dim // TILE) * TILE
    tiles, places = np.ones(wide * levels, values.dtype), np.zeros(wide * levels, np.int32)
    inverse = np.empty(wide, values.dtype)
    lanes, whole = simd.exact16(values), simd.exact16(positions)
    for n in range(start, stop):
        at = (first + n) * dim * levels
        _tiles(values, at, dim, levels, tiles)
        _tiles(positions, at, dim, levels, places)
        put(root, n, _inverses(lanes, tiles, dim, levels, tiny, inverse))
        for f in range(0, count, TILE):
            kind, to = get(kinds, f // TILE), n * count + f
            if kind == SCATTERED:
                for i in range(f, f + TILE):
                    place = get(places, np.int64(get(slots, i)))
                    active = get(low, i) <= place <= get(high, i)
                    ratio = get(tiles, np.int64(get(slots, i))) * get(inverse, np.int64(get(coordinates, i)))
                    put(u, n * count + i, ratio if active else values.dtype.type(0))
                continue
            slot = np.int64(get(slots, f))
            ratio = mul(load(lanes, tiles, slot, 0), load(lanes, inverse, np.int64(get(coordinates, f)), 0))
            if kind == SOMETIMES:
                place = load(whole, places, slot, 0)
                ratio = _between(ratio, place, load(whole, low, f, 0), load(whole, high, f, 0))
            store(ratio, u, to, 0)


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
    values, positions, dim, levels, tiny, groups, start, stop, first, u, root,
    grad_u, grad_root, squares, grad_u2, grad_root2, out,
):  # fmt: skip
    """Gradient of the values from those of u and root, and of their squares (``squares``); arrays are flat."""
    kinds, slots, coordinates, low, high = groups
    count, wide, dtype = slots.shape[0], -(-dim // TILE) * TILE, values.dtype.type
    tiles, places = np.ones(wide * levels, values.dtype), np.zeros(wide * levels, np.int32)
    inverse, slopes = np.empty(wide, values.dtype), np.empty(wide * levels, values.dtype)
    lanes, whole = simd.exact16(values), simd.exact16(positions)
    for n in range(start, stop):
        at = (first + n) * dim * levels
        _tiles(values, at, dim, levels, tiles)
        _tiles(positions, at, dim, levels, places)
        _inverses(lanes, tiles, dim, levels, tiny, inverse)
        slope = get(grad_root, n)
        if squares:
            slope += 2 * get(root, n) * get(grad_root2, n)
        slope *= get(root, n)
        for j in range(0, dim, TILE):
            store(mul(load(lanes, inverse, j, 0), slope), slopes, j * levels, 0)
            for k in range(1, levels):
                store(lanes, slopes, j * levels + k * TILE, 0)
        for f in range(0, count, TILE):
            kind, here = get(kinds, f // TILE), n * count + f
            if kind == SCATTERED:
                for i in range(f, f + TILE):
                    slot, j = np.int64(get(slots, i)), np.int64(get(coordinates, i))
                    if get(low, i) <= get(places, slot) <= get(high, i):
                        ratio = get(u, n * count + i)
                        g = get(grad_u, n * count + i)
                        if squares:
                            g += 2 * ratio * get(grad_u2, n * count + i)
                        g *= get(inverse, j)
                        base = (j // TILE) * TILE * levels + j % TILE
                        put(slopes, slot, get(slopes, slot) + g)
                        put(slopes, base, get(slopes, base) - g * ratio)
                continue
            slot, j = np.int64(get(slots, f)), np.int64(get(coordinates, f))
            ratio, g = load(lanes, u, here, 0), load(lanes, grad_u, here, 0)
            if squares:
                g = fma(mul(ratio, dtype(2)), load(lanes, grad_u2, here, 0), g)
            g = mul(g, load(lanes, inverse, j, 0))
            if kind == SOMETIMES:
                place = load(whole, places, slot, 0)
                g = _between(g, place, load(whole, low, f, 0), load(whole, high, f, 0))
            store(add(load(lanes, slopes, slot, 0), g), slopes, slot, 0)
            base = j * levels
            store(fma(mul(g, dtype(-1)), ratio, load(lanes, slopes, base, 0)), slopes, base, 0)
        _rows(slopes, dim, levels, out, at)


@numba.njit(nogil=True, cache=True)
def spread_weights(rows, pairs, table, linear, matrix):
    """Weights of the functions (F, W) and the symmetric matrices (k, W, k), both 0 before, from the table (m, W)."""
    width = table.shape[1]
    for f in range(rows.shape[0]):
        if rows[f] >= 0:
            for w in range(width):
                linear[f, w] = table[rows[f], w]
    for p in range(pairs.shape[0]):
        i, j, row = pairs[p, 0], pairs[p, 1], pairs[p, 2]
        for w in range(width):
            matrix[i, w, j] = table[row, w]
            matrix[j, w, i] = table[row, w]


@numba.njit(nogil=True, cache=True)
def collect_weights(rows, pairs, linear, matrix, table):
    """Gradient of the table, 0 before, from those of the functions and of the pairs (upper triangle)."""
    width = table.shape[1]
    for f in range(rows.shape[0]):
        if rows[f] >= 0:
            for w in range(width):
                table[rows[f], w] = linear[f, w]
    for p in range(pairs.shape[0]):
        i, j, row = pairs[p, 0], pairs[p, 1], pairs[p, 2]
        for w in range(width):
            table[row, w] = matrix[i, w, j]
