"""The vocabulary for vectors of float32, and kernel functions in it as steps of kernels.

A kernel function without branches is run while a kernel is compiled, with `Lanes` in place of
numbers: what it does with them is what the kernel will do. So one text serves float64 (Numba),
float32 here, and float32 on a GPU (Triton); a `<kind>_float32` serves both of these. Errors are
within 4 units in the last place, and a power costs its exponent in such units.

Source: the polynomial of `log` is that of logf in Cephes; the others are those of
`gendr.kernels.triton.mathematics`.
"""

# The functions run while Numba compiles; their arguments are `Lanes`.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

import dis
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from gendr.kernels.functions import is_word, rebound
from gendr.kernels.numba.vectors import SINGLES, Lanes, where

_INTS = ir.VectorType(ir.IntType(32), SINGLES)
_FLOATS = ir.VectorType(ir.FloatType(), SINGLES)
_LOG2_E = 1 / math.log(2)
# log(2) in two parts: an integer below 2^14 times the first is exact in float32.
_LN2_HIGH, _LN2_LOW = 0.693359375, math.log(2) - 0.693359375
_LOWEST, _HIGHEST = -104.0, 88.0  # below, exp is 0; soon above, infinite
_BIAS, _MANTISSA = 127, 23
_INTEGERS = 1.5 * 2.0**_MANTISSA + _BIAS  # around it float32 has integers only
_SQRT_HALF_BITS = 0x3F3504F3
_LEAST = 2.0**-126  # a smaller number has fewer digits


def _of_library(name: str) -> Callable[[Lanes], Lanes]:
    """A function that LLVM knows itself."""

    def function(x: Lanes) -> Lanes:
        kind = ir.FunctionType(x.value.type, [x.value.type])
        bits = 32 if isinstance(x.value.type.element, ir.FloatType) else 64
        name_of_kind = f"llvm.{name}.v{x.value.type.count}f{bits}"
        made = cgutils.get_or_insert_function(x.builder.module, kind, name_of_kind)
        return type(x)(x.builder, x.builder.call(made, [x.value]))

    return function


fabs, ceil, floor, _sqrt = map(_of_library, ("fabs", "ceil", "floor", "sqrt"))


def sqrt(x: Any) -> Any:
    """The square root; as other words of one argument, of a number too: there are constants."""
    return _sqrt(x) if isinstance(x, Lanes) else math.sqrt(x)


def _constant(number: int) -> Any:
    return ir.Constant(_INTS, [number] * SINGLES)


def _exp_parts(x: Lanes) -> tuple[Lanes, Lanes]:
    """(s, p) with exp(x) = s + s p, s a power of 2; x is clamped to the range."""
    x = where(x < _LOWEST, _LOWEST, where(x > _HIGHEST, _HIGHEST, x))
    shifted = x * _LOG2_E + _INTEGERS
    n = shifted - _INTEGERS
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = 0.00836925954 + r * 0.00138888683
    p = 0.49999997 + r * (0.166665047 + r * (0.041667141 + r * p))
    builder = x.builder
    biased = where(shifted > _INTEGERS - _BIAS, shifted, _INTEGERS - _BIAS)
    bits = builder.shl(builder.bitcast(biased.value, _INTS), _constant(_MANTISSA))
    return Lanes(builder, builder.bitcast(bits, _FLOATS)), r + r * (r * p)


def exp(x: Lanes) -> Lanes:
    """The exponential; infinite above 88."""
    if not isinstance(x, Lanes):
        return math.exp(x)
    s, p = _exp_parts(x)
    return where(x > _HIGHEST, math.inf, s + s * p)


def expm1(x: Lanes) -> Lanes:
    """exp(x) - 1, with all its digits near 0."""
    if not isinstance(x, Lanes):
        return math.expm1(x)
    s, p = _exp_parts(x)
    return where(x > _HIGHEST, math.inf, (s - 1.0) + s * p)


def exp_and_complement(x: Lanes) -> tuple[Lanes, Lanes]:
    """(y, 1 - y) for y = exp(x), x <= 0, both with all their digits."""
    s, p = _exp_parts(x)
    return s + s * p, (1.0 - s) - s * p


