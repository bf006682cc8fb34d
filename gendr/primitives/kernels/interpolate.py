"""The compiled interpolation; a unit is a row of pixels, backwards also a range of vertices."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from gendr._common import memory
from gendr.kernels.numba.compilation import kernel
from gendr.kernels.threads import run
from gendr.primitives.kernels import OPTIONS
from gendr.primitives.kernels.gather import gather

if TYPE_CHECKING:
    from gendr.primitives.scene import Faces


__all__ = ["backend", "backward", "forward"]

backend = "cpu"

SMALL = 8192  # numbers that are not worth another thread


def forward(
    faces: Faces, attr: Tensor, rast: Tensor, rast_db: Tensor | None, *, save: bool
) -> tuple[tuple[Tensor, Tensor], tuple[()]]:
    """The attributes [N, H, W, A] and their derivatives [N, H, W, 2 D]."""
    images, height, width = rast.shape[:3]
    values = memory.empty((images, height, width, attr.shape[-1]), rast.dtype)
    slopes = memory.empty((images, height, width, 2 * len(faces.selected)), rast.dtype)
    run(
        interpolate_rows, images * height, *_tables(faces, attr, rast, rast_db), values.numpy(),
        slopes.numpy(), alone=values.numel() + slopes.numel() < SMALL,
    )  # fmt: skip
    return (values, slopes), ()


def backward(
    faces: Faces, inputs: tuple[Tensor, Tensor, Tensor | None], saved: tuple[()],
    grads: tuple[Tensor | None, ...], wanted: tuple[bool, ...],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """The gradients of attr, rast and rast_db."""
    attr, rast, rast_db = inputs
    images, height, width = rast.shape[:3]
    rows, channels = attr.numel() // max(1, attr.shape[-1]), attr.shape[-1]
    of_values, of_slopes = grads
    sloped = of_slopes is not None and rast_db is not None
    if of_values is None:
        of_values = rast.new_zeros(images, height, width, channels)
    if of_slopes is None or not sloped:
        of_slopes = rast.new_zeros(0, 0, 0, 0)
    tables = _tables(faces, attr, rast, rast_db)
    of_attr: Tensor | None = None
    of_rast = memory.empty_like(rast) if wanted[1] else rast.new_empty(0, 0, 0, 4)
    of_db = memory.empty_like(rast) if wanted[2] and sloped else rast.new_empty(0, 0, 0, 4)
    if wanted[1] or (wanted[2] and sloped):
        run(
            positions_backward, images * height, *tables, of_values.numpy(), of_slopes.numpy(),
            of_rast.numpy(), of_db.numpy(), alone=of_values.numel() < SMALL,
        )  # fmt: skip
    if wanted[0]:
        numbers, base = rast[..., 3], tables[2]
        if sloped:
            corners = memory.empty((numbers.numel(), 3 * channels), rast.dtype)
            run(
                corners_backward, images * height, *tables, of_values.numpy(), of_slopes.numpy(),
                corners.numpy(), alone=of_values.numel() < SMALL,
            )  # fmt: skip
            found = gather(numbers, faces.tri, base, rows, rast.new_empty(len(corners), 0), corners)
        else:
            weights, values = rast.reshape(-1, 4), of_values.reshape(-1, channels)
            found = gather(numbers, faces.tri, base, rows, weights, values)
        of_attr = found.to(attr.dtype).reshape(attr.shape)
    return of_attr, of_rast if wanted[1] else None, of_db if wanted[2] and sloped else None


def _tables(faces: Faces, attr: Tensor, rast: Tensor, rast_db: Tensor | None) -> tuple[Any, ...]:
    """What all kernels take first."""
    shared = attr.ndim == 2 or len(attr) == 1
    base = np.arange(len(rast)) * (0 if shared else attr.shape[-2])
    db = rast.new_empty(0, 0, 0, 4) if rast_db is None else rast_db
    selected = np.array(faces.selected, np.int64)
    rows = attr.reshape(-1, attr.shape[-1]).numpy()
    return rows, faces.tri.numpy(), base, rast.numpy(), db.numpy(), selected


@kernel(**OPTIONS)
def interpolate_rows(attr, tri, base, rast, db, selected, values, slopes, start, stop):
    """The attributes of rows of pixels, and their derivatives."""
    height, width = rast.shape[1:3]
    channels = attr.shape[1]
    for row in range(start, stop):
        n, i = row // height, row % height
        for j in range(width):
            t = np.int64(rast[n, i, j, 3] + 0.5) - 1
            if t < 0:
                for m in range(channels):
                    values[n, i, j, m] = 0.0
                for k in range(slopes.shape[3]):
                    slopes[n, i, j, k] = 0.0
                continue
            a, b, c = base[n] + tri[t, 0], base[n] + tri[t, 1], base[n] + tri[t, 2]
            u, v = np.float64(rast[n, i, j, 0]), np.float64(rast[n, i, j, 1])
            w = 1.0 - u - v
            for m in range(channels):
                values[n, i, j, m] = u * attr[a, m] + v * attr[b, m] + w * attr[c, m]
            for k in range(slopes.shape[3] // 2):
                m = selected[k]
                p, q = np.float64(attr[a, m]) - attr[c, m], np.float64(attr[b, m]) - attr[c, m]
                slopes[n, i, j, 2 * k] = db[n, i, j, 0] * p + db[n, i, j, 2] * q
                slopes[n, i, j, 2 * k + 1] = db[n, i, j, 1] * p + db[n, i, j, 3] * q


@kernel(**OPTIONS)
def positions_backward(
    attr, tri, base, rast, db, selected, of_values, of_slopes, of_rast, of_db, start, stop
):  # fmt: skip
    """The gradients of u and v, and of their derivatives."""
    height, width = rast.shape[1:3]
    channels = attr.shape[1]
    for row in range(start, stop):
        n, i = row // height, row % height
        for j in range(width):
            t = np.int64(rast[n, i, j, 3] + 0.5) - 1
            gu, gv, ux, uy, vx, vy = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            if t >= 0:
                a, b, c = base[n] + tri[t, 0], base[n] + tri[t, 1], base[n] + tri[t, 2]
                if len(of_rast):
                    for m in range(channels):
                        last, g = np.float64(attr[c, m]), of_values[n, i, j, m]
                        gu += g * (attr[a, m] - last)
                        gv += g * (attr[b, m] - last)
                if len(of_db):
                    for k in range(of_slopes.shape[3] // 2):
                        m = selected[k]
                        last = np.float64(attr[c, m])
                        p, q = attr[a, m] - last, attr[b, m] - last
                        gx, gy = of_slopes[n, i, j, 2 * k], of_slopes[n, i, j, 2 * k + 1]
                        ux, uy, vx, vy = ux + gx * p, uy + gy * p, vx + gx * q, vy + gy * q
            if len(of_rast):
                of_rast[n, i, j, 0] = gu
                of_rast[n, i, j, 1] = gv
                of_rast[n, i, j, 2] = 0.0
                of_rast[n, i, j, 3] = 0.0
            if len(of_db):
                of_db[n, i, j, 0] = ux
                of_db[n, i, j, 1] = uy
                of_db[n, i, j, 2] = vx
                of_db[n, i, j, 3] = vy


@kernel(**OPTIONS)
def corners_backward(
    attr, tri, base, rast, db, selected, of_values, of_slopes, corners, start, stop
):  # fmt: skip
    """What each pixel adds to the gradients of the attributes of its corners, one by one."""
    height, width = rast.shape[1:3]
    channels = attr.shape[1]
    for row in range(start, stop):
        n, i = row // height, row % height
        for j in range(width):
            if rast[n, i, j, 3] < 0.5:
                continue
            pixel = row * width + j
            u, v = np.float64(rast[n, i, j, 0]), np.float64(rast[n, i, j, 1])
            for m in range(channels):
                g = np.float64(of_values[n, i, j, m])
                corners[pixel, m] = u * g
                corners[pixel, channels + m] = v * g
                corners[pixel, 2 * channels + m] = (1.0 - u - v) * g
            for k in range(len(selected)):
                m = selected[k]
                gx, gy = of_slopes[n, i, j, 2 * k], of_slopes[n, i, j, 2 * k + 1]
                p = np.float64(db[n, i, j, 0]) * gx + np.float64(db[n, i, j, 1]) * gy
                q = np.float64(db[n, i, j, 2]) * gx + np.float64(db[n, i, j, 3]) * gy
                corners[pixel, m] += p
                corners[pixel, channels + m] += q
                corners[pixel, 2 * channels + m] -= p + q
