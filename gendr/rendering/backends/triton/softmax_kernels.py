"""The Triton kernels of softmax shading: colours forward, and all their gradients.

They walk tiles and faces as the kernels of silhouettes do, whose geometry and coverage they share.
Colours are linear on a face: given at its corners, interpolated perspective-correctly.

With depth z, k = 1 / ((far - near) gamma) and z* the least depth among the fragments of a pixel and
the background, a fragment weighs s = a exp((z* - z) k) and the background exp((z* - z_bg) k). In
terms of z nothing cancels in float32 as it would in those of the normalised depth.

Source: Liu et al., Soft Rasterizer (2019), the softmax over depth.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gendr.kernels.triton.functions import compiled
from gendr.rendering.backends import formulas
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
    put,
    row_of,
    tile_pixels,
)

# Columns of the row of a face: x and y of its three corners, then for these w (the depth, or 1 for
# orthographic cameras), depth, and colour.
W = tl.constexpr(6)
DEPTH = tl.constexpr(9)
COLOUR = tl.constexpr(12)
ROW = tl.constexpr(21)
_HIGHEST = tl.constexpr(2.0**120)

_area_parts = compiled(formulas.area_parts)
_area_parts_backward = compiled(formulas.area_parts_backward)
_has_area = compiled(formulas.has_area)
_corner_weights = compiled(formulas.corner_weights)
_corner_weights_backward = compiled(formulas.corner_weights_backward)


@triton.jit
def _three(where, step: tl.constexpr):
    """Three numbers, each a step after the other: of the corners of a face."""
    return tl.load(where), tl.load(where + step), tl.load(where + 2 * step)


@triton.jit
def _load_four(where, valid):
    """The four numbers of pixels, 0 where there is none."""
    return (
        tl.load(where, valid, 0.0), tl.load(where + 1, valid, 0.0),
        tl.load(where + 2, valid, 0.0), tl.load(where + 3, valid, 0.0),
    )  # fmt: skip


@triton.jit
def _mix(values, weights):
    """The values of the corners, interpolated."""
    return values[0] * weights[0] + values[1] * weights[1] + values[2] * weights[2]


@triton.jit
def _spread(sums, g, weights):
    """Add the gradients of `_mix` to those of the corners."""
    return sums[0] + g * weights[0], sums[1] + g * weights[1], sums[2] + g * weights[2]


@triton.jit
def _added(sums, others):
    """Six sums and six more."""
    return (
        sums[0] + others[0], sums[1] + others[1], sums[2] + others[2],
        sums[3] + others[3], sums[4] + others[4], sums[5] + others[5],
    )  # fmt: skip


@triton.jit
def _screen_weights(x, y, row):
    """Barycentric coordinates on the screen, as they are, and twice the area they belong to."""
    ax, bx, cx = _three(row, 2)
    ay, by, cy = _three(row + 1, 2)
    a, b, c = _area_parts(x, y, ax, ay, bx, by, cx, cy)
    area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    solid = _has_area(area, ax, ay, bx, by, cx, cy)
    area = tl.where(solid, area, 1.0)
    third = 1 / 3
    return (
        tl.where(solid, a / area, third),
        tl.where(solid, b / area, third),
        tl.where(solid, c / area, third),
        tl.where(solid, area, float("inf")),
    )


@triton.jit
def _inverse(w):
    """1 / w, and 1 for corners on or behind the camera plane."""
    return 1.0 / tl.where(w > 0.0, w, 1.0)


@triton.jit
def _inverses_of_w(row):
    """1 / w of the corners of faces."""
    w0, w1, w2 = _three(row + W, 1)
    return _inverse(w0), _inverse(w1), _inverse(w2)


@triton.jit
def shade_face(
    x, y, rows, edges, f, valid, image, cutoff, rate, sums,
    CDF: tl.constexpr, BLOCK_FACES: tl.constexpr,
):  # fmt: skip
    """One step of a tile: the least depth, and with its weights the sum of weights and colours.

    Arguments as those of `join_face`; `sums` and what is returned are these five.
    """
    front, total, red, green, blue = sums
    a, _ = covered(x, y, edges, f, image, CDF, 3, BLOCK_FACES)
    kept = a > least(edges, f, valid, cutoff)
    here = rows + f * ROW
    v0, v1, v2, _ = _screen_weights(x, y, here)
    i0, i1, i2 = _inverses_of_w(here)
    w0, w1, w2, _ = _corner_weights(v0, v1, v2, i0, i1, i2)
    weights = w0, w1, w2
    z = _mix(_three(here + DEPTH, 1), weights)
    closer = tl.where(kept, tl.minimum(front, z), front)
    fade = tl.exp((closer - front) * rate)
    s = tl.where(kept, a * tl.exp((closer - tl.where(kept, z, closer)) * rate), 0.0)
    return (
        closer,
        total * fade + s,
        red * fade + s * _mix(_three(here + COLOUR, 3), weights),
        green * fade + s * _mix(_three(here + COLOUR + 1, 3), weights),
        blue * fade + s * _mix(_three(here + COLOUR + 2, 3), weights),
    )


@triton.jit(do_not_specialize=["height", "width"])
def softmax_tiles(
    rows, edges, images, starts, stops, list_of_faces, rendered, sums_of_pixels, height, width,
    CDF: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr, BLOCK_FACES: tl.constexpr,
):  # fmt: skip
    """Colours without the background's part and its share, [P, 4]; sums of weights and z*, [P, 2].

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
        sums = shade_face(x, y, rows, edges, f, valid, image, cutoff, rate, sums, CDF, BLOCK_FACES)
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
    tl.store(rendered + pixels * 4, red / weight, on)
    tl.store(rendered + pixels * 4 + 1, green / weight, on)
    tl.store(rendered + pixels * 4 + 2, blue / weight, on)
    tl.store(rendered + pixels * 4 + 3, behind / weight, on)
    tl.store(sums_of_pixels + pixels * 2, weight, on)
    tl.store(sums_of_pixels + pixels * 2 + 1, z_star, on)


