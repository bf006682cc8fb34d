"""The kernels of texture lookups and mipmaps; see `gendr.primitives.kernels.texture`.

The formulas are those of the CPU, on blocks of pixels, in float64. A lookup has four texels, -1
where there is none, with weights; slopes of the lookup are other weights of the same texels.
"""

# Triton compiles these functions; their arguments are pointers, numbers and blocks.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import math

import triton
import triton.language as tl

from gendr.kernels.triton.functions import compiled
from gendr.primitives import formulas

WRAP, CLAMP, ZERO, CUBE = (tl.constexpr(k) for k in range(4))
NEAREST, LINEAR, LEVEL, LEVELS = (tl.constexpr(k) for k in range(4))
_ellipse, _of_slopes = compiled(formulas.ellipse), compiled(formulas.of_slopes)
_log2_of = compiled(formulas.log2_of)
_SQRT_HALF_BITS = tl.constexpr(0x3FE6A09E667F3BCD)
_LOG2 = tl.constexpr(math.log(2.0))


@triton.jit
def _log2(x):
    """The logarithm to base 2, of a finite x >= 0; below -1000 at 0."""
    bits = x.to(tl.int64, bitcast=True)
    exponent = (bits - _SQRT_HALF_BITS) >> 52
    m = (bits - (exponent << 52)).to(tl.float64, bitcast=True)  # in [sqrt(1/2), sqrt(2))
    return _log2_of(exponent.to(tl.float64), m)


@triton.jit
def _number(at, on):
    """A number of each pixel in float64, 0 where there is none."""
    return tl.load(at, on, 0.0).to(tl.float64)


@triton.jit
def _place(uv, p, on, BOUNDARY: tl.constexpr):
    """Whether there is a lookup; face, coordinates in [0, 1] on it, length of the major axis."""
    if BOUNDARY == CUBE:
        x, y, z = _number(uv + 3 * p, on), _number(uv + 3 * p + 1, on), _number(uv + 3 * p + 2, on)
        ax, ay, az = tl.abs(x), tl.abs(y), tl.abs(z)
        finite = (ax < float("inf")) & (ay < float("inf")) & (az < float("inf"))
        on = on & finite & (ax + ay + az > 0.0)
        by_x, by_y = (ax >= ay) & (ax >= az), ay >= az
        major = tl.where(by_x, x, tl.where(by_y, y, z))
        face = tl.where(by_x, 0, tl.where(by_y, 2, 4)) + (major <= 0.0).to(tl.int32)
        m = tl.where(on, tl.abs(major), 1.0)
        up = major > 0.0
        s = tl.where(by_x, tl.where(up, -z, z), tl.where(by_y, x, tl.where(up, x, -x)))
        t = tl.where(by_x, -y, tl.where(by_y, tl.where(up, z, -z), -y))
        return on, tl.where(on, face, 0), 0.5 * (s / m + 1.0), 0.5 * (t / m + 1.0), m
    else:
        u, v = _number(uv + 2 * p, on), _number(uv + 2 * p + 1, on)
        if BOUNDARY == WRAP:
            u, v = u - tl.floor(u), v - tl.floor(v)
        on = on & (u == u) & (v == v)
        u, v = tl.where(on, u, 0.0), tl.where(on, v, 0.0)
        return on, tl.zeros_like(on).to(tl.int32), u, v, tl.zeros_like(u) + 1.0


@triton.jit
def _turned(face):
    """Of faces the axes of s, of t and of the face itself, and their signs; see `cubes`."""
    pair = face // 2
    i, j = tl.where(pair == 0, 2, 0), tl.where(pair == 1, 2, 1)
    one = tl.zeros_like(face).to(tl.float64) + 1.0
    of_s = tl.where((face == 0) | (face == 5), -one, one)
    of_t = tl.where(face == 2, one, -one)
    return i, j, pair, of_s, of_t, tl.where(face % 2 == 0, one, -one)


