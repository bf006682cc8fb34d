"""The compiled interpolation; a unit is a row of pixels, backwards a vertex.

No unit writes what belongs to another: the bits are the same on any number of threads.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gendr._common import memory
from gendr.kernels.numba.calls import keep_alive
from gendr.kernels.numba.calls import row as row_of
from gendr.kernels.numba.compilation import kernel
from gendr.kernels.threads import run

if TYPE_CHECKING:
    from gendr.primitives.scene import Faces


__all__ = ["backend", "backward", "forward"]

backend = "cpu"
strided = True  # the gradient of some channels of a picture is not copied

SMALL = 1 << 16  # numbers that are not worth another thread


def forward(
    faces: Faces, attr: Tensor, rast: Tensor, rast_db: Tensor | None, *, save: bool
) -> tuple[tuple[Tensor, Tensor], tuple[()]]:
    """The attributes [N, H, W, A] and their derivatives [N, H, W, 2 D]."""
    images, height, width = rast.shape[:3]
    values = memory.empty((images, height, width, attr.shape[-1]), rast.dtype)
    slopes = memory.empty((images, height, width, 2 * len(faces.selected)), rast.dtype)
    run(
        interpolate_rows, images * height, *_tables(faces, attr, rast, rast_db), _rows(values),
        _rows(slopes), alone=values.numel() + slopes.numel() < SMALL,
    )  # fmt: skip
    return (values, slopes), ()


def backward(
    faces: Faces, inputs: tuple[Tensor, Tensor, Tensor | None], saved: tuple[()],
    grads: tuple[Tensor | None, ...], wanted: tuple[bool, ...],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """The gradients of attr, rast and rast_db."""
    attr, rast, rast_db = inputs
    of_values, of_slopes = grads
    if rast_db is None:
        of_slopes = None
    if of_values is None:
        of_values = rast.new_zeros(*rast.shape[:3], attr.shape[-1])
    of_rast = memory.empty_like(rast).zero_() if wanted[1] else None
    of_db = memory.empty_like(rast).zero_() if wanted[2] and of_slopes is not None else None
    sums = memory.empty((attr.shape[:-1].numel(), attr.shape[-1]), torch.float64).zero_()
    if of_slopes is not None:
        of_slopes = of_slopes.contiguous()
    run(
        interpolate_backward, len(sums), *_tables(faces, attr, rast, rast_db), attr.shape[-2],
        *_flat(of_values), _rows(of_slopes), _rows(of_rast), _rows(of_db), sums.numpy(), pieces=1,
        alone=of_values.numel() < SMALL,
    )  # fmt: skip
    of_attr = sums.to(attr.dtype).reshape(attr.shape) if wanted[0] else None
    return of_attr, of_rast, of_db


def _rows(x: Tensor | None) -> np.ndarray | None:
    """What pixels have, [N H, W, ...]."""
    return None if x is None else x.flatten(0, 1).numpy()


def _flat(x: Tensor) -> tuple[np.ndarray, int]:
    """What pixels have, [N, H, W, A], in one row of numbers, and how many apart pixels lie there.

    There may be numbers of others between them.
    """
    _, height, width, channels = x.shape
    step = x.stride(2)
    if step < channels or x.stride() != (height * width * step, width * step, step, 1):
        x, step = x.contiguous(), channels
    size = x.shape[:3].numel() * step - (step - channels) if x.numel() else 0
    return x.as_strided((size,), (1,)).numpy(), step


def _tables(faces: Faces, attr: Tensor, rast: Tensor, rast_db: Tensor | None) -> tuple[Any, ...]:
    """What all kernels take first."""
    shared = attr.ndim == 2 or len(attr) == 1
    base = np.arange(len(rast)) * (0 if shared else attr.shape[-2])
    selected = np.array(faces.selected, np.int64)
    rows = attr.reshape(-1, attr.shape[-1]).numpy()
    return rows, faces.tri.numpy(), base, _rows(rast), _rows(rast_db), selected


@kernel()
def interpolate_rows(attr, tri, base, rast, db, selected, values, slopes, start, stop):
    """The attributes of rows of pixels, and their derivatives."""
    rows, width = rast.shape[:2]
    channels, count = attr.shape[1], len(selected)
    for row in range(start, stop):
        first, last = base[row * len(base) // rows], np.int64(-1)
        seen, found, sloped = row_of(rast, row), row_of(values, row), row_of(slopes, row)
        a = b = c = row_of(attr, 0)
        for j in range(width):
            t = np.int64(seen[4 * j + 3] + 0.5) - 1
            if t < 0:
                for m in range(channels):
                    found[channels * j + m] = 0.0
                for k in range(2 * count):
                    sloped[2 * count * j + k] = 0.0
                continue
            if t != last:
                last = t
                a, b = row_of(attr, first + tri[t, 0]), row_of(attr, first + tri[t, 1])
                c = row_of(attr, first + tri[t, 2])
            u, v = np.float64(seen[4 * j]), np.float64(seen[4 * j + 1])
            w = 1.0 - u - v
            for m in range(channels):
                found[channels * j + m] = u * a[m] + v * b[m] + w * c[m]
            if db is not None:
                d = row_of(db, row)
                for k in range(count):
                    m = selected[k]
                    p, q = np.float64(a[m]) - c[m], np.float64(b[m]) - c[m]
                    at = 2 * (count * j + k)
                    sloped[at] = d[4 * j] * p + d[4 * j + 2] * q
                    sloped[at + 1] = d[4 * j + 1] * p + d[4 * j + 3] * q


@kernel()
def interpolate_backward(
    attr, tri, base, rast, db, selected, vertices, of_values, step, of_slopes, of_rast, of_db,
    sums, start, stop,
):  # fmt: skip
    """The gradients of the vertices start .. stop - 1, and of pixels whose first corner is one.

    Pixels side by side that see the same triangle are summed up before they are added. Those of
    of_values are `step` numbers apart.
    """
    rows, width = rast.shape[:2]
    channels, count = attr.shape[1], len(selected)
    slopes = np.empty((2, channels))  # of an attribute with u and v
    parts = np.empty((channels, 3))  # of the sums, of the three corners
    p, q = row_of(slopes, 0), row_of(slopes, 1)
    for row in range(rows):
        n = row * len(base) // rows
        if base[n] >= stop or base[n] + vertices <= start:
            continue
        seen, given = row_of(rast, row), row_of(of_values, step * width * row)
        last, mine = np.int64(-1), False
        a = b = c = np.int64(-1)
        for j in range(width + 1):
            t = np.int64(seen[4 * j + 3] + 0.5) - 1 if j < width else np.int64(-1)
            if t != last:
                if mine:
                    for m in range(channels):
                        part = row_of(parts, m)
                        if start <= a < stop:
                            row_of(sums, a)[m] += part[0]
                        if start <= b < stop:
                            row_of(sums, b)[m] += part[1]
                        if start <= c < stop:
                            row_of(sums, c)[m] += part[2]
                last, mine = t, False
                if t >= 0:
                    a, b, c = base[n] + tri[t, 0], base[n] + tri[t, 1], base[n] + tri[t, 2]
                    mine = start <= a < stop or start <= b < stop or start <= c < stop
                if mine:
                    x, y, z = row_of(attr, a), row_of(attr, b), row_of(attr, c)
                    for m in range(channels):
                        p[m], q[m] = np.float64(x[m]) - z[m], np.float64(y[m]) - z[m]
                        parts[m] = 0.0
            if not mine:
                continue
            u, v = np.float64(seen[4 * j]), np.float64(seen[4 * j + 1])
            w, gu, gv = 1.0 - u - v, 0.0, 0.0
            for m in range(channels):
                g, part = np.float64(given[step * j + m]), row_of(parts, m)
                gu += g * p[m]
                gv += g * q[m]
                part[0] += u * g
                part[1] += v * g
                part[2] += w * g
            if of_rast is not None and start <= a < stop:
                of_uv = row_of(of_rast, row)
                of_uv[4 * j], of_uv[4 * j + 1] = gu, gv
            if of_slopes is None:
                continue
            of_ux, of_uy, of_vx, of_vy = 0.0, 0.0, 0.0, 0.0
            ux, uy = np.float64(db[row, j, 0]), np.float64(db[row, j, 1])
            vx, vy = np.float64(db[row, j, 2]), np.float64(db[row, j, 3])
            for k in range(count):
                m, gx, gy = selected[k], of_slopes[row, j, 2 * k], of_slopes[row, j, 2 * k + 1]
                of_ux, of_uy = of_ux + gx * p[m], of_uy + gy * p[m]
                of_vx, of_vy = of_vx + gx * q[m], of_vy + gy * q[m]
                of_a, of_b = ux * gx + uy * gy, vx * gx + vy * gy
                parts[m, 0] += of_a
                parts[m, 1] += of_b
                parts[m, 2] -= of_a + of_b
            if of_db is not None and start <= a < stop:
                of_db[row, j, 0], of_db[row, j, 1] = of_ux, of_uy
                of_db[row, j, 2], of_db[row, j, 3] = of_vx, of_vy
    keep_alive((slopes, parts))
