"""Which triangles of a surface the depth maps show, so that it ends where nothing was seen.

A minimum cut closes what no line of sight crosses: windows, whose glass agrees nowhere, but also
the sky between two spires. Triangles in which no photo has found the surface go if they are
connected with the rim of the surface; holes within it stay closed. Triangles where photos show sky
go in any case.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gendr.photos.scene.fusion import Cloud
from gendr.photos.scene.model import Scene

__all__ = ["before_sky", "is_shown", "open_at_rims", "supported"]

Array = npt.NDArray[Any]

# By how much the inverse depth of a photo may differ where it shows a triangle, and how many pixels
# away it may show it.
_RELATIVE, _REACH = 0.03, 1
# Photos that show sky where a triangle would be, at the least; one may err, but not about what
# photos show only if their depths may differ by more than this: webs behind roofs are that near.
# Where they show nothing, as on plain walls, one may err as well.
_WITNESSES, _CLOSE = 2, 0.01


def supported(
    scene: Scene, cloud: Cloud, vertices: Array, faces: Array, views: Array, starts: Array
) -> Array:
    """How far triangles are from the surface that photos have found which see their corners: [F].

    As a part of inverse depths; infinite where nothing was found. In their middles, and in those of
    two of their edges: of a triangle between two spires some photo may have found one of them where
    the middle is.

    Args:
        scene: the photos.
        cloud: of which the depths are used.
        vertices: [V, 3] float64.
        faces: [F, 3].
        views: int32, the photos that see each vertex, one after the other.
        starts: [V + 1], where those of a vertex begin.
    """
    corners = vertices[faces]
    places = [corners.mean(1)] + [corners[:, [k, (k + 1) % 3]].mean(1) for k in range(3)]
    off = np.full((len(places), len(faces)), np.inf, np.float32)
    owner = np.repeat(np.arange(len(vertices)), np.diff(starts))
    for j in np.unique(views):
        sees = np.zeros(len(vertices), bool)
        sees[owner[views == j]] = True
        own = sees[faces].any(1)
        for least, place in zip(off, places, strict=True):
            some = np.flatnonzero(own & (least > _CLOSE))
            least[some] = np.minimum(least[some], _off(scene, cloud, j, place[some]))
    return np.maximum(off[0], np.sort(off[1:], 0)[1])


def is_shown(off: Array) -> Array:
    """Whether photos have found triangles that are so far from what is `supported`: [F]."""
    return off <= _RELATIVE


def _off(scene: Scene, cloud: Cloud, j: int, points: Array) -> Array:
    """How far points are from what photo j has found within a pixel, of inverse depths: [P]."""
    depths = cloud.depths[j]
    height, width = depths.shape
    rows, u, v, wanted = _places(scene, cloud, j, points)
    least = np.full(len(rows), np.inf)
    for dy in range(-_REACH, _REACH + 1):
        for dx in range(-_REACH, _REACH + 1):
            there = depths[(v + dy).clip(0, height - 1), (u + dx).clip(0, width - 1)]
            least = np.minimum(least, np.abs(there - wanted))
    off = np.full(len(points), np.inf, np.float32)
    off[rows] = least / wanted
    return off


def _places(scene: Scene, cloud: Cloud, j: int, points: Array) -> tuple[Array, ...]:
    """Which points [P, 3] are in the frame of photo j: rows, columns, lines, inverse depths."""
    x = points @ scene.R[j].T + scene.t[j]
    height, width = cloud.depths[j].shape
    pixels = x @ scene.K[j].T
    with np.errstate(all="ignore"):
        u, v = (np.rint(pixels[:, k] / pixels[:, 2]) for k in (0, 1))
        rows = np.flatnonzero((x[:, 2] > 0) & (u >= 0) & (v >= 0) & (u < width) & (v < height))
    return rows, u[rows].astype(np.int64), v[rows].astype(np.int64), 1 / x[rows, 2]


def before_sky(scene: Scene, cloud: Cloud, vertices: Array, faces: Array, off: Array) -> Array:
    """Whether photos show sky where triangles would hide it, in their middles: [F].

    Args:
        scene: the photos.
        cloud: whose depths are negative in the sky.
        vertices: [V, 3] float64.
        faces: [F, 3].
        off: [F], how far they are from what is `supported`.
    """
    middles, count = vertices[faces].mean(1), np.zeros(len(faces), np.int64)
    for j, depths in enumerate(cloud.depths):
        if (depths < 0).any():
            rows, u, v, _ = _places(scene, cloud, j, middles)
            count[rows] += depths[v, u] < 0
    return count >= np.where((off > _CLOSE) & is_shown(off), 1, _WITNESSES)


def open_at_rims(faces: Array, shown: Array) -> Array:
    """The rows of the triangles that stay: those shown, and others that are within the surface.

    Args:
        faces: [F, 3].
        shown: [F], whether photos show each.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    count = int(faces.max(initial=0)) + 1
    ends = np.sort(np.concatenate([faces[:, [k, (k + 1) % 3]] for k in range(3)]), 1)
    _, edge, uses = np.unique(
        ends[:, 0] * np.int64(count) + ends[:, 1], return_inverse=True, return_counts=True
    )
    edge = edge.reshape(3, -1)
    hidden = np.flatnonzero(~shown)
    # Triangles that no photo shows are joined by the edges that they share.
    rows = np.tile(np.arange(len(hidden)), 3)
    columns = len(hidden) + edge[:, hidden].ravel()
    size = len(hidden) + len(uses)
    graph = coo_matrix((np.ones(len(rows), bool), (rows, columns)), (size, size))
    part = connected_components(graph, directed=False)[1][: len(hidden)]
    at_rim = (uses[edge[:, hidden]] == 1).any(0)
    goes = np.zeros(int(part.max(initial=-1)) + 1, bool)
    goes[part[at_rim]] = True
    keep = np.ones(len(faces), bool)
    keep[hidden[goes[part]]] = False
    return keep
