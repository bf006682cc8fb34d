"""The compiled rasteriser: tiles in threads, and a backward pass in which each vertex has an owner.

A triangle is bounded, then listed at the tiles that it may touch, those that touch many in a list
of their own; each tile keeps the nearest of its triangles at every sample, in float64, and writes
its pixels. Triangles are set up eight at a time, see `faces`. Backwards each thread looks through
all tiles for pixels of its own vertices. No unit writes what belongs to another: the bits are the
same on any number of threads.

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
from gendr.kernels.numba.arrays import copy
from gendr.kernels.numba.calls import keep_alive, pointer, shifted
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
from gendr.primitives.kernels.faces import (
    MARGIN,
    PLANES,
    SUMS,
    add_deep_pixel,
    add_pixel,
    begin_sums,
    blank,
    bounds,
    changes,
    end_sums,
    lowest,
    planes,
    seen,
    seen_with_slopes,
    sides,
)
from gendr.primitives.scene import Scene, check_indices

__all__ = ["backward", "cover", "forward", "visible_ids"]

TILE = 32  # pixels of a side: depths and ids of a tile stay in the first caches
WIDE = TILE + LANES  # samples of a row of a tile, and those that vectors have beyond it
HELD = 128  # triangles of a tile whose planes are kept, most of those that it shows
MANY = 16  # tiles, beyond which a triangle is listed once for its image: lists stay short
SMALL = 1 << 14  # pixels and triangles together that are not worth another thread

cross, determinant = (
    compiled(formulas.cross, inlined=True),
    compiled(formulas.determinant, inlined=True),
)
is_solid, of_product = (
    compiled(formulas.is_solid, inlined=True),
    compiled(formulas.of_product, inlined=True),
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
    points, tri = pos.reshape(-1, 4).contiguous().numpy(), scene.tri.contiguous().numpy()
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
    vertices = pos.numel() // 4
    sums = memory.empty((vertices + 1, 4), torch.float64).zero_()
    run(
        rasterize_backward, vertices, pos.reshape(-1, 4).contiguous().numpy(),
        scene.tri.contiguous().numpy(), scene.tables[1], scene.vertices, ids.contiguous().numpy(),
        of_rast.numpy(), slopes, sums.numpy(),
        pieces=1, alone=ids.numel() < SMALL,
    )  # fmt: skip
    return (sums[:-1].to(pos.dtype).reshape(pos.shape),)


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
    """The NDC that the visible part of a triangle takes that leaves the view, a little more."""
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


@kernel()
def bound(pos, tri, first, base, offsets, height, width, box, counts, start, stop):
    """The pixels that each item may cover, and how many of a chunk each tile gets."""
    across, down = -(-width // TILE), -(-height // TILE)
    tiles = (len(offsets) - 1) * across * down
    total, chunks = len(box), len(counts)
    chosen, found = np.empty(LANES, np.int32), np.empty((4, LANES), np.int32)
    points, corners = pointer(pos), pointer(tri)
    eight, bounds_of = pointer(chosen), pointer(found)
    for chunk in range(start, stop):
        n, item, end = 0, total * chunk // chunks, total * (chunk + 1) // chunks
        while item < end:
            while item >= offsets[n + 1]:
                n += 1
            count = min(LANES, end - item, offsets[n + 1] - item)
            t = first[n] + item - offsets[n]
            for k in range(LANES):
                chosen[k] = t + min(k, count - 1)
            hidden = bounds(
                points, corners, eight, base[n], float(height), float(width), bounds_of
            )  # fmt: skip
            for k in range(count):
                i0, i1, j0, j1 = (
                    np.int64(found[0, k]), np.int64(found[1, k]), np.int64(found[2, k]),
                    np.int64(found[3, k]),
                )  # fmt: skip
                box[item + k, 0], box[item + k, 1] = 1, 0
                if hidden >> k & 1:
                    continue
                if hidden >> (LANES + k) & 1:
                    a, b, c = corners_of(pos, tri, base[n], t + k)
                    low, high = interval(a, b, c, 0)
                    j0, j1 = pixels(low, high, width)
                    low, high = interval(a, b, c, 1)
                    i0, i1 = pixels(low, high, height)
                if j0 > j1 or i0 > i1:
                    continue
                box[item + k, 0], box[item + k, 1] = i0, i1
                box[item + k, 2], box[item + k, 3] = j0, j1
                i0, i1, j0, j1 = i0 // TILE, i1 // TILE, j0 // TILE, j1 // TILE
                if (i1 - i0 + 1) * (j1 - j0 + 1) > MANY:
                    counts[chunk, tiles + n] += 1
                    continue
                for i in range(i0, i1 + 1):
                    for j in range(j0, j1 + 1):
                        counts[chunk, (n * down + i) * across + j] += 1
            item += count
    keep_alive((chosen, found))


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
    """(p, q, r) of the edges, of corners in one order: a sample is within where p x + q y + r > 0.

    In one order, so that faces with the same corners have the same depths.
    """
    if later(a, b):
        a, b = b, a
    if later(b, c):
        b, c = c, b
    if later(a, b):
        a, b = b, a
    e0, e1, e2 = cross(b, c), cross(c, a), cross(a, b)
    s = 1.0 if determinant(a, e0) > 0.0 else -1.0
    u, v = s * height, s * width
    w = u * width
    return (
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
    for p, q, r in edges(a, b, c, height, width):
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
    cells, listed = np.empty((TILE, 4, WIDE)), np.empty(LANES, np.int32)
    boxes, ends = np.empty((4, LANES), np.int64), np.empty((4, LANES))
    lines = np.empty((4, 3, LANES))
    held, places = np.empty(HELD, np.int32), np.empty(HELD, np.int16)
    begins, seen_by = np.empty(TILE * TILE + 1, np.int16), np.empty(TILE * TILE, np.int16)
    shown = np.empty(TILE * TILE + LANES, np.int32)
    kept = np.empty((TILE * TILE + LANES, PLANES, 4))
    sloped = derivatives.shape[3] > 0
    wide, high = 1.0 / width, 1.0 / height
    points, corners, found = pointer(pos), pointer(tri), pointer(kept)
    for tile in range(start, stop):
        n, place = tile // (across * down), tile % (across * down)
        top, left = place // across * TILE, place % across * TILE
        bottom, right = min(top + TILE, height), min(left + TILE, width)
        large = images * across * down + n
        if starts[tile] == starts[tile + 1] and starts[large] == starts[large + 1]:
            for i in range(top, bottom):
                ids[n, i, left:right] = -1
                if len(depths):
                    depths[n, i, left:right] = math.inf
                if len(rast):
                    rast[n, i, left:right] = 0.0
                if len(rast) and sloped:
                    derivatives[n, i, left:right] = 0.0
            continue
        # Of each sample the nearest depth and its triangle, and those behind which is drawn.
        cells[:, 0], cells[:, 1] = 1.0, math.inf
        if floor is not None:
            cells[:, 2], cells[:, 3] = -1.0, -1.0
            for i in range(top, bottom):
                copy(floor[n, i, left:right], cells[i - top, 2])
                copy(floor_ids[n, i, left:right], cells[i - top, 3])
        for bin in (tile, large):
            k, last = starts[bin], starts[bin + 1]
            while k < last:
                count = 0
                while k < last and count < LANES:
                    item = lists[k]
                    k += 1
                    i0, i1 = max(box[item, 0], top), min(box[item, 1] + 1, bottom)
                    j0, j1 = max(box[item, 2], left), min(box[item, 3] + 1, right)
                    if i0 >= i1 or j0 >= j1:
                        continue
                    listed[count] = first[n] + item - offsets[n]
                    boxes[0, count], boxes[1, count] = i0, i1
                    boxes[2, count], boxes[3, count] = j0, j1
                    ends[0, count], ends[1, count] = 2 * j0 + 1 - width, 2 * j1 - 1 - width
                    ends[2, count], ends[3, count] = 2 * i0 + 1 - height, 2 * i1 - 1 - height
                    count += 1
                if count == 0:
                    break
                listed[count:] = listed[0]
                bits = sides(
                    points, corners, pointer(listed), base[n], float(height), float(width),
                    pointer(ends), pointer(lines),
                )  # fmt: skip
                for m in range(count):
                    if bits >> m & 1:
                        continue
                    i0, i1, j0, j1 = boxes[0, m], boxes[1, m], boxes[2, m], boxes[3, m]
                    q0, r0, q1, r1 = lines[0, 1, m], lines[0, 2, m], lines[1, 1, m], lines[1, 2, m]
                    q2, r2, qz, rz = lines[2, 1, m], lines[2, 2, m], lines[3, 1, m], lines[3, 2, m]
                    least = (
                        -(bits >> (LANES + m) & 1), -(bits >> (2 * LANES + m) & 1),
                        -(bits >> (3 * LANES + m) & 1),
                    )  # fmt: skip
                    slopes = lines[0, 0, m], lines[1, 0, m], lines[2, 0, m], lines[3, 0, m]
                    number = np.float64(listed[m])
                    for j in range(j0, j1, LANES):
                        x = np.float64(2 * j + 1 - width)
                        for i in range(i0, i1):
                            y = np.float64(2 * i + 1 - height)
                            # A sum with +0 is not -0, so that bits compare as the numbers do.
                            rows = (
                                q0 * y + r0 + 0.0, q1 * y + r1 + 0.0, q2 * y + r2 + 0.0,
                                qz * y + rz,
                            )  # fmt: skip
                            place = (i - top) * (4 * WIDE) + j - left
                            if floor is None:
                                _nearer(cells, place, x, slopes, rows, least, number)
                            else:
                                _next(cells, place, x, slopes, rows, least, number)
        # Runs of samples side by side that see one triangle, whose planes are found once or more.
        runs, count, held[:] = 0, 0, -1
        for i in range(top, bottom):
            place, at = (i - top) * (4 * WIDE) + WIDE, (n * height + i) * width
            for j in range(left, right, LANES):
                bits = changes(
                    pointer(cells), place + j - left, pointer(ids), at + j, min(LANES, right - j)
                )
                if j == left:
                    bits |= 1
                while bits:
                    k = j + lowest(bits)
                    bits &= bits - 1
                    t, plane = ids[n, i, k], 0
                    if t >= 0:
                        slot = t % HELD
                        if held[slot] != t:
                            held[slot], shown[count] = t, t
                            count += 1
                            places[slot] = count
                        plane = places[slot]
                    begins[runs], seen_by[runs] = (i - top) * TILE + k - left, plane
                    runs += 1
        if len(depths):
            for i in range(top, bottom):
                for j in range(left, right):
                    away = ids[n, i, j] < 0
                    depths[n, i, j] = math.inf if away else cells[i - top, 0, j - left]
        if not len(rast):
            continue
        shown[count : count + LANES] = shown[0]
        for k in range(0, count, LANES):
            planes(
                points, corners, shifted(pointer(shown), k), base[n], wide, high, found,
                (k + 1) * (4 * PLANES),
            )  # fmt: skip
        begins[runs] = TILE * TILE
        for m in range(runs):
            i, j0 = top + begins[m] // TILE, left + begins[m] % TILE
            j1 = min(right, j0 + begins[m + 1] - begins[m])
            at, plane = 4 * ((n * height + i) * width + j0), seen_by[m] * (4 * PLANES)
            y, number = np.float64(2 * i + 1 - height), np.float64(ids[n, i, j0] + 1)
            if plane == 0:
                for k in range(at, at + 4 * (j1 - j0), 4):
                    blank(pointer(rast), k)
                    if sloped:
                        blank(pointer(derivatives), k)
                continue
            for j in range(j0, j1):
                x = np.float64(2 * j + 1 - width)
                if sloped:
                    seen_with_slopes(
                        found, plane, x, y, number, pointer(rast), pointer(derivatives), at
                    )
                else:
                    seen(found, plane, x, y, number, pointer(rast), at)
                at += 4
    keep_alive((listed, ends, lines, shown, kept))


@inner()
def _add_sloped_run(pos, a, b, c, n, i, first, stop, of_rast, of_derivatives, sums, places):
    """Add what pixels first .. stop - 1 of a row give to the corners, also by their derivatives."""
    height, width = of_rast.shape[1:3]
    y, wide, high = (2 * i + 1 - height) / height, 2.0 / width, 2.0 / height
    a, b, c = corner(pos, a), corner(pos, b), corner(pos, c)
    products = _products_of(a, b, c)
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
        for m in range(4):
            sums[places[0] + m] += da[m]
            sums[places[1] + m] += db[m]
            sums[places[2] + m] += dc[m]


@kernel()
def rasterize_backward(
    pos, tri, base, vertices, ids, of_rast, of_derivatives, sums, start, stop
):  # fmt: skip
    """The gradients of the vertices start .. stop - 1; of sums, the last row counts for nothing.

    The pixels of a tile that see the same triangle are summed up before they are added.
    """
    images, height, width = ids.shape
    points, given, to = pointer(pos), pointer(of_rast), pointer(sums)
    parts, of_faces = np.empty((TILE * TILE, SUMS, 4)), np.empty(TILE * TILE)
    corners = np.empty((TILE * TILE, 3), np.int64)
    held, places = np.empty(HELD, np.int32), np.empty(HELD, np.int64)
    found, elsewhere = pointer(parts), 4 * (len(sums) - 1)
    across, down = -(-width // TILE), -(-height // TILE)
    for tile in range(images * across * down):
        n, place = tile // (across * down), tile % (across * down)
        if base[n] >= stop or base[n] + vertices <= start:
            continue
        top, left = place // across * TILE, place % across * TILE
        right = min(left + TILE, width)
        count, held[:] = 0, -1
        for i in range(top, min(top + TILE, height)):
            y, begin = (2 * i + 1 - height) / height, (n * height + i) * width
            seen, j = shifted(pointer(ids), begin), left
            while j < right:
                t, first = np.int64(seen[j]), j
                while j < right and seen[j] == t:
                    j += 1
                if t < 0:
                    continue
                slot = t % HELD
                if held[slot] != t:
                    u, v, w = base[n] + tri[t, 0], base[n] + tri[t, 1], base[n] + tri[t, 2]
                    to_u = 4 * u if start <= u < stop else elsewhere
                    to_v = 4 * v if start <= v < stop else elsewhere
                    to_w = 4 * w if start <= w < stop else elsewhere
                    held[slot], places[slot] = t, -1
                    if to_u == elsewhere and to_v == elsewhere and to_w == elsewhere:
                        continue
                    places[slot] = count
                    corners[count, 0], corners[count, 1], corners[count, 2] = to_u, to_v, to_w
                    of_faces[count] = begin_sums(
                        points, 4 * u, 4 * v, 4 * w, found, count * (4 * SUMS)
                    )
                    count += 1
                k = places[slot]
                if k < 0:
                    continue
                if of_derivatives is not None:
                    u, v, w = base[n] + tri[t, 0], base[n] + tri[t, 1], base[n] + tri[t, 2]
                    _add_sloped_run(
                        pos, u, v, w, n, i, first, j, of_rast, of_derivatives, to,
                        (corners[k, 0], corners[k, 1], corners[k, 2]),
                    )  # fmt: skip
                    continue
                f, own, at = of_faces[k], k * (4 * SUMS), 4 * (begin + first)
                for m in range(first, j):
                    x = (2 * m + 1 - width) / width
                    if given[at + 2] == 0.0:
                        add_pixel(found, own, x, y, f, given, at)
                    else:
                        add_deep_pixel(found, own, x, y, f, given, at)
                    at += 4
        if of_derivatives is None:
            for k in range(count):
                end_sums(
                    found, k * (4 * SUMS), of_faces[k], to, corners[k, 0], corners[k, 1],
                    corners[k, 2],
                )  # fmt: skip
    keep_alive((parts,))
