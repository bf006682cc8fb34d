"""A surface from points and the photos that see them.

Tetrahedra between the points (Delaunay) are air where lines of sight cross them and matter behind
the points; a minimum cut decides, with the fewest crossed lines and well-shaped triangles. What no
photo sees stays open: triangles that span gaps, and those that photos would see edge-on, go.

Source: Labatut, Pons & Keriven, Efficient Multi-View Reconstruction of Large-Scale Scenes using
Interest Points, Delaunay Triangulation and Graph Cuts, ICCV 2007, sections 3 and 4; their CGF 28
(2009) paper for soft visibility; Jancosek & Pajdla, CVPR 2011, for the end behind a point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gendr.kernels.threads import num_threads, run
from gendr.mesh.topology import connected_parts

__all__ = ["Surface", "SurfaceSettings", "large_parts", "reconstruct"]

# Of how far points usually are from their middle: cameras that are nearer to each other are one.
_SAME = 1e-3


@dataclass(frozen=True)
class SurfaceSettings:
    """How a surface is found.

    Attributes:
        smooth: the weight of the shape of a triangle against one line of sight.
        deviation: of a point along its lines of sight, in spacings, which are those of one photo.
            Where it exceeds what points of all are apart few are vertices, and the surface is up to
            two deviations behind the others.
        longest_edge: of a triangle that stays, in spacings of its points.
        grazing: triangles stay that some photo sees at least at this sine of the angle to them.
        least_part: of connected triangles that stay, as a share of all.
    """

    smooth: float = 1.0
    deviation: float = 0.1
    longest_edge: float = 60.0
    grazing: float = 0.02
    least_part: float = 0.002


@dataclass(frozen=True)
class Surface:
    """Triangles between points.

    Attributes:
        vertices: [V, 3] float64, those of the points that triangles use.
        faces: [F, 3] int64, counterclockwise as seen from the air.
        point_of_vertex: [V] int64.
    """

    vertices: np.ndarray
    faces: np.ndarray
    point_of_vertex: np.ndarray


def reconstruct(
    points: np.ndarray,
    views: np.ndarray,
    starts: np.ndarray,
    centres: np.ndarray,
    spacing: np.ndarray,
    settings: SurfaceSettings | None = None,
    tell: Callable[[float], None] | None = None,
) -> Surface:
    """The surface between air and matter.

    Args:
        points: [P, 3], P >= 4.
        views: int32, the photos that see each point, those of one point after the other.
        starts: [P + 1] int64, where those of a point begin.
        centres: [photos, 3], where the cameras stand.
        spacing: [P], the distance to the next points: two pixels at the depth of a point, say.
        settings: by default as they are.
        tell: called with the part that is done.

    Raises:
        ValueError: fewer than four points, or all in one plane.
    """
    from scipy.spatial import Delaunay, QhullError

    from gendr.photos.scene import surface_kernels as kernels
    from gendr.photos.scene.minimum_cut import minimum_cut

    settings, tell = settings or SurfaceSettings(), tell or (lambda part: None)
    if len(points) < 4:
        raise ValueError(f"a surface needs four points or more, got {len(points)}")
    # Far from the origin Qhull loses its digits, and with them points.
    origin = np.median(points, axis=0)
    eyes, eye_of_view = _apart(centres, _SAME * float(np.median(np.abs(points - origin))))
    everywhere = np.concatenate([points, eyes]).astype(np.float64) - origin
    new = _along_a_curve(everywhere[: len(points)])
    order = np.concatenate([new, len(points) + np.arange(len(eyes))])
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    try:
        tetrahedra = Delaunay(everywhere[order])
    except QhullError as error:
        raise ValueError("a surface needs points that are not all in one plane") from error
    tell(0.35)
    corners = tetrahedra.points
    by_place = np.argsort(
        tetrahedra.simplices.min(1), kind="stable"
    )  # near ones are near in memory
    rank = np.empty(len(by_place) + 1, np.int32)
    rank[by_place], rank[-1] = np.arange(len(by_place)), -1
    cells = tetrahedra.simplices[by_place].astype(np.int32)
    beside = rank[tetrahedra.neighbors[by_place]]
    del tetrahedra
    twin = np.empty_like(beside)
    run(kernels.find_twins, len(cells), beside, twin)
    incident = np.argsort(cells.reshape(-1), kind="stable")
    first = np.searchsorted(cells.reshape(-1)[incident], np.arange(len(corners) + 1))
    incident = (incident >> 2).astype(np.int32)
    # Who sees the points, in their new order.
    count = np.diff(starts)[new]
    new_starts = np.concatenate([[0], np.cumsum(count)])
    new_views = views[np.repeat(starts[new] - new_starts[:-1], count) + np.arange(new_starts[-1])]
    lines = (
        corners, cells, twin, first, incident, new_views.astype(np.int32), new_starts,
        place[len(points) :][eye_of_view].astype(np.int32),
        settings.deviation * spacing[new].astype(np.float64),
    )  # fmt: skip
    capacity, ends = _weighed(kernels.weigh_lines, lines)
    tell(0.65)
    spheres = np.empty((len(cells), 4))
    run(kernels.circumspheres, len(cells), corners, cells, spheres)
    run(kernels.weigh_shapes, len(cells), corners, cells, twin, spheres, settings.smooth, capacity)
    del spheres
    tell(0.75)
    air, _ = minimum_cut(beside, twin, capacity, ends)
    tell(0.95)
    faces = _between(corners, cells, beside, air)
    seen = (faces < len(points)).all(1)
    faces = order[faces[seen]]
    faces = _supported(faces, points, views, starts, centres, spacing, settings)
    used, index = np.unique(faces, return_inverse=True)
    tell(1.0)
    return Surface(points[used].astype(np.float64), index.reshape(-1, 3), used)


def _apart(centres: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Centres without those nearer to an earlier one than this, and which stands for each.

    Of copies of a photo Qhull would drop one, or make cells too thin to walk through.
    """
    near = np.linalg.norm(centres[:, None] - centres, axis=-1) < max(least, 1e-300)
    first = near.argmax(1)
    first = first[first]
    kept, rows = np.unique(first, return_inverse=True)
    return centres[kept], rows


