"""Compiled Laplace and Matern features on dyadic points: 16 numbers of the flattened inputs (N, d) side by side.

Lane l of vector v belongs to coordinate ``(16 v + l) mod d``, which repeats after ``phases`` vectors: constants are
laid out as (phases, .., 16), and inputs, values and gradients are read and written in order, without transposition. An
increment has at most three classes of cells (first, inner, last): the tables are (phases, increments, 3, 2 sides, s,
s, 16) and are selected, not looked up. Arrays are flat.
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

from dtmgp.ops.line import formulas
from dtmgp.ops.simd import _jit as simd
from dtmgp.ops.simd._jit import get, load, put, store
from dtmgp.ops.simd.lanes import Lanes

TILE = 16
FLUSH = 64  # vectors of one phase whose gradients are summed in the inputs' own precision


def _bytes(vector):
    return 8 if isinstance(vector.element, ir.DoubleType) else 4


class _Memory:
    """Vectors at multiples of 16 entries from a start."""

    def __init__(self, context, builder, kind, array, index, like):
        self.builder, self.like = builder, like
        first = simd._pointer(context, builder, kind, array, index)
        self.pointer = builder.bitcast(first, like.value.type.as_pointer())
        self.align = _bytes(like.value.type)

    def _at(self, number):
        return self.builder.gep(self.pointer, [ir.Constant(ir.IntType(64), number)])

    def load(self, number):
        found = self.builder.load(self._at(number))
        found.align = self.align
        return Lanes(self.builder, found)

    def store(self, value, number):
        self.builder.store(value.value, self._at(number)).align = self.align


class _Cell:
    """Where the inputs lie in one increment: distances, and masks of the side and the class of the cell.

    ``kinds`` is 1 for the first increment (one point, no neighbours), 2 for the second (no inner cells), 3 for others.
    """

    def __init__(self, x, rate, count, inverse, kinds):
        builder = x.builder
        self.builder, self.kinds, self.place = builder, kinds, None
        if kinds == 1:
            offset = x - 0.5
        else:
            inside = x.where(x.above(0.0), 0.0)
            inside = inside.where(inside.below(1.0), 1.0)
            top = count - 1.0
            place = (inside * count).floor()
            place = place.where(place.below(top), top)
            self.place, self.first = place, place.equal(0.0)
            self.last = place.equal(top)
            offset = x - (place + 0.5) * inverse  # the count is a power of two: exact
        self.falling = offset.above(0.0)
        distance = offset.where(self.falling, -offset)
        self.sign = x.constant(1.0).where(self.falling, -1.0)
        self.r, self.t = distance * rate, None
        if kinds == 1:
            return
        time = (inverse * 0.5 - distance) * rate
        time = x.constant(0.0).where(time.below(0.0), time)
        is_open = builder.select(self.falling, self.last, self.first)
        missing = builder.and_(is_open, x.equal(x))
        time = x.constant(formulas.LONG).where(time.above(formulas.LONG), time)
        self.t = x.constant(formulas.LONG).where(missing, time)

    def classes(self):
        """(number, mask) of the tables that occur: 2 * class + side."""
        sides = [self.builder.not_(self.falling), self.falling]
        if self.kinds == 1:
            return list(enumerate(sides))
        cells = [(0, self.first), (2, self.last)]
        if self.kinds == 3:
            cells.append((1, self.builder.not_(self.builder.or_(self.first, self.last))))
        return [
            (2 * c + s, self.builder.and_(cell, side)) for c, cell in cells for s, side in enumerate(sides)
        ]

    def choose(self, read):
        """The entry of every lane's table, from ``read(number of the table)``."""
        sides = [read(1).where(self.falling, read(0))]
        if self.kinds == 1:
            return sides[0]
        last = read(5).where(self.falling, read(4))
        if self.kinds == 2:
            return sides[0].where(self.first, last)
        inner = read(3).where(self.falling, read(2))
        return sides[0].where(self.first, last.where(self.last, inner))


def _splat(builder, value, like):
    return Lanes(builder, simd._splat(builder, value, like.value.type.count))


def _value_step(kinds, whole):
    """The step of one increment forward, for classes of cells and all its functions or only the first."""

    @intrinsic
    def step(typingctx, x, rate, count, inverse, tables, table, block, places, row, state):
        size = state.count
        functions = size if whole else 1

        def codegen(context, builder, signature, args):
            number, speed = Lanes(builder, args[0]), Lanes(builder, args[1])
            cell = _Cell(
                number, speed, _splat(builder, args[2], number), _splat(builder, args[3], number), kinds
            )
            entries = _Memory(context, builder, tables, args[4], args[5], number)
            out = _Memory(context, builder, block, args[6], args[8], number)
            weight = formulas.weights(size - 1, cell.r, cell.t).values
            for f in range(functions):
                total = None
                for i in range(size):
                    entry = cell.choose(lambda n, i=i, f=f: entries.load((n * size + i) * size + f))
                    total = weight[i] * entry if total is None else weight[i].fma(entry, total)
                out.store(total, f)
            integer = ir.VectorType(ir.IntType(32), TILE)
            place = ir.Constant(integer, None) if kinds == 1 else builder.fptosi(cell.place.value, integer)
            where = simd._pointer(context, builder, places, args[7], args[8])
            where = builder.bitcast(where, integer.as_pointer())
            for f in range(functions):
                pointer = builder.gep(where, [ir.Constant(ir.IntType(64), f)])
                builder.store(place, pointer).align = 4
            return context.get_dummy_value()

        long, scalar = types.int64, x.scalar
        given = (x, rate, scalar, scalar, tables, long, block, places, long, state)
        return types.void(*given), codegen

    return step


