"""Texture coordinates for a mesh that has none: charts in an atlas, made by xatlas."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from gendr._runtime.checks import check_count
from gendr.mesh.mesh import Mesh

__all__ = ["can_unwrap", "unwrapped"]

INSTALL = "pip install '.[textures]' in the repository"
# Texels between two charts, so that a bilinear lookup in one does not reach the other.
_PADDING = 3


def can_unwrap() -> bool:
    """Whether xatlas, which `unwrapped` needs, is installed."""
    return find_spec("xatlas") is not None


def unwrapped(mesh: Mesh, size: int = 1024) -> Mesh:
    """The same mesh with UVs that cover the surface once: charts packed in a square atlas.

    Vertices and faces stay as they are, also at the seams, where corners of one vertex have
    different UVs. A texture that the mesh had is dropped, since it fits its old UVs only.

    Args:
        mesh: One mesh with faces.
        size: Side of the square texture that it is for, in texels: charts keep some apart.

    Raises:
        TypeError: If the mesh is none.
        ValueError: For a batch, or a mesh without faces or extent.
        RuntimeError: If xatlas is not installed; the message says how to.

    Source: xatlas of J. Young, https://github.com/jpcy/xatlas, by its Python bindings.
    """
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a gendr.Mesh, got {type(mesh).__name__}")
    check_count("size", size, least=16)
    if len(mesh) != 1 or len(mesh.faces) == 0:
        raise ValueError(f"an atlas is of one mesh with faces, got {mesh!r}")
    vertices = mesh.vertices.detach().double().cpu().numpy()
    vertices = vertices - vertices.mean(0)
    reach = float(np.abs(vertices).max())
    if not reach > 0:
        raise ValueError("the mesh has no extent, all its vertices coincide")
    faces = mesh.faces.cpu().numpy()
    xatlas = _xatlas()
    atlas = xatlas.Atlas()
    # In units of the mesh, because xatlas drops faces below a fixed area.
    atlas.add_mesh((100 * vertices / reach).astype(np.float32), faces.astype(np.uint32))
    options = xatlas.PackOptions()
    options.resolution, options.padding, options.bilinear = size, _PADDING, True
    options.create_image = False
    atlas.generate(xatlas.ChartOptions(), options, verbose=False)
    _, corners, uvs = atlas[0]
    # xatlas meets the size only roughly and gives coordinates in parts of a rectangle.
    uvs = uvs.astype(np.float64) * [atlas.width, atlas.height] / max(atlas.width, atlas.height)
    return mesh.with_texture(None).with_uvs(
        torch.from_numpy(uvs).to(mesh.device, mesh.dtype),
        torch.from_numpy(corners.astype(np.int64)).to(mesh.device),
    )


def _xatlas() -> Any:
    try:
        return import_module("xatlas")
    except ModuleNotFoundError:
        raise RuntimeError(
            f"an atlas of texture coordinates needs xatlas, which is not installed: {INSTALL}; or "
            "take vertex colours, or a mesh that has UVs"
        ) from None
