"""The compiled kernel of what a camera sees of triangles, hard: the renderer defines it."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

from typing import Any

import numpy as np

from gendr._runtime.numba.compilation import announce_compilation, ensure_cache, kernel

ensure_cache()
announce_compilation(__name__)

_OPTIONS: Any = {"error_model": "numpy"}


@kernel(**_OPTIONS)
def draw(places, flat, near, far, shown, weights, depths, start, stop):
    """Fill in face, weights of its corners and depth of each pixel, in rows start .. stop - 1.

    places: float64 [F, 3, 3], column and row of each corner, centres of pixels at integers, and its
    depth, which is > 0 unless `flat`, for orthographic cameras.
    shown: int32 [H, W], -1 for none. weights: [H, W, 3]. depths: [H, W], inf for none.
    """
    width = shown.shape[1]
    for f in range(len(places)):
        x0, y0, z0 = places[f, 0, 0], places[f, 0, 1], places[f, 0, 2]
        x1, y1, z1 = places[f, 1, 0], places[f, 1, 1], places[f, 1, 2]
        x2, y2, z2 = places[f, 2, 0], places[f, 2, 1], places[f, 2, 2]
        area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
        if area == 0 or not np.isfinite(area):
            continue
        first = max(start, int(np.ceil(max(min(y0, y1, y2), -1.0))))
        last = min(stop - 1, int(np.floor(min(max(y0, y1, y2), float(stop)))))
        left = max(0, int(np.ceil(max(min(x0, x1, x2), -1.0))))
        right = min(width - 1, int(np.floor(min(max(x0, x1, x2), float(width)))))
        for row in range(first, last + 1):
            for column in range(left, right + 1):
                a = ((x1 - column) * (y2 - row) - (x2 - column) * (y1 - row)) / area
                b = ((x2 - column) * (y0 - row) - (x0 - column) * (y2 - row)) / area
                c = ((x0 - column) * (y1 - row) - (x1 - column) * (y0 - row)) / area
                if a < 0 or b < 0 or c < 0:
                    continue
                if flat:
                    depth = a * z0 + b * z1 + c * z2
                else:
                    a, b, c = a / z0, b / z1, c / z2
                    depth = 1 / (a + b + c)
                    a, b, c = a * depth, b * depth, c * depth
                if depth < depths[row, column] and near <= depth <= far:
                    shown[row, column] = f
                    depths[row, column] = depth
                    weights[row, column, 0] = a
                    weights[row, column, 1] = b
                    weights[row, column, 2] = c
