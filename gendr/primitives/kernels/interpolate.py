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
from gendr.kernels.numba.calls import pointer
from gendr.kernels.numba.calls import row as row_of
from gendr.kernels.numba.compilation import kernel
from gendr.kernels.threads import run
from gendr.primitives.kernels.faces import mix, share

if TYPE_CHECKING:
    from gendr.primitives.scene import Faces


__all__ = ["backend", "backward", "forward"]

backend = "cpu"
strided = True  # the gradient of some channels of a picture is not copied

SMALL = 1 << 16  # numbers that are not worth another thread


def forward(
    faces: Faces, attr: Tensor, rast: Tensor, rast_db: Tensor | None, *, save: bool
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor]]:
    """The attributes [N, H, W, A] and their derivatives [N, H, W, 2 D].

    Those of vertices are saved, with room behind them: whole vectors reach beyond the last one.
    """
    rows = memory.empty((attr.numel() + 3,), attr.dtype)
    rows[: attr.numel()] = attr.reshape(-1)
    rows[attr.numel() :] = 0.0
    images, height, width = rast.shape[:3]
    values = memory.empty((images, height, width, attr.shape[-1]), rast.dtype)
    slopes = memory.empty((images, height, width, 2 * len(faces.selected)), rast.dtype)
    run(
        interpolate_rows, images * height, *_tables(faces, attr, rows, rast, rast_db),
        _rows(values), _rows(slopes), alone=values.numel() + slopes.numel() < SMALL,
    )  # fmt: skip
    return (values, slopes), (rows,)


