"""Mesh files: OBJ, PLY, OFF, STL and GLB, in and out.

PLY, OFF, STL and GLB go through trimesh. OBJ is read and written here, because trimesh has one UV
per vertex: it splits the surface along the seams of a texture and renumbers the vertices, while a
fit needs them as they are in the file.

What the formats keep beside vertices and faces:

| format | texture and UVs | vertex colours | face colours |
|--------|-----------------|----------------|--------------|
| obj    | yes (mtl, png)  | yes            | as materials, if there is no texture |
| ply    | read only       | 8 bits         | 8 bits, if there are no vertex colours |
| off    | no              | no             | no |
| stl    | no              | no             | no |
| glb    | yes             | 8 bits         | as vertex colours; vertices repeat where they differ |

OBJ keeps every digit and OFF 17 decimals; the others store positions as float32. Vertices keep
their order and number, but for STL, textured PLY and GLB, which repeat vertices: there, those of
equal position and colour are made one. An OBJ that breaks off between two lines is read as far as
it goes, for nothing in it says how long it is.
"""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from gendr._checks import nearest
from gendr.mesh.data import Mesh
from gendr.mesh.images import (
    MAX_MEGAPIXELS,
    UnreadableImageError,
    check_megapixels,
    decode,
    open_image,
    without_pillow_limit,
)

if TYPE_CHECKING:
    from PIL.Image import Image

Array = NDArray[Any]

FORMATS = (".obj", ".ply", ".off", ".stl", ".glb")

# Texels that the images of an atlas are continued by on each side: what bilinear lookup reaches.
_PADDING = 1


