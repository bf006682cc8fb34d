"""Vector operations for the kernels of paths and alignments, generated in LLVM.

Numba has no vectors, and LLVM does not vectorise loops over so many arrays by itself, because it
would have to check at run time that none of them overlap. Here a step of a kernel works on `LANES`
cells at once, with everything in registers.

Arrays are pointers to float64, places and offsets int64. Loads and stores go up to `LANES` - 1
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
from numba.extending import intrinsic

from gendr._runtime.numba.mathematics import ROUNDER

LANES = 8
UNREACHED = -1e6  # the power of 2 of a cell that is not reached

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

    def exp(self, x: Any) -> Any:
        """The exponential of x <= 0; 0 below -708."""
        r, n = self.split_exp(self.maximum(x, _SMALLEST))
        return self.where((x, _SMALLEST), 0.0, self.mul(r, self.power_of_two(n)))


_P, _I, _F = types.CPointer(types.float64), types.int64, types.float64
_O = types.CPointer(types.int64)


def _operation(kinds: Sequence[Any], generate: Callable[..., None]) -> Any:
    """A function for Numba kernels, with arguments of these types, that `generate` writes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        generate(Lanes(builder), *args)
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
    for k, (w, change) in enumerate(zip(weights, changes, strict=True)):
        place = v.builder.add(i, v.builder.mul(stride, _LONG(k)))
        v.store(v.sub(w, v.mul(change, steep)), slopes, place)
    by_beta = v.total([v.mul(c, b) for c, b in zip(changes, beyond, strict=True)])
    place = v.builder.add(i, v.builder.mul(stride, _LONG(3)))
    v.store(v.sub(0.0, by_beta), slopes, place)


@intrinsic
def align(typingctx, i, above, left, corner, local, row, column, on_corner, after, beta, out):
    """Set out to the softmin of above + row, left + column, corner + on_corner m, plus after m."""
    return _operation(
        (_I, _P, _P, _P, _P, _F, _F, _F, _F, _F, _P),
        lambda v, *args: _aligned(v, *args),
    )


@intrinsic
def align_and_keep(
    typingctx, i, above, left, corner, local, row, column, on_corner, after, beta, out, slopes,
    stride,
):  # fmt: skip
    """As `align`; rows of `slopes`, `stride` apart, get its derivatives by the ways and by beta."""
    return _operation(
        (_I, _P, _P, _P, _P, _F, _F, _F, _F, _F, _P, _P, _I),
        lambda v, *args: _aligned(v, *args),
    )


# ---------------------------------------------------------------------------------------------
# Grids: `offsets` leads from a cell to its neighbours, and with every offset to its negative
# ---------------------------------------------------------------------------------------------


def _places(v: Lanes, i: Any, offsets: Any, count: int) -> list[Any]:
    """The places of the neighbours of cell i."""
    loads = (v.builder.load(v.builder.gep(offsets, [_LONG(k)])) for k in range(count))
    return [v.builder.add(i, offset) for offset in loads]


@intrinsic
def split(typingctx, i, distance, beta, near, r, p):
    """Set r, p with exp(-beta d) = r 2^p, and near to d; cells that are not reached have r = 0."""

    def generate(v, i, distance, beta, near, r, p):
        d = v.load(distance, i)
        is_near = (d, math.inf)
        d = v.where(is_near, d, 0.0)
        factor, power = v.split_exp(v.sub(0.0, v.mul(d, v.splat(beta))))
        v.store(d, near, i)
        v.store(v.where(is_near, factor, 0.0), r, i)
        v.store(v.where(is_near, power, UNREACHED), p, i)

    return _operation((_I, _P, _F, _P, _P, _P), generate)


def _expected(
    v: Lanes, i: Any, near: Any, r: Any, p: Any, offsets: Any, value: Any, top: Any, total: Any,
    count: int,
) -> None:  # fmt: skip
    places = _places(v, i, offsets, count)
    powers = [v.load(p, place) for place in places]
    largest = powers[0]
    for power in powers[1:]:
        largest = v.maximum(largest, power)
    odds = [
        v.mul(v.load(r, place), v.below_one(v.sub(power, largest)))
        for place, power in zip(places, powers, strict=True)
    ]
    ways = [v.mul(o, v.load(near, place)) for o, place in zip(odds, places, strict=True)]
    whole = v.total(odds)
    v.store(v.where((0.0, whole), v.div(v.total(ways), whole), 0.0), value, i)
    v.store(largest, top, i)
    v.store(whole, total, i)


_GRID = (_I, _P, _P, _P, _O, _P, _P, _P)


@intrinsic
def expected_4(typingctx, i, near, r, p, offsets, value, top, total):
    """`expected` of 4 neighbours: their mean distance by softmin, and the parts of its weights.

    total and top give the weight of a neighbour: r 2^(p - top) / total.
    """
    return _operation(_GRID, lambda v, *args: _expected(v, *args, count=4))


