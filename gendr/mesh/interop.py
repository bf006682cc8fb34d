"""Meshes of other libraries: trimesh and PyTorch3D."""

from __future__ import annotations

from typing import Any

import torch

from gendr.mesh.mesh import Mesh


def from_trimesh(
    geometry: Any,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Mesh:
    """The mesh of a `trimesh.Trimesh`, or of all meshes in a `trimesh.Scene`.

    Vertices and faces keep their order and number, but for meshes with UVs: trimesh repeats their
    vertices along the seams of the texture, and those of equal position and colour are made one.
    What a `Mesh` cannot hold (transparency) is dropped with a warning. Coordinates too far from 0
    for float32 get an `origin`, as those of a file do (`load_mesh`).

    Args:
        geometry: A `trimesh.Trimesh` or `trimesh.Scene`.
        dtype: float32 or float64.
        device: Where the mesh lives.

    Raises:
        TypeError: for anything else.
        ValueError: for a mesh without faces, and for values that no `Mesh` may hold.
    """
    return Mesh.from_trimesh(geometry, dtype=dtype, device=device)


def to_trimesh(mesh: Mesh) -> Any:
    """A mesh as a `trimesh.Trimesh`, in world coordinates (`mesh.origin` added), float64.

    trimesh has one UV per vertex and either vertex or face colours. So vertices are repeated along
    the seams of a texture, and each face gets vertices of its own where face colours meet a texture
    or vertex colours; else vertices and faces keep their order and number. Colours are rounded to
    8 bits.

    Raises:
        ValueError: for a batch.
    """
    return mesh.to_trimesh()


def from_pytorch3d(meshes: Any) -> Mesh:
    """The batch of a `pytorch3d.structures.Meshes`, with gradients.

    TexturesVertex of 3 features become vertex colours, TexturesUV textures and TexturesAtlas of one
    texel face colours; other textures are dropped with a warning. UVs and texels stay as they are:
    both sides have v up and row 0 at the top. `gendr` repeats a texture beyond [0, 1] and has the
    outer edges of its outermost texels at 0 and 1; PyTorch3D has their centres there unless
    `align_corners=False`.

    Args:
        meshes: Meshes, or what has `verts_list()`, `faces_list()` and `textures`.

    Raises:
        TypeError: for anything else.
        ValueError: for an empty batch, and for values that no `Mesh` may hold.
    """
    return Mesh.from_pytorch3d(meshes)


def to_pytorch3d(mesh: Mesh) -> Any:
    """The batch as a `pytorch3d.structures.Meshes`, with gradients; PyTorch3D must be installed.

    PyTorch3D holds one kind of colours: the texture as TexturesUV, or else vertex colours as
    TexturesVertex, or else face colours as TexturesAtlas; the rest is dropped with a warning.
    `mesh.origin` is not added to the coordinates.

    Raises:
        ImportError: if PyTorch3D is not installed.
    """
    return mesh.to_pytorch3d()
