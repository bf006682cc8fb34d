"""Patches of `LANES` pixels compared at once: what most of the time of depth maps goes into.

A lane is a pixel, so that sums over a patch need no sums across lanes.
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

LANES = 16
# A patch: SIDE x SIDE samples, STRIDE pixels apart.
SIDE, STRIDE = 4, 2
SAMPLES = SIDE * SIDE
OFFSETS = [
    ((k % SIDE - (SIDE - 1) / 2) * STRIDE, (k // SIDE - (SIDE - 1) / 2) * STRIDE)
    for k in range(SAMPLES)
]
# The costs of what is outside of the other photo, and of what cannot be compared.
OUTSIDE, UNLIKE = 1.2, 1.0

_FLOAT, _INT = ir.FloatType(), ir.IntType(32)
_FLOATS, _INTS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT, LANES)


def _bytes(builder: Any, words: Any) -> list[Lanes]:
    """The four bytes of words as numbers, the lowest first."""
    found = []
    for k in range(4):
        part = builder.lshr(words, ir.Constant(_INTS, [8 * k] * LANES)) if k else words
        if k < 3:
            part = builder.and_(part, ir.Constant(_INTS, [255] * LANES))
        found.append(Lanes(builder, builder.sitofp(part, _FLOATS)))
    return found


def _row(builder: Any, data: Any, k: int, kind: Any) -> Any:
    """Row k of an array of `LANES` numbers each."""
    address = builder.bitcast(builder.gep(data, [_INT(k * LANES)]), kind.as_pointer())
    return builder.load(address, align=4)


def _to_integers(value: Lanes) -> Any:
    return value.builder.fptosi(value.value, _INTS)


@intrinsic
def compare(typingctx, words, lenses, sizes, which, xs, y, planes, values, weights, out):
    """1 - the correlation of patches with where planes lie in other photos: 0 .. 2.

    Args:
        typingctx: of Numba.
        words: uint32, the photos; four grey values in a word.
        lenses: float32 [K, 12, LANES], A row by row, and b, of the photos that lanes look at.
        sizes: int32 [K, 3, LANES], where these photos begin, their widths and their heights.
        which: int64, of these K.
        xs: float32 [LANES], the columns of the pixels.
        y: float32, their row.
        planes: float32 [3, LANES].
        values: float32 [SAMPLES, LANES], see `prepare`.
        weights: float32 [SAMPLES, LANES].
        out: float32 [LANES], is written.
    """

    def codegen(context, builder, signature, args):
        data = {
            k: context.make_array(kind)(context, builder, given).data
            for k, (kind, given) in enumerate(zip(signature.args, args, strict=True))
            if isinstance(kind, types.Array)
        }
        for n, rows in ((1, 12), (2, 3)):
            first = builder.mul(args[3], ir.IntType(64)(rows * LANES))
            data[n] = builder.gep(data[n], [first])
        a = [Lanes(builder, _row(builder, data[1], k, _FLOATS)) for k in range(12)]
        base, width, height = (_row(builder, data[2], k, _INTS) for k in range(3))
        x = Lanes(builder, _row(builder, data[4], 0, _FLOATS))
        row = Lanes.splat(builder, args[5])
        w, wx, wy = (Lanes(builder, _row(builder, data[6], k, _FLOATS)) for k in range(3))
        lines = []
        for k in range(3):
            first = a[3 * k] * x + a[3 * k + 1] * row + a[3 * k + 2] + w * a[9 + k]
            lines.append((first, a[3 * k] + wx * a[9 + k], a[3 * k + 1] + wy * a[9 + k]))
        last = [Lanes(builder, builder.sitofp(n, _FLOATS)) - 1.01 for n in (width, height)]
        outside, mean, square, both = (0.0 * x for _ in range(4))
        nearest = lines[2][0]  # the depth of the middle
        for k, (dx, dy) in enumerate(OFFSETS):
            u, v, z = (first + across * dx + along * dy for first, across, along in lines)
            nearest = minimum(nearest, z)
            inverse = 1.0 / z
            u, v = u * inverse, v * inverse
            inside = [minimum(maximum(p, 0.0), most) for p, most in zip((u, v), last, strict=True)]
            outside = outside + (u - inside[0]) * (u - inside[0])
            outside = outside + (v - inside[1]) * (v - inside[1])
            whole = [_to_integers(p) for p in inside]
            s, t = (
                p - Lanes(builder, builder.sitofp(n, _FLOATS))
                for p, n in zip(inside, whole, strict=True)
            )
            place = builder.add(builder.add(builder.mul(whole[1], width), whole[0]), base)
            near, right, below, next_ = _bytes(builder, gathered(builder, data[0], place))
            top, low = near + s * (right - near), below + s * (next_ - below)
            grey = top + t * (low - top)
            given, weight = (Lanes(builder, _row(builder, data[n], k, _FLOATS)) for n in (7, 8))
            part = weight * grey
            mean, square, both = mean + part, square + part * grey, both + given * grey
        variance = square - mean * mean
        root = ir.FunctionType(_FLOATS, [_FLOATS])
        sqrt = cgutils.get_or_insert_function(builder.module, root, f"llvm.sqrt.v{LANES}f32")
        deviation = Lanes(builder, builder.call(sqrt, [maximum(variance, 1.0).value]))
        cost = where(variance > 1.0, 1.0 - both / deviation, UNLIKE)
        # What is behind the camera, or not a number, is outside too.
        like, ahead = nearest > 0.0
        _, fine = outside < 1e-6
        cost = where(Condition(like, builder.and_(ahead, fine)), cost, OUTSIDE)
        address = builder.bitcast(data[9], _FLOATS.as_pointer())
        builder.store(cost.value, address, align=4)
        return context.get_dummy_value()

    return types.void(words, lenses, sizes, which, xs, y, planes, values, weights, out), codegen


@intrinsic
def prepare(typingctx, words, start, width, height, xs, y, soft, values, weights, deviations):
    """Bilateral weights of patches; values less their mean, times weights over the deviation.

    Args:
        typingctx: of Numba.
        words: uint32, the photos; four grey values in a word.
        start: int32, where the photo begins.
        width: int32, of it.
        height: int32, of it.
        xs: float32 [LANES], the columns of the pixels.
        y: float32, their row.
        soft: float32, the difference of grey values at which a sample weighs half.
        values: float32 [SAMPLES, LANES], is written.
        weights: float32 [SAMPLES, LANES], is written.
        deviations: float32 [LANES], is written: the contrast of what is like the centre.

    Source: Schönberger et al., Pixelwise View Selection for Unstructured Multi-View Stereo, 2016,
    eq. 13, with a rational weight of colours and none of distances.
    """

    def codegen(context, builder, signature, args):
        data = {
            k: context.make_array(kind)(context, builder, given).data
            for k, (kind, given) in enumerate(zip(signature.args, args, strict=True))
            if isinstance(kind, types.Array)
        }

        def splat(number: Any) -> Any:
            undefined = ir.Constant(_INTS, ir.Undefined)
            first = builder.insert_element(undefined, number, _INT(0))
            return builder.shuffle_vector(first, undefined, ir.Constant(_INTS, [0] * LANES))

        base, width, height = (splat(n) for n in args[1:4])
        last = [Lanes(builder, builder.sitofp(n, _FLOATS)) - 1.0 for n in (width, height)]
        x = Lanes(builder, _row(builder, data[4], 0, _FLOATS))
        row = Lanes.splat(builder, args[5])
        inverse = 1.0 / Lanes.splat(builder, args[6])

        def grey(dx: float, dy: float) -> Lanes:
            u, v = (
                _to_integers(minimum(maximum(p, 0.0), most))
                for p, most in zip((x + dx, row + dy), last, strict=True)
            )
            place = builder.add(builder.add(builder.mul(v, width), u), base)
            return _bytes(builder, gathered(builder, data[0], place))[0]

        centre = grey(0.0, 0.0)
        greys = [grey(dx, dy) for dx, dy in OFFSETS]
        shares = []
        for value in greys:
            off = (value - centre) * inverse
            shares.append(1.0 / (1.0 + off * off))
        total = sum(shares[1:], shares[0])
        shares = [share / total for share in shares]
        mean, square = 0.0 * x, 0.0 * x
        for value, share in zip(greys, shares, strict=True):
            mean = mean + share * value
        for value, share in zip(greys, shares, strict=True):
            square = square + share * (value - mean) * (value - mean)
        root = ir.FunctionType(_FLOATS, [_FLOATS])
        sqrt = cgutils.get_or_insert_function(builder.module, root, f"llvm.sqrt.v{LANES}f32")
        deviation = Lanes(builder, builder.call(sqrt, [maximum(square, 1e-6).value]))

        def put(array: Any, k: int, value: Any) -> None:
            address = builder.gep(array, [_INT(k * LANES)])
            builder.store(value.value, builder.bitcast(address, _FLOATS.as_pointer()), align=4)

        for k, (value, share) in enumerate(zip(greys, shares, strict=True)):
            put(data[7], k, (value - mean) * share / deviation)
            put(data[8], k, share)
        # What the sky has beside a roof is the roof's: where the centre is brighter than the rest,
        # only what is of its colour counts.
        strict = []
        for value in greys:
            off = (value - centre) * inverse
            part = 1.0 / (1.0 + off * off * 4.0)
            strict.append(part * part * part * part)
        whole = sum(strict[1:], strict[0])
        own, spread = 0.0 * x, 0.0 * x
        for value, share in zip(greys, strict, strict=True):
            own = own + share * value
        own = own / whole
        for value, share in zip(greys, strict, strict=True):
            spread = spread + share * (value - own) * (value - own)
        narrow = Lanes(builder, builder.call(sqrt, [maximum(spread / whole, 1e-6).value]))
        plain = sum(greys[1:], greys[0]) * (1.0 / SAMPLES)
        put(data[9], 0, where(centre > plain, narrow, deviation))
        return context.get_dummy_value()

    return (
        types.void(words, start, width, height, xs, y, soft, values, weights, deviations),
        codegen,
    )
