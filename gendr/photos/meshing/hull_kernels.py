"""The compiled kernel of visual hulls: how far points are inside of the cones of masks."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false

from __future__ import annotations

import math

import numpy as np

from gendr.kernels.numba.compilation import announce_compilation, ensure_cache, kernel

ensure_cache()
announce_compilation(__name__)


@kernel(error_model="numpy")
def least_distances(points, cameras, orthographic, images, unit, least, start, stop):
    """The least distance of each point over the views, world units; those behind do not count.

    Args:
        points: float64 [P, 3].
        cameras: float64 [B, 16], the rotation row by row, translation, focal lengths, and the
            principal point, in NDC.
        orthographic: of the cameras.
        images: float32 [B, H + 2, W + 2], distances in pixels, with a border.
        unit: NDC units of a pixel.
        least: float32 [P], is written.
        start: of the points.
        stop: of the points.
    """
    views, rows, columns = images.shape
    for p in range(start, stop):
        x, y, z = points[p, 0], points[p, 1], points[p, 2]
        nearest = np.float32(math.inf)
        for b in range(views):
            c = cameras[b]
            depth = c[6] * x + c[7] * y + c[8] * z + c[11]
            if not depth > 0.0:
                continue
            w = 1.0 if orthographic else depth
            u = c[12] * (c[0] * x + c[1] * y + c[2] * z + c[9]) / w + c[14]
            v = c[13] * (c[3] * x + c[4] * y + c[5] * z + c[10]) / w + c[15]
            # In pixels of the image; beyond the border as there.
            i = min(max((rows - 1.0) / 2 - v / unit, 0.0), rows - 1.0)
            j = min(max((columns - 1.0) / 2 + u / unit, 0.0), columns - 1.0)
            top, left = min(int(i), rows - 2), min(int(j), columns - 2)
            i, j = i - top, j - left
            above = (1.0 - j) * images[b, top, left] + j * images[b, top, left + 1]
            below = (1.0 - j) * images[b, top + 1, left] + j * images[b, top + 1, left + 1]
            pixels = (1.0 - i) * above + i * below
            nearest = min(nearest, np.float32(pixels * unit * w * 2.0 / (c[12] + c[13])))
        least[p] = nearest
