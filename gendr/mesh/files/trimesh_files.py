"""PLY, OFF, STL and GLB files, which trimesh reads, and which it writes except for PLY."""

from __future__ import annotations

import json
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gendr.mesh.files.bounds import check_glb, check_off, check_ply
from gendr.mesh.files.origins import origin_of
from gendr.mesh.files.ply import strip_faces
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

    kind = path.suffix[1:].upper()
    try:
        # Trimesh opens images, which it leaves out if Pillow refuses them. NumPy's warnings are
        # about what a damaged file holds.
        with without_pillow_limit(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _check_complete(path)
            scene: Any = trimesh.load_scene(path, process=False)
            if path.suffix.lower() == ".ply":
                _fill_strips(scene)
    except Exception as error:  # noqa: BLE001 (trimesh raises anything on a damaged file)
        reason = str(error).strip().splitlines() or [type(error).__name__]
        if isinstance(error, RecursionError):
            reason = ["it is nested too deeply"]
        raise ValueError(f"{path} is no readable {kind} file ({reason[0][:120]})") from None
    for geometry in scene.geometry.values():
        image = texture_image(geometry)
        if image is not None:
            check_megapixels(f"the texture of {path}", image.size, max_megapixels)
    # What overflows or is NaN is refused below; NumPy would warn of it in a line of its own.
    with damage_named(path), np.errstate(all="ignore"):
        soup = scene_soup(scene, notes)
        if kind == "GLB":
            note_unlit(soup, _unlit_materials(path), notes)
    if kind in ("STL", "GLB") or (kind == "PLY" and len(soup.uvs)):
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


def _fill_strips(scene: Any) -> None:
    """Replace point clouds that have triangle strips by meshes."""
    import trimesh

    for name, points in scene.geometry.items():
        raw = points.metadata.get("_ply_raw", {})
        if isinstance(points, trimesh.PointCloud) and "tristrips" in raw:
            colors = points.colors if np.size(points.colors) else None
            scene.geometry[name] = trimesh.Trimesh(
                points.vertices,
                strip_faces(raw["tristrips"]),
                vertex_colors=colors,
                process=False,
            )


def _check_complete(path: Path) -> None:
    """Raise for truncated files that trimesh would read without an error, and for hostile ones."""
    data = path.read_bytes()
    kind = path.suffix.lower()
    if kind == ".off":
        check_off(data)
    elif kind == ".ply":
        check_ply(data)
    elif kind == ".glb":
        check_glb(data)
    elif kind == ".stl" and b"facet" not in data:
        if len(data) < 84:
            raise ValueError("it has no header")
        (count,) = struct.unpack("<I", data[80:84])
        if len(data) != 84 + 50 * count:
            raise ValueError(f"it has {len(data)} bytes, its header says {84 + 50 * count}")


def trimesh_bytes(parts: MeshParts, kind: str, normals: bool = False) -> bytes:
    """The content of an OFF, STL or GLB file; the latter may have `normals` of vertices."""
    import trimesh

    geometry = to_trimesh(parts)
    if kind == ".glb":
        # Positions are float32, but the transform of the scene is not.
        place = np.eye(4)
        place[:3, 3] = origin_of(geometry.vertices, torch.float32)
        geometry.vertices -= place[:3, 3]
        if normals:
            geometry.vertex_normals = _normals(geometry.vertices, geometry.faces)
        scene: Any = trimesh.Scene()
        scene.add_geometry(geometry, transform=place)
        geometry = scene
    options: dict[str, Any] = {"digits": 17} if kind == ".off" else {}
    if kind == ".glb" and parts.unlit:
        options["tree_postprocessor"] = _make_unlit
    data: str | bytes = geometry.export(file_type=kind[1:], **options)
    return data.encode() if isinstance(data, str) else data


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
