"""Sums over the pixels of each vertex, without atomics: every thread owns a range of vertices.

Each looks through all pixels of its images, which costs little, and adds what meets its own
vertices, in the order of the pixels.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gendr._common import memory
from gendr.kernels.numba.compilation import kernel
from gendr.kernels.threads import run
from gendr.primitives.kernels import OPTIONS

__all__ = ["gather"]

SMALL = 4096  # pixels that are not worth another thread


def gather(
    ids: Tensor, tri: Tensor, base: np.ndarray, rows: int, weights: Tensor, values: Tensor
) -> Tensor:
    """Sums [rows, A] in float64.

    Args:
        ids: [N, H, W], of triangles: int32, below 0 for none, or a `rast[..., 3]`, 0 for none.
        tri: [T, 3].
        base: [N], the row of the first vertex of each image.
        rows: of the sums.
        weights: [N H W, 2], barycentric coordinates u and v, by which corners get the same values;
            or [N H W, 0], if they get values of their own.
        values: [N H W, A], or [N H W, 3 A] without weights.
    """
    channels = values.shape[1] if weights.shape[1] else values.shape[1] // 3
    sums = memory.empty((rows, channels), torch.float64).zero_()
    first = int(ids.is_floating_point())
    run(
        gather_rows, rows, ids.numpy(), first, tri.numpy(), base, weights.numpy(), values.numpy(),
        sums.numpy(), pieces=1, alone=ids.numel() < SMALL,
    )  # fmt: skip
    return sums


@kernel(**OPTIONS)
def gather_rows(ids, first, tri, base, weights, values, sums, start, stop):
    """The sums of the vertices start .. stop - 1."""
    images, height, width = ids.shape
    channels, shared = sums.shape[1], weights.shape[1] > 0
    spread = 0  # rows of one image
    for n in range(images):
        spread = max(spread, base[n])
    spread = spread // (images - 1) if images > 1 and spread else len(sums)
    for n in range(images):
        if base[n] >= stop or base[n] + spread <= start:
            continue
        last = np.int64(-1)
        a, b, c = np.int64(-1), np.int64(-1), np.int64(-1)
        for i in range(height):
            for j in range(width):
                t = np.int64(ids[n, i, j]) - first
                if t < 0:
                    continue
                if t != last:
                    last = t
                    a, b, c = base[n] + tri[t, 0], base[n] + tri[t, 1], base[n] + tri[t, 2]
                    a = a if start <= a < stop else np.int64(-1)
                    b = b if start <= b < stop else np.int64(-1)
                    c = c if start <= c < stop else np.int64(-1)
                pixel = (n * height + i) * width + j
                if shared:
                    u, v = np.float64(weights[pixel, 0]), np.float64(weights[pixel, 1])
                    if a >= 0:
                        for m in range(channels):
                            sums[a, m] += u * values[pixel, m]
                    if b >= 0:
                        for m in range(channels):
                            sums[b, m] += v * values[pixel, m]
                    if c >= 0:
                        w = 1.0 - u - v
                        for m in range(channels):
                            sums[c, m] += w * values[pixel, m]
                else:
                    if a >= 0:
                        for m in range(channels):
                            sums[a, m] += values[pixel, m]
                    if b >= 0:
                        for m in range(channels):
                            sums[b, m] += values[pixel, channels + m]
                    if c >= 0:
                        for m in range(channels):
                            sums[c, m] += values[pixel, 2 * channels + m]
