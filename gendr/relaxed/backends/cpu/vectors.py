"""Vector operations for the kernels of alignments, and how all are generated in LLVM.

Numba has no vectors, and LLVM does not vectorise loops over so many arrays by itself, because it
would have to check at run time that none of them overlap. Here a step of a kernel works on `LANES`
cells at once, with everything in registers.

Arrays are contiguous, of float64, and places are int64. Loads and stores go up to `LANES` - 1
numbers beyond the last cell, so arrays end with as many numbers that do not count.
"""

# Numba runs these functions while it compiles; their arguments are objects of its own.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gendr._runtime.numba.mathematics import ROUNDER

LANES = 8

_DOUBLE, _LONG = ir.DoubleType(), ir.IntType(64)
_VECTOR, _LONGS = ir.VectorType(_DOUBLE, LANES), ir.VectorType(_LONG, LANES)
_FUSED = ("contract",)  # multiply and add in one, alike in all lanes
_LOG2_E = 1 / math.log(2)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_SMALLEST = -708.0  # exp is 0 below
_TAYLOR = [1 / math.factorial(k) for k in range(13, 1, -1)]


class Lanes:
    """Generates operations on vectors of `LANES` numbers; plain floats become constants."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def constant(self, x: Any) -> Any:
        """A vector of a Python number, or the vector itself."""
        return ir.Constant(_VECTOR, [x] * LANES) if isinstance(x, float) else x

    def splat(self, x: Any) -> Any:
        """A number in all lanes."""
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = self.builder.insert_element(undefined, x, ir.IntType(32)(0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(first, undefined, mask)

    def _address(self, base: Any, place: Any) -> Any:
        start = self.builder.gep(base, [place])
        return self.builder.bitcast(start, _VECTOR.as_pointer())

    def load(self, base: Any, place: Any) -> Any:
        """The vector that starts at a place of an array."""
        return self.builder.load(self._address(base, place), align=8)

    def store(self, value: Any, base: Any, place: Any) -> None:
        """Write a vector to a place of an array."""
        self.builder.store(value, self._address(base, place), align=8)

    def row(self, place: Any, stride: Any, index: int) -> Any:
        """A place in a row of an array whose rows are `stride` apart."""
        return self.builder.add(place, self.builder.mul(stride, _LONG(index)))

    def add(self, a: Any, b: Any) -> Any:
        """The sum."""
        return self.builder.fadd(self.constant(a), self.constant(b), flags=_FUSED)

    def sub(self, a: Any, b: Any) -> Any:
        """The difference."""
        return self.builder.fsub(self.constant(a), self.constant(b), flags=_FUSED)

    def mul(self, a: Any, b: Any) -> Any:
        """The product."""
        return self.builder.fmul(self.constant(a), self.constant(b), flags=_FUSED)

    def div(self, a: Any, b: Any) -> Any:
        """The quotient."""
        return self.builder.fdiv(self.constant(a), self.constant(b))

    def total(self, values: Sequence[Any]) -> Any:
        """The sum of vectors, in pairs."""
        values = list(values)
        while len(values) > 1:
            odd = values[len(values) // 2 * 2 :]
            values = [self.add(a, b) for a, b in zip(values[::2], values[1::2], strict=False)] + odd
        return values[0]

    def where(self, is_less: tuple[Any, Any], chosen: Any, other: Any) -> Any:
        """`chosen` where the first of two vectors is less than the second, else `other`."""
        a, b = map(self.constant, is_less)
        condition = self.builder.fcmp_ordered("<", a, b)
        return self.builder.select(condition, self.constant(chosen), self.constant(other))

    def minimum(self, a: Any, b: Any) -> Any:
        """The smaller of each two numbers."""
        return self.where((a, b), a, b)

    def maximum(self, a: Any, b: Any) -> Any:
        """The larger of each two numbers."""
        return self.where((b, a), a, b)

    def power_of_two(self, n: Any) -> Any:
        """2^n for integers n in -1023 .. 1023; 0 for -1023."""
        # The low bits of the sum are n + 1023; all others are shifted out.
        bits = self.builder.bitcast(self.add(n, ROUNDER + 1023.0), _LONGS)
        bits = self.builder.shl(bits, ir.Constant(_LONGS, [52] * LANES))
        return self.builder.bitcast(bits, _VECTOR)

    def below_one(self, n: Any) -> Any:
        """2^n for integers n <= 0; 0 below -1022."""
        return self.power_of_two(self.maximum(n, -1023.0))

    def split_exp(self, x: Any) -> tuple[Any, Any]:
        """(r, n) with exp(x) = r 2^n; see `gendr._runtime.numba.mathematics`."""
        n = self.sub(self.add(self.mul(x, _LOG2_E), ROUNDER), ROUNDER)
        r = self.sub(self.sub(x, self.mul(n, _LN2_HIGH)), self.mul(n, _LN2_LOW))
        p = self.constant(_TAYLOR[0])
        for coefficient in _TAYLOR[1:]:
            p = self.add(self.mul(p, r), coefficient)
        return self.add(1.0, self.add(self.mul(self.mul(r, r), p), r)), n

    def near_exp(self, x: Any) -> Any:
        """The exponential of x in -700 .. 700."""
        r, n = self.split_exp(x)
        return self.mul(r, self.power_of_two(n))

    def exp(self, x: Any) -> Any:
        """The exponential of x <= 0; 0 below -708."""
        r, n = self.split_exp(self.maximum(x, _SMALLEST))
        return self.where((x, _SMALLEST), 0.0, self.mul(r, self.power_of_two(n)))


def operation(generate: Callable[..., None], *kinds: Any) -> Any:
    """A function for Numba kernels, with arguments of these types, that `generate` writes.

    It gets an array as a pointer to its first element, and a tuple as the list of its numbers.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def plain(kind: Any, value: Any) -> Any:
            if isinstance(kind, types.Array):
                return context.make_array(kind)(context, builder, value).data
            if isinstance(kind, types.UniTuple):
                return cgutils.unpack_tuple(builder, value, kind.count)
            return value

        generate(Lanes(builder), *map(plain, signature.args, args))
        return context.get_dummy_value()

    return types.void(*kinds), codegen