def log_of_sum(x: Lanes, y: Lanes) -> Lanes:
    """The logarithm of y = 1 + x, from x where that has more digits."""
    builder = y.builder
    bits = builder.bitcast(where(y > _LEAST, y, _LEAST).value, _INTS)
    k = builder.ashr(builder.sub(bits, _constant(_SQRT_HALF_BITS)), _constant(_MANTISSA))
    bits = builder.sub(bits, builder.shl(k, _constant(_MANTISSA)))
    k = Lanes(builder, builder.sitofp(k, _FLOATS))
    f = where(k.equals(0.0), x, Lanes(builder, builder.bitcast(bits, _FLOATS)) - 1.0)
    p = -1.1514610310e-1 + f * 7.0376836292e-2
    p = 1.4249322787e-1 + f * (-1.2420140846e-1 + f * (1.1676998740e-1 + f * p))
    p = 2.0000714765e-1 + f * (-1.6668057665e-1 + f * p)
    p = 3.3333331174e-1 + f * (-2.4999993993e-1 + f * p)
    square = f * f
    rest = (f * square) * p + k * _LN2_LOW
    result = k * _LN2_HIGH + (f + (rest - 0.5 * square))
    result = where(y < math.inf, result, y)  # NaN stays NaN
    return where(y <= 0.0, -math.inf, result)


def log(x: Lanes) -> Lanes:
    """The logarithm of x >= 0."""
    if not isinstance(x, Lanes):
        return math.log(x)
    return log_of_sum(x - 1.0, x)


def log1p(x: Lanes) -> Lanes:
    """The logarithm of 1 + x for x >= 0."""
    if not isinstance(x, Lanes):
        return math.log1p(x)
    return log_of_sum(x, 1.0 + x)


def hazard(a: Lanes, s: Lanes) -> Lanes:
    """-log(s) for s = 1 - a."""
    return -log_of_sum(-a, s)


def power(x: Lanes, p: Lanes) -> Lanes:
    """x^p for x >= 0."""
    if not isinstance(p, Lanes):
        return exp(p * log(x)) if p else 1.0 + 0.0 * x
    return where(p.equals(0.0), 1.0, exp(p * log(x)))


def arccot(x: Lanes) -> Lanes:
    """The angle in [0, pi/2] whose cotangent is x >= 0."""
    far = x > 1.0
    y = where(far, 1.0, x) / where(far, x, 1.0)
    w = y * y
    p = -0.0750427395 + w * (0.0426912755 + w * (-0.016068479 + w * 0.00284985197))
    p = 0.199926198 + w * (-0.142036423 + w * (0.106409244 + w * p))
    angle = y * (1.0 + w * (-0.333330721 + w * p))
    return where(far, angle, 0.5 * math.pi - angle)


def minimum(x: Lanes, y: Any) -> Lanes:
    """The smaller one."""
    return where(x < y, x, y)


def zeros_like(x: Lanes) -> Lanes:
    """Zeros."""
    return Lanes(x.builder, x.of(0.0))


_WORDS: dict[str, Any] = {
    f.__name__: f
    for f in (
        where, exp, expm1, exp_and_complement, log_of_sum, log, log1p, hazard, power, arccot,
        minimum, zeros_like,
    )
} | {"fabs": fabs, "sqrt": sqrt}  # fmt: skip


def is_plain(function: Any) -> bool:
    """Whether a kernel function is written in the vocabulary alone, without a branch or a loop."""
    read = [function.__globals__.get(name) for name in function.__code__.co_names]
    branches = any(
        op.opcode in dis.hasjrel or op.opcode in dis.hasjabs
        for op in dis.get_instructions(function)
    )
    return not branches and all(
        isinstance(value, int | float)
        or (is_word(value) and value.__name__ in _WORDS)
        or (isinstance(value, FunctionType) and is_plain(value))
        for value in read
    )


def of_lanes(function: Any) -> FunctionType:
    """A copy of a plain kernel function, with all that it calls, for vectors.

    Those of float64 know `where`, `fabs` and `sqrt`, and arithmetic.
    """

    def global_of(name: str, value: Any) -> Any:
        if is_word(value) and value.__name__ in _WORDS:
            return _WORDS[value.__name__]
        return of_lanes(value) if isinstance(value, FunctionType) else value

    return rebound(function, global_of)
