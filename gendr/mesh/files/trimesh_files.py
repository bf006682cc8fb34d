"""GLB files, which trimesh reads and writes."""

from __future__ import annotations

import json
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gendr.mesh.files.bounds import check_glb
from gendr.mesh.files.origins import origin_of
from gendr.mesh.files.reports import damage_named
from gendr.mesh.files.soup import Array, Soup, merge, note_unlit
from gendr.mesh.files.trimesh_objects import scene_soup, texture_image, to_trimesh
from gendr.mesh.images import check_megapixels, without_pillow_limit
from gendr.mesh.parts import MeshParts

# The extension of glTF for colours that no light changes.
_UNLIT = "KHR_materials_unlit"


def read_with_trimesh(path: Path, notes: list[str], max_megapixels: float) -> Soup:
    """Read all geometries of a file, placed by their transforms."""
    import trimesh

    try:
        # Trimesh opens images, which it leaves out if Pillow refuses them. NumPy's warnings are
        # about what a damaged file holds.
        with without_pillow_limit(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_glb(path.read_bytes())
            scene: Any = trimesh.load_scene(path, process=False)
    except Exception as error:  # noqa: BLE001 (trimesh raises anything on a damaged file)
        reason = str(error).strip().splitlines() or [type(error).__name__]
        if isinstance(error, RecursionError):
            reason = ["it is nested too deeply"]
        raise ValueError(f"{path} is no readable GLB file ({reason[0][:120]})") from None
    for geometry in scene.geometry.values():
        image = texture_image(geometry)
        if image is not None:
            check_megapixels(f"the texture of {path}", image.size, max_megapixels)
    with damage_named(path):
        soup = scene_soup(scene, notes)
        note_unlit(soup, _unlit_materials(path), notes)
    merge(soup)
    return soup


def _unlit_materials(path: Path) -> list[bool]:
    """Whether each material of a GLB file that trimesh has read is unlit."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<I", file.read(20)[12:16])
        tree: Any = json.loads(file.read(length))
    return [_UNLIT in material.get("extensions", {}) for material in tree.get("materials", [])]


def _make_unlit(tree: Any) -> None:
    """Make all materials of a GLB unlit and seen from both sides, and give one to what has none."""
    materials = tree.setdefault("materials", [])
    for primitive in (each for mesh in tree["meshes"] for each in mesh["primitives"]):
        if "material" not in primitive:
            primitive["material"] = len(materials)
            materials.append({})
    for material in materials:
        material["extensions"] = {_UNLIT: {}}
        material["doubleSided"] = True  # as renderers here draw faces: both sides
    tree["extensionsUsed"] = [_UNLIT]


def glb_bytes(parts: MeshParts, normals: bool = False) -> bytes:
    """The content of a GLB file, which may have `normals` of vertices."""
    import trimesh

    geometry = to_trimesh(parts)
    # Positions are float32, but the transform of the scene is not.
    place = np.eye(4)
    place[:3, 3] = origin_of(geometry.vertices, torch.float32)
    geometry.vertices -= place[:3, 3]
    if normals:
        geometry.vertex_normals = _normals(geometry.vertices, geometry.faces)
    scene: Any = trimesh.Scene()
    scene.add_geometry(geometry, transform=place)
    options: dict[str, Any] = {"tree_postprocessor": _make_unlit} if parts.unlit else {}
    return scene.export(file_type="glb", **options)


def _normals(vertices: Array, faces: Array) -> Array:
    """Normals [V, 3] of vertices, of which those at one place have the same, also across seams."""
    _, place = np.unique(vertices, axis=0, return_inverse=True)
    corners = vertices[faces]
    areas = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    summed = np.zeros((place.max() + 1, 3))
    for k in range(3):
        np.add.at(summed, place.ravel()[faces[:, k]], areas)
    found = summed[place.ravel()]
    return found / np.linalg.norm(found, axis=1, keepdims=True).clip(1e-300)
