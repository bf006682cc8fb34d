"""How often `gendr.fit_pose` finds the camera of a mask: random views of any meshes.

    python benchmarks/poses.py MESH... --views 100 --out docs/results
    python benchmarks/poses.py MESH... --track --out docs/results

With --track: videos in which the object turns about a random axis by a few degrees an image, found
by `track=True`, and by a search for each image. Their seconds are those of one run, side by side.

Rotations are uniform over all, the object takes 45 to 85 % of the image and lies up to a tenth of
it beside the middle; masks have 128 x 128 pixels. Meshes are named by file, or "chair".
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

import gendr
from gendr import visual
from gendr.experiments import script
from gendr.fitting import fit_pose
from gendr.mesh import Mesh, example, rotation_angle_between
from gendr.testing.cameras import random_camera

SIZE, FOV = 128, 30.0
IMAGES, TURNS = 10, (3.0, 8.0)  # of a video; degrees from image to image
JUMP = 10.0  # degrees by which a step differs from the true one
NEAR, ALIKE = 3.0, 0.98  # degrees; IoU from which a silhouette is the same


def measure(mesh: Mesh, views: int) -> dict[str, Any]:
    """The angle of each pose to the true one, its IoU and its seconds."""
    generator = torch.Generator().manual_seed(0)
    angles, ious, seconds = [], [], []
    for _ in tqdm(range(views), "poses"):
        camera = random_camera(mesh, generator, fov=FOV)
        mask = visual.silhouettes(mesh, camera, SIZE)
        begun = time.perf_counter()
        found = fit_pose(mesh, mask, fov=FOV)
        seconds.append(time.perf_counter() - begun)
        angles.append(float(rotation_angle_between(found.camera.rotation, camera.rotation)))
        ious.append(float(found.iou))
    near = np.array(angles) < NEAR
    alike = ~near & (np.array(ious) >= ALIKE)
    return {
        "views": views,
        "near": int(near.sum()),
        "alike": int(alike.sum()),
        "median_degrees": float(np.median(np.array(angles)[near])) if near.any() else None,
        "mean_iou": float(np.mean(ious)),
        "median_seconds": float(np.median(seconds)),
        "angles": [round(x, 2) for x in angles],
        "ious": [round(x, 4) for x in ious],
    }


def measure_videos(mesh: Mesh, videos: int) -> dict[str, Any]:
    """The angles of tracked poses to the true ones, and the seconds of both ways."""
    generator = torch.Generator().manual_seed(1)
    low, high = mesh.bounding_box()
    centre = (low + high)[0] / 2
    angles: dict[str, list[float]] = {"track": [], "search": []}
    seconds: dict[str, list[float]] = {"track": [], "search": []}
    jumps: dict[str, int] = {"track": 0, "search": 0}
    ious: dict[str, list[float]] = {"track": [], "search": []}
    anew = 0
    for number in tqdm(range(videos), "videos"):
        camera = random_camera(mesh, generator, fov=FOV, apart=0.1)
        axis = torch.nn.functional.normalize(torch.randn(3, generator=generator), dim=0)
        turn = math.radians(TURNS[number % len(TURNS)])
        camera = camera.rotated(turn * torch.arange(float(IMAGES))[:, None] * axis, centre)
        masks = visual.silhouettes(mesh, camera, SIZE)
        first: list[float] = []
        found = fit_pose(mesh, masks[:1], fov=FOV)  # what is compiled or kept is there from now on
        begun = time.perf_counter()
        found = fit_pose(
            mesh, masks, fov=FOV, track=True,
            callback=lambda s, done, t=first, b=begun: t.append(time.perf_counter() - b)
            if not t and done >= 1 / IMAGES else None,
        )  # fmt: skip
        # The first image is searched for by both.
        seconds["track"].append((time.perf_counter() - begun - first[0]) / (IMAGES - 1))
        anew += len(found.searched) - 1
        begun = time.perf_counter()
        apart = fit_pose(mesh, masks, fov=FOV)
        seconds["search"].append((time.perf_counter() - begun) / IMAGES)
        for how, result in (("track", found), ("search", apart)):
            angles[how] += rotation_angle_between(result.camera.rotation, camera.rotation).tolist()
            ious[how] += result.iou.tolist()
            seen = result.camera.rotation
            moved = rotation_angle_between(seen[1:], seen[:-1]) - math.degrees(turn)
            jumps[how] += int((moved.abs() > JUMP).sum())
    return {
        "videos": videos,
        "images": videos * IMAGES,
        "searched_anew": anew,
        "ratio": sum(seconds["search"]) / sum(seconds["track"]),
        **{
            how: {
                "near": int((np.array(angles[how]) < NEAR).sum()),
                "median_degrees": float(np.median(angles[how])),
                "mean_iou": float(np.mean(ious[how])),
                "jumps": jumps[how],
                "seconds": float(np.median(seconds[how])),
                "angles": [round(x, 2) for x in angles[how]],
            }
            for how in angles
        },
    }


def main() -> None:
    """Measure, print, and write a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("meshes", nargs="+", metavar="MESH")
    parser.add_argument("--views", type=int, default=100, metavar="N")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where poses.json goes")
    parser.add_argument("--track", action="store_true", help="videos instead of single views")
    parser.add_argument("--videos", type=int, default=4, metavar="N")
    args = parser.parse_args()
    rows = {}
    for name in args.meshes:
        mesh = example("chair") if name == "chair" else Mesh.load(name)
        if args.track:
            rows[Path(name).stem] = found = measure_videos(mesh, args.videos)
            for how in ("track", "search"):
                print(
                    f"{name}, {how}: {found[how]['near']} of {found['images']} within {NEAR:g} "
                    f"degrees, {found[how]['jumps']} jumps, {found[how]['seconds']:.2f} s an image"
                )
            if args.out is not None:
                facts = {"size": SIZE, "fov": FOV, "near": NEAR, "turns": TURNS, "jump": JUMP}
                facts |= {"threads": torch.get_num_threads(), "version": gendr.__version__}
                script.write_json(args.out / "pose-track.json", {**facts, "rows": rows})
            continue
        rows[Path(name).stem] = found = measure(mesh, args.views)
        print(
            f"{name}: {found['near']} of {args.views} within {NEAR:g} degrees, {found['alike']} "
            f"more with the same silhouette, {found['median_seconds']:.1f} s"
        )
        if args.out is not None:
            facts = {"size": SIZE, "fov": FOV, "near": NEAR, "same": ALIKE}
            facts |= {"threads": torch.get_num_threads(), "version": gendr.__version__}
            script.write_json(args.out / "poses.json", {**facts, "rows": rows})


if __name__ == "__main__":
    main()
