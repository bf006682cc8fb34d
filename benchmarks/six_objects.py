"""Six painted objects of our own, from photos to textured meshes, with a picture of each.

    python benchmarks/six_objects.py --out docs/results
    python docs/make_figures.py objects

Photos are rendered with hard edges, 16 samples a pixel, in a light that stays where it is; their
cameras stand on a spiral over a sphere. Shape and texture are those of `gendr.fit` from the hull
and `gendr.fit_colors`, with their defaults. What is compared are held-out views, on another spiral.

Each object is written to a folder of its own as soon as it is done (pictures as PNG, numbers as
JSON), and with --resume what is there is kept. Seconds are those of the processor.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from fit_quality import made, spiral
from fit_starts import volume_iou

import gendr
from gendr._common.files import write_whole
from gendr.losses import iou, psnr
from gendr.mesh import Mesh, example, mesh_quality
from gendr.photos import visual
from lab import script
from support.photographs import photographs

ASSETS = Path(__file__).parents[1] / "assets"
SIZE, VIEWS, HELD_VIEWS = 256, 24, 9
TILE = 112  # of the pictures
# Fineness of the paint: at least so many faces have a colour at each corner.
PAINTED = 60_000
# Of each object: two colours, the view of the picture, and how many waves its paint has.
CREAM, BLUE = (0.93, 0.88, 0.74), (0.14, 0.30, 0.55)
RED, SAND, GREEN, WHITE = (0.72, 0.20, 0.16), (0.90, 0.76, 0.50), (0.20, 0.48, 0.36), (0.9,) * 3
OBJECTS: dict[str, tuple[tuple[float, ...], tuple[float, ...], tuple[float, float], float]] = {
    "teapot": (CREAM, BLUE, (25.0, 20.0), 12.0),
    "chair": (SAND, RED, (25.0, 35.0), 14.0),
    "airplane": (WHITE, RED, (40.0, 30.0), 16.0),
    "mug": (GREEN, CREAM, (30.0, 60.0), 10.0),
    "torus": (BLUE, SAND, (40.0, 20.0), 12.0),
    "double torus": (RED, WHITE, (65.0, 15.0), 14.0),
}


def objects() -> dict[str, Mesh]:
    """All six, normalized and painted."""
    known = {
        "teapot": Mesh.load(ASSETS / "teapot.obj"),
        "chair": example("chair"),
        "airplane": Mesh.load(ASSETS / "airplane.obj"),
        **made(),
    }
    found = {}
    for name, (one, other, _, waves) in OBJECTS.items():
        mesh = known[name].normalized()
        while len(mesh.faces) < PAINTED:
            mesh = mesh.subdivided()
        part = torch.sigmoid(12 * torch.sin(waves * mesh.vertices).prod(1, keepdim=True))
        colors = part * torch.tensor(one) + (1 - part) * torch.tensor(other)
        found[name] = mesh.with_vertex_colors(colors)
    return found


def measure(name: str, target: Mesh) -> tuple[dict[str, Any], visual.Pixels]:
    """How good a fit is, and a column of pictures: a held-out photo, the fit, its shape."""
    camera, held = spiral(target, VIEWS, 0.0), spiral(target, HELD_VIEWS, 77.0)
    photos, masks = photographs(target, camera, SIZE)
    begun = time.process_time()
    fitted = gendr.fit(masks, camera, init="hull")
    shaped = time.process_time()
    painted = gendr.fit_colors(fitted.mesh, photos, camera, masks).mesh
    ended = time.process_time()
    wanted, wanted_alpha = photographs(target, held, SIZE)
    shown, alpha = photographs(painted, held, SIZE, lighting=None)
    quality = mesh_quality(fitted.mesh)
    row = {
        "object": name,
        "held_iou": float(iou(alpha, wanted_alpha).mean()),
        "held_psnr": float(psnr(shown, wanted, torch.maximum(alpha, wanted_alpha)).mean()),
        "volume": volume_iou(fitted.mesh, target),
        "genus": quality["genus"],
        "faces": fitted.mesh.face_counts[0],
        "shape_seconds": shaped - begun,
        "color_seconds": ended - shaped,
    }
    elevation, azimuth = OBJECTS[name][2]
    view = visual.orbit(target, [azimuth], elevation, fill=visual.CLOSE_FILL)
    tiles = [
        *visual.composited(*photographs(target, view, TILE)),
        *visual.composited(*photographs(painted, view, TILE, lighting=None)),
        *visual.shaded(fitted.mesh, view, TILE, visual.FIT),
    ]
    return row, column(tiles)


def column(tiles: list[visual.Pixels]) -> visual.Pixels:
    """Tiles below each other."""
    page = visual.Page(TILE, sum(len(tile) for tile in tiles))
    y = 0
    for tile in tiles:
        page.tile(tile, 0, y)
        y += len(tile)
    return page.pixels()


def main() -> None:
    """Measure, print, and write files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--resume", action="store_true", help="keep what the folder holds")
    args = parser.parse_args()
    folder = args.out / "six-objects"
    folder.mkdir(parents=True, exist_ok=True)
    for name, target in objects().items():
        file = folder / f"{name.replace(' ', '-')}.json"
        if not (args.resume and file.is_file()):
            row, tiles = measure(name, target)
            write_whole(file.with_suffix(".png"), visual.picture(tiles))
            row |= {"views": VIEWS, "size": SIZE, "threads": torch.get_num_threads()}
            script.write_json(file, {**row, "version": gendr.__version__})
        row = json.loads(file.read_text(encoding="utf-8"))
        shown = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        print(" ".join(shown), flush=True)


if __name__ == "__main__":
    main()
