"""The text of OBJ files: from lines to arrays, and from arrays to lines.

Files often have millions of lines, so lines of one kind are read together, a block at a time. If a
block cannot be read, it is read again line by line, to find the line that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gendr.mesh.files.bounds import is_too_long, most_corners
from gendr.mesh.files.reports import note
from gendr.mesh.files.soup import Soup

Array = NDArray[Any]

# How many lines are read together: enough to hide the work per block, few enough for the memory.
BLOCK = 1 << 16


@dataclass
class _Lines:
    """All lines that begin with the same word."""

    numbers: list[int] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)  # what follows the word


class _WrongLineError(ValueError):
    """Says which line of the file is wrong."""

    def __init__(self, lines: Sequence[str], number: int) -> None:
        super().__init__(f"line {number} reads {lines[number - 1].strip()[:40]!r}")


def parse(text: str, notes: list[str]) -> tuple[Soup, list[str], list[str]]:
    """Read the text of an OBJ file; polygons are cut into triangle fans.

    Args:
        text: of the file.
        notes: Gets a note if some vertices have colours, and others have none.

    Returns:
        The mesh, whose materials are empty, their names, and the libraries that define them.

    Raises:
        ValueError: that shows the first line that is wrong.
    """
    lines = text.replace("\\\n", " ").replace("\\\r\n", " ").splitlines()
    kinds = {key: _Lines() for key in ("v", "vt", "f", "usemtl", "mtllib")}
    for number, line in enumerate(lines, 1):
        words = line.split(maxsplit=1)
        if words and (kind := kinds.get(words[0])) is not None:
            kind.numbers.append(number)
            kind.bodies.append(words[1] if len(words) > 1 else "")
    vertices, widths = _read(_floats, 3, kinds["v"], lines)
    first = np.cumsum(widths) - widths
    colors = vertices.reshape(-1, 6)[:, 3:] if len(widths) and (widths == 6).all() else None
    if colors is not None and colors.max() > 1.0:  # some scanners write 0 .. 255
        colors = colors / 255
    if colors is None and (widths > 4).any():
        note(notes, "only some vertices have colours, which are dropped")
    uvs, uv_widths = _read(_floats, 1, kinds["vt"], lines)
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
    names = [body.strip() for body in kinds["usemtl"].bodies]
    # "None" is what Blender writes for no material.
    materials = list(dict.fromkeys(name for name in names if name not in ("", "None")))
    number = {name: i for i, name in enumerate(materials)}
    chosen = np.array([-1, *(number.get(name, -1) for name in names)])
    of_polygon = chosen[np.searchsorted(np.array(kinds["usemtl"].numbers), face_lines)]
    triangles = corners[_fans(sizes)]
    soup = Soup(
        vertices=vertices[first[:, None] + np.arange(3)].reshape(-1, 3),
        faces=triangles[..., 0],
        uvs=np.stack((uvs[first_uv], second_uv), 1),
        face_uvs=triangles[..., 1],
        materials=[],
        face_material=of_polygon.repeat(sizes - 2),
        vertex_colors=colors,
    )
    return soup, materials, [body.strip() for body in kinds["mtllib"].bodies]


def _read(
    convert: Callable[[str], Array], least: int, kind: _Lines, lines: Sequence[str]
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


def _good(convert: Callable[[str], Array], least: int, body: str) -> bool:
    """Whether a line can be read."""
    try:
        convert(body)
    except (ValueError, OverflowError):
        return False
    return len(body.split()) >= least


def _floats(text: str) -> Array:
    """The words of a text as numbers: [N]."""
    return np.array([float(word) for word in text.split()], np.float64)


def _corners(text: str) -> Array:
    """The words `v`, `v/vt`, `v//vn` or `v/vt/vn` of a text as [N, 2]; 0 stands for no UV."""
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


def _fans(sizes: Array) -> Array:
    """Triangle fans of polygons with `sizes` corners each, as indices of corners: [F, 3]."""
    count = sizes - 2
    place = np.arange(count.sum()) - (np.cumsum(count) - count).repeat(count)
    first = (np.cumsum(sizes) - sizes).repeat(count)
    return np.stack((first, first + place + 1, first + place + 2), 1)


def named(path: Path, key: str) -> Iterator[Path]:
    """The files that an OBJ or mtl names in the lines that begin with `key`."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith(f"{key} "):
                yield path.parent / line[len(key) :].strip()


def rows(key: str, values: Tensor) -> str:
    """One line for each row of a float or integer tensor [N, C], with all digits."""
    form = {torch.float32: "%.9g", torch.float64: "%r"}.get(values.dtype, "%d")
    line = " ".join([key, *[form] * values.shape[1]]) + "\n"
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