def backward(
    faces: Faces, inputs: tuple[Tensor, Tensor, Tensor | None], saved: tuple[Tensor],
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
    # Rows of whole vectors, and one for vertices of other threads.
    vertices, channels = attr.shape[:-1].numel(), attr.shape[-1]
    sums = memory.empty((vertices + 1, -(-channels // 4) * 4), torch.float64).zero_()
    if of_slopes is not None:
        of_slopes = of_slopes.contiguous()
    run(
        interpolate_backward, vertices, *_tables(faces, attr, saved[0].contiguous(), rast, rast_db),
        attr.shape[-2], *_flat(of_values), _rows(of_slopes), _rows(of_rast), _rows(of_db),
        sums.numpy(), pieces=1, alone=of_values.numel() < SMALL,
    )  # fmt: skip
    of_attr = sums[:-1, :channels].to(attr.dtype).reshape(attr.shape) if wanted[0] else None
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


def _tables(
    faces: Faces, attr: Tensor, rows: Tensor, rast: Tensor, rast_db: Tensor | None
) -> tuple[Any, ...]:
    """What all kernels take first."""
    shared = attr.ndim == 2 or len(attr) == 1
    base = np.arange(len(rast)) * (0 if shared else attr.shape[-2])
    selected = np.array(faces.selected, np.int64)
    return (
        rows.numpy(),
        attr.shape[-1],
        faces.tri.numpy(),
        base,
        _rows(rast),
        _rows(rast_db),
        selected,
    )


@kernel()
def interpolate_rows(attr, channels, tri, base, rast, db, selected, values, slopes, start, stop):
    """The attributes of rows of pixels, and their derivatives."""
    rows, width = rast.shape[:2]
    count, rest = len(selected), np.empty(4, values.dtype)
    for row in range(start, stop):
        first = base[row * len(base) // rows]
        seen, found, sloped = row_of(rast, row), row_of(values, row), row_of(slopes, row)
        for j in range(width):
            t, at = np.int64(seen[4 * j + 3] + 0.5) - 1, channels * j
            if t < 0:
                for m in range(channels):
                    found[at + m] = 0.0
                for k in range(2 * count):
                    sloped[2 * count * j + k] = 0.0
                continue
            a, b = channels * (first + tri[t, 0]), channels * (first + tri[t, 1])
            c = channels * (first + tri[t, 2])
            u, v = np.float64(seen[4 * j]), np.float64(seen[4 * j + 1])
            w = 1.0 - u - v
            for m in range(0, channels, 4):
                # What is written beyond these channels, the next pixels write after it.
                if at + m + 4 <= channels * width:
                    mix(attr, a + m, b + m, c + m, u, v, w, found, at + m)
                    continue
                mix(attr, a + m, b + m, c + m, u, v, w, rest, 0)
                for k in range(min(4, channels - m)):
                    found[at + m + k] = rest[k]
            if db is not None:
                d = row_of(db, row)
                for k in range(count):
                    m = selected[k]
                    p, q = np.float64(attr[a + m]), np.float64(attr[b + m])
                    p, q = p - attr[c + m], q - attr[c + m]
                    to = 2 * (count * j + k)
                    sloped[to] = d[4 * j] * p + d[4 * j + 2] * q
                    sloped[to + 1] = d[4 * j + 1] * p + d[4 * j + 3] * q


@kernel()
def interpolate_backward(
    attr, channels, tri, base, rast, db, selected, vertices, of_values, step, of_slopes, of_rast,
    of_db, sums, start, stop,
):  # fmt: skip
    """The gradients of the vertices start .. stop - 1, and of pixels whose first corner is one.

    Gradients of_values are `step` numbers apart. The last row of sums counts for nothing.
    """
    rows, width = rast.shape[:2]
    count, wide, given, to = len(selected), sums.shape[1], pointer(of_values), pointer(sums)
    elsewhere = wide * (len(sums) - 1)
    for row in range(rows):
        n, seen = row * len(base) // rows, row_of(rast, row)
        if base[n] >= stop or base[n] + vertices <= start:
            continue
        for j in range(width):
            t = np.int64(seen[4 * j + 3] + 0.5) - 1
            if t < 0:
                continue
            a, b, c = base[n] + tri[t, 0], base[n] + tri[t, 1], base[n] + tri[t, 2]
            to_a = wide * a if start <= a < stop else elsewhere
            to_b = wide * b if start <= b < stop else elsewhere
            to_c = wide * c if start <= c < stop else elsewhere
            if to_a == elsewhere and to_b == elsewhere and to_c == elsewhere:
                continue
            a, b, c = channels * a, channels * b, channels * c
            u, v = np.float64(seen[4 * j]), np.float64(seen[4 * j + 1])
            w, gu, gv = 1.0 - u - v, 0.0, 0.0
            at = step * (width * row + j)
            for m in range(0, channels, 4):
                more = share(
                    given, at + m, channels - m, attr, a + m, b + m, c + m, u, v, w, to, to_a + m,
                    to_b + m, to_c + m,
                )  # fmt: skip
                gu, gv = gu + more[0], gv + more[1]
            if of_rast is not None and to_a != elsewhere:
                of_uv = row_of(of_rast, row)
                of_uv[4 * j], of_uv[4 * j + 1] = gu, gv
            if of_slopes is None:
                continue
            of_ux, of_uy, of_vx, of_vy = 0.0, 0.0, 0.0, 0.0
            ux, uy = np.float64(db[row, j, 0]), np.float64(db[row, j, 1])
            vx, vy = np.float64(db[row, j, 2]), np.float64(db[row, j, 3])
            for k in range(count):
                m, gx, gy = selected[k], of_slopes[row, j, 2 * k], of_slopes[row, j, 2 * k + 1]
                p, q = np.float64(attr[a + m]), np.float64(attr[b + m])
                p, q = p - attr[c + m], q - attr[c + m]
                of_ux, of_uy = of_ux + gx * p, of_uy + gy * p
                of_vx, of_vy = of_vx + gx * q, of_vy + gy * q
                of_a, of_b = ux * gx + uy * gy, vx * gx + vy * gy
                to[to_a + m] += of_a
                to[to_b + m] += of_b
                to[to_c + m] -= of_a + of_b
            if of_db is not None and to_a != elsewhere:
                of_db[row, j, 0], of_db[row, j, 1] = of_ux, of_uy
                of_db[row, j, 2], of_db[row, j, 3] = of_vx, of_vy
