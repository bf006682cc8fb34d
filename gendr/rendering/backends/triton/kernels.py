"""The Triton kernels of silhouettes: boxes, alpha forward, its gradients, depth.

- forward and depth: one program per screen tile walks the faces of its list, or all faces of its
  image, BLOCK_FACES at a time against all pixels of the tile;
- backward: one program per face (or per face and share of its pixels) walks the pixels in reach,
  so that sums stay in registers, no float atomics are needed and nothing of size pixels x faces
  is ever stored.

Laws and families come in as compile-time functions, see `gendr/distributions/triton.py` and
`gendr/tnorms/triton.py`; everything else about a renderer is a row of the image table. Arithmetic
is float32, but for the depth test.

Pixels of all images are numbered through, row by row; so are tiles.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gendr.rendering.backends.triton.shared_kernels import (
    ABSENT,
    CONSTANT,
    CUTOFF,
    FAMILY_P,
    GRAD_COLUMNS,
    IMAGE_COLUMNS,
    MAXIMUM,
    MEAN,
    PSI,
    RADIUS,
    REVERSED,
    SCALE,
    SHAPE,
    argument,
    box_pixels,
    coverage,
    covered,
    edges_of,
    face_box,
    list_of_tile,
    listed_faces,
    put,
    put_box,
    put_scalars,
    put_three,
    row_of,
    shifted,
    signed_distance,
    tile_pixels,
    to_corner,
)

# -------------------------------------------------------------------------------------------------
# Boxes
# -------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["faces", "height", "width"])
def face_tables(
    corners, image_of_face, images, edges, boxes, faces, height, width,
    N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The row of every face in the table of edges, and its box; see `edges_of` and `put_box`."""
    f = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    valid = f < faces
    image = tl.load(image_of_face + f, valid, 0)
    radius = tl.load(images + image * IMAGE_COLUMNS + RADIUS, valid, 0.0)
    here = corners + f * (2 * N)
    x_0, y_0 = tl.load(here, valid, 0.0), tl.load(here + 1, valid, 0.0)
    x_1, y_1 = tl.load(here + 2, valid, 0.0), tl.load(here + 3, valid, 0.0)
    x_2, y_2 = tl.load(here + 4, valid, 0.0), tl.load(here + 5, valid, 0.0)
    x_3, y_3 = x_2, y_2
    sides = tl.zeros([BLOCK], tl.float32) + 3.0
    if N == 4:
        x_3, y_3 = tl.load(here + 6, valid, 0.0), tl.load(here + 7, valid, 0.0)
        # Faces that the near plane left whole repeat their last corner.
        sides = tl.where((x_3 == x_2) & (y_3 == y_2), 3.0, 4.0)
    there = valid & (x_0 < ABSENT)
    sides = tl.where(there, sides, 0.0)
    edges_of(edges, f, valid, sides, x_0, y_0, x_1, y_1, x_2, y_2, x_3, y_3)
    x_low = tl.minimum(tl.minimum(x_0, x_1), tl.minimum(x_2, x_3))
    x_high = tl.maximum(tl.maximum(x_0, x_1), tl.maximum(x_2, x_3))
    y_low = tl.minimum(tl.minimum(y_0, y_1), tl.minimum(y_2, y_3))
    y_high = tl.maximum(tl.maximum(y_0, y_1), tl.maximum(y_2, y_3))
    put_box(boxes, f, valid, there, radius, x_low, x_high, y_low, y_high, height, width)


