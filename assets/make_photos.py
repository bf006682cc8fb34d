"""Make the sample photos in this folder: `python assets/make_photos.py [folder]`.

    photos/           16 views of a painted teapot, 128 x 128, with transparency and transforms.json
    photo.png         one more, before a plain wall, by a camera that no file tells
    video/            masks of 8 images of a video, in which the chair turns and drifts

`gendr fit` and `gendr pose` are tried with them in docs/photos.md and docs/pose.md. The teapot is
that of teapot.obj, half as large as a unit; the painting is a function of the place.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import sys
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

import gendr
from gendr.mesh import Camera, Mesh, example
from gendr.photos import save_views, visual
from support.photographs import photographs

FOLDER = Path(__file__).resolve().parent
SIZE, VIEWS, FRAMES = 128, 16, 8
FOV = 30.0
CREAM, BLUE, ORANGE = (0.93, 0.88, 0.74), (0.14, 0.30, 0.55), (0.86, 0.42, 0.16)
WALL = (0.82, 0.84, 0.86)


def painted() -> Mesh:
    """The teapot: cream, a blue wave with dots around its belly, rim and knob orange."""
    mesh = Mesh.load(FOLDER / "teapot.obj").normalized().scaled(0.5).subdivided().subdivided()
    low, high = mesh.bounding_box()
    x, y, z = mesh.vertices.unbind(1)
    height = (y - low[0, 1]) / (high[0, 1] - low[0, 1])
    around = torch.atan2(z, x)
    wave = 0.38 + 0.07 * torch.sin(6 * around)
    turns = 12 * around / (2 * torch.pi)
    beside = (turns - turns.round()) * 2 * torch.pi / 12 * (x * x + z * z).sqrt()
    tall = float(high[0, 1] - low[0, 1])
    is_dot = (beside / tall).square() + (height - 0.62).square() < 0.045**2
    is_blue = ((height - wave).abs() < 0.06) | is_dot
    is_orange = (height > 0.88) | (height < 0.06)
    colors = torch.tensor(CREAM).expand(len(y), 3)
    colors = torch.where(is_blue[:, None], torch.tensor(BLUE), colors)
    return mesh.with_vertex_colors(torch.where(is_orange[:, None], torch.tensor(ORANGE), colors))


def cameras() -> Camera:
    """Around the teapot in three rings, by turns."""
    i = torch.arange(VIEWS)
    elevation = torch.tensor([12.0, 50.0, -25.0, 30.0])[i % 4]
    return gendr.look_at(2.05, elevation, i * 360 / VIEWS, FOV)


def stranger() -> Camera:
    """The camera of the single photo."""
    return gendr.look_at(2.4, 24.0, 205.0, FOV, at=(0.05, -0.03, 0.0))


def saved(image: Tensor, path: Path, mode: str) -> None:
    """A PNG of an image [..., H, W] in [0, 1]."""
    pixels = (255 * image.clamp(0, 1)).round().to(torch.uint8)
    pixels = pixels.permute(1, 2, 0) if image.ndim == 3 else pixels
    Image.fromarray(pixels.numpy()).convert(mode).save(path, optimize=True)


def main(folder: Path = FOLDER) -> None:
    """Write all files."""
    mesh = painted()
    rgb, alpha = photographs(mesh, cameras(), SIZE)
    save_views(folder / "photos", alpha, cameras(), rgb=rgb)
    rgb, alpha = photographs(mesh, stranger(), SIZE)
    wall = torch.tensor(WALL)[:, None, None]
    saved(rgb[0] + wall * (1 - alpha[0]), folder / "photo.png", "RGB")
    chair, i = example("chair"), torch.arange(float(FRAMES))
    camera = gendr.look_at(2.9, 18 + 2 * i, 20 + 7 * i, FOV)
    camera = camera.moved((0.02 * i - 0.07)[:, None] * camera.right)
    (folder / "video").mkdir(exist_ok=True)
    for number, mask in enumerate(visual.silhouettes(chair, camera, SIZE), 1):
        saved(mask, folder / "video" / f"{number}.png", "1")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
