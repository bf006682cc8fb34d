"""The Triton kernels of silhouettes: tables of faces, alpha forward, its gradients.

- forward: one program per screen tile walks the faces of its list, or all faces of its
  image, BLOCK_FACES at a time against all pixels of the tile;
- backward: one program per face (or per face and share of its pixels) walks the pixels in reach,
  so that sums stay in registers, no float atomics are needed and nothing of size pixels x faces
  is ever stored.

Distributions and families come in as compile-time functions, see `gendr/distributions/triton.py`
and `gendr/tnorms/triton.py`; everything else about a renderer is a row of the image table.
Arithmetic is float32.

Pixels of all images are numbered through, row by row; so are tiles.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gendr.rendering.backends.triton.shared_kernels import (
    ABSENT,
    CUTOFF,
    FAMILY_P,
    GRAD_COLUMNS,
    IMAGE_COLUMNS,
    MAXIMUM,
    MEAN,
    PRODUCT,
    PSI,
    RADIUS,
    SCALED,
    add_moves,
    advanced,
    argument,
    box_pixels,
    coverage,
    covered,
    edges_of,
    face_box,
    least,
    list_of_tile,
    listed_faces,
    load_face,
    load_image,
    meets_tile,
    moved_corners,
    nearest_feature,
    no_moves,
    per_pixel,
    piece_of,
    put,
    put_box,
    row_of,
    sum_scaled,
    tile_pixels,
)

# -------------------------------------------------------------------------------------------------
# Tables
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


@triton.jit
def joined_lanes(A, S, BLOCK_FACES: tl.constexpr):
    """The probabilistic sum of a block of faces, which were summed up side by side: (A, S)."""
    lanes = tl.arange(0, BLOCK_FACES)[:, None, None]
    whole, rest = tl.sum(tl.where(lanes == 0, A, 0.0), 0), tl.sum(tl.where(lanes == 0, S, 0.0), 0)
    for k in tl.static_range(1, BLOCK_FACES):
        whole += rest * tl.sum(tl.where(lanes == k, A, 0.0), 0)
        rest *= tl.sum(tl.where(lanes == k, S, 0.0), 0)
    return whole, rest


@triton.jit
def join_face(
    x, y, edges, f, valid, image, cutoff, p, total, other,
    CDF: tl.constexpr, GENERATOR: tl.constexpr, KIND: tl.constexpr,
    N: tl.constexpr, BLOCK_FACES: tl.constexpr,
):  # fmt: skip
    """One step of a tile: join one face, or a block of them, to what is there.

    Args:
        x: of the pixels' centres; see `tile_pixels`.
        y: of the pixels' centres.
        edges: the table of edges.
        f: the face; see `listed_faces`.
        valid: whether there is one.
        image: from `load_image`.
        cutoff: what coverage must exceed to count.
        p: of the family.
        total: what `finished` makes alpha of, from zeros on.
        other: for PRODUCT the rest, from ones on; for MAXIMUM how many faces reach it; for SCALED
            the sum of generators in units of total^q, any number while total is 0.
        CDF: of the distribution.
        GENERATOR: of the family, if it is ARCHIMEDEAN or SCALED.
        KIND: how faces are joined.
        N: sides that a face may have.
        BLOCK_FACES: how many faces `f` names.

    Returns:
        The new `total` and `other`.
    """
    a, s = covered(x, y, edges, f, image, CDF, N, BLOCK_FACES)
    kept = a > least(edges, f, valid, cutoff)
    if KIND == MAXIMUM:
        a = tl.where(kept, a, 0.0)
        other = tl.where(a > total, 1, other + (kept & (a == total)).to(tl.int32))
        total = tl.maximum(total, a)
    elif KIND == MEAN:
        total += tl.where(kept, a, 0.0)
    elif KIND == PRODUCT:
        total += tl.where(kept, a, 0.0) * other
        other *= tl.where(kept, s, 1.0)
    elif KIND == SCALED:
        u, k = GENERATOR(a, s, p)
        total, other = sum_scaled(total, other, tl.where(kept, u, 0.0), tl.where(kept, k, 0.0), p)
    else:
        total += tl.where(kept, GENERATOR(a, s, p), 0.0)
    return total, other


@triton.jit
def empty_join(
    KIND: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr, BLOCK_FACES: tl.constexpr
):
    """(total, other) of `join_face` before the first face."""
    total = per_pixel(tl.float32, TILE_H, TILE_W, BLOCK_FACES)
    other = total + 1.0
    if KIND == MAXIMUM:
        other = per_pixel(tl.int32, TILE_H, TILE_W, BLOCK_FACES)
    return total, other


@triton.jit
def joined_block(total, other, p, KIND: tl.constexpr, BLOCK_FACES: tl.constexpr):
    """(total, other) of a tile, of those of faces that were summed up side by side."""
    if BLOCK_FACES > 1:
        if KIND == MAXIMUM:
            most = tl.max(total, 0)
            other = tl.sum(tl.where(total == most[None], other, 0), 0)
            total = most
        elif KIND == PRODUCT:
            total, other = joined_lanes(total, other, BLOCK_FACES)
        elif KIND == SCALED:
            most = tl.max(total, 0)
            _u, shares = sum_scaled(most[None], 0.0, total, other, p)
            total, other = most, tl.sum(shares, 0)
        else:
            total, other = tl.sum(total, 0), tl.sum(other, 0)
    return total, other


@triton.jit
def joined_segments(total, other, next_total, next_other, p, KIND: tl.constexpr):
    """(total, other) of a segment of faces and of the next one, together."""
    if KIND == MAXIMUM:
        tied = tl.where(next_total == total, other + next_other, other)
        other = tl.where(next_total > total, next_other, tied)
        total = tl.maximum(total, next_total)
    elif KIND == PRODUCT:
        total += next_total * other
        other *= next_other
    elif KIND == SCALED:
        total, other = sum_scaled(total, other, next_total, next_other, p)
    else:
        total += next_total
    return total, other


@triton.jit
def finished(total, other, p, INVERSE: tl.constexpr, KIND: tl.constexpr):
    """Alpha and 1 - alpha, of (total, other) of all faces of a tile."""
    A = total
    if KIND == MAXIMUM:
        S = 1.0 - A
    elif KIND == MEAN:
        A = A * p
        S = A * 0.0 + 1.0  # never saturated: it is linear in every coverage
    elif KIND == PRODUCT:
        S = other
        A = tl.where(S < 0.5, 1.0 - S, A)  # at most 1
    elif KIND == SCALED:
        A, S = INVERSE(total, other, p)
    else:
        A, S = INVERSE(A, p)
    return A, S


@triton.jit
def of_segment(segment, TILE_H: tl.constexpr, TILE_W: tl.constexpr):
    """Where `alpha_tiles` writes the pixels [TILE_H, TILE_W] of a segment."""
    pixels = tl.arange(0, TILE_H)[:, None] * TILE_W + tl.arange(0, TILE_W)[None, :]
    return segment.to(tl.int64) * (TILE_H * TILE_W) + pixels


@triton.jit(
    do_not_specialize=["every", "height", "width"],
    # Or they are stored in another layout than the images.
    do_not_specialize_on_alignment=["totals", "others"],
)
def alpha_tiles(
    edges, boxes, images, starts, stops, list_of_faces, segments, tile_of_segment,
    alpha, rest, ties, totals, others, every, height, width,
    CDF: tl.constexpr, GENERATOR: tl.constexpr, INVERSE: tl.constexpr, KIND: tl.constexpr,
    N: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr, BLOCK_FACES: tl.constexpr,
    SEGMENT: tl.constexpr,
):  # fmt: skip
    """Alpha, 1 - alpha and, for the maximum, the number of faces that reach it.

    The faces of tile i are list_of_faces[starts[i] : stops[i]], or where starts[i] is negative
    those of -1 - starts[i] .. stops[i] - 1 whose boxes meet the tile. They are summed up in
    segments of SEGMENT faces, whoever does it, so that the same bits come out.

    Programs 0 .. every - 1 are the tiles. If a tile's segments are numbered from segments[i] >= 0
    on, its program takes the first, and leaves (total, other) where the results will be; the extra
    program every + e takes segment e, of tile_of_segment[e], and writes to totals[e] and others[e].
    `join_segments` does the rest.
    """
    program = tl.program_id(0)
    extra = program - every
    tile = tl.load(tile_of_segment + extra, extra >= 0, 0)
    tile = tl.where(extra < 0, program, tile)
    idle, tile = tile < 0, tl.maximum(tile, 0)
    b, _p, _o, x, y = tile_pixels(tile, height, width, tl.float32, TILE_H, TILE_W, BLOCK_FACES)
    row = images + b * IMAGE_COLUMNS
    image, p, cutoff = load_image(row), tl.load(row + FAMILY_P), tl.load(row + CUTOFF)
    k, stop, listed = list_of_tile(starts, stops, tile)
    segment = tl.load(segments + tile)
    if segment >= 0:
        k += tl.where(extra < 0, 0, extra - segment + 1) * SEGMENT
        stop = tl.minimum(stop, k + SEGMENT)
    stop = tl.where(idle, k, stop)
    total = tl.zeros([TILE_H, TILE_W], tl.float32)
    other = total + 1.0
    if KIND == MAXIMUM:
        other = tl.zeros([TILE_H, TILE_W], tl.int32)
    while k < stop:
        part, part_other = empty_join(KIND, TILE_H, TILE_W, BLOCK_FACES)
        n = 0
        while (n < SEGMENT) & (k < stop):
            f, valid = listed_faces(k, stop, list_of_faces, listed, BLOCK_FACES)
            if listed:
                n += BLOCK_FACES
            else:
                valid = valid & meets_tile(boxes, f, tile, height, width, TILE_H, TILE_W)
                n += BLOCK_FACES if BLOCK_FACES > 1 else valid.to(tl.int32)
            part, part_other = join_face(
                x, y, edges, f, valid, image, cutoff, p, part, part_other,
                CDF, GENERATOR, KIND, N, BLOCK_FACES,
            )  # fmt: skip
            k += BLOCK_FACES
        part, part_other = joined_block(part, part_other, p, KIND, BLOCK_FACES)
        total, other = joined_segments(total, other, part, part_other, p, KIND)
    # What is found anew and read again need not be held over the loop, where registers are scarce.
    if program >= every:
        at = of_segment(program - every, TILE_H, TILE_W)
        tl.store(totals + at, total)
        tl.store(others + at, other.to(tl.float32))
    else:
        _b, pixels, on, _x, _y = tile_pixels(program, height, width, tl.float32, TILE_H, TILE_W, 1)
        A, S = finished(total, other, p, INVERSE, KIND)
        if tl.load(segments + program) >= 0:
            A, S = total, other.to(tl.float32)
        tl.store(alpha + pixels, A, on)
        tl.store(rest + pixels, S, on)
        if KIND == MAXIMUM:
            tl.store(ties + pixels, other, on)


@triton.jit(do_not_specialize=["height", "width"])
def join_segments(
    images, starts, stops, segments, tile_of_segment, alpha, rest, ties, totals, others,
    height, width,
    INVERSE: tl.constexpr, KIND: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr,
    SEGMENT: tl.constexpr,
):  # fmt: skip
    """What `alpha_tiles` writes, of tiles with several segments; in their order."""
    program = tl.program_id(0)
    tile = tl.load(tile_of_segment + program)
    if tile >= 0:
        if tl.load(segments + tile) == program:
            b, pixels, on, _x, _y = tile_pixels(tile, height, width, tl.float32, TILE_H, TILE_W, 1)
            p = tl.load(images + b * IMAGE_COLUMNS + FAMILY_P)
            total, other = tl.load(alpha + pixels, on, 0.0), tl.load(rest + pixels, on, 1.0)
            more = (tl.load(stops + tile) - tl.load(starts + tile) - 1) // SEGMENT
            at = of_segment(program, TILE_H, TILE_W)
            k = 0
            while k < more:
                total, other = joined_segments(
                    total, other, tl.load(totals + at), tl.load(others + at), p, KIND
                )
                at += TILE_H * TILE_W
                k += 1
            A, S = finished(total, other, p, INVERSE, KIND)
            tl.store(alpha + pixels, A, on)
            tl.store(rest + pixels, S, on)
            if KIND == MAXIMUM:
                tl.store(ties + pixels, other.to(tl.int32), on)


@triton.jit
def alpha_pixels(
    sums, row, column, lanes, stop, face, image, numbers, geometry, b,
    alpha, rest, ties, grads,
    CDF: tl.constexpr, PDF: tl.constexpr, DSHAPE: tl.constexpr, WEIGHT: tl.constexpr,
    WEIGHT_P: tl.constexpr, KIND: tl.constexpr, SCALARS: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """One step of a face: add what some of its pixels say.

    Args:
        sums: (of the corners, see `add_moves`; of the scalars, each lane for itself).
        row: of the box, that of the entry before the first lane's; see `box_pixels`.
        column: of that entry.
        lanes: numbers of entries from there on.
        stop: how many of them there are.
        face: from `load_face`.
        image: from `load_image`.
        numbers: p, cutoff and psi of the image.
        geometry: of the box and the image, the last arguments of `box_pixels`.
        b: number of the image.
        alpha: of all pixels.
        rest: 1 - alpha.
        ties: how many faces reach the maximum.
        grads: d(loss)/d(alpha).
        CDF: of the distribution; and its other functions.
        PDF: of the distribution.
        DSHAPE: of the distribution, if the gradient of its shape is wanted.
        WEIGHT: of the family, if it has one.
        WEIGHT_P: of the family, if the gradient of its parameter is wanted.
        KIND: how faces are joined.
        SCALARS: whether the gradients of scalars are wanted.
        N: sides that a face may have.

    Returns:
        The new sums; they lack factors, which `alpha_gradients` puts in at the end.
    """
    corner_sums, of_scale, of_shift, of_shape, of_p = sums
    p, cutoff, psi = numbers
    rate, squared, art, shift, mirrored, shape, constant = image
    x0, y0, across, inverse, height, width = geometry
    valid = lanes < stop
    pixels, x, y = box_pixels(row, column, lanes, b, x0, y0, across, inverse, height, width)
    grad = tl.load(grads + pixels, valid, 0.0)
    A, S = tl.load(alpha + pixels, valid, 0.0), tl.load(rest + pixels, valid, 1.0)
    d, feature = nearest_feature(x, y, face, N)
    u, slope = argument(d, rate, squared, art)
    z = u + shift
    a, s = coverage(z, mirrored, shape, constant, CDF)
    # A saturated pixel passes nothing on.
    kept = valid & (a > cutoff) & (S > 0.0)
    if KIND == MAXIMUM:
        among = tl.maximum(tl.load(ties + pixels, valid, 1), 1).to(tl.float32)
        weight = tl.where(a == A, 1.0 / among, 0.0)
    elif KIND == MEAN:
        weight = a * 0.0 + p
    else:
        weight = WEIGHT(a, s, A, S, p)
    grad_a = tl.where(kept, grad * weight, 0.0)
    grad_z = grad_a * PDF(z, shape, constant)
    corner_sums = add_moves(corner_sums, grad_z * slope, x, y, face, feature, N)
    if SCALARS:
        of_scale += grad_z * u
        of_shift += grad_z
        if DSHAPE is not None:
            of_shape += grad_a * DSHAPE(z, shape, constant, psi)
        if WEIGHT_P is not None:
            of_p += tl.where(kept, grad * WEIGHT_P(a, s, A, S, p), 0.0)
    return corner_sums, of_scale, of_shift, of_shape, of_p


@triton.jit(do_not_specialize=["height", "width", "faces"])
def alpha_gradients(
    edges, image_of_face, images, boxes, alpha, rest, ties, grads, grad_corners, grad_scalars,
    height, width, pieces, faces,
    CDF: tl.constexpr, PDF: tl.constexpr, DSHAPE: tl.constexpr, WEIGHT: tl.constexpr,
    WEIGHT_P: tl.constexpr, KIND: tl.constexpr, SCALARS: tl.constexpr,
    N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of the corners of a face, and what it adds to those of its image's scalars.

    `grads` is d(loss)/d(alpha). Program (face, share) takes every `shares`-th run of BLOCK pixels
    of the face's box, or of a piece of it, see `piece_of`. It writes to a row of its own, [shares,
    programs, ...].
    """
    program, share, shares = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    f, first, last = piece_of(program, pieces, faces)
    b = tl.load(image_of_face + f)
    at = images + b * IMAGE_COLUMNS
    x0, y0, across, count = face_box(boxes, f)
    inverse = tl.div_rn(1.0, across.to(tl.float32))
    face, image = load_face(edges, f, N), load_image(at)
    of_image = tl.load(at + FAMILY_P), tl.load(at + CUTOFF), tl.load(at + PSI)
    geometry = x0, y0, across, inverse, height, width
    zeros = tl.zeros([BLOCK], tl.float32)
    sums = no_moves(zeros), zeros, zeros, zeros, zeros
    lanes = tl.arange(0, BLOCK)
    k, last = first + share * BLOCK, tl.minimum(last, count)
    row, column = k // across, k % across
    while k < last:
        sums = alpha_pixels(
            sums, row, column, lanes, last - k, face, image, of_image, geometry, b,
            alpha, rest, ties, grads,
            CDF, PDF, DSHAPE, WEIGHT, WEIGHT_P, KIND, SCALARS, N,
        )  # fmt: skip
        k += shares * BLOCK
        row, column = advanced(row, column, shares * BLOCK, across, inverse)
    corner_sums, of_scale, of_shift, of_shape, of_p = sums
    mirror = tl.where(image[4], -1.0, 1.0)
    moved = moved_corners(corner_sums, face, mirror, N)
    put(row_of(grad_corners, program, share, 2 * N), moved, 2 * N)
    if SCALARS:
        of_scale *= -image[0]  # the inverse of the scale, with the sign of the mirror
        scalars = of_scale, of_shift * mirror, of_shape * mirror, of_p
        put(row_of(grad_scalars, program, share, GRAD_COLUMNS), scalars, GRAD_COLUMNS)


# -------------------------------------------------------------------------------------------------
# The gradient of the parameter of a family
# -------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["pixels", "blocks"])
def through_totals(
    images, alpha, rest, grads, parts, pixels, blocks, WEIGHT_P: tl.constexpr, BLOCK: tl.constexpr
):
    """What BLOCK pixels of an image take away from the gradient of p; `parts` is [B, blocks].

    The derivative of the total by p is the sum of `weight_p` over the faces, which
    `alpha_gradients` adds up, less that of the total itself, which is found here.
    """
    program = tl.program_id(0).to(tl.int64)
    b = program // blocks
    pixel = (program % blocks) * BLOCK + tl.arange(0, BLOCK)
    on, at = pixel < pixels, b * pixels + pixel
    A, S = tl.load(alpha + at, on, 0.0), tl.load(rest + at, on, 1.0)
    grad = tl.load(grads + at, on, 0.0)
    own = WEIGHT_P(A, S, A, S, tl.load(images + b * IMAGE_COLUMNS + FAMILY_P))
    tl.store(parts + program, tl.sum(tl.where(S > 0.0, grad * own, 0.0), 0))
