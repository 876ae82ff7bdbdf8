"""Vectors in the making: arithmetic on ``Lanes`` emits LLVM instructions, so that formulas read as formulas.

For the bodies of Numba intrinsics: Python loops there unroll, Python numbers become constants. LLVM maps any number
of lanes to what the machine has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils

Mask = Any  # an LLVM vector of bits
Number = float


class Lanes:
    """An LLVM vector of floats with the builder that its arithmetic goes to."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.value = value

    @property
    def double(self) -> bool:
        """Whether the lanes are float64."""
        return isinstance(self.value.type.element, ir.DoubleType)

    def constant(self, number: Number) -> Lanes:
        """The number in all lanes."""
        kind = self.value.type
        lanes = [ir.Constant(kind.element, float(number))] * kind.count
        return Lanes(self.builder, ir.Constant(kind, lanes))

    def _with(self, other: Lanes | Number) -> Any:
        return other.value if isinstance(other, Lanes) else self.constant(other).value

    def __add__(self, other: Lanes | Number) -> Lanes:
        return Lanes(self.builder, self.builder.fadd(self.value, self._with(other)))

    def __sub__(self, other: Lanes | Number) -> Lanes:
        return Lanes(self.builder, self.builder.fsub(self.value, self._with(other)))

    def __mul__(self, other: Lanes | Number) -> Lanes:
        return Lanes(self.builder, self.builder.fmul(self.value, self._with(other)))

    def __neg__(self) -> Lanes:
        return Lanes(self.builder, self.builder.fneg(self.value))

    __radd__ = __add__
    __rmul__ = __mul__

    def _call(self, name: str, *others: Lanes | Number) -> Lanes:
        kind = self.value.type
        values = [self.value, *(self._with(o) for o in others)]
        signature = ir.FunctionType(kind, [kind] * len(values))
        suffix = f"v{kind.count}f{64 if self.double else 32}"
        function = cgutils.get_or_insert_function(self.builder.module, signature, f"llvm.{name}.{suffix}")
        return Lanes(self.builder, self.builder.call(function, values))

    def fma(self, factor: Lanes | Number, plus: Lanes | Number) -> Lanes:
        """``self * factor + plus``, in one rounding where the machine can."""
        return self._call("fmuladd", factor, plus)

    def floor(self) -> Lanes:
        """The largest integers that are not larger."""
        return self._call("floor")

    def below(self, other: Lanes | Number) -> Mask:
        """Where ``self < other``; nowhere for NaN."""
        return self.builder.fcmp_ordered("<", self.value, self._with(other))

    def above(self, other: Lanes | Number) -> Mask:
        """Where ``self > other``; nowhere for NaN."""
        return self.builder.fcmp_ordered(">", self.value, self._with(other))

    def equal(self, other: Lanes | Number) -> Mask:
        """Where ``self == other``; nowhere for NaN."""
        return self.builder.fcmp_ordered("==", self.value, self._with(other))

    def where(self, mask: Mask, other: Lanes | Number) -> Lanes:
        """``self`` where the mask is set, ``other`` elsewhere."""
        return Lanes(self.builder, self.builder.select(mask, self.value, self._with(other)))

    def polynomial(self, coefficients: Sequence[Number]) -> Lanes:
        """``sum_k coefficients[k] self^k``."""
        value = self.constant(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = value.fma(self, coefficient)
        return value


def combination(terms: Sequence[tuple[Number, Lanes]]) -> Lanes | None:
    """Sum of multiples; zeros cost nothing, and None stands for an empty sum."""
    total: Lanes | None = None
    for factor, value in terms:
        if factor == 0:
            continue
        if total is None:
            total = value if factor == 1 else value * factor
        elif factor == 1:
            total = total + value
        else:
            total = value.fma(factor, total)
    return total


def exponential(x: Lanes, minus_one: bool = False) -> Lanes:
    """``exp(x)``, or ``exp(x) - 1``, for ``x <= 0``, to about one unit in the last place of the result.

    ``x = n ln 2 + r``; ``exp(r) - 1`` is its Taylor sum (|r| <= 0.35: 7 terms in float32, 13 in float64), times
    ``2^n``. Below the smallest exponent ``x`` counts as that.
    """
    builder, double = x.builder, x.double
    terms, bias, shift, lowest = (14, 1023, 52, -700.0) if double else (8, 127, 23, -86.0)
    high, low = (
        (0.693147180369123816490, 1.90821492927058770002e-10) if double else (0.693359375, -2.12194440e-4)
    )
    integer = ir.VectorType(ir.IntType(64 if double else 32), x.value.type.count)

    def whole(number: int) -> Any:
        return ir.Constant(integer, [ir.Constant(integer.element, number)] * integer.count)

    x = x.constant(lowest).where(x.below(lowest), x)
    n = (x * 1.4426950408889634)._call("rint")
    rest = n.fma(-low, n.fma(-high, x))
    factors = [1.0]
    for k in range(2, terms):
        factors.append(factors[-1] / k)
    value = rest.polynomial(factors) * rest
    power = builder.shl(builder.add(builder.fptosi(n.value, integer), whole(bias)), whole(shift))
    scale = Lanes(builder, builder.bitcast(power, x.value.type))
    return scale.fma(value, scale - 1.0 if minus_one else scale)
