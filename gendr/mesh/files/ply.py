"""PLY files of meshes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gendr.mesh.files.colors import unit_colors
from gendr.mesh.files.ply_table import Element, read_elements
from gendr.mesh.files.polygons import integers, triangles
from gendr.mesh.files.reports import damage_named, note
from gendr.mesh.files.soup import Material, Soup, merge, note_bare, note_double
from gendr.mesh.files.textures import named_image, to_bytes
from gendr.mesh.parts import MeshParts

Array = NDArray[Any]

_RGB = (("red", "green", "blue"), ("diffuse_red", "diffuse_green", "diffuse_blue"), ("r", "g", "b"))
_ALPHA = ("alpha", "diffuse_alpha", "a")
_UV = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"), ("texture_s", "texture_t"))
_INDICES = ("vertex_indices", "vertex_index")
_NORMALS = ("nx", "ny", "nz")  # which follow from the faces
# As MeshLab and those after it name the images.
_TEXTURE = re.compile(r"texturefile:?\s+(.+)", re.IGNORECASE)


def read_ply(path: Path, notes: list[str], max_megapixels: float) -> Soup:
    """Read a mesh: polygons, triangle strips, colours, and textures as MeshLab names them."""
    with damage_named(path):
        elements, comments = read_elements(path.read_bytes())
        points, faces, strips = (
            elements.get(name) or Element(name, 0) for name in ("vertex", "face", "tristrips")
        )
    if faces.count + strips.count == 0:
        raise ValueError(_no_faces(path, points))
    with damage_named(path):
        vertices = _positions(points)
        corners, sizes = faces.take_lists(*_INDICES) or (np.zeros(0), np.zeros(0, np.int64))
        strip = _strip_faces(*(strips.take_lists(*_INDICES) or (np.zeros(0), np.zeros(1, int))))
        corners = np.concatenate((integers(corners), strip.reshape(-1)))
        sizes = np.concatenate((sizes, np.full(len(strip), 3)))
        found, of = triangles(vertices, corners, sizes, notes)
        soup = Soup.plain(vertices, corners[found])
        soup.vertex_colors = point_colors(points, notes)
        colors = point_colors(faces, notes)
        if colors is not None:
            soup.face_colors = np.concatenate((colors, np.ones((len(strip), 3))))[of]
        if (wedges := faces.take_lists("texcoord")) is not None:
            soup.uvs, soup.face_uvs = _wedges(*wedges, sizes, found, of, notes)
        if any("Aspose.3D" in text for text in comments):
            note(notes, "it is by Aspose.3D (26.9), which mirrors PLY through the origin, so that "
                        "all faces look inwards; its OBJ and GLB are right")  # fmt: skip
        names = [match[1].strip(' \t"') for text in comments if (match := _TEXTURE.fullmatch(text))]
        if names:
            images: dict[Path, Array | None] = {}
            soup.materials = [
                Material(named_image(name, [path.parent], max_megapixels, notes, images))
                for name in names
            ]
            soup.face_material = _materials(points, faces, soup.faces, of, len(names), notes)
            grey = soup.face_colors
            if grey is not None and all(m.image is not None for m in soup.materials):
                # One colour is that of the material of an OBJ, by MeshLab.
                if len(grey) and np.ptp(grey) == 0:
                    note(notes, f"the grey {grey[0, 0]:.3g} beside its texture is not used")
                    soup.face_colors = None
                elif (grey != grey[:1]).any():
                    note(notes, "its face colours beside its texture are not used")
                    soup.face_colors = None
        uvs = next((uv for name in _UV if (uv := points.take(*name)) is not None), None)
        if uvs is not None and not len(soup.uvs):
            soup.uvs, soup.face_uvs = uvs.astype(np.float64), soup.faces
            merge(soup)  # the vertices were repeated along seams
        note_bare(soup, notes)
        note_double(soup, notes)
    for element in (points, faces, strips):
        if left := [name for name in element.values if name not in _NORMALS]:
            note(notes, f"its {element.name} {_some(left)} {_are(left)} not used")
    others = [e.name for e in elements.values() if e not in (points, faces, strips) and e.count]
    if others:
        note(notes, f"its element{'s' * (len(others) > 1)} {_some(others)} {_are(others)} not used")
    return soup


def _some(names: list[str]) -> str:
    return ", ".join(names[:6]) + f" and {len(names) - 6} others" * (len(names) > 6)


def _are(names: list[str]) -> str:
    return "are" if len(names) > 1 else "is"


def _no_faces(path: Path, points: Element) -> str:
    """What a file without faces holds, and what can be done with it."""
    if not points.count:
        return f"{path} holds neither faces nor points, so it is no PLY mesh to render"
    what = f"{points.count} points"
    if {"packed_position", "f_dc_0", "scale_0"} & set(points.values):
        what = f"{points.count} Gaussians of 3D Gaussian Splatting"
    return (
        f"{path} holds no faces but {what}, so it is no PLY mesh to render; look at it with "
        f"gendr view {path.name}, or start from it with gendr splat PHOTOS --init {path.name}"
    )


def _positions(points: Element) -> Array:
    """[V, 3] in float64."""
    found = points.take("x", "y", "z")
    if found is None:
        raise ValueError("its vertices have no x, y and z")
    return found.astype(np.float64)


def ply_points(path: Path) -> tuple[Array, Array]:
    """The points of a PLY: positions [P, 3] and RGB [P, 3] in [0, 1], grey if it has none.

    Raises:
        ValueError: If it has none, or is damaged.
    """
    points = read_elements(path.read_bytes())[0].get("vertex") or Element("vertex", 0)
    place, colors = _positions(points), point_colors(points, [])
    if not np.isfinite(place).all():
        raise ValueError("a position is not finite")
    return place, np.full_like(place, 0.5) if colors is None else colors


def _strip_faces(values: Array, lengths: Array) -> Array:
    """The triangles of strips: [F, 3].

    Each row is a list of vertex indices, in which -1 starts another strip. Any three successive
    vertices of a strip are a triangle; every second one has the opposite orientation. Triangles
    with a repeated vertex only connect two places and are left out.
    """
    strip = np.insert(integers(values), np.cumsum(lengths), -1)
    place = np.arange(len(strip))
    begin = np.maximum.accumulate(np.where(strip < 0, place, -1))
    odd = (place - begin - 1)[:-2] % 2 == 1
    a, b, c = strip[:-2], strip[1:-1], strip[2:]
    faces = np.stack((np.where(odd, b, a), np.where(odd, a, b), c), 1)
    whole = (faces >= 0).all(1) & (a != b) & (b != c) & (c != a)
    return faces[whole]


def point_colors(element: Element, notes: list[str]) -> Array | None:
    """RGB [N, 3] in [0, 1] under one of the names that are in use."""
    for names, alpha in zip(_RGB, _ALPHA, strict=True):
        if (found := element.take(*names)) is not None:
            opacity = element.take(alpha)
            found = found if opacity is None else np.concatenate((found, opacity), 1)
            return unit_colors(found, notes, element.kinds[names[0]])
    return None


def _wedges(
    values: Array, lengths: Array, sizes: Array, found: Array, of: Array, notes: list[str]
) -> tuple[Array, Array]:
    """UVs [T, 2], and which each corner of a triangle has [F, 3], of a list in each polygon."""
    lengths = np.pad(lengths, (0, len(sizes) - len(lengths)))
    fits = lengths == 2 * sizes
    if (~fits & (lengths > 0)).any():
        note(
            notes, f"the texcoord of {(~fits & (lengths > 0)).sum()} faces do not fit their corners"
        )
    first, begin = np.cumsum(sizes) - sizes, np.cumsum(lengths) - lengths
    # A list of odd length shifts all that come after it, so each pair is looked up by its place.
    uvs = np.stack((values, np.append(values[1:], 0)), 1).astype(np.float64)
    corner = found - first[of, None]
    place = np.where(fits[of, None], begin[of, None] + 2 * corner, -1)
    used, index = np.unique(place[place >= 0], return_inverse=True)
    place[place >= 0] = index
    return uvs[used], place


def _materials(
    points: Element, faces: Element, corners: Array, of: Array, count: int, notes: list[str]
) -> Array:
    """Which image each triangle has [F], -1 for none."""
    if (number := faces.take("texnumber")) is not None:
        chosen = np.pad(integers(number[:, 0]), (0, max(0, of.max(initial=-1) + 1)))[of]
    elif (number := points.take("texnumber")) is not None:
        chosen = integers(number[corners[:, 0], 0])
    else:
        chosen = np.zeros(len(corners), np.int64)
        if count > 1:
            note(
                notes,
                f"it names {count} textures, but not which faces have them; the first is used",
            )
    if (chosen >= count).any():
        note(notes, f"{(chosen >= count).sum()} of its faces name a texture that is not there")
    return np.where((chosen >= 0) & (chosen < count), chosen, -1)


def ply_bytes(parts: MeshParts) -> bytes:
    """The content of a binary PLY file; float64 if the vertices are, or have an origin."""
    vertices = (parts.world_vertices() if parts.has_origin else parts.vertices).numpy()
    number = "double" if vertices.dtype == np.float64 else "float"
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(vertices)}"]
    header += [f"property {number} {axis}" for axis in "xyz"]
    point = [
        _raw(vertices, "<f8" if number == "double" else "<f4"),
        *_rgb(parts.vertex_colors, header),
    ]
    header += [f"element face {len(parts.faces)}", "property list uchar int vertex_indices"]
    three = np.full((len(parts.faces), 1), 3, np.uint8)
    corner = [three, _raw(parts.faces.numpy(), "<i4"), *_rgb(parts.face_colors, header)]
    text = "\n".join([*header, "end_header", ""]).encode("ascii")
    return text + np.hstack(point).tobytes() + np.hstack(corner).tobytes()


def _raw(values: Array, form: str) -> Array:
    """The bytes of each row of a table."""
    return np.ascontiguousarray(values, form).view(np.uint8).reshape(len(values), -1)


def _rgb(colors: Tensor | None, header: list[str]) -> list[Array]:
    """The bytes of colours, if there are any, whose properties are added to a header."""
    if colors is None:
        return []
    header += [f"property uchar {channel}" for channel in ("red", "green", "blue")]
    return [to_bytes(colors)]
