"""Vectors for kernels, and how code with them is generated in LLVM.

Numba has no vectors, and LLVM does not vectorise loops over many arrays by itself, because it
would have to check at run time that none of them overlap. Here a step of a kernel works on `LANES`
cells at once, with everything in registers: a function of cell i that `lanewise` decorates.

Arrays are contiguous, and places are int64. Vectors of float64 have `LANES` numbers, those of
float32 `SINGLES`: 64 bytes, which LLVM divides among as many registers as a processor needs. Loads
and stores go up to `LANES` - 1 numbers beyond the last cell, so arrays end with as many numbers
that do not count.
"""

# Numba runs these functions while it compiles; their arguments are objects of its own.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from llvmlite.ir.instructions import Instruction
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gendr.kernels.numba.mathematics import ROUNDER

LANES, SINGLES = 8, 16

_FLOAT, _INT = ir.FloatType(), ir.IntType(32)
_DOUBLE, _LONG = ir.DoubleType(), ir.IntType(64)
_VECTOR, _LONGS = ir.VectorType(_DOUBLE, LANES), ir.VectorType(_LONG, LANES)
_FUSED = ("contract",)  # multiply and add in one, alike in all lanes
_LOG2_E = 1 / math.log(2)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_SMALLEST = -708.0  # exp is 0 below
_TAYLOR = [1 / math.factorial(k) for k in range(13, 1, -1)]


def _operator(instruction: str, reflected: bool = False, **options: Any) -> Callable[..., Any]:
    """A method that generates an instruction of LLVM; plain numbers become constants."""

    def method(self: Any, other: Any) -> Any:
        a, b = self.value, self.of(other)
        if reflected:
            a, b = b, a
        return type(self)(self.builder, getattr(self.builder, instruction)(a, b, **options))

    return method


class Condition(NamedTuple):
    """In which lanes something holds: what was compared, and a bit for each lane."""

    like: Lanes
    lanes: Any

    def __and__(self, other: Condition) -> Condition:
        return Condition(self.like, self.like.builder.and_(self.lanes, other.lanes))

    def __or__(self, other: Condition) -> Condition:
        return Condition(self.like, self.like.builder.or_(self.lanes, other.lanes))


class Lanes:
    """As many numbers of the code that is generated, with the arithmetic of numbers."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    @classmethod
    def splat(cls, builder: Any, number: Any) -> Lanes:
        """A number in all lanes."""
        kind = vector_of(number.type)
        undefined = ir.Constant(kind, ir.Undefined)
        first = builder.insert_element(undefined, number, _INT(0))
        mask = ir.Constant(ir.VectorType(_INT, kind.count), [0] * kind.count)
        return cls(builder, builder.shuffle_vector(first, undefined, mask))

    def of(self, other: Any) -> Any:
        """The value of another vector, or of a constant."""
        kind = self.value.type
        return other.value if isinstance(other, Lanes) else ir.Constant(kind, [other] * kind.count)

    def compared(self, sign: str, other: Any) -> Condition:
        """Where a comparison holds; it does not for NaN."""
        return Condition(self, self.builder.fcmp_ordered(sign, self.value, self.of(other)))

    __add__ = __radd__ = _operator("fadd", flags=_FUSED)
    __mul__ = __rmul__ = _operator("fmul", flags=_FUSED)
    __sub__, __rsub__ = _operator("fsub", flags=_FUSED), _operator("fsub", True, flags=_FUSED)
    __truediv__, __rtruediv__ = _operator("fdiv"), _operator("fdiv", True)

    def __neg__(self) -> Lanes:
        return type(self)(self.builder, self.builder.fneg(self.value))

    def __lt__(self, other: Any) -> Condition:
        return self.compared("<", other)

    def __le__(self, other: Any) -> Condition:
        return self.compared("<=", other)

    def __gt__(self, other: Any) -> Condition:
        return self.compared(">", other)

    def __ge__(self, other: Any) -> Condition:
        return self.compared(">=", other)

    def before(self, count: Place) -> Condition:
        """The first so many lanes."""
        return Condition(self, first_lanes(count))

    def sum(self) -> Any:
        """The sum of all lanes as one number, by halves."""
        value, size = self.value, self.value.type.count
        while size > 1:
            size //= 2
            kind = ir.VectorType(ir.IntType(32), size)
            low, high = (ir.Constant(kind, [k + n for k in range(size)]) for n in (0, size))
            undefined = ir.Constant(value.type, ir.Undefined)
            shuffle = self.builder.shuffle_vector
            value = self.builder.fadd(
                shuffle(value, undefined, low), shuffle(value, undefined, high)
            )
        return self.builder.extract_element(value, ir.IntType(32)(0))

    def equals(self, other: Any) -> Condition:
        """In which lanes two numbers are the same."""
        return self.compared("==", other)


class Exact(Lanes):
    """Numbers of which every product and every sum is rounded, as in a definition."""

    __add__ = __radd__ = _operator("fadd")
    __mul__ = __rmul__ = _operator("fmul")
    __sub__, __rsub__ = _operator("fsub"), _operator("fsub", True)


def vector_of(kind: Any) -> Any:
    """The type of the vectors of a kind of numbers."""
    return ir.VectorType(kind, SINGLES if kind == _FLOAT else LANES)


class Place:
    """An integer of the code that is generated, by which arrays are indexed."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    @staticmethod
    def of(other: Any) -> Any:
        """The value of another place, or of a constant."""
        return other.value if isinstance(other, Place) else _LONG(other)

    __add__ = __radd__ = _operator("add")
    __mul__ = __rmul__ = _operator("mul")


