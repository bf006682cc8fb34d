"""Eight triangles at a time, in vectors of float64: their boxes, edges and planes.

What is decided of triangles is decided as in the definition, bit by bit: each product and each sum
is rounded. Corners are loaded as rows of four numbers, which are turned into vectors in registers.
"""

# Numba runs these functions while it compiles; their arguments are objects of its own.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from gendr.kernels.numba.singles import ceil, floor, of_lanes
from gendr.kernels.numba.vectors import (
    LANES,
    Condition,
    Exact,
    Lanes,
    Place,
    Pointer,
    first_lanes,
    lanewise,
    maximum,
    minimum,
    where,
)
from gendr.primitives import formulas

__all__ = [
    "MARGIN", "PLANES", "SUMS", "add_deep_pixel", "add_pixel", "begin_sums", "blank", "bounds",
    "changes", "end_sums", "facing", "lowest", "mix", "planes", "seen", "seen_with_slopes", "share",
    "sides",
]  # fmt: skip

MARGIN = 1e-6  # pixels by which boxes are wider, far more than rounding moves a corner
PLANES = 5  # rows of four numbers of a triangle, from which `seen` has what a pixel shows

_INT, _LONG, _DOUBLE = ir.IntType(32), ir.IntType(64), ir.DoubleType()
_BITS, _FOUR = ir.IntType(LANES), ir.VectorType(_DOUBLE, 4)
_is_solid, _planes_of = of_lanes(formulas.is_solid), of_lanes(formulas.planes_of)


