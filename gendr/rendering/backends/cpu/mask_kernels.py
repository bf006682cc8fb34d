"""The compiled kernel of hard masks: from one mesh and cameras to pixels, with nothing between."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false, reportIndexIssue=false, reportCallIssue=false

from __future__ import annotations

import numpy as np

from gendr.kernels.numba.compilation import kernel
from gendr.kernels.numba.vectors import LANES
from gendr.primitives.kernels.raster import cover


@kernel()
def masks(vertices, rotation, translation, focal, principal, parallel, faces, shown, start, stop):
    """Where the cameras start .. stop - 1 see a face.

    Points have the bits of `Camera.clip_coordinates`, so that masks are those of other ways.

    Args:
        vertices: [V, 3], all between the planes.
        rotation: [B, 3, 3]; and so on, see `Camera`.
        translation: [B, 3].
        focal: [B, 2].
        principal: [B, 2].
        parallel: whether cameras are orthographic.
        faces: int64 [F, 3].
        shown: bool [B, H, W], is written.
        start: a camera.
        stop: one past the last.
    """
    height, width = shown.shape[1:]
    side = min(height, width)
    pos, places = np.zeros((len(vertices), 4)), np.empty((len(vertices), 2))
    point, image = np.ones(4, vertices.dtype), np.empty(height * width + LANES, np.uint8)
    for b in range(start, stop):
        for v in range(len(vertices)):
            for k in range(3):
                along = rotation[b, k, 0] * vertices[v, 0] + rotation[b, k, 1] * vertices[v, 1]
                point[k] = along + rotation[b, k, 2] * vertices[v, 2] + translation[b, k]
            w = point[3] if parallel else point[2]
            x = focal[b, 0] * point[0] + principal[b, 0] * w
            y = focal[b, 1] * point[1] + principal[b, 1] * w
            pos[v, 0], pos[v, 1], pos[v, 3] = x * (side / width), y * (side / height), w
        image[:] = 0
        cover(pos, faces, places, height, width, image)
        for i in range(height):
            for j in range(width):
                shown[b, i, j] = image[i * width + j] != 0
