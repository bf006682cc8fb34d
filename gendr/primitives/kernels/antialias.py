"""The compiled antialiasing: silhouettes in threads, the blending of the few in order.

Only where an edge passes on whose two sides there are not two triangles, one on each, can a surface
end: such edges are few, and pairs of pixels elsewhere are not looked at. See
`gendr.primitives.antialias` for the mathematics.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from gendr._common import memory
from gendr._common.tracing import cached
from gendr.kernels.numba.calls import keep_alive, pointer
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.vectors import LANES
from gendr.kernels.threads import run
from gendr.primitives.graphs import antialiased
from gendr.primitives.kernels.faces import facing
from gendr.primitives.kernels.raster import corner, cross, of_product, pixels
from gendr.primitives.kernels.topology import crossings, linked
from gendr.primitives.reference.antialias import MEETING, Borders
from gendr.primitives.scene import Scene

__all__ = ["backend", "backward", "edges", "forward", "traced"]

backend = "cpu"

SMALL = 4096  # pixels that are not worth another thread


def forward(
    borders: Borders, color: Tensor, rast: Tensor, pos: Tensor, *, save: bool
) -> tuple[tuple[Tensor], tuple[Tensor, Tensor]]:
    """The blended colours [N, H, W, C]; the pairs [K, 2] and codes [K] of silhouettes are saved."""
    pairs, codes = _silhouettes(borders, rast, pos)
    result = memory.empty_like(color).copy_(color)
    if len(codes):
        points, tables = _tables(borders.scene, pos)
        blend(
            points, *tables, borders.scene.height, borders.scene.width, pairs.numpy(),
            codes.numpy(), color.reshape(-1, color.shape[-1]).numpy(),
            result.view(-1, color.shape[-1]).numpy(),
        )  # fmt: skip
    return (result,), (pairs, codes)


def backward(
    borders: Borders, inputs: tuple[Tensor, Tensor, Tensor], saved: tuple[Tensor, Tensor],
    grads: tuple[Tensor], wanted: tuple[bool, ...],
) -> tuple[Tensor, None, Tensor | None]:  # fmt: skip
    """The gradients of color and pos."""
    (color, _, pos), (pairs, codes), (grad,) = inputs, saved, grads
    of_color = memory.empty_like(grad).copy_(grad)
    points, tables = _tables(borders.scene, pos)
    of_pos = memory.empty(points.shape if wanted[2] else (0, 4), torch.float64).zero_()
    if len(codes):
        channels = color.shape[-1]
        blend_backward(
            points, *tables, borders.scene.height, borders.scene.width, pairs.numpy(),
            codes.numpy(), color.reshape(-1, channels).numpy(), grad.reshape(-1, channels).numpy(),
            of_color.view(-1, channels).numpy(), of_pos.numpy(),
        )  # fmt: skip
    found = None
    if wanted[2]:
        found = of_pos.mul_(borders.boost).to(pos.dtype).reshape(pos.shape)
    return of_color, None, found


def _tables(scene: Scene, pos: Tensor) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    return pos.reshape(-1, 4).contiguous().numpy(), (
        scene.tri.contiguous().numpy(), scene.tables[1],
    )  # fmt: skip


def _silhouettes(borders: Borders, rast: Tensor, pos: Tensor) -> tuple[Tensor, Tensor]:
    """The pairs [K, 2] of pixels with a silhouette between them, in order, and its codes [K]."""
    scene = borders.scene
    linked_by = linked(scene.tri) if borders.uses is None else borders.uses
    uses = linked_by.numpy()
    sides = cached(linked_by, "crossings", lambda x: crossings(scene.tri, x)).numpy()
    images = min(scene.images, 1) if scene.shared else scene.images  # that differ in their edges
    points, tables = _tables(scene, pos)
    triangles, size = len(scene.tri), (scene.height, scene.width)
    alone = images * triangles < SMALL
    facings = memory.empty((images, triangles), torch.int8).numpy()
    run(turn, images * -(-triangles // LANES), points, *tables, facings, alone=alone)
    marks = memory.empty((images, *size, 2), torch.uint8).zero_().numpy()
    run(mark, images * len(sides), points, *tables, sides, facings, marks, alone=alone)
    places = np.flatnonzero(marks.view(bool))
    if images < scene.images:
        step = np.arange(scene.images)[:, None] * (2 * scene.height * scene.width)
        places = (places + step).reshape(-1)
    found = np.empty(len(places), np.int32)
    run(find, len(places), points, *tables, uses, rast.numpy(), borders.steps, places, found,
        alone=len(places) < SMALL // 16)  # fmt: skip
    places, found = places[found > 0], found[found > 0]
    return torch.from_numpy(np.stack([places // 2, places % 2], -1)), torch.from_numpy(found)


def edges(borders: Borders, rast: Tensor, pos: Tensor) -> Tensor:
    """The codes [2, N, H, W] of `gendr.primitives.reference.antialias.crossed`."""
    pairs, codes = _silhouettes(borders, rast, pos)
    dense = torch.zeros(2, rast.numel() // 4, dtype=torch.int32, device="cpu")
    dense[pairs[:, 1], pairs[:, 0]] = codes
    return dense.view(2, *rast.shape[:3])


traced = antialiased(backend, edges)


@kernel()
def turn(pos, tri, base, facings, start, stop):
    """The signs of the determinants of triangles, 0 where rounding may have made them.

    A unit is eight triangles of an image.
    """
    triangles = facings.shape[1]
    chosen, blocks = np.empty(LANES, np.int32), -(-triangles // LANES)
    for unit in range(start, stop):
        n, first = unit // blocks, unit % blocks * LANES
        count = min(LANES, triangles - first)
        for k in range(LANES):
            chosen[k] = first + min(k, count - 1)
        bits = facing(pointer(pos), pointer(tri), pointer(chosen), base[n])
        for k in range(count):
            sign = 2 * (bits >> k & 1) - 1
            facings[n, first + k] = sign * (bits >> (LANES + k) & 1)
    keep_alive((chosen,))


@kernel()
def mark(pos, tri, base, sides, facings, marks, start, stop):
    """Mark the pairs of pixels [N, H, W, 2] that an edge passes where a surface may end.

    All other edges have two triangles, one on either side. What threads write is the same.
    """
    height, width = marks.shape[1:3]
    total = len(sides)
    for n in range(len(marks)):
        for k in range(max(0, start - n * total), min(total, stop - n * total)):
            h, beyond = np.int64(sides[k, 0]), np.int64(sides[k, 1])
            there = facings[n, abs(beyond) - 1] if beyond != 0 else 0
            if facings[n, np.uint32(h) // np.uint32(3)] * (there if beyond > 0 else -there) > 0:
                continue
            va, vb = ends(tri, h)
            a, b = corner(pos, base[n] + va), corner(pos, base[n] + vb)
            if a[3] <= 0.0 and b[3] <= 0.0:
                continue
            line = cross(a, b)
            along = 0 if abs(line[0]) / width >= abs(line[1]) / height else 1
            across = 1 - along
            count, many = (width, height) if along == 0 else (height, width)
            first, last = 0, many - 1
            if a[3] > 0.0 and b[3] > 0.0:
                u, v = a[across] / a[3], b[across] / b[3]
                first, last = pixels(min(u, v), max(u, v), many)
            for i in range(first, last + 1):
                fixed = (2 * i + 1 - many) / many
                da, db = a[across] - fixed * a[3], b[across] - fixed * b[3]
                if (da >= 0.0) == (db >= 0.0):
                    continue
                x = 0.5 * (place(a, b, da, db, along, -1.0, 1.0) * count - 1.0)
                if not -1.0 < x < count:
                    continue
                for j in range(math.floor(x - 1e-3), math.floor(x + 1e-3) + 1):
                    if 0 <= j < count - 1:
                        if along == 0:
                            marks[n, i, j, 0] = 1
                        else:
                            marks[n, j, i, 1] = 1


@kernel()
def find(pos, tri, base, uses, rast, steps, places, found, start, stop):
    """The codes of silhouettes between pairs of pixels, 0 where there is none."""
    height, width = rast.shape[1:3]
    for k in range(start, stop):
        axis, pixel = places[k] % 2, places[k] // 2
        n, i, j = pixel // (width * height), pixel // width % height, pixel % width
        i2, j2 = (i, j + 1) if axis == 0 else (i + 1, j)
        t, t2 = np.int64(rast[n, i, j, 3] + 0.5) - 1, np.int64(rast[n, i2, j2, 3] + 0.5) - 1
        found[k] = 0
        if t == t2:
            continue
        near = t2 < 0 or (t >= 0 and rast[n, i, j, 2] <= rast[n, i2, j2, 2])
        x, y = (2 * j + 1 - width) / width, (2 * i + 1 - height) / height
        step = 2.0 / width if axis == 0 else 2.0 / height
        if near:
            h = walk(pos, tri, base[n], uses, t, t2, x, y, step, axis, steps)
        elif axis == 0:
            h = walk(pos, tri, base[n], uses, t2, t, x + step, y, -step, axis, steps)
        else:
            h = walk(pos, tri, base[n], uses, t2, t, x, y + step, -step, axis, steps)
        if h < 0:
            continue
        a, b = ends(tri, h)
        line = cross(corner(pos, base[n] + a), corner(pos, base[n] + b))
        if (abs(line[0]) / width >= abs(line[1]) / height) == (axis == 0):
            found[k] = h + 1


@kernel()
def ends(tri, h):
    """The two vertices of a half-edge, as rows of an image."""
    t, k = h // 3, h % 3
    return np.int64(tri[t, (k + 1) % 3]), np.int64(tri[t, (k + 2) % 3])


@inner()
def place(p, q, a, b, along, begin, step):
    """Where the line crosses an edge, in steps, of which `step` is the inverse.

    It is -inf behind the camera.
    """
    part, w = a - b, a * q[3] - b * p[3]  # the second: part times the w of the crossing
    if not part * w > 0.0:
        return -math.inf
    return ((a * q[along] - b * p[along]) / w - begin) * step


@inner()
def side(line, p):
    """On which side of a line a corner is."""
    return line[0] * p[0] + line[1] * p[1] + line[2] * p[3]


@inner()
def walk(pos, tri, base, uses, t, goal, x, y, step, axis, steps):
    """The half-edge where the surface ends that is seen at (x, y), on the way to the other pixel.

    -1 if it ends nowhere on it.
    """
    begin, fixed = (x, y) if axis == 0 else (y, x)
    along, across = axis, 1 - axis
    v0, v1, v2 = np.int64(tri[t, 0]), np.int64(tri[t, 1]), np.int64(tri[t, 2])
    p0, p1, p2 = corner(pos, base + v0), corner(pos, base + v1), corner(pos, base + v2)
    d0 = p0[across] - fixed * p0[3]
    d1 = p1[across] - fixed * p1[3]
    d2 = p2[across] - fixed * p2[3]
    # The corner alone on its side of the line becomes a.
    k = 0
    if (d0 >= 0.0) == (d1 >= 0.0):
        if (d0 >= 0.0) == (d2 >= 0.0):
            return np.int64(-1)
        a, da, va, b, db, vb, c, dc, vc, k = p2, d2, v2, p0, d0, v0, p1, d1, v1, 2
    elif (d0 >= 0.0) == (d2 >= 0.0):
        a, da, va, b, db, vb, c, dc, vc, k = p1, d1, v1, p2, d2, v2, p0, d0, v0, 1
    else:
        a, da, va, b, db, vb, c, dc, vc = p0, d0, v0, p1, d1, v1, p2, d2, v2
    rate = 1.0 / step
    s, other = place(a, b, da, db, along, begin, rate), place(a, c, da, dc, along, begin, rate)
    if s > other:
        h = 3 * t + (k + 2) % 3
    else:
        b, db, vb, c, s = c, dc, vc, b, other
        h = 3 * t + (k + 1) % 3
    for _ in range(steps):
        if not 0.0 <= s <= 1.0:
            return np.int64(-1)
        line = cross(a, b)
        inner = -line[along] * step  # the sign of this side, also if the triangle is edge-on
        use, through = np.int64(uses[h]), False
        for _ in range(MEETING):
            if use == h:
                break
            vo = np.int64(tri[use // 3, use % 3])
            o = corner(pos, base + vo)
            if inner * side(line, o) < 0.0:
                through = True
                break
            use = np.int64(uses[use])
        if not through:
            return h
        t = use // 3
        if t == goal:
            return np.int64(-1)
        do = o[across] - fixed * o[3]
        if (do >= 0.0) == (da >= 0.0):
            gone = va
            a, da, va = o, do, vo
        else:
            gone = vb
            b, db, vb = o, do, vo
        for m in range(3):
            if tri[t, m] == gone:
                h = 3 * t + m
                break
        s = place(a, b, da, db, along, begin, rate)
    return np.int64(-1)


@inner()
def crossing(pos, tri, base, height, width, pair, axis, code):
    """(t, e, f, the other pixel, the two vertices) of a silhouette between two pixels."""
    n = pair // (height * width)
    i, j = pair // width % height, pair % width
    va, vb = ends(tri, np.int64(code) - 1)
    va, vb = base[n] + va, base[n] + vb
    line = cross(corner(pos, va), corner(pos, vb))
    x, y = (2 * j + 1 - width) / width, (2 * i + 1 - height) / height
    e = line[0] * x + line[1] * y + line[2]
    if axis == 0:
        f = line[0] * ((2 * j + 3 - width) / width) + line[1] * y + line[2]
    else:
        f = line[0] * x + line[1] * ((2 * i + 3 - height) / height) + line[2]
    t = e / (e - f) if e != f else -1.0
    return t, e, f, pair + (1 if axis == 0 else width), va, vb


@kernel()
def blend(pos, tri, base, height, width, pairs, codes, color, result):
    """Add to a pixel at each silhouette what the other side covers of it."""
    for k in range(len(codes)):
        p = pairs[k, 0]
        t, _, _, q, _, _ = crossing(pos, tri, base, height, width, p, pairs[k, 1], codes[k])
        if not 0.0 <= t <= 1.0:
            continue
        weight = t - 0.5
        target = q if weight > 0.0 else p
        for m in range(color.shape[1]):
            result[target, m] += weight * (color[p, m] - color[q, m])


@kernel()
def blend_backward(pos, tri, base, height, width, pairs, codes, color, grad, of_color, of_pos):
    """The gradients of colours, and if there is room for them those of positions."""
    for k in range(len(codes)):
        p, axis = pairs[k, 0], pairs[k, 1]
        t, e, f, q, va, vb = crossing(pos, tri, base, height, width, p, axis, codes[k])
        if not 0.0 <= t <= 1.0:
            continue
        weight = t - 0.5
        target = q if weight > 0.0 else p
        g = 0.0
        for m in range(color.shape[1]):
            upstream = np.float64(grad[target, m])
            g += upstream * (np.float64(color[p, m]) - color[q, m])
            of_color[p, m] += weight * upstream
            of_color[q, m] -= weight * upstream
        if not len(of_pos):
            continue
        i, j = p // width % height, p % width
        x, y = (2 * j + 1 - width) / width, (2 * i + 1 - height) / height
        x2, y2 = x, y
        if axis == 0:
            x2 = (2 * j + 3 - width) / width
        else:
            y2 = (2 * i + 3 - height) / height
        g /= (e - f) * (e - f)
        lx, ly, lw = g * (e * x2 - f * x), g * (e * y2 - f * y), g * (e - f)
        of_a, of_b = of_product(corner(pos, va), corner(pos, vb), (lx, ly, lw))
        for m in range(3):
            of_pos[va, m + m // 2] += of_a[m]  # x, y and w
            of_pos[vb, m + m // 2] += of_b[m]
