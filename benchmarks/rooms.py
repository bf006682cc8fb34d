"""Scenes without masks: a room of which the truth is known, and photographs with some left out.

    python benchmarks/rooms.py room WORK --docs           # drawn by formulas, cameras given
    python benchmarks/rooms.py photos FOLDER WORK --docs  # any folder of photographs

The room has a floor, two walls, boxes and balls with a pattern of many sizes, lit from above, and
is drawn by casting rays, four to a pixel. What is measured is what `gendr fit` makes of the photos.
Precision: the share of points of the mesh that are nearer to the true surface than 0.5 % or 1 % of
the diagonal of what is seen. Recall: the share of the points that two photos see that are so near
to the mesh. F: their harmonic mean, as of Tanks and Temples (Knapitsch et al. 2017). Photographs:
every fifth is left out, and the textured mesh is drawn from there.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from rows import measured_on
from scipy.spatial import KDTree

from gendr import cli
from gendr.mesh import Mesh

Array = NDArray[Any]

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "rooms.json"
SIZE, FOCAL, PHOTOS = (480, 640), 560.0, 20
# Boxes by two corners, balls by centre and radius; y up.
BOXES = (
    ((-1.2, 0.0, -1.0), (-0.5, 0.6, -0.3)), ((0.4, 0.0, -1.2), (0.8, 1.3, -0.9)),
    ((0.0, 0.0, 0.2), (0.5, 0.25, 0.8)), ((-1.7, 0.0, -1.9), (-1.3, 1.6, -1.5)),
)  # fmt: skip
BALLS = (((1.1, 0.35, 0.0), 0.35), ((-0.4, 0.3, 0.6), 0.3), ((-0.85, 0.85, -0.65), 0.25))
WALLS = -2.0  # x and z of the two walls; the floor is at y = 0
LIGHT = np.array([0.5, 0.8, 0.35]) / np.linalg.norm([0.5, 0.8, 0.35])


def cast(eye: Array, rays: Array) -> tuple[Array, Array]:
    """How far rays go, [N], and the normals there, [N, 3]."""
    far, normals = np.full(len(rays), np.inf), np.zeros((len(rays), 3))

    def nearer(t: Array, normal: Array) -> None:
        better = (t > 1e-6) & (t < far)
        far[better] = t[better]
        normals[better] = np.broadcast_to(normal, normals.shape)[better]

    with np.errstate(all="ignore"):
        for axis, place in ((1, 0.0), (0, WALLS), (2, WALLS)):
            nearer((place - eye[axis]) / rays[:, axis], np.eye(3)[axis])
        for low, high in BOXES:
            ends = np.stack([(np.array(c) - eye) / rays for c in (low, high)])
            first, last = ends.min(0), ends.max(0)
            axis = first.argmax(1)
            t = np.where(first.max(1) <= last.min(1), first.max(1), np.inf)
            nearer(t, -np.sign(rays[np.arange(len(rays)), axis])[:, None] * np.eye(3)[axis])
        for centre, radius in BALLS:
            away = eye - np.array(centre)
            a, b = (rays * rays).sum(1), rays @ away
            root = b * b - a * (away @ away - radius * radius)
            t = np.where(root >= 0, (-b - np.sqrt(root)) / a, np.inf)
            nearer(t, (away + np.where(np.isfinite(t), t, 0)[:, None] * rays) / radius)
    return far, normals


def distances(points: Array) -> Array:
    """From points to the surface of the room."""
    best = np.min(np.abs(points - np.array([WALLS, 0.0, WALLS])), axis=1)
    for low, high in BOXES:
        middle, half = (np.array(high) + low) / 2, (np.array(high) - low) / 2
        off = np.abs(points - middle) - half
        outside = np.linalg.norm(np.maximum(off, 0), axis=1)
        best = np.minimum(best, np.abs(outside + np.minimum(off.max(1), 0)))
    for centre, radius in BALLS:
        best = np.minimum(best, np.abs(np.linalg.norm(points - np.array(centre), axis=1) - radius))
    return best


def paint(points: Array) -> Array:
    """RGB [N, 3] in [0, 1]: noise of six sizes."""
    total = np.zeros(len(points))
    tables = np.random.default_rng(5).random((6, 32, 32, 32))
    for octave in range(6):
        x = points * 2.0 ** (octave + 1)
        whole = np.floor(x).astype(int)
        part = x - whole
        for corner in np.ndindex(2, 2, 2):
            share = np.prod(np.where(corner, part, 1 - part), axis=1)
            a, b, c = ((whole + np.array(corner)) % 32).T
            total += share * (tables[octave, a, b, c] - 0.5) * 0.8**octave
    shade = (0.5 + 0.55 * total).clip(0, 1)
    tint = 0.75 + 0.25 * np.sin(points @ np.array([[1.0, 0.3, 2.0], [0.5, 1.5, 1], [1, 1.2, 0.4]]))
    return shade[:, None] * tint


def draw(work: Path) -> tuple[Array, float]:
    """Draw the photos and write their cameras; points that two see, and the diagonal of these."""
    work.mkdir(parents=True, exist_ok=True)
    height, width = SIZE
    K = np.array([[FOCAL, 0, width / 2], [0, FOCAL, height / 2], [0, 0, 1]])
    images, seen, poses = [], [], []
    for k in range(PHOTOS):
        angle = np.radians(5 + 80 * (k / (PHOTOS - 1)))
        rise = (0.9, 1.5)[k % 2]
        eye = np.array([3.2 * np.sin(angle), rise, 3.2 * np.cos(angle)])
        ahead = np.array([-0.5, 0.45, -0.5]) - eye
        ahead /= np.linalg.norm(ahead)
        right = np.cross(ahead, [0, 1, 0])
        right /= np.linalg.norm(right)
        R = np.stack([right, np.cross(ahead, right), ahead])
        rgb = np.zeros((height * width, 3))
        for dx, dy in ((0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75)):
            v, u = np.mgrid[:height, :width]
            pixels = np.stack([u.ravel() + dx, v.ravel() + dy, np.ones(height * width)], 1)
            rays = pixels @ np.linalg.inv(K).T @ R
            far, normals = cast(eye, rays)
            points = eye + far[:, None] * rays
            light = 0.45 + 0.55 * (normals @ LIGHT).clip(0, 1)
            rgb += paint(points) * light[:, None] / 4
        noise = np.random.default_rng(k).normal(0, 1.5, rgb.shape)
        shades = (255 * rgb + noise).round().clip(0, 255).astype(np.uint8)
        Image.fromarray(shades.reshape(height, width, 3)).save(work / f"{k:02d}.png")
        seen.append(points[::7])
        poses.append((R, eye))
        images.append({
            "file": f"{k:02d}.png", "width": width, "height": height, "K": K.tolist(),
            "R": R.tolist(), "t": (-R @ eye).tolist(),
        })  # fmt: skip
    truth = np.concatenate(seen)
    counts = np.zeros(len(truth), int)
    lines: list[str] = []
    tracks: list[list[int]] = [[] for _ in truth]
    for k, (R, eye) in enumerate(poses):
        x = (truth - eye) @ R.T @ K.T
        inside = (x[:, 2] > 0) & (x[:, 0] > 0) & (x[:, 1] > 0)
        inside &= (x[:, 0] < width * x[:, 2]) & (x[:, 1] < height * x[:, 2])
        free = np.zeros(len(truth), bool)
        free[inside] = cast(eye, truth[inside] - eye)[0] > 1 - 1e-4
        counts += free
        for p in np.flatnonzero(free[::211]) * 211:
            tracks[p].append(k + 1)
    for p in range(0, len(truth), 211):  # as many as features would find
        place = " ".join(map(repr, truth[p].tolist()))
        lines.append(f"{p} {place} 0 0 0 -1 {' '.join(f'{n} 0' for n in tracks[p])}")
    (work / "points3D.txt").write_text("\n".join(lines) + "\n")
    content = {"points": "points3D.txt", "images": images}
    (work / "cameras.json").write_text(json.dumps(content))
    truth = truth[counts >= 2]
    return truth, float(np.linalg.norm(np.ptp(truth, axis=0)))


def fitted(photos: Path, out: Path, *more: str) -> tuple[dict[str, Any], float]:
    """What `gendr fit` says of a folder, and the processor's seconds."""
    begin = time.process_time()
    if cli.main(["fit", str(photos), "-o", str(out), "--scene", "--quiet", *more]):
        raise SystemExit(f"gendr fit failed on {photos}")
    return json.loads((out / "metrics.json").read_text()), time.process_time() - begin