class Pointer:
    """An array, or its address: `row[place]` is the vector that starts there."""

    def __init__(self, builder: Any, base: Any) -> None:
        self.builder, self.base = builder, base

    def _address(self, place: Place | int) -> Any:
        start = self.builder.gep(self.base, [Place.of(place)])
        return self.builder.bitcast(start, vector_of(self.base.type.pointee).as_pointer())

    def __getitem__(self, place: Place | int) -> Lanes:
        address = self._address(place)
        align = 4 if self.base.type.pointee == _FLOAT else 8
        return Lanes(self.builder, self.builder.load(address, align=align))

    def __setitem__(self, place: Place | int, vector: Lanes) -> None:
        align = 4 if self.base.type.pointee == _FLOAT else 8
        self.builder.store(vector.value, self._address(place), align=align)

    def all(self, place: Place | int) -> Lanes:
        """One number in all lanes."""
        number = self.builder.load(self.builder.gep(self.base, [Place.of(place)]))
        return Lanes.splat(self.builder, number)

    def put(self, place: Place, number: Any) -> None:
        """Store one number."""
        self.builder.store(number, self.builder.gep(self.base, [place.value]))

    def put_first(self, place: Place, vector: Lanes, count: Place) -> None:
        """Store the first `count` lanes; nothing behind them is written. Takes longer than all."""
        builder, address = self.builder, self._address(place)
        mask, number = ir.VectorType(ir.IntType(1), LANES), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [_VECTOR, address.type, number, mask])
        store = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.store.v8f64.p0")
        builder.call(store, [vector.value, address, number(8), first_lanes(count)])


def put_before(end: Place, place: Place, count: Place, *stores: tuple[Pointer, Lanes]) -> None:
    """Store vectors at a place of arrays of which others may write what is from `end` on.

    Lanes behind the first `count` are written as well as far as there is room for all: they have to
    be what is there.
    """
    builder = place.builder
    fits = builder.icmp_signed("<=", (place + LANES).value, end.value)
    with builder.if_else(fits) as (whole, part):
        with whole:
            for array, vector in stores:
                array[place] = vector
        with part:
            for array, vector in stores:
                array.put_first(place, vector, count)


