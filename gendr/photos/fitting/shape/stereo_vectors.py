"""All samples of a patch of stereo at once, in vectors: what most of its time goes into."""

# Numba runs these functions while it compiles; their arguments are objects of its own.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gendr.kernels.numba.vectors import Condition, Lanes, where

# A patch is SIDE x SIDE samples.
SIDE = 4
SAMPLES = SIDE * SIDE

_FLOAT, _INT, _LONG = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_FLOATS, _INTS = ir.VectorType(_FLOAT, SAMPLES), ir.VectorType(_INT, SAMPLES)


def _shuffled(builder: Any, a: Any, b: Any, places: Sequence[int]) -> Any:
    """Elements of two vectors, which count on from one to the other."""
    kind = ir.VectorType(_INT, len(places))
    return builder.shuffle_vector(a, b, ir.Constant(kind, list(places)))


def _pairs(builder: Any, image: Any, places: Any) -> tuple[Lanes, Lanes]:
    """What an image holds at the places of samples, and right of them: one load for both."""
    pair = ir.VectorType(_FLOAT, 2)
    found = []
    for k in range(SAMPLES):
        place = builder.zext(builder.extract_element(places, _INT(k)), _LONG)
        address = builder.bitcast(builder.gep(image, [place]), pair.as_pointer())
        found.append(builder.load(address, align=4))
    while len(found) > 1:
        both = range(2 * found[0].type.count)
        ends = zip(found[::2], found[1::2], strict=True)
        found = [_shuffled(builder, a, b, both) for a, b in ends]
    left, right = (_shuffled(builder, found[0], found[0], range(n, 2 * SAMPLES, 2)) for n in (0, 1))
    return Lanes(builder, left), Lanes(builder, right)


@intrinsic
def sampled(typingctx, images, n, values, weights, columns, rows, depths):
    """Sums over a patch of what an image shows where a plane is.

    Args:
        typingctx: of Numba.
        images: float32 [B, H, W], contiguous.
        n: the number of the image.
        values: float32 [SAMPLES].
        weights: float32 [SAMPLES], 0 where nothing is compared.
        columns: (u, right, down), those of the first sample, and what they change by from sample
            to sample; homogeneous.
        rows: in the same way.
        depths: what both are divided by, in the same way.

    Returns: sums of weights times colours, times their squares, and of values times colours; and
        whether all that is compared is in the image.
    """

    def codegen(context, builder, signature, args):
        arrays = [
            context.make_array(kind)(context, builder, given)
            for kind, given in zip(signature.args, args, strict=True)
            if isinstance(kind, types.Array)
        ]
        _, height, width = cgutils.unpack_tuple(builder, arrays[0].shape, 3)
        image = builder.gep(arrays[0].data, [builder.mul(args[1], builder.mul(height, width))])
        given, weight = (
            Lanes(builder, builder.load(builder.bitcast(a.data, _FLOATS.as_pointer()), align=4))
            for a in arrays[1:]
        )
        right, down = (
            Lanes(builder, ir.Constant(_FLOATS, [float(part(k, SIDE)) for k in range(SAMPLES)]))
            for part in (int.__mod__, int.__floordiv__)
        )
        places = []
        for line in args[4:]:
            first, *steps = cgutils.unpack_tuple(builder, line, 3)
            first, across, along = (Lanes.splat(builder, part) for part in (first, *steps))
            places.append(first + right * across + down * along)
        inverse = 1.0 / places[2]
        u, v = (place * inverse for place in places[:2])
        _, seen = places[2] > 0.0
        for place, size in ((u, width), (v, height)):
            last = Lanes.splat(builder, builder.sitofp(builder.sub(size, _LONG(1)), _FLOAT))
            from_zero = builder.fcmp_ordered(">=", place.value, place.of(0.0))
            seen = builder.and_(seen, builder.and_(from_zero, (place < last)[1]))
        u, v = (where(Condition(place, seen), place, 0.0).value for place in (u, v))
        column, row = (builder.fptosi(place, _INTS) for place in (u, v))
        s, t = (
            Lanes(builder, builder.fsub(place, builder.sitofp(whole, _FLOATS)))
            for place, whole in ((u, column), (v, row))
        )
        undefined = ir.Constant(_INTS, ir.Undefined)
        wide = builder.insert_element(undefined, builder.trunc(width, _INT), _INT(0))
        wide = _shuffled(builder, wide, undefined, [0] * SAMPLES)
        above = builder.add(builder.mul(row, wide), column)
        lines = []
        for start in (above, builder.add(above, wide)):
            a, b = _pairs(builder, image, start)
            lines.append(a + s * (b - a))
        value = lines[0] + t * (lines[1] - lines[0])
        weighed = weight * value
        sums = weighed.sum(), (weighed * value).sum(), (given * value).sum()
        unused = builder.fcmp_ordered("==", weight.value, weight.of(0.0))
        bits = ir.IntType(SAMPLES)
        fine = builder.bitcast(builder.or_(seen, unused), bits)
        every = builder.icmp_signed("==", fine, bits(-1))
        return context.make_tuple(builder, signature.return_type, (*sums, every))

    line = types.UniTuple(types.float32, 3)
    found = types.Tuple((*[types.float32] * 3, types.boolean))
    return found(images, types.int64, values, weights, line, line, line), codegen