@triton.jit
def _slopes(uv_da, p, on, face, u, v, m, BOUNDARY: tl.constexpr):
    """du/dX, du/dY, dv/dX, dv/dY of the coordinates on the face; and dm/dX, dm/dY."""
    if BOUNDARY == CUBE:
        i, j, k, of_s, of_t, of_m = _turned(face)
        at = uv_da + 6 * p
        a, b, half = 2.0 * u - 1.0, 2.0 * v - 1.0, 0.5 / m
        mx, my = of_m * _number(at + 2 * k, on), of_m * _number(at + 2 * k + 1, on)
        return (
            half * (of_s * _number(at + 2 * i, on) - a * mx),
            half * (of_s * _number(at + 2 * i + 1, on) - a * my),
            half * (of_t * _number(at + 2 * j, on) - b * mx),
            half * (of_t * _number(at + 2 * j + 1, on) - b * my),
            mx,
            my,
        )
    else:
        at = uv_da + 4 * p
        ux, uy = _number(at, on), _number(at + 1, on)
        return ux, uy, _number(at + 2, on), _number(at + 3, on), ux, uy


@triton.jit
def _levels(
    uv_da, bias, p, on, face, u, v, m, sizes, last,
    MODE: tl.constexpr, BOUNDARY: tl.constexpr, SLOPED: tl.constexpr, BIASED: tl.constexpr,
):  # fmt: skip
    """The level before it is clamped, the two levels of a lookup, and the share of the second."""
    raw, level = tl.zeros_like(u), tl.zeros_like(face)
    if MODE < LEVEL:
        return raw, level, level, raw
    else:
        if BIASED:
            raw += _number(bias + p, on)
        if SLOPED:
            slopes = _slopes(uv_da, p, on, face, u, v, m, BOUNDARY)
            height = tl.load(sizes + 1).to(tl.float64)
            width = tl.load(sizes + 2).to(tl.float64)
            a, _, c, root = _ellipse(slopes, height, width)
            raw += 0.5 * _log2(0.5 * (a + c) + root)
        end = last.to(tl.float64)
        clamped = tl.where(raw > 0.0, tl.where(raw < end, raw, end), 0.0)
        if MODE == LEVEL:
            level = (clamped + 0.5).to(tl.int32)
            return raw, level, level, tl.zeros_like(u)
        else:
            level = clamped.to(tl.int32)
            following = tl.where(level < last, level + 1, level)
            return raw, level, following, clamped - level.to(tl.float64)


@triton.jit
def _pair(x, size, BOUNDARY: tl.constexpr):
    """The texel below along one axis, the position after it, and whether that may move."""
    number = size.to(tl.float64)
    x = x * number - 0.5
    inner = tl.zeros_like(x) + 1.0
    if BOUNDARY == CLAMP:
        inner = tl.where((x < 0.0) | (x > number - 1.0), 0.0, inner)
        x = tl.where(x < 0.0, 0.0, tl.where(x > number - 1.0, number - 1.0, x))
    elif BOUNDARY == ZERO:
        x = tl.where(x < -2.0, -2.0, tl.where(x > number + 1.0, number + 1.0, x))
    below = tl.floor(x)
    i = below.to(tl.int32)
    if BOUNDARY == WRAP:
        i = tl.where(i < 0, size - 1, i)
    return i, x - below, inner


@triton.jit
def _one(x, size, BOUNDARY: tl.constexpr):
    """The texel that holds a coordinate along one axis; -1 if there is none."""
    number = size.to(tl.float64)
    x = x * number
    x = tl.floor(tl.where(x < -1.0, -1.0, tl.where(x > number, number, x)))
    i = x.to(tl.int32)
    if BOUNDARY == WRAP:
        return tl.where(i >= size, 0, i)
    elif BOUNDARY == ZERO:
        return tl.where(i < size, i, -1)
    else:
        return tl.where(i < 0, 0, tl.where(i >= size, size - 1, i))


