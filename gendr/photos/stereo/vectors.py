"""Patches of `LANES` pixels compared at once: what most of the time of stereo goes into.

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

from gendr.kernels.numba.vectors import Condition, Lanes, gathered, maximum, minimum, where
from gendr.photos.stereo.patches import FLAT, LIKE, OUTSIDE, SAMPLES, SIDE, UNIT, UNLIKE

LANES = 16

_FLOAT, _INT, _LONG = ir.FloatType(), ir.IntType(32), ir.IntType(64)
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
    typingctx, images, starts, near, width, height, xs, ys, strides, limits, strict, values,
    weights, centres, fine,
):  # fmt: skip
    """Patches: weights, and values less their mean, times weights over the deviation.

    Args:
        typingctx: of Numba.
        images: uint32, all images: of -1 .. 1 in steps of `UNIT`, and what is below.
        starts: int32 [LANES], where that of a lane begins.
        near: float32 [H, W], inverse depths of what is known, +inf where nothing is to be matched.
        width: int64, of the image.
        height: int64, of it.
        xs: int32 [LANES], the columns of the pixels.
        ys: int32 [LANES], their rows.
        strides: int32 [LANES], pixels between samples.
        limits: float32 [LANES]; samples at which `near` is larger do not count.
        strict: bool; whether what is brighter than its patch must have a pattern of its own colour.
        values: float32 [SAMPLES, LANES], is written.
        weights: float32 [SAMPLES, LANES], is written.
        centres: float32 [LANES], is written: what samples are compared with.
        fine: float32 [LANES], is written: 1 where a patch has a pattern, else 0.

    Source: Schönberger et al., Pixelwise View Selection for Unstructured Multi-View Stereo, 2016,
    eq. 13, with a rational weight of colours and none of distances.
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
        total, mean, plain = 0.0 * limit, 0.0 * limit, 0.0 * limit
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
            value = shown(at) - centre
            off = value * (1 / LIKE)
            counts = builder.and_(inside, builder.not_(hidden))
            weight = where(Condition(value, counts), 1.0 / (1.0 + off * off), 0.0)
            found.append((value, weight))
            total, mean, plain = total + weight, mean + weight * value, plain + value
        mean = mean / total

        def spread(parts: Any) -> Lanes:
            """The variance of the samples by some weights."""
            weighed = [(value, weight) for (value, _), weight in zip(found, parts, strict=True)]
            whole, middle, square = 0.0 * limit, 0.0 * limit, 0.0 * limit
            for value, weight in weighed:
                whole, middle = whole + weight, middle + weight * value
            middle = middle / whole
            for value, weight in weighed:
                square = square + weight * (value - middle) * (value - middle)
            return square / whole

        variance = spread([weight for _, weight in found])
        scale = 1.0 / (_root(builder, variance) * total)
        for k, (value, weight) in enumerate(found):
            arrays.put(10, k, (value - mean) * weight * scale)
            arrays.put(11, k, weight / total)
        arrays.put(12, 0, centre)
        like, enough = total >= 2.0
        _, patterned = variance >= FLAT
        both = Condition(like, builder.and_(enough, patterned))
        arrays.put(13, 0, where(both, 0.0 * limit + 1.0, 0.0))
        # What the sky has beside a roof is the roof's: where the centre is brighter than the rest,
        # only what is of its colour counts.
        with builder.if_then(args[9]):
            parts = []
            for value, _ in found:
                off = value * (1 / LIKE)
                part = 1.0 / (1.0 + off * off * 4.0)
                parts.append(part * part * part * part)
            _, flat = spread(parts) < FLAT
            like, bright = plain < 0.0
            own = Condition(like, builder.and_(flat, bright))
            arrays.put(13, 0, where(own, 0.0, arrays.floats(13)))
        return context.get_dummy_value()

    given = images, starts, near, width, height, xs, ys, strides, limits, strict, values, weights
    return types.void(*given, centres, fine), codegen


