"""Where the coordinates of a mesh far out had better count from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]

# The distance between two neighbouring float32 numbers at a mesh, over its longest side, from which
# on its shape suffers. At half of it, a vertex is off by a twentieth of a pixel in 1000.
_COARSEST = 1e-4


def origin_of(points: Array, dtype: torch.dtype) -> Array:
    """Where the coordinates of a mesh had better count from: float64 [3], 0 if they are fine.

    Args:
        points: [N, 3], all corners of its faces.
        dtype: That is to hold them. For float64 all coordinates are fine.

    An axis is moved to the middle of the mesh if there the spacing of float32 is coarse for it. The
    origin is of whole numbers, or of binary fractions for a mesh smaller than 1, so that it is
    exact and that of a mesh saved and loaded again is the same.
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
    return np.where(spacing > _COARSEST * extent, middle, 0.0)