def first_lanes(count: Place) -> Any:
    """Which lanes are before a number of them."""
    builder = count.builder
    longs = ir.Constant(_LONGS, [_LONG(k) for k in range(LANES)])
    undefined = ir.Constant(_LONGS, ir.Undefined)
    first = builder.insert_element(undefined, count.value, ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.icmp_signed("<", longs, builder.shuffle_vector(first, undefined, mask))


def _operand(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """An argument of a kernel as `lanewise` functions get it."""
    if isinstance(kind, types.Array):
        return Pointer(builder, context.make_array(kind)(context, builder, value).data)
    if isinstance(kind, types.CPointer):
        return Pointer(builder, value)
    if isinstance(kind, types.UniTuple):
        parts = cgutils.unpack_tuple(builder, value, kind.count)
        return [_operand(context, builder, kind.dtype, part) for part in parts]
    return (Lanes.splat if isinstance(kind, types.Float) else Place)(builder, value)


def lanewise(generate: Callable[..., Any], result: Any = None) -> Any:
    """A function for Numba kernels, of arrays, tuples of integers, integers and floats.

    `generate` runs when a kernel is compiled. It gets arrays as `Pointer`, integers as `Place` and
    floats as `Lanes`; what it does with them is what the kernel will do. `result` is the type of
    what it gives, if it gives something.
    """

    def define(typingctx: Any, *kinds: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            given = zip(signature.args, args, strict=True)
            found = generate(*(_operand(context, builder, kind, value) for kind, value in given))
            return context.get_dummy_value() if result is None else found

        return (result or types.void)(*kinds), codegen

    functools.update_wrapper(define, generate)
    own = inspect.signature(generate).parameters.values()
    context = inspect.Parameter("typingctx", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    define.__signature__ = inspect.Signature([context, *own])  # pyright: ignore
    return intrinsic(define)


def _wide(typingctx: Any) -> Any:
    """Let the loops of the function that calls this take vectors as wide as the processor has.

    LLVM takes half of AVX-512 by itself, for processors which slowed down under it once. Every lane
    rounds alike: results do not depend on the width. No other function is concerned.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # llvmlite knows no attributes with a value; what is in the set is written as it stands.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), codegen


wide: Any = intrinsic(_wide)


def total(values: Sequence[Any]) -> Any:
    """The sum of vectors, in pairs."""
    values = list(values)
    while len(values) > 1:
        odd = values[len(values) // 2 * 2 :]
        values = [a + b for a, b in zip(values[::2], values[1::2], strict=False)] + odd
    return values[0]


def where(condition: Condition, chosen: Any, other: Any) -> Lanes:
    """`chosen` in the lanes in which a comparison holds, else `other`."""
    like, lanes = condition
    return type(like)(like.builder, like.builder.select(lanes, like.of(chosen), like.of(other)))


def minimum(a: Lanes, b: Any) -> Lanes:
    """The smaller of each two numbers."""
    return where(a < b, a, b)


def maximum(a: Lanes, b: Any) -> Lanes:
    """The larger of each two numbers."""
    return where(a > b, a, b)


def power_of_two(n: Lanes) -> Lanes:
    """2^n for integers n in -1023 .. 1023; 0 for -1023."""
    # The low bits of the sum are n + 1023; all others are shifted out.
    bits = n.builder.bitcast((n + (ROUNDER + 1023.0)).value, _LONGS)
    bits = n.builder.shl(bits, ir.Constant(_LONGS, [52] * LANES))
    return Lanes(n.builder, n.builder.bitcast(bits, _VECTOR))


def split_exp(x: Lanes) -> tuple[Lanes, Lanes]:
    """(r, n) with exp(x) = r 2^n; see `gendr.kernels.numba.mathematics`."""
    n = (x * _LOG2_E + ROUNDER) - ROUNDER
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p: Any = _TAYLOR[0]
    for coefficient in _TAYLOR[1:]:
        p = p * r + coefficient
    return 1.0 + ((r * r) * p + r), n


def near_exp(x: Lanes) -> Lanes:
    """The exponential of x in -700 .. 700."""
    r, n = split_exp(x)
    return r * power_of_two(n)


def exp(x: Lanes) -> Lanes:
    """The exponential of x <= 0; 0 below -708."""
    return where(x < _SMALLEST, 0.0, near_exp(maximum(x, _SMALLEST)))


class _Places(Instruction):
    """The addresses of the elements of an array at a vector of places, which llvmlite lacks."""

    def __init__(self, parent: Any, base: Any, places: Any) -> None:
        kind = ir.VectorType(base.type, places.type.count)
        name = parent.scope.deduplicate("places")
        super().__init__(parent, kind, "getelementptr", [base, places], name)
        self.element = base.type.pointee

    def descr(self, buf: Any) -> None:
        """Write the instruction."""
        base, places = self.operands
        buf.append(
            f"getelementptr {self.element}, {base.type} {base.get_reference()}, "
            f"{places.type} {places.get_reference()}\n"
        )


def gathered(builder: Any, base: Any, places: Any, kind: Any = _INT) -> Any:
    """What an array of 32 bits holds at a vector of int32, in one load.

    Args:
        builder: of the code.
        base: the address of the array.
        places: as many lanes.
        kind: what is loaded: an element, or with 64 bits also the next one.
    """
    addresses = _Places(builder.block, base, places)
    builder.block.instructions.append(addresses)
    builder.position_at_end(builder.block)
    count = places.type.count
    found, mask = ir.VectorType(kind, count), ir.VectorType(ir.IntType(1), count)
    words = builder.bitcast(addresses, ir.VectorType(kind.as_pointer(), count))
    function = ir.FunctionType(found, [words.type, _INT, mask, found])
    letter = "f32" if kind == _FLOAT else f"i{kind.width}"
    name = f"llvm.masked.gather.v{count}{letter}.v{count}p0"
    gather = cgutils.get_or_insert_function(builder.module, function, name)
    every = ir.Constant(mask, [1] * count)
    return builder.call(gather, [words, _INT(4), every, ir.Constant(found, ir.Undefined)])


def scattered(builder: Any, base: Any, places: Any, values: Any) -> None:
    """Store numbers of 32 bits in an array, given its address, at a vector of different int32."""
    addresses = _Places(builder.block, base, places)
    builder.block.instructions.append(addresses)
    builder.position_at_end(builder.block)
    count = places.type.count
    mask = ir.VectorType(ir.IntType(1), count)
    kind = ir.FunctionType(ir.VoidType(), [values.type, addresses.type, _INT, mask])
    name = f"llvm.masked.scatter.v{count}f32.v{count}p0"
    scatter = cgutils.get_or_insert_function(builder.module, kind, name)
    builder.call(scatter, [values, addresses, _INT(4), ir.Constant(mask, [1] * count)])
