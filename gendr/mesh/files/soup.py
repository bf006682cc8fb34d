"""The content of a mesh file, which may have several materials, and UVs for some corners only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gendr._common.checks import dtype_name
from gendr.mesh.files.atlas import atlas
from gendr.mesh.files.origins import origin_of
from gendr.mesh.files.reports import note
from gendr.mesh.parts import MeshParts

Array = NDArray[Any]


@dataclass
class Material:
    """The look of a face: an image [H, W, 3], or None, times a colour [3]; lit or not."""

    image: Array | None = None
    color: Array = field(default_factory=lambda: np.ones(3))
    unlit: bool = False


@dataclass
class Soup:
    """A mesh as it is in a file: several materials, UVs for some of the corners."""

    vertices: Array  # [V, 3]
    faces: Array  # [F, 3]
    uvs: Array  # [T, 2]
    face_uvs: Array  # [F, 3], -1 for no UV
    materials: list[Material]
    face_material: Array  # [F], -1 for no material
    vertex_colors: Array | None = None  # [V, 3]
    face_colors: Array | None = None  # [F, 3]
    unlit: bool = False

    @staticmethod
    def plain(vertices: Array, faces: Array) -> Soup:
        """A mesh without UVs and materials."""
        nothing = np.full_like(faces, -1)
        return Soup(vertices, faces, np.zeros((0, 2)), nothing, [], np.full(len(faces), -1))


def to_parts(soup: Soup, dtype: torch.dtype, notes: list[str]) -> MeshParts:
    """Parts with one texture, one set of UVs and one colour per face, relative to an origin.

    Everything is float64; `dtype` only decides which origin the coordinates need.
    """
    materials = [*soup.materials, Material()]  # -1 stands for the last one
    colors = np.stack([m.color for m in materials])[soup.face_material]
    face_colors = soup.face_colors
    if (colors != 1).any():
        face_colors = colors if face_colors is None else face_colors * colors
    mapped = (soup.face_uvs >= 0).all(1)
    painted = np.array([m.image is not None for m in materials])[soup.face_material] & mapped
    used = sorted(set(soup.face_material[painted].tolist()))
    uvs: Array | None = soup.uvs
    face_uvs: Array | None = soup.face_uvs
    texture = None
    if used and painted.all() and all(materials[i].image is materials[used[0]].image for i in used):
        texture = materials[used[0]].image
    elif used:
        images = [m.image for m in materials]
        mapping = soup.uvs, soup.face_uvs, soup.face_material, painted
        texture, uvs, face_uvs = atlas(images, *mapping, notes)
    elif not mapped.all() or len(soup.uvs) == 0:
        uvs = face_uvs = None
    origin = origin_of(soup.vertices[soup.faces.reshape(-1)], dtype)
    if origin.any():
        place = ", ".join(f"{x:g}" if abs(x) < 1e5 else f"{x:.0f}" for x in origin)
        notes.append(
            f"it lies too far out for {dtype_name(dtype)}, so its coordinates count from "
            f"mesh.origin, ({place}), which save adds again; float64 would leave them"
        )

    def tensor(values: Array | None) -> torch.Tensor | None:
        return None if values is None else torch.from_numpy(np.array(values, np.float64))

    return MeshParts(
        torch.from_numpy(soup.vertices - origin),
        torch.from_numpy(np.array(soup.faces, np.int64)),
        uvs=tensor(uvs),
        face_uvs=None if face_uvs is None else torch.from_numpy(np.array(face_uvs, np.int64)),
        # Not copied: it is the largest part of most meshes, and has the right form already.
        texture=None if texture is None else torch.from_numpy(texture),
        vertex_colors=tensor(soup.vertex_colors),
        face_colors=tensor(face_colors),
        origin=torch.from_numpy(origin),
        unlit=soup.unlit,
    )


def joined(parts: list[Soup]) -> Soup:
    """Join several soups; where only some have colours, the others become white."""
    if len(parts) == 1:
        return parts[0]

    def colors(name: str, like: str) -> Array | None:
        values = [getattr(p, name) for p in parts]
        if all(v is None for v in values):
            return None
        filled = zip(values, [len(getattr(p, like)) for p in parts], strict=True)
        return np.concatenate([np.ones((n, 3)) if v is None else v for v, n in filled])

    def shifted(name: str, counts: list[int]) -> Array:
        starts = np.cumsum([0, *counts[:-1]])
        values = zip([np.asarray(getattr(p, name)) for p in parts], starts, strict=True)
        return np.concatenate([np.where(v < 0, -1, v + s) for v, s in values])

    if not parts:
        return Soup.plain(np.zeros((0, 3)), np.zeros((0, 3), np.int64))
    return Soup(
        vertices=np.concatenate([p.vertices for p in parts]),
        faces=shifted("faces", [len(p.vertices) for p in parts]),
        uvs=np.concatenate([p.uvs for p in parts]),
        face_uvs=shifted("face_uvs", [len(p.uvs) for p in parts]),
        materials=[m for p in parts for m in p.materials],
        face_material=shifted("face_material", [len(p.materials) for p in parts]),
        vertex_colors=colors("vertex_colors", "vertices"),
        face_colors=colors("face_colors", "faces"),
    )


def note_unlit(soup: Soup, parts: list[bool], notes: list[str]) -> None:
    """Make a soup unlit if all its parts are, with a note if only some are."""
    soup.unlit = bool(parts) and all(parts)
    if any(parts) and not soup.unlit:
        notes.append("only some of its materials are unlit; a mesh is lit as a whole")


def note_bare(soup: Soup, notes: list[str]) -> None:
    """Note faces whose material has an image while they have no UVs: these stay white."""
    pictured = np.array([*(m.image is not None for m in soup.materials), False])
    bare = pictured[soup.face_material] & (soup.face_uvs < 0).any(1)
    if bare.any():
        note(notes, f"{bare.sum()} of its faces have a texture but no UVs")


def note_double(soup: Soup, notes: list[str]) -> None:
    """Of looks beside each other keep one: the image, else colours of vertices.

    MeshLab, Open3D and scanners write what they see twice, in an image and in colours of vertices,
    or of vertices and of faces or materials; the product is too dark. In glTF it is meant: there
    COLOR_0 is a factor.
    """
    colors = soup.vertex_colors
    if colors is None or (colors == 1).all():
        return
    pictured = np.array([*(m.image is not None for m in soup.materials), False])
    painted = pictured[soup.face_material] & (soup.face_uvs >= 0).all(1)
    if (colors[soup.faces[painted]] != 1).any():
        note(notes, "its vertex colours beside its texture are not used")
        colors[soup.faces[painted]] = 1
    if painted.all() or (colors == 1).all():
        soup.vertex_colors = None
        return
    used = [soup.materials[i] for i in np.unique(soup.face_material[~painted]) if i >= 0]
    tinted = [each for each in used if each.image is None and (each.color != 1).any()]
    if soup.face_colors is not None or tinted:
        note(notes, "colours of its faces or materials beside those of its vertices are not used")
    soup.face_colors = None
    for material in tinted:
        material.color = np.ones(3)


def merge(soup: Soup) -> None:
    """Merge vertices of equal position and colour; the order is that of first appearance."""
    key = soup.vertices + 0.0  # -0 and 0 are the same position
    if soup.vertex_colors is not None:
        key = np.concatenate((key, soup.vertex_colors), 1)
    sort = np.lexsort(key.T)  # stable: of equal rows, the first comes first
    starts = np.ones(len(key), bool)
    starts[1:] = (key[sort[1:]] != key[sort[:-1]]).any(1)
    first = sort[starts]
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    new = np.empty(len(key), np.int64)
    new[sort] = rank[np.cumsum(starts) - 1]
    keep = first[order]
    soup.faces = new[soup.faces]
    soup.vertices = soup.vertices[keep]
    if soup.vertex_colors is not None:
        soup.vertex_colors = soup.vertex_colors[keep]
