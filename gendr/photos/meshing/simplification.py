"""Fewer faces: by quadrics, and by cells of a grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr._common.vectors import summed
from gendr.mesh.mesh import Mesh
from gendr.photos.meshing.libigl import libigl
from gendr.photos.meshing.remeshing import Tables

__all__ = ["clustered", "simplified"]


def simplified(mesh: Mesh, faces: int) -> Mesh:
    """A mesh of at most so many faces, by collapsing edges where quadrics say it matters least.

    A manifold stays one, and keeps its genus; what is closed by kernels of our own, in a fifth of
    the time that libigl takes for what is open. A mesh that is no manifold is `clustered`, and one
    that has few enough faces is returned unchanged.

    Args:
        mesh: one mesh without colours.
        faces: >= 8.

    Raises:
        ValueError: see `clustered`.

    Source: Garland and Heckbert, Surface Simplification Using Quadric Error Metrics, 1997.
    """
    if len(mesh.faces) <= faces:
        return mesh
    vertices = mesh.vertices.detach().double().cpu().numpy()
    middle = vertices.mean(0)  # quadrics lose digits far from the origin
    tables = Tables(vertices - middle, mesh.faces.cpu().numpy())
    if tables.simplify(faces):
        return _like(mesh, *tables.result(), middle)
    igl = libigl()
    triangles = np.asfortranarray(mesh.faces.cpu().numpy(), dtype=np.int32)
    # Each edge has one face or two of opposite directions, each vertex one fan of faces.
    fans = igl.is_vertex_manifold(triangles)[np.unique(triangles)]
    if not igl.is_edge_manifold(triangles)[0] or not fans.all():
        return clustered(mesh, faces)
    reduced = igl.qslim(np.asfortranarray(vertices - middle), triangles, faces)
    return _like(mesh, reduced[0], reduced[1], middle)


def _like(mesh: Mesh, vertices: NDArray[Any], faces: NDArray[Any], middle: NDArray[Any]) -> Mesh:
    """A mesh of such dtypes."""
    return Mesh(
        torch.from_numpy(np.ascontiguousarray(vertices + middle)).to(mesh.vertices),
        torch.from_numpy(np.ascontiguousarray(faces)).to(mesh.faces),
    )


def clustered(mesh: Mesh, faces: int) -> Mesh:
    """A mesh with at most `faces` faces that looks from afar like the one given.

    Vertices in the same cell of a grid are replaced by their mean. Faces that lose a corner are
    removed, and so are all but the first of faces that become equal. The grid has cubic cells, as
    small as leaves few enough faces. A mesh that has few enough faces is returned unchanged.

    Args:
        mesh: One mesh without colours.
        faces: >= 8.

    Raises:
        ValueError: If no grid leaves any face.

    Source: Rossignac and Borrel, Multi-resolution 3D approximations, 1993.
    """
    if len(mesh.faces) <= faces:
        return mesh
    low, high = mesh.bounding_box()
    size = float((high - low).max())
    # Finer grids keep more faces: twice as fine until they are too many, then bisection.
    best, few, many, cells = None, 1, None, 2
    while cells > few and cells < faces:
        smaller = _in_cells(mesh, low[0], size / cells)
        if len(smaller.faces) > faces:
            many = cells
        else:
            best, few = smaller, cells
        cells = 2 * cells if many is None else (few + many) // 2
    if best is None or len(best.faces) == 0:
        raise ValueError(f"this mesh cannot be simplified to {faces} faces; allow more of them")
    return best


def _in_cells(mesh: Mesh, corner: Tensor, cell: float) -> Mesh:
    """The mesh with the vertices of every cubic cell replaced by their mean."""
    place = torch.floor((mesh.vertices - corner) / cell).long()
    _, owner = torch.unique(place, dim=0, return_inverse=True)
    count = torch.bincount(owner).to(mesh.dtype)
    vertices = summed(mesh.vertices, owner, len(count))
    faces = owner[mesh.faces]
    a, b, c = faces.unbind(1)
    faces = faces[(a != b) & (b != c) & (c != a)]
    # Three corners give the same triangle on the screen in any order.
    _, first = np.unique(faces.sort(1).values.cpu().numpy(), axis=0, return_index=True)
    faces = faces[torch.from_numpy(np.sort(first)).to(faces.device)]
    used, faces = torch.unique(faces, return_inverse=True)
    return Mesh((vertices / count[:, None])[used], faces.reshape(-1, 3))
