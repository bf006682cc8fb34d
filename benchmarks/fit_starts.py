"""What fits reach from a sphere and from the visual hull, on any meshes.

    python benchmarks/fit_starts.py MESH... --out docs/results

Images are rendered with hard edges. Held-out views are at another elevation than those fitted.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rows import Rows, make_parser

import gendr
from gendr.losses import chamfer, iou
from gendr.mesh import Mesh, mesh_quality
from gendr.photos import visual

STARTS = ("sphere", "hull")
SIZE, VIEWS, ELEVATION = 128, 24, 30.0
HELD_SIZE, HELD_VIEWS, HELD_ELEVATION = 256, 7, 10.0
GRID = 96


def grid_about(*meshes: Mesh) -> NDArray[np.float64]:
    """Points [P, 3] in the middle of the cells of a grid over the box of all meshes.

    So they lie on no side of a box, as the ends of the grid would.
    """
    boxes = [mesh.bounding_box() for mesh in meshes]
    low = np.min([box[0][0].double().numpy() for box in boxes], 0)
    high = np.max([box[1][0].double().numpy() for box in boxes], 0)
    steps = (np.arange(GRID) + 0.5) / GRID
    axes = [a + (b - a) * steps for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)


def inside(mesh: Mesh, points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which points lie in a mesh, by winding numbers."""
    import igl

    vertices, faces = mesh.vertices.double().numpy(), mesh.faces.numpy()
    return np.abs(igl.fast_winding_number(vertices, faces, points)) > 0.5


def volume_iou(one: Mesh, other: Mesh) -> float:
    """The IoU of the insides of two meshes, on a grid of points."""
    points = grid_about(one, other)
    a, b = inside(one, points), inside(other, points)
    return float((a & b).sum() / (a | b).sum())


def measure(target: Mesh, start: str, steps: int) -> dict[str, float]:
    """A fit, and how good it is."""
    camera = visual.orbit(target, [360 * i / VIEWS for i in range(VIEWS)], ELEVATION)
    angles = [360 * i / HELD_VIEWS + 8 for i in range(HELD_VIEWS)]
    held = visual.orbit(target, angles, HELD_ELEVATION)
    masks = visual.silhouettes(target, camera, SIZE)
    begun = time.perf_counter()
    result = gendr.fit(masks, camera, init=start, steps=steps)  # pyright: ignore[reportArgumentType]
    seconds = time.perf_counter() - begun
    mesh = result.mesh
    quality = mesh_quality(mesh)
    seen, wanted = (
        visual.silhouettes(mesh, held, HELD_SIZE),
        visual.silhouettes(target, held, HELD_SIZE),
    )
    return {
        "iou": result.iou,
        "held_out": float(iou(seen, wanted).mean()),
        "chamfer": float(chamfer(mesh, target, seed=0)) / visual.diagonal(target),
        "volume": volume_iou(mesh, target),
        "faces": mesh.face_counts[0],
        "genus": quality["genus"],
        "smallest_angle": quality["smallest_angle"],
        "self_intersections": quality["self_intersections"],
        "seconds": seconds,
    }


def main() -> None:
    """Measure, print, and write a file."""
    parser = make_parser(__doc__, "fit-starts.json")
    parser.add_argument("meshes", nargs="+", type=Path, metavar="MESH")
    parser.add_argument("--steps", type=int, default=100, metavar="N")
    args = parser.parse_args()
    rows = Rows()
    for path in args.meshes:
        target = Mesh.load(path).normalized()
        for start in STARTS:
            rows.add({"mesh": path.stem, "start": start, **measure(target, start, args.steps)})
    rows.write(args.out, "fit-starts.json", steps=args.steps)


if __name__ == "__main__":
    main()
