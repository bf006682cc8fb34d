"""Voxels: which cells of a grid a mesh fills.

A grid of resolution R has the centres of its cells at R evenly spaced places of each axis, the
first and the last at the ends of its bounds; arrays are indexed [x, y, z].
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gendr._common.checks import check_choice, check_count, check_finite
from gendr.jobs.devices import on_given_devices
from gendr.photos.meshing.libigl import libigl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gendr.mesh.mesh import Mesh

__all__ = ["voxelize"]

Interior: TypeAlias = Literal["winding", "flood", "none"]
INTERIORS = ("winding", "flood", "none")
COLUMNS_AT_ONCE = 1 << 22  # places where lines are tested together: about 0.3 GB


@on_given_devices
def voxelize(
    mesh: Mesh,
    resolution: int = 32,
    *,
    bounds: tuple[float, float] = (-0.5, 0.5),
    interior: Interior = "winding",
    surface: bool = False,
) -> Tensor:
    """Which cells of a cubic grid are filled by each mesh of a batch.

    Args:
        mesh: B meshes; what lies outside the bounds is cut off.
        resolution: R >= 2 cells along each axis.
        bounds: the coordinates of the first and the last centre, the same for x, y and z.
        interior: "winding" fills the cells whose centre has a generalised winding number above
            1/2, which works for open, self-intersecting and inside-out meshes too: parts are
            turned outwards first. "flood" fills what cannot be reached from outside the grid
            without crossing a surface cell; a hole as large as a cell lets the outside in. "none"
            fills nothing.
        surface: also fill the cells that the surface passes, as a thin sheet has no interior; with
            "flood" they are always filled.

    Returns:
        bool [B, R, R, R] on the CPU, indexed [x, y, z].

    Raises:
        ValueError: for vertices that are not finite, bad bounds or an unknown interior.

    Source: Barill, Dickson, Schmidt, Levin, Jacobson, Fast Winding Numbers for Soups and Clouds,
    2018; the surface cells are those of Kato et al., Neural 3D Mesh Renderer, 2018.
    """
    check_count("resolution", resolution, least=2)
    check_choice("interior", interior, INTERIORS)
    low, high = bounds
    if not -np.inf < low < high < np.inf:
        raise ValueError(f"bounds must be (low, high) with low < high, got {bounds!r}")
    check_finite("the vertices of the mesh", mesh.vertices)
    cells = []
    for one in mesh:
        vertices = one.vertices.detach().cpu().double().numpy()
        # In units of cells, so that the centre of cell i is at i.
        places = (vertices - low) * ((resolution - 1) / (high - low))
        cells.append(_filled(places, one.faces.cpu().numpy(), resolution, interior, surface))
    if not cells:
        return torch.zeros(0, resolution, resolution, resolution, dtype=torch.bool)
    return torch.from_numpy(np.stack(cells))


def _filled(
    places: NDArray[np.float64],
    faces: NDArray[np.int64],
    resolution: int,
    interior: Interior,
    surface: bool,
) -> NDArray[np.bool_]:
    """The cells [R, R, R] that one mesh fills; its vertices are in units of cells."""
    cells = np.zeros((resolution,) * 3, dtype=bool)
    if len(faces) == 0:
        return cells
    if interior == "winding":
        cells = _inside(places, faces, resolution)
    if surface or interior == "flood":
        cells |= _passed(places, faces, resolution)
    if interior == "flood":
        from scipy.ndimage import binary_fill_holes

        return np.asarray(binary_fill_holes(cells), dtype=bool)
    return cells


# -------------------------------------------------------------------------------------------------
# The surface
# -------------------------------------------------------------------------------------------------


def _passed(
    places: NDArray[np.float64], faces: NDArray[np.int64], resolution: int
) -> NDArray[np.bool_]:
    """Cells that hold a vertex, or a point where a grid line through their centre meets a face."""
    cells = np.zeros((resolution,) * 3, dtype=bool)
    _mark(cells, places[np.unique(faces)])
    corners = places[faces]
    for axis in range(3):
        across = [k for k in range(3) if k != axis]
        flat, height = corners[..., across], corners[..., axis]
        first = np.maximum(np.ceil(flat.min(1)), 0)
        last = np.minimum(np.floor(flat.max(1)), resolution - 1)
        sides = np.maximum(last - first + 1, 0).astype(np.int64)
        for part in _parts(sides.prod(1)):
            face, u, v = _lines(first[part], sides[part])
            hit, where = _hits(flat[part][face], height[part][face], u, v)
            points = np.empty((hit.sum(), 3))
            points[:, axis] = where[hit]
            points[:, across[0]], points[:, across[1]] = u[hit], v[hit]
            _mark(cells, points)
    return cells


def _mark(cells: NDArray[np.bool_], points: NDArray[np.float64]) -> None:
    """Fill the cells that hold these points, if they lie on the grid."""
    index = np.rint(points)
    index = index[((index >= 0) & (index < len(cells))).all(1)].astype(np.int64)
    cells[tuple(index.T)] = True


def _parts(counts: NDArray[np.int64]) -> list[slice]:
    """Runs of faces with about `COLUMNS_AT_ONCE` lines each."""
    ends = counts.cumsum()
    cuts = np.arange(COLUMNS_AT_ONCE, ends[-1], COLUMNS_AT_ONCE)
    stops = np.unique([0, *np.searchsorted(ends, cuts), len(counts)])
    return [slice(a, b) for a, b in pairwise(stops)]


def _lines(
    first: NDArray[np.float64], sides: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Every grid line in the box of every face: the face, and where it runs."""
    counts = sides.prod(1)
    face = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(face)) - np.repeat(counts.cumsum() - counts, counts)
    wide = sides[face, 1]
    return face, first[face, 0] + number // wide, first[face, 1] + number % wide