@intrinsic
def compare(
    typingctx, images, starts, lenses, sizes, which, xs, ys, strides, planes, values, weights,
    centres, out,
):  # fmt: skip
    """1 - the correlation of patches with what other photos show of planes: 0 .. 2.

    Args:
        typingctx: of Numba.
        images: uint32, all images: of -1 .. 1 in steps of `UNIT`, and what is below.
        starts: int32 [LANES], where that of a lane begins within a photo.
        lenses: float32 [K, 12, LANES], A row by row, and b, of the photos that lanes look at.
        sizes: int32 [K, 3, LANES], where these photos begin, their widths and their heights.
        which: int64, of these K.
        xs: int32 [LANES], the columns of the pixels.
        ys: int32 [LANES], their rows.
        strides: int32 [LANES], pixels between samples.
        planes: float32 [3, LANES].
        values: float32 [SAMPLES, LANES], of `prepare`.
        weights: float32 [SAMPLES, LANES], of `prepare`.
        centres: float32 [LANES], of `prepare`.
        out: float32 [LANES], is written: `OUTSIDE` where a sample that counts is out of the frame.
    """

    def codegen(context, builder, signature, args):
        arrays = _Arrays(context, builder, signature, args)
        for n, rows in ((2, 12), (3, 3)):
            first = builder.mul(args[4], _LONG(rows * LANES))
            arrays.data[n] = builder.gep(arrays.data[n], [first])
        a = [arrays.floats(2, k) for k in range(12)]
        base, width, height = (arrays.ints(3, k) for k in range(3))
        start = builder.add(arrays.ints(1), base)
        x, y, stride = (_float(builder, arrays.ints(n)) for n in (5, 6, 7))
        w, wx, wy = (arrays.floats(8, k) for k in range(3))
        lines = []
        for k in range(3):
            middle = a[3 * k] * x + a[3 * k + 1] * y + a[3 * k + 2] + w * a[9 + k]
            steps = ((a[3 * k + m] + s * a[9 + k]) * stride for m, s in ((0, wx), (1, wy)))
            lines.append((middle, *steps))
        last = [_float(builder, n) - 1.01 for n in (width, height)]
        centre = arrays.floats(11)
        outside, mean, square, both = (0.0 * x for _ in range(4))
        nearest = lines[2][0]  # the depth of the middle
        for k, (dx, dy) in enumerate(_OFFSETS):
            u, v, z = (middle + right * dx + down * dy for middle, right, down in lines)
            nearest = minimum(nearest, z)
            inverse = 1.0 / z
            u, v = u * inverse, v * inverse
            weight = arrays.floats(10, k)
            inside = [minimum(maximum(p, 0.0), most) for p, most in zip((u, v), last, strict=True)]
            for p, within in zip((u, v), inside, strict=True):
                outside = outside + weight * ((p - within) * (p - within))
            column, row = (builder.fptosi(p.value, _INTS) for p in inside)
            s, t = (p - _float(builder, n) for p, n in zip(inside, (column, row), strict=True))
            at = builder.add(builder.add(builder.mul(row, width), column), start)
            grey, below, right, last_ = _square(arrays, 0, at)
            top, low = grey + s * (right - grey), below + s * (last_ - below)
            shown = (top + t * (low - top)) * UNIT - centre
            weighed = weight * shown
            mean, square = mean + weighed, square + weighed * shown
            both = both + arrays.floats(9, k) * shown
        variance = square - mean * mean
        cost = 1.0 - both / _root(builder, maximum(variance, FLAT / 2))
        cost = where(variance < FLAT / 2, UNLIKE, cost)
        # What is behind the camera, or not a number, is outside too.
        like, ahead = nearest > 0.0
        _, fine = outside < 1e-6
        arrays.put(12, 0, where(Condition(like, builder.and_(ahead, fine)), cost, OUTSIDE))
        return context.get_dummy_value()

    given = images, starts, lenses, sizes, which, xs, ys, strides, planes, values, weights
    return types.void(*given, centres, out), codegen
