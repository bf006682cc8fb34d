"""Patches of `LANES` pixels at once: what most of the time of stereo inside the hull goes into.

A lane is a pixel with a plane of its own, so that sums over a patch need no sums across lanes.
A number of an image is 16 bits in a word with that below it, so that bilinear interpolation takes
one load of two words.
"""

# Numba runs these functions while it compiles; their arguments are objects of its own.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gendr.kernels.numba.vectors import Condition, Lanes, gathered, maximum, where

LANES = 16
# A patch is SIDE x SIDE samples.
SIDE = 4
SAMPLES = SIDE * SIDE
# Numbers that are matched are in -1 .. 1; so much of one is a step of 16 bits.
UNIT = 2 / 65535
# Samples of other brightness count less: half a step of this much.
LIKE = 0.15
# A patch of less variance has no pattern.
FLAT = 4e-5

_FLOAT, _INT, _SHORT, _LONG = ir.FloatType(), ir.IntType(32), ir.IntType(16), ir.IntType(64)
_FLOATS, _INTS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT, LANES)
# Where the samples are, from the pixel in the middle, in strides.
_OFFSETS = [(k % SIDE - (SIDE - 1) / 2, k // SIDE - (SIDE - 1) / 2) for k in range(SAMPLES)]


class _Arrays:
    """The arguments of an intrinsic: arrays as addresses, numbers as they are."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.builder, self.args = builder, args
        self.data = [
            context.make_array(kind)(context, builder, given).data
            if isinstance(kind, types.Array)
            else None
            for kind, given in zip(signature.args, args, strict=True)
        ]

    def _address(self, n: int, row: Any, kind: Any) -> Any:
        place = row if isinstance(row, ir.Value) else _LONG(row)
        start = self.builder.gep(self.data[n], [self.builder.mul(place, _LONG(LANES))])
        return self.builder.bitcast(start, kind.as_pointer())

    def floats(self, n: int, row: Any = 0) -> Lanes:
        """Row `row` of argument n, float32 [..., LANES]."""
        return Lanes(self.builder, self.builder.load(self._address(n, row, _FLOATS), align=4))

    def ints(self, n: int, row: Any = 0) -> Any:
        """The same of int32."""
        return self.builder.load(self._address(n, row, _INTS), align=4)

    def put(self, n: int, row: int, value: Lanes) -> None:
        """Replace a row."""
        self.builder.store(value.value, self._address(n, row, _FLOATS), align=4)

    def gathered(self, n: int, places: Any, kind: Any = _INT) -> Any:
        """What argument n holds at places, as whole numbers."""
        base = self.builder.bitcast(self.data[n], _INT.as_pointer())
        return gathered(self.builder, base, places, kind)


def _splat(builder: Any, number: Any) -> Any:
    undefined = ir.Constant(_INTS, ir.Undefined)
    first = builder.insert_element(undefined, builder.trunc(number, _INT), _INT(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_INTS, [0] * LANES))


def _all(number: int) -> Any:
    return ir.Constant(_INTS, [number] * LANES)


def _float(builder: Any, whole: Any) -> Lanes:
    return Lanes(builder, builder.sitofp(whole, _FLOATS))


def _halves(builder: Any, words: Any) -> tuple[Lanes, Lanes]:
    """The lower and the upper 16 bits of words as numbers."""
    low, high = builder.and_(words, _all(65535)), builder.lshr(words, _all(16))
    return _float(builder, low), _float(builder, high)


def _square(arrays: _Arrays, n: int, places: Any) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    """What argument n holds at places, below, right, and below right: one load for all."""
    builder = arrays.builder
    both = ir.VectorType(_INT, 2 * LANES)
    words = builder.bitcast(arrays.gathered(n, places, _LONG), both)
    left, right = (
        builder.shuffle_vector(words, words, ir.Constant(_INTS, list(range(k, 2 * LANES, 2))))
        for k in (0, 1)
    )
    return *_halves(builder, left), *_halves(builder, right)


def _root(builder: Any, value: Lanes) -> Lanes:
    kind = ir.FunctionType(_FLOATS, [_FLOATS])
    root = cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{LANES}f32")
    return Lanes(builder, builder.call(root, [value.value]))


@intrinsic
def prepare(
    typingctx, images, starts, near, width, height, xs, ys, strides, limits, values, weights,
    centres, fine,
):  # fmt: skip
    """Patches: weights, and values less their mean, times weights over the deviation.

    Args:
        typingctx: of Numba.
        images: uint32, all images: of -1 .. 1 in steps of `UNIT`, and what is below.
        starts: int32 [LANES], where that of a lane begins.
        near: float32 [H, W], inverse depths of what is known, +inf where nothing is to be matched.
        width: int64, of the images.
        height: int64, of them.
        xs: int32 [LANES], the columns of the pixels.
        ys: int32 [LANES], their rows.
        strides: int32 [LANES], pixels between samples.
        limits: float32 [LANES]; samples at which `near` is larger do not count.
        values: float32 [SAMPLES, LANES], is written.
        weights: float32 [SAMPLES, LANES], is written.
        centres: float32 [LANES], is written: what samples are compared with.
        fine: float32 [LANES], is written: 1 where a patch has a pattern, else 0.
    """

    def codegen(context, builder, signature, args):
        arrays = _Arrays(context, builder, signature, args)
        start = arrays.ints(1)
        wide, high = (_splat(builder, n) for n in args[3:5])
        x, y, stride = (arrays.ints(n) for n in (5, 6, 7))
        limit = arrays.floats(8)

        def place(u: Any, v: Any) -> Any:
            return builder.add(builder.mul(v, wide), u)

        def shown(at: Any) -> Lanes:
            return _halves(builder, arrays.gathered(0, builder.add(at, start)))[0] * UNIT

        centre = shown(place(x, y))
        begin = builder.ashr(builder.mul(stride, _all(SIDE - 1)), _all(1))
        total, mean = 0.0 * limit, 0.0 * limit
        found = []
        for k in range(SAMPLES):
            inside = None
            ends = []
            for first, step, size in ((x, k % SIDE, wide), (y, k // SIDE, high)):
                far = builder.sub(builder.add(first, builder.mul(stride, _all(step))), begin)
                # As numbers without a sign, those before the first are large.
                there = builder.icmp_unsigned("<", far, size)
                inside = there if inside is None else builder.and_(inside, there)
                ends.append(builder.select(there, far, first))
            at = place(*ends)
            known = Lanes(builder, builder.bitcast(arrays.gathered(2, at), _FLOATS))
            _, hidden = known > limit
            value = shown(at)
            off = (value - centre) * (1 / LIKE)
            counts = builder.and_(inside, builder.not_(hidden))
            weight = where(Condition(value, counts), 1.0 / (1.0 + off * off), 0.0)
            found.append((value - centre, weight))
            total, mean = total + weight, mean + weight * (value - centre)
        mean, variance = mean / total, 0.0 * limit
        for value, weight in found:
            off = value - mean
            variance = variance + weight * off * off
        variance = variance / total
        scale = 1.0 / (_root(builder, variance) * total)
        for k, (value, weight) in enumerate(found):
            arrays.put(9, k, (value - mean) * weight * scale)
            arrays.put(10, k, weight / total)
        arrays.put(11, 0, centre)
        like, enough = total >= 2.0
        _, patterned = variance >= FLAT
        both = Condition(like, builder.and_(enough, patterned))
        arrays.put(12, 0, where(both, 0.0 * limit + 1.0, 0.0))
        return context.get_dummy_value()

    given = images, starts, near, width, height, xs, ys, strides, limits, values, weights
    return types.void(*given, centres, fine), codegen


def _compare(each: bool) -> Any:
    """The intrinsic for one neighbour, or for one of each lane."""

    def define(
        typingctx, images, starts, lenses, which, width, height, xs, ys, strides, planes, values,
        weights, centres, out,
    ):  # fmt: skip
        def codegen(context, builder, signature, args):
            arrays = _Arrays(context, builder, signature, args)
            wide, high = (_splat(builder, n) for n in args[4:6])
            if each:
                first = builder.mul(arrays.ints(3), _all(16))
                words = [arrays.gathered(2, builder.add(first, _all(r))) for r in range(13)]
                photo = words[12]
                a = [Lanes(builder, builder.bitcast(word, _FLOATS)) for word in words[:12]]
            else:
                first = builder.mul(args[3], _LONG(16))
                numbers = [
                    builder.load(builder.gep(arrays.data[2], [builder.add(first, _LONG(r))]))
                    for r in range(13)
                ]
                a = [Lanes.splat(builder, number) for number in numbers[:12]]
                photo = _splat(builder, builder.zext(builder.bitcast(numbers[12], _INT), _LONG))
            start = builder.add(arrays.ints(1), photo)
            x, y, stride = (_float(builder, arrays.ints(n)) for n in (6, 7, 8))
            w, wx, wy = (arrays.floats(9, k) for k in range(3))
            lines = []
            for k in range(3):
                middle = a[3 * k] * x + a[3 * k + 1] * y + a[3 * k + 2] + w * a[9 + k]
                steps = ((a[3 * k + m] + s * a[9 + k]) * stride for m, s in ((0, wx), (1, wy)))
                lines.append((middle, *steps))
            last = [_float(builder, builder.sub(n, _all(1))) for n in (wide, high)]
            centre = arrays.floats(12)
            mean, square, both = (0.0 * x for _ in range(3))
            fine = None
            for k, (dx, dy) in enumerate(_OFFSETS):
                u, v, z = (middle + right * dx + down * dy for middle, right, down in lines)
                inverse = 1.0 / z
                u, v = u * inverse, v * inverse
                weight = arrays.floats(11, k)
                _, seen = z > 0.0
                for p, most in ((u, last[0]), (v, last[1])):
                    seen = builder.and_(seen, (p >= 0.0)[1])
                    seen = builder.and_(seen, (p < most)[1])
                unused = weight.equals(0.0)[1]
                fits = builder.or_(seen, unused)
                fine = fits if fine is None else builder.and_(fine, fits)
                u, v = (where(Condition(p, seen), p, 0.0) for p in (u, v))
                column, row = (builder.fptosi(p.value, _INTS) for p in (u, v))
                s, t = (p - _float(builder, n) for p, n in ((u, column), (v, row)))
                at = builder.add(builder.add(builder.mul(row, wide), column), start)
                grey, below, right, last_ = _square(arrays, 0, at)
                top, low = grey + s * (right - grey), below + s * (last_ - below)
                shown = (top + t * (low - top)) * UNIT - centre
                weighed = weight * shown
                mean, square = mean + weighed, square + weighed * shown
                both = both + arrays.floats(10, k) * shown
            variance = square - mean * mean
            found = both / _root(builder, maximum(variance, FLAT / 2))
            found = where(variance < FLAT / 2, -1.0, found)
            arrays.put(13, 0, where(Condition(found, fine), found, -2.0))
            return context.get_dummy_value()

        given = images, starts, lenses, which, width, height, xs, ys, strides, planes, values
        return types.void(*given, weights, centres, out), codegen

    define.__doc__ = _COMPARE
    return intrinsic(define)


_COMPARE = """The correlations of patches with what neighbours show of planes, -1 .. 1; -2: hidden.

Args:
    typingctx: of Numba.
    images: uint32, all images: of -1 .. 1 in steps of `UNIT`, and what is below.
    starts: int32 [LANES], where that of a lane begins within a photo.
    lenses: float32 [K, 16]: A row by row, b, and where a photo begins, an int32 in these bits.
    which: the neighbour, int64; or those of the lanes, int32 [LANES].
    width: int64, of the images.
    height: int64, of them.
    xs: int32 [LANES], the columns of the pixels.
    ys: int32 [LANES], their rows.
    strides: int32 [LANES], pixels between samples.
    planes: float32 [3, LANES].
    values: float32 [SAMPLES, LANES], of `prepare`.
    weights: float32 [SAMPLES, LANES], of `prepare`.
    centres: float32 [LANES], of `prepare`.
    out: float32 [LANES], is written.
"""
compare, compare_each = _compare(each=False), _compare(each=True)