def _shuffled(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    """These lanes of two vectors, the second of which goes on where the first ends."""
    mask = ir.Constant(ir.VectorType(_INT, len(lanes)), lanes)
    return builder.shuffle_vector(a, b, mask)


def _joined(builder: Any, parts: list[Any]) -> Any:
    """Vectors behind each other, as one; a power of two of them."""
    while len(parts) > 1:
        count = 2 * parts[0].type.count
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [_shuffled(builder, a, b, [*range(count)]) for a, b in pairs]
    return parts[0]


def _turned(builder: Any, parts: list[Any]) -> list[Any]:
    """Vectors of the first, second, ... numbers of these vectors."""
    whole, count = _joined(builder, parts), parts[0].type.count
    return [
        _shuffled(builder, whole, whole, [k + count * part for part in range(len(parts))])
        for k in range(count)
    ]


def _corners(pos: Pointer, tri: Pointer, chosen: Pointer, base: Place) -> list[list[Any]]:
    """x, y, z and w of the three corners of eight triangles."""
    builder, kind = base.builder, pos.base.type.pointee
    row, align = ir.VectorType(kind, 4).as_pointer(), 4 if kind == ir.FloatType() else 8

    def number(array: Pointer, place: Any) -> Any:
        return builder.sext(builder.load(builder.gep(array.base, [place])), _LONG)

    first = [builder.mul(number(chosen, _LONG(k)), _LONG(3)) for k in range(LANES)]
    found = []
    for corner in range(3):
        rows = []
        for t in first:
            v = builder.add(base.value, number(tri, builder.add(t, _LONG(corner))))
            address = builder.gep(pos.base, [builder.mul(v, _LONG(4))])
            rows.append(builder.load(builder.bitcast(address, row), align=align))
        parts = _turned(builder, rows)
        if kind != _DOUBLE:
            parts = [builder.fpext(x, ir.VectorType(_DOUBLE, LANES)) for x in parts]
        found.append([Exact(builder, x) for x in parts])
    return found


def _exact(*given: Lanes) -> tuple[Exact, ...]:
    return tuple(Exact(x.builder, x.value) for x in given)


def _bits(*conditions: Condition) -> Any:
    """An int64 with a bit for each lane, of the first condition the lowest."""
    builder, found = conditions[0].like.builder, _LONG(0)
    for k, condition in enumerate(conditions):
        bits = builder.zext(builder.bitcast(condition.lanes, _BITS), _LONG)
        found = builder.or_(found, builder.shl(bits, _LONG(LANES * k)))
    return found


def _bounds(pos, tri, chosen, base, height, width, box):
    """The first and last rows and columns of eight triangles, int32 [4, 8], as `pixels` has them.

    Returns a bit for each that is not seen, and then for each that is not all before the camera,
    which has no box here.
    """
    a, b, c = _corners(pos, tri, chosen, base)
    height, width = _exact(height, width)
    builder = height.builder
    apart: Any = None
    for axis in range(3):
        beyond = (a[axis] > a[3]) & (b[axis] > b[3]) & (c[axis] > c[3])
        before = (a[axis] < -a[3]) & (b[axis] < -b[3]) & (c[axis] < -c[3])
        beyond = beyond | before
        apart = beyond if apart is None else apart | beyond
    hidden = Condition(height, builder.not_(_is_solid(a, b, c).lanes)) | apart
    ahead = (a[3] > 0.0) & (b[3] > 0.0) & (c[3] > 0.0)
    kind = ir.VectorType(_INT, LANES)
    for axis, n, place in ((1, height, 0), (0, width, 2)):
        u, v, w = (p[axis] / p[3] for p in (a, b, c))
        low, high = minimum(minimum(u, v), w), maximum(maximum(u, v), w)
        low = maximum((low * n + n - 1.0) * 0.5 - MARGIN, 0.0)
        high = minimum((high * n + n - 1.0) * 0.5 + MARGIN, n - 1.0)
        for k, x in enumerate((ceil(minimum(low, n)), floor(maximum(high, -1.0)))):
            address = builder.gep(box.base, [_LONG(LANES * (place + k))])
            whole = builder.fptosi(x.value, kind)
            builder.store(whole, builder.bitcast(address, kind.as_pointer()), align=4)
    return _bits(hidden, Condition(height, builder.not_(ahead.lanes)))


bounds = lanewise(_bounds, types.int64)


def _facing(pos, tri, chosen, base):
    """Bits of the triangles whose determinant is positive, and then of those that have one."""
    a, b, c = _corners(pos, tri, chosen, base)
    positive = formulas.determinant(a, formulas.cross(b, c)) > 0.0
    return _bits(positive, _is_solid(a, b, c))


facing = lanewise(_facing, types.int64)


def _later(a: list[Exact], b: list[Exact]) -> Condition:
    """Whether corners come after others, by x, y, w and z."""
    found = a[2] > b[2]
    for k in (3, 1, 0):
        found = (a[k] > b[k]) | (a[k].equals(b[k]) & found)
    return found


def _sides(pos, tri, chosen, base, height, width, corners, found):
    """(p, q, r) of the edges and of the depth of eight triangles, [4, 3, 8], see `edges`.

    Args:
        pos: of vertices.
        tri: their triangles.
        chosen: int32 [8], which of them.
        base: the first vertex of the image.
        height: of the image.
        width: of the image.
        corners: [4, 8], the least and the greatest x and y of samples that count.
        found: is written.

    Returns:
        Bits of those that hold none of these samples, and then for each edge of those that have
        the samples on it.
    """
    corner = _corners(pos, tri, chosen, base)
    height, width = _exact(height, width)
    for i, j in ((0, 1), (1, 2), (0, 1)):
        swap = _later(corner[i], corner[j])
        both = [*zip(corner[i], corner[j], strict=True)]
        corner[i] = [where(swap, q, p) for p, q in both]
        corner[j] = [where(swap, p, q) for p, q in both]
    a, b, c = corner
    crosses = formulas.cross(b, c), formulas.cross(c, a), formulas.cross(a, b)
    det = formulas.determinant(a, crosses[0])
    turn = where(det > 0.0, Exact(det.builder, det.of(1.0)), -1.0)
    u, v = turn * height, turn * width
    w = u * width
    f = 1.0 / (det * w)
    lines = [(u * e[0], v * e[1], w * e[2]) for e in crosses]
    (p0, q0, r0), (p1, q1, r1), (p2, q2, r2) = lines
    lines.append(
        (
            (a[2] * p0 + b[2] * p1 + c[2] * p2) * f,
            (a[2] * q0 + b[2] * q1 + c[2] * q2) * f,
            (a[2] * r0 + b[2] * r1 + c[2] * r2) * f,
        )
    )
    for k, number in enumerate(x for line in lines for x in line):
        found[LANES * k] = number
    x0, x1, y0, y1 = _exact(*(corners[LANES * k] for k in range(4)))
    outside: Any = None
    owned: list[Any] = []
    for p, q, r in lines[:3]:
        greatest = p * where(p > 0.0, x1, x0) + (q * where(q > 0.0, y1, y0) + r)
        beyond = greatest < 0.0
        outside = beyond if outside is None else outside | beyond
        owned.append((p > 0.0) | (p.equals(0.0) & (q < 0.0)))
    return _bits(outside, *owned)


sides = lanewise(_sides, types.int64)


def _planes(pos, tri, chosen, base, wide, high, found, place):
    """What `seen` reads of eight triangles: planes of u, v, depth and their common divisor.

    Args:
        pos: of vertices.
        tri: their triangles.
        chosen: int32 [8], which of them.
        base: the first vertex of the image.
        wide: 1 / width.
        high: 1 / height.
        found: is written, `PLANES` rows of four numbers for each.
        place: of the first.
    """
    a, b, c = _corners(pos, tri, chosen, base)
    wide, high = _exact(wide, high)
    first, second, total, depth = _planes_of(a, b, c, wide, high)
    builder = wide.builder
    rows = [(first[k], second[k], depth[k], total[k]) for k in range(3)]
    rows += [(first[0], first[1], second[0], second[1]), (total[0], total[1], total[0], total[1])]
    for k, row in enumerate(rows):
        whole = _joined(builder, [x.value for x in row])
        for lane in range(LANES):
            four = _shuffled(builder, whole, whole, [lane + LANES * m for m in range(4)])
            at = place + (lane * 4 * PLANES + 4 * k)
            _store(found, at, four)


planes = lanewise(_planes)


def _store(array: Pointer, place: Place, value: Any) -> None:
    builder, kind = place.builder, array.base.type.pointee
    if kind != value.type.element:
        value = builder.fptrunc(value, ir.VectorType(kind, value.type.count))
    address = builder.gep(array.base, [place.value])
    address = builder.bitcast(address, value.type.as_pointer())
    builder.store(value, address, align=4 if kind == ir.FloatType() else 8)


def _changes(numbers, place, ids, at, count):
    """Write the ids of samples side by side, of which there are at most eight.

    Args:
        numbers: of the triangles, inf where there is none.
        place: of the first sample, before which there is a number, too.
        ids: is written, -1 for none.
        at: place of the first sample there.
        count: of samples.

    Returns:
        A bit for each that sees another triangle than the one before it.
    """
    builder = place.builder
    here, before = numbers[place], numbers[place + -1]
    found = where(here < math.inf, here, -1.0)
    kind = ir.VectorType(_INT, LANES)
    whole = builder.fptosi(found.value, kind)
    address = builder.gep(ids.base, [at.value])
    address = builder.bitcast(address, kind.as_pointer())
    within = first_lanes(count)
    full = builder.icmp_signed("==", count.value, _LONG(LANES))
    with builder.if_else(full) as (every, some):
        with every:
            builder.store(whole, address, align=4)
        with some:
            mask = ir.VectorType(ir.IntType(1), LANES)
            function = ir.FunctionType(ir.VoidType(), [kind, address.type, _INT, mask])
            name = f"llvm.masked.store.v{LANES}i32.p0"
            store = cgutils.get_or_insert_function(builder.module, function, name)
            builder.call(store, [whole, address, _INT(4), within])
    changed = Condition(here, builder.not_(here.equals(before).lanes))
    return _bits(changed & Condition(here, within))


changes = lanewise(_changes, types.int64)
lowest = lanewise(lambda bits: bits.builder.cttz(bits.value, ir.IntType(1)(1)), types.int64)


@lanewise
def blank(array, at):
    """Write four zeros."""
    _store(array, at, ir.Constant(_FOUR, [0.0] * 4))


def _load(array: Pointer, place: Any) -> Exact:
    """Four numbers, as float64."""
    builder, kind = array.builder, array.base.type.pointee
    row = ir.VectorType(kind, 4).as_pointer()
    address = builder.bitcast(builder.gep(array.base, [Place.of(place)]), row)
    found = builder.load(address, align=4 if kind == ir.FloatType() else 8)
    return Exact(builder, found if kind == _DOUBLE else builder.fpext(found, _FOUR))


def _load_first(array: Pointer, place: Place, count: Place) -> tuple[Exact, Any]:
    """The first numbers of four, and zeros; which lanes these numbers are."""
    builder, kind = array.builder, array.base.type.pointee
    row, eight = ir.VectorType(kind, 4), first_lanes(count)
    within = _shuffled(builder, eight, eight, [0, 1, 2, 3])
    address = builder.bitcast(builder.gep(array.base, [place.value]), row.as_pointer())
    function = ir.FunctionType(row, [address.type, _INT, within.type, row])
    bits = 32 if kind == ir.FloatType() else 64
    name = f"llvm.masked.load.v4f{bits}.p0"
    load = cgutils.get_or_insert_function(builder.module, function, name)
    zeros = ir.Constant(row, [0.0] * 4)
    found = builder.call(load, [address, _INT(bits // 8), within, zeros])
    return Exact(builder, found if kind == _DOUBLE else builder.fpext(found, _FOUR)), within


def _lanes(v: Lanes, *chosen: int) -> Exact:
    """Four lanes of a vector."""
    return Exact(v.builder, _shuffled(v.builder, v.value, v.value, [*chosen]))


def _fours(*given: Lanes) -> list[Exact]:
    """Numbers in four lanes."""
    return [_lanes(v, 0, 0, 0, 0) for v in given]


def _sum(v: Exact) -> Exact:
    """The sum of four lanes, in all of them."""
    v = v + _lanes(v, 2, 3, 0, 1)
    return v + _lanes(v, 1, 0, 3, 2)


def _add(array: Pointer, place: Place, v: Exact) -> None:
    _store(array, place, (_load(array, place) + v).value)


def _shown(planes: Pointer, triangle: Place, x: Lanes, y: Lanes, number: Lanes) -> Any:
    """(u, v, z / w, number) of a pixel and its four derivatives, see `interpolants`."""
    builder = triangle.builder
    x, y, number = _fours(x, y, number)
    p, q, r, lines, total = (_load(planes, triangle + 4 * k) for k in range(PLANES))
    values = p * x + (q * y + r)  # times the divisor, but the depth
    g = 1.0 / _lanes(values, 3, 3, 3, 3)
    values *= Exact(builder, _shuffled(builder, g.value, g.of(1.0), [0, 0, 4, 4]))
    slopes = (lines - _lanes(values, 0, 0, 1, 1) * total) * (g * 2.0)
    return _shuffled(builder, values.value, number.value, [0, 1, 2, 4]), slopes.value


@lanewise
def seen(planes, triangle, x, y, number, rast, at):
    """Write (u, v, z / w, number) of a pixel.

    Args:
        planes: as written by `planes`.
        triangle: place of those of the triangle there.
        x: of the sample, 2 j + 1 - W.
        y: of the sample, 2 i + 1 - H.
        number: of the triangle, and 1.
        rast: is written.
        at: place of the pixel there.
    """
    _store(rast, at, _shown(planes, triangle, x, y, number)[0])


@lanewise
def seen_with_slopes(planes, triangle, x, y, number, rast, derivatives, at):
    """The same, and the four derivatives of u and v."""
    shown, slopes = _shown(planes, triangle, x, y, number)
    _store(rast, at, shown)
    _store(derivatives, at, slopes)


# ---------------------------------------------------------------------------------------------
# Four channels of attributes at a time
# ---------------------------------------------------------------------------------------------


def _mix(attr, a, b, c, u, v, w, found, at):
    """Write four attributes of a pixel from those of its corners.

    Args:
        attr: of vertices.
        a: place of those of the first corner.
        b: of the second.
        c: of the third.
        u: the barycentric coordinates.
        v: the second.
        w: the third.
        found: is written.
        at: place there.
    """
    u, v, w = _fours(u, v, w)
    x, y, z = (_load(attr, place) for place in (a, b, c))
    _store(found, at, (u * x + v * y + w * z).value)


mix = lanewise(_mix)


def _share(grad, at, count, attr, a, b, c, u, v, w, sums, to_a, to_b, to_c):
    """Add the gradients of four attributes of a pixel to those of its corners.

    Args:
        grad: of the attributes.
        at: place of those of the pixel.
        count: of those that count, or more.
        attr: see `mix`, and so are the next.
        a: of the first corner.
        b: of the second.
        c: of the third.
        u: the barycentric coordinates.
        v: the second.
        w: the third.
        sums: of vertices.
        to_a: places there of the corners.
        to_b: of the second.
        to_c: of the third.

    Returns:
        The gradients of u and v, of which w is the rest to 1.
    """
    builder = at.builder
    g, within = _load_first(grad, at, count)
    x, y, z = (_load(attr, place) for place in (a, b, c))
    for place, part in zip((to_a, to_b, to_c), _fours(u, v, w), strict=True):
        _add(sums, place, part * g)
    # What is beyond may be of others, and no number.
    p, q = (where(Condition(g, within), (of - z) * g, 0.0).value for of in (x, y))
    even, odd = (_shuffled(builder, p, q, order) for order in ([0, 4, 2, 6], [1, 5, 3, 7]))
    both = Exact(builder, builder.fadd(even, odd))
    both = both + _lanes(both, 2, 3, 0, 1)
    return cgutils.pack_array(
        builder, [builder.extract_element(both.value, _INT(k)) for k in range(2)]
    )


share = lanewise(_share, types.UniTuple(types.float64, 2))


# ---------------------------------------------------------------------------------------------
# The three corners of a triangle at once
# ---------------------------------------------------------------------------------------------

SUMS = 10  # rows of four numbers of a triangle whose pixels are summed up
_EX, _EY, _EW, _P, _Q, _R, _OF_Z, _OF_W, _Z, _W = (4 * k for k in range(SUMS))


def _begin_sums(pos, a, b, c, sums, at):
    """The sums of a triangle before its first pixel, and what is the same for all of them.

    Args:
        pos: of vertices.
        a: place of the first corner.
        b: of the second.
        c: of the third.
        sums: `SUMS` rows of four, are written.
        at: place of the first.

    Returns:
        The inverse of the determinant.
    """
    builder = a.builder
    rows = [_load(pos, place).value for place in (a, b, c)]
    rows.append(ir.Constant(_FOUR, [0.0] * 4))
    xs, ys, zs, ws = (Exact(builder, v) for v in _turned(builder, rows))
    (x1, y1, w1), (x2, y2, w2) = (
        [_lanes(v, *order) for v in (xs, ys, ws)] for order in ((1, 2, 0, 3), (2, 0, 1, 3))
    )
    ex, ey, ew = y1 * w2 - w1 * y2, w1 * x2 - x1 * w2, x1 * y2 - y1 * x2
    zero = Exact(builder, ir.Constant(_FOUR, [0.0] * 4))
    for k, v in enumerate((ex, ey, ew, zero, zero, zero, zero, zero, zs, ws)):
        _store(sums, at + 4 * k, v.value)
    f = 1.0 / (xs * ex + ys * ey + ws * ew)
    return builder.extract_element(f.value, _INT(0))


begin_sums = lanewise(_begin_sums, types.float64)


def _pixel(sums: Pointer, to: Place, x: Lanes, y: Lanes, f: Lanes, grad: Pointer, at: Place,
           deep: bool) -> None:  # fmt: skip
    """See `add_pixel`."""
    builder = at.builder
    x, y, f = _fours(x, y, f)
    shares = _load(sums, to + _EX) * x + (_load(sums, to + _EY) * y + _load(sums, to + _EW))
    total = _sum(shares)
    shares = shares * (1.0 / total)
    given = _load(grad, at)
    of = Exact(builder, _shuffled(builder, given.value, given.of(0.0), [0, 1, 4, 4]))
    if deep:
        near, heights = total * f, _load(sums, to + _Z)
        depth = _sum(heights * shares) * near
        of_depth = _lanes(given, 2, 2, 2, 2) * near
        of = of + of_depth * (heights - depth * _load(sums, to + _W))
        _add(sums, to + _OF_Z, of_depth * shares)
        _add(sums, to + _OF_W, of_depth * depth * shares)
    of = of - _sum(of * shares)
    for k, place in enumerate((_P, _Q, _R)):
        _add(sums, to + place, shares * _lanes(of, k, k, k, k))


@lanewise
def add_pixel(sums, to, x, y, f, grad, at):
    """Add the gradient of a pixel to those of its triangle, as `of_positions` without slopes.

    What is linear is done once for all pixels, by `end_sums`.

    Args:
        sums: see `begin_sums`.
        to: place of those of the triangle.
        x: of the pixel, in NDC.
        y: of the pixel.
        f: the inverse of the determinant.
        grad: of u, v and, which is 0, z / w.
        at: place of that of the pixel.
    """
    _pixel(sums, to, x, y, f, grad, at, False)


@lanewise
def add_deep_pixel(sums, to, x, y, f, grad, at):
    """The same where the gradient of z / w is not 0."""
    _pixel(sums, to, x, y, f, grad, at, True)


def _end_sums(sums, to, f, found, a, b, c):
    """Add the gradients of a triangle to those of its corners, whose places are given."""
    (f,) = _fours(f)
    p, q, r = (_load(sums, to + place) for place in (_P, _Q, _R))
    parts = []
    for place in (_EX, _EY, _EW):
        e = _load(sums, to + place)
        e0, e1, e2 = (_lanes(e, k, k, k, k) for k in range(3))
        parts.append(-(e0 * p + e1 * q + e2 * r) * f)
    x, y, w = parts
    rows = [x, y, _load(sums, to + _OF_Z), w - _load(sums, to + _OF_W)]
    turned = _turned(a.builder, [v.value for v in rows])
    for place, v in zip((a, b, c), turned, strict=False):
        _add(found, place, Exact(a.builder, v))


end_sums = lanewise(_end_sums)
