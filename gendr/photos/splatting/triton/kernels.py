"""The Triton kernels of splats: corners, colours and widths of all triangles in one pass, and back.

The same as `gendr.photos.splatting.splats.projected` in plain torch, its definition, and as the
kernels of the CPU beside it; a lane is a triangle. Arithmetic is float32.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gendr.photos.splatting import harmonics

_C0 = tl.constexpr(harmonics._C0)
_C1 = tl.constexpr(harmonics._C1)
_XY = tl.constexpr(harmonics._XY)
_ZZ = tl.constexpr(harmonics._ZZ)
_XX = tl.constexpr(harmonics._XX)
_M3 = tl.constexpr(harmonics._M3)
_XYZ = tl.constexpr(harmonics._XYZ)
_M1 = tl.constexpr(harmonics._M1)
_ZZZ = tl.constexpr(harmonics._ZZZ)
_M2 = tl.constexpr(harmonics._M2)
EYE = tl.constexpr(16)  # where it stands in a view, behind the rows X, Y, W and depth


@triton.jit
def _basis(x, y, z, k: tl.constexpr):
    """Harmonic k of unit vectors; see `gendr.photos.splatting.harmonics.basis`."""
    xx, yy, zz = x * x, y * y, z * z
    if k == 0:
        out = x * 0.0 + _C0
    elif k == 1:
        out = -_C1 * y
    elif k == 2:
        out = _C1 * z
    elif k == 3:
        out = -_C1 * x
    elif k == 4:
        out = _XY * x * y
    elif k == 5:
        out = -_XY * y * z
    elif k == 6:
        out = _ZZ * (2 * zz - xx - yy)
    elif k == 7:
        out = -_XY * x * z
    elif k == 8:
        out = _XX * (xx - yy)
    elif k == 9:
        out = -_M3 * y * (3 * xx - yy)
    elif k == 10:
        out = _XYZ * x * y * z
    elif k == 11:
        out = -_M1 * y * (4 * zz - xx - yy)
    elif k == 12:
        out = _ZZZ * z * (2 * zz - 3 * xx - 3 * yy)
    elif k == 13:
        out = -_M1 * x * (4 * zz - xx - yy)
    elif k == 14:
        out = _M2 * z * (xx - yy)
    else:
        out = -_M3 * x * (xx - 3 * yy)
    return out


@triton.jit
def _slope(x, y, z, k: tl.constexpr):
    """The gradient by (x, y, z) of harmonic k."""
    xx, yy, zz, none = x * x, y * y, z * z, x * 0.0
    gx, gy, gz = none, none, none
    if k == 1:
        gy = none - _C1
    elif k == 2:
        gz = none + _C1
    elif k == 3:
        gx = none - _C1
    elif k == 4:
        gx, gy = _XY * y, _XY * x
    elif k == 5:
        gy, gz = -_XY * z, -_XY * y
    elif k == 6:
        gx, gy, gz = -2 * _ZZ * x, -2 * _ZZ * y, 4 * _ZZ * z
    elif k == 7:
        gx, gz = -_XY * z, -_XY * x
    elif k == 8:
        gx, gy = 2 * _XX * x, -2 * _XX * y
    elif k == 9:
        gx, gy = -6 * _M3 * x * y, -3 * _M3 * (xx - yy)
    elif k == 10:
        gx, gy, gz = _XYZ * y * z, _XYZ * x * z, _XYZ * x * y
    elif k == 11:
        gx, gy, gz = 2 * _M1 * x * y, -_M1 * (4 * zz - xx - 3 * yy), -8 * _M1 * y * z
    elif k == 12:
        gx, gy, gz = -6 * _ZZZ * x * z, -6 * _ZZZ * y * z, _ZZZ * (6 * zz - 3 * xx - 3 * yy)
    elif k == 13:
        gx, gy, gz = -_M1 * (4 * zz - 3 * xx - yy), 2 * _M1 * x * y, -8 * _M1 * x * z
    elif k == 14:
        gx, gy, gz = 2 * _M2 * x * z, -2 * _M2 * y * z, _M2 * (xx - yy)
    elif k == 15:
        gx, gy = -3 * _M3 * (xx - yy), 6 * _M3 * x * y
    return gx, gy, gz


@triton.jit
def _row(view, r: tl.constexpr, x, y, z):
    """Row r of a view times (x, y, z, 1)."""
    row = view + 4 * r
    return tl.load(row) * x + tl.load(row + 1) * y + tl.load(row + 2) * z + tl.load(row + 3)


@triton.jit
def _corner(vertices, i, k: tl.constexpr, valid, view):
    """Corner k of triangles, and its X, Y, W and depth."""
    at = vertices + i * 9 + 3 * k
    x, y = tl.load(at, valid, 0.0), tl.load(at + 1, valid, 0.0)
    z = tl.load(at + 2, valid, 0.0)
    projected = (
        _row(view, 0, x, y, z), _row(view, 1, x, y, z), _row(view, 2, x, y, z),
        _row(view, 3, x, y, z),
    )  # fmt: skip
    return (x, y, z), projected


@triton.jit
def _on_screen(corner, seen):
    """X / W and Y / W and W, of what is seen."""
    w = tl.where(seen, corner[2], 1.0)
    return tl.where(seen, corner[0] / w, 0.0), tl.where(seen, corner[1] / w, 0.0), w


@triton.jit
def _toward(a, b, c, view):
    """The unit vector from the eye to the mean of corners, and the inverse of its length."""
    x = (a[0] + b[0] + c[0]) / 3.0 - tl.load(view + EYE)
    y = (a[1] + b[1] + c[1]) / 3.0 - tl.load(view + EYE + 1)
    z = (a[2] + b[2] + c[2]) / 3.0 - tl.load(view + EYE + 2)
    square = x * x + y * y + z * z
    inverse = tl.where(square > 0.0, 1.0 / tl.sqrt(tl.where(square > 0.0, square, 1.0)), 0.0)
    return x * inverse, y * inverse, z * inverse, inverse


@triton.jit
def _length(x, y):
    return tl.sqrt(x * x + y * y)


@triton.jit
def _sizes(a, b, c):
    """Twice the signed area of corners on the screen, and the lengths of ab, bc and ca."""
    area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    return (
        area, _length(b[0] - a[0], b[1] - a[1]), _length(c[0] - b[0], c[1] - b[1]),
        _length(a[0] - c[0], a[1] - c[1]),
    )  # fmt: skip


@triton.jit
def _colour(harmonics, i, c: tl.constexpr, valid, x, y, z, COUNT: tl.constexpr):
    """Channel c, before negative ones become 0."""
    colour = x * 0.0 + 0.5
    for k in tl.static_range(COUNT):
        value = tl.load(harmonics + (i * COUNT + k) * 3 + c, valid, 0.0)
        colour += _basis(x, y, z, k) * value
    return colour


@triton.jit
def _store_corner(corners, i, k: tl.constexpr, valid, point, depth, seen):
    at = corners + i * 9 + 3 * k
    tl.store(at, point[0], valid)
    tl.store(at + 1, point[1], valid)
    tl.store(at + 2, tl.where(seen, depth, 0.0), valid)


@triton.jit(do_not_specialize=["count"])
def project_triangles(
    view, vertices, harmonics, scale, corners, colours, width, near, unit, thin, count,
    COUNT: tl.constexpr, INRADIUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Corners [N, 3, 3], colours [N, 3] and widths [N] of triangles.

    Args:
        view: [19], the rows X, Y, W and depth of points (x, y, z, 1), and the eye.
        vertices: [N, 3, 3].
        harmonics: [N, COUNT, 3].
        scale: [N].
        corners: x and y in NDC and the depth; 0 where a corner is nearer than `near`.
        colours: of the triangles.
        width: the scales in NDC.
        near: see `corners`.
        unit: NDC in a unit of scale, if that is no inradius.
        thin: the smallest inradius.
        count: N.
        COUNT: of harmonics.
        INRADIUS: whether scales are in inradii.
        BLOCK: triangles of a program.
    """
    i = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    valid = i < count
    p, a = _corner(vertices, i, 0, valid, view)
    q, b = _corner(vertices, i, 1, valid, view)
    r, c = _corner(vertices, i, 2, valid, view)
    seen = valid & (a[3] >= near) & (b[3] >= near) & (c[3] >= near)
    u, v, w = _on_screen(a, seen), _on_screen(b, seen), _on_screen(c, seen)
    _store_corner(corners, i, 0, valid, u, a[3], seen)
    _store_corner(corners, i, 1, valid, v, b[3], seen)
    _store_corner(corners, i, 2, valid, w, c[3], seen)
    size = a[0] * 0.0 + unit
    if INRADIUS:
        area, one, two, three = _sizes(u, v, w)
        around = one + two + three
        size = tl.maximum(tl.abs(area) / tl.where(around > 0.0, around, 1.0), thin)
    tl.store(width + i, tl.load(scale + i, valid, 0.0) * size, valid)
    x, y, z, _inverse = _toward(p, q, r, view)
    for channel in tl.static_range(3):
        colour = _colour(harmonics, i, channel, valid, x, y, z, COUNT)
        tl.store(colours + i * 3 + channel, tl.maximum(colour, 0.0), valid)


