"""The kernels of antialiasing; see `gendr.primitives.antialias` for the mathematics.

A pair is a pixel and the next in its row (axis 0), or the one above (axis 1). Where the silhouette
of a pair is, is found by its own thread; every pixel then gathers what its four pairs give to it.
All decisions are float64, by the formulas of `gendr.primitives.kernels.antialias`.
"""

# Triton compiles these functions; their arguments are pointers, numbers and blocks.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import triton
import triton.language as tl

from gendr.primitives.triton.shared_kernels import (
    centre,
    corner,
    cross,
    fours,
    of_product,
    vertices_of,
)


@triton.jit
def _axis(p, axis):
    """A coordinate of corners or lines: along axis 0 x, along axis 1 y."""
    return tl.where(axis == 0, p[0], p[1])


@triton.jit
def _either(first, p, q):
    """Corners p where something holds, else q."""
    return (
        tl.where(first, p[0], q[0]), tl.where(first, p[1], q[1]),
        tl.where(first, p[2], q[2]), tl.where(first, p[3], q[3]),
    )  # fmt: skip


@triton.jit
def _off(p, axis, fixed):
    """How far a corner is from the line of a pair, times its w."""
    return _axis(p, 1 - axis) - fixed * p[3]


@triton.jit
def _place(p, q, a, b, axis, begin, rate):
    """Where the line of a pair crosses an edge: 0 at its begin, 1 at its end; -inf behind."""
    part, w = a - b, a * q[3] - b * p[3]
    ahead = part * w > 0.0
    z = (a * _axis(q, axis) - b * _axis(p, axis)) / tl.where(ahead, w, 1.0)
    return tl.where(ahead, (z - begin) * rate, -float("inf"))


