"""glTF files of Gaussians: KHR_gaussian_splatting, ratified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gendr.mesh.files.gltf import accessors
from gendr.mesh.files.gltf.document import Document, GltfError, Object, child, listed
from gendr.mesh.files.gltf.scene import mesh_instances
from gendr.mesh.files.reports import note
from gendr.photos.splatting.gaussians.cloud import Cloud, moved
from gendr.photos.splatting.harmonics import COUNTS

Array = NDArray[Any]

__all__ = ["EXTENSION", "read_gltf"]

EXTENSION = "KHR_gaussian_splatting"


def read_gltf(path: Path, notes: list[str]) -> Cloud:
    """The Gaussians that the default scene shows, in the world of its nodes, unchecked."""
    document, found = Document(path, notes, {EXTENSION}), list[Cloud]()
    for shown in mesh_instances(document):
        for primitive in listed(document.item("meshes", shown.mesh), "primitives"):
            look = child(primitive, "extensions").get(EXTENSION)
            if not isinstance(look, dict):
                note(notes, "what it has beside Gaussians is not used")
                continue
            cloud = _cloud(document, primitive, look)
            found += [moved(cloud, matrix) for matrix in shown.matrices]
    if not found:
        raise GltfError("its scene shows no Gaussians")
    least = min(cloud.harmonics.shape[1] for cloud in found if cloud.harmonics is not None)
    most = max(cloud.harmonics.shape[1] for cloud in found if cloud.harmonics is not None)
    columns = [[*(c.parts or ()), c.points] for c in found]
    if least < most:  # of another primitive
        for column in columns:
            column[0] = np.pad(column[0], ((0, 0), (0, most - column[0].shape[1]), (0, 0)))
    harmonics, opacity, sizes, turns, points = map(np.concatenate, zip(*columns, strict=True))
    return Cloud(points, None, harmonics, opacity, sizes, turns)


def _cloud(document: Document, primitive: Object, look: Object) -> Cloud:
    """The Gaussians of one primitive, in its own coordinates."""
    attributes, notes = child(primitive, "attributes"), document.notes
    if primitive.get("mode") != 0:
        raise GltfError("its Gaussians are no points")
    if look.get("kernel") != "ellipse":
        raise GltfError(f"its Gaussians have the kernel {look.get('kernel')!r:.40}, not 'ellipse'")
    if others := child(look, "extensions"):
        raise GltfError(f"its Gaussians need {', '.join(others)[:80]}, which is not read")
    if "lin" in str(look.get("colorSpace")):
        note(notes, "its colours are linear and are taken as sRGB")

    def read(name: str, *kinds: str) -> Array:
        name = f"{EXTENSION}:{name}" if name != "POSITION" else name
        if name not in attributes:
            raise GltfError(f"its Gaussians lack {name}")
        return accessors.values(document, attributes[name], *kinds).astype(np.float32)

    points, sizes = read("POSITION", "VEC3"), read("SCALE", "VEC3")
    if (sizes < 0).any():
        note(notes, "its scales are logarithms, as in drafts of the extension")
        sizes = np.exp(sizes)
    turns = np.roll(read("ROTATION", "VEC4"), 1, 1)  # from x, y, z, w
    opacity = read("OPACITY", "SCALAR")[:, 0]
    prefix = f"{EXTENSION}:SH_DEGREE_"
    degree = max((int(n[len(prefix)]) for n in attributes if n.startswith(prefix)), default=0)
    if degree >= len(COUNTS):
        raise GltfError(f"its Gaussians have harmonics of degree {degree}")
    harmonics = np.stack(
        [
            read(f"SH_DEGREE_{n}_COEF_{i}", "VEC3")
            for n in range(degree + 1)
            for i in range(2 * n + 1)
        ],
        1,
    )
    if not len(points) == len(sizes) == len(turns) == len(opacity) == len(harmonics):
        raise GltfError("its Gaussians have attributes of different lengths")
    return Cloud(points, None, harmonics, opacity, sizes, turns)
