"""How good fits are with views from all around: shape, held-out views, and the mesh itself.

    python benchmarks/fit_quality.py MESH... --out docs/results

Images are rendered with hard edges. Cameras stand on two spirals over a sphere: those of the fit,
and the held-out ones. The torus, the double torus and the mug are made here.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fit_starts import grid_about, inside, volume_iou
from numpy.typing import NDArray
from rows import Rows, make_parser
from torch import Tensor

import gendr
from gendr.losses import iou
from gendr.mesh import Camera, Mesh, look_at, mesh_quality
from gendr.photos import visual, visual_hull

SIZE, VIEWS, HELD_VIEWS = 256, 48, 9
# Of the masks that carve what silhouettes tell at best.
FINE = 2048
# Points on each surface for distances, and by which part of its radius a point may lie behind the
# depth of its pixel and still count as seen.
POINTS, BEHIND = 20_000, 0.02


def spiral(mesh: Mesh, count: int, turn: float) -> Camera:
    """Cameras spread evenly over a sphere, with all of a mesh in view."""
    i = np.arange(count) + 0.5
    elevation = np.degrees(np.arcsin(1 - 2 * i / count))
    azimuth = (i * 180 * (3 - math.sqrt(5)) + turn) % 360
    centre, radius = visual.around(mesh)
    angle = math.atan(visual.FILL * math.tan(math.radians(visual.FOV / 2)))
    like: dict[str, Any] = {"dtype": mesh.dtype}
    return look_at(
        radius / math.sin(angle), torch.tensor(elevation, **like), torch.tensor(azimuth, **like),
        visual.FOV, at=centre,
    )  # fmt: skip


def seen(mesh: Mesh, camera: Camera, points: Tensor) -> Tensor:
    """[P], which points on the surface some camera sees."""
    near, far = visual.depths(mesh, camera)
    size = (2 * SIZE, 2 * SIZE)
    renderer = gendr.Renderer(size, "heaviside", "max", near=near, far=far, shading="hard")
    slack = BEHIND * visual.around(mesh)[1]
    found = torch.zeros(len(points), dtype=torch.bool)
    for b in range(len(camera)):
        with torch.no_grad():
            depth = renderer(visual.visible_part(mesh, camera[b], size, near), camera[b]).depth
        (xy,), (z,) = camera[b].project(points)
        place = ((xy * torch.tensor([1.0, -1.0]) + 1) * SIZE).long().clamp(0, 2 * SIZE - 1)
        found |= z <= depth[0, place[:, 1], place[:, 0]] + slack
    return found


def to_surface(points: Tensor, mesh: Mesh) -> NDArray[np.float64]:
    """Distances [P] of points to the nearest point of a mesh."""
    import igl

    squared = igl.point_mesh_squared_distance(
        points.double().numpy(), mesh.vertices.double().numpy(), mesh.faces.numpy()
    )[0]
    return np.sqrt(squared)


def seen_distance(one: Mesh, other: Mesh, camera: Camera) -> float:
    """The mean distance of what is seen of each surface to the other one, both ways."""
    total = 0.0
    for a, b in ((one, other), (other, one)):
        points = a.sample_points(POINTS, torch.Generator().manual_seed(0))[0]
        total += float(to_surface(points[seen(a, camera, points)], b).mean()) / 2
    return total


def hull_volume(target: Mesh, camera: Camera) -> float:
    """Volume IoU of a mesh and its visual hull, by masks far finer than those of the fit.

    That is what the silhouettes of these views tell at best, if nothing is guessed.
    """
    points = grid_about(visual_hull(camera, visual.silhouettes(target, camera, SIZE)), target)
    places, kept = torch.from_numpy(points).to(target.vertices), np.ones(len(points), bool)
    for b in range(len(camera)):
        shown = visual.silhouettes(target, camera[b], FINE)[0] > 0.5
        left = np.flatnonzero(kept)
        (xy,), _ = camera[b].project(places[left])
        pixel = ((xy * torch.tensor([1.0, -1.0]) + 1) * FINE / 2).long().clamp(0, FINE - 1)
        kept[left] = shown[pixel[:, 1], pixel[:, 0]].numpy()
    true = inside(target, points)
    return float((kept & true).sum() / (kept | true).sum())


def made() -> dict[str, Mesh]:
    """Bodies with one, two and one handles."""
    import trimesh

    def ring(x: float, radius: float, minor: float) -> trimesh.Trimesh:
        found = trimesh.creation.torus(radius, minor, 96, 48)
        found.apply_translation([x, 0, 0])
        return found

    body = trimesh.creation.cylinder(0.5, 1.2, sections=96)
    handle = trimesh.creation.torus(0.35, 0.09, 96, 32)
    handle.apply_transform(trimesh.transformations.rotation_matrix(math.pi / 2, [1, 0, 0]))
    handle.apply_translation([0.55, 0, 0])
    return {
        "torus": Mesh.from_trimesh(ring(0.0, 0.7, 0.25)),
        "double torus": Mesh.from_trimesh(
            trimesh.util.concatenate([ring(-0.8, 0.7, 0.25), ring(0.8, 0.7, 0.25)])
        ),
        "mug": Mesh.from_trimesh(trimesh.util.concatenate([body, handle])),
    }


def measure(target: Mesh, **options: Any) -> dict[str, Any]:
    """A fit, and how good it is."""
    camera, held = spiral(target, VIEWS, 0.0), spiral(target, HELD_VIEWS, 77.0)
    masks = visual.silhouettes(target, camera, SIZE)
    begun, cpu = time.perf_counter(), time.process_time()
    result = gendr.fit(masks, camera, init="hull", **options)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    mesh = result.mesh
    quality = mesh_quality(mesh)
    shown, wanted = (visual.silhouettes(m, held, SIZE) for m in (mesh, target))
    return {
        "iou": result.iou,
        "held_out": float(iou(shown, wanted).mean()),
        "chamfer": seen_distance(mesh, target, camera) / visual.diagonal(target),
        "volume": volume_iou(mesh, target),
        "hull_volume": hull_volume(target, camera),
        "faces": mesh.face_counts[0],
        "is_watertight": quality["is_watertight"],
        "genus": quality["genus"],
        "smallest_angle": quality["smallest_angle"],
        "self_intersections": quality["self_intersections"],
        "seconds": seconds,
        "cpu_seconds": cpu,
    }


def main() -> None:
    """Measure, print, and write a file."""
    parser = make_parser(__doc__, "fit-quality.json")
    parser.add_argument("meshes", nargs="*", metavar="MESH", help="files, or names of those made")
    args = parser.parse_args()
    rows, known = Rows(), made()
    for name in args.meshes or known:
        target = (known[name] if name in known else Mesh.load(name)).normalized()
        rows.add({"mesh": Path(name).stem, **measure(target)})
    rows.write(args.out, "fit-quality.json", views=VIEWS, size=SIZE, held_views=HELD_VIEWS)


if __name__ == "__main__":
    main()