@triton.jit
def _length_gradient(at, other, length, factor):
    """A factor times the direction to a corner from another one, at a distance."""
    scaled = factor / tl.where(length > 0.0, length, 1.0)
    scaled = tl.where(length > 0.0, scaled, 0.0)
    return scaled * (at[0] - other[0]), scaled * (at[1] - other[1])


@triton.jit
def _store_corner_gradient(
    out, i, k: tl.constexpr, valid, seen, grads, view, point, moved, toward
):  # fmt: skip
    """The gradient of corner k: what its place on the screen says, its depth, and its direction."""
    at = grads + i * 9 + 3 * k
    on_x = tl.where(seen, tl.load(at, valid, 0.0), 0.0) + moved[0]
    on_y = tl.where(seen, tl.load(at + 1, valid, 0.0), 0.0) + moved[1]
    on_depth = tl.where(seen, tl.load(at + 2, valid, 0.0), 0.0)
    on_w = -(on_x * point[0] + on_y * point[1]) / point[2]
    on_x, on_y = on_x / point[2], on_y / point[2]
    for j in tl.static_range(3):
        total = on_x * tl.load(view + j) + on_y * tl.load(view + 4 + j)
        total += on_w * tl.load(view + 8 + j) + on_depth * tl.load(view + 12 + j)
        tl.store(out + i * 9 + 3 * k + j, tl.where(seen, total, 0.0) + toward[j], valid)


