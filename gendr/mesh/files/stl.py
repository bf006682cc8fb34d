"""STL files, text and binary.

Source: M. Burns, "Automated Fabrication", 1993, section 6.5; colours in the two bytes after each
triangle as VisCAM and SolidView write them (bit 15 set, then 5 bits each of red, green, blue), or
Materialise Magics (bit 15 not set, blue first, and a colour of the whole in the header). MeshLab
writes a header as if it were of Magics, and sets bit 15 of triangles that have a colour.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from gendr._common.texts import numbers, read_text
from gendr.mesh.files.reports import damage_named, note
from gendr.mesh.files.soup import Array, Soup, merge
from gendr.mesh.parts import MeshParts

_ROW = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("color", "<u2")])
_NAMES = re.compile(r"^[ \t]*(end[ \t]*)?solid.*?(?=facet\s+normal|$)", re.MULTILINE)
_HEADER = 80
# What follows COLOR= and three bytes in files of MeshLab; of Magics they are four, and a comma.
_MESHLAB = b" MATERIAL="


def read_stl(path: Path, notes: list[str], max_megapixels: float) -> Soup:
    """Read triangles; vertices of equal position are merged."""
    data = path.read_bytes()
    with damage_named(path):
        count = int.from_bytes(data[_HEADER : _HEADER + 4], "little")
        # Letters in place of a number would be more triangles than any file has.
        whole = _HEADER + 4 + count * _ROW.itemsize
        text = "" if _HEADER + 4 <= len(data) >= whole else read_text(path).rstrip("\0").lower()
        if ("facet" in text or text.lstrip().startswith("solid")) and "\0" not in text:
            corners, colors = _text(text, notes), None
        elif len(data) < _HEADER + 4:
            raise ValueError("it has no header")
        elif len(data) < whole:
            raise ValueError(f"it has {len(data)} bytes, its header says {whole}")
        else:
            table = np.frombuffer(data, _ROW, count, _HEADER + 4)
            corners, colors = table["corners"].astype(np.float64), _colors(data, table, notes)
            if len(data) - whole >= _ROW.itemsize and any(data[whole:]):
                note(notes, f"{len(data) - whole} bytes after its last triangle are not read")
    soup = Soup.plain(corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3))
    soup.face_colors = colors
    merge(soup)
    return soup


def _text(text: str, notes: list[str]) -> Array:
    """The corners [F, 3, 3] of a text in lower case."""
    if "solid" in text and re.search(r"end[ \t]*solid", text) is None:
        note(notes, "it has no endsolid, so its end may be missing")
    pieces = _NAMES.sub("", text).split("vertex")
    last = np.array(["loop" in piece for piece in pieces[1:]])
    if len(last) % 3 or (last != (np.arange(len(last)) % 3 == 2)).any():
        raise ValueError("a facet has not three vertices")
    words = [word for piece in pieces[1:] for word in piece.split(None, 3)[:3]]
    return np.array(numbers(" ".join(words))).reshape(-1, 3, 3)


def _colors(data: bytes, table: Array, notes: list[str]) -> Array | None:
    """RGB [F, 3] in [0, 1], or None if the file has none."""
    bits = table["color"]
    five = (bits[:, None] >> np.array([10, 5, 0]) & 31) / 31
    own = bits >> 15 == 1
    at = data[:_HEADER].find(b"COLOR=")
    if data[at + 9 : at + 19] == _MESHLAB:  # where bit 15 is set, and elsewhere is no colour
        return np.where(own[:, None], five[:, ::-1], 1.0) if own.any() else None
    if 0 <= at <= _HEADER - 10:
        whole = np.frombuffer(data, np.uint8, 4, at + 6) / 255
        if whole[3] < 1:
            note(notes, "the transparency of its colours is dropped")
        return np.where(own[:, None], whole[:3], five[:, ::-1])
    if own.any():
        return np.where(own[:, None], five, 1.0)
    if bits.any():
        note(notes, "the attributes of its triangles are not used")
    return None


def stl_bytes(parts: MeshParts) -> bytes:
    """The content of a binary STL file."""
    table = np.zeros(len(parts.faces), _ROW)
    corners = parts.vertices.double().numpy()[parts.faces.numpy()]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    table["normal"] = normals / np.where(lengths > 0, lengths, 1)
    table["corners"] = corners
    return b"gendr".ljust(_HEADER) + len(table).to_bytes(4, "little") + table.tobytes()
