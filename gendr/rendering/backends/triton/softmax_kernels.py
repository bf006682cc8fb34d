"""The Triton kernels of softmax shading: colours forward, and all their gradients.

They walk tiles and faces as the kernels of silhouettes do, whose geometry and coverage they share.
Colours are linear on a face: given at its corners, interpolated perspective-correctly.

With depth z, k = 1 / ((far - near) gamma) and z* the least depth among the fragments of a pixel and
the background, a fragment weighs s = a exp((z* - z) k) and the background exp((z* - z_bg) k). In
terms of z nothing cancels in float32 as it would in those of the normalised depth.

Source: the contract, stage 4; Liu et al., Soft Rasterizer (2019), the softmax over depth.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gendr.rendering.backends.triton.shared_kernels import (
    BACKDROP,
    CUTOFF,
    GRAD_COLUMNS,
    IMAGE_COLUMNS,
    PSI,
    RATE,
    add_moves,
    advanced,
    argument,
    box_pixels,
    coverage,
    covered,
    face_box,
    least,
    list_of_tile,
    listed_faces,
    load_face,
    load_image,
    moved_corners,
    nearest_feature,
    no_moves,
    per_pixel,
    piece_of,
    put_scalars,
    put_three,
    row_of,
    tile_pixels,
)

# Columns of the attributes of a face: for its three corners w (the depth, or 1 for orthographic
# cameras), depth, and colour.
W = tl.constexpr(0)
DEPTH = tl.constexpr(3)
COLOUR = tl.constexpr(6)
ATTRIBUTES = tl.constexpr(15)
# Just above the least normal float32: a GPU may take what is below it for 0, and a face whose area,
# times 2, is no larger has no barycentric coordinates.
_LEAST = tl.constexpr(1.2e-38)
_HIGHEST = tl.constexpr(2.0**120)


@triton.jit
def _load_three(where):
    """Three numbers that follow each other: of the corners, or the channels of a colour."""
    return tl.load(where), tl.load(where + 1), tl.load(where + 2)


@triton.jit
def _load_colour(where, valid):
    """The three channels of pixels, 0 where there is none."""
    return (
        tl.load(where, valid, 0.0),
        tl.load(where + 1, valid, 0.0),
        tl.load(where + 2, valid, 0.0),
    )


@triton.jit
def _dot(a0, a1, a2, b0, b1, b2):
    """The sum of three products."""
    return a0 * b0 + a1 * b1 + a2 * b2


@triton.jit
def _less_mean(g0, g1, g2, w0, w1, w2):
    """The gradient through v / (v0 + v1 + v2), but for a division by this sum; w are its values."""
    mean = _dot(g0, g1, g2, w0, w1, w2)
    return g0 - mean, g1 - mean, g2 - mean


@triton.jit
def _through_clamp(g, b, total):
    """The gradient through the clamped sum to b: none where b was clamped."""
    return tl.where((b >= 0.0) & (b <= 1.0), g / total, 0.0)


@triton.jit
def _screen_weights(x, y, corners, f):
    """Barycentric coordinates b on the screen, as they are, and twice the area they belong to."""
    base = corners + f * 6
    ax, ay, bx = _load_three(base)
    by, cx, cy = _load_three(base + 3)
    area_a = (cx - bx) * (y - by) - (cy - by) * (x - bx)
    area_b = (ax - cx) * (y - cy) - (ay - cy) * (x - cx)
    area_c = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
    area = area_a + area_b + area_c
    flat = tl.abs(area) <= _LEAST
    area = tl.where(flat, 1.0, area)
    third = 1 / 3
    return (
        tl.where(flat, third, area_a / area),
        tl.where(flat, third, area_b / area),
        tl.where(flat, third, area_c / area),
        tl.where(flat, float("inf"), area),
    )


@triton.jit
def _clamped(b):
    return tl.minimum(tl.maximum(b, 0.0), 1.0)


@triton.jit
def _corner_weights(b0, b1, b2, w0, w1, w2):
    """Weights of the corners, corrected for perspective; the clamped sum and the last sum."""
    q0, q1, q2 = _clamped(b0), _clamped(b1), _clamped(b2)
    total = q0 + q1 + q2
    none = total <= 0.0
    total = tl.where(none, 1.0, total)
    third = 1 / 3
    q0 = tl.where(none, third, q0 / total)
    q1 = tl.where(none, third, q1 / total)
    q2 = tl.where(none, third, q2 / total)
    v0, v1, v2 = q0 / w0, q1 / w1, q2 / w2
    whole = v0 + v1 + v2
    return (
        v0 / whole,
        v1 / whole,
        v2 / whole,
        q0,
        q1,
        q2,
        tl.where(none, float("inf"), total),
        whole,
    )


@triton.jit
def _positive(w):
    """W, and 1 for corners on or behind the camera plane."""
    return tl.where(w > 0.0, w, 1.0)


@triton.jit
def shade_face(
    x, y, corners, edges, attributes, f, valid, image, cutoff, rate, sums,
    CDF: tl.constexpr, BLOCK_FACES: tl.constexpr,
):  # fmt: skip
    """One step of a tile: the least depth, and with its weights the sum of weights and colours.

    Arguments as those of `join_face`; `sums` and what is returned are these five.
    """
    front, total, red, green, blue = sums
    a, _ = covered(x, y, edges, f, image, CDF, 3, BLOCK_FACES)
    kept = a > least(edges, f, valid, cutoff)
    here = attributes + f * ATTRIBUTES
    b0, b1, b2, _ = _screen_weights(x, y, corners, f)
    W0, W1, W2 = _load_three(here + W)
    w0, w1, w2, _, _, _, _, _ = _corner_weights(
        b0, b1, b2, _positive(W0), _positive(W1), _positive(W2)
    )
    z0, z1, z2 = _load_three(here + DEPTH)
    z = _dot(w0, w1, w2, z0, z1, z2)
    closer = tl.where(kept, tl.minimum(front, z), front)
    fade = tl.exp((closer - front) * rate)
    s = tl.where(kept, a * tl.exp((closer - tl.where(kept, z, closer)) * rate), 0.0)
    r0, g0, l0 = _load_three(here + COLOUR)
    r1, g1, l1 = _load_three(here + COLOUR + 3)
    r2, g2, l2 = _load_three(here + COLOUR + 6)
    return (
        closer,
        total * fade + s,
        red * fade + s * _dot(w0, w1, w2, r0, r1, r2),
        green * fade + s * _dot(w0, w1, w2, g0, g1, g2),
        blue * fade + s * _dot(w0, w1, w2, l0, l1, l2),
    )


@triton.jit(do_not_specialize=["height", "width"])
def softmax_tiles(
    corners, edges, attributes, images, starts, stops, list_of_faces,
    colours, backgrounds, totals, nearest, height, width,
    CDF: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr, BLOCK_FACES: tl.constexpr,
):  # fmt: skip
    """Colours without the background's part [P, 3], its share [P], the sum of weights, and z*.

    The lists of faces are those of `alpha_tiles`.
    """
    program = tl.program_id(0)
    b, pixels, on, x, y = tile_pixels(
        program, height, width, tl.float32, TILE_H, TILE_W, BLOCK_FACES
    )
    row = images + b * IMAGE_COLUMNS
    image, cutoff, rate = load_image(row), tl.load(row + CUTOFF), tl.load(row + RATE)
    backdrop = tl.load(row + BACKDROP)
    zeros = per_pixel(tl.float32, TILE_H, TILE_W, BLOCK_FACES)
    sums = zeros + backdrop, zeros, zeros, zeros, zeros
    k, stop, listed = list_of_tile(starts, stops, program)
    while k < stop:
        f, valid = listed_faces(k, stop, list_of_faces, listed, BLOCK_FACES)
        sums = shade_face(
            x, y, corners, edges, attributes, f, valid, image, cutoff, rate, sums, CDF, BLOCK_FACES
        )
        k += BLOCK_FACES
    z_star, total, red, green, blue = sums
    if BLOCK_FACES > 1:
        front = z_star
        z_star = tl.min(front, 0)
        fade = tl.exp((z_star[None] - front) * rate)
        total, red = tl.sum(total * fade, 0), tl.sum(red * fade, 0)
        green, blue = tl.sum(green * fade, 0), tl.sum(blue * fade, 0)
    behind = tl.exp((z_star - backdrop) * rate)
    weight = total + behind
    tl.store(colours + pixels * 3, red / weight, on)
    tl.store(colours + pixels * 3 + 1, green / weight, on)
    tl.store(colours + pixels * 3 + 2, blue / weight, on)
    tl.store(backgrounds + pixels, behind / weight, on)
    tl.store(totals + pixels, weight, on)
    tl.store(nearest + pixels, z_star, on)


@triton.jit(do_not_specialize=["height", "width", "shares", "faces", "extra"])
def softmax_gradients(
    corners, edges, attributes, image_of_face, images, boxes, colours, backgrounds, totals, nearest,
    grad_colours, grad_backgrounds, grad_corners, grad_attributes, grad_scalars,
    height, width, shares, first_pieces, face_of_piece, numbers, faces, extra,
    CDF: tl.constexpr, PDF: tl.constexpr, DSHAPE: tl.constexpr, SCALARS: tl.constexpr,
    ATOMIC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of corners and attributes of a face, and of its image's scalars.

    Programs and rows of the results as in `alpha_gradients`. With F the colour and B the share of
    the background, dL/ds = (dL/dF . (c - F) - dL/dB B) / sum of weights; the rest is the chain rule
    back through depth, perspective, clamping and areas.
    """
    program, share = tl.program_id(0), tl.program_id(1)
    f, first, last = piece_of(program, faces, first_pieces, face_of_piece, numbers, extra)
    b = tl.load(image_of_face + f)
    at = images + b * IMAGE_COLUMNS
    x0, y0, across, count = face_box(boxes, f)
    inverse = tl.div_rn(1.0, across.to(tl.float32))
    inverse_scale, squared, art, shift, mirrored, shape, constant = load_image(at)
    rate, psi = tl.load(at + RATE), tl.load(at + PSI)
    base, here = corners + f * 6, attributes + f * ATTRIBUTES
    ax, ay, bx = _load_three(base)
    by, cx, cy = _load_three(base + 3)
    raw0, raw1, raw2 = _load_three(here + W)
    W0, W1, W2 = _positive(raw0), _positive(raw1), _positive(raw2)
    z0, z1, z2 = _load_three(here + DEPTH)
    r0, g0, l0 = _load_three(here + COLOUR)
    r1, g1, l1 = _load_three(here + COLOUR + 3)
    r2, g2, l2 = _load_three(here + COLOUR + 6)
    zeros = tl.zeros([BLOCK], tl.float32)
    to_ax, to_ay, to_bx, to_by, to_cx, to_cy = zeros, zeros, zeros, zeros, zeros, zeros
    to_W0, to_W1, to_W2, to_z0, to_z1, to_z2 = zeros, zeros, zeros, zeros, zeros, zeros
    to_r0, to_g0, to_l0, to_r1, to_g1, to_l1 = zeros, zeros, zeros, zeros, zeros, zeros
    to_r2, to_g2, to_l2 = zeros, zeros, zeros
    of_scale, of_shift, of_shape, of_rate = zeros, zeros, zeros, zeros
    mirror = tl.where(mirrored, -1.0, 1.0)
    lanes = tl.arange(0, BLOCK)
    k, last = first + share * BLOCK, tl.minimum(last, count)
    row, column = k // across, k % across
    while k < last:
        valid = lanes < last - k
        pixels, x, y = box_pixels(row, column, lanes, b, x0, y0, across, inverse, height, width)
        # Rows and the cutoff are read again for every block of pixels: registers are scarce here.
        d, feature = nearest_feature(x, y, load_face(edges, f, 3), 3)
        u, slope = argument(d, inverse_scale, squared, art)
        z_law = u + shift
        a, _ = coverage(z_law, mirrored, shape, constant, CDF)
        kept = valid & (a > tl.load(at + CUTOFF))
        weight = tl.load(totals + pixels, valid, 1.0)
        F_r, F_g, F_l = _load_colour(colours + pixels * 3, valid)
        on_r, on_g, on_l = _load_colour(grad_colours + pixels * 3, valid)
        on_background = tl.load(grad_backgrounds + pixels, valid, 0.0)
        on_background *= tl.load(backgrounds + pixels, valid, 0.0)
        b0, b1, b2, area = _screen_weights(x, y, corners, f)
        w0, w1, w2, q0, q1, q2, clamped_sum, whole = _corner_weights(b0, b1, b2, W0, W1, W2)
        z = _dot(w0, w1, w2, z0, z1, z2)
        past = tl.where(kept, tl.load(nearest + pixels, valid, 0.0) - z, 0.0)
        # A sum of coverages that are almost 0 has no inverse.
        shine = tl.minimum(tl.exp(past * rate) / weight, _HIGHEST)
        s = tl.where(kept, a * shine, 0.0)  # the share of this fragment in the pixel
        on_c = on_r * (_dot(w0, w1, w2, r0, r1, r2) - F_r)
        on_c += on_g * (_dot(w0, w1, w2, g0, g1, g2) - F_g)
        on_c += on_l * (_dot(w0, w1, w2, l0, l1, l2) - F_l)
        on_s = on_c - on_background

        # Coverage: the distance, the law, its parameters.
        on_a = tl.where(kept, on_s * shine, 0.0)
        on_law = on_a * PDF(z_law, shape, constant)
        # Colours move the corners too: these sums are the corners' at once.
        face = load_face(edges, f, 3)
        moves = add_moves(no_moves(zeros), on_law * slope, x, y, face, feature, 3)
        x_a, y_a, x_b, y_b, x_c, y_c, _, _ = moved_corners(moves, face, mirror, 3)
        to_ax, to_ay, to_bx = to_ax + x_a, to_ay + y_a, to_bx + x_b
        to_by, to_cx, to_cy = to_by + y_b, to_cx + x_c, to_cy + y_c
        on_exponent = on_s * s
        if SCALARS:
            of_scale += on_law * u
            of_shift += on_law
            of_rate += on_exponent * past
            if DSHAPE is not None:
                of_shape += on_a * DSHAPE(z_law, shape, constant, psi)

        # Colours and depths of the corners.
        on_z = -on_exponent * rate
        to_z0, to_z1, to_z2 = to_z0 + on_z * w0, to_z1 + on_z * w1, to_z2 + on_z * w2
        part_r, part_g, part_l = on_r * s, on_g * s, on_l * s
        to_r0, to_r1, to_r2 = to_r0 + part_r * w0, to_r1 + part_r * w1, to_r2 + part_r * w2
        to_g0, to_g1, to_g2 = to_g0 + part_g * w0, to_g1 + part_g * w1, to_g2 + part_g * w2
        to_l0, to_l1, to_l2 = to_l0 + part_l * w0, to_l1 + part_l * w1, to_l2 + part_l * w2

        # Their weights: perspective, clamping, areas.
        on_0 = _dot(part_r, part_g, part_l, r0, g0, l0) + on_z * z0
        on_1 = _dot(part_r, part_g, part_l, r1, g1, l1) + on_z * z1
        on_2 = _dot(part_r, part_g, part_l, r2, g2, l2) + on_z * z2
        on_0, on_1, on_2 = _less_mean(on_0, on_1, on_2, w0, w1, w2)
        on_0, on_1, on_2 = on_0 / (whole * W0), on_1 / (whole * W1), on_2 / (whole * W2)
        to_W0, to_W1 = to_W0 - on_0 * q0 / W0, to_W1 - on_1 * q1 / W1
        to_W2 -= on_2 * q2 / W2
        on_0, on_1, on_2 = _less_mean(on_0, on_1, on_2, q0, q1, q2)
        on_0, on_1 = _through_clamp(on_0, b0, clamped_sum), _through_clamp(on_1, b1, clamped_sum)
        on_2 = _through_clamp(on_2, b2, clamped_sum)
        on_0, on_1, on_2 = _less_mean(on_0, on_1, on_2, b0, b1, b2)
        on_0, on_1, on_2 = on_0 / area, on_1 / area, on_2 / area
        to_ax += on_1 * (y - cy) + on_2 * (by - y)
        to_ay += on_1 * (cx - x) + on_2 * (x - bx)
        to_bx += on_0 * (cy - y) + on_2 * (y - ay)
        to_by += on_0 * (x - cx) + on_2 * (ax - x)
        to_cx += on_0 * (y - by) + on_1 * (ay - y)
        to_cy += on_0 * (bx - x) + on_1 * (x - ax)
        k += shares * BLOCK
        row, column = advanced(row, column, shares * BLOCK, across, inverse)
    out = row_of(grad_corners, program, share, 6, ATOMIC)
    put_three(out, to_ax, to_ay, to_bx, ATOMIC)
    put_three(out + 3, to_by, to_cx, to_cy, ATOMIC)
    # Read again behind the stores: else the compiler holds them over the loop.
    raw0, raw1, raw2 = _load_three(here + W)
    to_W0, to_W1 = tl.where(raw0 > 0.0, to_W0, 0.0), tl.where(raw1 > 0.0, to_W1, 0.0)
    to_W2 = tl.where(raw2 > 0.0, to_W2, 0.0)
    out = row_of(grad_attributes, program, share, ATTRIBUTES, ATOMIC)
    put_three(out + W, to_W0, to_W1, to_W2, ATOMIC)
    put_three(out + DEPTH, to_z0, to_z1, to_z2, ATOMIC)
    put_three(out + COLOUR, to_r0, to_g0, to_l0, ATOMIC)
    put_three(out + COLOUR + 3, to_r1, to_g1, to_l1, ATOMIC)
    put_three(out + COLOUR + 6, to_r2, to_g2, to_l2, ATOMIC)
    if SCALARS:
        out = row_of(grad_scalars, program, share, GRAD_COLUMNS, ATOMIC)
        # The inverse of the scale has the sign of the mirror.
        put_scalars(
            out, of_scale * -inverse_scale, of_shift * mirror, of_shape * mirror, of_rate, ATOMIC
        )
