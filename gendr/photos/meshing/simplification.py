"""Fewer faces: by quadrics, and by cells of a grid."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gendr.mesh.mesh import Mesh
from gendr.photos.meshing.libigl import libigl

__all__ = ["clustered", "simplified"]


def simplified(mesh: Mesh, faces: int) -> Mesh:
    """A mesh of at most so many faces, by collapsing edges where quadrics say it matters least.

    A manifold stays one, and keeps its genus. A mesh that is none is `clustered`, and one that has
    few enough faces is returned unchanged.

    Args:
        mesh: one mesh without colours.
        faces: >= 8.

    Raises:
        ValueError: see `clustered`.

    Source: Garland and Heckbert, Surface Simplification Using Quadric Error Metrics, 1997.
    """
    if len(mesh.faces) <= faces:
        return mesh
    igl = libigl()
    triangles = np.asfortranarray(mesh.faces.cpu().numpy(), dtype=np.int32)
    # Each edge has one face or two of opposite directions, each vertex one fan of faces.
    fans = igl.is_vertex_manifold(triangles)[np.unique(triangles)]
    if not igl.is_edge_manifold(triangles)[0] or not fans.all():
        return clustered(mesh, faces)
    vertices = np.asfortranarray(mesh.vertices.detach().double().cpu().numpy())
    reduced = igl.qslim(vertices, triangles, faces)
    return Mesh(
        torch.from_numpy(np.ascontiguousarray(reduced[0])).to(mesh.vertices),
        torch.from_numpy(np.ascontiguousarray(reduced[1])).to(mesh.faces),
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
    vertices = mesh.vertices.new_zeros(len(count), 3).index_add(0, owner, mesh.vertices)
    faces = owner[mesh.faces]
    a, b, c = faces.unbind(1)
    faces = faces[(a != b) & (b != c) & (c != a)]
    # Three corners give the same triangle on the screen in any order.
    _, first = np.unique(faces.sort(1).values.cpu().numpy(), axis=0, return_index=True)
    faces = faces[torch.from_numpy(np.sort(first)).to(faces.device)]
    used, faces = torch.unique(faces, return_inverse=True)
    return Mesh((vertices / count[:, None])[used], faces.reshape(-1, 3))
