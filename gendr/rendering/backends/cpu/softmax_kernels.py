"""The compiled kernels of softmax shading on the CPU: colours forward, and all their gradients.

They walk over faces and pixels as the kernels of silhouettes do, whose geometry and coverage they
share, and colour every fragment on the way, so that no list of fragments exists. A block of
fragments is processed in parts of one face each: the data of the face are read once, loops over its
pixels use whole vectors, and gradients are summed in registers. What such a loop writes behind the
end of its part is written anew with the next part.

With depth z, k = 1 / ((far - near) gamma) and e = (z_bg - z) k, a fragment has the weight a exp(e)
and the background the weight 1. All weights are divided by the power of 2 that is nearest to the
largest exp(e). As exp(e) is kept as r 2^n from the start, rescaling when a larger one is found is
exact, and the result does not depend on the order of the pixels or on the threads.

Source: Liu et al., Soft Rasterizer (2019), the softmax over depth.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math

import numpy as np

from gendr.kernels.numba.calls import pointer, row, shifted
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.functions import compiled
from gendr.kernels.numba.mathematics import power_of_two, split_exp
from gendr.kernels.numba.vectors import LANES, lanewise, maximum, put_before, where
from gendr.kernels.numba.vectors import power_of_two as power_of_two_of_lanes
from gendr.rendering.backends import formulas
from gendr.rendering.backends.cpu.kernels import (
    DISTANCE,
    PART,
    PART_FACE,
    PARTS,
    RADIUS,
    RUN,
    RUN_PIXEL,
    RUNS,
    SCALE,
    STRIDE,
    X,
    Y,
    add_distribution_scalars,
    begin_walk,
    coverage,
    coverage_and_density,
    extent,
    face_bounds,
    face_edges,
    face_orientation,
    gather,
    move_corners,
    new_block,
    next_block,
    padded,
    row_span,
    through_argument,
)
from gendr.rendering.backends.cpu.records import FaceTables, Formulas

# Columns of the attributes of a face, each for its three corners one after the other. w is the
# depth for perspective cameras and 1 for orthographic ones. Columns at the end may be missing.
W, DEPTH, COLOUR, UV, NORMAL, POSITION = 0, 3, 6, 15, 21, 30
# Columns of the light of an image: the unit vector to the light; the eye, or the unit vector to it.
LIGHT, EYE = 0, 3
LIGHT_COLUMNS = 6
# Columns of the gradients of a face for the values of its image: the light columns, and the rate k.
GRAD_RATE = LIGHT_COLUMNS
GRAD_COLUMNS = LIGHT_COLUMNS + 1
# Entries of `surface`: flags (0 or 1), then the numbers of the light.
TEXTURED, SMOOTH, GLOSSY, ORTHOGRAPHIC, AMBIENT, DIFFUSE, SPECULAR, SHININESS = range(8)
# Entries of `depths`.
RATE, BACKDROP = 0, 1
# Entries of a texture record of a fragment: the place in the texture, and the gradient of its
# colour.
LOOK_X, LOOK_Y, LOOK_RED = 0, 1, 2
RECORD = 5
# Columns of a patch, the part of a texture that a face uses: the column and row of its first texel
# (not wrapped), its width and height. A face without a patch (width 0) keeps records instead.
LEFT, TOP, ACROSS, DOWN = 0, 1, 2, 3
PATCH_COLUMNS = 4
_FAR = 2.0**40  # texels away; farther, rounding could leave a patch, and integers end
# Columns of the working memory of a block, all in one array like its points: the weights of the
# corners; z_bg - z; exp(e) as a factor and a power of 2; red, green and blue of the corner colours
# and of the texture; factor and highlight of the light.
_W0, _W1, _W2, _BEHIND, _HEIGHT, _POWER, _RED, _GREEN, _BLUE = (k * STRIDE for k in range(9))
_T_RED, _T_GREEN, _T_BLUE, _FACTOR, _HIGHLIGHT = (k * STRIDE for k in range(9, 14))
# In the backward pass: gradients of the weights; of red, green and blue of the fragment; of factor
# and highlight; of the exponent e.
_H0, _H1, _H2, _G_RED, _G_GREEN, _G_BLUE = (k * STRIDE for k in range(14, 20))
_G_FACTOR, _G_HIGHLIGHT, _G_DEPTH = (k * STRIDE for k in range(20, 23))
# The interpolated unit normal, and the inverse of its length before normalisation; the slopes of
# the three channels of the texture along x and y, per texel.
_NX, _NY, _NZ, _N_INVERSE = (k * STRIDE for k in range(23, 27))
_SLOPE_X, _SLOPE_Y = 27 * STRIDE, 30 * STRIDE
# What the pixel of a fragment holds; see `pixels` of `softmax_faces`.
_P_RED, _P_GREEN, _P_BLUE, _P_TAKEN, _P_INVERSE, _P_TOP = (k * STRIDE for k in range(33, 39))
_PARTS = 39 * STRIDE
# Sums of gradients may be taken in any order, so in vectors; on one machine it is always the same.
_SUMS = {"reassoc", "contract", "nsz"}


# ---------------------------------------------------------------------------------------------
# The place of a pixel on its face
# ---------------------------------------------------------------------------------------------


_area_parts = compiled(formulas.area_parts, inlined=True)
_area_parts_backward = compiled(formulas.area_parts_backward, inlined=True)
has_area = compiled(formulas.has_area, inlined=True)
_corner_weights = compiled(formulas.corner_weights, inlined=True)
_corner_weights_backward = compiled(formulas.corner_weights_backward, inlined=True)


@inner()
def _inverse_area(corners, f):
    """One over twice the signed area on the screen; 0 for a face without area."""
    ax, ay = corners[f, 0, 0], corners[f, 0, 1]
    bx, by = corners[f, 1, 0], corners[f, 1, 1]
    cx, cy = corners[f, 2, 0], corners[f, 2, 1]
    area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    return 1.0 / area if has_area(area, ax, ay, bx, by, cx, cy) else 0.0


@inner()
def _barycentric(corners, f, inverse):
    """The coefficients of the barycentric coordinates on the screen, which `_at` evaluates."""
    return (
        corners[f, 0, 0], corners[f, 0, 1], corners[f, 1, 0], corners[f, 1, 1],
        corners[f, 2, 0], corners[f, 2, 1], inverse, 1 / 3 if inverse == 0.0 else 0.0,
    )  # fmt: skip


@inner()
def _at(face, x, y):
    """Barycentric coordinates on the screen, not clamped; thirds for a face without area."""
    ax, ay, bx, by, cx, cy, inverse, third = face
    a, b, c = _area_parts(x, y, ax, ay, bx, by, cx, cy)
    return a * inverse + third, b * inverse + third, c * inverse + third


@inner()
def _inverse_w(attributes, f):
    """1 / w of the corners; 1 for those on or behind the camera plane."""
    w0, w1, w2 = attributes[f, W], attributes[f, W + 1], attributes[f, W + 2]
    return (
        1.0 / w0 if w0 > 0.0 else 1.0,
        1.0 / w1 if w1 > 0.0 else 1.0,
        1.0 / w2 if w2 > 0.0 else 1.0,
    )


@inner()
def _end(i, stop):
    """The end of the last whole vector of a part."""
    return i + (stop - i + LANES - 1) // LANES * LANES


@inner()
def _weights(i, stop, f, points, corners, attributes, depths, parts):
    """Perspective-correct weights of the corners, z_bg - z and exp(e) of a run of face f."""
    face = _barycentric(corners, f, _inverse_area(corners, f))
    i0, i1, i2 = _inverse_w(attributes, f)
    z0, z1, z2 = attributes[f, DEPTH], attributes[f, DEPTH + 1], attributes[f, DEPTH + 2]
    rate, backdrop = depths[RATE], depths[BACKDROP]
    for k in range(i, _end(i, stop)):
        v0, v1, v2 = _at(face, points[X + k], points[Y + k])
        w0, w1, w2, _ = _corner_weights(v0, v1, v2, i0, i1, i2)
        behind = backdrop - (w0 * z0 + w1 * z1 + w2 * z2)
        parts[_W0 + k], parts[_W1 + k], parts[_W2 + k] = w0, w1, w2
        parts[_BEHIND + k] = behind
        parts[_HEIGHT + k], parts[_POWER + k] = split_exp(behind * rate)


@inner(fastmath=_SUMS)
def _weights_backward(
    i, stop, f, points, corners, attributes, parts, grad_corners, grad_attributes
):
    """Pass the gradients of the weights of a run on to the corners of its face and to their w."""
    inverse = _inverse_area(corners, f)
    face = _barycentric(corners, f, inverse)
    ax, ay, bx, by, cx, cy, _, _ = face
    i0, i1, i2 = _inverse_w(attributes, f)
    of_w0, of_w1, of_w2 = 0.0, 0.0, 0.0
    of_ax, of_ay, of_bx, of_by, of_cx, of_cy = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(i, _end(i, stop)):
        x, y = points[X + k], points[Y + k]
        v0, v1, v2 = _at(face, x, y)
        g0, g1, g2, w0, w1, w2 = _corner_weights_backward(
            v0, v1, v2, i0, i1, i2, parts[_H0 + k], parts[_H1 + k], parts[_H2 + k]
        )
        of_w0, of_w1, of_w2 = of_w0 + w0, of_w1 + w1, of_w2 + w2
        to_ax, to_ay, to_bx, to_by, to_cx, to_cy = _area_parts_backward(
            x, y, ax, ay, bx, by, cx, cy, g0, g1, g2
        )
        of_ax, of_ay, of_bx = of_ax + to_ax, of_ay + to_ay, of_bx + to_bx
        of_by, of_cx, of_cy = of_by + to_by, of_cx + to_cx, of_cy + to_cy
    grad_corners[f, 0, 0] += of_ax * inverse
    grad_corners[f, 0, 1] += of_ay * inverse
    grad_corners[f, 1, 0] += of_bx * inverse
    grad_corners[f, 1, 1] += of_by * inverse
    grad_corners[f, 2, 0] += of_cx * inverse
    grad_corners[f, 2, 1] += of_cy * inverse
    for k, of_w, reciprocal in ((0, of_w0, i0), (1, of_w1, i1), (2, of_w2, i2)):
        if attributes[f, W + k] > 0.0:
            grad_attributes[f, W + k] -= of_w * reciprocal * reciprocal


@inner()
def _corner_values(attributes, f, column, step):
    """The values of the three corners of a face, in `column`, `column + step`, ..."""
    return (
        attributes[f, column],
        attributes[f, column + step],
        attributes[f, column + 2 * step],
    )


@inner()
def _mix(values, parts, k):
    """The values of the corners, interpolated for fragment k."""
    return values[0] * parts[_W0 + k] + values[1] * parts[_W1 + k] + values[2] * parts[_W2 + k]


@inner(fastmath=_SUMS)
def _vectors_backward(i, stop, f, column, attributes, parts, source, out):
    """Pass the gradients of a mix of vectors, in three columns, on to the corners and the weights.

    Behind the end they are 0, see `_clear`.
    """
    xs, ys, zs = _corner_vectors(attributes, f, column)
    x0, x1, x2, y0, y1, y2, z0, z1, z2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(i, _end(i, stop)):
        x, y = parts[source + k], parts[source + STRIDE + k]
        z = parts[source + 2 * STRIDE + k]
        w0, w1, w2 = parts[_W0 + k], parts[_W1 + k], parts[_W2 + k]
        x0, x1, x2 = x0 + x * w0, x1 + x * w1, x2 + x * w2
        y0, y1, y2 = y0 + y * w0, y1 + y * w1, y2 + y * w2
        z0, z1, z2 = z0 + z * w0, z1 + z * w1, z2 + z * w2
        parts[_H0 + k] += x * xs[0] + y * ys[0] + z * zs[0]
        parts[_H1 + k] += x * xs[1] + y * ys[1] + z * zs[1]
        parts[_H2 + k] += x * xs[2] + y * ys[2] + z * zs[2]
    for c, of_x, of_y, of_z in ((0, x0, y0, z0), (3, x1, y1, z1), (6, x2, y2, z2)):
        out[f, column + c] += of_x
        out[f, column + c + 1] += of_y
        out[f, column + c + 2] += of_z


@inner(fastmath=_SUMS)
def _corners_backward(i, stop, f, attributes, parts, rate, out):
    """Pass the gradients of colours and of e on to the corners, and begin those of the weights."""
    reds, greens, blues = _corner_vectors(attributes, f, COLOUR)
    zs = _corner_values(attributes, f, DEPTH, 1)
    r0, r1, r2, g0, g1, g2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    b0, b1, b2, z0, z1, z2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(i, _end(i, stop)):
        factor, z = parts[_FACTOR + k], -rate * parts[_G_DEPTH + k]
        red = parts[_G_RED + k] * (parts[_T_RED + k] * factor)
        green = parts[_G_GREEN + k] * (parts[_T_GREEN + k] * factor)
        blue = parts[_G_BLUE + k] * (parts[_T_BLUE + k] * factor)
        w0, w1, w2 = parts[_W0 + k], parts[_W1 + k], parts[_W2 + k]
        r0, r1, r2 = r0 + red * w0, r1 + red * w1, r2 + red * w2
        g0, g1, g2 = g0 + green * w0, g1 + green * w1, g2 + green * w2
        b0, b1, b2 = b0 + blue * w0, b1 + blue * w1, b2 + blue * w2
        z0, z1, z2 = z0 + z * w0, z1 + z * w1, z2 + z * w2
        parts[_H0 + k] = red * reds[0] + green * greens[0] + blue * blues[0] + z * zs[0]
        parts[_H1 + k] = red * reds[1] + green * greens[1] + blue * blues[1] + z * zs[1]
        parts[_H2 + k] = red * reds[2] + green * greens[2] + blue * blues[2] + z * zs[2]
    for c, red, green, blue, z in ((0, r0, g0, b0, z0), (1, r1, g1, b1, z1), (2, r2, g2, b2, z2)):
        out[f, DEPTH + c] += z
        out[f, COLOUR + 3 * c] += red
        out[f, COLOUR + 3 * c + 1] += green
        out[f, COLOUR + 3 * c + 2] += blue


# ---------------------------------------------------------------------------------------------
# Textures
# ---------------------------------------------------------------------------------------------


@inner()
def _four_texels(x, y, start, height, width):
    """The rows of the four texels around a place, top left first, and its position between them.

    Textures repeat beyond their borders.
    """
    x0, y0 = np.floor(x), np.floor(y)
    left, top = int(x0), int(y0)
    left = left if 0 <= left < width else left % width
    top = top if 0 <= top < height else top % height
    right = left + 1 if left + 1 < width else 0
    bottom = top + 1 if top + 1 < height else 0
    above, below = start + top * width, start + bottom * width
    return above + left, above + right, below + left, below + right, x - x0, y - y0


@inner()
def _sampled(texels, places, channel):
    """The bilinear value of one channel, and its slopes along x and y per texel."""
    a, b = texels[3 * places[0] + channel], texels[3 * places[1] + channel]
    c, d = texels[3 * places[2] + channel], texels[3 * places[3] + channel]
    fx, fy = places[4], places[5]
    top, bottom = a * (1.0 - fx) + b * fx, c * (1.0 - fx) + d * fx
    slope_x = (b - a) * (1.0 - fy) + (d - c) * fy
    return top * (1.0 - fy) + bottom * fy, slope_x, bottom - top


@inner()
def _look(us, vs, parts, k, height, width):
    """The place of a fragment in its texture, in texels, whose centres are at integers."""
    return _mix(us, parts, k) * width - 0.5, (1.0 - _mix(vs, parts, k)) * height - 0.5


@inner()
def _texture(i, stop, f, b, attributes, texels, textures, parts, slopes):
    """Colours of the texture for a run, and their slopes if they are wanted."""
    start, height, width = textures[b, 0], textures[b, 1], textures[b, 2]
    us, vs = _corner_values(attributes, f, UV, 2), _corner_values(attributes, f, UV + 1, 2)
    for k in range(i, stop):
        x, y = _look(us, vs, parts, k, height, width)
        places = _four_texels(x, y, start, height, width)
        for c in range(3):
            value, slope_x, slope_y = _sampled(texels, places, c)
            parts[_T_RED + c * STRIDE + k] = value
            if slopes:
                parts[_SLOPE_X + c * STRIDE + k] = slope_x
                parts[_SLOPE_Y + c * STRIDE + k] = slope_y


@inner()
def _add(memory, at, weight, red, green, blue):
    """Add to one texel of a patch."""
    memory[at] += weight * red
    memory[at + 1] += weight * green
    memory[at + 2] += weight * blue


@inner()
def _texture_backward(i, stop, f, b, attributes, textures, parts, asked, grad_attributes):
    """Gradients of the UVs of a run, and of the texels that it uses.

    For `asked` see `softmax_faces`. The gradients of the texture's colours are read from the
    columns of the fragment's colours, which are not changed.
    """
    height, width = textures[b, 1], textures[b, 2]
    us, vs = _corner_values(attributes, f, UV, 2), _corner_values(attributes, f, UV + 1, 2)
    u_a, u_b, u_c, v_a, v_b, v_c = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(i, stop):
        factor = parts[_FACTOR + k]
        red = parts[_G_RED + k] * parts[_RED + k] * factor
        green = parts[_G_GREEN + k] * parts[_GREEN + k] * factor
        blue = parts[_G_BLUE + k] * parts[_BLUE + k] * factor
        u = red * parts[_SLOPE_X + k] + green * parts[_SLOPE_X + STRIDE + k]
        u = (u + blue * parts[_SLOPE_X + 2 * STRIDE + k]) * width
        v = red * parts[_SLOPE_Y + k] + green * parts[_SLOPE_Y + STRIDE + k]
        v = (v + blue * parts[_SLOPE_Y + 2 * STRIDE + k]) * -height
        w0, w1, w2 = parts[_W0 + k], parts[_W1 + k], parts[_W2 + k]
        u_a, u_b, u_c = u_a + u * w0, u_b + u * w1, u_c + u * w2
        v_a, v_b, v_c = v_a + v * w0, v_b + v * w1, v_c + v * w2
        parts[_H0 + k] += u * us[0] + v * vs[0]
        parts[_H1 + k] += u * us[1] + v * vs[1]
        parts[_H2 + k] += u * us[2] + v * vs[2]
    for c, of_u, of_v in ((0, u_a, v_a), (1, u_b, v_b), (2, u_c, v_c)):
        grad_attributes[f, UV + 2 * c] += of_u
        grad_attributes[f, UV + 2 * c + 1] += of_v
    if len(asked[0]) > 0:
        _ask(i, stop, f, us, vs, height, width, parts, asked)


@inner()
def _ask(i, stop, f, us, vs, height, width, parts, asked):
    """Store the gradients of the texels for the fragments of a run, in a patch or as records."""
    memory, slots, used, patches, first_face = asked
    slot = slots[f - first_face]
    left, top, across = patches[f, LEFT], patches[f, TOP], patches[f, ACROSS]
    for k in range(i, stop):
        factor = parts[_FACTOR + k]
        red = parts[_G_RED + k] * parts[_RED + k] * factor
        green = parts[_G_GREEN + k] * parts[_GREEN + k] * factor
        blue = parts[_G_BLUE + k] * parts[_BLUE + k] * factor
        x, y = _look(us, vs, parts, k, height, width)
        if across > 0:
            x0, y0 = np.floor(x), np.floor(y)
            at = slot + 3 * ((int(y0) - top) * across + int(x0) - left)
            fx, fy = x - x0, y - y0
            _add(memory, at, (1.0 - fx) * (1.0 - fy), red, green, blue)
            _add(memory, at + 3, fx * (1.0 - fy), red, green, blue)
            _add(memory, at + 3 * across, (1.0 - fx) * fy, red, green, blue)
            _add(memory, at + 3 * across + 3, fx * fy, red, green, blue)
        else:
            at = slot + RECORD * used[f - first_face]
            used[f - first_face] += 1
            memory[at + LOOK_X], memory[at + LOOK_Y] = x, y
            memory[at + LOOK_RED], memory[at + LOOK_RED + 1] = red, green
            memory[at + LOOK_RED + 2] = blue


@kernel()
def scatter_texels(asked, last_face, image_of_face, textures, out, first_channel, last_channel):
    """Add the patches and records of the faces up to `last_face` to the texels [3, N], in order.

    Only the rows first_channel .. last_channel - 1 are written.
    """
    memory, slots, used, patches, first_face = asked
    for channel in range(first_channel, last_channel):
        for f in range(first_face, last_face):
            image, at = image_of_face[f], slots[f - first_face] + channel
            start, height, width = textures[image, 0], textures[image, 1], textures[image, 2]
            across = patches[f, ACROSS]
            if across > 0:
                for i in range(patches[f, DOWN]):
                    row = start + (patches[f, TOP] + i) % height * width
                    for j in range(across):
                        column = (patches[f, LEFT] + j) % width
                        out[channel, row + column] += memory[at + 3 * (i * across + j)]
                continue
            for k in range(used[f - first_face]):
                record = slots[f - first_face] + RECORD * k
                x, y, g = memory[record], memory[record + 1], memory[at + LOOK_RED + RECORD * k]
                a, b, c, d, fx, fy = _four_texels(x, y, start, height, width)
                out[channel, a] += g * (1.0 - fx) * (1.0 - fy)
                out[channel, b] += g * fx * (1.0 - fy)
                out[channel, c] += g * (1.0 - fx) * fy
                out[channel, d] += g * fx * fy


# ---------------------------------------------------------------------------------------------
# Light
# ---------------------------------------------------------------------------------------------


@inner()
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inner()
def _unit(x, y, z):
    """A vector scaled to length 1, and the inverse of its length; both 0 for the vector 0."""
    square = x * x + y * y + z * z
    inverse = 1.0 / math.sqrt(square) if square > 0.0 else 0.0
    return (x * inverse, y * inverse, z * inverse), inverse


@inner()
def _tangential(g, unit, inverse):
    """The gradient of a vector, if its `_unit` has the gradient g."""
    inward = _dot(g, unit)
    return (
        (g[0] - unit[0] * inward) * inverse,
        (g[1] - unit[1] * inward) * inverse,
        (g[2] - unit[2] * inward) * inverse,
    )


@inner()
def _corner_vectors(attributes, f, column):
    """The vectors of the corners, by component."""
    return (
        _corner_values(attributes, f, column, 3),
        _corner_values(attributes, f, column + 1, 3),
        _corner_values(attributes, f, column + 2, 3),
    )


@inner()
def _to_eye(positions, parts, k, eye, orthographic):
    """The unit vector from fragment k to the eye, and the inverse of the distance; see `_unit`."""
    if orthographic:
        return eye, 1.0
    return _unit(
        eye[0] - _mix(positions[0], parts, k),
        eye[1] - _mix(positions[1], parts, k),
        eye[2] - _mix(positions[2], parts, k),
    )


@inner()
def _glance(normal, light, to_eye, facing):
    """The cosine of the angle between the mirrored direction of the light and that to the eye."""
    return 2.0 * facing * _dot(normal, to_eye) - _dot(light, to_eye)


@inner()
def _light(i, stop, f, b, attributes, surface, lights, parts):
    """Factor of the albedo and highlight for a run; see `Lighting`."""
    normals = _corner_vectors(attributes, f, NORMAL)
    light = (lights[b, LIGHT], lights[b, LIGHT + 1], lights[b, LIGHT + 2])
    ambient, diffuse = surface[AMBIENT], surface[DIFFUSE]
    for k in range(i, stop):
        normal, inverse = _unit(
            _mix(normals[0], parts, k), _mix(normals[1], parts, k), _mix(normals[2], parts, k)
        )
        facing = _dot(normal, light)
        parts[_NX + k], parts[_NY + k], parts[_NZ + k] = normal
        parts[_N_INVERSE + k] = inverse
        parts[_FACTOR + k] = ambient + diffuse * (facing if facing > 0.0 else 0.0)
        parts[_HIGHLIGHT + k] = 0.0
    if surface[GLOSSY] == 0.0:
        return
    positions = _corner_vectors(attributes, f, POSITION)
    eye = (lights[b, EYE], lights[b, EYE + 1], lights[b, EYE + 2])
    for k in range(i, stop):
        normal = parts[_NX + k], parts[_NY + k], parts[_NZ + k]
        facing = _dot(normal, light)
        if facing > 0.0:
            to_eye, _ = _to_eye(positions, parts, k, eye, surface[ORTHOGRAPHIC] != 0.0)
            glance = _glance(normal, light, to_eye, facing)
            if glance > 0.0:
                parts[_HIGHLIGHT + k] = surface[SPECULAR] * glance ** surface[SHININESS]


@inner()
def _light_backward(i, stop, f, b, attributes, surface, lights, parts, out, grad_lights):
    """Pass the gradients of factor and highlight on to normals, positions, weights and lights.

    Overwrites the columns of the gradients of colours and depths, and of both gradients.
    """
    light = (lights[b, LIGHT], lights[b, LIGHT + 1], lights[b, LIGHT + 2])
    diffuse = surface[DIFFUSE]
    if surface[GLOSSY] != 0.0:
        _gloss_backward(i, stop, f, b, attributes, surface, lights, parts, out, grad_lights)
        return
    of_x, of_y, of_z = 0.0, 0.0, 0.0
    for k in range(i, stop):
        normal, inverse = (parts[_NX + k], parts[_NY + k], parts[_NZ + k]), parts[_N_INVERSE + k]
        facing = _dot(normal, light)
        g = parts[_G_FACTOR + k] * diffuse if facing >= 0.0 else 0.0
        of_x, of_y, of_z = of_x + g * normal[0], of_y + g * normal[1], of_z + g * normal[2]
        g *= inverse
        parts[_G_FACTOR + k] = g * (light[0] - normal[0] * facing)
        parts[_G_HIGHLIGHT + k] = g * (light[1] - normal[1] * facing)
        parts[_G_DEPTH + k] = g * (light[2] - normal[2] * facing)
    _vectors_backward(i, stop, f, NORMAL, attributes, parts, _G_FACTOR, out)
    if len(grad_lights) > 0:
        grad_lights[f, LIGHT] += of_x
        grad_lights[f, LIGHT + 1] += of_y
        grad_lights[f, LIGHT + 2] += of_z


@inner()
def _gloss_backward(i, stop, f, b, attributes, surface, lights, parts, out, grad_lights):
    """`_light_backward` for lights with highlights."""
    positions = _corner_vectors(attributes, f, POSITION)
    light = (lights[b, LIGHT], lights[b, LIGHT + 1], lights[b, LIGHT + 2])
    eye = (lights[b, EYE], lights[b, EYE + 1], lights[b, EYE + 2])
    orthographic, shininess = surface[ORTHOGRAPHIC] != 0.0, surface[SHININESS]
    strength = surface[SPECULAR] * shininess
    lx, ly, lz, vx, vy, vz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(i, stop):
        normal, inverse = (parts[_NX + k], parts[_NY + k], parts[_NZ + k]), parts[_N_INVERSE + k]
        to_eye, nearness = _to_eye(positions, parts, k, eye, orthographic)
        facing, along = _dot(normal, light), _dot(normal, to_eye)
        glance = _glance(normal, light, to_eye, facing)
        g_facing = parts[_G_FACTOR + k] * surface[DIFFUSE] if facing >= 0.0 else 0.0
        g = 0.0
        if facing > 0.0 and glance > 0.0:
            g = parts[_G_HIGHLIGHT + k] * strength * glance ** (shininess - 1.0)
            g_facing += 2.0 * g * along
        # The gradient of the vector to the eye, and so of the point on the surface where it starts.
        bend = 2.0 * facing * g
        view = (
            bend * normal[0] - g * light[0],
            bend * normal[1] - g * light[1],
            bend * normal[2] - g * light[2],
        )
        if not orthographic:
            view = _tangential(view, to_eye, nearness)
        vx, vy, vz = vx + view[0], vy + view[1], vz + view[2]
        lx += g_facing * normal[0] - g * to_eye[0]
        ly += g_facing * normal[1] - g * to_eye[1]
        lz += g_facing * normal[2] - g * to_eye[2]
        of_normal = (
            g_facing * light[0] + bend * to_eye[0],
            g_facing * light[1] + bend * to_eye[1],
            g_facing * light[2] + bend * to_eye[2],
        )
        turned = _tangential(of_normal, normal, inverse)
        parts[_G_FACTOR + k], parts[_G_HIGHLIGHT + k], parts[_G_DEPTH + k] = turned
        parts[_G_RED + k], parts[_G_GREEN + k], parts[_G_BLUE + k] = -view[0], -view[1], -view[2]
    _vectors_backward(i, stop, f, NORMAL, attributes, parts, _G_FACTOR, out)
    if not orthographic:
        _vectors_backward(i, stop, f, POSITION, attributes, parts, _G_RED, out)
    if len(grad_lights) > 0:
        for c, of_light, of_eye in ((0, lx, vx), (1, ly, vy), (2, lz, vz)):
            grad_lights[f, LIGHT + c] += of_light
            grad_lights[f, EYE + c] += of_eye


# ---------------------------------------------------------------------------------------------
# Forward
# ---------------------------------------------------------------------------------------------


@inner()
def _colours(i, stop, f, b, paint, parts, slopes):
    """The parts of the colours of a run: corner colours, texture and light.

    The backward pass wants the slopes of the texture too.
    """
    attributes, surface, lights, texels, textures, _ = paint
    reds, greens, blues = _corner_vectors(attributes, f, COLOUR)
    for k in range(i, _end(i, stop)):
        parts[_RED + k] = _mix(reds, parts, k)
        parts[_GREEN + k] = _mix(greens, parts, k)
        parts[_BLUE + k] = _mix(blues, parts, k)
    if surface[TEXTURED] != 0.0:
        _texture(i, stop, f, b, attributes, pointer(texels), textures, parts, slopes)
    if surface[SMOOTH] != 0.0:
        _light(i, stop, f, b, attributes, surface, lights, parts)


@inner()
def _new_parts():
    """The working memory of a block, filled for no texture (white) and no light (factor 1)."""
    parts = np.zeros(_PARTS)
    parts[_T_RED:_HIGHLIGHT] = 1.0
    return parts


@lanewise
def _add_fragments(i, count, pixel, end, a, cutoff, parts, sums, tops):
    top, power = tops[pixel], parts[i + _POWER]
    covers = a[i] > cutoff
    power = where(covers, where(power.before(count), power, top), top)
    highest = maximum(top, power)
    fade = power_of_two_of_lanes(maximum(top - highest, -1023.0))
    height = parts[i + _HEIGHT] * power_of_two_of_lanes(maximum(power - highest, -1023.0))
    share = where(covers, where(power.before(count), a[i] * height, 0.0), 0.0)
    lit, highlight = share * parts[i + _FACTOR], share * parts[i + _HIGHLIGHT]
    values = [
        lit * (parts[i + (_RED + k)] * parts[i + (_T_RED + k)]) + highlight
        for k in (0, STRIDE, 2 * STRIDE)
    ]
    put_before(
        end, pixel, count, (tops, highest),
        *((total, total[pixel] * fade + value)
          for total, value in zip(sums, [*values, share], strict=True)),
    )  # fmt: skip


@inner()
def _accumulate(block, a, cutoff, parts, sums, tops, end):
    """Add fragments of coverage a to the sums of their pixels, and raise the tops of these.

    Other threads write the pixels from `end` on.
    """
    indices = block[2]
    for k in range(block[0][RUNS]):
        first, pixel = indices[RUN + k], indices[RUN_PIXEL + k]
        count = indices[RUN + k + 1] - first
        for i in range(0, count, LANES):
            _add_fragments(first + i, count - i, pixel + i, end, a, cutoff, parts, sums, tops)


@kernel()
def softmax_rows(arrays, formulas, paint, sums, tops, start, stop):
    """Colours of the pixels of rows start .. stop - 1.

    At the end `sums` [4, P + LANES] holds the colour without the part of the background, and the
    sum of all weights; `tops` [P + LANES] holds the exponent of the power of 2 by which all weights
    were divided. Both start as 0. For `paint` see `softmax_faces`.
    """
    tables, formulas = FaceTables(*arrays), Formulas(*formulas)
    height, width = extent(tables.grid)
    corners, offsets = tables.corners, tables.offsets
    block, buffers, memory = new_block(), np.zeros((4, STRIDE)), _new_parts()
    points, parts, indices = pointer(block[1]), pointer(memory), block[2]
    us, zs, cdf, sf = buffers[0], buffers[1], buffers[2], buffers[3]
    a = pointer(sf if formulas.reversed else cdf)
    by_channel = row(sums, 0), row(sums, 1), row(sums, 2), row(sums, 3)
    for b in range(start // height, (stop - 1) // height + 1):
        rows = (max(start - b * height, 0), min(stop - b * height, height))
        begin_walk(block, offsets[b])
        while True:
            n = next_block(tables, offsets[b + 1], rows, b, block, False)
            if n == 0:
                break
            coverage(padded(n), block[1][DISTANCE:], tables.images[b], formulas, us, zs, cdf, sf)
            for k in range(block[0][PARTS]):
                f, i, end = indices[PART_FACE + k], indices[PART + k], indices[PART + k + 1]
                _weights(i, end, f, points, corners, paint[0], paint[5], parts)
                _colours(i, end, f, b, paint, parts, False)
            _accumulate(block, a, formulas.cutoff, parts, by_channel, pointer(tops), stop * width)
    # Numba frees an array after its last use by name, even if pointers into it are used later.
    memory[0], buffers[0, 0] = 0.0, 0.0
    for pixel in range(start * width, stop * width):
        sums[3, pixel] += power_of_two(-tops[pixel])
        for c in range(3):
            sums[c, pixel] /= sums[3, pixel]


# ---------------------------------------------------------------------------------------------
# Backward
# ---------------------------------------------------------------------------------------------


@kernel()
def plan_texels(arrays, attributes, textures, needed, patches, start, stop):
    """Plan how faces start .. stop - 1 store gradients of texels, and the memory for them.

    A face only uses texels between its corners in the texture. Their gradients are kept as a patch,
    unless records of its fragments take less memory.
    """
    tables = FaceTables(*arrays)
    corners, boxes, grid = tables.corners, tables.boxes, tables.grid
    image_height, image_width = extent(grid)
    side = float(min(image_height, image_width))
    for f in range(start, stop):
        b = tables.image_of_face[f]
        edges = face_edges(corners, f, face_orientation(corners, f))
        bounds = face_bounds(edges, tables.images[b, RADIUS], image_width, side)
        fragments = 0
        for i in range(boxes[f, 2], boxes[f, 3]):
            x0, x1 = row_span(boxes[f, 0], boxes[f, 1], bounds, grid[1][i])
            fragments += max(x1 - x0, 0)
        height, width = textures[b, 1], textures[b, 2]
        u0, u1, u2 = _corner_values(attributes, f, UV, 2)
        v0, v1, v2 = _corner_values(attributes, f, UV + 1, 2)
        # One more texel on every side covers rounding.
        left = np.floor(min(u0, u1, u2) * width - 1.5)
        right = np.floor(max(u0, u1, u2) * width + 0.5)
        top = np.floor((1.0 - max(v0, v1, v2)) * height - 1.5)
        bottom = np.floor((1.0 - min(v0, v1, v2)) * height + 0.5)
        across, down = right - left + 2.0, bottom - top + 2.0
        near = min(left, top) > -_FAR and max(right, bottom) < _FAR
        if near and 3.0 * across * down <= RECORD * float(fragments):
            patches[f, LEFT], patches[f, TOP] = int(left), int(top)
            patches[f, ACROSS], patches[f, DOWN] = int(across), int(down)
            needed[f] = 3 * patches[f, ACROSS] * patches[f, DOWN]
        else:
            needed[f] = RECORD * fragments


@inner()
def _shares(n, block, a, cutoff, pixels, parts):
    """The heights exp(e) of a block divided by the sums of their pixels, and what pixels hold.

    A height is 0 if the fragment does not cover, or is so far behind that its weight underflows.
    """
    gather(block, pixels, shifted(parts, _P_RED))
    for k in range(padded(n)):
        power = parts[_POWER + k] - parts[_P_TOP + k]
        power = power_of_two(power if power < 0.0 else 0.0)
        height = parts[_HEIGHT + k] * power * parts[_P_INVERSE + k]
        parts[_HEIGHT + k] = height if (a[k] > cutoff) & (a[k] * height > 0.0) else 0.0


@inner()
def _clear(i, stop, parts):
    """Let what fills the last vector of a part count nothing."""
    for k in range(stop, _end(i, stop)):
        parts[_G_RED + k], parts[_G_GREEN + k], parts[_G_BLUE + k] = 0.0, 0.0, 0.0
        parts[_G_FACTOR + k], parts[_G_HIGHLIGHT + k], parts[_G_DEPTH + k] = 0.0, 0.0, 0.0


@inner()
def _colours_backward(i, stop, f, b, a, paint, grads, asked, parts, grad_a):
    """Gradients of the colours of a run, of its depths, and of its coverages."""
    attributes, surface, lights, _, textures, depths = paint
    _, grad_attributes, grad_lights = grads
    for k in range(i, _end(i, stop)):
        factor, highlight, height = parts[_FACTOR + k], parts[_HIGHLIGHT + k], parts[_HEIGHT + k]
        red = parts[_RED + k] * parts[_T_RED + k]
        green = parts[_GREEN + k] * parts[_T_GREEN + k]
        blue = parts[_BLUE + k] * parts[_T_BLUE + k]
        g0, g1, g2 = parts[_P_RED + k], parts[_P_GREEN + k], parts[_P_BLUE + k]
        bright, white = g0 * red + g1 * green + g2 * blue, g0 + g1 + g2
        onward = bright * factor + white * highlight + parts[_P_TAKEN + k]
        share = a[k] * height
        grad_a[k] = onward * height
        parts[_G_FACTOR + k], parts[_G_HIGHLIGHT + k] = share * bright, share * white
        parts[_G_RED + k], parts[_G_GREEN + k], parts[_G_BLUE + k] = (
            share * g0,
            share * g1,
            share * g2,
        )
        parts[_G_DEPTH + k] = onward * share  # the gradient of the exponent e
    _clear(i, stop, parts)
    if len(grad_lights) > 0:
        for k in range(i, stop):
            grad_lights[f, GRAD_RATE] += parts[_G_DEPTH + k] * parts[_BEHIND + k]
    _corners_backward(i, stop, f, attributes, parts, depths[RATE], grad_attributes)
    if surface[TEXTURED] != 0.0:
        _texture_backward(i, stop, f, b, attributes, textures, parts, asked, grad_attributes)
    if surface[SMOOTH] != 0.0:
        _light_backward(
            i, stop, f, b, attributes, surface, lights, parts, grad_attributes, grad_lights
        )


@kernel()
def softmax_faces(arrays, formulas, paint, pixels, grads, grad_scalars, asked, start, stop):
    """Gradients of the faces start .. stop - 1.

    The tuples contain:
        paint: attributes [T, <= 39], surface, lights [B, 6], texels [3 N], textures [B, 3] (first
            texel, height, width) and (rate, depth of the background).
        pixels: six arrays [P + LANES]: the gradients of red, green and blue; the gradient that any
            share has through the normalisation, which is what a fragment takes from the others of
            its pixel; one over the sum of weights; and the `tops` of `softmax_rows`.
        grads: the gradients to fill: of corners [T, N, 2], of attributes, and of lights and rate
            [T, 7] (or empty).
        asked: memory for gradients of texels [R] (or empty), slots, used, patches [T, 4], and a
            first face. The memory of face f starts at slots[f - first]; it holds a patch of the
            texture, or records, whose number is used[f - first].

    `grad_scalars` [T, 4] (or empty) are the gradients of scale, shift and shape.
    """
    tables, formulas = FaceTables(*arrays), Formulas(*formulas)
    block, buffers, memory = new_block(), np.zeros((10, STRIDE)), _new_parts()
    points, parts, indices = pointer(block[1]), pointer(memory), block[2]
    rows, scalars, ds = (0, extent(tables.grid)[0]), len(grad_scalars) > 0, block[1][DISTANCE:]
    corners, offsets, image_of_face = tables.corners, tables.offsets, tables.image_of_face
    us, zs, cdf, sf = buffers[0], buffers[1], buffers[2], buffers[3]
    pdf, grad_a, grad_z, grad_d, dshape = buffers[4], buffers[5], buffers[6], buffers[7], buffers[8]
    covers, on_a = pointer(sf if formulas.reversed else cdf), pointer(grad_a)
    of_pixels = (
        pointer(pixels[0]), pointer(pixels[1]), pointer(pixels[2]), pointer(pixels[3]),
        pointer(pixels[4]), pointer(pixels[5]),
    )  # fmt: skip
    for b in range(image_of_face[start], image_of_face[stop - 1] + 1):
        image, last = tables.images[b], min(stop, offsets[b + 1])
        begin_walk(block, max(start, offsets[b]))
        while True:
            n = next_block(tables, last, rows, b, block, True)
            if n == 0:
                break
            count = padded(n)
            coverage_and_density(count, ds, image, formulas, us, zs, cdf, sf, pdf)
            for k in range(block[0][PARTS]):
                f, i, end = indices[PART_FACE + k], indices[PART + k], indices[PART + k + 1]
                _weights(i, end, f, points, corners, paint[0], paint[5], parts)
                _colours(i, end, f, b, paint, parts, True)
            _shares(n, block, covers, formulas.cutoff, of_pixels, parts)
            for j in range(block[0][PARTS]):
                f, i, end = indices[PART_FACE + j], indices[PART + j], indices[PART + j + 1]
                _colours_backward(i, end, f, b, covers, paint, grads, asked, parts, on_a)
                _weights_backward(i, end, f, points, corners, paint[0], parts, grads[0], grads[1])
            for k in range(count):
                grad_z[k] = grad_a[k] * pdf[k]
            through_argument(count, ds, image[SCALE], formulas, grad_z, grad_d)
            move_corners(n, block, corners, grad_d, buffers[9], grads[0])
            if scalars:
                add_distribution_scalars(
                    n, block, image, formulas, us, zs, grad_a, grad_z, dshape, grad_scalars
                )
    memory[0], buffers[0, 0] = 0.0, 0.0  # see `softmax_rows`
