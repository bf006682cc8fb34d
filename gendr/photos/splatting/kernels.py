"""The compiled projection of splats: corners, colours and scales of all triangles in one pass.

The same as `gendr.photos.splatting.splats.projected` in plain torch, its definition; a unit is a
triangle.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gendr.kernels.numba.compilation import announce_compilation, ensure_cache, inner, kernel
from gendr.kernels.threads import run
from gendr.photos.splatting.harmonics import _C0, _C1, _M1, _M2, _M3, _XX, _XY, _XYZ, _ZZ, _ZZZ

ensure_cache()
announce_compilation(__name__)

backend = "cpu"


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


def _view(sight: Any) -> tuple[Any, ...]:
    """What a camera sees by, as the kernels take it."""
    camera = sight.camera
    rows = camera.projection[0].detach().double().numpy()
    eye = camera.eye[0].detach().double().numpy()
    return tuple(View(rows, eye, sight.near, sight.unit, sight.thin))


def forward(
    sight: Any, vertices: Tensor, harmonics: Tensor, scale: Tensor, *, save: bool
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[()]]:
    """Corners [N, 3, 3] as x, y in NDC and the depth, colours [N, 3] and scales [N] in NDC."""
    count = len(vertices)
    corners, colours = torch.empty_like(vertices), harmonics.new_empty(count, 3)
    width = torch.empty_like(scale)
    run(
        project_triangles, count, _view(sight), vertices.numpy(), harmonics.numpy(),
        scale.numpy(), corners.numpy(), colours.numpy(), width.numpy(), pieces=2,
    )  # fmt: skip
    return (corners, colours, width), ()


def backward(
    sight: Any, inputs: tuple[Tensor, Tensor, Tensor], saved: tuple[()],
    grads: tuple[Tensor | None, ...], wanted: tuple[bool, ...],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of vertices, harmonics and scale."""
    vertices, harmonics, scale = inputs
    shapes = vertices, harmonics[:, 0], scale
    upstream: list[Any] = [
        torch.zeros_like(like) if grad is None else grad
        for grad, like in zip(grads, shapes, strict=True)
    ]
    found = tuple(torch.zeros_like(x) for x in inputs)
    run(
        project_backward, len(vertices), _view(sight), vertices.numpy(), harmonics.numpy(),
        scale.numpy(), *(x.numpy() for x in upstream), *(x.numpy() for x in found), pieces=2,
    )  # fmt: skip
    return found  # pyright: ignore[reportReturnType]


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


@inner(error_model="numpy")
def _corners(rows, v, near, at):
    """Fill in x, y, depth and W of the three corners; return whether all are seen."""
    seen = True
    for k in range(3):
        for c in range(4):
            p = rows[c]
            at[k, c] = p[0] * v[k, 0] + p[1] * v[k, 1] + p[2] * v[k, 2] + p[3]
        seen &= at[k, 3] >= near
    if seen:
        for k in range(3):
            inverse = 1.0 / at[k, 2]
            at[k, 0], at[k, 1] = at[k, 0] * inverse, at[k, 1] * inverse
    return seen


@inner(error_model="numpy")
def _toward(v, eye):
    """The unit vector from the eye to the centroid, and the inverse of its length."""
    x = (v[0, 0] + v[1, 0] + v[2, 0]) / 3.0 - eye[0]
    y = (v[0, 1] + v[1, 1] + v[2, 1]) / 3.0 - eye[1]
    z = (v[0, 2] + v[1, 2] + v[2, 2]) / 3.0 - eye[2]
    square = x * x + y * y + z * z
    inverse = 1.0 / math.sqrt(square) if square > 0.0 else 0.0
    return x * inverse, y * inverse, z * inverse, inverse


@inner()
def _sizes(at):
    """Twice the signed area, and the perimeter, of the corners on the screen."""
    ux, uy = at[1, 0] - at[0, 0], at[1, 1] - at[0, 1]
    vx, vy = at[2, 0] - at[0, 0], at[2, 1] - at[0, 1]
    wx, wy = vx - ux, vy - uy
    around = math.sqrt(ux * ux + uy * uy) + math.sqrt(vx * vx + vy * vy)
    return ux * vy - uy * vx, around + math.sqrt(wx * wx + wy * wy)


@inner()
def _colour(values, harmonics, count, i, c):
    """Channel c of triangle i, before negative ones become 0."""
    colour = 0.5
    for k in range(count):
        colour += values[k] * harmonics[i, k, c]
    return colour