@intrinsic
def expected_8(typingctx, i, near, r, p, offsets, value, top, total):
    """See `expected_4`."""
    return _operation(_GRID, lambda v, *args: _expected(v, *args, count=8))


def _weights(
    v: Lanes, i: Any, r: Any, p: Any, offsets: Any, top: Any, inverse: Any, stride: Any, out: Any,
    into: Any, count: int,
) -> None:  # fmt: skip
    own, factor = v.load(p, i), v.load(r, i)
    largest, share = v.load(top, i), v.load(inverse, i)
    for k, place in enumerate(_places(v, i, offsets, count)):
        row = v.builder.add(i, v.builder.mul(stride, _LONG(k)))
        odds = v.mul(v.load(r, place), v.below_one(v.sub(v.load(p, place), largest)))
        v.store(v.mul(odds, share), out, row)
        # The top of what is not there may be anything; its inverse is 0.
        odds = v.mul(factor, v.below_one(v.minimum(v.sub(own, v.load(top, place)), 0.0)))
        v.store(v.mul(odds, v.load(inverse, place)), into, row)


_LAST = (_I, _P, _P, _O, _P, _P, _I, _P, _P)


@intrinsic
def weights_4(typingctx, i, r, p, offsets, top, inverse, stride, out, into):
    """The weights that a cell gives to its 4 neighbours, in the rows of out [4, stride].

    inverse is 1 / total, or 0 for cells that give none. Rows of `into` get the weights that the
    neighbours give to the cell.
    """
    return _operation(_LAST, lambda v, *args: _weights(v, *args, count=4))


@intrinsic
def weights_8(typingctx, i, r, p, offsets, top, inverse, stride, out, into):
    """See `weights_4`."""
    return _operation(_LAST, lambda v, *args: _weights(v, *args, count=8))


def _spread(
    v: Lanes, i: Any, near: Any, r: Any, p: Any, offsets: Any, top: Any, share: Any, pull: Any,
    beta: Any, out: Any, count: int,
) -> None:  # fmt: skip
    own = v.load(p, i)
    moved = v.mul(v.load(near, i), v.splat(beta))
    parts = []
    for place in _places(v, i, offsets, count):
        # The top of what is not there may be anything; its share is 0.
        weight = v.below_one(v.minimum(v.sub(own, v.load(top, place)), 0.0))
        slope = v.sub(v.load(pull, place), v.mul(moved, v.load(share, place)))
        parts.append(v.mul(weight, slope))
    v.store(v.mul(v.load(r, i), v.total(parts)), out, i)


_BACK = (_I, _P, _P, _P, _O, _P, _P, _P, _F, _P)


@intrinsic
def spread_4(typingctx, i, near, r, p, offsets, top, share, pull, beta, out):
    """The gradient of a distance from those of the means of its 4 neighbours.

    With g the gradient of a mean, share = g / total and pull = g (1 + beta mean) / total.
    """
    return _operation(_BACK, lambda v, *args: _spread(v, *args, count=4))


@intrinsic
def spread_8(typingctx, i, near, r, p, offsets, top, share, pull, beta, out):
    """See `spread_4`."""
    return _operation(_BACK, lambda v, *args: _spread(v, *args, count=8))


def _gathered(
    v: Lanes, i: Any, values: Any, weights: Any, stride: Any, offsets: Any, out: Any, count: int
) -> None:
    parts = []
    for k, place in enumerate(_places(v, i, offsets, count)):
        row = v.builder.add(i, v.builder.mul(stride, _LONG(k)))
        parts.append(v.mul(v.load(values, place), v.load(weights, row)))
    v.store(v.total(parts), out, i)


_SUM = (_I, _P, _P, _I, _O, _P)


@intrinsic
def gather_4(typingctx, i, values, weights, stride, offsets, out):
    """Set out to the sum over 4 neighbours of their values times weights [4, stride]."""
    return _operation(_SUM, lambda v, *args: _gathered(v, *args, count=4))


@intrinsic
def gather_8(typingctx, i, values, weights, stride, offsets, out):
    """See `gather_4`."""
    return _operation(_SUM, lambda v, *args: _gathered(v, *args, count=8))


def _outer(
    v: Lanes, i: Any, here: Any, values: Any, stride: Any, offsets: Any, out: Any, count: int
) -> None:
    own = v.load(here, i)
    for k, place in enumerate(_places(v, i, offsets, count)):
        row = v.builder.add(i, v.builder.mul(stride, _LONG(k)))
        v.store(v.add(v.load(out, row), v.mul(own, v.load(values, place))), out, row)


_PAIRS = (_I, _P, _P, _I, _O, _P)


@intrinsic
def outer_4(typingctx, i, here, values, stride, offsets, out):
    """Add `here` times the values of 4 neighbours to the rows of out [4, stride]."""
    return _operation(_PAIRS, lambda v, *args: _outer(v, *args, count=4))


@intrinsic
def outer_8(typingctx, i, here, values, stride, offsets, out):
    """See `outer_4`."""
    return _operation(_PAIRS, lambda v, *args: _outer(v, *args, count=8))
