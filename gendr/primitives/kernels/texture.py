"""The compiled kernels of texture lookups and of mipmaps.

A unit is a pixel. Arithmetic is float64 whatever the input: coordinates times sizes would lose
digits in float32. The four texels of a lookup are places in a level, -1 where there is none, with
weights; slopes of the lookup are other weights of the same texels.

The gradient of texels is a sum over pixels that may lie anywhere. Texels are cut into bins and
pixels into chunks; a count of what each chunk has for each bin gives every entry its place in one
list, in which a bin finds its pixels in their order. Each bin is then summed up by one thread, so
that no atomics are needed, and no bit depends on threads, bins or chunks.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math

import numpy as np

from gendr.kernels.numba.bodies import compiled
from gendr.kernels.numba.calls import pointer
from gendr.kernels.numba.compilation import announce_compilation, ensure_cache, inner, kernel
from gendr.kernels.numba.mathematics import bits_of, from_bits
from gendr.primitives import formulas
from gendr.primitives.cubes import AXES, SEAMS, SIGNS

ensure_cache()
announce_compilation(__name__)

_OPTIONS = {"error_model": "numpy"}
_INLINE = {**_OPTIONS, "forceinline": True}  # calls would take longer than what they do
WRAP, CLAMP, ZERO, CUBE = range(4)
# Of a lookup: the nearest texel, the four around, four in the nearest level, in the two around.
NEAREST, LINEAR, LEVEL, LEVELS = range(4)
_ellipse = compiled(formulas.ellipse, inlined=True)
_of_slopes = compiled(formulas.of_slopes, inlined=True)
# Pixels whose levels are found at once, in vectors.
_BLOCK = 256
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD


@inner(**_INLINE)
def _log2(x):
    """The logarithm to base 2, of a finite x >= 0; below -1000 at 0."""
    exponent = (bits_of(x) - _SQRT_HALF_BITS) >> 52
    m = from_bits(bits_of(x) - (exponent << 52))  # in [sqrt(1/2), sqrt(2))
    z = (m - 1.0) / (m + 1.0)
    y = z * z  # < 0.0295: the last term that is left out is below 1e-16
    series = 1 / 17 + y * (1 / 19)
    series = 1 / 15 + y * series
    series = 1 / 13 + y * series
    series = 1 / 11 + y * series
    series = 1 / 9 + y * series
    series = 1 / 7 + y * series
    series = 1 / 5 + y * series
    series = 1 / 3 + y * series
    return exponent + (2.0 / math.log(2.0)) * (z + z * y * series)


@inner(**_INLINE)
def _place(uv, p, boundary):
    """Face, coordinates in [0, 1] on it, and the length of the major axis: 0 if there is none."""
    if boundary != CUBE:
        u, v = float(uv[2 * p]), float(uv[2 * p + 1])
        if boundary == WRAP:
            u, v = u - np.floor(u), v - np.floor(v)
        return 0, u, v, 1.0 if u == u and v == v else 0.0
    x, y, z = float(uv[3 * p]), float(uv[3 * p + 1]), float(uv[3 * p + 2])
    ax, ay, az = abs(x), abs(y), abs(z)
    if not ax + ay + az > 0.0 or not max(ax, ay, az) < np.inf:
        return 0, 0.0, 0.0, 0.0
    if ax >= ay and ax >= az:
        face, m, s, t = (0, ax, -z, -y) if x > 0.0 else (1, ax, z, -y)
    elif ay >= az:
        face, m, s, t = (2, ay, x, z) if y > 0.0 else (3, ay, x, -z)
    else:
        face, m, s, t = (4, az, x, -y) if z > 0.0 else (5, az, -x, -y)
    return face, 0.5 * (s / m + 1.0), 0.5 * (t / m + 1.0), m


@inner(**_INLINE)
def _slopes(uv_da, p, boundary, face, u, v, m):
    """du/dX, du/dY, dv/dX, dv/dY of the coordinates on the face."""
    if boundary != CUBE:
        k = 4 * p
        return float(uv_da[k]), float(uv_da[k + 1]), float(uv_da[k + 2]), float(uv_da[k + 3])
    i, j, k = 6 * p + 2 * AXES[face, 0], 6 * p + 2 * AXES[face, 1], 6 * p + 2 * AXES[face, 2]
    of_s, of_t, of_m = SIGNS[face, 0], SIGNS[face, 1], SIGNS[face, 2]
    a, b, half = 2.0 * u - 1.0, 2.0 * v - 1.0, 0.5 / m
    return (
        half * (of_s * uv_da[i] - a * of_m * uv_da[k]),
        half * (of_s * uv_da[i + 1] - a * of_m * uv_da[k + 1]),
        half * (of_t * uv_da[j] - b * of_m * uv_da[k]),
        half * (of_t * uv_da[j + 1] - b * of_m * uv_da[k + 1]),
    )


@inner(**_INLINE)
def _square(slopes, height, width):
    """The major axis of the footprint squared, in texels."""
    a, _, c, root = _ellipse(slopes, height, width)
    return 0.5 * (a + c) + root


@inner(**_INLINE)
def _levels(raw, mode, last):
    """The two levels of a lookup, and the share of the second."""
    if mode < LEVEL:
        return 0, 0, 0.0
    level = min(max(raw, 0.0), float(last))
    if mode == LEVEL:
        nearest = int(level + 0.5)
        return nearest, nearest, 0.0
    first = int(level)
    return first, min(first + 1, last), level - first


@inner(**_OPTIONS)
def _level_of(uv_da, bias, p, mode, boundary, place, sizes):
    """The level of a pixel before it is clamped, and what `_levels` gives."""
    if mode < LEVEL:
        return 0.0, 0, 0, 0.0
    raw = float(bias[p]) if len(bias) > 0 else 0.0
    if len(uv_da) > 0:
        face, u, v, m = place
        slopes = _slopes(uv_da, p, boundary, face, u, v, m)
        raw += 0.5 * _log2(_square(slopes, sizes[0, 1], sizes[0, 2]))
    first, second, share = _levels(raw, mode, len(sizes) - 1)
    return raw, first, second, share


@inner(**_OPTIONS)
def _find(uv, uv_da, bias, start, count, mode, boundary, sizes, found, faces, at):
    """The places and raw levels of a run of pixels: u, v (NaN if there is none), level; faces.

    They go to the columns of `found` from `at` on.
    """
    height, width = float(sizes[0, 1]), float(sizes[0, 2])
    mipmapped = mode >= LEVEL
    us, vs, levels = found[0, at : at + count], found[1, at : at + count], found[2, at : at + count]
    if boundary == CUBE:
        for k in range(count):
            p = start + k
            face, us[k], vs[k], m = _place(uv, p, boundary)
            faces[at + k] = face
            if mipmapped and len(uv_da) > 0:
                slopes = _slopes(uv_da, p, boundary, face, us[k], vs[k], m)
                levels[k] = _square(slopes, height, width)
            if m == 0.0:
                us[k] = np.nan
    else:
        for k in range(count):
            us[k], vs[k] = uv[2 * (start + k)], uv[2 * (start + k) + 1]
        if boundary == WRAP:
            for k in range(count):
                us[k] -= np.floor(us[k])
                vs[k] -= np.floor(vs[k])
        if mipmapped and len(uv_da) > 0:
            for k in range(count):
                slopes = _slopes(uv_da, start + k, WRAP, 0, 0.0, 0.0, 1.0)
                levels[k] = _square(slopes, height, width)
    if not mipmapped:
        return
    if len(uv_da) > 0:
        for k in range(count):
            levels[k] = 0.5 * _log2(levels[k])
    else:
        levels[:] = 0.0
    if len(bias) > 0:
        for k in range(count):
            levels[k] += bias[start + k]


@inner(**_INLINE)
def _pair(x, size, boundary):
    """Two neighbours along one axis, the position between them, and whether it may move."""
    x, inner = x * size - 0.5, 1.0
    if boundary == CLAMP:
        if x < 0.0:
            x, inner = 0.0, 0.0
        elif x > size - 1.0:
            x, inner = size - 1.0, 0.0
    elif boundary == ZERO:
        x = min(max(x, -2.0), size + 1.0)
    below = np.floor(x)
    i, f = int(below), x - below
    j = i + 1
    if boundary == WRAP:
        if i < 0:
            i = size - 1
        if j == size:
            j = 0
    elif boundary == CLAMP:
        j = min(j, size - 1)
    elif boundary == ZERO:
        if i < 0 or i >= size:
            i = -1
        if j < 0 or j >= size:
            j = -1
    return i, j, f, inner


@inner(**_INLINE)
def _one(x, size, boundary):
    """The texel that holds a coordinate along one axis; -1 if there is none."""
    x = np.floor(min(max(x * size, -1.0), size + 0.0))
    i = int(x)
    if boundary == WRAP:
        return 0 if i >= size else i
    if boundary == ZERO:
        return i if i < size else -1
    return min(max(i, 0), size - 1)


@inner(**_INLINE)
def _on_cube(face, i, j, size):
    """The texel of column i and row j of a face, which may be one beyond its border.

    It is -1 for a corner of the cube, where three faces meet and there is no fourth texel.
    """
    off_i, off_j = i < 0 or i >= size, j < 0 or j >= size
    if off_i and off_j:
        return -1
    if off_i or off_j:
        side = (0 if i < 0 else 1) if off_i else (2 if j < 0 else 3)
        along = j if off_i else i
        if SEAMS[face, side, 3] > 0:
            along = size - 1 - along
        across = (size - 1) * SEAMS[face, side, 2]
        if SEAMS[face, side, 1] == 0:
            i, j = across, along
        else:
            i, j = along, across
        face = SEAMS[face, side, 0]
    return (face * size + j) * size + i


@inner(**_INLINE)
def _texels(mode, boundary, place, height, width):
    """Four texels of a level, the position between them, and whether it may move."""
    face, u, v, _ = place
    if mode == NEAREST:
        i, j = _one(u, width, boundary), _one(v, height, boundary)
        k = (face * height + j) * width + i if i >= 0 and j >= 0 else -1
        return (k, -1, -1, -1), 0.0, 0.0, 0.0, 0.0
    i, right, fx, inner_x = _pair(u, width, boundary)
    j, above, fy, inner_y = _pair(v, height, boundary)
    if boundary == CUBE:
        if i >= 0 and j >= 0 and right < width and above < height:
            k = (face * height + j) * width + i
            return (k, k + 1, k + width, k + width + 1), fx, fy, 1.0, 1.0
        texels = (
            _on_cube(face, i, j, width), _on_cube(face, right, j, width),
            _on_cube(face, i, above, width), _on_cube(face, right, above, width),
        )  # fmt: skip
        return texels, fx, fy, 1.0, 1.0
    low, high = j * width, above * width
    if boundary == ZERO:
        texels = (
            low + i if j >= 0 and i >= 0 else -1, low + right if j >= 0 and right >= 0 else -1,
            high + i if above >= 0 and i >= 0 else -1,
            high + right if above >= 0 and right >= 0 else -1,
        )  # fmt: skip
        return texels, fx, fy, inner_x, inner_y
    return (low + i, low + right, high + i, high + right), fx, fy, inner_x, inner_y


@inner(**_INLINE)
def _spread(texels, weights, boundary):
    """The weights, 0 where there is no texel; at a corner of a cube the others take its share."""
    a, b, c, d = texels
    if a >= 0 and b >= 0 and c >= 0 and d >= 0:
        return weights
    p, q, r, s = weights
    lost = 0.0
    if boundary == CUBE:
        lost += p if a < 0 else 0.0
        lost += q if b < 0 else 0.0
        lost += r if c < 0 else 0.0
        lost += s if d < 0 else 0.0
        lost /= 3.0
    return (
        p + lost if a >= 0 else 0.0,
        q + lost if b >= 0 else 0.0,
        r + lost if c >= 0 else 0.0,
        s + lost if d >= 0 else 0.0,
    )


@inner(**_INLINE)
def _weights(mode, boundary, texels, fx, fy):
    """The weights of the four texels."""
    if mode == NEAREST:
        return (1.0 if texels[0] >= 0 else 0.0), 0.0, 0.0, 0.0
    ex, ey = 1.0 - fx, 1.0 - fy
    weights = ex * ey, fx * ey, ex * fy, fx * fy
    return weights if boundary < ZERO else _spread(texels, weights, boundary)


@inner(**_INLINE)
def _starts(texels, start, channels):
    """Where the texels of a level begin in its array; those that are not there anywhere in it."""
    return (
        start + max(texels[0], 0) * channels,
        start + max(texels[1], 0) * channels,
        start + max(texels[2], 0) * channels,
        start + max(texels[3], 0) * channels,
    )


@inner(**_INLINE)
def _scaled(weights, share):
    return weights[0] * share, weights[1] * share, weights[2] * share, weights[3] * share


@inner(**_INLINE)
def _four(source, at, weights, c):
    return (
        source[at[0] + c] * weights[0]
        + source[at[1] + c] * weights[1]
        + source[at[2] + c] * weights[2]
        + source[at[3] + c] * weights[3]
    )


@inner(**_INLINE)
def _start(image, level, sizes, of_tex, of_mips):
    """Where a level of an image begins in its array."""
    return image * of_tex if level == 0 else image * of_mips + sizes[level, 0]


@inner(**_INLINE)
def _lookup(mode, boundary, place, level, image, sizes, of_tex, of_mips, channels):
    """Where the four texels of a level begin, and their weights."""
    texels, fx, fy, _, _ = _texels(mode, boundary, place, sizes[level, 1], sizes[level, 2])
    weights = _weights(mode, boundary, texels, fx, fy)
    return _starts(texels, _start(image, level, sizes, of_tex, of_mips), channels), weights


@kernel(**_OPTIONS)
def sample(uv, uv_da, bias, tex, mips, sizes, counts, mode, boundary, out, start, stop):
    """Look up pixels of a range.

    Args:
        uv: of all pixels, flat; and so are
        uv_da: which may be empty, and
        bias: which may be empty.
        tex: all textures, flat.
        mips: their smaller levels, flat.
        sizes: [L, 3], where in the mipmaps of an image a level begins, its height and its width.
        counts: pixels of an image, channels, numbers of a texture and of its mipmaps; the last two
            are 0 if all images share them.
        mode: see above.
        boundary: see above.
        out: of all pixels, flat.
        start: of the range.
        stop: of the range.
    """
    pixels, channels, of_tex, of_mips = counts[0], counts[1], counts[2], counts[3]
    base, smaller = pointer(tex), pointer(mips)  # arrays would be counted as they are chosen
    last = len(sizes) - 1
    found, faces = np.zeros((3, _BLOCK)), np.zeros(_BLOCK, np.int8)
    p = start
    while p < stop:
        image, begin = p // pixels, p
        end = min(stop, (image + 1) * pixels, p + _BLOCK)
        _find(uv, uv_da, bias, begin, end - begin, mode, boundary, sizes, found, faces, 0)
        for p in range(begin, end):
            place = int(faces[p - begin]), found[0, p - begin], found[1, p - begin], 1.0
            o = p * channels
            if not (place[1] == place[1] and place[2] == place[2]):
                for c in range(channels):
                    out[o + c] = 0.0
                continue
            first, second, share = _levels(found[2, p - begin], mode, last)
            source = base if first == 0 else smaller
            at, weights = _lookup(
                mode, boundary, place, first, image, sizes, of_tex, of_mips, channels
            )
            if share == 0.0:
                c = 0
                while c + 3 <= channels:  # in threes: a loop over them takes longer than the sums
                    out[o + c] = _four(source, at, weights, c)
                    out[o + c + 1] = _four(source, at, weights, c + 1)
                    out[o + c + 2] = _four(source, at, weights, c + 2)
                    c += 3
                while c < channels:
                    out[o + c] = _four(source, at, weights, c)
                    c += 1
                continue
            coarse, others = _lookup(
                mode, boundary, place, second, image, sizes, of_tex, of_mips, channels
            )
            weights, others = _scaled(weights, 1.0 - share), _scaled(others, share)
            c = 0
            while c + 3 <= channels:
                a = _four(source, at, weights, c) + _four(smaller, coarse, others, c)
                b = _four(source, at, weights, c + 1) + _four(smaller, coarse, others, c + 1)
                d = _four(source, at, weights, c + 2) + _four(smaller, coarse, others, c + 2)
                out[o + c], out[o + c + 1], out[o + c + 2] = a, b, d
                c += 3
            while c < channels:
                out[o + c] = _four(source, at, weights, c) + _four(smaller, coarse, others, c)
                c += 1
        p = end


@inner(**_OPTIONS)
def _slope_sums(grad, o, channels, source, start, mode, boundary, place, height, width):
    """Sums over channels of the gradient times value, du-slope and dv-slope of a level."""
    texels, fx, fy, inner_x, inner_y = _texels(mode, boundary, place, height, width)
    weights = _weights(mode, boundary, texels, fx, fy)
    ex, ey = 1.0 - fx, 1.0 - fy
    of_x = _spread(texels, (-ey, ey, -fy, fy), boundary)
    of_y = _spread(texels, (-ex, -fx, ex, fx), boundary)
    at = _starts(texels, start, channels)
    value, along_u, along_v = 0.0, 0.0, 0.0
    for c in range(channels):
        g = float(grad[o + c])
        value += g * _four(source, at, weights, c)
        along_u += g * _four(source, at, of_x, c)
        along_v += g * _four(source, at, of_y, c)
    return value, along_u * width * inner_x, along_v * height * inner_y


@kernel(**_OPTIONS)
def sample_back(
    uv, uv_da, bias, tex, mips, sizes, counts, mode, boundary, grad, to_uv, to_da, to_bias, start,
    stop,
):  # fmt: skip
    """The gradients of uv, uv_da and bias of a range of pixels, into arrays of zeros."""
    pixels, channels, of_tex, of_mips = counts[0], counts[1], counts[2], counts[3]
    if mode == NEAREST:
        return
    base, smaller = pointer(tex), pointer(mips)
    for p in range(start, stop):
        place = _place(uv, p, boundary)
        face, u, v, m = place
        if m == 0.0:
            continue
        image, o = p // pixels, p * channels
        raw, first, second, share = _level_of(uv_da, bias, p, mode, boundary, place, sizes)
        value, of_u, of_v = _slope_sums(
            grad, o, channels, base if first == 0 else smaller,
            _start(image, first, sizes, of_tex, of_mips), mode, boundary, place,
            sizes[first, 1], sizes[first, 2],
        )  # fmt: skip
        of_level = 0.0
        if mode == LEVELS and raw >= 0.0 and raw <= len(sizes) - 1 and second > first:
            coarse, coarse_u, coarse_v = _slope_sums(
                grad, o, channels, smaller, _start(image, second, sizes, of_tex, of_mips), mode,
                boundary, place, sizes[second, 1], sizes[second, 2],
            )  # fmt: skip
            of_level = coarse - value
            of_u += share * (coarse_u - of_u)
            of_v += share * (coarse_v - of_v)
        if len(to_bias) > 0:
            to_bias[p] = of_level
        of_ux, of_uy, of_vx, of_vy = 0.0, 0.0, 0.0, 0.0
        slopes = (0.0, 0.0, 0.0, 0.0)
        if len(uv_da) > 0 and of_level != 0.0:
            slopes = _slopes(uv_da, p, boundary, face, u, v, m)
            of_log = of_level * 0.5 / math.log(2.0)
            of_ux, of_uy, of_vx, of_vy = _of_slopes(slopes, sizes[0, 1], sizes[0, 2], of_log)
        if boundary != CUBE:
            to_uv[2 * p], to_uv[2 * p + 1] = of_u, of_v
            if len(to_da) > 0:
                to_da[4 * p], to_da[4 * p + 1] = of_ux, of_uy
                to_da[4 * p + 2], to_da[4 * p + 3] = of_vx, of_vy
            continue
        # u = (s / m + 1) / 2, du/dX = (ds/dX - (s / m) dm/dX) / 2m, and alike for v and dY.
        i, j, k = AXES[face, 0], AXES[face, 1], AXES[face, 2]
        of_s, of_t, of_m = SIGNS[face, 0], SIGNS[face, 1], SIGNS[face, 2]
        a, b, half = 2.0 * u - 1.0, 2.0 * v - 1.0, 0.5 / m
        to_a, to_b = 0.5 * of_u, 0.5 * of_v
        to_m = 0.0
        if len(uv_da) > 0 and of_level != 0.0:
            d = 6 * p + 2 * k
            mx, my = of_m * uv_da[d], of_m * uv_da[d + 1]
            to_a -= half * (of_ux * mx + of_uy * my)
            to_b -= half * (of_vx * mx + of_vy * my)
            to_m -= of_ux * slopes[0] + of_uy * slopes[1] + of_vx * slopes[2] + of_vy * slopes[3]
            if len(to_da) > 0:
                to_da[6 * p + 2 * i] = of_s * half * of_ux
                to_da[6 * p + 2 * i + 1] = of_s * half * of_uy
                to_da[6 * p + 2 * j] = of_t * half * of_vx
                to_da[6 * p + 2 * j + 1] = of_t * half * of_vy
                to_da[d] = -of_m * half * (of_ux * a + of_vx * b)
                to_da[d + 1] = -of_m * half * (of_uy * a + of_vy * b)
        to_uv[3 * p + i] = of_s * to_a / m
        to_uv[3 * p + j] = of_t * to_b / m
        to_uv[3 * p + k] = of_m * (to_m - to_a * a - to_b * b) / m


@kernel(**_OPTIONS)
def find_places(uv, uv_da, bias, sizes, mode, boundary, found, faces, start, stop):
    """What `_find` gives, for a range of pixels of all; `found` is [3, pixels]."""
    _find(uv, uv_da, bias, start, stop - start, mode, boundary, sizes, found, faces, start)


@inner(**_INLINE)
def _texels_of(p, slot, found, faces, sizes, counts, mode, boundary):
    """The four texels of one of the two levels of a pixel, and their weights.

    They are numbered through all levels of all images, -1 where there is none; the weights hold
    the share of the level.
    """
    first, second, share = _levels(found[2, p], mode, len(sizes) - 1)
    level, part = (first, 1.0 - share) if slot == 0 else (second, share)
    place = int(faces[p]), found[0, p], found[1, p], 1.0
    (a, b, c, d), fx, fy, _, _ = _texels(mode, boundary, place, sizes[level, 1], sizes[level, 2])
    weights = _scaled(_weights(mode, boundary, (a, b, c, d), fx, fy), part)
    image = p // counts[0] if counts[2] > 0 else 0
    start = image * counts[4] + (0 if level == 0 else counts[5] + sizes[level, 0] // counts[1])
    a = start + a if a >= 0 else -1
    b = start + b if b >= 0 else -1
    c = start + c if c >= 0 else -1
    d = start + d if d >= 0 else -1
    return (a, b, c, d), weights


@kernel(**_OPTIONS)
def list_texels(
    found, faces, sizes, counts, mode, boundary, grad, shift, chunk, places, entries, start, stop
):
    """Count what chunks of pixels have for each bin; or, with `entries`, write it there.

    Pixels without a gradient, such as those of a background, are left out.

    Args:
        found: of `find_places`.
        faces: of `find_places`.
        sizes: see `sample`.
        counts: see `sample`; it goes on with the texels of all levels of an image, and of its
            texture alone.
        mode: see above.
        boundary: see above.
        grad: of the results.
        shift: a bin has 2^shift texels.
        chunk: pixels of a chunk.
        places: [chunks, bins], the counts, 0 before; or where the entries of each go.
        entries: 2 * pixel + slot each, or empty to count.
        start: the first chunk.
        stop: one past the last.
    """
    channels = counts[1]
    for k in range(start, stop):
        for p in range(k * chunk, min((k + 1) * chunk, len(faces))):
            if found[0, p] != found[0, p] or found[1, p] != found[1, p]:
                continue
            c = 0
            while c < channels and grad[p * channels + c] == 0.0:
                c += 1
            if c == channels:
                continue
            _, _, share = _levels(found[2, p], mode, len(sizes) - 1)
            for slot in range(2 if share > 0.0 else 1):
                (a, b, c, d), _ = _texels_of(p, slot, found, faces, sizes, counts, mode, boundary)
                # Texels of one bin, and those that are not there, count once.
                a, b, c, d = a >> shift, b >> shift, c >> shift, d >> shift
                b = -1 if b == a else b
                c = -1 if c == a or c == b else c
                d = -1 if d == a or d == b or d == c else d
                for bin in (a, b, c, d):
                    if bin >= 0:
                        if len(entries) > 0:
                            entries[places[k, bin]] = 2 * p + slot
                        places[k, bin] += 1


@kernel(**_OPTIONS)
def add_texels(
    found, faces, sizes, counts, mode, boundary, grad, shift, ends, entries, to_tex, to_mips,
    start, stop,
):  # fmt: skip
    """Sum up the gradients of the texels of a range of bins, each in the order of its pixels."""
    channels, of_all, of_tex = counts[1], counts[4], counts[5]
    total = (len(to_tex) + len(to_mips)) // channels
    sums = np.empty(channels << shift)
    for k in range(start, stop):
        low, high = k << shift, min((k + 1) << shift, total)
        sums[:] = 0.0
        for e in range(ends[k - 1] if k > 0 else 0, ends[k]):
            p, slot = entries[e] >> 1, entries[e] & 1
            texels, weights = _texels_of(p, slot, found, faces, sizes, counts, mode, boundary)
            for i in range(4):
                texel, weight = texels[i], weights[i]
                if texel >= low and texel < high:
                    at = (texel - low) * channels
                    for c in range(channels):
                        sums[at + c] += weight * grad[p * channels + c]
        for texel in range(low, high):
            image, own = texel // of_all, texel % of_all
            at = (texel - low) * channels
            if own < of_tex:
                to = (image * of_tex + own) * channels
                for c in range(channels):
                    to_tex[to + c] = sums[at + c]
            else:
                to = (image * (of_all - of_tex) + own - of_tex) * channels
                for c in range(channels):
                    to_mips[to + c] = sums[at + c]


# ---------------------------------------------------------------------------------------------
# Mipmaps
# ---------------------------------------------------------------------------------------------


@inner(**_OPTIONS)
def _steps(layout, channels):
    """How far the texel below is, and the one to the right; 0 where a side is 1. See `halve`."""
    height, width = layout[2], layout[3]
    return width * channels if height > 1 else 0, channels if width > 1 else 0


@inner(**_OPTIONS)
def _rows(layout, channels, row):
    """Where the first of the two rows of the fine level begins, and the row that they become."""
    step, first, height, width = layout[0], layout[1], layout[2], layout[3]
    to_step, to_first, to_height, to_width = layout[4], layout[5], layout[6], layout[7]
    image, inner = row // (layout[8] * to_height), row % (layout[8] * to_height)
    face, j = inner // to_height, inner % to_height
    y = (2 * j if height > 1 else 0) + face * height
    at = image * step + first + y * width * channels
    return at, image * to_step + to_first + inner * to_width * channels


@kernel(**_OPTIONS)
def halve(fine, coarse, layout, channels, start, stop):
    """Means of 2 x 2 texels, where a side of 1 stays; units are rows of the coarse level.

    Args:
        fine: flat array in which the larger levels of all images lie.
        coarse: that of the smaller ones.
        layout: of fine, then of coarse: numbers of an image, where in them the level begins, its
            height and width; then the faces of an image.
        channels: of a texel.
        start: the first row of the coarse level, through the faces of all images.
        stop: one past the last.
    """
    down, right = _steps(layout, channels)
    for row in range(start, stop):
        at, to = _rows(layout, channels, row)
        for i in range(layout[7]):
            for c in range(channels):
                k = at + 2 * i * right + c
                total = float(fine[k]) + fine[k + right] + fine[k + down] + fine[k + down + right]
                coarse[to + i * channels + c] = 0.25 * total


@kernel(**_OPTIONS)
def halve_back(fine, coarse, layout, channels, start, stop):
    """Add the gradient of a coarse level to that of the fine one; units as in `halve`."""
    down, right = _steps(layout, channels)
    share = 0.25 * (1 if down > 0 else 2) * (1 if right > 0 else 2)
    for row in range(start, stop):
        at, to = _rows(layout, channels, row)
        for i in range(layout[7]):
            for c in range(channels):
                g = share * coarse[to + i * channels + c]
                k = at + 2 * i * right + c
                fine[k] += g
                if right > 0:
                    fine[k + right] += g
                if down > 0:
                    fine[k + down] += g
                    if right > 0:
                        fine[k + down + right] += g
