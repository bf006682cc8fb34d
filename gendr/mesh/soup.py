"""What a mesh file holds before it is a `Mesh`: several materials, UVs for some corners only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from gendr._runtime.checks import dtype_name
from gendr.mesh.mesh import Mesh

if TYPE_CHECKING:
    from PIL.Image import Image

Array = NDArray[Any]

# Texels that the images of an atlas are continued by on each side: what bilinear lookup reaches.
_PADDING = 1
# The distance between two neighbouring float32 numbers at a mesh, over its longest side, from which
# on its shape suffers. At half of it, a vertex is off by a twentieth of a pixel in 1000.
_COARSEST = 1e-4


@dataclass
class Material:
    """What a face looks like: an image [H, W, 3] or none, times a colour [3]."""

    image: Array | None = None
    color: Array = field(default_factory=lambda: np.ones(3))


@dataclass
class Soup:
    """A mesh as a file has it: several materials, UVs for some of the corners."""

    vertices: Array  # [V, 3]
    faces: Array  # [F, 3]
    uvs: Array  # [T, 2]
    face_uvs: Array  # [F, 3], -1 without
    materials: list[Material]
    face_material: Array  # [F], -1 without
    vertex_colors: Array | None = None  # [V, 3]
    face_colors: Array | None = None  # [F, 3]


def to_mesh(soup: Soup, dtype: torch.dtype, notes: list[str]) -> Mesh:
    """One texture, one set of UVs, one colour per face; coordinates counted from the origin.

    Raises:
        ValueError: for what no `Mesh` may hold.
    """
    materials = [*soup.materials, Material()]  # the last one is meant by -1
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
        texture, uvs, face_uvs = _atlas(soup, materials, painted, notes)
    elif not mapped.all() or len(soup.uvs) == 0:
        uvs = face_uvs = None
    origin = origin_of(soup.vertices[soup.faces.reshape(-1)], dtype)
    if origin.any():
        place = ", ".join(f"{x:g}" if abs(x) < 1e5 else f"{x:.0f}" for x in origin)
        notes.append(
            f"it lies too far out for {dtype_name(dtype)}, so its coordinates count from "
            f"mesh.origin, ({place}), which save adds again; dtype=torch.float64 leaves them"
        )

    def tensor(values: Array | None) -> torch.Tensor | None:
        return None if values is None else torch.from_numpy(np.array(values, np.float64))

    mesh = Mesh(
        torch.from_numpy(soup.vertices - origin),
        torch.from_numpy(np.array(soup.faces, np.int64)),
        uvs=tensor(uvs),
        face_uvs=None if face_uvs is None else torch.from_numpy(np.array(face_uvs, np.int64)),
        # The largest part of most meshes, in the right form already: not copied.
        texture=None if texture is None else torch.from_numpy(texture),
        vertex_colors=tensor(soup.vertex_colors),
        face_colors=tensor(face_colors),
    )
    return mesh.with_origin(torch.from_numpy(origin)).to(dtype=dtype)


def origin_of(points: Array, dtype: torch.dtype) -> Array:
    """Where the coordinates of a mesh had better count from: float64 [3], 0 if they are fine.

    Args:
        points: [N, 3], all corners of its faces.
        dtype: That is to hold them. For float64 all coordinates are fine.

    An axis is moved to the middle of the mesh if there the spacing of float32 is coarse for it. The
    origin is of whole numbers, or of binary fractions for a mesh smaller than 1, so that it is
    exact and that of a mesh saved and loaded again is the same.
    """
    if dtype != torch.float32 or len(points) == 0 or not np.isfinite(points).all():
        return np.zeros(3)
    low, high = points.min(0), points.max(0)
    extent = (high - low).max()
    if not extent > 0:
        return np.zeros(3)
    unit = min(1.0, 2.0 ** np.floor(np.log2(extent)))
    spacing = np.finfo(np.float32).eps * np.maximum(np.abs(low), np.abs(high))
    middle = np.round((low + high) / 2 / unit) * unit
    return np.where(spacing > _COARSEST * extent, middle, 0.0)


def _atlas(
    soup: Soup, materials: list[Material], painted: Array, notes: list[str]
) -> tuple[Array, Array, Array]:
    """All images below each other in one texture: it, the UVs and the UV indices of each corner.

    Faces without an image point at a white one.
    """
    images: dict[int, Array] = {}
    for i in sorted(set(soup.face_material[painted].tolist())):
        image = materials[i].image
        assert image is not None  # painted faces have one
        images[id(image)] = image
    of_material = [list(images).index(id(m.image)) + 1 if id(m.image) in images else 0
                   for m in materials]  # fmt: skip
    blocks = [np.ones((1, 1, 3)), *images.values()]
    size = np.array([b.shape[:2] for b in blocks])  # [blocks, 2], height and width
    width = int(size[:, 1].max()) + 2 * _PADDING
    rows = []
    for block in blocks:
        # Continued as the renderer does, by repeating it.
        block = np.pad(block, ((_PADDING, _PADDING), (_PADDING, _PADDING), (0, 0)), mode="wrap")
        rows.append(np.pad(block, ((0, 0), (0, width - block.shape[1]), (0, 0))))
    texture = np.concatenate(rows)
    start = np.cumsum([0] + [len(r) for r in rows])[:-1] + _PADDING
    which = np.where(painted, np.array(of_material)[soup.face_material], 0)
    uv = np.where(painted[:, None, None], soup.uvs[soup.face_uvs * painted[:, None]], 0.5)
    uv = uv - np.floor(uv.min(1, keepdims=True) + 1e-6)
    wide = int((uv.max((1, 2)) > 1 + 1e-4).sum())
    if wide:
        notes.append(f"{wide} faces repeat their image, which one texture of several cannot")
    uv = uv.clip(0, 1)
    u = (_PADDING + uv[..., 0] * size[which, 1, None]) / width
    v = 1 - (start[which, None] + (1 - uv[..., 1]) * size[which, 0, None]) / len(texture)
    corners = np.stack((u, v), -1).reshape(-1, 2)
    uvs, index = np.unique(corners, axis=0, return_inverse=True)
    return texture, uvs, index.reshape(-1, 3)


def joined(parts: list[Soup]) -> Soup:
    """One soup of several; colours that only some have are white in the others."""
    if len(parts) == 1:
        return parts[0]

    def colors(name: str, like: str) -> Array | None:
        values = [getattr(p, name) for p in parts]
        if all(v is None for v in values):
            return None
        return np.concatenate([np.ones((len(getattr(p, like)), 3)) if v is None else v
                               for p, v in zip(parts, values, strict=True)])  # fmt: skip

    def shifted(name: str, counts: list[int]) -> Array:
        starts = np.cumsum([0, *counts])[:-1]
        values = [np.asarray(getattr(p, name)) for p in parts]
        values = [np.where(v < 0, -1, v + s) for v, s in zip(values, starts, strict=True)]
        return np.concatenate(values)

    if not parts:
        return Soup(np.zeros((0, 3)), np.zeros((0, 3), np.int64), np.zeros((0, 2)),
                     np.zeros((0, 3), np.int64), [], np.zeros(0, np.int64))  # fmt: skip
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


def merge(soup: Soup) -> None:
    """Make vertices of equal position and colour one, in the order of their first appearance."""
    key = soup.vertices + 0.0  # -0 and 0 are one position
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


def pixels(image: Image, notes: list[str]) -> Array:
    """RGB in [0, 1], [H, W, 3], row 0 the top."""
    if image.mode.startswith("I;16") or image.mode == "I":
        grey = np.array(image, np.float64)
        grey /= 65535  # in place, here and below: of a large image, every copy counts
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        if np.asarray(image.getchannel("A")).min() < 255:
            note(notes, "the transparency of its texture is dropped")
    values = np.array(image.convert("RGB"), np.float64)
    values /= 255
    return values


def note(notes: list[str], text: str) -> None:
    """Append a note once."""
    if text not in notes:
        notes.append(text)
