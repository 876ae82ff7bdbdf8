"""Vectors as Numba values: what LLVM would not find by itself in the contraction is written as vector code.

A vector has a scalar type, a number of lanes, and is *exact* or *masked*: loads and stores of masked vectors touch
only the first ``remaining`` lanes, so that rows of any width need no padding. LLVM maps any number of lanes to what
the machine has. Arrays are flat and contiguous; indices are not checked and must not be negative.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

I32 = ir.IntType(32)
I64 = ir.IntType(64)


class Vector(types.Type):
    """Type of a vector value."""

    def __init__(self, scalar: Any, lanes: int, exact: bool) -> None:
        self.scalar = scalar
        self.lanes = lanes
        self.exact = exact
        super().__init__(name=f"Vector({scalar}, {lanes}, {exact})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """Held in registers as an LLVM vector."""

    def __init__(self, dmm: Any, fe_type: Vector) -> None:
        scalar = dmm.lookup(fe_type.scalar).get_value_type()
        super().__init__(dmm, fe_type, ir.VectorType(scalar, fe_type.lanes))


def _zero(lanes: int, exact: bool):
    @intrinsic
    def zero(typingctx, array):
        kind = Vector(array.dtype, lanes, exact)

        def codegen(context, builder, signature, args):
            return ir.Constant(context.get_value_type(kind), None)

        return kind(array), codegen

    return zero


exact4, exact8, exact16 = (_zero(lanes, True) for lanes in (4, 8, 16))
masked4, masked8, masked16 = (_zero(lanes, False) for lanes in (4, 8, 16))


def _pointer(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def _splat(builder, value, lanes):
    kind = ir.VectorType(value.type, lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    return builder.shuffle_vector(
        first, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(I32, lanes), None)
    )


def _mask(builder, remaining, lanes):
    numbers = ir.Constant(ir.VectorType(I64, lanes), [ir.Constant(I64, i) for i in range(lanes)])
    return builder.icmp_signed("<", numbers, _splat(builder, remaining, lanes))


def _name(vector: Vector) -> str:
    letter = "i" if isinstance(vector.scalar, types.Integer) else "f"
    return f"v{vector.lanes}{letter}{vector.scalar.bitwidth}"


def _bytes(vector: Vector) -> int:
    return vector.scalar.bitwidth // 8


@intrinsic
def load(typingctx, like, array, index, remaining):
    """The vector at ``array[index:]``; lanes from ``remaining`` on are 0 if it is masked."""

    def codegen(context, builder, signature, args):
        _, values, position, rest = args
        kind = context.get_value_type(like)
        pointer = _pointer(context, builder, signature.args[1], values, position)
        pointer = builder.bitcast(pointer, kind.as_pointer())
        if like.exact:
            found = builder.load(pointer)
            found.align = _bytes(like)
            return found
        signature_type = ir.FunctionType(
            kind, [kind.as_pointer(), I32, ir.VectorType(ir.IntType(1), like.lanes), kind]
        )
        function = cgutils.get_or_insert_function(
            builder.module, signature_type, f"llvm.masked.load.{_name(like)}.p0"
        )
        mask = _mask(builder, rest, like.lanes)
        return builder.call(
            function, [pointer, ir.Constant(I32, _bytes(like)), mask, ir.Constant(kind, None)]
        )

    return like(like, array, types.int64, types.int64), codegen


@intrinsic
def store(typingctx, vector, array, index, remaining):
    """Write the vector to ``array[index:]``, only the first ``remaining`` lanes if it is masked."""

    def codegen(context, builder, signature, args):
        value, values, position, rest = args
        pointer = _pointer(context, builder, signature.args[1], values, position)
        pointer = builder.bitcast(pointer, value.type.as_pointer())
        if vector.exact:
            builder.store(value, pointer).align = _bytes(vector)
        else:
            signature_type = ir.FunctionType(
                ir.VoidType(),
                [value.type, value.type.as_pointer(), I32, ir.VectorType(ir.IntType(1), vector.lanes)],
            )
            function = cgutils.get_or_insert_function(
                builder.module, signature_type, f"llvm.masked.store.{_name(vector)}.p0"
            )
            mask = _mask(builder, rest, vector.lanes)
            builder.call(function, [value, pointer, ir.Constant(I32, _bytes(vector)), mask])
        return context.get_dummy_value()

    return types.void(vector, array, types.int64, types.int64), codegen


def _multiply_add(builder, vector, a, b, c):
    if isinstance(vector.scalar, types.Integer):
        return builder.add(builder.mul(a, b), c)
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(a.type, [a.type] * 3), f"llvm.fmuladd.{_name(vector)}"
    )
    return builder.call(function, [a, b, c])


@intrinsic
def fma(typingctx, a, b, c):
    """``a * b + c``; ``b`` may be a scalar of the vectors' type."""

    def codegen(context, builder, signature, args):
        left, right, plus = args
        if not isinstance(b, Vector):
            right = _splat(builder, right, a.lanes)
        return _multiply_add(builder, a, left, right, plus)

    return a(a, b if isinstance(b, Vector) else a.scalar, c), codegen


