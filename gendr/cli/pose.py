"""`gendr pose`: the camera of each image, with pictures to judge it by."""

from __future__ import annotations

import json
import math
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gendr import visual
from gendr._runtime.files import write_all
from gendr.cli.common import check_writable, model_file, versions
from gendr.fitting.pose import PoseResult, fit_pose, shrunk
from gendr.mesh import Camera, Mesh
from gendr.mesh.images import open_image
from gendr.reconstruction.inputs import object_mask

CAMERA, OVERLAY, SEARCH = "camera.json", "overlay.png", "search.gif"
# Shorter side of the masks; images of the sheet and of the animation; how many of them it shows.
SIDE, TILE, SHOWN = 256, 168, 4
# How many of the other poses the sheet shows.
OTHERS = 3


def run(args: Namespace) -> int:
    """Run `gendr pose` with parsed arguments and return the exit status."""
    from tqdm import tqdm

    paths = [Path(text) for text in args.images]
    mesh = Mesh.load(model_file(args.mesh), max_megapixels=args.max_megapixels)
    read = [_read(path, args.max_megapixels) for path in paths]
    out = check_writable(Path(args.output))
    results = []
    with tqdm(total=100 * len(paths), desc="pose", unit="%", disable=args.quiet) as bar:

        def tell(stage: str, done: float) -> None:
            bar.set_postfix_str(stage, refresh=False)
            bar.update(int(100 * (len(results) + done)) - bar.n)

        for path, mask in zip(paths, read, strict=True):
            try:
                found = fit_pose(
                    mesh, mask, fov=None if args.find_fov else args.fov, callback=tell,
                    starts=args.starts, steps=args.steps, image_size=args.image_size,
                )  # fmt: skip
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
            results.append(found)
    names = [path.name for path in paths]
    facts = {
        "mesh": str(args.mesh),
        "fov": "found" if args.find_fov else args.fov,
        "versions": versions(),
        "images": [
            _entry(name, mask, result)
            for name, mask, result in zip(names, read, results, strict=True)
        ],
    }
    text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
    sheet = _sheet(Path(args.mesh).name, names, mesh, read, results)
    frames = list(_frames(names, mesh, read, results))
    write_all(
        {
            out / OVERLAY: visual.picture(sheet),
            out / SEARCH: visual.gif(frames, seconds=0.25, hold=2.0),
            out / CAMERA: text.encode(),
        }
    )
    if not args.quiet:
        for name, result in zip(names, results, strict=True):
            sys.stdout.write(f"{name}: {_sure(result)}\n")
        sys.stdout.write(f"{out}: {CAMERA}, {OVERLAY}, {SEARCH}\n")
    return 0


def _read(path: Path, max_megapixels: float) -> Tensor:
    """The mask [H, W] of an image, at most `SIDE` pixels along its shorter side."""
    with open_image(path, max_megapixels) as image:
        pixels = np.asarray(image.convert("RGBA"), np.float32) / 255
    try:
        return shrunk(object_mask(torch.from_numpy(pixels).permute(2, 0, 1)), SIDE)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _sure(result: PoseResult) -> str:
    """How sure a pose is, in words."""
    others = result.candidates[0][1:]
    text = f"IoU {float(result.iou):.3f}"
    if not others:
        return f"{text}, no other pose looks alike"
    angles = ", ".join(f"{each.angle:.0f}" for each in others)
    return f"{text}; {len(others)} more look alike, turned by {angles} degrees"