def room(work: Path) -> dict[str, Any]:
    """Measure the room."""
    truth, diagonal = draw(work / "photos")
    metrics, seconds = fitted(work / "photos", work / "out")
    mesh = Mesh.load(work / "out" / "fit.glb")
    points = mesh.sample_points(200_000, torch.Generator().manual_seed(0)).double().numpy()
    own = distances(points)
    there = KDTree(points).query(truth)[0]
    row: dict[str, Any] = {"scene": "room", "photos": PHOTOS, "faces": metrics["faces"]}
    for part in (0.005, 0.01):
        precision = float((own < part * diagonal).mean())
        recall = float((there < part * diagonal).mean())
        f = 2 * precision * recall / max(precision + recall, 1e-9)
        row |= {f"precision_{part}": precision, f"recall_{part}": recall, f"f_{part}": f}
    row["accuracy_median"] = float(np.median(own)) / diagonal
    return row | {"seconds": metrics["seconds"], "processor_seconds": round(seconds, 1)}


def photos(folder: Path, work: Path, cameras: str | None, size: int | None) -> dict[str, Any]:
    """Measure a folder of photographs."""
    more = ["--hold-out", "5"]
    more += ["--cameras", cameras] if cameras else []
    more += ["--image-size", str(size)] if size else []
    metrics, seconds = fitted(folder, work / "out", *more)
    names = ("image_size", "points", "matched", "kept", "seen_by", "faces", "scores", "seconds")
    row = {"scene": folder.name, "photos": metrics["placed"], **{n: metrics[n] for n in names}}
    return row | {"processor_seconds": round(seconds, 1)}


def main() -> None:
    """Measure and, with --docs, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("room", "photos"))
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cameras")
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--docs", action="store_true")
    args = parser.parse_args()
    if args.what == "room":
        row = room(args.folders[0])
    else:
        row = photos(args.folders[0], args.folders[1], args.cameras, args.image_size)
    print(json.dumps(row, indent=1))
    if args.docs:
        kept = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {"rows": []}
        rows = [each for each in kept["rows"] if each["scene"] != row["scene"]]
        RESULTS.write_text(
            json.dumps({"measured_on": measured_on(), "rows": [*rows, row]}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
