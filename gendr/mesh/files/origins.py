"""The choice of an origin for meshes that are far from 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]

# The spacing of float32 numbers at a mesh, divided by its longest side, from which on its shape
# suffers. At half of this, a vertex is off by a twentieth of a pixel in an image of 1000 pixels.
_COARSEST = 1e-4


def origin_of(points: Array, dtype: torch.dtype, coarsest: float = _COARSEST) -> Array:
    """The origin from which the coordinates of a mesh should count: float64 [3], 0 if not needed.

    Args:
        points: [N, 3], all corners of its faces.
        dtype: The dtype that the mesh will have. For float64 no origin is needed.
        coarsest: The spacing of numbers, in parts of the extent, from which on one is needed.

    On every axis where the spacing of float32 is too coarse for the mesh, the origin moves to the
    middle of the mesh. It is made of integers, or of binary fractions if the mesh is smaller than
    1, so that it is exact and stays the same when a mesh is saved and loaded again.
    """
    if dtype != torch.float32 or len(points) == 0 or not np.isfinite(points).all():
        return np.zeros(3)
    low, high = points.min(0), points.max(0)
    extent = (high - low).max()
    if not extent > 0:
        return np.zeros(3)
    unit = min(1.0, 2.0 ** np.floor(np.log2(extent)))
    spacing = np.finfo(np.float32).eps * np.maximum(np.abs(low), np.abs(high))
    middle = np.round((low + high) / 2 / unit) * unit
    return np.where(spacing > coarsest * extent, middle, 0.0)
