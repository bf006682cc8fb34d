"""The compiled kernels of texture lookups and of mipmaps.

A unit is a pixel. Where it looks is found in float64 whatever the input, of a block of pixels in
vectors: coordinates times sizes would lose digits in float32. The four texels of a lookup are
places in a level, -1 where there is none, with weights; slopes of the lookup are other weights of
the same texels.

The gradient of texels is a sum over pixels that may lie anywhere. Texels are shared out among
owners, who take turns at small runs of them. Each owner is one thread, which looks at all pixels in
their order and sums up what its own texels get, in float64: no atomics are needed, and no bit
depends on threads.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math

import numpy as np

from gendr.kernels.numba.calls import pointer, shifted
from gendr.kernels.numba.calls import row as pointer_to
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.functions import compiled
from gendr.kernels.numba.mathematics import bits_of, from_bits
from gendr.primitives import formulas
from gendr.primitives.cubes import AXES, SEAMS, SIGNS

_INLINE = {"forceinline": True}  # calls would take longer than what they do
WRAP, CLAMP, ZERO, CUBE = range(4)
# Of a lookup: the nearest texel, the four around, four in the nearest level, in the two around.
NEAREST, LINEAR, LEVEL, LEVELS = range(4)
_ellipse = compiled(formulas.ellipse, inlined=True)
_of_slopes = compiled(formulas.of_slopes, inlined=True)
_log2_of = compiled(formulas.log2_of, inlined=True)
# Pixels whose texels are found at once, in vectors.
_BLOCK = 128
# Owners of texels take turns at 2^this numbers.
_SHARE = 8
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD


@inner(**_INLINE)
def _log2(x):
    """The logarithm to base 2, of a finite x >= 0; below -1000 at 0."""
    exponent = (bits_of(x) - _SQRT_HALF_BITS) >> 52
    return _log2_of(exponent, from_bits(bits_of(x) - (exponent << 52)))


@inner(**_INLINE)
def _place(uv, p):
    """Face of a cube, coordinates in [0, 1] on it, and the length of the major axis: 0 if none."""
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


@inner()
def _blocks():
    """Room for what `_find` finds of a block of pixels."""
    return (
        np.zeros((7, _BLOCK)), np.zeros(_BLOCK, np.int8), np.zeros((2, _BLOCK), np.int64),
        np.zeros((8, _BLOCK), np.int64), np.zeros((8, _BLOCK)),
    )  # fmt: skip


@inner()
def _find(uv, uv_da, bias, start, count, mode, boundary, sizes, channels, blocks):
    """Where a run of pixels looks: see `_blocks`, whose arrays are filled.

    Those are: u, v (NaN if there is none), the level before it is clamped, the share of the second
    of the two levels, and three rows for a while; faces; the two levels; of each of these, where
    the four texels begin, counted from the level 0 or from the smaller levels of an image, -1 where
    there is none; and the position between these along u and v, and how far it moves with each.
    """
    found, faces, levels, at, between = blocks
    us, vs, raw, shares = found[0], found[1], found[2], found[3]
    last, height, width = len(sizes) - 1, float(sizes[0, 1]), float(sizes[0, 2])
    sloped = mode >= LEVEL and len(uv_da) > 0
    if boundary == CUBE:
        for k in range(count):
            p = start + k
            face, us[k], vs[k], m = _place(uv, p)
            faces[k] = face
            if sloped:
                slopes = _slopes(uv_da, p, boundary, face, us[k], vs[k], m)
                raw[k] = _square(slopes, height, width)
            if m == 0.0:
                us[k] = np.nan
    else:
        for k in range(count):
            us[k], vs[k] = uv[2 * (start + k)], uv[2 * (start + k) + 1]
        if boundary == WRAP:
            for k in range(count):
                us[k] -= np.floor(us[k])
                vs[k] -= np.floor(vs[k])
        if sloped:
            for k in range(count):
                slopes = _slopes(uv_da, start + k, WRAP, 0, 0.0, 0.0, 1.0)
                raw[k] = _square(slopes, height, width)
    if sloped:
        for k in range(count):
            raw[k] = 0.5 * _log2(raw[k])
    else:
        raw[:] = 0.0
    if mode >= LEVEL and len(bias) > 0:
        for k in range(count):
            raw[k] += bias[start + k]
    for k in range(count):
        level = raw[k] if raw[k] > 0.0 else 0.0  # also for NaN
        level = level if level < last else float(last)
        nearest = int(level + 0.5) if mode == LEVEL else int(level)
        levels[0, k] = nearest
        levels[1, k] = min(nearest + 1, last)
        shares[k] = level - nearest if mode == LEVELS else 0.0
    for slot in range(2 if mode == LEVELS else 1):
        if mode != NEAREST and boundary < ZERO:
            for k in range(count):
                level = levels[slot, k]
                found[4, k], found[5, k] = sizes[level, 0], sizes[level, 1]
                found[6, k] = sizes[level, 2]
            one, two = pointer_to(at, 4 * slot), pointer_to(between, 4 * slot)
            if boundary == WRAP:
                _around(pointer_to(found, 0), count, channels, WRAP, one, two)
            else:
                _around(pointer_to(found, 0), count, channels, CLAMP, one, two)
            continue
        for k in range(count):
            if not (us[k] == us[k] and vs[k] == vs[k]):
                continue
            level, place, first = levels[slot, k], (int(faces[k]), us[k], vs[k]), 4 * slot
            texels, between[first, k], between[first + 1, k] = _texels(
                mode, boundary, place, sizes[level, 1], sizes[level, 2]
            )
            for i in range(4):
                texel = sizes[level, 0] + texels[i] * channels if texels[i] >= 0 else -1
                at[first + i, k] = texel
            between[first + 2, k], between[first + 3, k] = sizes[level, 2], sizes[level, 1]


@inner(**_INLINE)
def _side(x, size, boundary):
    """Two neighbours along one axis, the position between them, and whether it may move.

    In floats and without branches, for the two boundaries that need none.
    """
    x, inner = x * size - 0.5, 1.0
    if boundary == CLAMP:
        inner = 0.0 if x < 0.0 or x > size - 1.0 else 1.0
        x = 0.0 if x < 0.0 else x
        x = size - 1.0 if x > size - 1.0 else x
    i = np.floor(x)
    j = i + 1.0
    if boundary == CLAMP:
        return i, j if j < size else size - 1.0, x - i, inner
    return size - 1.0 if i < 0.0 else i, 0.0 if j == size else j, x - i, inner


@inner(**_INLINE)
def _around(found, count, channels, boundary, at, between):
    """What `_find` finds of one of the two levels, in vectors: rows of arrays by addresses."""
    for k in range(count):
        start, height, width = (
            found[4 * _BLOCK + k], found[5 * _BLOCK + k], found[6 * _BLOCK + k]
        )  # fmt: skip
        i, right, fx, inner_x = _side(found[k], width, boundary)
        j, above, fy, inner_y = _side(found[_BLOCK + k], height, boundary)
        low, high = start + j * width * channels, start + above * width * channels
        at[k], at[_BLOCK + k] = int(low + i * channels), int(low + right * channels)
        at[2 * _BLOCK + k] = int(high + i * channels)
        at[3 * _BLOCK + k] = int(high + right * channels)
        between[k], between[_BLOCK + k] = fx, fy
        between[2 * _BLOCK + k], between[3 * _BLOCK + k] = inner_x * width, inner_y * height


@inner(**_INLINE)
def _pair(x, size, boundary):
    """Two neighbours along one axis and the position between them, for the other two.

    With ZERO those outside are -1.
    """
    x = x * size - 0.5
    if boundary == ZERO:
        x = min(max(x, -2.0), size + 1.0)
    below = np.floor(x)
    i, f = int(below), x - below
    j = i + 1
    if boundary == ZERO:
        i, j = i if 0 <= i < size else -1, j if 0 <= j < size else -1
    return i, j, f


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
    """Four texels of a level and the position between them, where `_around` does not find them."""
    face, u, v = place
    if mode == NEAREST:
        i, j = _one(u, width, boundary), _one(v, height, boundary)
        k = (face * height + j) * width + i if i >= 0 and j >= 0 else -1
        return (k, -1, -1, -1), 0.0, 0.0
    i, right, fx = _pair(u, width, boundary)
    j, above, fy = _pair(v, height, boundary)
    if boundary == CUBE:
        if i >= 0 and j >= 0 and right < width and above < height:
            k = (face * height + j) * width + i
            return (k, k + 1, k + width, k + width + 1), fx, fy
        texels = (
            _on_cube(face, i, j, width), _on_cube(face, right, j, width),
            _on_cube(face, i, above, width), _on_cube(face, right, above, width),
        )  # fmt: skip
        return texels, fx, fy
    low, high = j * width, above * width
    texels = (
        low + i if j >= 0 and i >= 0 else -1, low + right if j >= 0 and right >= 0 else -1,
        high + i if above >= 0 and i >= 0 else -1,
        high + right if above >= 0 and right >= 0 else -1,
    )  # fmt: skip
    return texels, fx, fy


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
def _looked(mode, boundary, at, between, slot, k):
    """Where the four texels of a pixel begin, and their weights."""
    i = 4 * slot
    texels = at[i, k], at[i + 1, k], at[i + 2, k], at[i + 3, k]
    return texels, _weights(mode, boundary, texels, between[i, k], between[i + 1, k])


@inner(**_INLINE)
def _there(texels):
    """Texels that are not there are anywhere; their weights are 0."""
    a, b, c, d = texels
    return max(a, 0), max(b, 0), max(c, 0), max(d, 0)


@inner(**_INLINE)
def _as_in(out, weights):
    """Weights in the dtype of the results: sums of values of it need no more."""
    kind = out.dtype.type
    return kind(weights[0]), kind(weights[1]), kind(weights[2]), kind(weights[3])


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


@kernel()
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
    blocks = _blocks()
    found, _, levels, at, between = blocks
    p = start
    while p < stop:
        image, begin = p // pixels, p
        end = min(stop, (image + 1) * pixels, p + _BLOCK)
        _find(uv, uv_da, bias, begin, end - begin, mode, boundary, sizes, channels, blocks)
        # Arrays would be counted as they are chosen.
        base = shifted(pointer(tex), image * of_tex)
        smaller = shifted(pointer(mips), image * of_mips)
        for k in range(end - begin):
            o, share = (begin + k) * channels, found[3, k]
            if not (found[0, k] == found[0, k] and found[1, k] == found[1, k]):
                for c in range(channels):
                    out[o + c] = 0.0
                continue
            source = base if levels[0, k] == 0 else smaller
            texels, weights = _looked(mode, boundary, at, between, 0, k)
            fine = _there(texels)
            if share == 0.0:
                weights, c = _as_in(out, weights), 0
                while c + 3 <= channels:  # in threes: a loop over them takes longer than the sums
                    out[o + c] = _four(source, fine, weights, c)
                    out[o + c + 1] = _four(source, fine, weights, c + 1)
                    out[o + c + 2] = _four(source, fine, weights, c + 2)
                    c += 3
                while c < channels:
                    out[o + c] = _four(source, fine, weights, c)
                    c += 1
                continue
            texels, others = _looked(mode, boundary, at, between, 1, k)
            coarse = _there(texels)
            weights = _as_in(out, _scaled(weights, 1.0 - share))
            others, c = _as_in(out, _scaled(others, share)), 0
            while c + 3 <= channels:
                a = _four(source, fine, weights, c) + _four(smaller, coarse, others, c)
                b = _four(source, fine, weights, c + 1) + _four(smaller, coarse, others, c + 1)
                d = _four(source, fine, weights, c + 2) + _four(smaller, coarse, others, c + 2)
                out[o + c], out[o + c + 1], out[o + c + 2] = a, b, d
                c += 3
            while c < channels:
                out[o + c] = _four(source, fine, weights, c) + _four(smaller, coarse, others, c)
                c += 1
        p = end


@inner(**_INLINE)
def _products(grad, o, channels, source, at):
    """The products of the gradient of a pixel and its four texels, summed over channels."""
    i, j, k, m = at
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    n = 0
    while n + 3 <= channels:
        x, y, z = float(grad[o + n]), float(grad[o + n + 1]), float(grad[o + n + 2])
        a += x * source[i + n] + y * source[i + n + 1] + z * source[i + n + 2]
        b += x * source[j + n] + y * source[j + n + 1] + z * source[j + n + 2]
        c += x * source[k + n] + y * source[k + n + 1] + z * source[k + n + 2]
        d += x * source[m + n] + y * source[m + n + 1] + z * source[m + n + 2]
        n += 3
    while n < channels:
        x = float(grad[o + n])
        a += x * source[i + n]
        b += x * source[j + n]
        c += x * source[k + n]
        d += x * source[m + n]
        n += 1
    return a, b, c, d


@inner(**_INLINE)
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]


@inner(**_INLINE)
def _slope_sums(grad, o, channels, source, mode, boundary, at, between, slot, k):
    """Sums over channels of the gradient times value, du-slope and dv-slope of a level."""
    texels, weights = _looked(mode, boundary, at, between, slot, k)
    fx, fy = between[4 * slot, k], between[4 * slot + 1, k]
    ex, ey = 1.0 - fx, 1.0 - fy
    of_x, of_y = (-ey, ey, -fy, fy), (-ex, -fx, ex, fx)
    if boundary >= ZERO:
        of_x, of_y = _spread(texels, of_x, boundary), _spread(texels, of_y, boundary)
    products = _products(grad, o, channels, source, _there(texels))
    return (
        _dot(products, weights),
        _dot(products, of_x) * between[4 * slot + 2, k],
        _dot(products, of_y) * between[4 * slot + 3, k],
    )


@kernel()
def sample_back(
    uv, uv_da, bias, tex, mips, sizes, counts, mode, boundary, grad, to_uv, to_da, to_bias, start,
    stop,
):  # fmt: skip
    """The gradients of uv, uv_da and bias of a range of pixels, into arrays of zeros."""
    pixels, channels, of_tex, of_mips = counts[0], counts[1], counts[2], counts[3]
    if mode == NEAREST:
        return
    last = len(sizes) - 1
    blocks = _blocks()
    found, _, levels, at, between = blocks
    of_levels = np.empty(_BLOCK)
    p = start
    while p < stop:
        image, begin = p // pixels, p
        end = min(stop, (image + 1) * pixels, p + _BLOCK)
        _find(uv, uv_da, bias, begin, end - begin, mode, boundary, sizes, channels, blocks)
        base = shifted(pointer(tex), image * of_tex)
        smaller = shifted(pointer(mips), image * of_mips)
        of_levels[:] = 0.0
        for k in range(end - begin):
            p, raw, share = begin + k, found[2, k], found[3, k]
            if not (found[0, k] == found[0, k] and found[1, k] == found[1, k]):
                continue
            o = p * channels
            value, of_u, of_v = _slope_sums(
                grad, o, channels, base if levels[0, k] == 0 else smaller, mode, boundary, at,
                between, 0, k,
            )  # fmt: skip
            if mode == LEVELS and raw >= 0.0 and raw <= last and levels[1, k] > levels[0, k]:
                coarse, coarse_u, coarse_v = _slope_sums(
                    grad, o, channels, smaller, mode, boundary, at, between, 1, k
                )
                of_levels[k] = coarse - value
                of_u += share * (coarse_u - of_u)
                of_v += share * (coarse_v - of_v)
            if len(to_bias) > 0:
                to_bias[p] = of_levels[k]
            if boundary != CUBE:
                to_uv[2 * p], to_uv[2 * p + 1] = of_u, of_v
            else:
                _to_cube(uv, uv_da, p, sizes, of_u, of_v, of_levels[k], to_uv, to_da)
        if boundary != CUBE and len(to_da) > 0:
            height, width = float(sizes[0, 1]), float(sizes[0, 2])
            for k in range(end - begin):
                slopes = _slopes(uv_da, begin + k, WRAP, 0, 0.0, 0.0, 1.0)
                of_log, d = of_levels[k] * (0.5 / math.log(2.0)), 4 * (begin + k)
                of_ux, of_uy, of_vx, of_vy = _of_slopes(slopes, height, width, of_log)
                to_da[d] = of_ux if of_log != 0.0 else 0.0  # also of slopes that are infinite
                to_da[d + 1] = of_uy if of_log != 0.0 else 0.0
                to_da[d + 2] = of_vx if of_log != 0.0 else 0.0
                to_da[d + 3] = of_vy if of_log != 0.0 else 0.0
        p = end


@inner()
def _to_cube(uv, uv_da, p, sizes, of_u, of_v, of_level, to_uv, to_da):
    """The gradients of the direction of a pixel and of its derivatives, from those on its face."""
    face, u, v, m = _place(uv, p)
    # u = (s / m + 1) / 2, du/dX = (ds/dX - (s / m) dm/dX) / 2m, and alike for v and dY.
    i, j, k = AXES[face, 0], AXES[face, 1], AXES[face, 2]
    of_s, of_t, of_m = SIGNS[face, 0], SIGNS[face, 1], SIGNS[face, 2]
    a, b, half = 2.0 * u - 1.0, 2.0 * v - 1.0, 0.5 / m
    to_a, to_b = 0.5 * of_u, 0.5 * of_v
    to_m = 0.0
    if len(uv_da) > 0 and of_level != 0.0:
        slopes = _slopes(uv_da, p, CUBE, face, u, v, m)
        of_log = of_level * 0.5 / math.log(2.0)
        of_ux, of_uy, of_vx, of_vy = _of_slopes(slopes, sizes[0, 1], sizes[0, 2], of_log)
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


@inner(**_INLINE)
def _add(grad, o, channels, at, weight, start, mask, own, sums):
    """Add the gradient of a pixel to that of a texel, if there is one, and it belongs to `own`."""
    to = start + at
    if at < 0 or (to >> _SHARE) & mask != own:
        return
    c = 0
    while c + 3 <= channels:
        sums[to + c] += weight * grad[o + c]
        sums[to + c + 1] += weight * grad[o + c + 1]
        sums[to + c + 2] += weight * grad[o + c + 2]
        c += 3
    while c < channels:
        sums[to + c] += weight * grad[o + c]
        c += 1


@kernel()
def add_texels(
    uv, uv_da, bias, sizes, counts, mode, boundary, grad, count, owners, sums, start, stop
):
    """Sum up the gradients of the texels of a range of owners, each in the order of its pixels.

    Pixels without a gradient, such as those of a background, are left out.

    Args:
        uv: see `sample`, and so are
        uv_da: and
        bias: and
        sizes: and
        counts: which goes on with the numbers of all levels of an image, and of its texture alone.
        mode: see above.
        boundary: see above.
        grad: of the results.
        count: of pixels.
        owners: how many there are, a power of two.
        sums: of all texels, through all levels of all images, 0 before.
        start: the first owner.
        stop: one past the last.
    """
    pixels, channels = counts[0], counts[1]
    blocks = _blocks()
    found, _, levels, at, between = blocks
    to, mask = pointer(sums), owners - 1
    for own in range(start, stop):
        p = 0
        while p < count:
            image, begin = p // pixels, p
            end = min(count, (image + 1) * pixels, p + _BLOCK)
            base = image * counts[4] if counts[2] > 0 else 0
            smaller = base + counts[5]
            _find(uv, uv_da, bias, begin, end - begin, mode, boundary, sizes, channels, blocks)
            for k in range(end - begin):
                o, share, c = (begin + k) * channels, found[3, k], 0
                while c < channels and grad[o + c] == 0.0:
                    c += 1
                if c == channels or not (found[0, k] == found[0, k] and found[1, k] == found[1, k]):
                    continue
                for slot in range(2 if share > 0.0 else 1):
                    texels, weights = _looked(mode, boundary, at, between, slot, k)
                    weights = _scaled(weights, share if slot else 1.0 - share)
                    level = base if levels[slot, k] == 0 else smaller
                    _add(grad, o, channels, texels[0], weights[0], level, mask, own, to)
                    _add(grad, o, channels, texels[1], weights[1], level, mask, own, to)
                    _add(grad, o, channels, texels[2], weights[2], level, mask, own, to)
                    _add(grad, o, channels, texels[3], weights[3], level, mask, own, to)
            p = end


# ---------------------------------------------------------------------------------------------
# Mipmaps
# ---------------------------------------------------------------------------------------------


@inner()
def _steps(layout, channels):
    """How far the texel below is, and the one to the right; 0 where a side is 1. See `halve`."""
    height, width = layout[2], layout[3]
    return width * channels if height > 1 else 0, channels if width > 1 else 0


@inner()
def _rows(layout, channels, row):
    """Where the first of the two rows of the fine level begins, and the row that they become."""
    step, first, height, width = layout[0], layout[1], layout[2], layout[3]
    to_step, to_first, to_height, to_width = layout[4], layout[5], layout[6], layout[7]
    image, inner = row // (layout[8] * to_height), row % (layout[8] * to_height)
    face, j = inner // to_height, inner % to_height
    y = (2 * j if height > 1 else 0) + face * height
    at = image * step + first + y * width * channels
    return at, image * to_step + to_first + inner * to_width * channels


@kernel()
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


@kernel()
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
