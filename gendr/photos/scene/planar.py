"""Parts of photos without a pattern, on the planes of what is around them: walls, tables, doors.

Stereo finds nothing there, but what bounds such a part and is matched often lies on one plane:
frames, edges, dots. Their own planes are along it then, which tells a wall from the gap between an
arm and a body, whose outline may lie on a plane, too, but turns away from it.

Source: Xu & Tao, Planar Prior Assisted PatchMatch Multi-View Stereo, AAAI 2020, have planes between
triples of sure pixels everywhere; here only parts without a pattern get theirs, from all around.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["MOST", "PlanarParts", "find_planar", "find_walls", "normals_of"]

Array = npt.NDArray[Any]

MOST = 100  # parts of one photo
_LEAST = 0.0005  # the smallest part, of the photo's pixels
# How many pixels around a part tell of its plane; of them, at most so many.
_RING, _JUDGES = 6, 2000
# Planes that are tried, of three pixels within at least twice this area, in pixels; how often the
# best is corrected by the pixels on it, and the fewest of those.
_TRIES, _SPREAD, _CORRECTIONS, _FEWEST = 200, 20.0, 3, 12
# By how much inverse depths on a plane may differ, of them, at least where they are known well, and
# where they are not, and how far normals, as a cosine.
_RELATIVE, _COARSEST, _ALONG = 0.005, 0.02, 0.9
# The least shares: of the pixels around a part that are on a plane, and of those between them that
# are known and not nearer, those that are; and how many planes a part has at most.
_SHARE, _AGREE, _SIDES = 0.1, 0.6, 6
# An opening shows more of a larger part if its mean grey values differ by no more than this, it is
# not farther away than this times its width, and hardly anything around it is behind that part.
_ALIKE, _GAP, _THROUGH = 6.0, 0.3, 0.1
# What has as much around it in one plane as the first may be the front of a cupboard of that colour
# as well as a wall in the frame of a gate; a front has at least the second of each side.
_FRAMED, _EACH = 0.5, 0.3
# The least share of a wall that is known of what hangs on it.
_HUNG = 0.01


class PlanarParts(NamedTuple):
    """Parts of a photo that are taken to lie on planes.

    Attributes:
        labels: uint8 [H, W], which of the planes, from 1 on; 0 elsewhere.
        planes: [C, 3] float64: inverse depths are x times the first, y times the second, and the
            third.
    """

    labels: Array
    planes: Array


def find_planar(
    image: Array, K: Array, planes: Array, known: Array, even: Array, sky: Array, off: float = 0.0
) -> PlanarParts:
    """The parts of a photo without depths and a pattern that lie on one plane with their borders.

    On each side of them some of it is known to lie there, or what they have around them: two edges
    alone, as those of a gate and a cupboard, always have a plane in common.

    Args:
        image: uint8 [H, W, 3].
        K: [3, 3], the matrix of the lens.
        planes: [H, W, 3], inverse depths and their slopes along x and y.
        known: bool [H, W], where they are.
        even: bool [H, W], where the photo has no pattern.
        sky: bool [H, W], what may be sky, where there are no planes.
        off: how exactly stereo knows inverse depths.
    """
    from scipy import ndimage

    height, width = known.shape
    labels = np.zeros((height, width), np.uint8)
    labelled: Any = ndimage.label(even & ~known & ~sky)
    parts = labelled[0]
    size = np.bincount(parts.ravel())
    some = 1 + np.flatnonzero(size[1:] >= _LEAST * known.size)
    some = some[np.argsort(-size[some], kind="stable")][:MOST]
    boxes, dice = ndimage.find_objects(parts), np.random.default_rng(0)
    fitted, colors = list[Array](), dict[int, Array]()
    walls = dict[int, list[tuple[int, Array]]]()  # of a part: its planes, and what is known on them
    for part in some:
        box = boxes[part - 1]
        begin, own = np.array([s.start for s in box]), parts[box] == part
        grown = _grown(own)
        around = np.argwhere(grown & ~np.pad(own, _RING)) + begin - _RING
        least = max(_SHARE * len(around), _FEWEST)
        around = around[((around >= 0) & (around < (height, width))).all(1)]
        there = around[known[around[:, 0], around[:, 1]]]
        some_of = max(1.0, len(there) / _JUDGES)
        if some_of > 1:
            there = there[dice.choice(len(there), _JUDGES, replace=False)]
        # Edges within reach of patches have no depths either.
        near = np.argwhere(grown) + begin - _RING
        near = near[((near >= 0) & (near < (height, width))).all(1)]
        near = near[~(known | sky)[near[:, 0], near[:, 1]]]
        color, walls[part] = image[box][own].mean(0), []
        gap = int(_GAP * math.sqrt(own.sum()))
        window = tuple(slice(max(s.start - gap, 0), s.stop + gap) for s in box)
        beside, above = np.unique(parts[window]), image[window][sky[window]]
        alike = [k for k in beside if k in colors and np.abs(colors[k] - color).max() <= _ALIKE]
        colors[part] = color
        if len(above) and np.abs(above.mean(0) - color).max() <= _ALIKE:
            continue  # it may be seen through a frame
        if len(there) < _FEWEST:
            continue
        every = there
        islands, share = ndimage.binary_fill_holes(own) & ~own, 0.0
        # The sides of a box may look the same.
        for _ in range(_SIDES):
            y, x = there.T
            found = _plane(K, x, y, planes[y, x], dice, off)
            share = max(share, 0.0 if found is None else found[1].mean())
            if found is None or found[1].sum() * some_of < least or len(fitted) == MOST:
                break
            plane, on = found
            side = _within(there[on], there)
            # What is nearer hides the plane; what is farther away is seen through it.
            behind = side & ~on & _behind(plane, planes, there, off)
            corners, there = there[on], there[behind | ~(side | on)]
            if on.sum() < _AGREE * (on | behind).sum():
                continue
            inner = islands[tuple((corners - begin).clip(0, np.array(own.shape) - 1).T)]
            hung = some_of * inner.sum() >= _HUNG * own.sum()
            if not (hung or _enclosed(corners, some_of, box)):
                continue
            y, x = near[_within(corners, near)].T
            free = (labels[y, x] == 0) & (plane[0] * x + plane[1] * y + plane[2] > 0)
            fitted.append(plane)
            walls[part].append((len(fitted), corners))
            labels[y[free], x[free]] = len(fitted)
        if not walls[part] and share < _FRAMED:
            # What is seen through an opening is a part of what is around that, and behind it.
            at = [*near.mean(0)[::-1], 1]
            behind = [wall for k in alike for wall in walls[k]]
            for number, corners in sorted(behind, key=lambda wall: fitted[wall[0] - 1] @ at):
                if _behind(fitted[number - 1], planes, every, off).mean() <= _THROUGH:
                    y, x = near[_within(corners, near)].T
                    labels[y, x] = np.where(labels[y, x] == 0, number, labels[y, x])
    return PlanarParts(labels, np.array(fitted).reshape(-1, 3))


def _enclosed(on: Array, some_of: float, box: tuple[slice, ...]) -> bool:
    """Whether pixels of the ring around a part, of which these are one of so many, have all sides.

    Args:
        on: [P, 2], rows and columns.
        some_of: how many pixels each stands for.
        box: of the part; beside the photo nothing is known.
    """
    beyond = [(on[:, k] < s.start, on[:, k] >= s.stop) for k, s in enumerate(box)]
    found = some_of * np.array(beyond).sum(-1)
    every = _RING * np.array([s.stop - s.start for s in reversed(box)])
    return bool((found >= _EACH * every[:, None]).all())


def _behind(plane: Array, planes: Array, there: Array, off: float) -> Array:
    """Which pixels, of rows and columns [P, 2], show what is behind a plane: [P]."""
    y, x = there.T
    own = plane[0] * x + plane[1] * y + plane[2]
    return planes[y, x, 0] < own - _allowed(own, off)


def _allowed(depths: Array, off: float) -> Array:
    """By how much inverse depths on a plane may differ, which stereo knows to `off`."""
    return np.clip(off, _RELATIVE * depths, _COARSEST * depths)


def find_walls(K: Array, planes: Array, known: Array, sky: Array, off: float = 0.0) -> Array:
    """The parts of what looks like sky that are walls: on them hang pictures, in one plane.

    Args:
        K: [3, 3], the matrix of the lens.
        planes: [H, W, 3], inverse depths and their slopes along x and y.
        known: bool [H, W], where they are.
        sky: bool [H, W], plain parts that may be walls.
        off: how exactly stereo knows inverse depths.

    Returns: bool [H, W], those that are.
    """
    from scipy import ndimage

    labelled: Any = ndimage.label(sky)
    dice, walls = np.random.default_rng(0), np.zeros_like(sky)
    for part in range(1, labelled[1] + 1):
        own = labelled[0] == part
        y, x = np.nonzero(ndimage.binary_fill_holes(own) & ~own & known)
        if len(y) < max(_HUNG * own.sum(), _FEWEST):
            continue
        some = dice.choice(len(y), min(len(y), _JUDGES), replace=False)
        y, x = y[some], x[some]
        found = _plane(K, x, y, planes[y, x], dice, off)
        if found is not None and found[1].mean() >= _AGREE:
            walls |= own
    return walls


def _grown(own: Array) -> Array:
    """A part and the ring around it, with `_RING` more pixels on each side."""
    from scipy import ndimage

    return ndimage.maximum_filter(np.pad(own, _RING), 2 * _RING + 1)


def normals_of(K: Array, planes: Array, x: Array, y: Array) -> Array:
    """Unit normals [P, 3], away from the camera and in its frame, of planes at pixels.

    Where w = n . K^-1 p / d, K^T (wx, wy, w - x wx - y wy) is along n.

    Args:
        K: [3, 3], the matrix of the lens.
        planes: [P, 3], inverse depths and their slopes along x and y.
        x: [P], columns.
        y: [P], rows.
    """
    w, wx, wy = planes.astype(np.float64).T
    normals = np.stack([wx, wy, w - x * wx - y * wy], 1) @ K
    return normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)


def _plane(
    K: Array, x: Array, y: Array, planes: Array, dice: np.random.Generator, off: float
) -> tuple[Array, Array] | None:
    """The plane on which most pixels are, and which; None if too few are."""
    w, normals = planes[:, 0].astype(np.float64), normals_of(K, planes, x, y)
    given = np.stack([x, y, np.ones(len(x))], 1).astype(np.float64)

    def agreeing(planes: Array) -> Array:
        near = np.abs(planes @ given.T - w) <= _allowed(w, off)
        along = planes @ K
        along /= np.maximum(np.linalg.norm(along, axis=-1, keepdims=True), 1e-300)
        return near & (along @ normals.T >= _ALONG)

    if len(x) < _FEWEST:
        return None
    rows = dice.integers(0, len(x), (_TRIES, 3))
    rows = rows[np.abs(np.linalg.det(given[rows])) > _SPREAD]
    if not len(rows):
        return None
    on = agreeing(np.linalg.solve(given[rows], w[rows][..., None])[..., 0])
    best = on[on.sum(1).argmax()]
    plane = np.zeros(3)
    for _ in range(_CORRECTIONS):
        if best.sum() < _FEWEST:
            return None
        plane = np.linalg.lstsq(given[best] / w[best, None], np.ones(best.sum()), rcond=None)[0]
        best = agreeing(plane[None])[0]
    return plane, best


def _within(corners: Array, points: Array) -> Array:
    """Which points [P, 2] are within the convex hull of others: [P]."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(corners)
    except QhullError:
        return np.zeros(len(points), bool)
    inside = np.ones(len(points), bool)
    for a, b, c in hull.equations:
        inside &= a * points[:, 0] + b * points[:, 1] + c <= 1e-9
    return inside