@triton.jit(do_not_specialize=["height", "width", "faces"])
def softmax_gradients(
    rows, edges, image_of_face, images, boxes, rendered, sums_of_pixels, grads, grad_rows,
    grad_scalars, height, width, pieces, faces,
    CDF: tl.constexpr, PDF: tl.constexpr, DSHAPE: tl.constexpr, SCALARS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of the row of a face, and of its image's scalars.

    Programs and rows of the results as in `alpha_gradients`; `grads` are those of `rendered`. With
    F the colour and B the share of the background, dL/ds = (dL/dF . (c - F) - dL/dB B) / sum of
    weights; the rest is the chain rule back through depth, perspective, clamping and areas.
    """
    program, share, shares = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    f, first, last = piece_of(program, pieces, faces)
    b = tl.load(image_of_face + f)
    at = images + b * IMAGE_COLUMNS
    x0, y0, across, count = face_box(boxes, f)
    inverse = tl.div_rn(1.0, across.to(tl.float32))
    inverse_scale, squared, art, shift, mirrored, shape, constant = load_image(at)
    rate, psi, here = tl.load(at + RATE), tl.load(at + PSI), rows + f * ROW
    ax, bx, cx = _three(here, 2)
    ay, by, cy = _three(here + 1, 2)
    i0, i1, i2 = _inverses_of_w(here)
    depths, reds = _three(here + DEPTH, 1), _three(here + COLOUR, 3)
    greens, blues = _three(here + COLOUR + 1, 3), _three(here + COLOUR + 2, 3)
    zeros = tl.zeros([BLOCK], tl.float32)
    to_corners = zeros, zeros, zeros, zeros, zeros, zeros
    to_inverses, to_depths = (zeros, zeros, zeros), (zeros, zeros, zeros)
    to_reds, to_greens, to_blues = to_depths, to_depths, to_depths
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
        z_shifted = u + shift
        a, _ = coverage(z_shifted, mirrored, shape, constant, CDF)
        kept = valid & (a > tl.load(at + CUTOFF))
        F_r, F_g, F_l, background = _load_four(rendered + pixels * 4, valid)
        on_r, on_g, on_l, on_background = _load_four(grads + pixels * 4, valid)
        v0, v1, v2, area = _screen_weights(x, y, here)
        w0, w1, w2, _ = _corner_weights(v0, v1, v2, i0, i1, i2)
        weights = w0, w1, w2
        z = _mix(depths, weights)
        past = tl.where(kept, tl.load(sums_of_pixels + pixels * 2 + 1, valid, 0.0) - z, 0.0)
        # A sum of coverages that are almost 0 has no inverse.
        shine = tl.exp(past * rate) / tl.load(sums_of_pixels + pixels * 2, valid, 1.0)
        shine = tl.minimum(shine, _HIGHEST)
        s = tl.where(kept, a * shine, 0.0)  # the share of this fragment in the pixel
        on_c = on_r * (_mix(reds, weights) - F_r) + on_g * (_mix(greens, weights) - F_g)
        on_c += on_l * (_mix(blues, weights) - F_l)
        on_s = on_c - on_background * background

        # Coverage: the distance, the distribution, its parameters.
        on_a = tl.where(kept, on_s * shine, 0.0)
        on_distribution = on_a * PDF(z_shifted, shape, constant)
        # Colours move the corners too: these sums are the corners' at once.
        face = load_face(edges, f, 3)
        moves = add_moves(no_moves(zeros), on_distribution * slope, x, y, face, feature, 3)
        to_corners = _added(to_corners, moved_corners(moves, face, mirror, 3))
        on_exponent = on_s * s
        if SCALARS:
            of_scale += on_distribution * u
            of_shift += on_distribution
            of_rate += on_exponent * past
            if DSHAPE is not None:
                of_shape += on_a * DSHAPE(z_shifted, shape, constant, psi)

        # Colours and depths of the corners.
        on_z = -on_exponent * rate
        part_r, part_g, part_l = on_r * s, on_g * s, on_l * s
        to_depths, to_reds = _spread(to_depths, on_z, weights), _spread(to_reds, part_r, weights)
        to_greens = _spread(to_greens, part_g, weights)
        to_blues = _spread(to_blues, part_l, weights)

        # Their weights: perspective, clamping, areas.
        none = 0.0, 0.0, 0.0
        on = _spread(_spread(none, part_r, reds), part_g, greens)
        on_0, on_1, on_2 = _spread(_spread(on, part_l, blues), on_z, depths)
        on_0, on_1, on_2, d0, d1, d2 = _corner_weights_backward(
            v0, v1, v2, i0, i1, i2, on_0, on_1, on_2
        )
        to_inverses = to_inverses[0] + d0, to_inverses[1] + d1, to_inverses[2] + d2
        on_0, on_1, on_2 = on_0 / area, on_1 / area, on_2 / area
        slides = _area_parts_backward(x, y, ax, ay, bx, by, cx, cy, on_0, on_1, on_2)
        to_corners = _added(to_corners, slides)
        k += shares * BLOCK
        row, column = advanced(row, column, shares * BLOCK, across, inverse)
    out = row_of(grad_rows, program, share, ROW)
    put(out, to_corners, 6)
    # Read again behind the stores: else the compiler holds them over the loop. d(1 / w) / dw.
    w0, w1, w2 = _three(here + W, 1)
    of_w0 = to_inverses[0] * tl.where(w0 > 0.0, -_inverse(w0) * _inverse(w0), 0.0)
    of_w1 = to_inverses[1] * tl.where(w1 > 0.0, -_inverse(w1) * _inverse(w1), 0.0)
    of_w2 = to_inverses[2] * tl.where(w2 > 0.0, -_inverse(w2) * _inverse(w2), 0.0)
    put(out + W, (of_w0, of_w1, of_w2), 3)
    put(out + DEPTH, to_depths, 3)
    for k in tl.static_range(3):
        put(out + COLOUR + 3 * k, (to_reds[k], to_greens[k], to_blues[k]), 3)
    if SCALARS:
        # The inverse of the scale has the sign of the mirror.
        scalars = of_scale * -inverse_scale, of_shift * mirror, of_shape * mirror, of_rate
        put(row_of(grad_scalars, program, share, GRAD_COLUMNS), scalars, GRAD_COLUMNS)
