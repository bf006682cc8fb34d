"""How often `gendr.fit_pose` finds the camera of a mask: random views of any meshes.

    python benchmarks/poses.py MESH... --views 100 --out docs/results

Rotations are uniform over all, the object takes 45 to 85 % of the image and lies up to a tenth of
it beside the middle; masks have 128 x 128 pixels. Meshes are named by file, or "chair".
"""

from __future__ import annotations

import argparse
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


def main() -> None:
    """Measure, print, and write a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("meshes", nargs="+", metavar="MESH")
    parser.add_argument("--views", type=int, default=100, metavar="N")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where poses.json goes")
    args = parser.parse_args()
    rows = {}
    for name in args.meshes:
        mesh = example("chair") if name == "chair" else Mesh.load(name)
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
