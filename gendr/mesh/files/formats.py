"""Mesh files: the formats, what each of them can keep, reading and writing.

All formats are read and written here, whole: what is in a file is used, named in a note, or
refused. Other readers have one UV per vertex, which splits the surface along the seams of a texture
and renumbers the vertices, while a fit needs them as they are in the file.

Vertices keep their order and number, except in STL, glTF, and PLY with UVs of vertices, which
repeat vertices: there, vertices of equal position and colour are merged. An OBJ file that was cut
off between two lines is read without an error, because it does not say how long it is. `unlit` is
KHR_materials_unlit of glTF and `illum 0` of mtl.

A mesh far from 0, such as a survey in metres from the equator, would lose its shape in float32. If
neighbouring float32 numbers are more than 1e-4 of its longest side apart there, its coordinates are
made relative to its `origin`, a point with integer coordinates in its middle.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from gendr._common.names import nearest
from gendr.mesh.attributes import check_reach
from gendr.mesh.files.gltf.reader import read_gltf
from gendr.mesh.files.gltf.writer import gltf_bytes
from gendr.mesh.files.obj import obj_files, read_obj
from gendr.mesh.files.off import off_bytes, read_off
from gendr.mesh.files.ply import ply_bytes, read_ply
from gendr.mesh.files.reports import damage_named, warn_caller
from gendr.mesh.files.soup import to_parts
from gendr.mesh.files.stl import read_stl, stl_bytes
from gendr.mesh.parts import MeshParts

_READERS = {
    ".obj": read_obj, ".ply": read_ply, ".off": read_off, ".stl": read_stl, ".glb": read_gltf,
    ".gltf": read_gltf,
}  # fmt: skip
FORMATS = tuple(_READERS)
# Of scanners and surveys, which hold points.
_POINTS = (".las", ".laz", ".e57", ".pcd", ".xyz", ".pts", ".ptx")

_ATTRIBUTES = ("uvs", "texture", "vertex_colors", "face_colors")
_OF_FACES = ("face_opacity", "face_scale", "face_shape")  # no format has them
_KEEPS = {
    ".obj": {*_ATTRIBUTES, "origin"},
    ".ply": {"vertex_colors", "face_colors", "origin"},
    ".glb": {"uvs", "texture", "vertex_colors", "origin"},
    ".gltf": {"uvs", "texture", "vertex_colors", "origin"},
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
        # Such as a file of USD or FBX, which is to be read.
        to = "CloudCompare saves points" if kind in _POINTS else "Blender or MeshLab save others"
        advice = f"; {to} as {'PLY' if kind in _POINTS else 'GLB'}" if path.is_file() else ""
        raise ValueError(f"{path} must end in one of {close}; got the extension {kind!r}{advice}")
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
    # What overflows or is NaN is refused below; NumPy would warn of it in a line of its own.
    with np.errstate(all="ignore"):
        soup = _READERS[kind](path, notes, max_megapixels)
    if len(soup.faces) == 0:
        said = f" ({'; '.join(notes)})" if notes else ""
        raise ValueError(
            f"{path} holds no faces{said}, so it is no {kind[1:].upper()} mesh to render"
        )
    check_reach(f"the vertices of {path}", torch.from_numpy(soup.vertices), dtype)
    with damage_named(path):
        return to_parts(soup, dtype, notes)


def encoded(parts: MeshParts, path: Path, *, normals: bool = False) -> dict[Path, bytes]:
    """The files that hold one mesh, by their paths; `gendr.Mesh.to_files` says more.

    Raises:
        ValueError: for a mesh without faces, or an unknown extension.
        FileNotFoundError: for a folder that does not exist.
    """
    kind = kind_of(path)
    if len(parts.faces) == 0:
        raise ValueError(f"a mesh without faces cannot be saved to {path}: it could not be loaded")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no folder {path.parent} to save {path.name} in; make it first")
    if kind in (".glb", ".gltf"):
        parts = parts.with_corner_colors()
    names = [*_ATTRIBUTES, *_OF_FACES, *(["origin"] if parts.has_origin else [])]
    held = {name for name in names if getattr(parts, name) is not None}
    lost = held - _KEEPS[kind]
    if (kind == ".obj" and "texture" in held) or (kind == ".ply" and "vertex_colors" in held):
        lost |= held & {"face_colors"}
    parts = replace(parts, **dict.fromkeys(lost | ({"face_uvs"} if "uvs" in lost else set())))
    if kind == ".obj":
        files = obj_files(parts, path)
    elif kind in (".glb", ".gltf"):
        files = {path: gltf_bytes(parts, kind, normals)}
    else:
        write = {".ply": ply_bytes, ".off": off_bytes, ".stl": stl_bytes}[kind]
        files = {path: write(parts)}
    if lost:
        warn_caller(f"{path.name} does not hold the {', '.join(sorted(lost))} of this mesh")
    return files
