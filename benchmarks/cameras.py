"""How well `gendr.refine_cameras` puts poses right: photos of another renderer, poses perturbed.

    python benchmarks/cameras.py MESH... --out docs/results

24 views in three rings (those of `benchmarks/photos.py`, with its depth buffer in NumPy); each pose
is turned by 1.5 degrees about an axis of its own and shifted by 2 % of the distance. Errors are
measured after all cameras were turned, scaled and shifted together to be as near as they can to the
true ones. A mesh without a texture gets a pattern that depends on the place.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import photos
import torch
import torch.nn.functional as F
from rows import Rows, make_parser
from torch import Tensor

import gendr
from gendr.mesh import Camera, Mesh, axis_angle_to_matrix, load_texture, rotation_angle_between
from gendr.mesh.examples import example, example_names
from gendr.photos.fitting.cameras.refine import aligned

DEGREES, PART = 1.5, 0.02
WAYS = ("masks", "hard masks", "colours")


def perturbed(camera: Camera, seed: int) -> Camera:
    """Cameras each turned and shifted by so much, in directions of their own."""
    generator = torch.Generator().manual_seed(seed)
    one, two = (
        F.normalize(torch.randn(len(camera), 3, generator=generator), dim=1) for _ in range(2)
    )
    far = camera.translation.norm(dim=1, keepdim=True)
    return Camera(
        axis_angle_to_matrix(one * math.radians(DEGREES)) @ camera.rotation,
        camera.translation + two * PART * far,
        camera.focal,
        camera.principal,
    )


def scene(mesh: Mesh, size: int) -> tuple[Tensor, Tensor, Camera]:
    """Colours, masks and cameras."""
    part = size / photos.HEIGHT
    photos.HEIGHT, photos.WIDTH = round(part * photos.HEIGHT), round(part * photos.WIDTH)
    photos.FOCAL *= part
    photos.MIDDLE = (part * photos.MIDDLE[0], part * photos.MIDDLE[1])
    views = photos.poses(photos.FITTED)
    images = torch.from_numpy(np.stack([photos.drawn(mesh, *view) for view in views])).float()
    x, y = photos.MIDDLE
    matrix = torch.tensor([[photos.FOCAL, 0, x], [0, photos.FOCAL, y], [0, 0, 1]])
    rotation, shift = (
        torch.from_numpy(np.stack(each)).float() for each in zip(*views, strict=True)
    )
    camera = Camera.from_opencv(rotation, shift, matrix, (photos.HEIGHT, photos.WIDTH))
    return images[..., :3].permute(0, 3, 1, 2).contiguous(), images[..., 3].contiguous(), camera


def measure(
    name: str, mesh: Mesh, size: int, seeds: int, ways: list[str]
) -> Iterator[dict[str, Any]]:
    """Errors of all ways and seeds."""
    images, masks, camera = scene(mesh, size)
    for seed in range(seeds):
        given = perturbed(camera, seed)
        for way in ways:
            begun = time.perf_counter()
            used = (masks > 0.5).float() if way == "hard masks" else masks
            found = gendr.refine_cameras(used, given, images if way == "colours" else None)
            near = aligned(found.camera, camera)
            angle = rotation_angle_between(near.rotation, camera.rotation)
            apart = (near.eye - camera.eye).norm(dim=1) / camera.eye.norm(dim=1)
            yield {
                "mesh": name,
                "size": size,
                "way": way,
                "seed": seed,
                "mean": float(angle.mean()),
                "median": float(angle.median()),
                "max": float(angle.max()),
                "share": float((angle < 0.3).float().mean()),
                "eye": float(apart.mean()),
                "gap": found.gap,
                "iou": found.iou,
                "color_error": found.color_error,
                "refined": found.refined,
                "seconds": time.perf_counter() - begun,
            }


def main() -> None:
    """Measure, print, and write a file."""
    parser = make_parser(__doc__, "cameras.json")
    parser.add_argument(
        "meshes", nargs="+", metavar="MESH", help="a file or the name of an example"
    )
    parser.add_argument("--texture", type=Path, metavar="IMAGE", help="of the meshes with UVs")
    parser.add_argument("--size", type=int, default=256, metavar="N", help="shorter side")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    args = parser.parse_args()
    rows = Rows()
    whole = photos.HEIGHT, photos.WIDTH, photos.FOCAL, photos.MIDDLE
    for text in args.meshes:
        photos.HEIGHT, photos.WIDTH, photos.FOCAL, photos.MIDDLE = whole
        mesh = example(text) if text in example_names() else Mesh.load(text)
        mesh = mesh.normalized()
        if args.texture is not None and mesh.uvs is not None:
            mesh = mesh.with_texture(load_texture(args.texture))
        for row in measure(Path(text).stem, mesh, args.size, args.seeds, args.ways):
            rows.add(row)
    rows.write(args.out, "cameras.json", degrees=DEGREES, part=PART)


if __name__ == "__main__":
    main()
