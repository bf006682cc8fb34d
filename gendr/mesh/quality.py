"""How well formed a mesh is: closed, of which genus, with which angles, without cuts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gendr.mesh.mesh import Mesh
from gendr.mesh.topology import connected_parts, euler_and_parts

# Above so many faces cuts are not counted: the pairs of near faces would fill the memory.
_MOST = 50_000
# The part of the area below which a part of a mesh is a crumb.
_CRUMB = 0.01
# Pairs of faces that are looked at in one go.
_BLOCK = 200_000


def mesh_quality(mesh: Mesh) -> dict[str, Any]:
    """Numbers that tell a good surface from a bad one.

    Args:
        mesh: one mesh.

    Returns:
        is_watertight: whether each edge has two faces.
        euler: vertices - edges + faces of what faces use.
        parts: connected parts.
        crumbs: of these, parts with less than a hundredth of the area.
        genus: parts - euler / 2, the number of handles; None if it is not watertight, or surfaces
            touch at a vertex.
        smallest_angle: of a face, in degrees; None without faces.
        self_intersections: faces that an edge of another face passes through, of a face with which
            they share no vertex; None for more than 50,000 faces.

    Raises:
        ValueError: for a batch of several meshes.
    """
    if len(mesh) != 1:
        raise ValueError(f"one mesh is needed, got a batch of {len(mesh)}")
    vertices = mesh.vertices.detach().double().cpu().numpy()
    faces = mesh.faces.cpu().numpy()
    euler, parts = euler_and_parts(faces)
    return {
        "is_watertight": mesh.is_watertight,
        "euler": euler,
        "parts": parts,
        "crumbs": int(crumbs(vertices, faces)[0].sum()) if parts > 1 else 0,
        "genus": (2 * parts - euler) // 2 if mesh.is_watertight and not pinched(faces) else None,
        "smallest_angle": _smallest_angle(vertices[faces]) if len(faces) else None,
        "self_intersections": int(cut_faces(vertices, faces).sum())
        if len(faces) <= _MOST
        else None,
    }


def crumbs(
    vertices: NDArray[np.float64], faces: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.float64]]:
    """Which parts have little area, the part of each face [F], and the shares of the parts."""
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    owner = np.unique(connected_parts(faces, len(vertices))[faces[:, 0]], return_inverse=True)[1]
    share = np.bincount(owner, area) / max(float(area.sum()), 1e-300)
    return share < _CRUMB, owner, share


def pinched(faces: NDArray[np.int64]) -> bool:
    """Whether the faces [F, 3] round some vertex are not connected by their edges."""
    count = int(faces.max(initial=-1)) + 1
    ahead, back = (faces * count + np.roll(faces, k, 1) for k in (-1, 1))  # edges, by their start
    edges, index = np.unique(np.stack([ahead, ahead, back]).reshape(3, -1), return_inverse=True)
    fans = connected_parts(index.reshape(3, -1).T, len(edges)).max(initial=-1) + 1
    return bool(fans > len(np.unique(faces)))


def _smallest_angle(corners: NDArray[np.float64]) -> float:
    """The smallest angle of triangles [F, 3, 3], in degrees; 0 where two corners coincide."""
    least = np.inf
    for i in range(3):
        u = corners[:, (i + 1) % 3] - corners[:, i]
        v = corners[:, (i + 2) % 3] - corners[:, i]
        across = np.linalg.norm(np.cross(u, v), axis=-1)
        least = min(least, float(np.arctan2(across, (u * v).sum(-1)).min()))
    return float(np.degrees(least))


def cut_faces(vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each face [F, 3] is cut by an edge of a face that shares no vertex with it."""
    from scipy.spatial import KDTree

    cut = np.zeros(len(faces), bool)
    if not len(faces):
        return cut
    corners = vertices[faces]
    low, high = corners.min(1), corners.max(1)
    middle, reach = (high + low) / 2, np.linalg.norm(high - low, axis=-1) / 2
    # Faces of one size are near each other if they touch; much larger ones are asked by themselves.
    limit = 2 * float(np.median(reach))
    small = np.flatnonzero(reach <= limit)
    tree = KDTree(middle[small])
    pairs = small[tree.query_pairs(2 * float(reach[small].max(initial=0.0)), output_type="ndarray")]
    large = np.flatnonzero(reach > limit)
    more = [np.stack([np.full(len(faces), i), np.arange(len(faces))], 1) for i in large]
    pairs = np.concatenate([pairs.reshape(-1, 2), *more])
    sides = [*zip(low.T.copy(), high.T.copy(), strict=True)]
    for start in range(0, len(pairs), _BLOCK):
        a, b = pairs[start : start + _BLOCK].T
        for least, most in sides:
            near = (least[a] <= most[b]) & (least[b] <= most[a])
            a, b = a[near], b[near]
        apart = ~(faces[a][:, :, None] == faces[b][:, None]).any((1, 2))
        a, b = a[apart], b[apart]
        for one, other in ((a, b), (b, a)):
            passed = _passes(corners[one], corners[other])
            cut[other[passed]] = True
    return cut


def _passes(triangles: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether an edge of triangle i [P, 3, 3] passes through the inside of the other one."""
    a, b, c = others[:, 0], others[:, 1], others[:, 2]
    normal = np.cross(b - a, c - a)
    hit = np.zeros(len(triangles), bool)
    for i in range(3):
        p, q = triangles[:, i], triangles[:, (i + 1) % 3]
        height_p = ((p - a) * normal).sum(-1)
        height_q = ((q - a) * normal).sum(-1)
        crosses = height_p * height_q < 0
        t = height_p / np.where(crosses, height_p - height_q, 1.0)
        x = p + t[:, None] * (q - p)
        inside = crosses
        for u, v in ((a, b), (b, c), (c, a)):
            inside = inside & ((np.cross(v - u, x - u) * normal).sum(-1) > 0)
        hit |= inside
    return hit