# -------------------------------------------------------------------------------------------------
# Alpha
# -------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["height", "width"])
def alpha_tiles(
    corners, images, starts, stops, list_of_faces, alpha, rest, ties,
    height, width,
    CDF: tl.constexpr, GENERATOR: tl.constexpr, INVERSE: tl.constexpr, KIND: tl.constexpr,
    N: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr, BLOCK_FACES: tl.constexpr,
):  # fmt: skip
    """Alpha, 1 - alpha and, for the maximum, the number of faces that reach it.

    The faces of tile i are list_of_faces[starts[i] : stops[i]], or where starts[i] is negative the
    faces -1 - starts[i] .. stops[i] - 1.
    """
    program = tl.program_id(0)
    b, pixels, on, x, y = tile_pixels(program, height, width, tl.float32, TILE_H, TILE_W)
    image = images + b * IMAGE_COLUMNS
    p, cutoff = tl.load(image + FAMILY_P), tl.load(image + CUTOFF)
    total = tl.zeros([BLOCK_FACES, TILE_H * TILE_W], tl.float32)
    tied = tl.zeros([BLOCK_FACES, TILE_H * TILE_W], tl.int32)
    k, stop, listed = list_of_tile(starts, stops, program)
    while k < stop:
        f, valid = listed_faces(k, stop, list_of_faces, listed, corners, N, BLOCK_FACES)
        a, s = covered(x, y, corners, f, valid, image, CDF, N)
        kept = valid & (a > cutoff)
        if KIND == MAXIMUM:
            a = tl.where(kept, a, 0.0)
            tied = tl.where(a > total, 1, tied + (kept & (a == total)).to(tl.int32))
            total = tl.maximum(total, a)
        elif KIND == MEAN:
            total += tl.where(kept, a, 0.0)
        else:
            total += tl.where(kept, GENERATOR(a, s, p), 0.0)
        k += BLOCK_FACES
    if KIND == MAXIMUM:
        A = tl.max(total, 0)
        tl.store(ties + pixels, tl.sum(tl.where(total == A[None, :], tied, 0), 0), on)
        S = 1.0 - A
    elif KIND == MEAN:
        A = tl.sum(total, 0) * p
        S = A * 0.0 + 1.0  # never saturated: it is linear in every coverage
    else:
        A, S = INVERSE(tl.sum(total, 0), p)
    tl.store(alpha + pixels, A, on)
    tl.store(rest + pixels, S, on)


