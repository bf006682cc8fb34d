"""The Triton kernels of stage 1: from vertices to polygons on the screen, and back.

- forward: one lane per face transforms its three corners, clips them at the near plane and divides;
- backward: a program of a few vertices walks the corners of faces that are these vertices, in the
  order of the faces, in all images side by side. No atomics: the same input gives the same bits.

A face is transformed anew wherever it is needed, always by `clip_of`, whose order of operations is
fixed: faces that share a vertex find the very same point.

Rows of a projection, 4 numbers each, give X, Y, W and the depth; see `Camera.projection`.
"""

# Triton compiles these functions; their arguments are blocks and pointers.
# pyright: reportMissingParameterType=false

from __future__ import annotations

import triton
import triton.language as tl

from gendr.rendering.geometry import ABSENT, REACH

_MOVED = tl.constexpr(ABSENT)  # where the corners of faces go that are not seen
_REACH = tl.constexpr(REACH)  # how far the others may be from the middle of the image
# The square root of a quarter of the largest number: as in `geometry`, no gradient is larger.
_STEEPEST = tl.constexpr(9.2e18)
# What is wrong with the input, as bits.
BAD_VERTICES = tl.constexpr(1)
BAD_CAMERA = tl.constexpr(2)


# -------------------------------------------------------------------------------------------------
# Vertices
# -------------------------------------------------------------------------------------------------


@triton.jit
def is_finite(x):
    """Whether a number is neither NaN nor inf."""
    return tl.abs(x) < float("inf")


@triton.jit
def row_of_product(row, x, y, z, on):
    """A row of a matrix [4] times (x, y, z, 1)."""
    a, b = tl.load(row, on, 0.0), tl.load(row + 1, on, 0.0)
    c, d = tl.load(row + 2, on, 0.0), tl.load(row + 3, on, 0.0)
    return tl.fma(a, x, tl.fma(b, y, tl.fma(c, z, d)))


@triton.jit
def clip_of(vertices, v, camera, on):
    """(X, Y, W, depth) of vertices before a camera, a pointer to its projection; and x + y + z."""
    x, y = tl.load(vertices + 3 * v, on, 0.0), tl.load(vertices + 3 * v + 1, on, 0.0)
    z = tl.load(vertices + 3 * v + 2, on, 0.0)
    return (
        row_of_product(camera, x, y, z, on),
        row_of_product(camera + 4, x, y, z, on),
        row_of_product(camera + 8, x, y, z, on),
        row_of_product(camera + 12, x, y, z, on),
        (x - x) + (y - y) + (z - z),
    )


@triton.jit
def planes_of(
    near, far, ranges, parts, HAS_NEAR: tl.constexpr, HAS_FAR: tl.constexpr, PARTS: tl.constexpr
):
    """Depths of the near and far planes, as `geometry.depth_limits` finds them.

    Args:
        near: that given, or where to start from.
        far: that given.
        ranges: [parts, 2], least and largest depths of parts of the scene.
        parts: how many there are.
        HAS_NEAR: whether the near plane is given.
        HAS_FAR: whether the far plane is given.
        PARTS: at least `parts`, a power of two.
    """
    if HAS_NEAR and HAS_FAR:
        return near, far
    i = tl.arange(0, PARTS)
    lowest = tl.min(tl.load(ranges + 2 * i, i < parts, float("inf")), 0)
    farthest = tl.max(tl.load(ranges + 2 * i + 1, i < parts, float("-inf")), 0)
    if not HAS_NEAR:
        behind = tl.where(farthest > 0.0, 1e-3 * tl.minimum(near, farthest), near)
        near = tl.where(lowest > 0.0, tl.minimum(lowest, near), behind)
    if not HAS_FAR:
        far = tl.maximum(tl.maximum(far, farthest), 100.0 * near)
    return near, far


