"""The kernels of the rasteriser: nearest depths, then who has them, then what is seen there.

A triangle whose box has few pixels is one thread's work. The boxes of the others are cut into
chunks, of which a running sum gives every program its share, so that one triangle across the whole
image keeps the GPU as busy as many. The depth of a pixel is a minimum that all triangles there take
part in, by integers that are ordered as the depths are; of those that reach it the lowest number is
another minimum. Neither depends on the order of programs.
"""

# Triton compiles these functions; their arguments are pointers, numbers and blocks.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import triton
import triton.language as tl

from gendr.kernels.triton.functions import compiled
from gendr.primitives import formulas
from gendr.primitives.triton.shared_kernels import (
    centre,
    corners_of,
    cross,
    fours,
    place_among,
)

determinant, is_solid = compiled(formulas.determinant), compiled(formulas.is_solid)
planes_of, interpolants = compiled(formulas.planes_of), compiled(formulas.interpolants)
products_of, of_positions = compiled(formulas.products_of), compiled(formulas.of_positions)
of_corners = compiled(formulas.of_corners)

NONE = tl.constexpr(0x7F7F7F7F)  # of triangles; the depth of eight such bytes is beyond all others
MARGIN = tl.constexpr(1e-6)  # pixels by which boxes are wider, far more than rounding moves them
_MAGNITUDE = tl.constexpr(0x7FFFFFFFFFFFFFFF)  # the bits of a float64 but for its sign


# -------------------------------------------------------------------------------------------------
# Triangles
# -------------------------------------------------------------------------------------------------


@triton.jit
def _beyond(a, b, c, AXIS: tl.constexpr):
    """Whether all corners are beyond one of two planes of the frustum."""
    above = (a[AXIS] > a[3]) & (b[AXIS] > b[3]) & (c[AXIS] > c[3])
    return above | ((a[AXIS] < -a[3]) & (b[AXIS] < -b[3]) & (c[AXIS] < -c[3]))


@triton.jit
def _cut(p, q, low, high, whole, AXIS: tl.constexpr):
    """Widen an interval by the part of an edge that is in front of the near plane."""
    dp, dq = p[2] + p[3], q[2] + q[3]
    cut = (dp < 0.0) != (dq < 0.0)
    t = dp / tl.where(cut, dp - dq, 1.0)
    x, w = p[AXIS] + t * (q[AXIS] - p[AXIS]), p[3] + t * (q[3] - p[3])
    front = dq >= 0.0
    whole = whole | (cut & (w <= 1e-9 * (tl.abs(p[3]) + tl.abs(q[3])))) | (front & (q[3] <= 0.0))
    edge, end = x / w, q[AXIS] / q[3]
    low = tl.where(cut, tl.minimum(low, edge - 1e-3), low)
    high = tl.where(cut, tl.maximum(high, edge + 1e-3), high)
    low = tl.where(front, tl.minimum(low, end), low)
    high = tl.where(front, tl.maximum(high, end), high)
    return low, high, whole


@triton.jit
def _interval(a, b, c, AXIS: tl.constexpr):
    """The NDC that the visible part of triangles takes, a little more where it leaves the view."""
    ahead = (a[3] > 0.0) & (b[3] > 0.0) & (c[3] > 0.0)
    u, v, w = a[AXIS] / a[3], b[AXIS] / b[3], c[AXIS] / c[3]
    low, high = tl.zeros_like(u) + float("inf"), tl.zeros_like(u) - float("inf")
    low, high, whole = _cut(c, a, low, high, tl.zeros_like(ahead), AXIS)
    low, high, whole = _cut(a, b, low, high, whole, AXIS)
    low, high, whole = _cut(b, c, low, high, whole, AXIS)
    low, high = tl.where(whole, -1.0, low), tl.where(whole, 1.0, high)
    low = tl.where(ahead, tl.minimum(tl.minimum(u, v), w), low)
    return low, tl.where(ahead, tl.maximum(tl.maximum(u, v), w), high)


@triton.jit
def _pixels(low, high, n):
    """(first, last) of the n pixels whose centres lie in an interval of NDC."""
    size = n.to(tl.float64)
    low = tl.maximum((low * size + size - 1.0) * 0.5 - MARGIN, 0.0)
    high = tl.minimum((high * size + size - 1.0) * 0.5 + MARGIN, size - 1.0)
    # Those of an empty interval may be far away.
    first, last = tl.minimum(tl.ceil(low), size), tl.maximum(tl.floor(high), -1.0)
    return first.to(tl.int32), last.to(tl.int32)


