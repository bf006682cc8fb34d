"""The text of OBJ files: from lines to arrays, and from arrays to lines.

Files often have millions of lines, so lines of one kind are read together, a block at a time. If a
block cannot be read, it is read again line by line, to find the line that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr._common.texts import numbers, read_text
from gendr.mesh.files.bounds import is_too_long, most_corners
from gendr.mesh.files.colors import unit_colors
from gendr.mesh.files.polygons import triangles
from gendr.mesh.files.reports import note
from gendr.mesh.files.soup import Soup

Array = NDArray[Any]

# How many lines are read together: enough to hide the work per block, few enough for the memory.
BLOCK = 1 << 16

# Words that say nothing about shape or colour: groups, smoothing, normals (which follow from the
# faces), levels of detail, how lines are drawn.
_SILENT = {"g", "o", "s", "mg", "vn", "lod", "bevel", "c_interp", "d_interp", "shadow_obj",
           "trace_obj"}  # fmt: skip
# A comment after something; a backslash that ends a comment; and one that continues a line, while
# that after a letter above ASCII is the second byte of a character in Shift-JIS, Big5 or GBK.
_COMMENT, _ENDED = re.compile(r"[ \t]+#.*"), re.compile(r"^([ \t]*#.*?)\\+$", re.MULTILINE)
_CONTINUED = re.compile(r"(?<![\x80-\U0010ffff])\\\n")


@dataclass
class Lines:
    """Lines of one kind."""

    numbers: list[int] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)  # what follows the word they begin with

    @staticmethod
    def of(pairs: Sequence[tuple[int, str]]) -> Lines:
        """Lines with their numbers."""
        return Lines([number for number, _ in pairs], [body for _, body in pairs])


class _WrongLineError(ValueError):
    """Says which line of the file is wrong."""

    def __init__(self, lines: Sequence[str], number: int) -> None:
        super().__init__(f"line {number} reads {lines[number - 1].strip()[:40]!r}")


def parse(text: str, notes: list[str]) -> tuple[Soup, list[str], list[str]]:
    """Read the text of an OBJ file.

    Args:
        text: of the file.
        notes: Gets a note of what is not used.

    Returns:
        The mesh, whose materials are empty, their names, and the lines that name their libraries.

    Raises:
        ValueError: that shows the first line that is wrong.
    """
    lines = lines_of(text)
    kinds = {key: Lines() for key in ("v", "vt", "f", "usemtl", "mtllib", "#MRGB")}
    others = dict[str, None]()
    for number, line in enumerate(lines, 1):
        words = line.split(maxsplit=1)
        if words and (kind := kinds.get(words[0])) is not None:
            kind.numbers.append(number)
            kind.bodies.append(words[1] if len(words) > 1 else "")
        elif words and words[0][0] != "#" and words[0] not in _SILENT:
            others[words[0]] = None
    if others:
        shown = ", ".join(f"{word:.20}" for word in [*others][:6]) + ", ..." * (len(others) > 6)
        note(notes, f"its lines that begin with {shown} are not used")
    vertices, widths = read_floats(3, kinds["v"], lines)
    first = np.cumsum(widths) - widths
    uvs, uv_widths = read_floats(1, kinds["vt"], lines)
    first_uv = np.cumsum(uv_widths) - uv_widths
    second_uv = np.where(uv_widths > 1, np.append(uvs, 0.0)[first_uv + 1], 0.0)
    most = most_corners(len(widths))
    for number, body in zip(kinds["f"].numbers, kinds["f"].bodies, strict=True):
        if is_too_long(body, most) and is_too_long(body.partition("#")[0], most):
            raise ValueError(
                f"line {number} is a face of more than {most} corners, of {len(widths)} vertices"
            )
    corners, sizes = _read(_corners, 3, kinds["f"], lines)
    corners = corners.reshape(-1, 2)
    face_lines = np.array(kinds["f"].numbers, np.int64)
    for column, key in enumerate(("v", "vt")):
        before = np.searchsorted(np.array(kinds[key].numbers), face_lines).repeat(sizes)
        index = corners[:, column]
        # Indices count from 1, or backwards from the latest, which is -1. A UV of 0 means no UV.
        wrong = index < -before if key == "vt" else (index < -before) | (index == 0)
        if wrong.any():
            raise _WrongLineError(lines, int(face_lines.repeat(sizes)[wrong.argmax()]))
        corners[:, column] = np.where(index < 0, index + before, index - 1)
    if (corners >= [len(widths), len(uv_widths)]).any():
        raise ValueError("a face names a vertex or UV that is not there")
    names = names_of("usemtl", kinds["usemtl"], lines)
    materials = list(dict.fromkeys(filter(None, names)))
    number = {name: i for i, name in enumerate(materials)}
    chosen = np.array([-1, *(number.get(name, -1) for name in names)])
    of_polygon = chosen[np.searchsorted(np.array(kinds["usemtl"].numbers), face_lines)]
    points = vertices[first[:, None] + np.arange(3)].reshape(-1, 3)
    found, of = triangles(points, corners[:, 0], sizes, notes)
    soup = Soup(
        vertices=points,
        faces=corners[:, 0][found],
        uvs=np.stack((uvs[first_uv], second_uv), 1),
        face_uvs=corners[:, 1][found],
        materials=[],
        face_material=of_polygon[of],
        vertex_colors=_colors(vertices, widths, "".join(kinds["#MRGB"].bodies), notes),
    )
    return soup, materials, names_of("mtllib", kinds["mtllib"], lines)


def lines_of(text: str) -> list[str]:
    """The lines of an OBJ or mtl, with those that go on in the next one joined to it."""
    if "\\\n" in text:
        text = _CONTINUED.sub(" ", _ENDED.sub(r"\1", text))
    return text.split("\n")


def names_of(key: str, kind: Lines, lines: Sequence[str]) -> list[str]:
    """What follows a word to the end of its lines: of white space only blanks and tabs part it."""
    return [lines[number - 1].strip(" \t")[len(key) :].strip(" \t") for number in kind.numbers]


def without_comment(name: str) -> str:
    """A name without the comment after it; a name may hold "#" all the same."""
    return _COMMENT.sub("", name)


def _colors(values: Array, widths: Array, painted: str, notes: list[str]) -> Array | None:
    """RGB [V, 3] behind the coordinates of vertices, or as ZBrush paints (MMRRGGBB)."""
    first = np.cumsum(widths) - widths
    four = widths == 4
    if (four & (values[first + 3 * four] != 1)).any():
        note(notes, "the weights of its vertices, v x y z w, are not used")
    if len(widths) and np.isin(widths, (6, 7)).all():
        columns = 3 + np.arange(int(widths.min()) - 3)
        return unit_colors(values[first[:, None] + columns], notes)
    if (widths > 4).any() and (widths == widths[0]).all():
        note(notes, f"its vertices have {widths[0]} numbers, of which only x y z are known")
    elif (widths > 4).any():
        some = "only some" if (widths < 6).any() else "not all"
        note(notes, f"{some} vertices have colours, which are dropped")
    if painted:
        try:
            table = np.frombuffer(bytes.fromhex(painted), np.uint8)
        except ValueError:
            table = np.zeros(0, np.uint8)
        if len(table) == 4 * len(widths):
            return table.reshape(-1, 4)[:, 1:] / 255
        note(notes, "its colours #MRGB are not those of its vertices, and are dropped")
    return None


def _read(
    convert: Callable[[str], Array], least: int, kind: Lines, lines: Sequence[str]
) -> tuple[Array, Array]:
    """The values of all lines of a kind, concatenated, and how many words each line has.

    Args:
        convert: Turns the words of a text into an array, one value or row per word.
        least: How many words a line must have at least.
        kind: The lines to read.
        lines: All lines of the file, to show the one that is wrong.

    Raises:
        ValueError: that shows the first line that is wrong.
    """
    values, widths = [convert("")], [np.zeros(0, np.int64)]
    for start in range(0, len(kind.bodies), BLOCK):
        bodies = kind.bodies[start : start + BLOCK]
        text = "\n".join(bodies)
        if "#" in text:
            bodies = [body.partition("#")[0] for body in bodies]
            text = "\n".join(bodies)
        width = np.fromiter(map(len, map(str.split, bodies)), np.int64, len(bodies))
        try:
            if width.min() < least:
                raise ValueError
            values.append(convert(text))
        except (ValueError, OverflowError):
            wrong = next(i for i, body in enumerate(bodies) if not _good(convert, least, body))
            raise _WrongLineError(lines, kind.numbers[start + wrong]) from None
        widths.append(width)
    return np.concatenate(values), np.concatenate(widths)


def read_floats(least: int, kind: Lines, lines: Sequence[str]) -> tuple[Array, Array]:
    """The numbers of all lines of a kind, concatenated, and how many each line has: `_read`."""
    return _read(_floats, least, kind, lines)


def _good(convert: Callable[[str], Array], least: int, body: str) -> bool:
    """Whether a line can be read."""
    try:
        convert(body)
    except (ValueError, OverflowError):
        return False
    return len(body.split()) >= least


def _floats(text: str) -> Array:
    """The words of a text as numbers: [N]."""
    return np.array(numbers(text), np.float64)


def _corners(text: str) -> Array:
    """The words `v`, `v/vt`, `v//vn` or `v/vt/vn` of a text as [N, 2]; 0 stands for no UV."""
    if "_" in text:  # in a number Python takes it
        raise ValueError
    words = text.split()
    depths = {word.count("/") for word in words}
    if len(depths) == 1:
        depth = depths.pop()
        flat = text.replace("//", "/0/").replace("/", " ").split() if depth else words
        if len(flat) == (depth + 1) * len(words):  # no field is empty
            table = np.array([int(x) for x in flat], np.int64).reshape(-1, depth + 1)
            return np.pad(table, ((0, 0), (0, 1)))[:, :2]
    fields = [(word + "/").split("/")[:2] for word in words]
    return np.array([(int(v), int(vt or 0)) for v, vt in fields], np.int64).reshape(-1, 2)


def named(path: Path, key: str) -> Iterator[Path]:
    """The files that an OBJ or mtl names in the lines that begin with `key`."""
    for line in read_text(path).split("\n"):
        if line.startswith(f"{key} "):
            yield path.parent / line[len(key) :].strip()


def rows(key: str, values: Tensor) -> str:
    """One line for each row of a float or integer tensor [N, C], with all digits, after a word."""
    form = {torch.float32: "%.9g", torch.float64: "%r"}.get(values.dtype, "%d")
    line = " ".join([*filter(None, [key]), *[form] * values.shape[1]]) + "\n"
    return line * len(values) % tuple(values.reshape(-1).tolist())


def face_rows(
    faces: Tensor, face_uvs: Tensor | None, uses: Sequence[tuple[int, str]]
) -> Iterator[str]:
    """One line for each face [F, 3] with the UVs of its corners [F, 3], and those of materials.

    Args:
        faces: Vertex indices of each face, from 0.
        face_uvs: UV indices of its corners, from 0, or None.
        uses: (first face, material) pairs; empty, or beginning with face 0.
    """
    words, line = faces + 1, "f %d %d %d\n"
    if face_uvs is not None:
        words, line = torch.stack((faces, face_uvs), -1) + 1, "f %d/%d %d/%d %d/%d\n"
    ends = [start for start, _ in uses[1:]] + [len(faces)]
    for (start, name), end in zip(uses or [(0, "")], ends, strict=True):
        if name:
            yield f"usemtl {name}\n"
        yield line * (end - start) % tuple(words[start:end].reshape(-1).tolist())
