"""The kernels of interpolation; see `gendr.primitives.interpolate` for the mathematics."""

# Triton compiles these functions; their arguments are pointers, numbers and blocks.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import triton
import triton.language as tl

from gendr.primitives.triton.shared_kernels import fours, vertices_of


@triton.jit
def _visible(rast, tri, p, pixels, size, stride):
    """Whether pixels see a triangle, and the rows of its corners in the attributes."""
    t = (tl.load(rast + p * 4 + 3, p < pixels, 0.0) + 0.5).to(tl.int32) - 1
    on = t >= 0
    a, b, c = vertices_of(tri, t, on)
    base = p // size * stride
    return on, base + a, base + b, base + c


@triton.jit
def _attribute(attr, row, m, on, channels):
    """Attributes m of rows, [P, M] in float64."""
    at = row.to(tl.int64)[:, None] * channels + m[None, :]
    return tl.load(attr + at, on, 0.0).to(tl.float64)


@triton.jit
def _column(x, p, on, STRIDE: tl.constexpr, COLUMN: tl.constexpr):
    """A column of rows [.., STRIDE], [P, 1] in float64."""
    return tl.load(x + p * STRIDE + COLUMN, on, 0.0).to(tl.float64)[:, None]


@triton.jit(do_not_specialize=["pixels", "size", "stride", "channels", "count"])
def interpolated(
    attr, tri, rast, db, selected, values, slopes, pixels, size, stride, channels, count,
    SLOPED: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Attributes of pixels, and their derivatives.

    What it is given:
        attr: [rows, channels].
        tri: [T, 3].
        rast, db: [N, H, W, 4].
        selected: [count] int32, attributes whose derivatives are wanted if SLOPED.
        values: [N, H, W, channels], out.
        slopes: [N, H, W, 2 count], out.
        pixels, size: of all images, and of one.
        stride: rows of an image; 0 if all have the same.
    """
    p = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = p < pixels
    on, a, b, c = _visible(rast, tri, p, pixels, size, stride)
    u, v = _column(rast, p, on, 4, 0), _column(rast, p, on, 4, 1)
    w = 1.0 - u - v
    start = 0
    while start < channels:
        m = start + tl.arange(0, WIDE)
        there = on[:, None] & (m < channels)[None, :]
        x = u * _attribute(attr, a, m, there, channels)
        x = x + v * _attribute(attr, b, m, there, channels)
        x = x + w * _attribute(attr, c, m, there, channels)
        there = real[:, None] & (m < channels)[None, :]
        at = p[:, None] * channels + m[None, :]
        tl.store(values + at, x.to(values.dtype.element_ty), there)
        start += WIDE
    if SLOPED:
        ux, uy = _column(db, p, on, 4, 0), _column(db, p, on, 4, 1)
        vx, vy = _column(db, p, on, 4, 2), _column(db, p, on, 4, 3)
        start = 0
        while start < count:
            k = start + tl.arange(0, WIDE)
            m = tl.load(selected + k, k < count, 0)
            there = on[:, None] & (k < count)[None, :]
            last = _attribute(attr, c, m, there, channels)
            d = _attribute(attr, a, m, there, channels) - last
            q = _attribute(attr, b, m, there, channels) - last
            there = real[:, None] & (k < count)[None, :]
            at = slopes + p[:, None] * (2 * count) + 2 * k[None, :]
            tl.store(at, (ux * d + vx * q).to(slopes.dtype.element_ty), there)
            tl.store(at + 1, (uy * d + vy * q).to(slopes.dtype.element_ty), there)
            start += WIDE


@triton.jit(do_not_specialize=["pixels", "size", "stride", "channels", "count"])
def position_gradients(
    attr, tri, rast, selected, of_values, of_slopes, of_rast, of_db,
    pixels, size, stride, channels, count,
    VALUES: tl.constexpr, RAST: tl.constexpr, SLOPED: tl.constexpr,
    BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The gradients of u and v if RAST is wanted, and those of their derivatives if SLOPED.

    `of_values`, if there are such VALUES, and `of_slopes` are those of what `interpolated` gives;
    all else is as there.
    """
    p = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on, a, b, c = _visible(rast, tri, p, pixels, size, stride)
    zero = tl.zeros([BLOCK], tl.float64)
    written, column = (p < pixels)[:, None], tl.arange(0, 4)[None, :]
    if RAST:
        gu, gv = zero, zero
        if VALUES:
            start = 0
            while start < channels:
                m = start + tl.arange(0, WIDE)
                there = on[:, None] & (m < channels)[None, :]
                last = _attribute(attr, c, m, there, channels)
                g = tl.load(of_values + p[:, None] * channels + m[None, :], there, 0.0)
                gu += tl.sum(g.to(tl.float64) * (_attribute(attr, a, m, there, channels) - last), 1)
                gv += tl.sum(g.to(tl.float64) * (_attribute(attr, b, m, there, channels) - last), 1)
                start += WIDE
        row = fours(gu, gv, zero, zero).to(of_rast.dtype.element_ty)
        tl.store(of_rast + p[:, None] * 4 + column, row, written)
    if SLOPED:
        ux, uy, vx, vy = zero, zero, zero, zero
        start = 0
        while start < count:
            k = start + tl.arange(0, WIDE)
            m = tl.load(selected + k, k < count, 0)
            there = on[:, None] & (k < count)[None, :]
            last = _attribute(attr, c, m, there, channels)
            d = _attribute(attr, a, m, there, channels) - last
            q = _attribute(attr, b, m, there, channels) - last
            at = of_slopes + p[:, None] * (2 * count) + 2 * k[None, :]
            gx = tl.load(at, there, 0.0).to(tl.float64)
            gy = tl.load(at + 1, there, 0.0).to(tl.float64)
            ux, uy = ux + tl.sum(gx * d, 1), uy + tl.sum(gy * d, 1)
            vx, vy = vx + tl.sum(gx * q, 1), vy + tl.sum(gy * q, 1)
            start += WIDE
        row = fours(ux, uy, vx, vy).to(of_db.dtype.element_ty)
        tl.store(of_db + p[:, None] * 4 + column, row, written)


@triton.jit(do_not_specialize=["pixels", "channels", "count"])
def corner_gradients(
    rast, db, places, of_values, of_slopes, corners, pixels, channels, count,
    VALUES: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """What each pixel adds to the gradients of the attributes of its corners [pixels, 3, channels].

    `places` [channels, 1 + count] int32 are the places of attributes among the selected ones: how
    many there are, and which. All else is as in `position_gradients`.
    """
    p = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on = tl.load(rast + p * 4 + 3, p < pixels, 0.0) > 0.5
    u, v = _column(rast, p, on, 4, 0), _column(rast, p, on, 4, 1)
    ux, uy = _column(db, p, on, 4, 0), _column(db, p, on, 4, 1)
    vx, vy = _column(db, p, on, 4, 2), _column(db, p, on, 4, 3)
    start = 0
    while start < channels:
        m = start + tl.arange(0, WIDE)
        there = on[:, None] & (m < channels)[None, :]
        g = tl.zeros([BLOCK, WIDE], tl.float64)
        if VALUES:
            g += tl.load(of_values + p[:, None] * channels + m[None, :], there, 0.0).to(tl.float64)
        a, b, c = u * g, v * g, (1.0 - u - v) * g
        number = tl.load(places + m * (1 + count), m < channels, 0)
        j, most = 0, tl.max(number)
        while j < most:
            chosen = j < number
            k = tl.load(places + m * (1 + count) + 1 + j, chosen, 0)
            here = there & chosen[None, :]
            at = of_slopes + p[:, None] * (2 * count) + 2 * k[None, :]
            gx = tl.load(at, here, 0.0).to(tl.float64)
            gy = tl.load(at + 1, here, 0.0).to(tl.float64)
            d, q = ux * gx + uy * gy, vx * gx + vy * gy
            a, b, c = a + d, b + q, c - (d + q)
            j += 1
        at = corners + p[:, None] * (3 * channels) + m[None, :]
        kind = corners.dtype.element_ty
        tl.store(at, a.to(kind), there)
        tl.store(at + channels, b.to(kind), there)
        tl.store(at + 2 * channels, c.to(kind), there)
        start += WIDE
