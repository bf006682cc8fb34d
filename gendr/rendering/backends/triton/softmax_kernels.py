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

from gendr.rendering.backends.triton.kernels import (
    ABSENT,
    BACKDROP,
    CONSTANT,
    CUTOFF,
    GRAD_COLUMNS,
    GRAD_LAST,
    GRAD_SCALE,
    GRAD_SHAPE,
    GRAD_SHIFT,
    IMAGE_COLUMNS,
    PSI,
    RATE,
    REVERSED,
    SCALE,
    SHAPE,
    argument,
    centre,
    coverage,
    put,
    shifted,
    signed_distance,
    tile_pixels,
)

# Columns of the attributes of a face: for its three corners w (the depth, or 1 for orthographic
# cameras), depth, and colour.
W = tl.constexpr(0)
DEPTH = tl.constexpr(3)
COLOUR = tl.constexpr(6)
ATTRIBUTES = tl.constexpr(15)


@triton.jit
def _screen_weights(x, y, corners, f, valid):
    """Barycentric coordinates b on the screen, as they are, and twice the area they belong to."""
    base = corners + f * 6
    ax, ay = tl.load(base, valid, 0.0), tl.load(base + 1, valid, 0.0)
    bx, by = tl.load(base + 2, valid, 0.0), tl.load(base + 3, valid, 0.0)
    cx, cy = tl.load(base + 4, valid, 0.0), tl.load(base + 5, valid, 0.0)
    area_a = (cx - bx) * (y - by) - (cy - by) * (x - bx)
    area_b = (ax - cx) * (y - cy) - (ay - cy) * (x - cx)
    area_c = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
    area = area_a + area_b + area_c
    flat = tl.abs(area) <= 1.2e-38
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


@triton.jit(
    do_not_specialize=["first_tile", "listed", "height", "width"],
    do_not_specialize_on_alignment=["stops"],  # which may be a slice of other numbers
)
def softmax_tiles(
    corners, attributes, images, starts, stops, list_of_faces,
    colours, backgrounds, totals, nearest, first_tile, listed, height, width,
    CDF: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr, BLOCK_FACES: tl.constexpr,
):  # fmt: skip
    """Colours without the background's part [P, 3], its share [P], the sum of weights, and z*.

    The lists of faces are those of `alpha_tiles`.
    """
    program = tl.program_id(0)
    b, pixels, row, column, on = tile_pixels(first_tile + program, height, width, TILE_H, TILE_W)
    image = images + b * IMAGE_COLUMNS
    side = tl.minimum(height, width)
    x = centre(column, width, side, 1, tl.float32)[None, :]
    y = centre(row, height, side, -1, tl.float32)[None, :]
    cutoff, rate = tl.load(image + CUTOFF), tl.load(image + RATE)
    backdrop = tl.load(image + BACKDROP)
    zeros = tl.zeros([BLOCK_FACES, TILE_H * TILE_W], tl.float32)
    front, total, red, green, blue = zeros + backdrop, zeros, zeros, zeros, zeros
    k, stop = tl.load(starts + program), tl.load(stops + program)
    while k < stop:
        entry = (k + tl.arange(0, BLOCK_FACES))[:, None]
        valid = entry < stop
        f = tl.load(list_of_faces + tl.where(listed != 0, entry, 0), valid, 0)
        f = tl.where(listed != 0, f, entry).to(tl.int64)
        valid = valid & (tl.load(corners + f * 6, valid, 0.0) < ABSENT)
        d, _, _, _, _, _ = signed_distance(x, y, corners, f, valid, 3)
        u, _ = argument(d, image)
        a, _ = coverage(shifted(u, image), image, CDF)
        kept = valid & (a > cutoff)
        here = attributes + f * ATTRIBUTES
        b0, b1, b2, _ = _screen_weights(x, y, corners, f, valid)
        w0, w1, w2, _, _, _, _, _ = _corner_weights(
            b0, b1, b2,
            _positive(tl.load(here + W, valid, 1.0)),
            _positive(tl.load(here + W + 1, valid, 1.0)),
            _positive(tl.load(here + W + 2, valid, 1.0)),
        )  # fmt: skip
        z = (
            w0 * tl.load(here + DEPTH, valid, 0.0)
            + w1 * tl.load(here + DEPTH + 1, valid, 0.0)
            + w2 * tl.load(here + DEPTH + 2, valid, 0.0)
        )
        closer = tl.where(kept, tl.minimum(front, z), front)
        fade = tl.exp((closer - front) * rate)
        s = tl.where(kept, a * tl.exp((closer - tl.where(kept, z, closer)) * rate), 0.0)
        front, total = closer, total * fade + s
        here += COLOUR
        red = red * fade + s * _mix(here, 0, w0, w1, w2, valid)
        green = green * fade + s * _mix(here, 1, w0, w1, w2, valid)
        blue = blue * fade + s * _mix(here, 2, w0, w1, w2, valid)
        k += BLOCK_FACES
    z_star = tl.min(front, 0)
    fade = tl.exp((z_star[None, :] - front) * rate)
    behind = tl.exp((z_star - backdrop) * rate)
    weight = tl.sum(total * fade, 0) + behind
    tl.store(colours + pixels * 3, tl.sum(red * fade, 0) / weight, on)
    tl.store(colours + pixels * 3 + 1, tl.sum(green * fade, 0) / weight, on)
    tl.store(colours + pixels * 3 + 2, tl.sum(blue * fade, 0) / weight, on)
    tl.store(backgrounds + pixels, behind / weight, on)
    tl.store(totals + pixels, weight, on)
    tl.store(nearest + pixels, z_star, on)


