"""The picture of scenes from photographs, docs/images/scenes.png.

    python benchmarks/rooms.py draw WORK && python benchmarks/rooms.py measure WORK
    python docs/make_scenes.py WORK

Of each path-traced scene a photo, the mesh that `gendr fit --scene` made of all of them, from
there, and its shape from above.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from gendr import look_at
from gendr.mesh import Mesh
from gendr.photos import visual
from gendr.photos.scene.model import read_scene
from gendr.photos.scene.views import camera_of

IMAGES = Path(__file__).parent / "images"
SCENES = ("room", "front", "heap")
TILE, GAP, COLOURS = (204, 272), 6, 112
BACK = 1.25  # how much farther away the last column is seen from
ELEVATION, FOV = 38.0, 48.0  # of the last column, in degrees


def row(folder: Path) -> list[visual.Pixels]:
    """A photo, the mesh from there, and its shape from above."""
    scene, mesh = read_scene(folder / "photos"), Mesh.load(folder / "given" / "fit.glb")
    mesh = mesh.relative_to(torch.from_numpy(scene.origin))
    i = len(scene) // 2
    image = scene.images[i]
    photo = np.asarray(Image.fromarray(image).resize(TILE[::-1], Image.Resampling.LANCZOS))
    camera = camera_of(scene, [i], image.shape[:2])
    painted = visual.shaded(mesh.with_unlit(), camera, TILE)[0]
    eye, ahead = scene.centres[i], scene.R[i, 2]
    far = float(np.median((scene.points[scene.seen[i]] - eye) @ ahead))
    azimuth = math.degrees(math.atan2(-ahead[0], ahead[2]))
    above = look_at(BACK * far, ELEVATION, azimuth, FOV, at=(eye + far * ahead).tolist())
    return [photo, painted, visual.shaded(mesh, above, TILE, visual.BOTH)[0]]


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("work", type=Path, help="what benchmarks/rooms.py drew and measured")
    tiles = [row(parser.parse_args().work / name) for name in SCENES]
    (tall, wide), count = TILE, len(tiles[0])
    page = visual.Page(count * (wide + GAP) - GAP, len(tiles) * (tall + GAP) - GAP)
    for k, some in enumerate(tiles):
        for n, tile in enumerate(some):
            page.tile(tile, n * (wide + GAP), k * (tall + GAP))
    picture = Image.fromarray(page.pixels()).quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(IMAGES / "scenes.png", optimize=True)


if __name__ == "__main__":
    main()