def _along_a_curve(points: np.ndarray) -> np.ndarray:
    """An order in which near points are near: that of Morton's curve, 21 bits a side."""
    low, high = np.percentile(points, [1, 99], axis=0)
    scaled = np.clip((points - low) / np.maximum(high - low, 1e-30).max(), 0, 1)
    keys = np.zeros(len(points), np.uint64)
    for axis in range(3):
        x = (scaled[:, axis] * (2**21 - 1)).astype(np.uint64)
        for shift, mask in (
            (32, 0x1F00000000FFFF), (16, 0x1F0000FF0000FF), (8, 0x100F00F00F00F00F),
            (4, 0x10C30C30C30C30C3), (2, 0x1249249249249249),
        ):  # fmt: skip
            x = (x | (x << np.uint64(shift))) & np.uint64(mask)
        keys |= x << np.uint64(axis)
    return np.argsort(keys, kind="stable")


def _weighed(kernel: Any, lines: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Capacities [N, 4] int32 and terminals [N] int64 from all lines of sight.

    Every thread adds up for itself; sums of integers do not depend on who did what.
    """
    cells, starts = lines[1], lines[6]
    threads, pieces = max(1, min(num_threads(), 4)), 16
    parts = [
        (np.zeros(cells.shape, np.int32), np.zeros(len(cells), np.int64)) for _ in range(threads)
    ]
    bounds = np.linspace(0, len(starts) - 1, threads * pieces + 1).astype(np.int64)

    def some(start: int, stop: int) -> None:
        for thread in range(start, stop):
            for k in range(thread, threads * pieces, threads):
                kernel(*lines, *parts[thread], bounds[k], bounds[k + 1])

    run(some, threads, pieces=1)
    capacity, ends = parts[0]
    for weights, others in parts[1:]:
        capacity += weights
        ends += others
    return capacity, ends


def _between(
    corners: np.ndarray, cells: np.ndarray, beside: np.ndarray, air: np.ndarray
) -> np.ndarray:
    """The triangles [F, 3] between air and matter, counterclockwise as seen from the air."""
    cell, f = np.nonzero(~air[:, None] & (beside >= 0) & air[beside])
    tri = np.stack([cells[cell, (f + k) % 4] for k in (1, 2, 3)], 1)
    a, b, c = (corners[tri[:, k]] for k in range(3))
    inward = corners[cells[cell, f]] - a
    turned = (np.cross(b - a, c - a) * inward).sum(1) > 0
    tri[turned] = tri[turned][:, ::-1]
    return tri


def _supported(
    faces: np.ndarray, points: np.ndarray, views: np.ndarray, starts: np.ndarray,
    centres: np.ndarray, spacing: np.ndarray, settings: SurfaceSettings,
) -> np.ndarray:  # fmt: skip
    """The triangles that photos show: not far larger than their points are apart, not edge-on."""
    corners = points[faces]
    edges = np.linalg.norm(corners - np.roll(corners, 1, 1), axis=-1).max(1)
    good = edges <= settings.longest_edge * spacing[faces].max(1)
    faces, corners = faces[good], corners[good]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True) + 1e-300
    best = np.full(len(faces), -1.0)
    middle = corners.mean(1)
    for k in range(3):
        vertex = faces[:, k]
        count = starts[vertex + 1] - starts[vertex]
        for i in range(int(count.max(initial=0))):
            some = np.flatnonzero(count > i)
            ray = centres[views[starts[vertex[some]] + i]] - middle[some]
            ray /= np.linalg.norm(ray, axis=1, keepdims=True) + 1e-300
            best[some] = np.maximum(best[some], (ray * normal[some]).sum(1))
    return large_parts(faces[best >= settings.grazing], len(points), settings.least_part)


def large_parts(faces: np.ndarray, vertices: int, least: float) -> np.ndarray:
    """The triangles of connected parts that have at least this share of all of them."""
    part = connected_parts(faces, vertices)[faces[:, 0]]
    return faces[np.bincount(part)[part] >= least * len(faces)]
