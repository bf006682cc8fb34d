"""OFF files.

Source: Geomview's manual, section 4.2.5 (OFF): the keyword says what each vertex has, in the order
position, normal, colour, texture coordinates; each face is a number of corners, the corners, and a
colour. Other programs write the counts behind the keyword, and leave out that of the edges.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from gendr._common.texts import read_text
from gendr.mesh.files.colors import unit_colors
from gendr.mesh.files.obj_text import Lines, read_floats, rows
from gendr.mesh.files.polygons import integers, ranges, triangles
from gendr.mesh.files.reports import damage_named, note
from gendr.mesh.files.soup import Soup, note_double
from gendr.mesh.parts import MeshParts

_KEYWORD = re.compile(r"(?:\s|#[^\n]*\n)*(NC)?(ST)?(C)?(N)?(ST)?(4)?(n)?(OFF|off)[ \t]*(BINARY)?")
_COUNTS = re.compile(
    r"(?:\s|#[^\n]*\n)*(\d+)[ \t\n]+(\d+)(?:[ \t]+-?\d+)?[ \t]*(?:#[^\n]*)?(?:\n|$)"
)


def read_off(path: Path, notes: list[str], max_megapixels: float) -> Soup:
    """Read polygons, and the colours and texture coordinates that the keyword announces."""
    with damage_named(path):
        text = read_text(path)
        keyword = _KEYWORD.match(text)
        unclear, first, colored, normals, last, four, other, _, binary = (
            keyword.groups() if keyword else (None,) * 9
        )
        textured = first or last  # Geomview has STCOFF, MeshLab CSTOFF, with the same numbers
        if unclear:
            raise ValueError(
                "its keyword has N before C, whose numbers some programs write in one order and "
                "some in the other; save it without normals, as COFF"
            )
        if keyword and (four or other or binary):
            raise ValueError(
                f"it is a {' '.join(keyword[0].split()[-2:])} file, binary or of other than three "
                "dimensions, which is not read; save it as plain OFF"
            )
        counts = _COUNTS.match(text, keyword.end() if keyword else 0)
        if counts is None:
            raise ValueError("it does not begin with OFF and the numbers of vertices and faces")
        lines = text.split("\n")
        before = text.count("\n", 0, counts.end())
        filled = [
            (number, content)
            for number, line in enumerate(lines[before:], before + 1)
            if (content := line.partition("#")[0]).strip()
        ]
        vertices, faces = (int(count) for count in counts.groups())
        if len(filled) < vertices + faces:
            raise ValueError("it has fewer lines than its header says")
        if (more := len(filled) - vertices - faces) > 0:
            note(notes, f"{more} lines after its last face are not read")
        points, widths = read_floats(3, Lines.of(filled[:vertices]), lines)
        polygons, lengths = read_floats(1, Lines.of(filled[vertices : vertices + faces]), lines)
        width = int(widths.min()) if vertices else 3
        if (widths != width).any():
            note(notes, "only some of its vertices have colours, which are not used")
        starts = np.cumsum(widths) - widths
        table = points[starts[:, None] + np.arange(width)].reshape(vertices, -1)
        at = 3 + 3 * bool(normals)
        color = table[:, at : width - 2 * bool(textured)]
        first = np.cumsum(lengths) - lengths
        sizes = polygons[first]
        if (~(sizes >= 0) | (sizes != np.floor(sizes)) | (sizes >= lengths)).any():
            raise ValueError("a face has fewer corners than it says")
        sizes = sizes.astype(np.int64)
        corners = polygons[ranges(first + 1, sizes)]
        corners = integers(corners)
        found, of = triangles(table[:, :3], corners, sizes, notes)
    soup = Soup.plain(table[:, :3].copy(), corners[found])
    if colored and color.shape[1] in (3, 4):
        soup.vertex_colors = unit_colors(color, notes)
    elif color.shape[1]:
        note(notes, f"{color.shape[1]} further numbers of each vertex are not used")
    elif colored:
        note(notes, "its vertices lack the colours that its keyword announces")
    if textured and width >= at + 2:
        soup.uvs, soup.face_uvs = table[:, -2:].copy(), soup.faces
    rest = lengths - 1 - sizes
    if (full := rest >= 3).any():
        columns = np.arange(4 if (rest[full] > 3).all() else 3)
        colors = np.ones((faces, 3))
        colors[full] = unit_colors(polygons[(first + 1 + sizes)[full, None] + columns], notes)
        soup.face_colors = colors[of]
    if ((rest > 0) & ~full).any():
        note(notes, "colours of its faces that are numbers of a colour map are not used")
    note_double(soup, notes)
    return soup


def off_bytes(parts: MeshParts) -> bytes:
    """The content of an OFF file, with every digit."""
    vertices = parts.world_vertices() if parts.has_origin else parts.vertices
    head = f"OFF\n{len(vertices)} {len(parts.faces)} 0\n"
    return (head + rows("", vertices) + rows("3", parts.faces)).encode()
