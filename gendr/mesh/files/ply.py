"""What trimesh lacks for PLY files: triangle strips, and positions in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def strip_faces(element: Any) -> Array:
    """The triangles of an element `tristrips` as trimesh has read it: [F, 3].

    Each row is a list of vertex indices, in which -1 starts another strip. Any three successive
    vertices of a strip are a triangle; every second one has the opposite orientation. Triangles
    with a repeated vertex only connect two places and are left out.
    """
    data = element["data"]
    if isinstance(data, dict):  # ASCII: a dict; several rows of equal length form a table
        lists = [np.asarray(row).reshape(-1) for row in next(iter(data.values()))]
    else:  # binary: one record per row, with the length before the indices
        lists = [row["f1"] for row in data[data.dtype.names[0]]]
    strip = np.concatenate([part for row in lists for part in (row.astype(np.int64), [-1])])
    place = np.arange(len(strip))
    begin = np.maximum.accumulate(np.where(strip < 0, place, -1))
    odd = (place - begin - 1)[:-2] % 2 == 1
    a, b, c = strip[:-2], strip[1:-1], strip[2:]
    faces = np.stack((np.where(odd, b, a), np.where(odd, a, b), c), 1)
    whole = (faces >= 0).all(1) & (a != b) & (b != c) & (c != a)
    return faces[whole]


def to_ply(
    vertices: Array, faces: Array, vertex_colors: Array | None, face_colors: Array | None
) -> bytes:
    """The content of a binary PLY file.

    Args:
        vertices: [V, 3], float32 or float64, kept as they are.
        faces: [F, 3], indices into them.
        vertex_colors: uint8 [V, 3] or None.
        face_colors: uint8 [F, 3] or None.
    """
    points: list[Any] = [("at", vertices.dtype.newbyteorder("<"), 3)]
    corners: list[Any] = [("count", "u1"), ("of", "<i4", 3)]
    number = "double" if vertices.dtype == np.float64 else "float"
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(vertices)}"]
    header += [f"property {number} {axis}" for axis in "xyz"]
    rgb, rgb_header = ("rgb", "u1", 3), [f"property uchar {c}" for c in ("red", "green", "blue")]
    if vertex_colors is not None:
        points.append(rgb)
        header += rgb_header
    header += [f"element face {len(faces)}", "property list uchar int vertex_indices"]
    if face_colors is not None:
        corners.append(rgb)
        header += rgb_header
    point, corner = np.empty(len(vertices), points), np.empty(len(faces), corners)
    point["at"] = vertices
    corner["count"], corner["of"] = 3, faces
    if vertex_colors is not None:
        point["rgb"] = vertex_colors
    if face_colors is not None:
        corner["rgb"] = face_colors
    text = "\n".join([*header, "end_header", ""])
    return text.encode("ascii") + point.tobytes() + corner.tobytes()