@triton.jit(do_not_specialize=["height", "width", "shares"])
def alpha_gradients(
    corners, image_of_face, images, boxes, alpha, rest, ties, grads, grad_corners, grad_scalars,
    height, width, shares,
    CDF: tl.constexpr, PDF: tl.constexpr, DSHAPE: tl.constexpr, WEIGHT: tl.constexpr,
    WEIGHT_P: tl.constexpr, KIND: tl.constexpr, SCALARS: tl.constexpr, ATOMIC: tl.constexpr,
    N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of the corners of a face, and what it adds to those of its image's scalars.

    `grads` is d(loss)/d(alpha). Program (face, share) takes every `shares`-th run of BLOCK pixels
    of the face's box. It writes to a row of its own, [shares, faces, ...], or adds to the face's.
    """
    f, share = tl.program_id(0).to(tl.int64), tl.program_id(1)
    b = tl.load(image_of_face + f)
    image = images + b * IMAGE_COLUMNS
    x0, y0, across, count = face_box(boxes, f)
    scale, p, cutoff = tl.load(image + SCALE), tl.load(image + FAMILY_P), tl.load(image + CUTOFF)
    shape, constant, psi = tl.load(image + SHAPE), tl.load(image + CONSTANT), tl.load(image + PSI)
    mirror = tl.where(tl.load(image + REVERSED) != 0.0, -1.0, 1.0)
    zeros = tl.zeros([BLOCK], tl.float32)
    x_0, y_0, x_1, y_1, x_2, y_2, x_3, y_3 = zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros
    of_scale, of_shift, of_shape, of_p = zeros, zeros, zeros, zeros
    k = share * BLOCK
    while k < count:
        entry = k + tl.arange(0, BLOCK)
        valid = entry < count
        pixels, x, y = box_pixels(entry, b, x0, y0, across, height, width)
        grad = tl.load(grads + pixels, valid, 0.0)
        A, S = tl.load(alpha + pixels, valid, 0.0), tl.load(rest + pixels, valid, 1.0)
        d, nx, ny, foot, start, end = signed_distance(x, y, corners, f, True, N)
        u, slope = argument(d, image)
        z = shifted(u, image)
        a, s = coverage(z, image, CDF)
        # A saturated pixel passes nothing on.
        kept = valid & (a > cutoff) & (S > 0.0)
        if KIND == MAXIMUM:
            among = tl.maximum(tl.load(ties + pixels, valid, 1), 1).to(tl.float32)
            weight = tl.where(a == A, 1.0 / among, 0.0)
        elif KIND == MEAN:
            weight = zeros + p
        else:
            weight = WEIGHT(a, s, A, S, p)
        grad_a = tl.where(kept, grad * weight, 0.0)
        grad_z = grad_a * PDF(z, shape, constant)
        move = grad_z * slope
        at = to_corner(0, move, foot, start, end)
        x_0, y_0 = x_0 + at * nx, y_0 + at * ny
        at = to_corner(1, move, foot, start, end)
        x_1, y_1 = x_1 + at * nx, y_1 + at * ny
        at = to_corner(2, move, foot, start, end)
        x_2, y_2 = x_2 + at * nx, y_2 + at * ny
        if N == 4:
            at = to_corner(3, move, foot, start, end)
            x_3, y_3 = x_3 + at * nx, y_3 + at * ny
        if SCALARS:
            of_scale -= grad_z * u / scale
            of_shift += grad_z * mirror
            if DSHAPE is not None:
                of_shape += grad_a * DSHAPE(z, shape, constant, psi) * mirror
            if WEIGHT_P is not None:
                of_p += tl.where(kept, grad * WEIGHT_P(a, s, A, S, p), 0.0)
        k += shares * BLOCK
    out = row_of(grad_corners, f, share, 2 * N, ATOMIC)
    put_three(out, x_0, y_0, x_1, ATOMIC)
    put_three(out + 3, y_1, x_2, y_2, ATOMIC)
    if N == 4:
        put(out + 6, x_3, ATOMIC)
        put(out + 7, y_3, ATOMIC)
    if SCALARS:
        scalars = row_of(grad_scalars, f, share, GRAD_COLUMNS, ATOMIC)
        put_scalars(scalars, of_scale, of_shift, of_shape, of_p, ATOMIC)


# -------------------------------------------------------------------------------------------------
# The nearest face
# -------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["height", "width"])
def nearest_tiles(
    corners, planes, limits, starts, stops, list_of_faces, nearest,
    height, width,
    N: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr, BLOCK_FACES: tl.constexpr,
):  # fmt: skip
    """The nearest face that covers each pixel, -1 where there is none. All in float64.

    planes[f] = (p, q, r): the key p x + q y + r grows towards the camera; it is clamped to
    limits[f, :2] and must reach limits[f, 2], the far plane. Ties go to the lower face.
    """
    program = tl.program_id(0)
    _image, pixels, on, x, y = tile_pixels(program, height, width, tl.float64, TILE_H, TILE_W)
    best = tl.zeros([BLOCK_FACES, TILE_H * TILE_W], tl.float64) + float("-inf")
    face = tl.zeros([BLOCK_FACES, TILE_H * TILE_W], tl.int64) - 1
    k, stop, listed = list_of_tile(starts, stops, program)
    while k < stop:
        f, valid = listed_faces(k, stop, list_of_faces, listed, corners, N, BLOCK_FACES)
        d, _, _, _, _, _ = signed_distance(x, y, corners, f, valid, N)
        key = tl.load(planes + f * 3, valid, 0.0) * x + tl.load(planes + f * 3 + 1, valid, 0.0) * y
        key += tl.load(planes + f * 3 + 2, valid, 0.0)
        low, high = tl.load(limits + f * 3, valid, 0.0), tl.load(limits + f * 3 + 1, valid, 0.0)
        key = tl.minimum(tl.maximum(key, low), high)
        far = tl.load(limits + f * 3 + 2, valid, 0.0)
        nearer = valid & (d >= 0.0) & (key >= far) & (key > best)
        best = tl.where(nearer, key, best)
        face = tl.where(nearer, f, face)
        k += BLOCK_FACES
    top = tl.max(best, 0)
    # Lanes saw the faces in order, but side by side: among equals the lowest wins.
    winner = tl.min(tl.where((best == top[None, :]) & (face >= 0), face, 2**62), 0)
    tl.store(nearest + pixels, tl.where(winner < 2**62, winner, -1), on)