@triton.jit(do_not_specialize=["count", "vertices_of_image"])
def depth_ranges(
    vertices, projection, image_of_vertex, ranges, count, vertices_of_image,
    SHARED: tl.constexpr, ONE_CAMERA: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Least and largest depth, [programs, 2], of every so many blocks of vertices of images.

    Vertex i of `count` is that of mesh i; of one mesh in many images (SHARED), they are numbered
    through, image by image.
    """
    low = tl.zeros([BLOCK], tl.float32) + float("inf")
    high = tl.zeros([BLOCK], tl.float32) + float("-inf")
    k = tl.program_id(0) * BLOCK
    while k < count:
        i = k + tl.arange(0, BLOCK)
        on = i < count
        if SHARED:
            image, v = i // vertices_of_image, (i % vertices_of_image).to(tl.int64)
        else:
            image, v = tl.load(image_of_vertex + i, on, 0), i.to(tl.int64)
        camera = projection + image * (0 if ONE_CAMERA else 16)
        x, y = tl.load(vertices + 3 * v, on, 0.0), tl.load(vertices + 3 * v + 1, on, 0.0)
        z = tl.load(vertices + 3 * v + 2, on, 0.0)
        depth = row_of_product(camera + 12, x, y, z, on)
        low = tl.minimum(low, tl.where(on, depth, float("inf")))
        high = tl.maximum(high, tl.where(on, depth, float("-inf")))
        k += BLOCK * tl.num_programs(0)
    tl.store(ranges + 2 * tl.program_id(0), tl.min(low, 0))
    tl.store(ranges + 2 * tl.program_id(0) + 1, tl.max(high, 0))


# -------------------------------------------------------------------------------------------------
# Faces
# -------------------------------------------------------------------------------------------------


@triton.jit
def turned(a, b, c, lone):
    """(a, b, c), (b, c, a) or (c, a, b): corner `lone` comes first."""
    return (
        tl.where(lone == 0, a, tl.where(lone == 1, b, c)),
        tl.where(lone == 0, b, tl.where(lone == 1, c, a)),
        tl.where(lone == 0, c, tl.where(lone == 1, a, b)),
    )


@triton.jit
def clipped_face(vertices, faces, f, camera, near, far, on):
    """The corners of faces before a camera, and how the near plane cuts them.

    Returns:
        Three corners (X, Y, W, depth), the first of which is alone on its side of the near plane if
        the face crosses it; the parameters t1, t2 of the points where the plane cuts the edges from
        the first to the second and third, 0 if it does not; the index of the first corner;
        whether a face is seen, crosses the plane, and crosses it with two corners ahead;
        and whether vertices are bad, and results of good vertices.
    """
    i = tl.load(faces + 3 * f, on, 0)
    j = tl.load(faces + 3 * f + 1, on, 0)
    k = tl.load(faces + 3 * f + 2, on, 0)
    ax, ay, aw, ad, an = clip_of(vertices, i, camera, on)
    bx, by, bw, bd, bn = clip_of(vertices, j, camera, on)
    cx, cy, cw, cd, cn = clip_of(vertices, k, camera, on)
    good = is_finite(an + bn + cn)
    all_good = is_finite(ax) & is_finite(ay) & is_finite(aw) & is_finite(ad)
    all_good = all_good & is_finite(bx) & is_finite(by) & is_finite(bw) & is_finite(bd)
    all_good = all_good & is_finite(cx) & is_finite(cy) & is_finite(cw) & is_finite(cd)
    low, high = tl.minimum(tl.minimum(ad, bd), cd), tl.maximum(tl.maximum(ad, bd), cd)
    seen = on & good & all_good & ((high > near) | (low >= near)) & (low <= far)
    crosses = seen & (low < near)
    a_ahead, b_ahead, c_ahead = ad >= near, bd >= near, cd >= near
    ahead = a_ahead.to(tl.int32) + b_ahead.to(tl.int32) + c_ahead.to(tl.int32)
    two_ahead = crosses & (ahead == 2)
    lone = tl.where(b_ahead != two_ahead, 1, tl.where(c_ahead != two_ahead, 2, 0))
    lone = tl.where(a_ahead != two_ahead, 0, lone)
    lone = tl.where(crosses, lone, 0)
    ax, bx, cx = turned(ax, bx, cx, lone)
    ay, by, cy = turned(ay, by, cy, lone)
    aw, bw, cw = turned(aw, bw, cw, lone)
    ad, bd, cd = turned(ad, bd, cd, lone)
    t1 = tl.where(crosses, (near - ad) / tl.where(crosses, bd - ad, 1.0), 0.0)
    t2 = tl.where(crosses, (near - ad) / tl.where(crosses, cd - ad, 1.0), 0.0)
    return (
        ax, ay, aw, ad, bx, by, bw, bd, cx, cy, cw, cd, t1, t2,
        lone, seen, crosses, two_ahead, on & (good == 0), on & good & (all_good == 0),
    )  # fmt: skip


@triton.jit
def polygon(ax, ay, aw, bx, by, bw, cx, cy, cw, t1, t2, near, crosses, two_ahead):
    """The four corners (X, Y, W) of what the near plane leaves of a face, as `clipped_face` has it.

    Triangles repeat their last corner. Where the plane cuts, W is `near`, or 1 for orthographic
    cameras; between corners of which one is far away it would cancel, and its gradient with it.
    """
    fx, fy = ax + t1 * (bx - ax), ay + t1 * (by - ay)
    sx, sy = ax + t2 * (cx - ax), ay + t2 * (cy - ay)
    cut_w = tl.where(aw == bw, aw, near)
    one_ahead = crosses & (two_ahead == 0)
    return (
        tl.where(two_ahead, fx, ax), tl.where(two_ahead, fy, ay), tl.where(two_ahead, cut_w, aw),
        tl.where(one_ahead, fx, bx), tl.where(one_ahead, fy, by), tl.where(one_ahead, cut_w, bw),
        tl.where(one_ahead, sx, cx), tl.where(one_ahead, sy, cy), tl.where(one_ahead, cut_w, cw),
        tl.where(crosses, sx, cx), tl.where(crosses, sy, cy), tl.where(crosses, cut_w, cw),
    )  # fmt: skip


@triton.jit
def reached(x, y, w):
    """W, or what pulls a corner in to REACH."""
    return tl.maximum(w, tl.maximum(tl.abs(x), tl.abs(y)) / _REACH)


@triton.jit
def saturated(g):
    """A gradient at most as large as that products with others are finite; NaN stays NaN."""
    return tl.where(tl.abs(g) > _STEEPEST, tl.where(g > 0.0, _STEEPEST, -_STEEPEST), g)


@triton.jit
def put_corner(where, x, y, w, seen, valid):
    """Divide and store a corner."""
    w = tl.where(seen, reached(x, y, w), 1.0)
    tl.store(where, tl.where(seen, x / w, _MOVED), valid)
    tl.store(where + 1, tl.where(seen, y / w, _MOVED), valid)


@triton.jit(do_not_specialize=["count", "faces_of_image", "near", "far", "parts"])
def project_faces(
    vertices, projection, faces, image_of_face, ranges, corners, flags,
    count, faces_of_image, near, far, parts,
    SHARED: tl.constexpr, ONE_CAMERA: tl.constexpr, HAS_NEAR: tl.constexpr, HAS_FAR: tl.constexpr,
    CHECK: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Corners [T, 4, 2] of the polygons of all faces on the screen.

    Face t is that of the mesh; of one mesh in many images (SHARED), the faces are numbered through,
    image by image. Faces that are not seen, or not finite, are moved to beyond ABSENT. With CHECK,
    `flags` gets the bits of what is not finite.
    """
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = t < count
    if SHARED:
        image, f = t // faces_of_image, (t % faces_of_image).to(tl.int64)
    else:
        image, f = tl.load(image_of_face + t, valid, 0), t.to(tl.int64)
    camera = projection + image * (0 if ONE_CAMERA else 16)
    near, far = planes_of(near, far, ranges, parts, HAS_NEAR, HAS_FAR, PARTS)
    (
        ax, ay, aw, _ad, bx, by, bw, _bd, cx, cy, cw, _cd, t1, t2,
        _lone, seen, crosses, two_ahead, bad_vertices, bad_camera,
    ) = clipped_face(vertices, faces, f, camera, near, far, valid)  # fmt: skip
    px, py, pw, qx, qy, qw, rx, ry, rw, sx, sy, sw = polygon(
        ax, ay, aw, bx, by, bw, cx, cy, cw, t1, t2, near, crosses, two_ahead
    )
    where = corners + t.to(tl.int64) * 8
    put_corner(where, px, py, pw, seen, valid)
    put_corner(where + 2, qx, qy, qw, seen, valid)
    put_corner(where + 4, rx, ry, rw, seen, valid)
    put_corner(where + 6, sx, sy, sw, seen, valid)
    if CHECK:
        bad = tl.max(bad_vertices.to(tl.int32), 0) * BAD_VERTICES
        bad += tl.max(bad_camera.to(tl.int32), 0) * BAD_CAMERA
        if bad != 0:
            tl.atomic_or(flags, bad.to(tl.int64), sem="relaxed")


# -------------------------------------------------------------------------------------------------
# Backward
# -------------------------------------------------------------------------------------------------


@triton.jit
def point_gradient(grads, x, y, w, seen):
    """The gradient of a point's (X, Y, W) from that of (X / W, Y / W)."""
    whole = tl.where(seen, reached(x, y, w), 1.0)
    inverse = 1.0 / whole
    gx = saturated(tl.load(grads, seen, 0.0)) * inverse
    gy = saturated(tl.load(grads + 1, seen, 0.0)) * inverse
    gw = -(gx * (x * inverse) + gy * (y * inverse))
    return gx, gy, tl.where(w < whole, 0.0, gw)


@triton.jit
def corner_gradient(grads, vertices, faces, f, corner, camera, near, far, on):
    """The gradient of (X, Y, W, depth) of one corner of faces, from those of their polygons.

    Args:
        grads: points to the gradients [4, 2] of each polygon.
        vertices: [V, 3].
        faces: [F, 3].
        f: which face.
        corner: which of its corners.
        camera: as in `clip_of`.
        near: depth of the near plane.
        far: depth of the far plane.
        on: where there is a face.
    """
    (
        ax, ay, aw, ad, bx, by, bw, bd, cx, cy, cw, cd, t1, t2,
        lone, seen, crosses, two_ahead, _bad_vertices, _bad_camera,
    ) = clipped_face(vertices, faces, f, camera, near, far, on)  # fmt: skip
    px, py, pw, qx, qy, qw, rx, ry, rw, sx, sy, sw = polygon(
        ax, ay, aw, bx, by, bw, cx, cy, cw, t1, t2, near, crosses, two_ahead
    )
    px, py, pw = point_gradient(grads, px, py, pw, seen)
    qx, qy, qw = point_gradient(grads + 2, qx, qy, qw, seen)
    rx, ry, rw = point_gradient(grads + 4, rx, ry, rw, seen)
    sx, sy, sw = point_gradient(grads + 6, sx, sy, sw, seen)
    # Those of the two cuts, and what the corners have of their own.
    one_ahead = crosses & (two_ahead == 0)
    ex = tl.where(two_ahead, px, tl.where(one_ahead, qx, 0.0))
    ey = tl.where(two_ahead, py, tl.where(one_ahead, qy, 0.0))
    hx = tl.where(crosses, sx, 0.0) + tl.where(one_ahead, rx, 0.0)
    hy = tl.where(crosses, sy, 0.0) + tl.where(one_ahead, ry, 0.0)
    px, py, pw = (
        tl.where(two_ahead, 0.0, px), tl.where(two_ahead, 0.0, py), tl.where(two_ahead, 0.0, pw),
    )  # fmt: skip
    qx, qy, qw = (
        tl.where(one_ahead, 0.0, qx), tl.where(one_ahead, 0.0, qy), tl.where(one_ahead, 0.0, qw),
    )  # fmt: skip
    rx = tl.where(one_ahead, 0.0, rx) + tl.where(crosses, 0.0, sx)
    ry = tl.where(one_ahead, 0.0, ry) + tl.where(crosses, 0.0, sy)
    rw = tl.where(one_ahead, 0.0, rw) + tl.where(crosses, 0.0, sw)
    # A cut a + t (b - a) moves with both ends, and its t = (near - za) / (zb - za) with the depths;
    # its W does not.
    of_t1 = ex * (bx - ax) + ey * (by - ay)
    of_t2 = hx * (cx - ax) + hy * (cy - ay)
    of_t1 /= tl.where(crosses, bd - ad, 1.0)
    of_t2 /= tl.where(crosses, cd - ad, 1.0)
    # Which of the turned corners is wanted.
    place = corner - lone
    place = tl.where(place < 0, place + 3, place)
    first, second = place == 0, place == 1
    gx = tl.where(first, px + (1.0 - t1) * ex + (1.0 - t2) * hx,
                  tl.where(second, qx + t1 * ex, rx + t2 * hx))  # fmt: skip
    gy = tl.where(first, py + (1.0 - t1) * ey + (1.0 - t2) * hy,
                  tl.where(second, qy + t1 * ey, ry + t2 * hy))  # fmt: skip
    gw = tl.where(first, pw, tl.where(second, qw, rw))
    gd = tl.where(first, (t1 - 1.0) * of_t1 + (t2 - 1.0) * of_t2,
                  tl.where(second, -t1 * of_t1, -t2 * of_t2))  # fmt: skip
    return (
        tl.where(seen, saturated(gx), 0.0), tl.where(seen, saturated(gy), 0.0),
        tl.where(seen, saturated(gw), 0.0), tl.where(seen, saturated(gd), 0.0),
    )  # fmt: skip


@triton.jit
def through(column, x, y, w, d, on):
    """What the gradient (x, y, w, d) of clip coordinates means for one coordinate of a vertex."""
    a, b = tl.load(column, on, 0.0), tl.load(column + 4, on, 0.0)
    c, e = tl.load(column + 8, on, 0.0), tl.load(column + 12, on, 0.0)
    return tl.sum(a * x + b * y + c * w + e * d, 1)


@triton.jit(do_not_specialize=["images", "count", "faces_of_image", "near", "far", "parts"])
def project_gradients(
    vertices, projection, faces, starts, entries, image_of_vertex, ranges, grads,
    grad_vertices, grad_clip, images, count, faces_of_image, near, far, parts,
    SHARED: tl.constexpr, ONE_CAMERA: tl.constexpr, HAS_NEAR: tl.constexpr, HAS_FAR: tl.constexpr,
    WITH_VERTICES: tl.constexpr, WITH_CAMERA: tl.constexpr, PARTS: tl.constexpr,
    VERTICES: tl.constexpr, ENTRIES: tl.constexpr, IMAGES: tl.constexpr,
):  # fmt: skip
    """The gradient of vertices [V, 3], and of their clip coordinates in every image [B, V, 4].

    The corners of faces that are vertex v are entries[starts[v] : starts[v + 1]], each 3 times the
    face plus the corner. `grads` are those of the polygons, [T, 4, 2]. `count` is V.
    """
    near, far = planes_of(near, far, ranges, parts, HAS_NEAR, HAS_FAR, PARTS)
    vertex = tl.program_id(0) * VERTICES + tl.arange(0, VERTICES)
    v = vertex[:, None, None]
    first = tl.load(starts + v, v < count, 0)
    last = tl.load(starts + v + 1, v < count, 0)
    longest = tl.max(tl.max(tl.max(last - first, 2), 1), 0)
    entry = tl.arange(0, ENTRIES)[None, :, None]
    lane = tl.arange(0, IMAGES)[None, None, :]
    own = tl.zeros([VERTICES], tl.int32)
    if not SHARED:
        own = tl.load(image_of_vertex + vertex, vertex < count, 0)
    gx = tl.zeros([VERTICES], tl.float32)
    gy, gz = gx, gx
    b0 = 0
    while b0 < images:
        # Images and corners side by side.
        b = b0 + lane
        image = b if SHARED else own[:, None, None] + lane * 0
        camera = projection + image * (0 if ONE_CAMERA else 16) + v * 0 + entry * 0
        x = tl.zeros([VERTICES, ENTRIES, IMAGES], tl.float32)
        y, w, d = x, x, x
        k = 0
        while k < longest:
            slot = first + k + entry
            listed = slot < last
            e = tl.load(entries + slot, listed, 0)
            f, corner = (e // 3).to(tl.int64) + lane * 0, e % 3 + lane * 0
            row = grads + (f + b.to(tl.int64) * faces_of_image) * 8
            dx, dy, dw, dd = corner_gradient(
                row, vertices, faces, f, corner, camera, near, far, listed & (b < images)
            )
            x, y, w, d = x + dx, y + dy, w + dw, d + dd
            k += ENTRIES
        x, y, w, d = tl.sum(x, 1), tl.sum(y, 1), tl.sum(w, 1), tl.sum(d, 1)
        b = b0 + tl.arange(0, IMAGES)[None, :]
        there = (b < images) & (vertex < count)[:, None]
        if WITH_CAMERA:
            row = grad_clip + (b.to(tl.int64) * count + vertex[:, None]) * 4
            tl.store(row, x, there)
            tl.store(row + 1, y, there)
            tl.store(row + 2, w, there)
            tl.store(row + 3, d, there)
        if WITH_VERTICES:
            image = b if SHARED else own[:, None] + b * 0
            camera = projection + image * (0 if ONE_CAMERA else 16) + vertex[:, None] * 0
            gx += through(camera, x, y, w, d, there)
            gy += through(camera + 1, x, y, w, d, there)
            gz += through(camera + 2, x, y, w, d, there)
        b0 += IMAGES
    if WITH_VERTICES:
        row = grad_vertices + vertex.to(tl.int64) * 3
        tl.store(row, gx, vertex < count)
        tl.store(row + 1, gy, vertex < count)
        tl.store(row + 2, gz, vertex < count)