# ---------------------------------------------------------------------------------------------
# Alignments
# ---------------------------------------------------------------------------------------------


def _aligned(
    v: Lanes, i: Any, above: Any, left: Any, corner: Any, local: Any, row: Any, column: Any,
    on_corner: Any, after: Any, beta: Any, out: Any, slopes: Any = None, stride: Any = None,
) -> None:  # fmt: skip
    m = v.load(local, i)
    ways = (
        v.add(v.load(above, i), v.splat(row)),
        v.add(v.load(left, i), v.splat(column)),
        v.add(v.load(corner, i), v.mul(m, v.splat(on_corner))),
    )
    low = v.minimum(v.minimum(ways[0], ways[1]), ways[2])
    beyond = [v.sub(way, low) for way in ways]
    steep = v.splat(beta)
    odds = [v.exp(v.sub(0.0, v.mul(b, steep))) for b in beyond]
    beyond = [v.where((b, math.inf), b, 0.0) for b in beyond]
    inverse = v.div(1.0, v.total(odds))
    weights = [v.mul(o, inverse) for o in odds]
    mean = v.total([v.mul(w, b) for w, b in zip(weights, beyond, strict=True)])
    v.store(v.add(v.add(low, mean), v.mul(m, v.splat(after))), out, i)
    if slopes is None:
        return
    changes = [v.mul(w, v.sub(b, mean)) for w, b in zip(weights, beyond, strict=True)]
    for k, (w, change) in enumerate(zip(weights[:2], changes[:2], strict=True)):
        v.store(v.sub(w, v.mul(change, steep)), slopes, v.row(i, stride, k))


@intrinsic
def align(typingctx, i, above, left, corner, local, row, column, on_corner, after, beta, out):
    """Set out to the softmin of above + row, left + column, corner + on_corner m, plus after m."""
    return operation(
        _aligned, i, above, left, corner, local, row, column, on_corner, after, beta, out
    )


@intrinsic
def align_and_keep(
    typingctx, i, above, left, corner, local, row, column, on_corner, after, beta, out, slopes,
    stride,
):  # fmt: skip
    """As `align`; rows of `slopes`, `stride` apart, get its derivatives by the first two ways."""
    return operation(
        _aligned, i, above, left, corner, local, row, column, on_corner, after, beta, out, slopes,
        stride,
    )  # fmt: skip
