"""Silhouettes of meshes as a data set: classes of objects seen from random sides."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

import gendr
from gendr._common.arrays import read_arrays
from lab.data import Examples, ExampleSplits
from lab.data.examples import split_by_group

DISTANCE, FIELD = 4.0, 30.0  # of the camera; the unit ball fills the image
ELEVATIONS = (-20.0, 50.0)
# Sides of a pixel are cut so often, so that edges are grey.
FINER = 2


def read_meshes(path: str | Path) -> list[tuple[Tensor, Tensor]]:
    """Vertices [V, 3] and faces [F, 3] of all meshes of an npz file.

    Args:
        path: with `verts` and `faces` (local to a mesh) of all meshes, one after the other, and the
            offsets `vert_offset` and `face_offset`, one more than there are meshes.

    Raises:
        ValueError: if an array is missing.
    """
    wanted = ("verts", "faces", "vert_offset", "face_offset")
    file = read_arrays(Path(path), wanted)
    if missing := {*wanted} - {*file}:
        raise ValueError(f"{path} holds no {', '.join(sorted(missing))}")
    vertices, faces = torch.from_numpy(file["verts"]), torch.from_numpy(file["faces"])
    starts = zip(file["vert_offset"].tolist(), file["face_offset"].tolist(), strict=True)
    cuts = [*starts]
    return [(vertices[v:w].float(), faces[f:g].long()) for (v, f), (w, g) in pairwise(cuts)]


@torch.no_grad()
def silhouettes(
    vertices: Tensor, faces: Tensor, views: int, size: int, generator: torch.Generator
) -> Tensor:
    """Silhouettes [views, 1, size, size], uint8, of a mesh moved and scaled into the unit ball."""
    low, high = vertices.amin(0), vertices.amax(0)
    vertices = vertices - (low + high) / 2
    vertices = vertices / vertices.norm(dim=-1).max().clamp(min=1e-12)
    azimuths = 360 * torch.rand(views, generator=generator)
    least, most = ELEVATIONS
    elevations = least + (most - least) * torch.rand(views, generator=generator)
    renderer = gendr.Renderer(FINER * size, dist="heaviside", tconorm="max")
    camera = gendr.look_at(DISTANCE, elevations, azimuths, fov=FIELD)
    alpha = renderer(gendr.Mesh(vertices, faces), camera).alpha[:, None]
    alpha = torch.nn.functional.avg_pool2d(alpha, FINER)
    return (255 * alpha).round().to(torch.uint8)


def silhouette_splits(
    folder: str | Path, views: int = 8, size: int = 32, seed: int = 0, cache: Path | None = None
) -> ExampleSplits:
    """Silhouettes of the meshes of a folder, a class per file; no mesh is in two parts.

    Args:
        folder: with npz files as `read_meshes` takes them, in whose alphabetical order the classes
            are numbered.
        views: of each mesh.
        size: of the images, in pixels.
        seed: of the views and of the split.
        cache: a file that keeps the silhouettes, so that they are rendered once.

    Raises:
        ValueError: if there are no two files of meshes.
    """
    files = sorted(Path(folder).glob("*.npz"))
    if len(files) < 2:
        raise ValueError(f"{folder} must have an npz file of meshes for each class")
    asked = np.array([str([file.name for file in files]), str((views, size, seed))])
    if cache is None or not cache.exists() or not _is_same(cache, asked):
        images: list[Tensor] = []
        labels: list[int] = []
        for label, file in enumerate(tqdm(files, desc="silhouettes")):
            generator = torch.Generator().manual_seed(1000 * seed + label)
            for mesh in read_meshes(file):
                images.append(silhouettes(*mesh, views, size, generator))
                labels.append(label)
        found = torch.cat(images).numpy(), np.array(labels).repeat(views)
        if cache is not None:
            np.savez_compressed(cache, images=found[0], labels=found[1], asked=asked)
    else:
        file = read_arrays(cache, ("images", "labels"))
        found = file["images"], file["labels"]
    examples = Examples(torch.from_numpy(found[0]), torch.from_numpy(found[1]), len(files))
    return split_by_group(examples, torch.arange(len(found[1])) // views, seed)


def _is_same(cache: Path, asked: np.ndarray) -> bool:
    return np.array_equal(read_arrays(cache, ("asked",))["asked"], asked)
