"""Mesh files: the formats, what each of them can keep, reading and writing.

PLY, OFF, STL and GLB go through trimesh. OBJ is read and written here, because trimesh has one UV
per vertex: it splits the surface along the seams of a texture and renumbers the vertices, while a
fit needs them as they are in the file.

Vertices keep their order and number, except in STL, textured PLY and GLB, which repeat vertices:
there, vertices of equal position and colour are merged. An OBJ file that was cut off between two
lines is read without an error, because it does not say how long it is. `unlit` is
KHR_materials_unlit of glTF and `illum 0` of mtl.

A mesh far from 0, such as a survey in metres from the equator, would lose its shape in float32. If
neighbouring float32 numbers are more than 1e-4 of its longest side apart there, its coordinates are
made relative to its `origin`, a point with integer coordinates in its middle.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import torch

from gendr._runtime.names import nearest
from gendr.mesh.attributes import check_reach
from gendr.mesh.files.obj import obj_files, read_obj
from gendr.mesh.files.ply import to_ply
from gendr.mesh.files.reports import damage_named, warn_caller
from gendr.mesh.files.soup import to_parts
from gendr.mesh.files.textures import to_bytes
from gendr.mesh.files.trimesh_files import read_with_trimesh, trimesh_bytes
from gendr.mesh.parts import MeshParts

FORMATS = (".obj", ".ply", ".off", ".stl", ".glb")

_ATTRIBUTES = ("uvs", "texture", "vertex_colors", "face_colors")
_KEEPS = {
    ".obj": {*_ATTRIBUTES, "origin"},
    ".ply": {"vertex_colors", "face_colors", "origin"},
    ".glb": {"uvs", "texture", "vertex_colors", "origin"},
    ".off": {"origin"},
    ".stl": set[str](),
}


def kind_of(path: Path) -> str:
    """The extension in lower case.

    Raises:
        ValueError: if it is not one of `FORMATS`.
    """
    kind = path.suffix.lower()
    if kind not in FORMATS:
        close = ", ".join(nearest(kind, FORMATS, count=len(FORMATS)))
        raise ValueError(f"{path} must end in one of {close}; got the extension {kind!r}")
    return kind


def read(path: Path, dtype: torch.dtype, max_megapixels: float, notes: list[str]) -> MeshParts:
    """The parts of one mesh file, in float64; `gendr.Mesh.load` says more.

    Args:
        path: The file to read.
        dtype: The dtype that the mesh will have; it decides whether an `origin` is needed.
        max_megapixels: The largest texture image that is read, in million pixels.
        notes: Gets a note of everything that was dropped.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for a folder, an unknown extension, a file that is no mesh or is damaged, a mesh
            without faces, coordinates too large for the dtype, and a texture that is too large.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a mesh file")
    kind = kind_of(path)
    if not path.is_file():
        raise FileNotFoundError(f"no mesh file at {path}")
    read_soup = read_obj if kind == ".obj" else read_with_trimesh
    soup = read_soup(path, notes, max_megapixels)
    if len(soup.faces) == 0:
        raise ValueError(f"{path} holds no faces, so it is no {kind[1:].upper()} mesh to render")
    check_reach(f"the vertices of {path}", torch.from_numpy(soup.vertices), dtype)
    with damage_named(path):
        return to_parts(soup, dtype, notes)


def encoded(parts: MeshParts, path: Path) -> dict[Path, bytes]:
    """The files that hold one mesh, by their paths; `gendr.Mesh.save` says more.

    Raises:
        ValueError: for a mesh without faces, or an unknown extension.
        FileNotFoundError: for a folder that does not exist.
    """
    kind = kind_of(path)
    if len(parts.faces) == 0:
        raise ValueError(f"a mesh without faces cannot be saved to {path}: it could not be loaded")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no folder {path.parent} to save {path.name} in; make it first")
    if kind == ".glb":
        parts = parts.with_corner_colors()
    held = {name for name in _ATTRIBUTES if getattr(parts, name) is not None}
    held |= {"origin"} if parts.has_origin else set()
    kept = held & _KEEPS[kind]
    if (kind == ".obj" and "texture" in held) or (kind == ".ply" and "vertex_colors" in held):
        kept -= {"face_colors"}
    parts = _with_only(parts, kept)
    if kind == ".obj":
        files = obj_files(parts, path)
    elif kind == ".ply":
        files = {path: _ply_bytes(parts)}
    else:
        files = {path: trimesh_bytes(parts, kind)}
    if held - kept:
        lost = ", ".join(sorted(held - kept))
        warn_caller(f"{path.name} does not hold the {lost} of this mesh")
    return files


def _with_only(parts: MeshParts, kept: Collection[str]) -> MeshParts:
    """The parts without those that the file format cannot keep."""
    dropped = {*_ATTRIBUTES, "origin"} - set(kept)
    if "uvs" in dropped:
        dropped.add("face_uvs")
    return replace(parts, **dict.fromkeys(dropped))


def _ply_bytes(parts: MeshParts) -> bytes:
    """Binary PLY; float64 if that is needed."""
    vertices = parts.world_vertices() if parts.has_origin else parts.vertices
    colors = [None if c is None else to_bytes(c) for c in (parts.vertex_colors, parts.face_colors)]
    return to_ply(vertices.numpy(), parts.faces.numpy(), *colors)
