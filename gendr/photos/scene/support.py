"""Which triangles of a surface the depth maps show, so that it ends where nothing was seen.

A minimum cut closes what no line of sight crosses: windows, whose glass agrees nowhere, but also
the sky between two spires. Triangles in which no photo has found the surface go if they are
connected with the rim of the surface; holes within it stay closed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gendr.photos.scene.fusion import Cloud
from gendr.photos.scene.model import Scene

__all__ = ["open_at_rims", "supported"]

Array = npt.NDArray[Any]

# By how much the inverse depth of a photo may differ where it shows a triangle, and how many pixels
# away it may show it.
_RELATIVE, _REACH = 0.03, 1


def supported(
    scene: Scene, cloud: Cloud, vertices: Array, faces: Array, views: Array, starts: Array
) -> Array:
    """Whether photos that see corners of triangles have found the surface within them: [F].

    In their middles, and in those of two of their edges: of a triangle between two spires some
    photo may have found one of them where the middle is.

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
    found = np.zeros((len(places), len(faces)), bool)
    owner = np.repeat(np.arange(len(vertices)), np.diff(starts))
    for j in np.unique(views):
        sees = np.zeros(len(vertices), bool)
        sees[owner[views == j]] = True
        own = sees[faces].any(1)
        for shown, place in zip(found, places, strict=True):
            some = np.flatnonzero(own & ~shown)
            shown[some] = _found(scene, cloud, j, place[some])
    return found[0] & (found[1:].sum(0) >= 2)


def _found(scene: Scene, cloud: Cloud, j: int, points: Array) -> Array:
    """Whether photo j has found the surface at points, to a pixel: [P]."""
    x = points @ scene.R[j].T + scene.t[j]
    depths = cloud.depths[j]
    height, width = depths.shape
    pixels = x @ scene.K[j].T
    with np.errstate(all="ignore"):
        u, v = (np.rint(pixels[:, k] / pixels[:, 2]) for k in (0, 1))
        rows = np.flatnonzero((x[:, 2] > 0) & (u >= 0) & (v >= 0) & (u < width) & (v < height))
    u, v = u[rows].astype(np.int64), v[rows].astype(np.int64)
    wanted = 1 / x[rows, 2]
    shown = np.zeros(len(rows), bool)
    for dy in range(-_REACH, _REACH + 1):
        for dx in range(-_REACH, _REACH + 1):
            there = depths[(v + dy).clip(0, height - 1), (u + dx).clip(0, width - 1)]
            shown |= np.abs(there - wanted) <= _RELATIVE * wanted
    found = np.zeros(len(points), bool)
    found[rows] = shown
    return found


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