def _hits(
    flat: NDArray[np.float64],
    height: NDArray[np.float64],
    u: NDArray[np.float64],
    v: NDArray[np.float64],
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Whether lines [K] along an axis meet triangles [K, 3, 2], edges included, and how high."""
    point = np.stack([u, v], -1)
    weights = []
    for k in range(3):
        a, b = flat[:, (k + 1) % 3], flat[:, (k + 2) % 3]
        ahead, to = b - a, point - a
        weights.append(ahead[:, 0] * to[:, 1] - ahead[:, 1] * to[:, 0])
    area = weights[0] + weights[1] + weights[2]
    flipped = np.where(area < 0, -1.0, 1.0)
    hit = area != 0
    for w in weights:
        hit &= w * flipped >= 0
    safe = np.where(area == 0, 1.0, area)
    where = sum(w * height[:, k] for k, w in enumerate(weights)) / safe
    return hit, where


# -------------------------------------------------------------------------------------------------
# The interior
# -------------------------------------------------------------------------------------------------


def _inside(
    places: NDArray[np.float64], faces: NDArray[np.int64], resolution: int
) -> NDArray[np.bool_]:
    """Cells whose centre has a winding number above 1/2, all parts turned outwards."""
    igl = libigl()
    vertices, index = np.unique(places, axis=0, return_inverse=True)
    faces = index.reshape(-1)[faces]
    corners = faces[:, [0, 1, 2, 0]]
    faces = faces[(corners[:, 1:] != corners[:, :-1]).all(1)]  # no face with a corner twice
    if len(faces) == 0:
        return np.zeros((resolution,) * 3, dtype=bool)
    faces = _turned_outwards(vertices, faces)
    centres = np.stack(np.meshgrid(*[np.arange(resolution)] * 3, indexing="ij"), -1)
    numbers = igl.fast_winding_number(
        vertices, np.ascontiguousarray(faces), centres.reshape(-1, 3).astype(np.float64)
    )
    return (numbers > 0.5).reshape((resolution,) * 3)


def _turned_outwards(vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> NDArray[np.int64]:
    """The faces [F, 3], those of a connected part turned alike, and each part outwards.

    Faces are connected over edges that two of them share. Outwards is where the volume of a part,
    seen from its own centre, is positive.
    """
    faces, part = libigl().bfs_orient(np.ascontiguousarray(faces))
    corners = vertices[faces]
    size = np.bincount(part)
    centre = np.stack([np.bincount(part, corners.mean(1)[:, k]) for k in range(3)], -1)
    corners = corners - (centre / size[:, None])[part][:, None]
    # Volumes of parts: sums of tetrahedra that each face spans with the centre of its part.
    inwards = np.bincount(part, np.linalg.det(corners)) < 0
    return np.where(inwards[part][:, None], faces[:, ::-1], faces)