@kernel(error_model="numpy")
def project_triangles(view, vertices, harmonics, scale, corners, colours, width, start, stop):
    """Fill in the corners, colours and widths of the triangles start .. stop - 1."""
    rows, eye, near, unit, thin = view
    count, at, values = harmonics.shape[1], np.empty((3, 4)), np.empty(16)
    for i in range(start, stop):
        v = vertices[i]
        seen = _corners(rows, v, near, at)
        for k in range(3):
            corners[i, k, 0] = at[k, 0] if seen else 0.0
            corners[i, k, 1] = at[k, 1] if seen else 0.0
            corners[i, k, 2] = at[k, 3] if seen else 0.0
        size = unit
        if unit == 0.0:
            area, around = _sizes(at) if seen else (0.0, 1.0)
            size = max(abs(area) / around, thin) if around > 0.0 else thin
        width[i] = scale[i] * size
        x, y, z, _ = _toward(v, eye)
        _basis(x, y, z, count, values)
        for c in range(3):
            colours[i, c] = max(_colour(values, harmonics, count, i, c), 0.0)


@kernel(error_model="numpy")
def project_backward(
    view, vertices, harmonics, scale, on_corners, on_colours, on_width, out_vertices,
    out_harmonics, out_scale, start, stop,
):  # fmt: skip
    """Fill in the gradients of the triangles start .. stop - 1."""
    rows, eye, near, unit, thin = view
    count, at, on = harmonics.shape[1], np.empty((3, 4)), np.empty((3, 4))
    values, weights, on_colour = np.empty(16), np.empty(16), np.empty(3)
    for i in range(start, stop):
        v = vertices[i]
        seen = _corners(rows, v, near, at)
        if seen:
            for k in range(3):
                on[k, 0], on[k, 1], on[k, 3] = on_corners[i, k, 0], on_corners[i, k, 1], 0.0
            size = unit
            if unit == 0.0:
                area, around = _sizes(at)
                size = abs(area) / around if around > 0.0 else 0.0
                if size > thin:
                    _move_inradius(at, area, around, on_width[i] * scale[i], on)
                size = max(size, thin)
            out_scale[i] = on_width[i] * size
            for k in range(3):
                w = 1.0 / at[k, 2]
                on[k, 2] = -(on[k, 0] * at[k, 0] + on[k, 1] * at[k, 1]) * w
                on[k, 0], on[k, 1] = on[k, 0] * w, on[k, 1] * w
                for c in range(3):
                    total = on_corners[i, k, 2] * rows[3, c]
                    for d in range(3):
                        total += on[k, d] * rows[d, c]
                    out_vertices[i, k, c] = total
        else:
            out_scale[i] = on_width[i] * (thin if unit == 0.0 else unit)
        x, y, z, inverse = _toward(v, eye)
        _basis(x, y, z, count, values)
        for c in range(3):
            lit = _colour(values, harmonics, count, i, c) >= 0.0
            on_colour[c] = on_colours[i, c] if lit else 0.0
        for k in range(count):
            weights[k] = 0.0
            for c in range(3):
                out_harmonics[i, k, c] = values[k] * on_colour[c]
                weights[k] += harmonics[i, k, c] * on_colour[c]
        gx, gy, gz = _slope(x, y, z, count, weights)
        along = gx * x + gy * y + gz * z
        gx, gy, gz, third = gx - along * x, gy - along * y, gz - along * z, inverse / 3.0
        for k in range(3):
            out_vertices[i, k, 0] += gx * third
            out_vertices[i, k, 1] += gy * third
            out_vertices[i, k, 2] += gz * third


@inner(error_model="numpy")
def _move_inradius(at, area, around, grad, on):
    """Add the gradient of the inradius |area| / around to those of x and y of the corners."""
    on_area = (grad if area > 0.0 else -grad) / around
    on_around = -grad * abs(area) / (around * around)
    for k in range(3):
        a, b = (k + 1) % 3, (k + 2) % 3
        on[k, 0] += on_area * (at[a, 1] - at[b, 1])
        on[k, 1] += on_area * (at[b, 0] - at[a, 0])
        dx, dy = at[k, 0] - at[a, 0], at[k, 1] - at[a, 1]
        length = math.sqrt(dx * dx + dy * dy)
        if length > 0.0:
            dx, dy = dx * (on_around / length), dy * (on_around / length)
            on[k, 0], on[k, 1] = on[k, 0] + dx, on[k, 1] + dy
            on[a, 0], on[a, 1] = on[a, 0] - dx, on[a, 1] - dy
