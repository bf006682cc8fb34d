"""OBJ files with their materials and images."""

from __future__ import annotations

from io import BytesIO
from itertools import chain, count
from pathlib import Path

import numpy as np
import torch

from gendr.mesh.files.obj_text import face_rows, named, parse, rows
from gendr.mesh.files.reports import damage_named, note
from gendr.mesh.files.soup import Array, Material, Soup, note_unlit
from gendr.mesh.files.textures import pixels, to_image
from gendr.mesh.images import UnreadableImageError, open_image
from gendr.mesh.parts import MeshParts


def read_obj(path: Path, notes: list[str], max_megapixels: float) -> Soup:
    """Read vertices, UVs and faces as they are in the file; polygons become triangle fans."""
    raw = path.read_bytes()
    if b"\0" in raw:
        raise ValueError(f"{path} is no OBJ file: it holds binary data")
    with damage_named(path):
        soup, names, libraries = parse(raw.decode("utf-8", errors="replace"), notes)
    known: dict[str, Material] = {}
    for library in dict.fromkeys(libraries) if names else ():
        known |= _read_mtl(path.parent, library, notes, max_megapixels)
    missing = [name for name in names if known and name not in known]
    if missing:
        note(notes, f"its material {missing[0]!r} is not in its mtl")
    soup.materials = [known.get(name, Material()) for name in names]
    used = np.unique(soup.face_material).tolist()
    note_unlit(soup, [i >= 0 and soup.materials[i].unlit for i in used], notes)
    return soup


def _read_mtl(
    folder: Path, name: str, notes: list[str], max_megapixels: float
) -> dict[str, Material]:
    """Materials by name; the colour of a material is used if it has no image."""
    path = folder / name
    if not path.is_file():
        note(notes, f"its material file {name} is not there")
        return {}
    materials: dict[str, Material] = {}
    images: dict[str, Array] = {}
    absent: set[str] = set()
    current = Material()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        if key == "newmtl":
            current = materials[rest] = Material()
        elif key == "Kd":
            try:
                current.color = np.array([float(x) for x in rest.split()[:3]]).reshape(3)
            except ValueError:
                note(notes, f"the colour {rest!r} in {name} is no RGB")
        elif key == "illum":
            current.unlit = rest == "0"  # a constant colour
        elif key.lower() == "map_kd":
            if rest in absent:
                continue
            # The name may hold spaces, or come after options such as -s 1 1 1.
            choices = [rest, rest.replace("\\", "/"), rest.split()[-1] if rest else ""]
            choices += [Path(c).name for c in choices[1:]]
            places = [base / c for base in (path.parent, folder) for c in choices if c]
            file = next((place for place in places if place.is_file()), None)
            if file is None:
                note(notes, f"its texture {rest} is not there")
                absent.add(rest)
                continue
            try:
                if str(file) not in images:
                    with open_image(file, max_megapixels) as image:
                        images[str(file)] = pixels(image, notes)
                current.image = images[str(file)]
            except (UnreadableImageError, OSError):
                note(notes, f"its texture {rest} is no readable image")
    for material in materials.values():
        # Exporters write any colour beside an image, black included, and viewers show the image.
        if material.image is not None:
            material.color = np.ones(3)
    return materials


def obj_files(parts: MeshParts, path: Path) -> dict[Path, bytes]:
    """The files of an OBJ: mtl and png if there is a texture or face colours, the OBJ last."""
    files: dict[Path, bytes] = {}
    materials: list[str] = []
    uses: list[tuple[int, str]] = []  # (first face, material)
    own = _own_files(path)
    if parts.texture is not None:
        image = _free(path.with_suffix(".png"), own)
        png = BytesIO()
        to_image(parts.texture).save(png, format="PNG")
        files[image] = png.getvalue()
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
    lines = ["# gendr\n"]
    if materials:
        library = _free(path.with_suffix(".mtl"), own)
        files[library] = "".join(materials).encode()
        lines.append(f"mtllib {library.name}\n")
    columns = [parts.world_vertices() if parts.has_origin else parts.vertices]
    if parts.vertex_colors is not None:
        columns.append(parts.vertex_colors.clamp(0, 1).to(columns[0].dtype))
    lines.append(rows("v", torch.cat(columns, 1)))
    if parts.uvs is not None:
        lines.append(rows("vt", parts.uvs))
    lines += face_rows(parts.faces, parts.face_uvs, uses)
    return files | {path: "".join(lines).encode()}


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
