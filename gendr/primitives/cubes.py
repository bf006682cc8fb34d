"""The faces of a cube map: OpenGL's order +x, -x, +y, -y, +z, -z, and how they are turned.

Source: the OpenGL 4.6 specification, table 8.19 (selection of cube map images).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["AXES", "SEAMS", "SIGNS"]

# Of each face the axes of s, of t and of the face itself, and their signs.
AXES: NDArray[np.int64] = np.array(
    [[2, 1, 0], [2, 1, 0], [0, 2, 1], [0, 2, 1], [0, 1, 2], [0, 1, 2]]
)
SIGNS: NDArray[np.float64] = np.array(
    [[-1, -1, 1], [1, -1, -1], [1, 1, 1], [1, -1, -1], [1, -1, 1], [-1, -1, -1]], np.float64
)


def _seams() -> NDArray[np.int64]:
    """[6, 4, 4], what lies beyond the sides s = 0, s = 1, t = 0, t = 1 of each face.

    It is the other face, whether its side is one of s (0) or of t (1), which end of it (0 or 1),
    and whether texels along the side count the other way.
    """
    seams = np.zeros((6, 4, 4), np.int64)
    for face in range(6):
        for side in range(4):
            along, end = 1 - side // 2, 2 * (side % 2) - 1
            # A step over the side: the axis across it becomes that of the other face.
            at = np.zeros(3)
            at[AXES[face, side // 2]] = SIGNS[face, side // 2] * end
            (other,) = (f for f in range(6) if at[AXES[f, 2]] == SIGNS[f, 2])
            inward, tangent = np.zeros(3), np.zeros(3)
            inward[AXES[face, 2]] = SIGNS[face, 2]
            tangent[AXES[face, along]] = SIGNS[face, along]
            for k in range(2):
                if edge := inward[AXES[other, k]] * SIGNS[other, k]:
                    flipped = tangent[AXES[other, 1 - k]] * SIGNS[other, 1 - k] < 0
                    seams[face, side] = other, k, edge > 0, flipped
    return seams


SEAMS = _seams()
