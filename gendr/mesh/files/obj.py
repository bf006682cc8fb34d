"""OBJ files with their materials and images."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path

import numpy as np
import torch

from gendr._common.texts import find_file, read_text
from gendr.mesh.files.colors import unit_colors
from gendr.mesh.files.obj_text import face_rows, lines_of, named, parse, rows, without_comment
from gendr.mesh.files.reports import damage_named, note
from gendr.mesh.files.soup import Array, Material, Soup, note_bare, note_double, note_unlit
from gendr.mesh.files.srgb import from_linear
from gendr.mesh.files.textures import named_image, to_png
from gendr.mesh.parts import MeshParts

# What lights a material, which is not kept: only its colour and whether it is lit at all.
_LIGHT = {"ka", "ks", "ns", "ni", "sharpness", "illum", "km", "pr", "pm", "ps", "pc", "pcr",
          "aniso", "anisor"}  # fmt: skip
# Options of an image and how many words follow each; and those that change no colour: filters,
# channels of other maps, the strength of bumps.
_OPTIONS = {"blendu": 1, "blendv": 1, "bm": 1, "boost": 1, "cc": 1, "clamp": 1, "imfchan": 1,
            "mm": 2, "o": 3, "s": 3, "t": 3, "texres": 1, "type": 1}  # fmt: skip
_HARMLESS = {"blendu", "blendv", "bm", "boost", "texres"}
# Things that are not there or not read, of which no more are looked for.
_ABSENT = 1000
# Of MTL files whose Kd is linear: Blender writes the numbers of its shader, and reads them so.
_OF_BLENDER = "# Blender"
_OURS = "# gendr\n"
_UNCHANGED = {"cc": "off", "clamp": "off", "mm": "0 1", "t": "0 0 0"}


@dataclass
class _Library:
    """The materials of the files that an OBJ names.

    Attributes:
        materials: by name.
        plain: the names, by what they are without a comment.
        moves: (scale, offset) [2, 2] of the UVs of some of them, as `map_Kd -s -o` has it.
    """

    materials: dict[str, Material] = field(default_factory=dict)
    plain: dict[str, str] = field(default_factory=dict)
    moves: dict[str, Array] = field(default_factory=dict)

    def find(self, name: str) -> str | None:
        """The name here of what an OBJ names; of either a comment may be part."""
        plain = without_comment(name)
        found = (key for key in (name, plain) if key in self.materials)
        return next(found, self.plain.get(plain))


def read_obj(path: Path, notes: list[str], max_megapixels: float) -> Soup:
    """Read vertices, UVs and polygons as they are in the file, and its materials."""
    text = read_text(path)
    if "\0" in text:
        raise ValueError(f"{path} is no OBJ file: it holds binary data")
    with damage_named(path):
        soup, names, lines = parse(text, notes)
    library, images = _Library(), dict[Path, Array | None]()
    # "None" is what Blender writes for no material, with an mtl that need not be there.
    absent = notes if set(names) - {"None"} else []
    for line in dict.fromkeys(lines) if names else ():
        _check_notes(path, absent)
        for file in _libraries(path.parent, line, absent):
            _read_mtl(file, path.parent, library, images, notes, max_megapixels)
    found = {name: library.find(_in_utf8(name)) for name in names}
    missing = [name for name, key in found.items() if key is None and name != "None"]
    if missing and library.materials:
        note(notes, f"its material {missing[0]!r:.60} is not in its mtl")
    elif missing and not lines:
        note(notes, f"it names materials such as {missing[0]!r:.60}, but no mtllib that has them")
    soup.materials = [library.materials.get(key or "", Material()) for key in found.values()]
    for i, key in enumerate(found.values()):
        if key in library.moves:
            _move(soup, soup.face_material == i, library.moves[key])
    note_bare(soup, notes)
    if not text.startswith(_OURS):  # in which a mesh may have both
        note_double(soup, notes)
    used = np.unique(soup.face_material).tolist()
    note_unlit(soup, [i >= 0 and soup.materials[i].unlit for i in used], notes)
    return soup


def _check_notes(path: Path, notes: list[str]) -> None:
    """Raise for a file of more than a thousand things to say."""
    if len(notes) > _ABSENT:
        raise ValueError(f"{path} names more than {_ABSENT} files or features that are not read")


def _move(soup: Soup, chosen: Array, move: Array) -> None:
    """Give faces UVs of their own: scale times those that they had, plus offset."""
    chosen = chosen[:, None] & (soup.face_uvs >= 0)
    used, index = np.unique(soup.face_uvs[chosen], return_inverse=True)
    soup.face_uvs[chosen] = len(soup.uvs) + index
    soup.uvs = np.concatenate((soup.uvs, move[0] * soup.uvs[used] + move[1]))


def _in_utf8(name: str) -> str:
    """A name by its bytes, if these are UTF-8: other lines of its file may not have been."""
    try:
        return name.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return name


def _libraries(folder: Path, line: str, notes: list[str]) -> list[Path]:
    """The files of a line mtllib, which may name several, or one with spaces."""
    words = line.strip('"'), without_comment(line).strip('"')
    for whole in dict.fromkeys(words):
        if whole and (file := find_file(folder, whole)) is not None:
            return [file]
    files: list[Path] = []
    for name in re.split(r"(?<=\.mtl)[ \t]+", words[1], flags=re.IGNORECASE):
        last = name.replace("\\", "/").rpartition("/")[2]  # a path of another machine
        parts = [find_file(folder, name) or find_file(folder, last)]
        if parts == [None]:
            parts = [find_file(folder, word) for word in [*dict.fromkeys(name.split())][:_ABSENT]]
        if None in parts or not parts:
            note(notes, f"its material file {name} is not there")
        files += filter(None, parts)
    return files


def _read_mtl(
    path: Path,
    beside: Path,
    library: _Library,
    images: dict[Path, Array | None],
    notes: list[str],
    max_megapixels: float,
) -> None:
    """Add the materials of a file to a library; of two with one name the first counts."""
    materials: dict[str, Material] = {}
    current, name, faint = Material(), "", set[str]()
    maps: dict[str, str] = {}
    colors: list[tuple[Material, list[float]]] = []
    text = read_text(path)
    for line in lines_of(text):
        words = line.strip(" \t").replace("\t", " ").partition(" ")
        key, rest = words[0].lower(), words[2].strip()
        if key == "newmtl":
            name = _in_utf8(line.strip(" \t")[len(key) :].strip(" \t"))
            if name in library.materials or name in materials:
                note(notes, f"its material {name!r:.60} is defined twice; the first counts")
            current = Material()
            materials.setdefault(name, current)
            maps = {}
        elif key == "kd":
            try:
                color = [float(x) for x in without_comment(rest).split()[:3]]
                color = color * 3 if len(color) == 1 else color  # of one number, all are this
                if len(color) != 3:
                    raise ValueError
                colors.append((current, color))
            except ValueError:
                note(notes, f"the colour {rest!r:.60} in {path.name} is no RGB")
        elif key == "illum":
            current.unlit = rest.split()[:1] == ["0"]  # a constant colour
        elif key == "map_kd":
            maps[key] = rest
            _check_notes(path, notes)
            image, move = _image(rest, path.parent, beside, images, notes, max_megapixels)
            current.image = image
            first = materials.get(name) is current and name not in library.materials
            if first and (move != [[1, 1], [0, 0]]).any():
                library.moves[name] = move
        elif key in ("d", "tr", "tf", "map_d"):
            if _is_faint(key, rest):
                faint.add(name)
        elif key == "ke":
            if any(word not in ("0", "0.0", "0.000000") for word in rest.split()):
                note(notes, "the emission Ke of its materials is not used")
        elif key == "map_ka" and rest in maps.values():
            pass
        elif key and key[0] != "#" and key not in _LIGHT:
            note(notes, f"the {words[0]:.20} of its materials is not used")
    if colors:  # together, as what is white is the same for all
        found = unit_colors(np.array([color for _, color in colors]), notes)
        if text.startswith(_OF_BLENDER):
            found = from_linear(found)
        for (material, _), color in zip(colors, found, strict=True):
            material.color = color
    if faint:
        note(notes, "the transparency of its materials is dropped")
    for name, material in materials.items():
        if material.image is not None and not _is_tint(material.color):
            # Exporters write some grey beside an image, black included; viewers show the image.
            if 0 < material.color.max() < 1:
                note(notes, f"the grey {material.color[0]:.3g} beside its texture is not used")
            material.color = np.ones(3)
        library.materials.setdefault(name, material)
        library.plain.setdefault(without_comment(name), name)


def _is_tint(color: Array) -> bool:
    return bool(np.ptp(color) > 0)


def _is_faint(key: str, rest: str) -> bool:
    """Whether a line d, Tr or Tf makes a material let light through."""
    if key == "map_d":
        return True
    try:
        values = [float(word) for word in rest.replace("-halo", "").split()]
    except ValueError:
        return key != "tf"
    # Some write Tr for d, so that 1 is opaque, as is 0.
    return any(value < 1 for value in values) and not (key == "tr" and values[:1] == [0.0])


def _image(
    line: str,
    folder: Path,
    beside: Path,
    images: dict[Path, Array | None],
    notes: list[str],
    max_megapixels: float,
) -> tuple[Array | None, Array]:
    """The image of a line map_Kd, and the (scale, offset) of its UVs [2, 2]."""
    move = np.array([[1.0, 1.0], [0.0, 0.0]])
    name = line
    whole = any(find_file(place, name) is not None for place in (folder, beside))
    while not whole and (match := re.match(r"-([a-z]+)[ \t]+", name)):
        if (count := _OPTIONS.get(match[1])) is None:
            break
        name = name[match.end() :]
        values: list[str] = []
        while len(values) < count and (word := re.match(r"(\S+)[ \t]+", name)):
            if count > 1 and not _is_number(word[1]):
                break
            values.append(word[1])
            name = name[word.end() :]
        if match[1] in ("s", "o"):
            numbers = [float(value) for value in values[:2]]
            move["so".index(match[1]), : len(numbers)] = numbers
        elif match[1] not in _HARMLESS and " ".join(values) != _UNCHANGED.get(match[1]):
            note(notes, f"the option -{match[1]} of its texture is not used")
    plain = without_comment(name)
    there = any(find_file(place, name) is not None for place in (folder, beside))
    name = (name if there else plain).strip('"')
    return named_image(name, (folder, beside), max_megapixels, notes, images), move


def _is_number(word: str) -> bool:
    try:
        return np.isfinite(float(word))
    except ValueError:
        return False


def obj_files(parts: MeshParts, path: Path) -> dict[Path, bytes]:
    """The files of an OBJ: mtl and png if there is a texture or face colours, the OBJ last."""
    files: dict[Path, bytes] = {}
    materials: list[str] = []
    uses: list[tuple[int, str]] = []  # (first face, material)
    own = _own_files(path)
    if parts.texture is not None:
        image = _free(path.with_suffix(".png"), own)
        files[image] = to_png(parts.texture)
        materials = ["newmtl textured\n", "Kd 1 1 1\n", f"map_Kd {image.name}\n"]
        uses = [(0, "textured")]
    elif parts.face_colors is not None:
        unique, which = torch.unique(parts.face_colors.clamp(0, 1), dim=0, return_inverse=True)
        for i in range(len(unique)):
            materials += [f"newmtl color{i}\n", rows("Kd", unique[i : i + 1])]
        starts = [0, *((which[1:] != which[:-1]).nonzero().reshape(-1) + 1).tolist()]
        uses = [(i, f"color{int(which[i])}") for i in starts]
    elif parts.unlit:
        materials, uses = ["newmtl plain\n", "Kd 1 1 1\n"], [(0, "plain")]
    if parts.unlit:
        materials = [f"{x}illum 0\n" if x.startswith("newmtl") else x for x in materials]
    lines = [_OURS]
    if materials:
        library = _free(path.with_suffix(".mtl"), own)
        files[library] = _encoded(materials)
        lines.append(f"mtllib {library.name}\n")
    columns = [parts.world_vertices() if parts.has_origin else parts.vertices]
    if parts.vertex_colors is not None:
        columns.append(parts.vertex_colors.clamp(0, 1).to(columns[0].dtype))
    lines.append(rows("v", torch.cat(columns, 1)))
    if parts.uvs is not None:
        lines.append(rows("vt", parts.uvs))
    lines += face_rows(parts.faces, parts.face_uvs, uses)
    return files | {path: _encoded(lines)}


def _encoded(lines: list[str]) -> bytes:
    """The bytes of a text, in which names of files that are no UTF-8 stay what they are."""
    return "".join(lines).encode(errors="surrogateescape")


def _own_files(path: Path) -> set[Path]:
    """The mtl files that an existing OBJ names, and the images that these name."""
    own: set[Path] = set()
    if path.is_file():
        for library in named(path, "mtllib"):
            own.add(library)
            own |= set(named(library, "map_Kd")) if library.is_file() else set()
    return own


def _free(path: Path, own: set[Path]) -> Path:
    """This path, with a number after its name if a file that is not our own has the path."""
    numbered = (path.with_stem(f"{path.stem}-{i}") for i in count(1))
    return next(p for p in chain([path], numbered) if p in own or not p.exists())