@triton.jit
def _box(a, b, c, on, height, width):
    """The first row, the first and the last column of the boxes of triangles, and their pixels."""
    outside = _beyond(a, b, c, 0) | _beyond(a, b, c, 1) | _beyond(a, b, c, 2)
    low, high = _interval(a, b, c, 0)
    j0, j1 = _pixels(low, high, width)
    low, high = _interval(a, b, c, 1)
    i0, i1 = _pixels(low, high, height)
    some = on & ~outside & (j0 <= j1) & (i0 <= i1) & is_solid(a, b, c)
    area = (i1 - i0 + 1).to(tl.int64) * (j1 - j0 + 1)
    return i0, j0, j1, tl.where(some, area, 0)


@triton.jit
def _swapped(a, b):
    """Two corners in order, by x, y, w and z."""
    later = (a[3] > b[3]) | ((a[3] == b[3]) & (a[2] > b[2]))
    later = (a[1] > b[1]) | ((a[1] == b[1]) & later)
    later = (a[0] > b[0]) | ((a[0] == b[0]) & later)
    first = (
        tl.where(later, b[0], a[0]), tl.where(later, b[1], a[1]),
        tl.where(later, b[2], a[2]), tl.where(later, b[3], a[3]),
    )  # fmt: skip
    second = (
        tl.where(later, a[0], b[0]), tl.where(later, a[1], b[1]),
        tl.where(later, a[2], b[2]), tl.where(later, a[3], b[3]),
    )  # fmt: skip
    return first, second


@triton.jit
def _planes(a, b, c, height, width):
    """The planes of the three edge functions and of the depth; see `reference.raster.planes_of`."""
    a, b = _swapped(a, b)  # in one order, so that faces with the same corners have the same depths
    b, c = _swapped(b, c)
    a, b = _swapped(a, b)
    e0, e1, e2 = cross(b, c), cross(c, a), cross(a, b)
    det = determinant(a, e0)
    s = tl.where(det > 0.0, 1.0, -1.0).to(tl.float64)
    u, v = s * height.to(tl.float64), s * width.to(tl.float64)
    w = u * width.to(tl.float64)
    first = u * e0[0], v * e0[1], w * e0[2]
    second = u * e1[0], v * e1[1], w * e1[2]
    third = u * e2[0], v * e2[1], w * e2[2]
    f = 1.0 / (det * w)
    depth = (
        (a[2] * first[0] + b[2] * second[0] + c[2] * third[0]) * f,
        (a[2] * first[1] + b[2] * second[1] + c[2] * third[1]) * f,
        (a[2] * first[2] + b[2] * second[2] + c[2] * third[2]) * f,
    )
    return first, second, third, depth


@triton.jit
def _inside(plane, x, y):
    """Whether samples are on the inner side of an edge; on it by the top-left rule."""
    h = plane[0] * x + (plane[1] * y + plane[2])
    owns = (plane[0] > 0.0) | ((plane[0] == 0.0) & (plane[1] < 0.0))
    return (h > 0.0) | ((h == 0.0) & owns)


@triton.jit
def _ordered(d):
    """Integers that are ordered as numbers are."""
    bits = tl.where(d == 0.0, 0.0, d).to(tl.int64, bitcast=True)  # -0 is 0
    return tl.where(bits < 0, bits ^ _MAGNITUDE, bits)


@triton.jit
def _number(key):
    """The numbers of `_ordered`."""
    return tl.where(key < 0, key ^ _MAGNITUDE, key).to(tl.float64, bitcast=True)


@triton.jit
def _meet(
    planes, pixel, i, j, t, live, depths, nearest, floor, floor_ids, height, width,
    STAGE: tl.constexpr, PEELED: tl.constexpr,
):  # fmt: skip
    """Take part in the minima of pixels: of depths, or then of the triangles that reach them."""
    x, y = (2 * j + 1 - width).to(tl.float64), (2 * i + 1 - height).to(tl.float64)
    d = planes[3][0] * x + (planes[3][1] * y + planes[3][2])
    inside = _inside(planes[0], x, y) & _inside(planes[1], x, y) & _inside(planes[2], x, y)
    hit = live & inside & (d >= -1.0) & (d <= 1.0)
    if PEELED:
        least, before = tl.load(floor + pixel, hit, 0.0), tl.load(floor_ids + pixel, hit, 0)
        hit = hit & ((d > least) | ((d == least) & (t > before)))
    key = _ordered(d)
    if STAGE == 0:
        tl.atomic_min(depths + pixel, key, hit, sem="relaxed")
    else:
        hit = hit & (tl.load(depths + pixel, hit, 0) == key)
        tl.atomic_min(nearest + pixel, t.to(tl.int32), hit, sem="relaxed")