def load_mesh(
    path: str | Path,
    *,
    max_megapixels: float = MAX_MEGAPIXELS,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Mesh:
    """Read one mesh.

    Polygons are cut into triangles. The objects of a scene are placed by their transforms and
    joined. Several texture images are laid out in one. Material colours become face colours.
    What a `Mesh` cannot hold (transparency) is dropped with a warning.

    Args:
        path: An OBJ (with its mtl and images beside it), PLY, OFF, STL or GLB file.
        max_megapixels: The largest texture image that is read, in million pixels; what is larger
            is refused before it is decoded.
        dtype: float32 or float64.
        device: Where the mesh lives.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for a folder, an unknown extension, a file that is no mesh or is damaged, a
            mesh without faces, and a texture that is too large.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a mesh file")
    kind = _kind(path)
    if not path.is_file():
        raise FileNotFoundError(f"no mesh file at {path}")
    notes: list[str] = []
    read = _read_obj if kind == ".obj" else _read_trimesh
    soup = read(path, notes, max_megapixels)
    if len(soup.faces) == 0:
        raise ValueError(f"{path} holds no faces, so it is no {kind[1:].upper()} mesh to render")
    try:
        mesh = _finish(soup, notes).to(dtype=dtype, device=device)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if notes:
        warnings.warn(f"{path.name}: {'; '.join(notes)}", stacklevel=3)
    return mesh


def save_mesh(mesh: Mesh, path: str | Path) -> None:
    """Write one mesh; the table at the top of the module says what each format keeps.

    An OBJ with a texture or face colours comes with an mtl and a png of the same name. What the
    format cannot keep is dropped with one warning that names it. Colours are clamped to [0, 1].

    Raises:
        ValueError: for a batch, a mesh without faces, or an unknown extension.
        FileNotFoundError: for a folder that does not exist.
    """
    path = Path(path)
    kind = _kind(path)
    if len(mesh) != 1:
        raise ValueError(f"a file holds one mesh, got a batch of {len(mesh)}; save mesh[i]")
    if sum(mesh.face_counts) == 0:
        raise ValueError(f"a mesh without faces cannot be saved to {path}: it could not be loaded")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no folder {path.parent} to save {path.name} in; make it first")
    mesh = mesh.detach().to("cpu")
    if kind == ".glb" and mesh.face_colors is not None:
        mesh = _with_corner_colors(mesh)
    held = {
        name
        for name in ("uvs", "texture", "vertex_colors", "face_colors")
        if getattr(mesh, name) is not None
    }
    kept = held & _KEEPS[kind]
    if (kind == ".obj" and "texture" in held) or (kind == ".ply" and "vertex_colors" in held):
        kept -= {"face_colors"}
    if kind == ".obj":
        _write_obj(mesh, path, kept)
    else:
        _write_trimesh(mesh, path, kind, kept)
    if held - kept:
        lost = ", ".join(sorted(held - kept))
        warnings.warn(f"{path.name} does not hold the {lost} of this mesh", stacklevel=3)


def _with_corner_colors(mesh: Mesh) -> Mesh:
    """The same surface with vertex colours in place of face colours: no two faces share a vertex.

    `load` joins those of equal position and colour again.
    """
    corners, colors = mesh.faces.reshape(-1), mesh.corner_colors
    assert colors is not None  # asked only for meshes with face colours
    return Mesh(
        mesh.vertices[corners],
        torch.arange(len(corners)).reshape(-1, 3),
        uvs=mesh.uvs,
        face_uvs=mesh.face_uvs,
        texture=mesh.textures,
        vertex_colors=colors.reshape(-1, 3),
    )


_KEEPS = {
    ".obj": {"uvs", "texture", "vertex_colors", "face_colors"},
    ".ply": {"vertex_colors", "face_colors"},
    ".glb": {"uvs", "texture", "vertex_colors"},
    ".off": set[str](),
    ".stl": set[str](),
}


def _kind(path: Path) -> str:
    """The extension in lower case.

    Raises:
        ValueError: if it is not one of `FORMATS`.
    """
    kind = path.suffix.lower()
    if kind not in FORMATS:
        close = ", ".join(nearest(kind, FORMATS, count=len(FORMATS)))
        raise ValueError(f"{path} must end in one of {close}; got the extension {kind!r}")
    return kind


# -- from a file to a mesh -----------------------------------------------------------------------


@dataclass
class _Material:
    """What a face looks like: an image [H, W, 3] or none, times a colour [3]."""

    image: Array | None = None
    color: Array = field(default_factory=lambda: np.ones(3))


@dataclass
class _Soup:
    """A mesh as a file has it: several materials, UVs for some of the corners."""

    vertices: Array  # [V, 3]
    faces: Array  # [F, 3]
    uvs: Array  # [T, 2]
    face_uvs: Array  # [F, 3], -1 without
    materials: list[_Material]
    face_material: Array  # [F], -1 without
    vertex_colors: Array | None = None  # [V, 3]
    face_colors: Array | None = None  # [F, 3]


def _finish(soup: _Soup, notes: list[str]) -> Mesh:
    """One texture, one set of UVs, one colour per face."""
    materials = [*soup.materials, _Material()]  # the last one is meant by -1
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

    def tensor(values: Array | None) -> torch.Tensor | None:
        return None if values is None else torch.from_numpy(np.array(values, np.float64))

    vertices = torch.from_numpy(np.array(soup.vertices, np.float64))
    return Mesh(
        vertices,
        torch.from_numpy(np.array(soup.faces, np.int64)),
        uvs=tensor(uvs),
        face_uvs=None if face_uvs is None else torch.from_numpy(np.array(face_uvs, np.int64)),
        # The largest part of most meshes, in the right form already: not copied.
        texture=None if texture is None else torch.from_numpy(texture),
        vertex_colors=tensor(soup.vertex_colors),
        face_colors=tensor(face_colors),
    )


def _atlas(
    soup: _Soup, materials: list[_Material], painted: Array, notes: list[str]
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


def load_texture(
    path: str | Path,
    *,
    max_megapixels: float = MAX_MEGAPIXELS,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    """Read an image file as a texture: [H, W, 3], RGB in [0, 1], row 0 the top.

    For meshes whose file does not name its texture: `mesh.with_texture(load_texture("x.png"))`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no image, or one of more than `max_megapixels` million pixels.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no image file at {path}")
    notes: list[str] = []
    with open_image(path, max_megapixels) as image:
        pixels = _pixels(image, notes)
    if notes:
        warnings.warn(f"{path.name}: {'; '.join(notes)}", stacklevel=2)
    return torch.from_numpy(pixels).to(dtype=dtype, device=device)


def _pixels(image: Image, notes: list[str]) -> Array:
    """RGB in [0, 1], [H, W, 3], row 0 the top."""
    if image.mode.startswith("I;16") or image.mode == "I":
        grey = np.array(image, np.float64)
        grey /= 65535  # in place, here and below: of a large image, every copy counts
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        if np.asarray(image.getchannel("A")).min() < 255:
            _note(notes, "the transparency of its texture is dropped")
    pixels = np.array(image.convert("RGB"), np.float64)
    pixels /= 255
    return pixels


def _note(notes: list[str], text: str) -> None:
    """Append a note once."""
    if text not in notes:
        notes.append(text)


# -- OBJ -----------------------------------------------------------------------------------------


def _read_obj(path: Path, notes: list[str], max_megapixels: float) -> _Soup:
    """Vertices, UVs and faces as the file has them; polygons become fans."""
    raw = path.read_bytes()
    if b"\0" in raw:
        raise ValueError(f"{path} is no OBJ file: it holds binary data")
    vertices: list[list[float]] = []
    uvs: list[list[float]] = []
    corners: list[tuple[int, int]] = []  # three per triangle: vertex, uv
    face_material: list[int] = []
    names: dict[str, int] = {}
    libraries: list[str] = []
    material = -1
    text = raw.decode("utf-8", errors="replace").replace("\\\n", " ").replace("\\\r\n", " ")
    for number, line in enumerate(text.splitlines(), 1):
        key, rest = (*line.split(maxsplit=1), "", "")[:2]
        words = rest.split("#")[0].split()
        try:
            if key == "v":
                vertices.append([float(x) for x in words])
                if len(words) < 3:
                    raise ValueError
            elif key == "vt":
                uvs.append([float(x) for x in [*words, "0"][:2]])
            elif key == "f":
                polygon = [_corner(c, len(vertices), len(uvs)) for c in words]
                if len(polygon) < 3:
                    raise ValueError
                for b, c in pairwise(polygon[1:]):
                    corners += (polygon[0], b, c)
                    face_material.append(material)
            elif key == "usemtl":
                name = rest.strip()  # "None" is what Blender writes for no material
                material = -1 if name in ("", "None") else names.setdefault(name, len(names))
            elif key == "mtllib":
                libraries.append(rest.strip())
        except ValueError:
            shown = line.strip()[:40]
            raise ValueError(f"{path} is damaged: line {number} reads {shown!r}") from None
    widths = {len(v) for v in vertices}
    colors = None
    if widths == {6}:
        colors = np.array(vertices)[:, 3:]
        if colors.max(initial=0) > 1.0:  # some scanners write 0 .. 255
            colors = colors / 255
    elif any(w > 4 for w in widths):
        _note(notes, "only some vertices have colours, which are dropped")
    pairs = np.array(corners, np.int64).reshape(-1, 3, 2)
    if len(pairs) and (pairs[..., 0].max() >= len(vertices) or pairs[..., 1].max() >= len(uvs)):
        raise ValueError(f"{path} is damaged: a face names a vertex or UV that is not there")
    library = {}
    for name in libraries if names else ():
        library |= _read_mtl(path.parent, name, notes, max_megapixels)
    missing = [name for name in names if library and name not in library]
    if missing:
        _note(notes, f"its material {missing[0]!r} is not in its mtl")
    return _Soup(
        vertices=np.array([v[:3] for v in vertices]).reshape(-1, 3),
        faces=pairs[..., 0],
        uvs=np.array(uvs).reshape(-1, 2),
        face_uvs=pairs[..., 1],
        materials=[library.get(name, _Material()) for name in names],
        face_material=np.array(face_material, np.int64),
        vertex_colors=colors,
    )


def _corner(text: str, vertices: int, uvs: int) -> tuple[int, int]:
    """Indices of `v`, `v/vt`, `v//vn` or `v/vt/vn`, from 0, the UV -1 if there is none."""
    first, _, second = text.partition("/")
    second = second.partition("/")[0]
    v = _from_zero(int(first), vertices)
    return v, _from_zero(int(second), uvs) if second else -1


def _from_zero(index: int, count: int) -> int:
    """An OBJ index, which counts from 1, or backwards from the latest with -1, as one from 0."""
    if index == 0 or index < -count:
        raise ValueError
    return index - 1 if index > 0 else index + count


def _read_mtl(
    folder: Path, name: str, notes: list[str], max_megapixels: float
) -> dict[str, _Material]:
    """Materials by name; the colour counts where there is no image."""
    path = folder / name
    if not path.is_file():
        _note(notes, f"its material file {name} is not there")
        return {}
    materials: dict[str, _Material] = {}
    images: dict[str, Array] = {}
    current = _Material()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        if key == "newmtl":
            current = materials[rest] = _Material()
        elif key == "Kd":
            try:
                current.color = np.array([float(x) for x in rest.split()[:3]]).reshape(3)
            except ValueError:
                _note(notes, f"the colour {rest!r} in {name} is no RGB")
        elif key.lower() == "map_kd":
            # The name may hold spaces, or come after options such as -s 1 1 1.
            choices = [rest, rest.replace("\\", "/"), rest.split()[-1] if rest else ""]
            choices += [Path(c).name for c in choices[1:]]
            file = next((folder / c for c in choices if c and (folder / c).is_file()), None)
            if file is None:
                _note(notes, f"its texture {rest} is not there")
                continue
            try:
                if str(file) not in images:
                    with open_image(file, max_megapixels) as image:
                        images[str(file)] = _pixels(image, notes)
                current.image = images[str(file)]
            except (UnreadableImageError, OSError):
                _note(notes, f"its texture {rest} is no readable image")
    for material in materials.values():
        # Exporters write any colour beside an image, black included, and viewers show the image.
        if material.image is not None:
            material.color = np.ones(3)
    return materials


def _write_obj(mesh: Mesh, path: Path, kept: set[str]) -> None:
    """OBJ text, with an mtl and a png if it has a texture or face colours."""
    digits = ".9g" if mesh.dtype == torch.float32 else ".17g"

    def row(key: str, values: list[float]) -> str:
        return f"{key} " + " ".join(f"{x:{digits}}" for x in values)

    columns = [mesh.vertices]
    if "vertex_colors" in kept and mesh.vertex_colors is not None:
        columns.append(mesh.vertex_colors.clamp(0, 1))
    lines = [row("v", values) for values in torch.cat(columns, 1).tolist()]
    corners = [[str(i + 1) for i in face] for face in mesh.faces.tolist()]
    if mesh.uvs is not None and mesh.face_uvs is not None:
        lines += [row("vt", values) for values in mesh.uvs.tolist()]
        corners = [
            [f"{v}/{t + 1}" for v, t in zip(face, uvs, strict=True)]
            for face, uvs in zip(corners, mesh.face_uvs.tolist(), strict=True)
        ]
    faces = ["f " + " ".join(face) for face in corners]
    materials: list[str] = []
    if "texture" in kept and mesh.textures is not None:
        image = path.with_suffix(".png")
        _to_image(mesh.textures[0]).save(image)
        materials = ["newmtl textured", "Kd 1 1 1", f"map_Kd {image.name}"]
        faces.insert(0, "usemtl textured")
    elif "face_colors" in kept and mesh.face_colors is not None:
        unique, which = torch.unique(mesh.face_colors.clamp(0, 1), dim=0, return_inverse=True)
        for i, color in enumerate(unique.tolist()):
            materials += [f"newmtl color{i}", row("Kd", color)]
        shown, named = -1, []
        for face, i in zip(faces, which.tolist(), strict=True):
            if i != shown:
                named.append(f"usemtl color{i}")
            shown = i
            named.append(face)
        faces = named
    if materials:
        library = path.with_suffix(".mtl")
        library.write_text("\n".join(materials) + "\n", encoding="utf-8")
        lines.insert(0, f"mtllib {library.name}")
    path.write_text("\n".join(["# gendr", *lines, *faces]) + "\n", encoding="utf-8")


def _to_image(texture: torch.Tensor) -> Image:
    """8-bit RGB image."""
    from PIL import Image

    return Image.fromarray(_to_bytes(texture))


def _to_bytes(colors: torch.Tensor) -> NDArray[np.uint8]:
    """[0, 1] to 0 .. 255, rounded."""
    return (colors.clamp(0, 1) * 255).round().to(torch.uint8).numpy()


# -- PLY, OFF, STL, GLB: trimesh -------------------------------------------------------------------


def _read_trimesh(path: Path, notes: list[str], max_megapixels: float) -> _Soup:
    """All geometries of the file, placed by their transforms."""
    import trimesh

    kind = path.suffix[1:].upper()
    try:
        # Trimesh opens images, which it leaves out if Pillow refuses them. NumPy's warnings are
        # about what a damaged file holds.
        with without_pillow_limit(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _check_complete(path)
            scene: Any = trimesh.load_scene(path, process=False)
    except Exception as error:  # noqa: BLE001 (trimesh raises anything on a damaged file)
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"{path} is no readable {kind} file ({reason[0][:120]})") from None
    parts = []
    for node in scene.graph.nodes_geometry:
        matrix, name = scene.graph[node]
        geometry = scene.geometry[name]
        if isinstance(geometry, trimesh.Trimesh) and len(geometry.faces):
            image = _trimesh_image(getattr(geometry.visual, "material", None))
            if image is not None:
                check_megapixels(f"the texture of {path}", image.size, max_megapixels)
            parts.append(_part(geometry, np.asarray(matrix), notes))
    soup = _joined(parts)
    if kind in ("STL", "GLB") or (kind == "PLY" and len(soup.uvs)):
        _merge(soup)
    return soup


def _check_complete(path: Path) -> None:
    """Raise for what trimesh reads although the end is missing."""
    data = path.read_bytes()
    if path.suffix.lower() == ".off":
        lines = [
            line.split("#")[0].split() for line in data.decode("utf-8", "replace").splitlines()
        ]
        lines = [words for words in lines if words]
        if lines and lines[0][0].endswith("OFF"):
            lines[0].pop(0)
        lines = [words for words in lines if words]
        if lines and len(lines) <= sum(int(n) for n in lines[0][:2]):
            raise ValueError("it has fewer lines than its header says")
    elif path.suffix.lower() == ".glb" and len(data) >= 12:
        (length,) = struct.unpack("<I", data[8:12])
        if data[:4] == b"glTF" and length > len(data):
            raise ValueError(f"it has {len(data)} of {length} bytes")
    elif path.suffix.lower() == ".stl" and b"facet" not in data:
        if len(data) < 84:
            raise ValueError("it has no header")
        (count,) = struct.unpack("<I", data[80:84])
        if len(data) != 84 + 50 * count:
            raise ValueError(f"it has {len(data)} bytes, its header says {84 + 50 * count}")


def _part(geometry: Any, matrix: Array, notes: list[str]) -> _Soup:
    """One trimesh geometry, placed."""
    vertices = np.asarray(geometry.vertices, np.float64)
    faces = np.asarray(geometry.faces, np.int64)
    if not np.array_equal(matrix, np.eye(4)):
        vertices = vertices @ matrix[:3, :3].T + matrix[:3, 3]
        if np.linalg.det(matrix[:3, :3]) < 0:
            faces = faces[:, ::-1]
    part = _Soup(
        vertices=vertices,
        faces=faces,
        uvs=np.zeros((0, 2)),
        face_uvs=np.full_like(faces, -1),
        materials=[],
        face_material=np.full(len(faces), -1),
    )
    visual = geometry.visual
    if visual.kind == "texture":
        uv = getattr(visual, "uv", None)
        if uv is not None and np.shape(uv)[:1] == (len(vertices),):
            part.uvs = np.asarray(uv, np.float64)[:, :2]
            part.face_uvs = faces
        part.materials = [_trimesh_material(visual.material, notes)]
        part.face_material = np.zeros(len(faces), np.int64)
        colors = visual.vertex_attributes.get("color")
        if colors is not None and len(colors) == len(vertices):
            part.vertex_colors = _from_bytes(colors, notes)
    elif visual.kind == "vertex":
        part.vertex_colors = _from_bytes(visual.vertex_colors, notes)
    elif visual.kind == "face":
        part.face_colors = _from_bytes(visual.face_colors, notes)
    return part


def _trimesh_image(material: Any) -> Image | None:
    """The image of a simple or a PBR material; trimesh has read its header only."""
    simple = hasattr(material, "diffuse")
    return getattr(material, "image" if simple else "baseColorTexture", None)


def _trimesh_material(material: Any, notes: list[str]) -> _Material:
    """Image and colour of a simple or a PBR material."""
    simple = hasattr(material, "diffuse")
    image = _trimesh_image(material)
    if image is not None:
        try:
            decode("its texture", image)
        except UnreadableImageError as error:
            _note(notes, str(error))
            image = None
    color = material.diffuse if simple and image is None else None
    color = getattr(material, "baseColorFactor", None) if not simple else color
    return _Material(
        image=None if image is None else _pixels(image, notes),
        color=np.ones(3) if color is None else _from_bytes(np.asarray(color)[None], notes)[0],
    )


def _from_bytes(colors: Any, notes: list[str]) -> Array:
    """RGB in [0, 1] from RGB or RGBA, 8 bits, 16 bits or floating."""
    colors = np.asarray(colors)
    if np.issubdtype(colors.dtype, np.integer):
        colors = colors / float(np.iinfo(colors.dtype).max)
    if colors.shape[1] > 3 and colors[:, 3].min(initial=1.0) < 1:
        _note(notes, "the transparency of its colours is dropped")
    return np.asarray(colors[:, :3], np.float64)


def _joined(parts: list[_Soup]) -> _Soup:
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
        return _Soup(np.zeros((0, 3)), np.zeros((0, 3), np.int64), np.zeros((0, 2)),
                     np.zeros((0, 3), np.int64), [], np.zeros(0, np.int64))  # fmt: skip
    return _Soup(
        vertices=np.concatenate([p.vertices for p in parts]),
        faces=shifted("faces", [len(p.vertices) for p in parts]),
        uvs=np.concatenate([p.uvs for p in parts]),
        face_uvs=shifted("face_uvs", [len(p.uvs) for p in parts]),
        materials=[m for p in parts for m in p.materials],
        face_material=shifted("face_material", [len(p.materials) for p in parts]),
        vertex_colors=colors("vertex_colors", "vertices"),
        face_colors=colors("face_colors", "faces"),
    )


def _merge(soup: _Soup) -> None:
    """Make vertices of equal position and colour one, in the order of their first appearance."""
    key = soup.vertices + 0.0  # -0 and 0 are one position
    if soup.vertex_colors is not None:
        key = np.concatenate((key, soup.vertex_colors), 1)
    _, first, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    keep = first[order]
    soup.faces = rank[inverse.reshape(-1)][soup.faces]
    soup.vertices = soup.vertices[keep]
    if soup.vertex_colors is not None:
        soup.vertex_colors = soup.vertex_colors[keep]


def _write_trimesh(mesh: Mesh, path: Path, kind: str, kept: set[str]) -> None:
    """PLY, OFF, STL or GLB."""
    import trimesh
    from trimesh.visual import ColorVisuals, TextureVisuals
    from trimesh.visual.material import PBRMaterial

    vertices, faces = mesh.vertices.double().numpy(), mesh.faces.numpy()
    colors = None
    if "vertex_colors" in kept and mesh.vertex_colors is not None:
        colors = _to_bytes(mesh.vertex_colors)
    visual: Any = None
    if "uvs" in kept and mesh.uvs is not None and mesh.face_uvs is not None:
        # One UV per vertex: vertices on a seam are repeated, in order, so that `load` can undo it.
        index = mesh.face_uvs.numpy()
        pairs = np.stack((faces, index), -1).reshape(-1, 2)
        lonely = np.setdiff1d(np.arange(len(vertices)), faces)
        pairs = np.concatenate((pairs, np.stack((lonely, np.zeros_like(lonely)), -1)))
        unique, inverse = np.unique(pairs, axis=0, return_inverse=True)
        faces = inverse.reshape(-1)[: faces.size].reshape(-1, 3)
        vertices = vertices[unique[:, 0]]
        image = _to_image(mesh.textures[0]) if mesh.textures is not None else None
        material = PBRMaterial(
            baseColorTexture=image,
            baseColorFactor=[255] * 4,
            metallicFactor=0.0,
            roughnessFactor=1.0,
        )
        visual = TextureVisuals(uv=mesh.uvs.double().numpy()[unique[:, 1]], material=material)
        if colors is not None:
            opaque = np.full((len(colors), 1), 255, np.uint8)
            visual.vertex_attributes["color"] = np.hstack((colors, opaque))[unique[:, 0]]
    elif colors is not None:
        visual = ColorVisuals(vertex_colors=colors)
    elif "face_colors" in kept and mesh.face_colors is not None:
        visual = ColorVisuals(face_colors=_to_bytes(mesh.face_colors))
    geometry = trimesh.Trimesh(vertices, faces, visual=visual, process=False)
    options: dict[str, Any] = {"digits": 17} if kind == ".off" else {}
    geometry.export(path, **options)
