"""How often `gendr.fit_pose` finds the camera of a mask: random views of any meshes.

    python benchmarks/poses.py MESH... --views 100 --out docs/results
    python benchmarks/poses.py MESH... --track --videos 8 --out docs/results
    python docs/make_figures.py poses

With --track: videos in which the object turns about a random axis by a few degrees an image, found
by `track=True`, and by a search for each image.

Rotations are uniform over all, the object takes 45 to 85 % of the image and lies up to a tenth of
it beside the middle; masks have 128 x 128 pixels. Meshes are named by file, or "chair".

The file is written after each view or video, and with --resume what it holds already is kept.
Seconds are those of the processor, of all threads together, which a busy machine hardly changes.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

import gendr
from gendr.mesh import Camera, Mesh, example, rotation_angle_between
from gendr.photos import visual
from gendr.photos.fitting import PoseResult, fit_pose
from lab import script
from support.cameras import random_camera

SIZE, FOV = 128, 30.0
IMAGES, TURNS = 10, (3.0, 8.0)  # of a video; degrees from image to image
JUMP = 10.0  # degrees by which a step differs from the true one
NEAR, ALIKE = 3.0, 0.98  # degrees; IoU from which a silhouette is the same


def views_of(mesh: Mesh, count: int) -> list[Camera]:
    """Random cameras, the first ones the same for any count."""
    generator = torch.Generator().manual_seed(0)
    return [random_camera(mesh, generator, fov=FOV) for _ in range(count)]


def videos_of(mesh: Mesh, count: int) -> list[tuple[Camera, float]]:
    """The cameras of videos, and by how many degrees an image each turns."""
    generator = torch.Generator().manual_seed(1)
    low, high = mesh.bounding_box()
    found = []
    for number in range(count):
        camera = random_camera(mesh, generator, fov=FOV, apart=0.1)
        axis = torch.nn.functional.normalize(torch.randn(3, generator=generator), dim=0)
        turn = TURNS[number % len(TURNS)]
        turns = math.radians(turn) * torch.arange(float(IMAGES))[:, None] * axis
        found.append((camera.rotated(turns, (low + high)[0] / 2), turn))
    return found


def angles(found: PoseResult, camera: Camera) -> list[float]:
    """The angles of the poses found to the true ones, in degrees."""
    between = rotation_angle_between(found.camera.rotation, camera.rotation)
    return [round(x, 2) for x in between.tolist()]


def measure(mesh: Mesh, camera: Camera) -> dict[str, Any]:
    """How well one camera is found again."""
    mask = visual.silhouettes(mesh, camera, SIZE)
    begun = time.process_time()
    found = fit_pose(mesh, mask, fov=FOV)
    seconds = time.process_time() - begun
    return {
        "angle": angles(found, camera)[0],
        "iou": round(float(found.iou), 4),
        "alike": len(found.candidates[0]),
        "seconds": round(seconds, 3),
    }


def agreement(far: NDArray[Any], ious: NDArray[Any]) -> dict[str, Any]:
    """How many poses were found, by their angles and hard IoUs."""
    near = far < NEAR
    return {
        "near": int(near.sum()),
        "alike": int((~near & (ious >= ALIKE)).sum()),
        "mean_iou": float(ious.mean()),
    }


def summary(views: list[dict[str, Any]]) -> dict[str, Any]:
    """What the views of a mesh say together."""
    far = np.array([view["angle"] for view in views])
    near = far[far < NEAR]
    return {
        "views": len(views),
        **agreement(far, np.array([view["iou"] for view in views])),
        "median_degrees": float(np.median(near)) if near.size else None,
        "median_seconds": float(np.median([view["seconds"] for view in views])),
        "most_seconds": max(view["seconds"] for view in views),
        "each": views,
    }


def measure_video(mesh: Mesh, camera: Camera, turn: float, how: str) -> dict[str, Any]:
    """How well a video is found: tracked, or by a search for each image."""
    masks = visual.silhouettes(mesh, camera, SIZE)
    first: list[float] = []
    begun = time.process_time()

    def told(done: float) -> None:
        if not first and done >= 1 / IMAGES:
            first.append(time.process_time() - begun)

    found = fit_pose(mesh, masks, fov=FOV, track=how == "track", callback=told)
    # The first image is searched for by both.
    seconds = (time.process_time() - begun - first[0]) / (IMAGES - 1)
    seen = found.camera.rotation
    moved = rotation_angle_between(seen[1:], seen[:-1]) - turn
    return {
        "angles": angles(found, camera),
        "ious": [round(x, 4) for x in found.iou.tolist()],
        "searched": list(found.searched),
        "jumps": int((moved.abs() > JUMP).sum()),
        "seconds": round(seconds, 3),
    }


def summary_of_videos(videos: list[dict[str, Any]]) -> dict[str, Any]:
    """What the videos of a mesh, found in one way, say together."""
    far = np.array([video["angles"] for video in videos])
    return {
        "videos": len(videos),
        "images": far.size,
        **agreement(far, np.array([video["ious"] for video in videos])),
        "whole": int((far < NEAR).all(1).sum()),
        "median_degrees": float(np.median(far)),
        "jumps": sum(video["jumps"] for video in videos),
        "seconds": float(np.median([video["seconds"] for video in videos])),
        "each": videos,
    }


def main() -> None:
    """Measure, print, and write a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("meshes", nargs="+", metavar="MESH")
    parser.add_argument("--views", type=int, default=100, metavar="N")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="for the file")
    parser.add_argument("--track", action="store_true", help="videos instead of single views")
    parser.add_argument("--videos", type=int, default=8, metavar="N")
    parser.add_argument("--resume", action="store_true", help="keep what the file holds")
    args = parser.parse_args()
    path = args.out / ("pose-track.json" if args.track else "poses.json")
    args.out.mkdir(parents=True, exist_ok=True)
    facts: dict[str, Any] = {"size": SIZE, "fov": FOV, "near": NEAR, "same": ALIKE}
    if args.track:
        facts |= {"turns": TURNS, "jump": JUMP}
    facts |= {"threads": torch.get_num_threads(), "version": gendr.__version__}
    rows: dict[str, Any] = {}
    if args.resume and path.is_file():
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    for name in args.meshes:
        mesh = example("chair") if name == "chair" else Mesh.load(name)
        row = rows.setdefault(Path(name).stem, {})
        if args.track:
            for how in ("track", "search"):
                done = row.get(how, {}).get("each", [])
                for camera, turn in tqdm(
                    videos_of(mesh, args.videos)[len(done) :], f"{name} {how}"
                ):
                    done.append(measure_video(mesh, camera, turn, how))
                    row[how] = summary_of_videos(done)
                    script.write_json(path, {**facts, "rows": rows})
                print(
                    f"{name}, {how}: {row[how]['near']} of {row[how]['images']} within {NEAR:g} "
                    f"degrees, {row[how]['alike']} more with the same silhouette, "
                    f"{row[how]['jumps']} jumps, {row[how]['seconds']:.2f} s an image"
                )
            continue
        done = row.get("each", [])
        for camera in tqdm(views_of(mesh, args.views)[len(done) :], name):
            done.append(measure(mesh, camera))
            rows[Path(name).stem] = row = summary(done)
            script.write_json(path, {**facts, "rows": rows})
        print(
            f"{name}: {row['near']} of {row['views']} within {NEAR:g} degrees, {row['alike']} "
            f"more with the same silhouette, {row['median_seconds']:.1f} s"
        )


if __name__ == "__main__":
    main()
