"""The compiled projection of splats: corners, colours and scales of all triangles in one pass.

The same as `gendr.photos.splatting.splats.projected` in plain torch, its definition; a unit is a
triangle.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gendr.kernels.numba.calls import keep_alive, pointer, row, shifted
from gendr.kernels.numba.compilation import (
    available,
    inner,
    kernel,
    supports,
)
from gendr.kernels.threads import run
from gendr.photos.splatting.harmonics import _C0, _C1, _M1, _M2, _M3, _XX, _XY, _XYZ, _ZZ, _ZZZ

__all__ = ["KERNELS", "available", "supports"]


class View(NamedTuple):
    """One perspective camera, and what scales are measured in.

    Attributes:
        rows: [4, 4] float64, X, Y, W and the depth of a point (x, y, z, 1).
        eye: [3] float64.
        near: triangles with a corner at a smaller depth are left out.
        unit: NDC in a unit of scale; 0 for inradii.
        thin: the smallest inradius.
    """

    rows: np.ndarray
    eye: np.ndarray
    near: float
    unit: float
    thin: float


def _view(task: Any) -> tuple[Any, ...]:
    """What a camera sees by, as the kernels take it."""
    camera = task.camera
    rows = camera.projection[0].detach().double().contiguous().numpy()
    eye = camera.eye[0].detach().double().contiguous().numpy()
    return tuple(View(rows, eye, task.near, task.unit, task.thin))


def forward(
    task: Any, vertices: Tensor, harmonics: Tensor, scale: Tensor, *, save: bool
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[()]]:
    """Corners [N, 3, 3] as x, y in NDC and the depth, colours [N, 3] and scales [N] in NDC."""
    count = len(vertices)
    corners, colours = torch.empty_like(vertices), harmonics.new_empty(count, 3)
    width = torch.empty_like(scale)
    run(
        project_triangles, count, _view(task), vertices.numpy(), harmonics.numpy(),
        scale.numpy(), corners.numpy(), colours.numpy(), width.numpy(), pieces=2,
    )  # fmt: skip
    return (corners, colours, width), ()


def backward(
    task: Any, inputs: tuple[Tensor, Tensor, Tensor], saved: tuple[()],
    grads: tuple[Tensor | None, ...], wanted: tuple[bool, ...],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of vertices, harmonics and scale."""
    vertices, harmonics, scale = inputs
    shapes = vertices, harmonics[:, 0], scale
    upstream: list[Any] = [
        torch.zeros_like(like) if grad is None else grad
        for grad, like in zip(grads, shapes, strict=True)
    ]
    found = torch.zeros_like(vertices), torch.empty_like(harmonics), torch.empty_like(scale)
    run(
        project_backward, len(vertices), _view(task), vertices.numpy(), harmonics.numpy(),
        scale.numpy(), *(x.numpy() for x in upstream), *(x.numpy() for x in found), pieces=2,
    )  # fmt: skip
    return found


class Projection:
    """The kernels of the projection; see `gendr.kernels.operator.Kernels`."""

    forward, backward = staticmethod(forward), staticmethod(backward)


KERNELS = {"splatting.project": Projection}


@inner()
def _basis(x, y, z, count, out):
    """Fill in the harmonics of a unit vector; see `gendr.photos.splatting.harmonics.basis`."""
    out[0] = _C0
    if count > 1:
        out[1], out[2], out[3] = -_C1 * y, _C1 * z, -_C1 * x
    if count > 4:
        xx, yy, zz = x * x, y * y, z * z
        out[4], out[5], out[7] = _XY * x * y, -_XY * y * z, -_XY * x * z
        out[6], out[8] = _ZZ * (2 * zz - xx - yy), _XX * (xx - yy)
        if count > 9:
            out[9], out[15] = -_M3 * y * (3 * xx - yy), -_M3 * x * (xx - 3 * yy)
            out[10], out[14] = _XYZ * x * y * z, _M2 * z * (xx - yy)
            out[11], out[13] = -_M1 * y * (4 * zz - xx - yy), -_M1 * x * (4 * zz - xx - yy)
            out[12] = _ZZZ * z * (2 * zz - 3 * xx - 3 * yy)