@triton.jit
def _walked(
    pos, tri, uses, base, t, goal, begin, fixed, step, axis, on,
    STEPS: tl.constexpr, MEETING: tl.constexpr,
):  # fmt: skip
    """The half-edges + 1 where surfaces end on the way to the other pixels; 0 if nowhere."""
    v0, v1, v2 = vertices_of(tri, t, on)
    p0, p1, p2 = corner(pos, base + v0, on), corner(pos, base + v1, on), corner(pos, base + v2, on)
    d0, d1, d2 = _off(p0, axis, fixed), _off(p1, axis, fixed), _off(p2, axis, fixed)
    s0, s1, s2 = d0 >= 0.0, d1 >= 0.0, d2 >= 0.0
    on = on & ((s0 != s1) | (s0 != s2))
    # The corner alone on its side of the line becomes a; b and c follow it.
    two, one = s0 == s1, s0 == s2
    alone = tl.where(two, 2, tl.where(one, 1, 0))
    a = _either(two, p2, _either(one, p1, p0))
    b = _either(two, p0, _either(one, p2, p1))
    c = _either(two, p1, _either(one, p0, p2))
    da = tl.where(two, d2, tl.where(one, d1, d0))
    db = tl.where(two, d0, tl.where(one, d2, d1))
    dc = tl.where(two, d1, tl.where(one, d0, d2))
    va = tl.where(two, v2, tl.where(one, v1, v0))
    vb = tl.where(two, v0, tl.where(one, v2, v1))
    vc = tl.where(two, v1, tl.where(one, v0, v2))
    rate = 1.0 / step
    s = _place(a, b, da, db, axis, begin, rate)
    other = _place(a, c, da, dc, axis, begin, rate)
    far = s > other
    h = 3 * t + (alone + tl.where(far, 2, 1)) % 3
    b, db, vb = _either(far, b, c), tl.where(far, db, dc), tl.where(far, vb, vc)
    s = tl.where(far, s, other)
    code, k = tl.zeros_like(h), 0
    on = on & (s >= 0.0) & (s <= 1.0)
    left = tl.max(on.to(tl.int32))
    while left > 0:
        line = cross(a, b)
        inner = -_axis(line, axis) * step  # the sign of this side, also if it is edge-on
        use = tl.load(uses + h, on, 0)
        through, looking, met = tl.zeros_like(on), on & (use != h), use
        o = a
        m, more = 0, tl.max(looking.to(tl.int32))
        while more > 0:
            vo = tl.load(tri + use.to(tl.int64), looking, 0)
            p = corner(pos, base + vo, looking)
            good = looking & (inner * (line[0] * p[0] + line[1] * p[1] + line[2] * p[3]) < 0.0)
            met, o, through = tl.where(good, use, met), _either(good, p, o), through | good
            use = tl.load(uses + use, looking, 0)
            looking = looking & ~good & (use != h)
            m += 1
            more = tl.where(m < MEETING, tl.max(looking.to(tl.int32)), 0)
        code = tl.where(on & ~through, h + 1, code)
        t = tl.where(through, met // 3, t)
        on = on & through & (t != goal)
        vo = tl.load(tri + met.to(tl.int64), on, 0)
        do = _off(o, axis, fixed)
        as_a = (do >= 0.0) == (da >= 0.0)
        gone = tl.where(as_a, va, vb)
        a, b = _either(as_a, o, a), _either(as_a, b, o)
        da, db = tl.where(as_a, do, da), tl.where(as_a, db, do)
        va, vb = tl.where(as_a, vo, va), tl.where(as_a, vb, vo)
        w0, w1, _ = vertices_of(tri, t, on)
        h = 3 * t + tl.where(w0 == gone, 0, tl.where(w1 == gone, 1, 2))
        s = _place(a, b, da, db, axis, begin, rate)
        on = on & (s >= 0.0) & (s <= 1.0)
        k += 1
        left = tl.where(k < STEPS, tl.max(on.to(tl.int32)), 0)
    return code


@triton.jit
def _ends(tri, h, on):
    """The two vertices of half-edges."""
    t = h // 3 * 3
    k = h - t
    first = tl.load(tri + t.to(tl.int64) + (k + 1) % 3, on, 0)
    return first, tl.load(tri + t.to(tl.int64) + (k + 2) % 3, on, 0)


@triton.jit(do_not_specialize=["pixels", "stride", "height", "width"])
def find_silhouettes(
    pos, tri, uses, rast, codes, pixels, stride, height, width,
    STEPS: tl.constexpr, MEETING: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The half-edges + 1 that are silhouettes between the pixels of pairs; program (pixels, axis).

    What it is given:
        pos: [.., 4], of all images.
        tri: [T, 3].
        uses: as in `TopologyHash`.
        rast: [N, H, W, 4].
        codes: [2, N, H, W] int32, out, 0 for none.
        pixels: N H W.
        stride: vertices of an image; 0 if all have the same.
    """
    p = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    axis = tl.program_id(1)
    real = p < pixels
    j, i = (p % width).to(tl.int32), (p // width % height).to(tl.int32)
    base = p // width // height * stride
    on = real & tl.where(axis == 0, j < width - 1, i < height - 1)
    q = p + tl.where(axis == 0, 1, width)
    t = (tl.load(rast + p * 4 + 3, on, 0.0) + 0.5).to(tl.int32) - 1
    t2 = (tl.load(rast + q * 4 + 3, on, 0.0) + 0.5).to(tl.int32) - 1
    on = on & (t != t2)
    z, z2 = tl.load(rast + p * 4 + 2, on, 0.0), tl.load(rast + q * 4 + 2, on, 0.0)
    near = (t2 < 0) | ((t >= 0) & (z <= z2))
    x, y = centre(j, width), centre(i, height)
    step = 2.0 / tl.where(axis == 0, width, height).to(tl.float64)
    along, fixed = tl.where(axis == 0, x, y), tl.where(axis == 0, y, x)
    begin = tl.where(near, along, along + step)
    here, there = tl.where(near, t, t2), tl.where(near, t2, t)
    way = tl.where(near, step, -step)
    code = _walked(
        pos, tri, uses, base, tl.where(on, here, 0), there, begin, fixed, way, axis, on, STEPS,
        MEETING,
    )  # fmt: skip
    found = code > 0
    va, vb = _ends(tri, tl.where(found, code - 1, 0), found)
    line = cross(corner(pos, base + va, found), corner(pos, base + vb, found))
    upright = tl.abs(line[0]) / width.to(tl.float64) >= tl.abs(line[1]) / height.to(tl.float64)
    kept = found & (upright == (axis == 0))
    tl.store(codes + axis.to(tl.int64) * pixels + p, tl.where(kept, code, 0), real)


@triton.jit
def _crossing(pos, tri, codes, p, axis, on, pixels, stride, height, width):
    """Of the silhouettes of pairs: where, what it is made of, and the code, 0 without one."""
    code = tl.load(codes + axis * pixels + p, on, 0)
    on = on & (code > 0)
    j, i = (p % width).to(tl.int32), (p // width % height).to(tl.int32)
    base = p // width // height * stride
    va, vb = _ends(tri, tl.where(on, code - 1, 0), on)
    a, b = corner(pos, base + va, on), corner(pos, base + vb, on)
    line = cross(a, b)
    x, y = centre(j, width), centre(i, height)
    x2 = tl.where(axis == 0, centre(j + 1, width), x)
    y2 = tl.where(axis == 0, y, centre(i + 1, height))
    e, f = line[0] * x + line[1] * y + line[2], line[0] * x2 + line[1] * y2 + line[2]
    t = e / tl.where(e != f, e - f, 1.0)
    on = on & (e != f) & (t >= 0.0) & (t <= 1.0)
    return tl.where(on, code, 0), tl.where(on, t - 0.5, 0.0), e, f, x, y, x2, y2, a, b


@triton.jit(do_not_specialize=["pixels", "stride", "height", "width", "channels"])
def blend_pairs(
    pos, tri, codes, color, grad, result, pixels, stride, height, width, channels,
    BACKWARD: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The blended colours, or BACKWARD the gradients of colours from those of the blended ones.

    Each pixel takes part in four pairs, in the order in which the CPU adds them: with the one
    below, the one before, the next and the one above.

    What it is given:
        pos, tri, pixels, stride: as `find_silhouettes`.
        codes: as it leaves them.
        color, grad: [N, H, W, channels], of which the one that is not needed is not read.
        result: [N, H, W, channels], out.
    """
    p = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    real = p < pixels
    at = p[:, None] * channels + c[None, :]
    full = real[:, None] & (c < channels)[None, :]
    source = grad if BACKWARD else color
    own = tl.load(source + at, full, 0.0).to(tl.float64)
    total = own
    for k in tl.static_range(4):
        # Of pairs 0 and 1 the pixel is the second.
        step = 1 if k == 1 or k == 2 else width
        first = p - step if k < 2 else p
        _, weight, _, _, _, _, _, _, _, _ = _crossing(
            pos, tri, codes, first, 0 if k == 1 or k == 2 else 1, real & (first >= 0), pixels,
            stride, height, width,
        )  # fmt: skip
        # Up to the silhouette there is what the first pixel sees, beyond it what the second.
        hit = full & (weight != 0.0)[:, None]
        if BACKWARD:
            target = first + tl.where(weight > 0.0, step, 0)
            g = tl.load(grad + target[:, None] * channels + c[None, :], hit, 0.0).to(tl.float64)
            total += -g * weight[:, None] if k < 2 else g * weight[:, None]
        else:
            hit = hit & ((weight > 0.0)[:, None] if k < 2 else (weight < 0.0)[:, None])
            other = first if k < 2 else p + step
            x = tl.load(color + other[:, None] * channels + c[None, :], hit, 0.0).to(tl.float64)
            change = weight[:, None] * (x - own if k < 2 else own - x)
            total += tl.where(hit, change, 0.0)
    tl.store(result + at, total.to(result.dtype.element_ty), full)


@triton.jit(do_not_specialize=["pixels", "stride", "height", "width", "channels", "triangles"])
def line_gradients(
    pos, tri, codes, color, grad, corners, keys, pixels, stride, height, width, channels, triangles,
    none, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """What each pair adds to the gradients of the corners of a triangle; program (pixels, axis).

    What it is given:
        pos, tri, pixels, stride, codes, color: as `blend_pairs`.
        grad: [N, H, W, channels], of the blended colours.
        corners: [2 N H W, 12], out where there is a silhouette.
        keys: [2 N H W], out: the triangle, through those of all images; `none` without one.
    """
    p = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    axis = tl.program_id(1).to(tl.int64)
    real = p < pixels
    code, weight, e, f, x, y, x2, y2, a, b = _crossing(
        pos, tri, codes, p, axis, real, pixels, stride, height, width
    )
    on = code > 0
    q = p + tl.where(axis == 0, 1, width)
    target = tl.where(weight > 0.0, q, p)
    g, start = tl.zeros([BLOCK], tl.float64), 0
    while start < channels:
        c = start + tl.arange(0, WIDE)
        full = on[:, None] & (c < channels)[None, :]
        upstream = tl.load(grad + target[:, None] * channels + c[None, :], full, 0.0)
        x_p = tl.load(color + p[:, None] * channels + c[None, :], full, 0.0).to(tl.float64)
        x_q = tl.load(color + q[:, None] * channels + c[None, :], full, 0.0).to(tl.float64)
        g += tl.sum(upstream.to(tl.float64) * (x_p - x_q), 1)
        start += WIDE
    d = tl.where(on, e - f, 1.0)
    g = g / (d * d)
    lx, ly, lw = g * (e * x2 - f * x), g * (e * y2 - f * y), g * (e - f)
    half = tl.where(on, code - 1, 0)
    k, zero = half % 3, tl.zeros([BLOCK], tl.float64)
    of_a, of_b = of_product(a, b, (lx, ly, lw))
    of_a, of_b = fours(of_a[0], of_a[1], zero, of_a[2]), fours(of_b[0], of_b[1], zero, of_b[2])
    entry = axis * pixels + p
    at = corners + entry[:, None] * 12 + tl.arange(0, 4)[None, :]
    kind = corners.dtype.element_ty
    tl.store(at + 4 * k[:, None], tl.zeros_like(of_a).to(kind), on[:, None])
    tl.store(at + 4 * ((k + 1) % 3)[:, None], of_a.to(kind), on[:, None])
    tl.store(at + 4 * ((k + 2) % 3)[:, None], of_b.to(kind), on[:, None])
    key = tl.where(on, p // width // height * triangles + half // 3, none)
    tl.store(keys + entry, key.to(keys.dtype.element_ty), real)