@triton.jit(do_not_specialize=["count"])
def project_backward(
    view, vertices, harmonics, scale, on_corners, on_colours, on_width, out_vertices,
    out_harmonics, out_scale, near, unit, thin, count,
    COUNT: tl.constexpr, INRADIUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of vertices, harmonics and scale; see `project_triangles`."""
    i = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    valid = i < count
    p, a = _corner(vertices, i, 0, valid, view)
    q, b = _corner(vertices, i, 1, valid, view)
    r, c = _corner(vertices, i, 2, valid, view)
    seen = valid & (a[3] >= near) & (b[3] >= near) & (c[3] >= near)
    u, v, w = _on_screen(a, seen), _on_screen(b, seen), _on_screen(c, seen)
    grad = tl.load(on_width + i, valid, 0.0)
    none = a[0] * 0.0
    size, to_u, to_v, to_w = none + unit, (none, none), (none, none), (none, none)
    if INRADIUS:
        area, one, two, three = _sizes(u, v, w)
        around = one + two + three
        size = tl.abs(area) / tl.where(around > 0.0, around, 1.0)
        moves = seen & (size > thin)
        safe = tl.where(moves, around, 1.0)
        factor = tl.where(moves, grad * tl.load(scale + i, valid, 0.0), 0.0)
        on_area = tl.where(area > 0.0, factor, -factor) / safe
        on_around = -factor * tl.abs(area) / (safe * safe)
        uv, vw, wu = (
            _length_gradient(u, v, one, on_around), _length_gradient(v, w, two, on_around),
            _length_gradient(w, u, three, on_around),
        )  # fmt: skip
        to_u = (uv[0] - wu[0] + on_area * (v[1] - w[1]), uv[1] - wu[1] + on_area * (w[0] - v[0]))
        to_v = (vw[0] - uv[0] + on_area * (w[1] - u[1]), vw[1] - uv[1] + on_area * (u[0] - w[0]))
        to_w = (wu[0] - vw[0] + on_area * (u[1] - v[1]), wu[1] - vw[1] + on_area * (v[0] - u[0]))
        size = tl.maximum(size, thin)
    tl.store(out_scale + i, grad * size, valid)
    x, y, z, inverse = _toward(p, q, r, view)
    gx, gy, gz = none, none, none
    for channel in tl.static_range(3):
        colour = _colour(harmonics, i, channel, valid, x, y, z, COUNT)
        on_colour = tl.load(on_colours + i * 3 + channel, valid, 0.0)
        on_colour = tl.where(colour >= 0.0, on_colour, 0.0)
        for k in tl.static_range(COUNT):
            at = (i * COUNT + k) * 3 + channel
            tl.store(out_harmonics + at, _basis(x, y, z, k) * on_colour, valid)
            if k > 0:
                weight = tl.load(harmonics + at, valid, 0.0) * on_colour
                sx, sy, sz = _slope(x, y, z, k)
                gx, gy, gz = gx + weight * sx, gy + weight * sy, gz + weight * sz
    along, third = gx * x + gy * y + gz * z, inverse / 3.0
    toward = (gx - along * x) * third, (gy - along * y) * third, (gz - along * z) * third
    _store_corner_gradient(out_vertices, i, 0, valid, seen, on_corners, view, u, to_u, toward)
    _store_corner_gradient(out_vertices, i, 1, valid, seen, on_corners, view, v, to_v, toward)
    _store_corner_gradient(out_vertices, i, 2, valid, seen, on_corners, view, w, to_w, toward)
