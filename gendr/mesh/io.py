"""Mesh files: OBJ, PLY, OFF, STL and GLB, in and out.

PLY, OFF, STL and GLB go through trimesh. OBJ is read and written here, because trimesh has one UV
per vertex: it splits the surface along the seams of a texture and renumbers the vertices, while a
fit needs them as they are in the file.

What the formats keep beside vertices and faces:

| format | texture and UVs | vertex colours | face colours | origin |
|--------|-----------------|----------------|--------------|--------|
| obj    | yes (mtl, png)  | yes            | as materials, if there is no texture | yes |
| ply    | read only       | 8 bits         | 8 bits, if there are no vertex colours | yes |
| off    | no              | no             | no | yes |
| stl    | no              | no             | no | no |
| glb    | yes             | 8 bits         | as vertex colours; vertices repeat | yes |

OBJ and PLY keep every digit and OFF 17 decimals; the others store positions as float32, where GLB
has the origin beside them. Vertices keep their order and number, but for STL, textured PLY and GLB,
which repeat vertices: there, those of equal position and colour are made one. An OBJ that breaks
off between two lines is read as far as it goes, for nothing in it says how long it is.

A mesh far out, such as a survey in metres from the equator, would lose its shape to float32: if
there the distance between neighbouring numbers is more than 1e-4 of its longest side, it is loaded
with coordinates that count from its `origin`, a place of whole numbers in its middle.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterable
from io import BytesIO
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gendr._runtime.checks import nearest
from gendr._runtime.files import write_all
from gendr.mesh import obj
from gendr.mesh.attributes import check_reach
from gendr.mesh.images import (
    MAX_MEGAPIXELS,
    UnreadableImageError,
    check_megapixels,
    open_image,
    without_pillow_limit,
)
from gendr.mesh.interop import (
    scene_soup,
    texture_image,
    to_bytes,
    to_image,
    to_trimesh,
    with_corner_colors,
    world_vertices,
)
from gendr.mesh.mesh import Mesh
from gendr.mesh.ply import strip_faces, to_ply
from gendr.mesh.soup import Array, Soup, merge, origin_of, to_mesh
from gendr.mesh.soup import Material as _Material
from gendr.mesh.soup import note as _note
from gendr.mesh.soup import pixels as _pixels

FORMATS = (".obj", ".ply", ".off", ".stl", ".glb")


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
    What a `Mesh` cannot hold (transparency) is dropped with a warning. So is a mesh with another
    `origin` than 0, to which float32 would be too coarse.

    Args:
        path: An OBJ, PLY, OFF, STL or GLB file. The mtl of an OBJ lies where the OBJ says, seen
            from its folder, and images where the mtl says, seen from its own folder or the OBJ's.
        max_megapixels: The largest texture image that is read, in million pixels; what is larger
            is refused before it is decoded.
        dtype: float32 or float64; float64 leaves all coordinates as they are.
        device: Where the mesh lives.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for a folder, an unknown extension, a file that is no mesh or is damaged, a mesh
            without faces, coordinates too large for the dtype, and a texture that is too large.
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
    check_reach(f"the vertices of {path}", torch.from_numpy(soup.vertices), dtype)
    try:
        mesh = to_mesh(soup, dtype, notes).to(device)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if notes:
        warnings.warn(f"{path.name}: {'; '.join(notes)}", stacklevel=3)
    return mesh


def save_mesh(mesh: Mesh, path: str | Path) -> None:
    """Write one mesh; the table at the top of the module says what each format keeps.

    An OBJ with a texture or face colours comes with an mtl and a png of the same name, or of that
    name and a number if such a file is there already and the OBJ that is replaced does not name it.
    What the format cannot keep is dropped with one warning that names it. Colours are clamped to
    [0, 1]. All files are written beside their places and then moved there: if the disk is full, the
    old ones stay as they are.

    Raises:
        ValueError: for a batch, a mesh without faces, or an unknown extension.
        FileNotFoundError: for a folder that does not exist.
        OSError: if the files cannot be written.
    """
    write_all(mesh_files(mesh, Path(path)))


def mesh_files(mesh: Mesh, path: Path) -> dict[Path, bytes]:
    """The files that `save_mesh` writes, for who writes them together with others.

    Raises:
        ValueError: as `save_mesh`.
        FileNotFoundError: as `save_mesh`.
    """
    kind = _kind(path)
    if len(mesh) != 1:
        raise ValueError(f"a file holds one mesh, got a batch of {len(mesh)}; save mesh[i]")
    if sum(mesh.face_counts) == 0:
        raise ValueError(f"a mesh without faces cannot be saved to {path}: it could not be loaded")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no folder {path.parent} to save {path.name} in; make it first")
    mesh = mesh.detach().to("cpu")
    if kind == ".glb" and mesh.face_colors is not None:
        mesh = with_corner_colors(mesh)
    held = {name for name in _ATTRIBUTES if getattr(mesh, name) is not None}
    held |= {"origin"} if mesh.origin.any() else set()
    kept = held & _KEEPS[kind]
    if (kind == ".obj" and "texture" in held) or (kind == ".ply" and "vertex_colors" in held):
        kept -= {"face_colors"}
    mesh = _with_only(mesh, kept)
    if kind == ".obj":
        files = _obj_files(mesh, path)
    elif kind == ".ply":
        files = {path: _ply_bytes(mesh)}
    else:
        files = {path: _trimesh_bytes(mesh, kind)}
    if held - kept:
        lost = ", ".join(sorted(held - kept))
        warnings.warn(f"{path.name} does not hold the {lost} of this mesh", stacklevel=4)
    return files


def _with_only(mesh: Mesh, kept: Iterable[str]) -> Mesh:
    """The mesh without what its file does not keep."""
    if "uvs" not in kept:
        mesh = mesh.with_uvs(None)
    if "vertex_colors" not in kept:
        mesh = mesh.with_vertex_colors(None)
    if "face_colors" not in kept:
        mesh = mesh.with_face_colors(None)
    return mesh if "origin" in kept else mesh.with_origin(torch.zeros(3))


_ATTRIBUTES = ("uvs", "texture", "vertex_colors", "face_colors")
_KEEPS = {
    ".obj": {*_ATTRIBUTES, "origin"},
    ".ply": {"vertex_colors", "face_colors", "origin"},
    ".glb": {"uvs", "texture", "vertex_colors", "origin"},
    ".off": {"origin"},
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


# -- images ----------------------------------------------------------------------------------------


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


# -- OBJ -----------------------------------------------------------------------------------------


def _read_obj(path: Path, notes: list[str], max_megapixels: float) -> Soup:
    """Vertices, UVs and faces as the file has them; polygons become fans."""
    raw = path.read_bytes()
    if b"\0" in raw:
        raise ValueError(f"{path} is no OBJ file: it holds binary data")
    try:
        text = obj.parse(raw.decode("utf-8", errors="replace"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if text.some_colors:
        _note(notes, "only some vertices have colours, which are dropped")
    library: dict[str, _Material] = {}
    for name in text.libraries if text.materials else ():
        library |= _read_mtl(path.parent, name, notes, max_megapixels)
    missing = [name for name in text.materials if library and name not in library]
    if missing:
        _note(notes, f"its material {missing[0]!r} is not in its mtl")
    return Soup(
        vertices=text.vertices,
        faces=text.faces,
        uvs=text.uvs,
        face_uvs=text.face_uvs,
        materials=[library.get(name, _Material()) for name in text.materials],
        face_material=text.face_material,
        vertex_colors=text.vertex_colors,
    )


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
            places = [base / c for base in (path.parent, folder) for c in choices if c]
            file = next((place for place in places if place.is_file()), None)
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


def _obj_files(mesh: Mesh, path: Path) -> dict[Path, bytes]:
    """OBJ text, with an mtl and a png if it has a texture or face colours; the OBJ comes last."""
    files: dict[Path, bytes] = {}
    materials: list[str] = []
    uses: list[tuple[int, str]] = []  # from which face on which material
    own = _own_files(path)
    if mesh.textures is not None:
        image = _free(path.with_suffix(".png"), own)
        png = BytesIO()
        to_image(mesh.textures[0]).save(png, format="PNG")
        files[image] = png.getvalue()
        materials = ["newmtl textured\n", "Kd 1 1 1\n", f"map_Kd {image.name}\n"]
        uses = [(0, "textured")]
    elif mesh.face_colors is not None:
        unique, which = torch.unique(mesh.face_colors.clamp(0, 1), dim=0, return_inverse=True)
        for i in range(len(unique)):
            materials += [f"newmtl color{i}\n", obj.rows("Kd", unique[i : i + 1])]
        starts = [0, *((which[1:] != which[:-1]).nonzero().reshape(-1) + 1).tolist()]
        uses = [(i, f"color{int(which[i])}") for i in starts]
    lines = ["# gendr\n"]
    if materials:
        library = _free(path.with_suffix(".mtl"), own)
        files[library] = "".join(materials).encode()
        lines.append(f"mtllib {library.name}\n")
    columns = [world_vertices(mesh) if mesh.origin.any() else mesh.vertices]
    if mesh.vertex_colors is not None:
        columns.append(mesh.vertex_colors.clamp(0, 1).to(columns[0].dtype))
    lines.append(obj.rows("v", torch.cat(columns, 1)))
    if mesh.uvs is not None:
        lines.append(obj.rows("vt", mesh.uvs))
    lines += obj.face_rows(mesh.faces, mesh.face_uvs, uses)
    return files | {path: "".join(lines).encode()}


def _own_files(path: Path) -> set[Path]:
    """The mtl files that an OBJ there names, and the images that these name."""
    own: set[Path] = set()
    if path.is_file():
        for library in obj.named(path, "mtllib"):
            own.add(library)
            own |= set(obj.named(library, "map_Kd")) if library.is_file() else set()
    return own


def _free(path: Path, own: set[Path]) -> Path:
    """This path, or with a number after its name: where no file is that is not our own."""
    numbered = (path.with_stem(f"{path.stem}-{i}") for i in count(1))
    return next(p for p in chain([path], numbered) if p in own or not p.exists())


# -- PLY, OFF, STL, GLB: trimesh -------------------------------------------------------------------


def _read_trimesh(path: Path, notes: list[str], max_megapixels: float) -> Soup:
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
            if path.suffix.lower() == ".ply":
                _fill_strips(scene)
    except Exception as error:  # noqa: BLE001 (trimesh raises anything on a damaged file)
        reason = str(error).strip().splitlines() or [type(error).__name__]
        if isinstance(error, RecursionError):
            reason = ["it is nested too deeply"]
        raise ValueError(f"{path} is no readable {kind} file ({reason[0][:120]})") from None
    for geometry in scene.geometry.values():
        image = texture_image(geometry)
        if image is not None:
            check_megapixels(f"the texture of {path}", image.size, max_megapixels)
    try:
        soup = scene_soup(scene, notes)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if kind in ("STL", "GLB") or (kind == "PLY" and len(soup.uvs)):
        merge(soup)
    return soup


def _fill_strips(scene: Any) -> None:
    """Put meshes in the place of point clouds that have triangle strips."""
    import trimesh

    for name, points in scene.geometry.items():
        raw = points.metadata.get("_ply_raw", {})
        if isinstance(points, trimesh.PointCloud) and "tristrips" in raw:
            colors = points.colors if np.size(points.colors) else None
            scene.geometry[name] = trimesh.Trimesh(
                points.vertices,
                strip_faces(raw["tristrips"]),
                vertex_colors=colors,
                process=False,
            )


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


def _ply_bytes(mesh: Mesh) -> bytes:
    """Binary PLY; float64 if that is needed."""
    vertices = world_vertices(mesh) if mesh.origin.any() else mesh.vertices
    colors = [None if c is None else to_bytes(c) for c in (mesh.vertex_colors, mesh.face_colors)]
    return to_ply(vertices.numpy(), mesh.faces.numpy(), *colors)


def _trimesh_bytes(mesh: Mesh, kind: str) -> bytes:
    """OFF, STL or GLB."""
    import trimesh

    geometry = to_trimesh(mesh)
    if kind == ".glb":
        # Positions are float32, but the transform of the scene is not.
        place = np.eye(4)
        place[:3, 3] = origin_of(geometry.vertices, torch.float32)
        geometry.vertices -= place[:3, 3]
        scene: Any = trimesh.Scene()
        scene.add_geometry(geometry, transform=place)
        geometry = scene
    options: dict[str, Any] = {"digits": 17} if kind == ".off" else {}
    data: str | bytes = geometry.export(file_type=kind[1:], **options)
    return data.encode() if isinstance(data, str) else data
