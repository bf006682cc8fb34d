"""What trimesh lacks for PLY files: triangle strips, and positions in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gendr.mesh.files.textures import to_bytes
from gendr.mesh.parts import MeshParts

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


def ply_bytes(parts: MeshParts) -> bytes:
    """The content of a binary PLY file; float64 if the vertices are, or have an origin."""
    vertices = (parts.world_vertices() if parts.has_origin else parts.vertices).numpy()
    number = "double" if vertices.dtype == np.float64 else "float"
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(vertices)}"]
    header += [f"property {number} {axis}" for axis in "xyz"]
    point = [
        _raw(vertices, "<f8" if number == "double" else "<f4"),
        *_rgb(parts.vertex_colors, header),
    ]
    header += [f"element face {len(parts.faces)}", "property list uchar int vertex_indices"]
    three = np.full((len(parts.faces), 1), 3, np.uint8)
    corner = [three, _raw(parts.faces.numpy(), "<i4"), *_rgb(parts.face_colors, header)]
    text = "\n".join([*header, "end_header", ""]).encode("ascii")
    return text + np.hstack(point).tobytes() + np.hstack(corner).tobytes()


def _raw(values: Array, form: str) -> Array:
    """The bytes of each row of a table."""
    return np.ascontiguousarray(values, form).view(np.uint8).reshape(len(values), -1)


def _rgb(colors: Tensor | None, header: list[str]) -> list[Array]:
    """The bytes of colours, if there are any, whose properties are added to a header."""
    if colors is None:
        return []
    header += [f"property uchar {channel}" for channel in ("red", "green", "blue")]
    return [to_bytes(colors)]