def _slope_step(kinds, whole):
    """The step backward: returns the slope in x over the rate; adds to sums of rates and (if wanted) tables."""

    @intrinsic
    def step(
        typingctx, x, rate, count, inverse, tables, table, block, row, sums, want, turns, turn, slope, state
    ):
        size = state.count
        functions = size if whole else 1

        def codegen(context, builder, signature, args):
            number, speed = Lanes(builder, args[0]), Lanes(builder, args[1])
            cell = _Cell(
                number, speed, _splat(builder, args[2], number), _splat(builder, args[3], number), kinds
            )
            entries = _Memory(context, builder, tables, args[4], args[5], number)
            grads = _Memory(context, builder, block, args[6], args[7], number)
            at = formulas.weights(size - 1, cell.r, cell.t)
            by_inner, by_outer = formulas.slopes(size - 1, at)
            grad = [grads.load(f) for f in range(functions)]
            inner, outer = number.constant(0.0), number.constant(0.0)
            for i in range(size):
                upstream = number.constant(0.0)
                for f in range(functions):
                    entry = cell.choose(lambda n, i=i, f=f: entries.load((n * size + i) * size + f))
                    upstream = grad[f].fma(entry, upstream)
                inner = by_inner[i].fma(upstream, inner)
                if by_outer is not None:
                    outer = by_outer[i].fma(upstream, outer)
            with builder.if_then(args[9]):
                rates = _Memory(context, builder, turns, args[10], args[11], number)
                both = cell.r.fma(inner, rates.load(0))
                rates.store(both if cell.t is None else cell.t.fma(outer, both), 0)
                total = _Memory(context, builder, sums, args[8], args[5], number)
                for i in range(size):
                    for f in range(functions):
                        part = grad[f] * at.values[i]
                        for n, mask in cell.classes():
                            place = (n * size + i) * size + f
                            before = total.load(place)
                            total.store((before + part).where(mask, before), place)
            change = inner if by_outer is None else inner - outer
            return change.fma(cell.sign, Lanes(builder, args[12])).value

        long, scalar = types.int64, x.scalar
        given = (
            x, rate, scalar, scalar, tables, long, block, long, sums, types.boolean, turns, long, slope, state,
        )  # fmt: skip
        return x(*given), codegen

    return step


values_one, values_two, values_many = (_value_step(kinds, True) for kinds in (1, 2, 3))
first_one, first_two, first_many = (_value_step(kinds, False) for kinds in (1, 2, 3))
slopes_one, slopes_two, slopes_many = (_slope_step(kinds, True) for kinds in (1, 2, 3))
start_one, start_two, start_many = (_slope_step(kinds, False) for kinds in (1, 2, 3))


@numba.njit(nogil=True, forceinline=True)
def _spread(block, out, at, top, valid):
    """``out[at + lane top + f] = block[f, lane]``."""
    if valid == TILE and top == 3:
        simd.spread3(block, 0, out, at)
    elif valid == TILE and top == 2:
        simd.spread2(block, 0, out, at)
    elif valid == TILE and top == 4:
        simd.spread4(block, 0, out, at)
    else:
        for lane in range(valid):
            for f in range(top):
                put(out, at + lane * top + f, get(block, f * TILE + lane))


@numba.njit(nogil=True, forceinline=True)
def _collect(given, at, block, top, valid):
    """The inverse of ``_spread``."""
    if valid == TILE and top == 3:
        simd.collect3(given, at, block, 0)
    elif valid == TILE and top == 2:
        simd.collect2(given, at, block, 0)
    elif valid == TILE and top == 4:
        simd.collect4(given, at, block, 0)
    else:
        for lane in range(valid):
            for f in range(top):
                put(block, f * TILE + lane, get(given, at + lane * top + f))