@inner()
def _slope(x, y, z, count, w):
    """The gradient by (x, y, z) of the sum of w_k times the harmonics."""
    gx, gy, gz = 0.0, 0.0, 0.0
    if count > 1:
        gx, gy, gz = -_C1 * w[3], -_C1 * w[1], _C1 * w[2]
    if count > 4:
        gx += _XY * (y * w[4] - z * w[7]) + 2 * x * (_XX * w[8] - _ZZ * w[6])
        gy += _XY * (x * w[4] - z * w[5]) - 2 * y * (_XX * w[8] + _ZZ * w[6])
        gz += 4 * _ZZ * z * w[6] - _XY * (y * w[5] + x * w[7])
    if count > 9:
        xx, yy, zz = x * x, y * y, z * z
        gx += -6 * _M3 * x * y * w[9] + _XYZ * y * z * w[10] + 2 * _M1 * x * y * w[11]
        gx += -6 * _ZZZ * x * z * w[12] - _M1 * (4 * zz - 3 * xx - yy) * w[13]
        gx += 2 * _M2 * x * z * w[14] - 3 * _M3 * (xx - yy) * w[15]
        gy += -3 * _M3 * (xx - yy) * w[9] + _XYZ * x * z * w[10]
        gy += -_M1 * (4 * zz - xx - 3 * yy) * w[11] - 6 * _ZZZ * y * z * w[12]
        gy += 2 * _M1 * x * y * w[13] - 2 * _M2 * y * z * w[14] + 6 * _M3 * x * y * w[15]
        gz += _XYZ * x * y * w[10] - 8 * _M1 * z * (y * w[11] + x * w[13])
        gz += _ZZZ * (6 * zz - 3 * xx - 3 * yy) * w[12] + _M2 * (xx - yy) * w[14]
    return gx, gy, gz


@inner()
def _row(rows, d, x, y, z):
    """A row of the projection, of a point."""
    row = shifted(rows, 4 * d)
    return row[0] * x + row[1] * y + row[2] * z + row[3]


@inner()
def _corner(rows, v, k):
    """Where a corner is: x and y in NDC, 1 / W and the depth."""
    x, y, z = np.float64(v[3 * k]), np.float64(v[3 * k + 1]), np.float64(v[3 * k + 2])
    inverse = 1.0 / _row(rows, 2, x, y, z)
    return (
        _row(rows, 0, x, y, z) * inverse, _row(rows, 1, x, y, z) * inverse, inverse,
        _row(rows, 3, x, y, z),
    )  # fmt: skip


@inner()
def _toward(v, eye):
    """The unit vector from the eye to the centroid, and the inverse of its length."""
    x = (v[0] + v[3] + v[6]) / 3.0 - eye[0]
    y = (v[1] + v[4] + v[7]) / 3.0 - eye[1]
    z = (v[2] + v[5] + v[8]) / 3.0 - eye[2]
    square = x * x + y * y + z * z
    inverse = 1.0 / math.sqrt(square) if square > 0.0 else 0.0
    return x * inverse, y * inverse, z * inverse, inverse


@inner()
def _edge(a, b):
    """The vector between two corners on the screen, and its length."""
    x, y = b[0] - a[0], b[1] - a[1]
    return x, y, math.sqrt(x * x + y * y)


@inner()
def _sizes(u, v, w):
    """Twice the signed area, and the perimeter, of the triangle of three edges."""
    return u[1] * w[0] - u[0] * w[1], u[2] + v[2] + w[2]


@inner()
def _colour(values, harmonics, count, c):
    """Channel c of a triangle, before negative ones become 0."""
    colour = 0.5
    for k in range(count):
        colour += values[k] * harmonics[3 * k + c]
    return colour


@kernel()
def project_triangles(view, vertices, harmonics, scale, corners, colours, width, start, stop):
    """Fill in the corners, colours and widths of the triangles start .. stop - 1."""
    matrix, place, near, unit, thin = view
    rows, eye, table = pointer(matrix), pointer(place), np.empty(16)
    count, values = harmonics.shape[1], pointer(table)
    for i in range(start, stop):
        v, own, out, colour = row(vertices, i), row(harmonics, i), row(corners, i), row(colours, i)
        a, b, c = _corner(rows, v, 0), _corner(rows, v, 1), _corner(rows, v, 2)
        if not (a[3] >= near and b[3] >= near and c[3] >= near):
            a = b = c = (0.0, 0.0, 0.0, 0.0)
        out[0], out[1], out[2] = a[0], a[1], a[3]
        out[3], out[4], out[5] = b[0], b[1], b[3]
        out[6], out[7], out[8] = c[0], c[1], c[3]
        size = unit
        if unit == 0.0:
            area, around = _sizes(_edge(a, b), _edge(b, c), _edge(c, a))
            size = max(abs(area) / around, thin) if around > 0.0 else thin
        width[i] = scale[i] * size
        x, y, z, _ = _toward(v, eye)
        _basis(x, y, z, count, values)
        for k in range(3):
            colour[k] = max(_colour(values, own, count, k), 0.0)
    keep_alive((table,))


