"""PLY, OFF and STL files, which trimesh reads, and which it writes except for PLY."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gendr.mesh.files.bounds import check_off, check_ply
from gendr.mesh.files.ply import strip_faces
from gendr.mesh.files.reports import damage_named
from gendr.mesh.files.soup import Soup, merge
from gendr.mesh.files.trimesh_objects import scene_soup, texture_image, to_trimesh
from gendr.mesh.images import check_megapixels, without_pillow_limit
from gendr.mesh.parts import MeshParts


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
    if kind == "STL" or (kind == "PLY" and len(soup.uvs)):
        merge(soup)
    return soup


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
    elif kind == ".stl" and b"facet" not in data:
        if len(data) < 84:
            raise ValueError("it has no header")
        (count,) = struct.unpack("<I", data[80:84])
        if len(data) != 84 + 50 * count:
            raise ValueError(f"it has {len(data)} bytes, its header says {84 + 50 * count}")


def trimesh_bytes(parts: MeshParts, kind: str) -> bytes:
    """The content of an OFF or STL file."""
    options: dict[str, Any] = {"digits": 17} if kind == ".off" else {}
    data: str | bytes = to_trimesh(parts).export(file_type=kind[1:], **options)
    return data.encode() if isinstance(data, str) else data