def _entry(name: str, mask: Tensor, result: PoseResult) -> dict[str, Any]:
    size = (mask.shape[0], mask.shape[1])
    camera = result.camera
    r, t, k = camera.to_opencv(size)
    names = ("R", "T", "focal_length", "principal_point")
    torch3d = dict(zip(names, (each[0].tolist() for each in camera.to_pytorch3d()), strict=True))
    fov = 2 * math.degrees(math.atan(1 / float(camera.focal[0].max())))
    return {
        "image": name,
        "image_size": list(size),
        "iou": float(result.iou),
        "fov": fov,
        "opengl": {"camera_to_world": camera.camera_to_world[0].tolist()},
        "opencv": {"R": r[0].tolist(), "t": t[0].tolist(), "K": k[0].tolist()},
        "pytorch3d": {**torch3d, "in_ndc": True},
        "others": [
            {
                "iou": each.iou,
                "degrees": each.angle,
                "camera_to_world": each.camera.camera_to_world[0].tolist(),
            }
            for each in result.candidates[0][1:]
        ],
    }


# ---------------------------------------------------------------------------------------------
# pictures


def _overlay(mesh: Mesh, camera: Camera, mask: Tensor, window: visual.Closeup) -> visual.Pixels:
    """The difference of a mask and of the mesh, in a window."""
    found = visual.silhouettes(mesh, camera, (mask.shape[0], mask.shape[1]))[0]
    return visual.difference(window.cut(mask, 0), window.cut(found, 0))


def _sheet(
    title: str, names: list[str], mesh: Mesh, masks: list[Tensor], results: list[PoseResult]
) -> visual.Pixels:
    """A row for each image: its mask, the mesh, their difference, and the other poses."""
    windows = [visual.Closeup.of(mask[None], TILE) for mask in masks]
    left, gap, top = 14, 8, 66
    others = min(OTHERS, max(len(result.candidates[0]) - 1 for result in results))
    width = max(left + (3 + others) * (TILE + gap) + 8, 560)
    heights = [window.size[0] + 40 for window in windows]
    page = visual.Page(width, top + sum(heights))
    page.text(left, 12, f"{title} in {len(names)} image{'s' * (len(names) > 1)}", 17)
    legend = "grey: both; blue: the image only; orange: the mesh only"
    page.text(left, 38, f"mask, mesh in the pose found, difference ({legend})", 12)
    y = top
    for name, mask, result, window, height in zip(
        names, masks, results, windows, heights, strict=True
    ):
        blank = torch.zeros_like(mask)
        tiles = [visual.difference(window.cut(mask, 0), window.cut(blank, 0))]
        tiles += visual.shaded(mesh, window.camera(result.camera), window.size, visual.FIT)
        tiles += [_overlay(mesh, result.camera, mask, window)]
        for place, tile in enumerate(tiles):
            page.tile(tile, left + place * (TILE + gap), y)
        for place, each in enumerate(result.candidates[0][1 : 1 + others], 3):
            (tile,) = visual.shaded(mesh, window.camera(each.camera), window.size, visual.BOTH)
            x = left + place * (TILE + gap)
            page.tile(tile, x, y)
            page.text(x, y + window.size[0] + 4, f"or this: {each.iou:.3f}, {each.angle:.0f}°", 12)
        page.text(left, y + window.size[0] + 4, f"{name}: {_sure(result)}"[:90], 12)
        y += height
    return page.pixels()


def _frames(
    names: list[str], mesh: Mesh, masks: list[Tensor], results: list[PoseResult]
) -> Iterator[visual.Pixels]:
    """The best pose after each part of the search, over the mask."""
    chosen = visual.spread(len(names), SHOWN)
    windows = {i: visual.Closeup.of(masks[i][None], TILE) for i in chosen}
    tall = max(window.size[0] for window in windows.values())
    gap, top = 8, 30
    for step in range(max(len(results[i].trace[0]) for i in chosen)):
        page = visual.Page(14 + len(chosen) * (TILE + gap), top + tall + 12)
        for place, i in enumerate(chosen):
            trace = results[i].trace[0]
            camera = trace[min(step, len(trace) - 1)]
            x = 10 + place * (TILE + gap)
            page.text(x, 8, names[i][:24], 13)
            page.tile(_overlay(mesh, camera, masks[i], windows[i]), x, top)
        yield page.pixels()
