"""Reading and writing mesh files: OBJ, PLY, OFF, STL and GLB.

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

GLB and OBJ also keep whether a mesh is `unlit`: its colours hold the light, as those of photographs
do (KHR_materials_unlit of glTF, `illum 0` of mtl).

OBJ and PLY keep every digit and OFF 17 decimals; the others store positions as float32, and GLB
stores the origin beside them. Vertices keep their order and number, except in STL, textured PLY and
GLB, which repeat vertices: there, vertices of equal position and colour are merged. An OBJ file
that was cut off between two lines is read without an error, because it does not say how long it is.

A mesh far from 0, such as a survey in metres from the equator, would lose its shape in float32. If
neighbouring float32 numbers are more than 1e-4 of its longest side apart there, its coordinates are
made relative to its `origin`, a point with integer coordinates in its middle.
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
    joined. Several texture images are put into one. Material colours become face colours.
    What a `Mesh` cannot hold (transparency) is dropped with a warning. A mesh for which float32 is
    too coarse gets an `origin`, also with a warning.

    Args:
        path: An OBJ, PLY, OFF, STL or GLB file. The path of an mtl is relative to the folder of its
            OBJ; the paths of images are relative to the folder of the mtl or of the OBJ.
        max_megapixels: The largest texture image that is read, in million pixels; what is larger
            is refused before it is decoded.
        dtype: float32 or float64; float64 leaves all coordinates as they are.
        device: Where the mesh lives.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for a folder, an unknown extension, a file that is no mesh or is damaged, a mesh
            without faces, coordinates too large for the dtype, a texture that is too large, and a
            file that claims far more than it holds: a face with more corners than twice the
            vertices (and 1,000), or a GLB of more than 512 MB and 16 times its size once its
            meshes are in all their places, of more than 100,000 such places, or nested too deeply.
    """
    return Mesh.load(path, max_megapixels=max_megapixels, dtype=dtype, device=device)


def save_mesh(mesh: Mesh, path: str | Path) -> None:
    """Write one mesh; the table at the top of the module says what each format keeps.

    An OBJ with a texture or face colours comes with an mtl and a png of the same name, or of that
    name and a number if such a file is there already and the OBJ that is replaced does not name it.
    What the format cannot keep is dropped with one warning that names it. Colours are clamped to
    [0, 1]. All files are first written under temporary names: if the disk is full, the old files
    are kept.

    Raises:
        ValueError: for a batch, a mesh without faces, or an unknown extension.
        FileNotFoundError: for a folder that does not exist.
        OSError: if the files cannot be written.
    """
    mesh.save(path)


def mesh_files(mesh: Mesh, path: Path) -> dict[Path, bytes]:
    """The files that `save_mesh` writes, as contents by path, to be written together with others.

    Raises:
        ValueError: as `save_mesh`.
        FileNotFoundError: as `save_mesh`.
    """
    return mesh.to_files(path)
