"""Texture coordinates for a mesh that has none: charts in an atlas.

1. A chart grows over neighbouring faces as long as they look towards its direction, the mean normal
   around its first face, and as the parallel projection along that shows no place twice.
2. Charts are laid down by their outlines, the tallest first, each where it comes to lie lowest, as
   in the game of falling blocks (Lévy et al., Least Squares Conformal Maps, 2002, section 4).

No chart is mirrored or stretched, as those of xatlas 0.0.11 may be (docs/neighbours.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gendr._common.checks import check_count
from gendr.mesh.mesh import Mesh

__all__ = ["unwrapped"]

Array = NDArray[Any]

# Texels between two charts, so that a bilinear lookup in one does not reach the other; one for each
# so many of a side, at most.
_PADDING, _SIDE = 3, 64
# The smallest cosine between the normal of a face and the direction of its chart.
_LEAST = 0.6
# How full the atlas is at first tried to be, and how often it is tried with smaller charts.
_FILL, _TRIES = 0.75, 100
# Cells along the diagonal of the mesh, at most.
_MOST_CELLS = 8000


def unwrapped(mesh: Mesh, size: int = 1024) -> Mesh:
    """The same mesh with UVs that cover the surface once: charts packed in a square atlas.

    Vertices and faces stay as they are, also at the seams, where corners of one vertex have
    different UVs. A texture that the mesh had is dropped, since it fits its old UVs only. Lengths
    in the atlas are those of the surface, or shorter, by 0.6 at least.

    Args:
        mesh: One mesh with faces.
        size: Side of the square texture that it is for, in texels: charts keep some apart.

    Raises:
        TypeError: If the mesh is none.
        ValueError: For a batch, a mesh without faces or extent, or a texture that is too small for
            the number of charts.
    """
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a gendr.Mesh, got {type(mesh).__name__}")
    check_count("size", size, least=16)
    if len(mesh) != 1 or len(mesh.faces) == 0:
        raise ValueError(f"an atlas is of one mesh with faces, got {mesh!r}")
    vertices = mesh.vertices.detach().double().cpu().numpy()
    vertices = vertices - (vertices.min(0) + vertices.max(0)) / 2
    if not float(np.abs(vertices).max()) > 0:
        raise ValueError("the mesh has no extent, all its vertices coincide")
    faces = mesh.faces.cpu().numpy()
    area = float(mesh.face_areas.detach().double().sum())
    reach = float(np.linalg.norm(vertices, axis=1).max())
    # Thin bodies of great length have few texels.
    texel = max(np.sqrt(area / _FILL) / size, 2 * reach / _MOST_CELLS)
    charts, flat, count = _charts(vertices / texel, faces)
    for _ in range(_TRIES):
        places, fits = _packed(flat, charts, count, size)
        if fits >= 1:
            # A vertex has one place in each chart that it belongs to.
            key = (charts[:, None] * len(vertices) + faces).ravel()
            _, first, corner = np.unique(key, return_index=True, return_inverse=True)
            uvs = places.reshape(-1, 2)[first] / size
            return mesh.with_texture(None).with_uvs(
                torch.from_numpy(uvs).to(mesh.device, mesh.dtype),
                torch.from_numpy(corner.reshape(-1, 3)).to(mesh.device),
            )
        flat = flat * min(0.98, fits)
    raise ValueError(f"{count} charts do not fit into {size} x {size} texels; take a larger size")


def _charts(vertices: Array, faces: Array) -> tuple[Array, Array, int]:
    """The chart of each face, and its corners there [F, 3, 2], in cells of the vertices' unit."""
    from gendr.photos.meshing import unwrapping_kernels as kernels

    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(normals, axis=1)
    normals = np.where(areas[:, None] > 0, normals, [0.0, 0.0, 1.0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    neighbours = _neighbours(faces)
    # Charts start where the surface is even.
    around = normals[neighbours] * (neighbours >= 0)[..., None]
    even = (around.sum(1) * normals).sum(1)
    order = np.argsort(-even, kind="stable")
    charts = np.full(len(faces), -1)
    flat = np.zeros((len(faces), 3, 2))
    side = int(2 * np.linalg.norm(vertices, axis=1).max()) + 4
    count = kernels.grow(
        vertices, faces, neighbours, normals, order, _LEAST, charts, flat,
        np.full((side, side), -1, np.int32), np.empty(3 * len(faces) + 1, np.int64),
    )  # fmt: skip
    return charts, flat, count


def _neighbours(faces: Array) -> Array:
    """The face on the other side of each edge, int [F, 3]; -1 unless there is just one."""
    one, two = faces, np.roll(faces, -1, 1)
    key = (np.minimum(one, two) * (faces.max() + 1) + np.maximum(one, two)).ravel()
    order = np.argsort(key, kind="stable")
    same = key[order[1:]] == key[order[:-1]]
    found = np.full(faces.size, -1)
    alone = same & ~np.append(same[1:], False) & ~np.append(False, same[:-1])
    first, second = order[:-1][alone], order[1:][alone]
    found[first], found[second] = second // 3, first // 3
    return found.reshape(-1, 3)


def _packed(flat: Array, charts: Array, count: int, size: int) -> tuple[Array, float]:
    """Corners [F, 3, 2] in an atlas, in texels, and by what factor they fit, if less than 1."""
    from gendr.photos.meshing import unwrapping_kernels as kernels

    low, high = np.full((count, 2), np.inf), np.full((count, 2), -np.inf)
    for k in range(3):
        np.minimum.at(low, charts, flat[:, k])
        np.maximum.at(high, charts, flat[:, k])
    extent = high - low
    pad = min(_PADDING, max(1, size // _SIDE))
    widest = (size - 2 * pad - 1) / float(extent.max())
    if widest < 1:
        return flat, widest
    # Each lies on its longer side.
    turned = extent[:, 1] > extent[:, 0]
    own = flat - low[charts][:, None]
    own = np.where(
        turned[charts][:, None, None],
        np.stack([own[..., 1], extent[charts][:, None, 0] - own[..., 0]], -1), own,
    )  # fmt: skip
    extent = np.where(turned[:, None], extent[:, ::-1], extent)
    rows = np.argsort(charts, kind="stable")
    bounds = np.searchsorted(charts[rows], np.arange(count + 1))
    horizon = np.full(size, pad)
    moved = np.zeros((count, 2))
    for chart in np.lexsort((-extent[:, 0], -np.ceil(extent[:, 1]))):
        width = int(extent[chart, 0]) + 1
        bottom, top = np.full(width, 1 << 30), np.full(width, -1)
        kernels.outline(own, rows[bounds[chart] : bounds[chart + 1]], bottom, top)
        moved[chart] = kernels.place(horizon, bottom, top, pad)
    return own + moved[charts][:, None], float(np.sqrt(size / horizon.max()))