@triton.jit
def _corner(seams, face, i, j, height, width, on, BOUNDARY: tl.constexpr):
    """The texel of column i and row j of a level, which may be one beyond; -1 if there is none."""
    off_i, off_j = (i < 0) | (i >= width), (j < 0) | (j >= height)
    if BOUNDARY == WRAP:
        i, j = tl.where(i >= width, 0, i), tl.where(j >= height, 0, j)
    elif BOUNDARY == CLAMP:
        i, j = tl.where(i >= width, width - 1, i), tl.where(j >= height, height - 1, j)
    elif BOUNDARY == ZERO:
        on = on & ~off_i & ~off_j
    else:
        on, one = on & ~(off_i & off_j), on & (off_i != off_j)
        side = tl.where(off_i, tl.where(i < 0, 0, 1), tl.where(j < 0, 2, 3))
        seam = seams + (face * 4 + side) * 4
        along = tl.where(off_i, j, i)
        along = tl.where(tl.load(seam + 3, one, 0) > 0, width - 1 - along, along)
        across = (width - 1) * tl.load(seam + 2, one, 0)
        upright = tl.load(seam + 1, one, 0) == 0
        i = tl.where(one, tl.where(upright, across, along), i)
        j = tl.where(one, tl.where(upright, along, across), j)
        face = tl.where(one, tl.load(seam, one, 0), face)
    return tl.where(on, (face * height + j) * width + i, -1)


@triton.jit
def _spread(texels, weights, BOUNDARY: tl.constexpr):
    """The weights, 0 where there is no texel; at a corner of a cube the others take its share."""
    a, b, c, d = texels
    p, q, r, s = weights
    lost = tl.zeros_like(p)
    if BOUNDARY == CUBE:
        lost += tl.where(a < 0, p, 0.0) + tl.where(b < 0, q, 0.0)
        lost += tl.where(c < 0, r, 0.0) + tl.where(d < 0, s, 0.0)
        lost = lost / 3.0
    return (
        tl.where(a >= 0, p + lost, 0.0), tl.where(b >= 0, q + lost, 0.0),
        tl.where(c >= 0, r + lost, 0.0), tl.where(d >= 0, s + lost, 0.0),
    )  # fmt: skip


@triton.jit
def _lookup(
    seams, sizes, level, face, u, v, on, MODE: tl.constexpr, BOUNDARY: tl.constexpr
):  # fmt: skip
    """Four texels of a level, the first of them (column, row), and the position between them.

    Then whether it may move along u and v, and the size of the level.
    """
    at = sizes + 4 * level
    height, width = tl.load(at + 1, on, 1).to(tl.int32), tl.load(at + 2, on, 1).to(tl.int32)
    if MODE == NEAREST:
        i, j = _one(u, width, BOUNDARY), _one(v, height, BOUNDARY)
        none, zero = tl.zeros_like(i) - 1, tl.zeros_like(u)
        texel = tl.where(on & (i >= 0) & (j >= 0), (face * height + j) * width + i, -1)
        return (texel, none, none, none), i, j, zero, zero, zero, zero, height, width
    else:
        i, fx, inner_x = _pair(u, width, BOUNDARY)
        j, fy, inner_y = _pair(v, height, BOUNDARY)
        texels = (
            _corner(seams, face, i, j, height, width, on, BOUNDARY),
            _corner(seams, face, i + 1, j, height, width, on, BOUNDARY),
            _corner(seams, face, i, j + 1, height, width, on, BOUNDARY),
            _corner(seams, face, i + 1, j + 1, height, width, on, BOUNDARY),
        )
        return texels, i, j, fx, fy, inner_x, inner_y, height, width


@triton.jit
def _weights(texels, fx, fy, MODE: tl.constexpr, BOUNDARY: tl.constexpr):
    """The weights of the four texels."""
    if MODE == NEAREST:
        zero = tl.zeros_like(fx)
        return tl.where(texels[0] >= 0, 1.0, zero), zero, zero, zero
    else:
        ex, ey = 1.0 - fx, 1.0 - fy
        return _spread(texels, (ex * ey, fx * ey, ex * fy, fx * fy), BOUNDARY)


@triton.jit
def _texel(tex, mips, at_tex, at_mips, level, texel, c, on, channels):
    """Texels of a level, [P, C] in float64; those that are not there are 0."""
    there = (on & (texel >= 0))[:, None] & (c < channels)[None, :]
    base = (level == 0)[:, None]
    k = texel.to(tl.int64)[:, None] * channels + c[None, :]
    x = tl.load(tex + at_tex[:, None] + k, there & base, 0.0)
    return (x + tl.load(mips + at_mips[:, None] + k, there & ~base, 0.0)).to(tl.float64)


