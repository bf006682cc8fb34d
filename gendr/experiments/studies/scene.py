"""Silhouettes of meshes, for the studies of shape and pose."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gendr.mesh import Camera, Mesh
from gendr.rendering import silhouette
from gendr.rendering.backends.choice import choose
from gendr.visual import PAPER, Pixels, difference

__all__ = [
    "as_png",
    "digest",
    "face_vertices",
    "hard_silhouette",
    "load_target",
    "overlays",
    "simplified",
]


def load_target(path: str | Path) -> Mesh:
    """The shape of a mesh file, without its colours.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no mesh.
    """
    mesh = Mesh.load(path)
    return Mesh(mesh.vertices, mesh.faces)


def digest(mesh: Mesh) -> str:
    """SHA-256 of the vertices and faces."""
    hashed = hashlib.sha256()
    for tensor in (mesh.vertices, mesh.faces):
        hashed.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return hashed.hexdigest()


def face_vertices(vertices: Tensor, faces: Tensor, camera: Camera) -> Tensor:
    """Project the triangles of B shapes with one topology by B cameras, differentiably.

    Args:
        vertices: [B, V, 3] or [1, V, 3], world.
        faces: [F, 3] int64.
        camera: B cameras.

    Returns:
        [B, F, 3, 3], x and y in NDC and the depth, for `gendr.silhouette`. The backward pass always
        sums in the same order.
    """
    xy, depth = camera.project(vertices)
    points = torch.cat([xy, depth[..., None]], -1)
    images, count = points.shape[:2]
    first = count * torch.arange(images, device=faces.device)
    index = (faces.reshape(-1) + first[:, None]).reshape(-1)
    corners = choose("auto", points).gather(points.reshape(-1, 3), index)
    return corners.reshape(images, len(faces), 3, 3)


def hard_silhouette(triangles: Tensor, image_size: int) -> Tensor:
    """Masks [B, H, W], 0 or 1, of `face_vertices` [B, F, 3, 3]; no gradient."""
    return silhouette(triangles.detach(), image_size, "heaviside", "max", scale=1.0)


def simplified(mesh: Mesh, faces: int) -> Mesh:
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
    best = None
    for cells in range(2, faces):  # finer grids would keep too many faces
        smaller = _clustered(mesh, low[0], size / cells)
        if len(smaller.faces) > faces:
            break
        best = smaller
    if best is None or len(best.faces) == 0:
        raise ValueError(f"this mesh cannot be simplified to {faces} faces; allow more of them")
    return best


def _clustered(mesh: Mesh, corner: Tensor, cell: float) -> Mesh:
    """The mesh with the vertices of every cubic cell replaced by their mean."""
    place = torch.floor((mesh.vertices - corner) / cell).long()
    _, owner = torch.unique(place, dim=0, return_inverse=True)
    count = torch.bincount(owner).to(mesh.dtype)
    vertices = mesh.vertices.new_zeros(len(count), 3).index_add(0, owner, mesh.vertices)
    faces = owner[mesh.faces]
    a, b, c = faces.unbind(1)
    faces = faces[(a != b) & (b != c) & (c != a)]
    # Three corners give the same triangle on the screen in any order.
    _, first = np.unique(faces.sort(1).values.numpy(), axis=0, return_index=True)
    faces = faces[torch.from_numpy(np.sort(first))]
    used, faces = torch.unique(faces, return_inverse=True)
    return Mesh((vertices / count[:, None])[used], faces.reshape(-1, 3))


def overlays(target: Tensor, found: Tensor, columns: int) -> Pixels:
    """Pairs of masks, one over the other, in rows.

    Args:
        target: [B, H, W] in [0, 1].
        found: [B, H, W] in [0, 1].
        columns: >= 1, tiles in a row; rows are filled up with white.

    Returns:
        [R H, columns W, 3] uint8, grey where both are, blue where only the target is, orange where
        only the other is.
    """
    masks = (x.detach().double().cpu().numpy() for x in (target, found))
    tiles = [difference(a, b) for a, b in zip(*masks, strict=True)]
    tiles += [np.full_like(tiles[0], PAPER)] * (-len(tiles) % columns)
    rows = [np.concatenate(tiles[i : i + columns], 1) for i in range(0, len(tiles), columns)]
    return np.concatenate(rows)


def as_png(pixels: Pixels) -> bytes:
    """An image [H, W, 3] as a PNG file, with the palette of at most 64 colours that it needs."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).quantize(64).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