@triton.jit
def _mix(colours, channel, w0, w1, w2, valid):
    """One channel of the colour of a fragment."""
    return (
        w0 * tl.load(colours + channel, valid, 0.0)
        + w1 * tl.load(colours + 3 + channel, valid, 0.0)
        + w2 * tl.load(colours + 6 + channel, valid, 0.0)
    )


@triton.jit(do_not_specialize=["height", "width", "shares"])
def softmax_gradients(
    corners, attributes, image_of_face, images, boxes, colours, backgrounds, totals, nearest,
    grad_colours, grad_backgrounds, grad_corners, grad_attributes, grad_scalars,
    height, width, shares,
    CDF: tl.constexpr, PDF: tl.constexpr, DSHAPE: tl.constexpr, SCALARS: tl.constexpr,
    ATOMIC: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of corners and attributes of a face, and of its image's scalars.

    Programs and rows of the results as in `alpha_gradients`. With F the colour and B the share of
    the background, dL/ds = (dL/dF . (c - F) - dL/dB B) / sum of weights; the rest is the chain rule
    back through depth, perspective, clamping and areas.
    """
    f, share = tl.program_id(0).to(tl.int64), tl.program_id(1)
    b = tl.load(image_of_face + f)
    image = images + b * IMAGE_COLUMNS
    x0, x1 = tl.load(boxes + f * 4), tl.load(boxes + f * 4 + 1)
    y0, y1 = tl.load(boxes + f * 4 + 2), tl.load(boxes + f * 4 + 3)
    across, count = tl.maximum(x1 - x0, 1), (x1 - x0) * (y1 - y0)
    side = tl.minimum(height, width)
    scale, cutoff, rate = tl.load(image + SCALE), tl.load(image + CUTOFF), tl.load(image + RATE)
    shape, constant, psi = tl.load(image + SHAPE), tl.load(image + CONSTANT), tl.load(image + PSI)
    mirror = tl.where(tl.load(image + REVERSED) != 0.0, -1.0, 1.0)
    base, here = corners + f * 6, attributes + f * ATTRIBUTES
    ax, ay = tl.load(base), tl.load(base + 1)
    bx, by = tl.load(base + 2), tl.load(base + 3)
    cx, cy = tl.load(base + 4), tl.load(base + 5)
    raw0, raw1, raw2 = tl.load(here + W), tl.load(here + W + 1), tl.load(here + W + 2)
    W0, W1, W2 = _positive(raw0), _positive(raw1), _positive(raw2)
    z0, z1, z2 = tl.load(here + DEPTH), tl.load(here + DEPTH + 1), tl.load(here + DEPTH + 2)
    r0, g0, l0 = tl.load(here + COLOUR), tl.load(here + COLOUR + 1), tl.load(here + COLOUR + 2)
    r1, g1, l1 = tl.load(here + COLOUR + 3), tl.load(here + COLOUR + 4), tl.load(here + COLOUR + 5)
    r2, g2, l2 = tl.load(here + COLOUR + 6), tl.load(here + COLOUR + 7), tl.load(here + COLOUR + 8)
    zeros = tl.zeros([BLOCK], tl.float32)
    to_ax, to_ay, to_bx, to_by, to_cx, to_cy = zeros, zeros, zeros, zeros, zeros, zeros
    to_W0, to_W1, to_W2, to_z0, to_z1, to_z2 = zeros, zeros, zeros, zeros, zeros, zeros
    to_r0, to_g0, to_l0, to_r1, to_g1, to_l1 = zeros, zeros, zeros, zeros, zeros, zeros
    to_r2, to_g2, to_l2 = zeros, zeros, zeros
    of_scale, of_shift, of_shape, of_rate = zeros, zeros, zeros, zeros
    k = share * BLOCK
    while k < count:
        entry = k + tl.arange(0, BLOCK)
        valid = entry < count
        row, column = y0 + entry // across, x0 + entry % across
        pixels = b.to(tl.int64) * height * width + row * width + column
        x = centre(column, width, side, 1, tl.float32)
        y = centre(row, height, side, -1, tl.float32)
        d, nx, ny, foot, start, end = signed_distance(x, y, corners, f, True, 3)
        u, slope = argument(d, image)
        z_law = shifted(u, image)
        a, _ = coverage(z_law, image, CDF)
        kept = valid & (a > cutoff)
        weight = tl.load(totals + pixels, valid, 1.0)
        F_r = tl.load(colours + pixels * 3, valid, 0.0)
        F_g = tl.load(colours + pixels * 3 + 1, valid, 0.0)
        F_l = tl.load(colours + pixels * 3 + 2, valid, 0.0)
        on_r = tl.load(grad_colours + pixels * 3, valid, 0.0)
        on_g = tl.load(grad_colours + pixels * 3 + 1, valid, 0.0)
        on_l = tl.load(grad_colours + pixels * 3 + 2, valid, 0.0)
        on_background = tl.load(grad_backgrounds + pixels, valid, 0.0)
        on_background *= tl.load(backgrounds + pixels, valid, 0.0)
        b0, b1, b2, area = _screen_weights(x, y, corners, f, True)
        w0, w1, w2, q0, q1, q2, clamped_sum, whole = _corner_weights(b0, b1, b2, W0, W1, W2)
        z = w0 * z0 + w1 * z1 + w2 * z2
        past = tl.where(kept, tl.load(nearest + pixels, valid, 0.0) - z, 0.0)
        shine = tl.exp(past * rate) / weight
        s = tl.where(kept, a * shine, 0.0)  # the share of this fragment in the pixel
        on_c = on_r * (w0 * r0 + w1 * r1 + w2 * r2 - F_r)
        on_c += on_g * (w0 * g0 + w1 * g1 + w2 * g2 - F_g)
        on_c += on_l * (w0 * l0 + w1 * l1 + w2 * l2 - F_l)
        on_s = on_c - on_background

        # Coverage: the distance, the law, its parameters.
        on_a = tl.where(kept, on_s * shine, 0.0)
        on_law = on_a * PDF(z_law, shape, constant)
        move = on_law * slope
        to_start, to_end = -(1.0 - foot) * move, -foot * move
        at = tl.where(start == 0, to_start, 0.0) + tl.where(end == 0, to_end, 0.0)
        to_ax, to_ay = to_ax + at * nx, to_ay + at * ny
        at = tl.where(start == 1, to_start, 0.0) + tl.where(end == 1, to_end, 0.0)
        to_bx, to_by = to_bx + at * nx, to_by + at * ny
        at = tl.where(start == 2, to_start, 0.0) + tl.where(end == 2, to_end, 0.0)
        to_cx, to_cy = to_cx + at * nx, to_cy + at * ny
        on_exponent = on_s * s
        if SCALARS:
            of_scale -= on_law * u / scale
            of_shift += on_law * mirror
            of_rate += on_exponent * past
            if DSHAPE is not None:
                of_shape += on_a * DSHAPE(z_law, shape, constant, psi) * mirror

        # Colours and depths of the corners.
        on_z = -on_exponent * rate
        to_z0, to_z1, to_z2 = to_z0 + on_z * w0, to_z1 + on_z * w1, to_z2 + on_z * w2
        part_r, part_g, part_l = on_r * s, on_g * s, on_l * s
        to_r0, to_r1, to_r2 = to_r0 + part_r * w0, to_r1 + part_r * w1, to_r2 + part_r * w2
        to_g0, to_g1, to_g2 = to_g0 + part_g * w0, to_g1 + part_g * w1, to_g2 + part_g * w2
        to_l0, to_l1, to_l2 = to_l0 + part_l * w0, to_l1 + part_l * w1, to_l2 + part_l * w2

        # Their weights: perspective, clamping, areas.
        on_0 = part_r * r0 + part_g * g0 + part_l * l0 + on_z * z0
        on_1 = part_r * r1 + part_g * g1 + part_l * l1 + on_z * z1
        on_2 = part_r * r2 + part_g * g2 + part_l * l2 + on_z * z2
        mean = on_0 * w0 + on_1 * w1 + on_2 * w2
        on_0 = (on_0 - mean) / (whole * W0)
        on_1 = (on_1 - mean) / (whole * W1)
        on_2 = (on_2 - mean) / (whole * W2)
        to_W0, to_W1, to_W2 = (
            to_W0 - on_0 * q0 / W0,
            to_W1 - on_1 * q1 / W1,
            to_W2 - on_2 * q2 / W2,
        )
        mean = on_0 * q0 + on_1 * q1 + on_2 * q2
        on_0 = tl.where((b0 >= 0.0) & (b0 <= 1.0), (on_0 - mean) / clamped_sum, 0.0)
        on_1 = tl.where((b1 >= 0.0) & (b1 <= 1.0), (on_1 - mean) / clamped_sum, 0.0)
        on_2 = tl.where((b2 >= 0.0) & (b2 <= 1.0), (on_2 - mean) / clamped_sum, 0.0)
        mean = on_0 * b0 + on_1 * b1 + on_2 * b2
        on_0, on_1, on_2 = (on_0 - mean) / area, (on_1 - mean) / area, (on_2 - mean) / area
        to_ax += on_1 * (y - cy) + on_2 * (by - y)
        to_ay += on_1 * (cx - x) + on_2 * (x - bx)
        to_bx += on_0 * (cy - y) + on_2 * (y - ay)
        to_by += on_0 * (x - cx) + on_2 * (ax - x)
        to_cx += on_0 * (y - by) + on_1 * (ay - y)
        to_cy += on_0 * (bx - x) + on_1 * (x - ax)
        k += shares * BLOCK
    out = grad_corners + f * 6
    put_attributes = grad_attributes + f * ATTRIBUTES
    scalars = grad_scalars + f * GRAD_COLUMNS
    if not ATOMIC:
        faces = tl.num_programs(0).to(tl.int64)
        out += share * faces * 6
        put_attributes += share * faces * ATTRIBUTES
        scalars += share * faces * GRAD_COLUMNS
    put(out, to_ax, ATOMIC)
    put(out + 1, to_ay, ATOMIC)
    put(out + 2, to_bx, ATOMIC)
    put(out + 3, to_by, ATOMIC)
    put(out + 4, to_cx, ATOMIC)
    put(out + 5, to_cy, ATOMIC)
    put(put_attributes + W, tl.where(raw0 > 0.0, to_W0, 0.0), ATOMIC)
    put(put_attributes + W + 1, tl.where(raw1 > 0.0, to_W1, 0.0), ATOMIC)
    put(put_attributes + W + 2, tl.where(raw2 > 0.0, to_W2, 0.0), ATOMIC)
    put(put_attributes + DEPTH, to_z0, ATOMIC)
    put(put_attributes + DEPTH + 1, to_z1, ATOMIC)
    put(put_attributes + DEPTH + 2, to_z2, ATOMIC)
    put(put_attributes + COLOUR, to_r0, ATOMIC)
    put(put_attributes + COLOUR + 1, to_g0, ATOMIC)
    put(put_attributes + COLOUR + 2, to_l0, ATOMIC)
    put(put_attributes + COLOUR + 3, to_r1, ATOMIC)
    put(put_attributes + COLOUR + 4, to_g1, ATOMIC)
    put(put_attributes + COLOUR + 5, to_l1, ATOMIC)
    put(put_attributes + COLOUR + 6, to_r2, ATOMIC)
    put(put_attributes + COLOUR + 7, to_g2, ATOMIC)
    put(put_attributes + COLOUR + 8, to_l2, ATOMIC)
    if SCALARS:
        put(scalars + GRAD_SCALE, of_scale, ATOMIC)
        put(scalars + GRAD_SHIFT, of_shift, ATOMIC)
        put(scalars + GRAD_SHAPE, of_shape, ATOMIC)
        put(scalars + GRAD_LAST, of_rate, ATOMIC)
