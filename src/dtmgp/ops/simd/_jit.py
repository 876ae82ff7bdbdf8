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


@intrinsic
def exp_minus_one(typingctx, vector):
    """``exp(x) - 1`` for ``x <= 0``, to about one unit in the last place, also relatively to small results.

    ``x = n ln 2 + r``; ``exp(r) - 1`` is its Taylor sum (|r| <= 0.35: 7 terms in float32, 13 in float64); times
    ``2^n`` plus ``2^n - 1``. -1 below the smallest exponent.
    """
    double = vector.scalar.bitwidth == 64
    terms, bias, shift = (14, 1023, 52) if double else (8, 127, 23)
    high, low = (
        (0.693147180369123816490, 1.90821492927058770002e-10) if double else (0.693359375, -2.12194440e-4)
    )
    lowest = -700.0 if double else -86.0

    def codegen(context, builder, signature, args):
        x = args[0]
        kind, lanes, scalar = x.type, vector.lanes, context.get_value_type(vector.scalar)
        integer = ir.VectorType(ir.IntType(vector.scalar.bitwidth), lanes)

        def constant(value):
            return ir.Constant(kind, [ir.Constant(scalar, value)] * lanes)

        def whole(value):
            return ir.Constant(integer, [ir.Constant(integer.element, value)] * lanes)

        x = builder.select(builder.fcmp_ordered("<", x, constant(lowest)), constant(lowest), x)
        rounding = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind]), f"llvm.rint.{_name(vector)}"
        )
        n = builder.call(rounding, [builder.fmul(x, constant(1.4426950408889634))])
        rest = _multiply_add(builder, vector, n, constant(-high), x)
        rest = _multiply_add(builder, vector, n, constant(-low), rest)
        factorial = 1.0
        factors = [1.0]
        for k in range(2, terms):
            factorial *= k
            factors.append(1.0 / factorial)
        value = constant(factors[-1])
        for factor in factors[-2::-1]:
            value = _multiply_add(builder, vector, value, rest, constant(factor))
        value = builder.fmul(value, rest)
        power = builder.add(builder.fptosi(n, integer), whole(bias))
        power = builder.bitcast(builder.shl(power, whole(shift)), kind)
        return _multiply_add(builder, vector, power, value, builder.fsub(power, constant(1.0)))

    return vector(vector), codegen


@intrinsic
def choose_below(typingctx, a, bound, low, high):
    """``low`` where ``a < bound``, ``high`` elsewhere; ``bound`` is a scalar of the vectors' type."""

    def codegen(context, builder, signature, args):
        value, limit, left, right = args
        return builder.select(builder.fcmp_ordered("<", value, _splat(builder, limit, a.lanes)), left, right)

    return a(a, a.scalar, low, high), codegen
