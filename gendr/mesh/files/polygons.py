"""Polygons cut into triangles: fans where these cover a polygon exactly, ears where they do not.

Source: G. H. Meisters, "Polygons have ears", American Mathematical Monthly 82 (1975): a simple
polygon of more than three corners has two corners whose triangles no side enters, and stays simple
without one of them. Corners may touch each other and sides, as where a bridge leads to a hole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gendr.mesh.files.bounds import most_corners
from gendr.mesh.files.reports import note

Array = NDArray[Any]

# The part of a polygon's area that is none, and of its size; and the rounding of coordinates far
# from 0; the part of an area from which on triangles count as overlapping.
_FLAT, _NEAR, _ROUNDED, _OVERLAP = 1e-14, 1e-10, 1e-15, 1e-6
# Corners of a polygon that is cut by ears, which takes the square of it: seconds at most.
_MOST = 10_000
# Corners that are worked on at a time, and pairs of an ear and a side.
_CORNERS, _PAIRS = 1 << 18, 1 << 20


def triangles(
    vertices: Array, corners: Array, sizes: Array, notes: list[str]
) -> tuple[Array, Array]:
    """Cut polygons into triangles of their orientation that cover them exactly.

    A polygon that is not quite planar is cut as its projection along its mean normal.

    Args:
        vertices: [V, 3].
        corners: [C], the vertex of each corner, polygon by polygon.
        sizes: [P], how many corners each polygon has.
        notes: Gets a note of polygons that have no triangles, or that cross themselves.

    Returns:
        Which corners make each triangle [F, 3], in the order of the polygons, and of which polygon
        it is [F]. What a repeated vertex makes of a polygon of four corners or more is left out.

    Raises:
        ValueError: for corners that name no vertex, a polygon of far more corners than there are
            vertices, and a concave one of more than 10,000 corners.
    """
    if len(corners) and not 0 <= corners.min() <= corners.max() < len(vertices):
        raise ValueError("a face names a vertex that is not there")
    if (most := most_corners(len(vertices))) < sizes.max(initial=0):
        raise ValueError(f"a face has more than {most} corners, of {len(vertices)} vertices")
    if (few := int((sizes < 3).sum())) > 0:
        note(notes, f"{few} of its faces have fewer than 3 corners, and are left out")
    count = np.maximum(sizes - 2, 0)
    of = np.arange(len(sizes)).repeat(count)
    fans = _fans(count)  # by corners of their polygon
    first, row = np.cumsum(sizes) - sizes, np.cumsum(count) - count
    begin = first[of]
    crossed = 0
    for some in _parts(np.flatnonzero(sizes > 3), sizes):
        at, rows = ranges(first[some], sizes[some]), ranges(row[some], count[some])
        cut, wrong = _cut(vertices[corners[at]], sizes[some], fans[rows])
        fans[rows] = cut
        crossed += wrong
    if crossed:
        note(notes, f"{crossed} of its polygons cross themselves, so no triangles cover them")
    found = fans + begin[:, None]
    vertex = corners[found]
    kept = (vertex != vertex[:, [1, 2, 0]]).all(1) | (sizes[of] == 3)
    return found[kept], of[kept]


def integers(values: Array) -> Array:
    """Indices, which a text has as floats.

    Raises:
        ValueError: if some are none.
    """
    if not (np.abs(values) < 2**53).all() or (values != np.floor(values)).any():
        raise ValueError("a face names a vertex by no integer")
    return values.astype(np.int64)


def _fans(count: Array) -> Array:
    """The triangles about the first corner of polygons that have `count` of them: [F, 3]."""
    place = ranges(np.zeros_like(count), count)
    return np.stack((np.zeros_like(place), place + 1, place + 2), 1)


def ranges(start: Array, count: Array) -> Array:
    """All of start[i], start[i] + 1, ... start[i] + count[i] - 1, one after the other."""
    return np.arange(count.sum()) + (start - np.cumsum(count) + count).repeat(count)


def _parts(chosen: Array, sizes: Array) -> Iterator[Array]:
    """Chosen polygons, so many at a time that they have some hundred thousand corners."""
    part = np.cumsum(sizes[chosen]) // _CORNERS
    return iter(np.split(chosen, np.flatnonzero(np.diff(part)) + 1) if len(chosen) else [])


def _cut(points: Array, sizes: Array, fans: Array) -> tuple[Array, int]:
    """Better triangles [F, 3] than the fans of polygons of four corners or more.

    Returns:
        The triangles, and how many polygons cross themselves.
    """
    first, count = np.cumsum(sizes) - sizes, sizes - 2
    row = np.cumsum(count) - count
    begin = first.repeat(count)[:, None]
    areas = _areas(points, fans + begin)
    normal = np.add.reduceat(areas, row)  # Newell's, twice the area long
    square = np.square(normal).sum(1)

    def parts(of: Array, which: Array) -> Array:
        """The signed areas of triangles, in parts of that of their polygon."""
        along = (of * normal[which]).sum(-1)
        return along / np.where(square > 0, square, 1)[which]

    whole = np.arange(len(sizes)).repeat(count)
    least = np.minimum.reduceat(parts(areas, whole), row)
    bad = (least < _FLAT) | (square == 0)
    for i in np.flatnonzero(bad & (sizes > _MOST))[:1]:
        raise ValueError(
            f"a polygon of {sizes[i]} corners is concave, and at most {_MOST} corners of such are "
            "read; triangulate it in the program that wrote it"
        )
    fours = np.flatnonzero(bad & (sizes == 4))
    other = np.array([[1, 2, 3], [1, 3, 0]])
    turned = _areas(points, (first[fours, None, None] + other).reshape(-1, 3))
    better = parts(turned, fours.repeat(2)).reshape(-1, 2).min(1) > least[fours]
    fours = fours[better]
    fans[row[fours]], fans[row[fours] + 1] = other
    many = np.flatnonzero(bad & (sizes > 4))
    # Polygons of similar size are cut together; what is missing of the largest is never a corner.
    similar = np.ceil(np.log2(sizes[many]))
    for size in np.unique(similar):
        for some in _parts(many[similar == size], sizes):
            corner = np.minimum(np.arange(sizes[some].max()), sizes[some, None] - 1)
            flat = _flattened(points[first[some, None] + corner], normal[some])
            inside = np.arange(corner.shape[1] - 2) < count[some, None]
            fans[ranges(row[some], count[some])] = _ears(*flat, sizes[some])[inside]
    areas = parts(_areas(points, fans + begin), whole)
    crossed = np.add.reduceat(np.abs(areas), row) > 1 + _OVERLAP
    if crossed.any() or (square == 0).any():  # those without any area do not
        length = np.linalg.norm(_areas(points, fans + begin), axis=1)
        reach = np.abs(points - points[first].repeat(sizes, 0)).max(1)
        reach = np.maximum.reduceat(reach, first)
        none = _NEAR * reach + _ROUNDED * np.maximum.reduceat(np.abs(points).max(1), first)
        crossed = (crossed | (square == 0)) & (np.add.reduceat(length, row) > none * reach)
    return fans, int(crossed.sum())


def _areas(points: Array, corners: Array) -> Array:
    """Twice the areas of triangles as vectors along their normals: [F, 3]."""
    a, b, c = (points[corners[:, k]] for k in range(3))
    (ux, uy, uz), (vx, vy, vz) = (b - a).T, (c - a).T
    return np.stack((uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx), 1)


def _flattened(points: Array, normal: Array) -> tuple[Array, Array]:
    """Polygons [P, N, 3] in the planes of their normals, counterclockwise, and what is near.

    Returns:
        [P, N, 2], of size 1; and the distance [P] that counts as none.
    """
    local = points - points[:, :1]
    extent = np.abs(local).max((1, 2), keepdims=True)
    extent = np.where(extent > 0, extent, 1)
    near = _NEAR + _ROUNDED * np.abs(points).max((1, 2)) / extent[:, 0, 0]
    local = local / extent
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    normal = np.where(length > 0, normal / np.where(length > 0, length, 1), [0, 0, 1])
    u = np.cross(np.eye(3)[np.abs(normal).argmin(1)], normal)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    return np.einsum("pnj,pij->pni", local, np.stack((u, np.cross(normal, u)), 1)), near


def _cross(corners: Array) -> Array:
    """Twice the signed areas of triangles [..., 3, 2]."""
    a, b = (corners[..., k, :] - corners[..., 0, :] for k in (1, 2))
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _ears(points: Array, near: Array, sizes: Array) -> Array:
    """Cut ears off polygons, of each the one with the best shape first.

    Args:
        points: [P, N, 2], counterclockwise.
        near: [P], a distance that is none.
        sizes: [P], how many of the N points are corners.

    Returns:
        [P, N - 2, 3], of which the first `sizes` - 2 triangles of each polygon count.
    """
    many, most = points.shape[:2]
    rows, place = np.arange(many), np.arange(most)
    after = np.where(place + 1 < sizes[:, None], place + 1, 0)
    before = np.where(place > 0, place - 1, sizes[:, None] - 1)
    ends = points, np.take_along_axis(points, after[..., None], 1)
    # The boxes of the sides that begin at each corner, which are empty for those that are gone.
    low, high = np.minimum(*ends), np.maximum(*ends)
    low[place >= sizes[:, None]], high[place >= sizes[:, None]] = np.inf, -np.inf

    def scores(row: Array, tip: Array) -> Array:
        """How good it is to cut corners off: > 0 for ears, 0 for straight ones, < 0 for others.

        First come spikes, where a side goes back on the one before: these hide what is inside.
        """
        found = np.empty(len(row))
        step = max(1, _PAIRS // most)
        for i in range(0, len(row), step):
            k, b = row[i : i + step], tip[i : i + step]
            ear = points[k[:, None], np.stack((before[k, b], b, after[k, b]), 1)]  # [K, 3, 2]
            area = _cross(ear)
            longest = np.sqrt(np.square(ear - ear[:, [1, 2, 0]]).sum(2).max(1))
            height = area / np.where(longest > 0, longest, 1)
            shape = height / np.where(longest > 0, longest, 1)
            bottom, top = ear.min(1)[:, None], ear.max(1)[:, None]
            at, side = np.nonzero(
                ((low[k] < top) & (high[k] > bottom)).all(2) & (height > near[k])[:, None]
            )
            begin, end = points[k[at], side], points[k[at], after[k[at], side]]
            blocked = at[_enters(begin, end, ear[at], near[k[at]])]
            shape[blocked] -= 2
            shape[height < 0] -= 4
            back = ((ear[:, 1] - ear[:, 0]) * (ear[:, 2] - ear[:, 1])).sum(1) <= 0
            shape = np.where(np.abs(height) <= near[k], np.where(back, 2.0, 0.0), shape)
            found[i : i + step] = shape
        return found

    score = scores(rows.repeat(most), np.tile(place, many)).reshape(many, most)
    score[place >= sizes[:, None]] = -np.inf
    found = np.zeros((many, most - 2, 3), np.int64)
    for step in range(most - 2):
        tip = score.argmax(1)
        a, c = before[rows, tip], after[rows, tip]
        found[:, step] = np.stack((a, tip, c), 1)
        after[rows, a], before[rows, c] = c, a
        ends = points[rows, a], points[rows, c]
        low[rows, a], high[rows, a] = np.minimum(*ends), np.maximum(*ends)
        low[rows, tip], high[rows, tip], score[rows, tip] = np.inf, -np.inf, -np.inf
        changed = scores(np.tile(rows, 2), np.concatenate((a, c)))
        score[rows, a], score[rows, c] = changed[:many], changed[many:]
    return found


def _enters(begin: Array, end: Array, ear: Array, near: Array) -> Array:
    """Whether sides from [K, 2] to [K, 2] pass through triangles [K, 3, 2] by more than [K]."""
    enter, leave = np.zeros(len(begin)), np.ones(len(begin))
    for k in range(3):
        a = ear[:, k]
        way = ear[:, (k + 1) % 3] - a
        way = way / np.linalg.norm(way, axis=1, keepdims=True).clip(1e-300)
        # How far inside of this edge both ends are.
        p, q = (way[:, 0] * (x - a)[:, 1] - way[:, 1] * (x - a)[:, 0] - near for x in (begin, end))
        at = p / np.where(p == q, 1, p - q)
        enter = np.maximum(enter, np.where(p <= 0, np.where(q > 0, at, np.inf), 0))
        leave = np.minimum(leave, np.where((p > 0) & (q <= 0), at, 1))
    return enter < leave