@numba.njit(nogil=True, forceinline=True)
def _values(k, first, x, rate, count, inverse, tables, table, block, where, row, state):
    """The step of increment k, by the classes of its cells; ``first``: only the first of its functions."""
    if k == 0 and first:
        first_one(x, rate, count, inverse, tables, table, block, where, row, state)
    elif k == 0:
        values_one(x, rate, count, inverse, tables, table, block, where, row, state)
    elif k == 1 and first:
        first_two(x, rate, count, inverse, tables, table, block, where, row, state)
    elif k == 1:
        values_two(x, rate, count, inverse, tables, table, block, where, row, state)
    elif first:
        first_many(x, rate, count, inverse, tables, table, block, where, row, state)
    else:
        values_many(x, rate, count, inverse, tables, table, block, where, row, state)


@numba.njit(nogil=True, forceinline=True)
def _slope(
    k, first, x, rate, count, inverse, tables, table, block, row, sums, want, turns, turn, slope, state
):
    """The step backward."""
    if k == 0 and first:
        return start_one(
            x, rate, count, inverse, tables, table, block, row, sums, want, turns, turn, slope, state
        )
    if k == 0:
        return slopes_one(
            x, rate, count, inverse, tables, table, block, row, sums, want, turns, turn, slope, state
        )
    if k == 1 and first:
        return start_two(
            x, rate, count, inverse, tables, table, block, row, sums, want, turns, turn, slope, state
        )
    if k == 1:
        return slopes_two(
            x, rate, count, inverse, tables, table, block, row, sums, want, turns, turn, slope, state
        )
    if first:
        return start_many(
            x, rate, count, inverse, tables, table, block, row, sums, want, turns, turn, slope, state
        )
    return slopes_many(
        x, rate, count, inverse, tables, table, block, row, sums, want, turns, turn, slope, state
    )


@numba.njit(cache=True, nogil=True)
def forward(x, rates, tables, counts, inverses, top, begin, end, state, values, places):
    """Values and positions of the numbers ``begin .. end``; begin is a multiple of 16."""
    increments, size = counts.shape[0], len(state)
    phases, step = rates.shape[0] // TILE, 6 * size * size * TILE
    lanes, edge = simd.exact16(x), np.zeros(TILE, x.dtype)
    block = np.empty(increments * size * TILE, x.dtype)
    where = np.empty(increments * size * TILE, np.int32)
    for base in range(begin, end, TILE):
        valid, phase = min(TILE, end - base), (base // TILE) % phases
        for lane in range(valid if valid < TILE else 0):
            edge[lane] = x[base + lane]
        number = load(lanes, x, base, 0) if valid == TILE else load(lanes, edge, 0, 0)
        rate = load(lanes, rates, phase * TILE, 0)
        for k in range(increments):
            first, table = size > 1 and top == k * size + 1, (phase * increments + k) * step
            count, inverse = get(counts, k), get(inverses, k)
            _values(
                k, first, number, rate, count, inverse, tables, table, block, where, k * size * TILE, state
            )
        _spread(block, values, base * top, top, valid)
        _spread(where, places, base * top, top, valid)


@numba.njit(nogil=True, forceinline=True)
def _flush(sums, total):
    for i in range(sums.shape[0]):
        put(total, i, get(total, i) + np.float64(get(sums, i)))
        put(sums, i, sums.dtype.type(0))


@numba.njit(cache=True, nogil=True)
def backward(
    x, rates, tables, counts, inverses, top, begin, end, state, grad, by_x, by_rates, by_tables, want
):
    """Gradients of the numbers ``begin .. end``; those of rates (times the rate) and tables are added to buffers."""
    increments, size = counts.shape[0], len(state)
    phases, step = rates.shape[0] // TILE, 6 * size * size * TILE
    lanes, edge = simd.exact16(x), np.zeros(TILE, x.dtype)
    block = np.zeros(increments * size * TILE, x.dtype)
    sums, turns = np.zeros(tables.shape[0], x.dtype), np.zeros(rates.shape[0], x.dtype)
    for base in range(begin, end, TILE):
        valid, phase = min(TILE, end - base), (base // TILE) % phases
        if valid < TILE:
            edge[:] = 0
            block[:] = 0
            for lane in range(valid):
                edge[lane] = x[base + lane]
        number = load(lanes, x, base, 0) if valid == TILE else load(lanes, edge, 0, 0)
        _collect(grad, base * top, block, top, valid)
        rate, slope, turn = load(lanes, rates, phase * TILE, 0), lanes, phase * TILE
        for k in range(increments):
            first, table = size > 1 and top == k * size + 1, (phase * increments + k) * step
            slope = _slope(
                k, first, number, rate, get(counts, k), get(inverses, k), tables, table, block, k * size * TILE,
                sums, want, turns, turn, slope, state,
            )  # fmt: skip
        slope = simd.mul(slope, rate)
        if valid == TILE:
            store(slope, by_x, base, 0)
        else:
            store(slope, edge, 0, 0)
            for lane in range(valid):
                by_x[base + lane] = edge[lane]
        if want and ((base - begin) // TILE + 1) % (FLUSH * phases) == 0:
            _flush(sums, by_tables)
            _flush(turns, by_rates)
    if want:
        _flush(sums, by_tables)
        _flush(turns, by_rates)