@intrinsic
def mul(typingctx, a, b):
    """``a * b``; ``b`` may be a scalar of the vector's type."""

    def codegen(context, builder, signature, args):
        left, right = args
        if not isinstance(b, Vector):
            right = _splat(builder, right, a.lanes)
        if isinstance(a.scalar, types.Integer):
            return builder.mul(left, right)
        return builder.fmul(left, right)

    return a(a, b if isinstance(b, Vector) else a.scalar), codegen


@intrinsic
def add(typingctx, a, b):
    """``a + b``; ``b`` may be a scalar of the vector's type."""

    def codegen(context, builder, signature, args):
        left, right = args
        if not isinstance(b, Vector):
            right = _splat(builder, right, a.lanes)
        if isinstance(a.scalar, types.Integer):
            return builder.add(left, right)
        return builder.fadd(left, right)

    return a(a, b if isinstance(b, Vector) else a.scalar), codegen


@intrinsic
def clamp_index(typingctx, vector, count):
    """Integers limited to ``0 .. count - 1``."""

    def codegen(context, builder, signature, args):
        value, limit = args
        top = builder.sub(limit, ir.Constant(limit.type, 1))
        top = _splat(builder, top, vector.lanes)
        low = ir.Constant(value.type, None)
        value = builder.select(builder.icmp_signed("<", value, low), low, value)
        return builder.select(builder.icmp_signed(">", value, top), top, value)

    return vector(vector, vector.scalar), codegen


@intrinsic
def total(typingctx, vector):
    """Sum of the lanes, in the order that is fastest (the same in every run)."""

    def codegen(context, builder, signature, args):
        scalar = context.get_value_type(vector.scalar)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(scalar, [scalar, args[0].type]),
            f"llvm.vector.reduce.fadd.{_name(vector)}",
        )
        return builder.call(function, [ir.Constant(scalar, -0.0), args[0]], fastmath=("reassoc",))

    return vector.scalar(vector), codegen


@intrinsic
def get(typingctx, array, index):
    """``array[index]`` without the checks for negative indices."""

    def codegen(context, builder, signature, args):
        return builder.load(_pointer(context, builder, signature.args[0], args[0], args[1]))

    return array.dtype(array, types.int64), codegen


@intrinsic
def put(typingctx, array, index, value):
    """``array[index] = value`` without the checks for negative indices."""

    def codegen(context, builder, signature, args):
        builder.store(args[2], _pointer(context, builder, signature.args[0], args[0], args[1]))
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), codegen


@intrinsic
def prefetch(typingctx, array, index):
    """Ask for the cache line of ``array[index]``, to be read and written soon."""

    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        pointer = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [pointer.type, I32, I32, I32]),
            "llvm.prefetch.p0",
        )
        builder.call(function, [pointer, ir.Constant(I32, 1), ir.Constant(I32, 3), ir.Constant(I32, 1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


# -- rows of vectors to vectors of rows -------------------------------------------------------------------------
def _interleave(count, back):
    """``count`` vectors side by side to numbers of one input side by side, or ``back``."""

    @intrinsic
    def move(typingctx, source, start, target, to):
        def codegen(context, builder, signature, args):
            kind = ir.VectorType(context.get_value_type(source.dtype), 16)
            ends = []
            for array, given, index in ((source, args[0], args[1]), (target, args[2], args[3])):
                pointer = _pointer(context, builder, array, given, index)
                ends.append(builder.bitcast(pointer, kind.as_pointer()))
            align = 8 if isinstance(kind.element, ir.DoubleType) else 4

            def at(pointer, number):
                return builder.gep(pointer, [ir.Constant(ir.IntType(64), number)])

            given = []
            for n in range(count):
                given.append(builder.load(at(ends[0], n)))
                given[-1].align = align
            for n in range(count):
                # entry e of the result is entry taken[e] of the given vectors, one after the other
                wanted = range(n * 16, (n + 1) * 16)
                if back:
                    taken = [(e % 16) * count + e // 16 for e in wanted]
                else:
                    taken = [(e % count) * 16 + e // count for e in wanted]
                builder.store(_gathered(builder, given, taken), at(ends[1], n)).align = align
            return context.get_dummy_value()

        return types.void(source, types.int64, target, types.int64), codegen

    return move


def _gathered(builder, given, taken):
    """A vector of entries of several vectors: two at a time."""
    kind = given[0].type
    total = None
    for pair in range(0, len(given), 2):
        left = given[pair]
        right = given[pair + 1] if pair + 1 < len(given) else ir.Constant(kind, ir.Undefined)
        inside = [pair * 16 <= e < (pair + 2) * 16 for e in taken]
        lanes = [e - pair * 16 if here else 0 for e, here in zip(taken, inside)]
        part = builder.shuffle_vector(left, right, _lanes(lanes))
        if total is not None:
            keep = [16 + n if here else n for n, here in enumerate(inside)]
            part = builder.shuffle_vector(total, part, _lanes(keep))
        total = part
    return total


def _lanes(numbers):
    return ir.Constant(ir.VectorType(ir.IntType(32), len(numbers)), numbers)


spread2, spread3, spread4 = (_interleave(count, False) for count in (2, 3, 4))
collect2, collect3, collect4 = (_interleave(count, True) for count in (2, 3, 4))