@triton.jit
def _four(tex, mips, at_tex, at_mips, level, texels, weights, c, on, channels):
    """The weighted sum of four texels, [P, C]."""
    x = _texel(tex, mips, at_tex, at_mips, level, texels[0], c, on, channels) * weights[0][:, None]
    y = _texel(tex, mips, at_tex, at_mips, level, texels[1], c, on, channels) * weights[1][:, None]
    x = x + y
    y = _texel(tex, mips, at_tex, at_mips, level, texels[2], c, on, channels) * weights[2][:, None]
    x = x + y
    y = _texel(tex, mips, at_tex, at_mips, level, texels[3], c, on, channels) * weights[3][:, None]
    return x + y


@triton.jit
def _start(sizes, level, image, of_tex, of_mips, channels, on):
    """Where a level of an image begins among the textures, or among the smaller levels."""
    before = tl.load(sizes + 4 * level, on, 0) - tl.load(sizes + 4)
    return image * of_tex, image * of_mips + before * channels


@triton.jit(do_not_specialize=["pixels", "of_image", "of_tex", "of_mips", "channels", "last"])
def sample(
    uv, uv_da, bias, tex, mips, sizes, seams, out,
    pixels, of_image, of_tex, of_mips, channels, last,
    MODE: tl.constexpr, BOUNDARY: tl.constexpr, SLOPED: tl.constexpr, BIASED: tl.constexpr,
    BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Look up pixels.

    What it is given:
        uv: [pixels, 2], or 3 for a CUBE.
        uv_da: [pixels, 4], or 6, if SLOPED.
        bias: [pixels] if BIASED.
        tex: all textures.
        mips: their smaller levels.
        sizes: [L + 1, 4] int64, of levels: the first texel of an image, height, width, first cell.
        seams: as `cubes.SEAMS`, int32.
        out: [pixels, channels].
        pixels, of_image: of all images, and of one.
        of_tex, of_mips: numbers of a texture and of its smaller levels; 0 if all share them.
        last: the last level.
    """
    p = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = p < pixels
    on, face, u, v, m = _place(uv, p, real, BOUNDARY)
    _, first, second, share = _levels(
        uv_da, bias, p, on, face, u, v, m, sizes, last, MODE, BOUNDARY, SLOPED, BIASED
    )
    texels, _, _, fx, fy, _, _, _, _ = _lookup(seams, sizes, first, face, u, v, on, MODE, BOUNDARY)
    weights = _weights(texels, fx, fy, MODE, BOUNDARY)
    image = p // of_image
    at_tex, at_mips = _start(sizes, first, image, of_tex, of_mips, channels, on)
    if MODE == LEVELS:
        more = on & (share != 0.0)
        coarse, _, _, gx, gy, _, _, _, _ = _lookup(
            seams, sizes, second, face, u, v, more, MODE, BOUNDARY
        )
        others = _weights(coarse, gx, gy, MODE, BOUNDARY)
        of_tex_2, of_mips_2 = _start(sizes, second, image, of_tex, of_mips, channels, more)
    start = 0
    while start < channels:
        c = start + tl.arange(0, WIDE)
        x = _four(tex, mips, at_tex, at_mips, first, texels, weights, c, on, channels)
        if MODE == LEVELS:
            y = _four(tex, mips, of_tex_2, of_mips_2, second, coarse, others, c, more, channels)
            x = x * (1.0 - share)[:, None] + y * share[:, None]
        at = p[:, None] * channels + c[None, :]
        full = real[:, None] & (c < channels)[None, :]
        tl.store(out + at, x.to(out.dtype.element_ty), full)
        start += WIDE


@triton.jit
def _slope_sums(
    grad, tex, mips, sizes, seams, p, image, level, face, u, v, on, of_tex, of_mips, channels,
    MODE: tl.constexpr, BOUNDARY: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Sums over channels of the gradient times value, du-slope and dv-slope of a level."""
    texels, _, _, fx, fy, inner_x, inner_y, height, width = _lookup(
        seams, sizes, level, face, u, v, on, MODE, BOUNDARY
    )
    ex, ey = 1.0 - fx, 1.0 - fy
    weights = _spread(texels, (ex * ey, fx * ey, ex * fy, fx * fy), BOUNDARY)
    of_x = _spread(texels, (-ey, ey, -fy, fy), BOUNDARY)
    of_y = _spread(texels, (-ex, -fx, ex, fx), BOUNDARY)
    at_tex, at_mips = _start(sizes, level, image, of_tex, of_mips, channels, on)
    value, along_u, along_v = tl.zeros_like(u), tl.zeros_like(u), tl.zeros_like(u)
    start = 0
    while start < channels:
        c = start + tl.arange(0, WIDE)
        full = on[:, None] & (c < channels)[None, :]
        g = tl.load(grad + p[:, None] * channels + c[None, :], full, 0.0).to(tl.float64)
        for k in tl.static_range(4):
            x = _texel(tex, mips, at_tex, at_mips, level, texels[k], c, on, channels)
            x = tl.sum(g * x, 1)
            value += x * weights[k]
            along_u += x * of_x[k]
            along_v += x * of_y[k]
        start += WIDE
    number_x, number_y = width.to(tl.float64), height.to(tl.float64)
    return value, along_u * number_x * inner_x, along_v * number_y * inner_y


@triton.jit
def _stored(to, p, value, on):
    tl.store(to + p, value.to(to.dtype.element_ty), on)


@triton.jit(do_not_specialize=["pixels", "of_image", "of_tex", "of_mips", "channels", "last"])
def sample_gradients(
    uv, uv_da, bias, tex, mips, sizes, seams, grad, to_uv, to_da, to_bias,
    pixels, of_image, of_tex, of_mips, channels, last,
    MODE: tl.constexpr, BOUNDARY: tl.constexpr, SLOPED: tl.constexpr, BIASED: tl.constexpr,
    TO_DA: tl.constexpr, TO_BIAS: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The gradients of uv, of uv_da if wanted TO_DA, and of bias if TO_BIAS; else as `sample`."""
    p = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = p < pixels
    on, face, u, v, m = _place(uv, p, real, BOUNDARY)
    raw, first, second, share = _levels(
        uv_da, bias, p, on, face, u, v, m, sizes, last, MODE, BOUNDARY, SLOPED, BIASED
    )
    image = p // of_image
    value, of_u, of_v = _slope_sums(
        grad, tex, mips, sizes, seams, p, image, first, face, u, v, on, of_tex, of_mips, channels,
        MODE, BOUNDARY, WIDE,
    )  # fmt: skip
    of_level = tl.zeros_like(u)
    if MODE == LEVELS:
        more = on & (raw >= 0.0) & (raw <= last.to(tl.float64)) & (second > first)
        coarse, coarse_u, coarse_v = _slope_sums(
            grad, tex, mips, sizes, seams, p, image, second, face, u, v, more, of_tex, of_mips,
            channels, MODE, BOUNDARY, WIDE,
        )  # fmt: skip
        of_level = tl.where(more, coarse - value, 0.0)
        of_u = tl.where(more, of_u + share * (coarse_u - of_u), of_u)
        of_v = tl.where(more, of_v + share * (coarse_v - of_v), of_v)
    if TO_BIAS:
        _stored(to_bias, p, of_level, real)
    zero = tl.zeros_like(u)
    of_ux, of_uy, of_vx, of_vy, mx, my = zero, zero, zero, zero, zero, zero
    slopes = (zero, zero, zero, zero, zero, zero)
    if SLOPED and MODE == LEVELS:
        some = on & (of_level != 0.0)
        slopes = _slopes(uv_da, p, some, face, u, v, m, BOUNDARY)
        mx, my = slopes[4], slopes[5]
        height = tl.load(sizes + 1).to(tl.float64)
        width = tl.load(sizes + 2).to(tl.float64)
        of_ux, of_uy, of_vx, of_vy = _of_slopes(slopes, height, width, of_level * 0.5 / _LOG2)
        of_ux, of_uy = tl.where(some, of_ux, 0.0), tl.where(some, of_uy, 0.0)
        of_vx, of_vy = tl.where(some, of_vx, 0.0), tl.where(some, of_vy, 0.0)
    if BOUNDARY != CUBE:
        _stored(to_uv, 2 * p, of_u, real)
        _stored(to_uv, 2 * p + 1, of_v, real)
        if TO_DA:
            _stored(to_da, 4 * p, of_ux, real)
            _stored(to_da, 4 * p + 1, of_uy, real)
            _stored(to_da, 4 * p + 2, of_vx, real)
            _stored(to_da, 4 * p + 3, of_vy, real)
    else:
        # u = (s / m + 1) / 2, du/dX = (ds/dX - (s / m) dm/dX) / 2m, and alike for v and dY.
        i, j, k, of_s, of_t, of_m = _turned(face)
        a, b, half = 2.0 * u - 1.0, 2.0 * v - 1.0, 0.5 / m
        to_a = 0.5 * of_u - half * (of_ux * mx + of_uy * my)
        to_b = 0.5 * of_v - half * (of_vx * mx + of_vy * my)
        to_m = -(of_ux * slopes[0] + of_uy * slopes[1] + of_vx * slopes[2] + of_vy * slopes[3])
        _stored(to_uv, 3 * p + i, tl.where(on, of_s * to_a / m, 0.0), real)
        _stored(to_uv, 3 * p + j, tl.where(on, of_t * to_b / m, 0.0), real)
        of_major = of_m * (to_m - to_a * a - to_b * b) / m
        _stored(to_uv, 3 * p + k, tl.where(on, of_major, 0.0), real)
        if TO_DA:
            at = 6 * p
            _stored(to_da, at + 2 * i, of_s * half * of_ux, real)
            _stored(to_da, at + 2 * i + 1, of_s * half * of_uy, real)
            _stored(to_da, at + 2 * j, of_t * half * of_vx, real)
            _stored(to_da, at + 2 * j + 1, of_t * half * of_vy, real)
            _stored(to_da, at + 2 * k, -of_m * half * (of_ux * a + of_vx * b), real)
            _stored(to_da, at + 2 * k + 1, -of_m * half * (of_uy * a + of_vy * b), real)


@triton.jit(do_not_specialize=["pixels", "of_image", "cells", "channels", "last", "none"])
def list_lookups(
    uv, uv_da, bias, sizes, seams, grad, keys, table,
    pixels, of_image, cells, channels, last, none,
    MODE: tl.constexpr, BOUNDARY: tl.constexpr, SLOPED: tl.constexpr, BIASED: tl.constexpr,
    SHARED: tl.constexpr, SLOTS: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The cells and weights of lookups, for `sum_kernels.texel_sums`; else as `sample`.

    Those without a gradient, such as of a background, are left out.

    What it is given:
        grad: of the results.
        keys: [pixels, SLOTS], out: the cell, through those of all images; `none` without one.
        table: [pixels, SLOTS, 4] float64, out: the weights of the texels around, with the share of
            the level.
        cells: of an image.
        SHARED: whether all images have the same texture.
    """
    p = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = p < pixels
    on, face, u, v, m = _place(uv, p, real, BOUNDARY)
    any_grad, start = tl.zeros([BLOCK], tl.int32), 0
    while start < channels:
        c = start + tl.arange(0, WIDE)
        full = on[:, None] & (c < channels)[None, :]
        g = tl.load(grad + p[:, None] * channels + c[None, :], full, 0.0)
        any_grad = tl.maximum(any_grad, tl.max((g != 0.0).to(tl.int32), 1))
        start += WIDE
    on = on & (any_grad > 0)
    _, first, second, share = _levels(
        uv_da, bias, p, on, face, u, v, m, sizes, last, MODE, BOUNDARY, SLOPED, BIASED
    )
    base = p // of_image * cells
    if SHARED:
        base = tl.zeros_like(base)
    for slot in tl.static_range(SLOTS):
        level = first if slot == 0 else second
        part = (1.0 - share) if slot == 0 else share
        some = on & (part != 0.0)
        texels, i, j, fx, fy, _, _, height, width = _lookup(
            seams, sizes, level, face, u, v, some, MODE, BOUNDARY
        )
        weights = _weights(texels, fx, fy, MODE, BOUNDARY)
        some = some & (i >= -1) & (i < width) & (j >= -1) & (j < height)
        if MODE == NEAREST:
            some = some & (texels[0] >= 0)
        cell = (face * (height + 1) + j + 1).to(tl.int64) * (width + 1) + i + 1
        cell += base + tl.load(sizes + 4 * level + 3, some, 0)
        entry = p * SLOTS + slot
        tl.store(keys + entry, tl.where(some, cell, none).to(keys.dtype.element_ty), real)
        for k in tl.static_range(4):
            tl.store(table + entry * 4 + k, weights[k] * part, some)


# -------------------------------------------------------------------------------------------------
# Mipmaps
# -------------------------------------------------------------------------------------------------


@triton.jit(
    do_not_specialize=[
        "count", "step", "first", "height", "width", "to_step", "to_first", "to_height",
        "to_width", "faces", "channels",
    ]
)  # fmt: skip
def halve(
    fine, coarse, count, step, first, height, width, to_step, to_first, to_height, to_width, faces,
    channels, BLOCK: tl.constexpr,
):  # fmt: skip
    """Means of 2 x 2 texels, where a side of 1 stays.

    What it is given:
        fine, coarse: in which the larger and the smaller levels of all images lie.
        count: numbers of the coarse level of all images.
        step, first: numbers of an image of `fine`, and where in them the level begins.
        height, width: of it.
        to_step, to_first, to_height, to_width: the same of `coarse`.
        faces: of an image.
    """
    k = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on = k < count
    of_image = faces * to_height * to_width * channels
    image, own = k // of_image, k % of_image
    c, texel = own % channels, own // channels
    i, row = texel % to_width, texel // to_width
    face, j = row // to_height, row % to_height
    down = tl.where(height > 1, width * channels, 0)
    right = tl.where(width > 1, channels, 0)
    y = face * height + tl.where(height > 1, 2 * j, 0)
    at = fine + image * step + first + y * width * channels + 2 * i * right + c
    total = _number(at, on) + _number(at + right, on)
    total = total + _number(at + down, on) + _number(at + down + right, on)
    at = coarse + image * to_step + to_first + own
    tl.store(at, (0.25 * total).to(coarse.dtype.element_ty), on)


@triton.jit(do_not_specialize=["count", "of_tex", "of_mips", "channels", "levels"])
def halve_gradients(
    of_levels, to_tex, sizes, count, of_tex, of_mips, channels, levels, BLOCK: tl.constexpr
):
    """The gradient of textures through their smaller levels; of each texel from all above it.

    What it is given:
        of_levels: the gradients of the smaller levels of all images.
        to_tex: that of the textures, out.
        sizes: [L, 4], as `sample` has them.
        count: numbers of all textures.
        of_tex, of_mips: numbers of a texture, and of its smaller levels.
    """
    k = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on = k < count
    image, own = k // of_tex, k % of_tex
    c, texel = own % channels, own // channels
    height, width = tl.load(sizes + 1), tl.load(sizes + 2)
    i, row = texel % width, texel // width
    face, j = row // height, row % height
    total, share = tl.zeros([BLOCK], tl.float64), tl.zeros([BLOCK], tl.float64) + 1.0
    level = 1
    while level < levels:
        at = sizes + 4 * level
        i, j = tl.where(width > 1, i // 2, i), tl.where(height > 1, j // 2, j)
        share = share * tl.where(width > 1, 0.5, 1.0) * tl.where(height > 1, 0.5, 1.0)
        height, width = tl.load(at + 1), tl.load(at + 2)
        before = tl.load(at) - tl.load(sizes + 4)
        place = before + (face * height + j) * width + i
        total += share * _number(of_levels + image * of_mips + place * channels + c, on)
        level += 1
    tl.store(to_tex + k, total.to(to_tex.dtype.element_ty), on)
