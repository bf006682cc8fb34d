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

from pathlib import Path

import torch

from gendr.mesh.files.formats import FORMATS
from gendr.mesh.files.textures import load_texture
from gendr.mesh.images import MAX_MEGAPIXELS
from gendr.mesh.mesh import Mesh

__all__ = ["FORMATS", "load_mesh", "load_texture", "mesh_files", "save_mesh"]


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
    return Mesh.load(path, max_megapixels=max_megapixels, dtype=dtype, device=device)


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
    mesh.save(path)


def mesh_files(mesh: Mesh, path: Path) -> dict[Path, bytes]:
    """The files that `save_mesh` writes, for who writes them together with others.

    Raises:
        ValueError: as `save_mesh`.
        FileNotFoundError: as `save_mesh`.
    """
    return mesh.to_files(path)
