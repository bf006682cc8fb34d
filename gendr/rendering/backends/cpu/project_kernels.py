"""The compiled kernels of projection: where faces are on screens, and which pixels they may meet.

A camera is a matrix whose rows give X, Y, W and the depth of a point (x, y, z, 1), which is seen at
(X / W, Y / W). What comes after vertices and cameras is float64 until it is stored.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false, reportIndexIssue=false, reportCallIssue=false

from __future__ import annotations

import math

import numpy as np

from gendr.kernels.numba.compilation import inner, kernel
from gendr.rendering.backends.cpu.kernels import RADIUS


@inner(forceinline=True)
def _row(camera, k, vertices, v):
    """A row of a camera times a vertex."""
    return (
        camera[k, 0] * np.float64(vertices[v, 0]) + camera[k, 1] * np.float64(vertices[v, 1])
        + camera[k, 2] * np.float64(vertices[v, 2]) + np.float64(camera[k, 3])
    )  # fmt: skip


@kernel()
def place(vertices, cameras, faces, corners, ends, start, stop):
    """Where the cameras start .. stop - 1 see the corners of faces.

    Args:
        vertices: [V, 3].
        cameras: [B, 4, 4].
        faces: int64 [F, 3].
        corners: [B F, 3, 2], is written.
        ends: float64 [B, 3], is written: the least depth, the largest one, and the largest
            coordinate of a point; NaN where there is one.
        start: a camera.
        stop: one past the last.
    """
    points, count = np.empty((len(vertices), 2), corners.dtype), len(faces)
    for b in range(start, stop):
        camera, low, high, far = cameras[b], math.inf, -math.inf, 0.0
        for v in range(len(vertices)):
            w = _row(camera, 2, vertices, v)
            # The bits of `Camera.world_to_camera`: planes that are found lie where others see them.
            depth = camera[3, 0] * vertices[v, 0] + camera[3, 1] * vertices[v, 1]
            depth = depth + camera[3, 2] * vertices[v, 2] + camera[3, 3]
            x, y = _row(camera, 0, vertices, v) / w, _row(camera, 1, vertices, v) / w
            points[v, 0], points[v, 1] = x, y
            low, high = min(low, np.float64(depth)), max(high, np.float64(depth))
            most = max(abs(x), abs(y))
            far = most if most > far or most != most else far
            if depth != depth:
                far = math.nan
        ends[b, 0], ends[b, 1], ends[b, 2] = low, high, far
        for f in range(count):
            for k in range(3):
                v = faces[f, k]
                corners[b * count + f, k, 0] = points[v, 0]
                corners[b * count + f, k, 1] = points[v, 1]


@inner(forceinline=True)
def _within(value, limit):
    """A number within a limit; NaN stays."""
    if value > limit:
        return limit
    return -limit if value < -limit else value


@inner(forceinline=True)
def _point_gradients(faces, grads, first, limit, found):
    """Fill in `found` [V, 2], the gradients of points in an image: its corners begin at `first`."""
    found[:] = 0.0
    for f in range(len(faces)):
        for k in range(3):
            v, c = faces[f, k], first + 3 * f + k
            found[v, 0] += _within(np.float64(grads[c, 0]), limit)
            found[v, 1] += _within(np.float64(grads[c, 1]), limit)


@inner(forceinline=True)
def _vertex_backward(camera, vertices, v, points, limit):
    """The gradient of the X, Y and W of a vertex, by that of the point where it is seen."""
    x, y = _within(points[v, 0], limit), _within(points[v, 1], limit)
    w = 1.0 / _row(camera, 2, vertices, v)
    along = x * _row(camera, 0, vertices, v) + y * _row(camera, 1, vertices, v)
    return x * w, y * w, -along * w * w


@kernel()
def move_vertices(vertices, cameras, grads, faces, limit, out, start, stop):
    """The gradients `out[g]` [V, 3] of vertices, by the parts start .. stop - 1 of the cameras.

    The parts do not depend on threads, so neither does their sum.

    Args:
        vertices: [V, 3].
        cameras: [B, 4, 4].
        grads: [B F 3, 2], of the corners.
        faces: int64 [F, 3].
        limit: of the gradients of points.
        out: float64 [G, V, 3], is 0 before.
        start: a part.
        stop: one past the last.
    """
    points = np.empty((len(vertices), 2))
    for g in range(start, stop):
        for b in range(g * len(cameras) // len(out), (g + 1) * len(cameras) // len(out)):
            camera = cameras[b]
            _point_gradients(faces, grads, 3 * b * len(faces), limit, points)
            for v in range(len(vertices)):
                p, q, r = _vertex_backward(camera, vertices, v, points, limit)
                for n in range(3):
                    out[g, v, n] += camera[0, n] * p + camera[1, n] * q + camera[2, n] * r


@kernel()
def move_cameras(vertices, cameras, grads, faces, limit, out, start, stop):
    """The gradients `out` [B, 4, 4] of cameras start .. stop - 1; as `move_vertices`."""
    points = np.empty((len(vertices), 2))
    for b in range(start, stop):
        _point_gradients(faces, grads, 3 * b * len(faces), limit, points)
        for v in range(len(vertices)):
            pulls = _vertex_backward(cameras[b], vertices, v, points, limit)
            for k in range(3):
                for n in range(3):
                    out[b, k, n] += pulls[k] * vertices[v, n]
                out[b, k, 3] += pulls[k]


@kernel()
def face_boxes(corners, image_of_face, images, height, width, boxes, start, stop):
    """Pixel boxes [x0, x1) x [y0, y1) that hold all pixel centres within the radius of a face."""
    side = float(min(height, width))
    for f in range(start, stop):
        radius = images[image_of_face[f], RADIUS]
        x_low, x_high, y_low, y_high = np.inf, -np.inf, np.inf, -np.inf
        for k in range(corners.shape[1]):
            x_low, x_high = min(x_low, corners[f, k, 0]), max(x_high, corners[f, k, 0])
            y_low, y_high = min(y_low, corners[f, k, 1]), max(y_high, corners[f, k, 1])
        # The centre of pixel j is at (2j + 1 - width) / side; the 1e-9 covers rounding.
        slack = radius + 1e-9 * (1.0 + abs(x_low) + abs(x_high) + abs(y_low) + abs(y_high))
        x_first = np.ceil(((x_low - slack) * side + width - 1.0) * 0.5) if slack < 1e18 else 0.0
        x_last = np.floor(((x_high + slack) * side + width - 1.0) * 0.5)
        y_first = np.ceil((height - 1.0 - (y_high + slack) * side) * 0.5) if slack < 1e18 else 0.0
        y_last = np.floor((height - 1.0 - (y_low - slack) * side) * 0.5)
        boxes[f, 0] = int(min(max(x_first, 0.0), float(width)))
        boxes[f, 1] = int(min(max(x_last + 1.0, 0.0), float(width)))
        boxes[f, 2] = int(min(max(y_first, 0.0), float(height)))
        boxes[f, 3] = int(min(max(y_last + 1.0, 0.0), float(height)))