@inner()
def _move_corner(rows, corner, x, y, z, out):
    """Fill in the gradient of a corner in space from those of its x, y and depth."""
    w = -(x * corner[0] + y * corner[1]) * corner[2]
    x, y = x * corner[2], y * corner[2]
    for d in range(3):
        out[d] = z * rows[12 + d] + x * rows[d] + y * rows[4 + d] + w * rows[8 + d]


@kernel()
def project_backward(
    view, vertices, harmonics, scale, on_corners, on_colours, on_width, out_vertices,
    out_harmonics, out_scale, start, stop,
):  # fmt: skip
    """Fill in the gradients of the triangles start .. stop - 1."""
    matrix, place, near, unit, thin = view
    rows, eye, tables = pointer(matrix), pointer(place), np.empty((3, 16))
    values, weights, on_colour = row(tables, 0), row(tables, 1), row(tables, 2)
    count = harmonics.shape[1]
    for i in range(start, stop):
        v, own, on, colour = (
            row(vertices, i),
            row(harmonics, i),
            row(on_corners, i),
            row(on_colours, i),
        )
        out, on_own = row(out_vertices, i), row(out_harmonics, i)
        a, b, c = _corner(rows, v, 0), _corner(rows, v, 1), _corner(rows, v, 2)
        if a[3] >= near and b[3] >= near and c[3] >= near:
            ax, ay, bx, by, cx, cy, size = on[0], on[1], on[3], on[4], on[6], on[7], unit
            if unit == 0.0:  # the inradius: twice the area over the perimeter
                u, w, t = _edge(a, b), _edge(b, c), _edge(c, a)
                area, around = _sizes(u, w, t)
                size = abs(area) / around if around > 0.0 else 0.0
                if size > thin:
                    grad = on_width[i] * scale[i] / around
                    on_area, on_around = (grad if area > 0.0 else -grad), -grad * size
                    fu = on_around / u[2] if u[2] > 0.0 else 0.0
                    fw = on_around / w[2] if w[2] > 0.0 else 0.0
                    ft = on_around / t[2] if t[2] > 0.0 else 0.0
                    ax += ft * t[0] - fu * u[0] - on_area * w[1]
                    ay += ft * t[1] - fu * u[1] + on_area * w[0]
                    bx += fu * u[0] - fw * w[0] - on_area * t[1]
                    by += fu * u[1] - fw * w[1] + on_area * t[0]
                    cx += fw * w[0] - ft * t[0] - on_area * u[1]
                    cy += fw * w[1] - ft * t[1] + on_area * u[0]
                size = max(size, thin)
            out_scale[i] = on_width[i] * size
            _move_corner(rows, a, ax, ay, on[2], out)
            _move_corner(rows, b, bx, by, on[5], shifted(out, 3))
            _move_corner(rows, c, cx, cy, on[8], shifted(out, 6))
        else:
            out_scale[i] = on_width[i] * (thin if unit == 0.0 else unit)
        x, y, z, inverse = _toward(v, eye)
        _basis(x, y, z, count, values)
        for k in range(3):
            on_colour[k] = colour[k] if _colour(values, own, count, k) >= 0.0 else 0.0
        for k in range(count):
            weights[k] = 0.0
            for d in range(3):
                on_own[3 * k + d] = values[k] * on_colour[d]
                weights[k] += own[3 * k + d] * on_colour[d]
        gx, gy, gz = _slope(x, y, z, count, weights)
        along, third = gx * x + gy * y + gz * z, inverse / 3.0
        gx, gy, gz = (gx - along * x) * third, (gy - along * y) * third, (gz - along * z) * third
        for k in range(3):
            out[3 * k], out[3 * k + 1], out[3 * k + 2] = (
                out[3 * k] + gx,
                out[3 * k + 1] + gy,
                out[3 * k + 2] + gz,
            )
    keep_alive((tables,))
