"""Conversion between plain parts and the Meshes of PyTorch3D, with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gendr._common.checks import check_tensor
from gendr.mesh.files.reports import warn_caller
from gendr.mesh.parts import MeshParts


def from_pytorch3d(meshes: Any) -> list[MeshParts]:
    """The parts of each mesh; `gendr.Mesh.from_pytorch3d` says more.

    Raises:
        TypeError: for anything but Meshes.
    """
    if not (hasattr(meshes, "verts_list") and hasattr(meshes, "faces_list")):
        raise TypeError(f"from_pytorch3d takes a pytorch3d Meshes, got {type(meshes).__name__}")
    vertices, faces = list(meshes.verts_list()), list(meshes.faces_list())
    looks = _looks(getattr(meshes, "textures", None), len(vertices))
    return [MeshParts(v, f, **look) for v, f, look in zip(vertices, faces, looks, strict=True)]


def _looks(textures: Any, count: int) -> list[dict[str, Any]]:
    """The textures or colours of each mesh, as arguments of `MeshParts`."""
    if textures is None:
        return [{} for _ in range(count)]
    if hasattr(textures, "verts_features_list"):
        colors = list(textures.verts_features_list())
        if all(c.shape[-1] == 3 for c in colors):
            return [{"vertex_colors": c} for c in colors]
    elif hasattr(textures, "verts_uvs_list"):
        maps = list(textures.maps_list() if hasattr(textures, "maps_list")
                    else textures.maps_padded())  # fmt: skip
        if all(m.shape[-1] == 3 for m in maps):
            parts = zip(maps, textures.verts_uvs_list(), textures.faces_uvs_list(), strict=True)
            return [
                {"texture": check_tensor("maps", m), "uvs": uvs, "face_uvs": faces}
                for m, uvs, faces in parts
            ]
    elif hasattr(textures, "atlas_list"):
        atlases = list(textures.atlas_list())
        if all(a.shape[1:] == (1, 1, 3) for a in atlases):
            return [{"face_colors": a[:, 0, 0]} for a in atlases]
    name = type(textures).__name__
    warn_caller(f"a Mesh does not hold these textures, {name}, which are dropped")
    return [{} for _ in range(count)]


def to_pytorch3d(parts: Sequence[MeshParts]) -> Any:
    """Meshes of parts that all have the same attributes; see `gendr.Mesh.to_pytorch3d`.

    Raises:
        ImportError: if PyTorch3D is not installed.
    """
    try:
        from pytorch3d import renderer, structures  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportError(
            "to_pytorch3d needs PyTorch3D, which is not installed; its INSTALL.md says how"
        ) from None

    first = parts[0]
    held = [n for n in ("texture", "vertex_colors", "face_colors") if getattr(first, n) is not None]
    textures: Any = None
    if first.texture is not None:
        textures = renderer.TexturesUV(
            maps=[p.texture for p in parts],
            faces_uvs=[p.face_uvs for p in parts],
            verts_uvs=[p.uvs for p in parts],
            align_corners=False,
        )
    elif first.vertex_colors is not None:
        textures = renderer.TexturesVertex(verts_features=[p.vertex_colors for p in parts])
    elif first.face_colors is not None:
        colors = [p.face_colors for p in parts if p.face_colors is not None]
        textures = renderer.TexturesAtlas(atlas=[c[:, None, None] for c in colors])
    if held[1:]:
        lost = " and ".join(name.replace("_", " ") for name in held[1:])
        warn_caller(f"PyTorch3D does not hold the {lost} of this mesh")
    return structures.Meshes(
        verts=[p.vertices for p in parts], faces=[p.faces for p in parts], textures=textures
    )
