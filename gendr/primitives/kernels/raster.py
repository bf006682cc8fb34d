"""The compiled rasteriser: tiles in threads, and a backward pass in which each vertex has an owner.

A triangle is bounded, then listed at the tiles that it may touch, those that touch many in a list
of their own; each tile keeps the nearest of its triangles at every sample, in float64, and writes
its pixels. Backwards each thread looks through all pixels for those of its own vertices. No unit
writes what belongs to another: the bits are the same on any number of threads.

A sample is (2 j + 1 - W, 2 i + 1 - H), which is exact; the edge functions there are sums of
products whose negations are exact too, so that the two triangles at an edge never disagree. They
rise and fall with each coordinate also after rounding: the corner of a tile where one is greatest
bounds it in the whole tile.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types
from torch import Tensor

from gendr._common import memory
from gendr.kernels.numba.calls import pointer
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.functions import compiled
from gendr.kernels.numba.vectors import (
    LANES,
    Condition,
    Lanes,
    Place,
    Pointer,
    lanewise,
    minimum,
    where,
)
from gendr.kernels.threads import num_threads, run
from gendr.primitives import formulas
from gendr.primitives.scene import Scene, check_indices

__all__ = ["backward", "cover", "forward", "visible_ids"]

TILE = 32  # pixels of a side: depths and ids of a tile stay in the first caches
WIDE = TILE + LANES  # samples of a row of a tile, and those that vectors have beyond it
HELD = 128  # triangles of a tile whose planes are kept, most of those that it shows
MANY = 16  # tiles, beyond which a triangle is listed once for its image: lists stay short
SMALL = 1 << 14  # pixels and triangles together that are not worth another thread
MARGIN = 1e-6  # pixels by which boxes are wider, far more than rounding moves a corner

cross, determinant = (
    compiled(formulas.cross, inlined=True),
    compiled(formulas.determinant, inlined=True),
)
is_solid, of_product = (
    compiled(formulas.is_solid, inlined=True),
    compiled(formulas.of_product, inlined=True),
)
_planes_of, _seen_at = (
    compiled(formulas.planes_of, inlined=True),
    compiled(formulas.interpolants, inlined=True),
)
_products_of = compiled(formulas.products_of, inlined=True)
_of_positions = compiled(formulas.of_positions, inlined=True)
_of_corners = compiled(formulas.of_corners, inlined=True)


def forward(scene: Scene, pos: Tensor, *, save: bool) -> tuple[tuple[Tensor, Tensor], Any]:
    """What is seen [N, H, W, 4], and its derivatives [N, H, W, 4]; the ids are saved."""
    check_indices(scene.tri, scene.vertices)  # which nobody could do while a graph was traced
    shape = scene.images, scene.height, scene.width
    rast = memory.empty((*shape, 4), pos.dtype)
    derivatives = memory.empty((*shape, 4 * scene.sloped), pos.dtype)
    return (rast, derivatives), (_rasterized(scene, pos, rast, derivatives),)


def visible_ids(scene: Scene, pos: Tensor) -> Tensor:
    """The ids [N, H, W] alone."""
    nothing = pos.new_empty(0, 0, 0, 4)
    return _rasterized(scene, pos, nothing, nothing)


def _rasterized(scene: Scene, pos: Tensor, rast: Tensor, derivatives: Tensor) -> Tensor:
    """The ids; what is seen is written into the others, unless they are empty."""
    shape = scene.images, scene.height, scene.width
    ids, behind = memory.empty(shape, torch.int32), scene.peeled
    depths = memory.empty((0, 0, 0) if behind is None else shape, torch.float64)
    points, tri = pos.reshape(-1, 4).numpy(), scene.tri.numpy()
    first, base, offsets = scene.tables
    across, down = -(-scene.width // TILE), -(-scene.height // TILE)
    tiles, total = scene.images * across * down, int(offsets[-1])
    alone = total + ids.numel() < SMALL
    chunks = min(1 if alone else 4 * num_threads(), max(1, total))
    box = np.empty((total, 4), np.int16)
    counts = np.zeros((chunks, tiles + scene.images), np.int64)
    size = scene.height, scene.width
    run(bound, chunks, points, tri, first, base, offsets, *size, box, counts, alone=alone)
    ends = np.cumsum(counts.T.reshape(-1)).reshape(-1, chunks)
    lists = np.empty(int(ends[-1, -1]) if ends.size else 0, np.int32)
    places = np.ascontiguousarray((ends - counts.T).T)
    starts = np.concatenate([places[0], [len(lists)]])
    run(listed, chunks, offsets, *size, box, places, lists, alone=alone)
    if behind is None or behind.depths is None or behind.ids is None:
        before = None, None
    else:
        before = behind.depths.numpy(), behind.ids.numpy()
    run(
        draw, tiles, points, tri, first, base, offsets, box, starts, lists, *before, rast.numpy(),
        derivatives.numpy(), ids.numpy(), depths.numpy(), pieces=16, alone=alone,
    )  # fmt: skip
    if behind is not None:
        behind.depths, behind.ids = depths, ids
    return ids


def backward(
    scene: Scene, inputs: tuple[Tensor], saved: tuple[Tensor], grads: tuple[Tensor | None, ...],
    wanted: tuple[bool, ...],
) -> tuple[Tensor]:  # fmt: skip
    """The gradient of pos."""
    (pos,), (ids,), (of_rast, of_derivatives) = inputs, saved, grads
    if of_rast is None:
        of_rast = pos.new_zeros(*ids.shape, 4)
    slopes = of_derivatives.numpy() if scene.sloped and of_derivatives is not None else None
    sums = memory.empty((pos.numel() // 4, 4), torch.float64).zero_()
    run(
        rasterize_backward, len(sums), pos.reshape(-1, 4).numpy(), scene.tri.numpy(),
        scene.tables[1], scene.vertices, ids.numpy(), of_rast.numpy(), slopes, sums.numpy(),
        pieces=1, alone=ids.numel() < SMALL,
    )  # fmt: skip
    return (sums.reshape(pos.shape).to(pos.dtype),)


@inner()
def corner(pos, v):
    """The x, y, z, w of a vertex."""
    return (
        np.float64(pos[v, 0]), np.float64(pos[v, 1]), np.float64(pos[v, 2]), np.float64(pos[v, 3])
    )  # fmt: skip


@inner()
def corners_of(pos, tri, base, t):
    """The three corners of a triangle."""
    return (
        corner(pos, base + tri[t, 0]),
        corner(pos, base + tri[t, 1]),
        corner(pos, base + tri[t, 2]),
    )


@inner()
def owns(p, q):
    """Whether samples on an edge are inside: left edges, and top ones, as +y is up."""
    return p > 0.0 or (p == 0.0 and q < 0.0)


@inner()
def pixels(low, high, n):
    """(first, last) of the n pixels whose centres lie in an interval of NDC."""
    return whole((low * n + n - 1) * 0.5, (high * n + n - 1) * 0.5, n)


@inner()
def whole(low, high, n):
    """(first, last) of n pixels in an interval, which may end beyond what integers hold."""
    low, high = max(low - MARGIN, 0.0), min(high + MARGIN, n - 1.0)
    return math.ceil(min(low, float(n))), math.floor(max(high, -1.0))


@inner()
def interval(a, b, c, axis):
    """The NDC that the visible part of a triangle takes, a little more where it leaves the view."""
    if a[3] > 0.0 and b[3] > 0.0 and c[3] > 0.0:
        u, v, w = a[axis] / a[3], b[axis] / b[3], c[axis] / c[3]
        return min(u, v, w), max(u, v, w)
    low, high = math.inf, -math.inf
    p = c
    for q in (a, b, c):  # in front of the near plane
        dp, dq = p[2] + p[3], q[2] + q[3]
        if (dp < 0.0) != (dq < 0.0):
            t = dp / (dp - dq)
            x, w = p[axis] + t * (q[axis] - p[axis]), p[3] + t * (q[3] - p[3])
            if w <= 1e-9 * (abs(p[3]) + abs(q[3])):
                return -1.0, 1.0
            low, high = min(low, x / w - 1e-3), max(high, x / w + 1e-3)
        if dq >= 0.0:
            if q[3] <= 0.0:
                return -1.0, 1.0
            low, high = min(low, q[axis] / q[3]), max(high, q[axis] / q[3])
        p = q
    return low, high


@inner()
def outside(a, b, c):
    """Whether all corners are beyond one plane of the frustum, and so is the triangle."""
    for axis in range(3):
        if a[axis] > a[3] and b[axis] > b[3] and c[axis] > c[3]:
            return True
        if a[axis] < -a[3] and b[axis] < -b[3] and c[axis] < -c[3]:
            return True
    return False


@kernel()
def bound(pos, tri, first, base, offsets, height, width, box, counts, start, stop):
    """The pixels that each item may cover, and how many of a chunk each tile gets."""
    across, down = -(-width // TILE), -(-height // TILE)
    tiles = (len(offsets) - 1) * across * down
    total, chunks = len(box), len(counts)
    for chunk in range(start, stop):
        n = 0
        for item in range(total * chunk // chunks, total * (chunk + 1) // chunks):
            while item >= offsets[n + 1]:
                n += 1
            t = first[n] + item - offsets[n]
            a, b, c = corners_of(pos, tri, base[n], t)
            box[item, 0], box[item, 1] = 1, 0
            if outside(a, b, c):
                continue
            low, high = interval(a, b, c, 0)
            j0, j1 = pixels(low, high, width)
            low, high = interval(a, b, c, 1)
            i0, i1 = pixels(low, high, height)
            if j0 > j1 or i0 > i1 or not is_solid(a, b, c):
                continue
            box[item, 0], box[item, 1], box[item, 2], box[item, 3] = i0, i1, j0, j1
            i0, i1, j0, j1 = i0 // TILE, i1 // TILE, j0 // TILE, j1 // TILE
            if (i1 - i0 + 1) * (j1 - j0 + 1) > MANY:
                counts[chunk, tiles + n] += 1
                continue
            for i in range(i0, i1 + 1):
                for j in range(j0, j1 + 1):
                    counts[chunk, (n * down + i) * across + j] += 1


@kernel()
def listed(offsets, height, width, box, places, lists, start, stop):
    """Write the items of a chunk into the lists of their tiles, in their order."""
    across, down = -(-width // TILE), -(-height // TILE)
    tiles = (len(offsets) - 1) * across * down
    total, chunks = len(box), len(places)
    for chunk in range(start, stop):
        n = 0
        place = places[chunk].copy()
        for item in range(total * chunk // chunks, total * (chunk + 1) // chunks):
            while item >= offsets[n + 1]:
                n += 1
            i0, i1 = box[item, 0], box[item, 1]
            if i0 > i1:
                continue
            i0, i1, j0, j1 = i0 // TILE, i1 // TILE, box[item, 2] // TILE, box[item, 3] // TILE
            if (i1 - i0 + 1) * (j1 - j0 + 1) > MANY:
                lists[place[tiles + n]] = item
                place[tiles + n] += 1
                continue
            for i in range(i0, i1 + 1):
                for j in range(j0, j1 + 1):
                    tile = (n * down + i) * across + j
                    lists[place[tile]] = item
                    place[tile] += 1


@inner()
def later(a, b):
    """Whether a corner comes after another, by x, y, w and z."""
    if a[0] != b[0]:
        return a[0] > b[0]
    if a[1] != b[1]:
        return a[1] > b[1]
    if a[3] != b[3]:
        return a[3] > b[3]
    return a[2] > b[2]


@inner(forceinline=True)
def edges(a, b, c, height, width):
    """The corners in one order, the determinant by the size, and (p, q, r) of the opposite edges.

    In one order, so that faces with the same corners have the same depths. A sample is within an
    edge where p x + q y + r > 0.
    """
    if later(a, b):
        a, b = b, a
    if later(b, c):
        b, c = c, b
    if later(a, b):
        a, b = b, a
    e0, e1, e2 = cross(b, c), cross(c, a), cross(a, b)
    det = determinant(a, e0)
    s = 1.0 if det > 0.0 else -1.0
    u, v = s * height, s * width
    w = u * width
    return (
        a, b, c, det * w,
        (u * e0[0], v * e0[1], w * e0[2]),
        (u * e1[0], v * e1[1], w * e1[2]),
        (u * e2[0], v * e2[1], w * e2[2]),
    )  # fmt: skip


@inner()
def _holds(pos, tri, t, height, width, i, j):
    """Whether a triangle holds a sample, by the rule of `draw`."""
    a, b, c = corners_of(pos, tri, 0, t)
    if not is_solid(a, b, c):
        return False
    x, y = np.float64(2 * j + 1 - width), np.float64(2 * i + 1 - height)
    for p, q, r in edges(a, b, c, height, width)[4:]:
        h = p * x + (q * y + r)
        if not (h > 0.0 or (h == 0.0 and owns(p, q))):
            return False
    return True


def _cover_samples(image, place, j, last, i, x0, y0, x1, y1, x2, y2, turn, slack):
    """Set the next `LANES` samples of a row, as far as `last`, that are clearly in a triangle.

    Returns a bit for each other one that is not clearly outside, and not set.
    """
    builder, kind = j.builder, ir.VectorType(ir.IntType(8), LANES)
    j = j + Lanes(builder, ir.Constant(j.value.type, [float(k) for k in range(LANES)]))
    u0, u1, u2, v0, v1, v2 = x0 - j, x1 - j, x2 - j, y0 - i, y1 - i, y2 - i
    least = minimum(turn * (u0 * v1 - u1 * v0), turn * (u1 * v2 - u2 * v1))
    least = minimum(least, turn * (u2 * v0 - u0 * v2))
    here = j <= last
    held = ((least > slack) & here).lanes
    address = builder.bitcast(builder.gep(image.base, [place.value]), kind.as_pointer())
    shown = builder.or_(builder.load(address, align=1), builder.zext(held, kind))
    builder.store(shown, address, align=1)
    unset = builder.icmp_signed("==", shown, ir.Constant(kind, [0] * LANES))
    unsure = builder.and_(unset, ((least > -slack) & here).lanes)
    return builder.zext(builder.bitcast(unsure, ir.IntType(LANES)), ir.IntType(64))


_cover_samples = lanewise(_cover_samples, types.int64)


@inner()
def cover(pos, tri, places, height, width, image):
    """Set `image`, rows from the top, where there is a triangle; none is cut off.

    Most samples are clearly in or out: only those at an edge are looked at as `draw` does.

    Args:
        pos: float64 [P, 4].
        tri: [T, 3].
        places: float64 [P, 2], is written: the vertices in pixels.
        height: of the image.
        width: of the image.
        image: uint8 [H W + LANES], of which the last ones do not count.
    """
    farthest = float(max(height, width))
    for v in range(len(pos)):
        places[v, 0] = 0.5 * (pos[v, 0] / pos[v, 3] * width + (width - 1))
        places[v, 1] = 0.5 * (pos[v, 1] / pos[v, 3] * height + (height - 1))
        farthest = max(farthest, abs(places[v, 0]), abs(places[v, 1]))
    # Products of two differences of places that are at most so much may be rounding.
    slack, shown = 1e-12 * farthest * farthest, pointer(image)
    for t in range(len(tri)):
        u, v, w = tri[t, 0], tri[t, 1], tri[t, 2]
        x0, x1, x2 = places[u, 0], places[v, 0], places[w, 0]
        y0, y1, y2 = places[u, 1], places[v, 1], places[w, 1]
        j0, j1 = whole(min(x0, x1, x2), max(x0, x1, x2), width)
        i0, i1 = whole(min(y0, y1, y2), max(y0, y1, y2), height)
        turn = 1.0 if (x1 - x0) * (y2 - y0) > (x2 - x0) * (y1 - y0) else -1.0
        for i in range(i0, i1 + 1):
            row = (height - 1 - i) * width
            for j in range(j0, j1 + 1, LANES):
                unsure = _cover_samples(
                    shown, row + j, float(j), float(j1), float(i), x0, y0, x1, y1, x2, y2, turn,
                    slack,
                )  # fmt: skip
                while unsure:
                    if unsure & 1 and _holds(pos, tri, t, height, width, i, j):
                        image[row + j] = 1
                    unsure, j = unsure >> 1, j + 1


def _step(
    cells: Pointer, place: Place, x: Lanes, slopes: list[Lanes], rows: list[Lanes],
    least: list[Place], number: Lanes, behind: bool,
) -> None:  # fmt: skip
    """See `_nearer`."""
    builder = x.builder
    steps = ir.Constant(x.value.type, [2.0 * k for k in range(LANES)])
    x = Lanes(builder, builder.fadd(x.value, steps))
    # not in one step, which would round otherwise than the definition does
    h0, h1, h2, d = (
        Lanes(builder, builder.fadd(builder.fmul(p.value, x.value), g.value))
        for p, g in zip(slopes, rows, strict=True)
    )
    depth, nearest = cells[place], cells[place + WIDE]
    ahead = (d < depth) | (d.equals(depth) & (number < nearest))
    if behind:
        last, before = cells[place + 2 * WIDE], cells[place + 3 * WIDE]
        ahead &= (d > last) | (d.equals(last) & (number > before))
    else:
        ahead &= d >= -1.0
    kind = ir.VectorType(ir.IntType(64), LANES)
    for h, bound in zip((h0, h1, h2), least, strict=True):
        bits = builder.bitcast(h.value, kind)
        ahead &= Condition(
            h, builder.icmp_signed(">", bits, Lanes.splat(builder, bound.value).value)
        )
    cells[place], cells[place + WIDE] = where(ahead, d, depth), where(ahead, number, nearest)


@lanewise
def _nearer(cells, place, x, slopes, rows, least, number):
    """Put a triangle into the cells of `LANES` samples where it is seen, the nearest so far.

    Args:
        cells: of a tile.
        place: of the depth of the first sample; its triangle is `WIDE` further.
        x: of this sample.
        slopes: of the edge functions and of the depth, along x.
        rows: their values at x = 0.
        least: of each edge function, above which its bits are where it is inside: -1 with those on
            the edge, else 0.
        number: of the triangle.
    """
    _step(cells, place, x, slopes, rows, least, number, False)


@lanewise
def _next(cells, place, x, slopes, rows, least, number):
    """The same behind the layer before."""
    _step(cells, place, x, slopes, rows, least, number, True)


@kernel()
def draw(
    pos, tri, first, base, offsets, box, starts, lists, floor, floor_ids, rast, derivatives, ids,
    depths, start, stop,
):  # fmt: skip
    """The nearest triangle at every sample of tiles, and what is written of it."""
    images, height, width = ids.shape
    across, down = -(-width // TILE), -(-height // TILE)
    cells = np.empty((TILE, 4, WIDE))
    held, kept = np.full(HELD, -1, np.int32), np.empty((HELD, 4, 3))
    sloped = derivatives.shape[3] > 0
    wide, high = 1.0 / width, 1.0 / height
    for tile in range(start, stop):
        n, place = tile // (across * down), tile % (across * down)
        top, left = place // across * TILE, place % across * TILE
        held[:] = -1
        bottom, right = min(top + TILE, height), min(left + TILE, width)
        # Of each sample the nearest depth and its triangle, and those behind which is drawn.
        cells[:, 0], cells[:, 1], cells[:, 2], cells[:, 3] = 1.0, math.inf, -1.0, -1.0
        if floor is not None:
            cells[: bottom - top, 2, : right - left] = floor[n, top:bottom, left:right]
            cells[: bottom - top, 3, : right - left] = floor_ids[n, top:bottom, left:right]
        for bin in (tile, images * across * down + n):
            for k in range(starts[bin], starts[bin + 1]):
                item = lists[k]
                i0, i1 = max(box[item, 0], top), min(box[item, 1] + 1, bottom)
                j0, j1 = max(box[item, 2], left), min(box[item, 3] + 1, right)
                if i0 >= i1 or j0 >= j1:
                    continue
                t = first[n] + item - offsets[n]
                a, b, c = corners_of(pos, tri, base[n], t)
                a, b, c, scaled, (p0, q0, r0), (p1, q1, r1), (p2, q2, r2) = edges(
                    a, b, c, height, width
                )
                f = 1.0 / scaled
                pz = (a[2] * p0 + b[2] * p1 + c[2] * p2) * f
                qz = (a[2] * q0 + b[2] * q1 + c[2] * q2) * f
                rz = (a[2] * r0 + b[2] * r1 + c[2] * r2) * f
                x0, x1 = np.float64(2 * j0 + 1 - width), np.float64(2 * j1 - 1 - width)
                y0, y1 = np.float64(2 * i0 + 1 - height), np.float64(2 * i1 - 1 - height)
                if (
                    p0 * (x1 if p0 > 0.0 else x0) + (q0 * (y1 if q0 > 0.0 else y0) + r0) < 0.0
                    or p1 * (x1 if p1 > 0.0 else x0) + (q1 * (y1 if q1 > 0.0 else y0) + r1) < 0.0
                    or p2 * (x1 if p2 > 0.0 else x0) + (q2 * (y1 if q2 > 0.0 else y0) + r2) < 0.0
                ):
                    continue
                least = -int(owns(p0, q0)), -int(owns(p1, q1)), -int(owns(p2, q2))
                slopes, number = (p0, p1, p2, pz), np.float64(t)
                for j in range(j0, j1, LANES):
                    x = np.float64(2 * j + 1 - width)
                    for i in range(i0, i1):
                        y = np.float64(2 * i + 1 - height)
                        # A sum with +0 is not -0, so that bits compare as the numbers do.
                        rows = q0 * y + r0 + 0.0, q1 * y + r1 + 0.0, q2 * y + r2 + 0.0, qz * y + rz
                        place = (i - top) * (4 * WIDE) + j - left
                        if floor is None:
                            _nearer(cells, place, x, slopes, rows, least, number)
                        else:
                            _next(cells, place, x, slopes, rows, least, number)
        for i in range(top, bottom):
            last = np.int32(-1)
            y = np.float64(2 * i + 1 - height)
            for j in range(left, right):
                nearest = cells[i - top, 1, j - left]
                t = np.int32(nearest) if nearest < math.inf else np.int32(-1)
                ids[n, i, j] = t
                if len(depths):
                    depths[n, i, j] = cells[i - top, 0, j - left] if t >= 0 else math.inf
                if not len(rast):
                    continue
                if t < 0:
                    for m in range(4):
                        rast[n, i, j, m] = 0.0
                        if sloped:
                            derivatives[n, i, j, m] = 0.0
                    continue
                if t != last:
                    last, slot = t, t % HELD
                    if held[slot] != t:
                        held[slot] = t
                        a, b, c = corners_of(pos, tri, base[n], t)
                        planes = _planes_of(a, b, c, wide, high)
                        for m in range(4):
                            kept[slot, m, 0], kept[slot, m, 1], kept[slot, m, 2] = planes[m]
                    planes = (
                        (kept[slot, 0, 0], kept[slot, 0, 1], kept[slot, 0, 2]),
                        (kept[slot, 1, 0], kept[slot, 1, 1], kept[slot, 1, 2]),
                        (kept[slot, 2, 0], kept[slot, 2, 1], kept[slot, 2, 2]),
                        (kept[slot, 3, 0], kept[slot, 3, 1], kept[slot, 3, 2]),
                    )
                (u, v, z), (ux, uy, vx, vy) = _seen_at(planes, np.float64(2 * j + 1 - width), y)
                rast[n, i, j, 0], rast[n, i, j, 1], rast[n, i, j, 2] = u, v, z
                rast[n, i, j, 3] = t + 1
                if sloped:
                    derivatives[n, i, j, 0], derivatives[n, i, j, 1] = ux, uy
                    derivatives[n, i, j, 2], derivatives[n, i, j, 3] = vx, vy


@inner()
def _raised(sums, share, vector):
    """A sum with a share of a vector."""
    return (
        sums[0] + share * vector[0], sums[1] + share * vector[1], sums[2] + share * vector[2],
        sums[3] + share * vector[3],
    )  # fmt: skip


@inner()
def _of_corner(products, edges, depths):
    """The gradient of a corner from those that its shares had of the edge functions and depths."""
    e0, e1, e2, f = products
    p, q, r, of_z, of_w = edges[0] * f, edges[1] * f, edges[2] * f, depths[0], depths[1]
    return (
        -(e0[0] * p + e1[0] * q + e2[0] * r), -(e0[1] * p + e1[1] * q + e2[1] * r), of_z,
        -(e0[2] * p + e1[2] * q + e2[2] * r) - of_w,
    )  # fmt: skip


@inner(forceinline=True)
def _of_run(a, b, c, products, n, i, first, stop, of_rast):
    """The gradients of the corners from the pixels first .. stop - 1 of a row.

    As by `of_positions` without slopes, but that what is linear is done once for all pixels.
    """
    height, width = of_rast.shape[1:3]
    e0, e1, e2, f = products
    y, wide = (2 * i + 1 - height) / height, 1.0 / width
    r0, r1, r2 = e0[1] * y + e0[2], e1[1] * y + e1[2], e2[1] * y + e2[2]
    ap = aq = ar = bp = bq = br = cp = cq = cr = az = aw = bz = bw = cz = cw = 0.0
    for j in range(first, stop):
        x = (2 * j + 1 - width) * wide
        u, v, r = e0[0] * x + r0, e1[0] * x + r1, e2[0] * x + r2
        total = u + v + r
        g = 1.0 / total
        u, v, r = u * g, v * g, r * g
        p, q, s = np.float64(of_rast[n, i, j, 0]), np.float64(of_rast[n, i, j, 1]), 0.0
        gz = np.float64(of_rast[n, i, j, 2])
        if gz != 0.0:  # as it seldom is
            near = total * f
            z = (a[2] * u + b[2] * v + c[2] * r) * near
            gz *= near
            p, q, s = p + gz * (a[2] - z * a[3]), q + gz * (b[2] - z * b[3]), gz * (c[2] - z * c[3])
            az, bz, cz = az + gz * u, bz + gz * v, cz + gz * r
            gz *= z
            aw, bw, cw = aw + gz * u, bw + gz * v, cw + gz * r
        mean = p * u + q * v + s * r
        p, q, s = p - mean, q - mean, s - mean
        ap, aq, ar = ap + u * p, aq + u * q, ar + u * s
        bp, bq, br = bp + v * p, bq + v * q, br + v * s
        cp, cq, cr = cp + r * p, cq + r * q, cr + r * s
    return (
        _of_corner(products, (ap, aq, ar), (az, aw)), _of_corner(products, (bp, bq, br), (bz, bw)),
        _of_corner(products, (cp, cq, cr), (cz, cw)),
    )  # fmt: skip


@inner()
def _of_sloped_run(a, b, c, products, n, i, first, stop, of_rast, of_derivatives):
    """The same with gradients of derivatives."""
    height, width = of_rast.shape[1:3]
    y, wide, high = (2 * i + 1 - height) / height, 2.0 / width, 2.0 / height
    of_a = of_b = of_c = 0.0, 0.0, 0.0, 0.0
    for j in range(first, stop):
        slopes = (
            of_derivatives[n, i, j, 0] * wide, of_derivatives[n, i, j, 1] * high,
            of_derivatives[n, i, j, 2] * wide, of_derivatives[n, i, j, 3] * high,
        )  # fmt: skip
        vector, shares, of_products = _of_positions(
            a, b, c, products, (2 * j + 1 - width) / width, y, np.float64(of_rast[n, i, j, 0]),
            np.float64(of_rast[n, i, j, 1]), np.float64(of_rast[n, i, j, 2]), slopes,
        )  # fmt: skip
        da, db, dc = _of_corners(a, b, c, vector, shares, of_products)
        of_a, of_b, of_c = _raised(of_a, 1.0, da), _raised(of_b, 1.0, db), _raised(of_c, 1.0, dc)
    return of_a, of_b, of_c


@kernel()
def rasterize_backward(
    pos, tri, base, vertices, ids, of_rast, of_derivatives, sums, start, stop
):  # fmt: skip
    """The gradients of the vertices start .. stop - 1.

    Pixels side by side that see the same triangle are summed up before they are added.
    """
    images, height, width = ids.shape
    for n in range(images):
        if base[n] >= stop or base[n] + vertices <= start:
            continue
        for i in range(height):
            j = 0
            while j < width:
                t, first = ids[n, i, j], j
                while j < width and ids[n, i, j] == t:
                    j += 1
                if t < 0:
                    continue
                u, v, w = base[n] + tri[t, 0], base[n] + tri[t, 1], base[n] + tri[t, 2]
                if not (start <= u < stop or start <= v < stop or start <= w < stop):
                    continue
                a, b, c = corner(pos, u), corner(pos, v), corner(pos, w)
                products = _products_of(a, b, c)
                if of_derivatives is None:
                    found = _of_run(a, b, c, products, n, i, first, j, of_rast)
                else:
                    found = _of_sloped_run(
                        a, b, c, products, n, i, first, j, of_rast, of_derivatives
                    )
                for m in range(4):
                    if start <= u < stop:
                        sums[u, m] += found[0][m]
                    if start <= v < stop:
                        sums[v, m] += found[1][m]
                    if start <= w < stop:
                        sums[w, m] += found[2][m]