@triton.jit
def _item(item, on, firsts, offsets, triangles, images, RANGES: tl.constexpr):
    """The image and the triangle of items, which count through the triangles of all images."""
    if RANGES:
        n = place_among(offsets + 1, images, item)
        t = tl.load(firsts + n, on, 0) + item - tl.load(offsets + n, on, 0)
    else:
        n = item // triangles
        t = item - n * triangles
    return n, t


@triton.jit(do_not_specialize=["items", "triangles", "images", "stride", "height", "width"])
def draw_small(
    pos, tri, firsts, offsets, depths, nearest, floor, floor_ids, counts,
    items, triangles, images, stride, height, width,
    STAGE: tl.constexpr, RANGES: tl.constexpr, PEELED: tl.constexpr,
    MOST: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The triangles whose boxes have few pixels; a thread takes one.

    What it is given:
        pos: [.., 4], of all images.
        tri: [T, 3].
        firsts, offsets: [N], [N + 1] int64, of the triangles of images, if they have RANGES.
        depths: [N, H, W] int64, as `_ordered` makes them, in place.
        nearest: [N, H, W] int32, in place in stage 1.
        floor, floor_ids: [N, H, W], behind which is drawn if PEELED.
        counts: [items] int32, out in stage 0: chunks of those whose boxes have more than MOST.
        stride: vertices of an image; 0 if all have the same.
    """
    item = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on = item < items
    n, t = _item(tl.where(on, item, 0), on, firsts, offsets, triangles, images, RANGES)
    a, b, c = corners_of(pos, tri, t, n * stride, on)
    i, j0, j1, area = _box(a, b, c, on, height, width)
    if STAGE == 0:
        tl.store(counts + item, tl.where(area > MOST, (area + CHUNK - 1) // CHUNK, 0), on)
    area = tl.where(area > MOST, 0, area).to(tl.int32)
    planes = _planes(a, b, c, height, width)
    j, k, most = j0, 0, tl.max(area)
    while k < most:
        pixel = (n * height + i) * width + j
        _meet(
            planes, pixel, i, j, t, k < area, depths, nearest, floor, floor_ids, height, width,
            STAGE, PEELED,
        )  # fmt: skip
        i = tl.where(j == j1, i + 1, i)
        j = tl.where(j == j1, j0, j + 1)
        k += 1


@triton.jit(do_not_specialize=["items", "triangles", "images", "stride", "height", "width"])
def draw_large(
    pos, tri, firsts, offsets, depths, nearest, floor, floor_ids, ends,
    items, triangles, images, stride, height, width,
    STAGE: tl.constexpr, RANGES: tl.constexpr, PEELED: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Chunks of the other triangles; every program takes one after the other.

    `ends` are the running sums of the `counts` of `draw_small`, all else is as there.
    """
    work = tl.program_id(0).to(tl.int64)
    total = tl.load(ends + items - 1)
    while work < total:
        one = work + tl.zeros([1], tl.int64)
        item = place_among(ends, items, one)
        before = tl.load(ends + item - 1, item > 0, 0)
        on = item >= 0
        n, t = _item(item, on, firsts, offsets, triangles, images, RANGES)
        a, b, c = corners_of(pos, tri, t, n * stride, on)
        i0, j0, j1, area = _box(a, b, c, on, height, width)
        planes = _planes(a, b, c, height, width)
        k = (one - before) * CHUNK + tl.arange(0, CHUNK)
        wide = (j1 - j0 + 1).to(tl.int64)
        i, j = i0 + (k // wide).to(tl.int32), j0 + (k % wide).to(tl.int32)
        pixel = (n * height + i) * width + j
        t = t + tl.zeros_like(k)
        _meet(
            planes, pixel, i, j, t, k < area, depths, nearest, floor, floor_ids, height, width,
            STAGE, PEELED,
        )  # fmt: skip
        work += tl.num_programs(0)


@triton.jit(do_not_specialize=["pixels", "stride", "height", "width"])
def shade(
    pos, tri, depths, nearest, rast, derivatives, ids, layer, pixels, stride, height, width,
    SHADED: tl.constexpr, SLOPED: tl.constexpr, PEELED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """What is written of the triangles that are seen.

    What it is given:
        pos, tri, stride: as `draw_small`.
        depths, nearest: as it leaves them.
        rast, derivatives: [N, H, W, 4], out if SHADED, and SLOPED.
        ids: [N, H, W] int32, out, -1 for none.
        layer: [N, H, W] float64, out if PEELED: the depths.
        pixels: N H W.
    """
    p = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on = p < pixels
    t = tl.load(nearest + p, on, NONE)
    seen = t != NONE
    t = tl.where(seen, t, 0)
    tl.store(ids + p, tl.where(seen, t, -1), on)
    if PEELED:
        d = _number(tl.load(depths + p, on, 0))
        tl.store(layer + p, tl.where(seen, d, float("inf")), on)
    if SHADED:
        j, i, n = p % width, p // width % height, p // width // height
        a, b, c = corners_of(pos, tri, t, n * stride, seen)
        wide, high = 1.0 / width.to(tl.float64), 1.0 / height.to(tl.float64)
        x, y = (2 * j + 1 - width).to(tl.float64), (2 * i + 1 - height).to(tl.float64)
        # Triton 3.7 cannot read targets within targets.
        place, slopes = interpolants(planes_of(a, b, c, wide, high), x, y)
        u, v, z = place
        number = (t + 1).to(tl.float64)
        at = p[:, None] * 4 + tl.arange(0, 4)[None, :]
        written, drawn = on[:, None], seen[:, None]
        row = tl.where(drawn, fours(u, v, z, number), 0.0)
        tl.store(rast + at, row.to(rast.dtype.element_ty), written)
        if SLOPED:
            row = tl.where(drawn, fours(slopes[0], slopes[1], slopes[2], slopes[3]), 0.0)
            tl.store(derivatives + at, row.to(derivatives.dtype.element_ty), written)


# -------------------------------------------------------------------------------------------------
# Gradients
# -------------------------------------------------------------------------------------------------


@triton.jit
def _four(at, on):
    """Four numbers of rows, in float64."""
    return (
        tl.load(at, on, 0.0).to(tl.float64), tl.load(at + 1, on, 0.0).to(tl.float64),
        tl.load(at + 2, on, 0.0).to(tl.float64), tl.load(at + 3, on, 0.0).to(tl.float64),
    )  # fmt: skip


@triton.jit(do_not_specialize=["pixels", "stride", "height", "width"])
def raster_gradients(
    pos, tri, ids, of_rast, of_derivatives, corners, weights, pixels, stride, height, width,
    RAST: tl.constexpr, BOTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """What each pixel adds to the gradients of its three corners.

    What it is given:
        pos, tri, stride: as `draw_small`.
        ids: [N, H, W].
        of_rast, of_derivatives: [N, H, W, 4], gradients, if RAST, and BOTH.
        corners: [N H W, 12], out: of the three corners, if BOTH. Else [N H W, 4], one vector, and
        weights: [N H W, 2], out: u and v, by which corners get it.
    """
    p = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    t = tl.load(ids + p, p < pixels, -1)
    on = t >= 0
    j, i, n = p % width, p // width % height, p // width // height
    a, b, c = corners_of(pos, tri, t, n * stride, on)
    x, y = centre(j, width), centre(i, height)
    zero = tl.zeros([BLOCK], tl.float64)
    gu, gv, gz, ux, uy, vx, vy = zero, zero, zero, zero, zero, zero, zero
    if RAST:
        gu, gv, gz, _ = _four(of_rast + p * 4, on)
    if BOTH:
        ux, uy, vx, vy = _four(of_derivatives + p * 4, on)
        wide, high = 2.0 / width.to(tl.float64), 2.0 / height.to(tl.float64)
        ux, uy, vx, vy = ux * wide, uy * high, vx * wide, vy * high
    vector, shares, of_products = of_positions(
        a, b, c, products_of(a, b, c), x, y, gu, gv, gz, (ux, uy, vx, vy)
    )
    kind = corners.dtype.element_ty
    if BOTH:
        of_all = of_corners(a, b, c, vector, shares, of_products)
        at = corners + p[:, None] * 12 + tl.arange(0, 4)[None, :]
        for k in tl.static_range(3):
            row = fours(of_all[k][0], of_all[k][1], of_all[k][2], of_all[k][3])
            tl.store(at + 4 * k, row.to(kind), on[:, None])
    else:
        at = corners + p[:, None] * 4 + tl.arange(0, 4)[None, :]
        row = fours(vector[0], vector[1], vector[2], vector[3])
        tl.store(at, row.to(kind), on[:, None])
        tl.store(weights + p * 2, shares[0].to(kind), on)
        tl.store(weights + p * 2 + 1, shares[1].to(kind), on)
