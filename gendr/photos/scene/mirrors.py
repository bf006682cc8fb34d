"""Planes that mirror, so that stereo finds a world behind them: still water, panes in walls.

Photos agree about what a mirror shows, as there is one place behind it where each thing seems to
be. What gives it away is that it is there twice: what lies behind the plane is what lies before it,
mirrored, in place, and of water in pattern. Upright mirrors show the side of things that is turned
away from the cameras, of which places alone can tell, and the wall that such a mirror is part of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from gendr.kernels.threads import run
from gendr.photos.scene.mirror_kernels import APART, EMPTY, HIDDEN, THERE
from gendr.photos.scene.model import MOST_NEIGHBOURS, Scene
from gendr.photos.scene.sky import mean_grey

__all__ = ["Mirror", "find_mirrors"]

Array = npt.NDArray[Any]

# Points by which planes are judged; how far behind one they must be, of their distance, as noise
# mirrors a floor onto itself; and by how much depths may differ where they are mirrored to.
_JUDGES, _MARGIN, _RELATIVE = 4000, 0.03, 0.02
# The same where it is known which plane it is, for its border.
_AROUND, _CLOSE = 40_000, 0.005
# Planes that are tried along a direction: how far they are apart, and from how far in front of the
# cameras on to how far behind them, in median distances of points.
_STEP, _REACH = 0.01, 1.5
# A plane may mirror if so many points, as a share of all judges, are there again before it, and
# these are so many of those that are there again or of which photos show that they are not.
_LEAST, _SURE = 0.004, 0.5
# In the end they must be more of those, and of all points behind it, which floors and shelves are
# not: their patterns repeat, too, but most of what they would mirror would be outside of the room.
_SURER, _MOSTLY = 0.8, 0.5
# Of the best planes so many are compared by patterns, in photos of these longer sides.
_COMPARED, _SIDES = 4, (160, 320)
# The least mean correlation of patches, of as many at the least.
_ALIKE, _PATCHES = 0.5, 20
# Steps of tilts and of a height, of the median distance, and trials, for each size of photos.
_STEPS, _TRIALS = (0.01, 0.01, 0.006), 80
# Fewer points tell of no mirror; the least cosine of its normal to what is up; cells along what it
# is thought to be, and the least share of what is there again that one of its parts shows.
_FEWEST, _LEVEL, _CELLS, _PART = 1000, 0.9986, 64, 0.05
# Walls: the largest sine of how far they lean; in how many bins of a turn their normals are
# counted; how many of their directions, and planes of each, are tried; the least share of points,
# and the least cosine of their normals to that of a wall; and how far away, in median distances,
# is none.
_LEAN, _BINS, _WALLS, _WALL, _FACING, _WIDE = 0.15, 72, 3, 0.02, 0.95, 100.0
# How far before and behind a wall its panes may be, and their steps, in median distances; and the
# least cosine of normals of what tells of them: floors go on behind any plane.
_PANES, _ACROSS = np.arange(0.02, -0.05, -0.0025), 0.3
# So many of what lies behind a pane must be there again, of as many points at the least.
_AGAIN, _SEEN = 0.15, 100
# It is a row of rooms if photos from behind the wall show so many of these where they are, or if
# floors and side walls, of which a mirror shows the same side, correlate less than this.
_REAL, _UNLIKE = 0.25, 0.2
# How thick a wall is, in median distances.
_THICK = 0.05


@dataclass(frozen=True)
class Depths:
    """Inverse depths of photos, one after the other, as the kernels take them.

    Attributes:
        values: float32 [sum of pixels]; not above 0 where there is none.
        offsets: int64 [N], where each photo begins.
        widths: int64 [N].
        heights: int64 [N].
    """

    values: Array
    offsets: Array
    widths: Array
    heights: Array


def _axes(normal: Array) -> Array:
    """Two unit directions along a plane, [2, 3]."""
    return np.linalg.svd(normal[None])[2][1:]


def _crossed(eyes: Array, points: Array, normal: Array, height: float) -> Array:
    """Where lines from eyes to points, both [P, 3], on both sides of a plane, cross it."""
    above, below = eyes @ normal - height, height - points @ normal
    return eyes + (above / (above + below))[:, None] * (points - eyes)


class _Judges:
    """Points by which planes are judged."""

    def __init__(
        self, scene: Scene, depths: Depths, points: Array, normals: Array, photos: Array, most: int
    ) -> None:
        rows = np.sort(np.random.default_rng(0).permutation(len(points))[:most])
        self.scene, self.depths = scene, depths
        self.points = np.ascontiguousarray(points[rows], np.float64)
        self.normals = np.ascontiguousarray(normals[rows], np.float64)
        self.photos = np.ascontiguousarray(photos[rows], np.int64)
        self.centres = np.ascontiguousarray(scene.centres)
        away = np.linalg.norm(self.points - self.centres[self.photos], axis=1)
        self.far = float(np.median(away))
        self.near = np.full((len(scene), 1 + MOST_NEIGHBOURS), -1, np.int64)
        for i, row in enumerate(scene.neighbours):
            self.near[i, : len(row) + 1] = i, *row

    def partners(
        self, normals: Array, heights: Array, margin: float = _MARGIN,
        rows: Array | slice = slice(None),
    ) -> tuple[Array, Array]:  # fmt: skip
        """What photos show where planes would mirror points to, or some rows; see the kernel."""
        from gendr.photos.scene.mirror_kernels import partners

        points, photos = self.points[rows], self.photos[rows]
        size = len(heights), len(points)
        found, shown = np.empty(size, np.uint8), np.empty(size, np.int32)
        run(
            partners, len(heights), np.ascontiguousarray(normals), heights, points,
            photos, self.near, self.scene.K, self.scene.R, self.scene.t, self.centres,
            self.depths.values, self.depths.offsets, self.depths.widths, self.depths.heights,
            margin, _RELATIVE, found, shown,
        )  # fmt: skip
        return found, shown

    def crossings(self, normal: Array, height: float, rows: Array) -> Array:
        """Where lines of sight to points behind a plane cross it, along its axes: [R, 2]."""
        eyes = self.centres[self.photos[rows]]
        return _crossed(eyes, self.points[rows], normal, height) @ _axes(normal).T

    def candidates(self, normal: Array) -> tuple[Array, Array, Array]:
        """Planes that may mirror, as far as places tell.

        Returns: their heights [C], and what `partners` finds for each.
        """
        used = [i for i in range(len(self.scene)) if self.scene.neighbours[i]]
        top = float((self.centres[used] @ normal).max())
        heights = top - np.arange(0.0, _REACH, _STEP) * self.far
        found, shown = self.partners(np.tile(normal, (len(heights), 1)), heights)
        there, empty = ((found == kind).sum(1) for kind in (THERE, EMPTY))
        good = (there >= _LEAST * len(self.points)) & (there >= _SURE * (there + empty))
        return heights[good], found[good], shown[good]


class _Patterns:
    """Photos of one size, by which planes are compared."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        greys = [mean_grey(image).round().astype(np.uint8) for image in scene.images]
        shapes = np.array([grey.shape for grey in greys], np.int64)
        self.heights, self.widths = shapes[:, 0].copy(), shapes[:, 1].copy()
        self.offsets = np.concatenate([[0], np.cumsum(shapes.prod(1))])[:-1]
        self.greys = np.concatenate([grey.ravel() for grey in greys])

    def alike(
        self, judges: _Judges, rows: Array, shown: Array, normal: Array, height: float
    ) -> float:
        """How photos correlate in what a plane mirrors, in the mean; -1 if too few points tell.

        Args:
            judges: the points.
            rows: those that the plane mirrors.
            shown: the photos that show what they mirror.
            normal: of the plane.
            height: its own.
        """
        from gendr.photos.scene.mirror_kernels import correlate

        found = np.empty(len(rows))
        run(
            correlate, len(rows), normal, np.array([height]), judges.points[rows],
            judges.normals[rows], judges.photos[rows], shown.astype(np.int64), self.scene.K,
            self.scene.R, self.scene.t, judges.centres, self.greys, self.offsets, self.widths,
            self.heights, found,
        )  # fmt: skip
        found = found[np.isfinite(found)]
        return float(found.mean()) if len(found) >= _PATCHES else -1.0


def _refined(
    judges: _Judges, patterns: _Patterns, normal: Array, height: float, part: float
) -> tuple[Array, float, float]:
    """The plane near another one by which patterns agree best, and how well they do.

    Args:
        judges: points, of which those count that photos show again before the plane.
        patterns: the photos.
        normal: of the plane to begin with.
        height: its own.
        part: of the usual steps.

    Source: Nelder & Mead, A Simplex Method for Function Minimization, 1965.
    """
    from scipy.optimize import minimize

    found, shown = judges.partners(normal[None], np.array([height]))
    rows = np.flatnonzero(found[0] == THERE)
    if len(rows) < _PATCHES:
        return normal, height, -1.0
    others, across = shown[0, rows], _axes(normal)
    # Tilts are around what is mirrored, lest they move it up and down.
    pivot = judges.points[rows].mean(0)

    def plane(x: Array) -> tuple[Array, float]:
        turned = normal + x[:2] @ across
        turned /= np.linalg.norm(turned)
        foot = pivot + (height - pivot @ normal + x[2] * judges.far) * normal
        return turned, float(turned @ foot)

    def differences(x: Array) -> float:
        return 1 - patterns.alike(judges, rows, others, *plane(x))

    start = np.vstack([np.zeros(3), part * np.diag(_STEPS)])
    options = {"initial_simplex": start, "maxfev": _TRIALS}
    best = minimize(differences, np.zeros(3), method="Nelder-Mead", options=options)
    return *plane(best.x), 1 - float(best.fun)


@final
@dataclass(frozen=True, eq=False)
class Mirror:
    """A part of a plane, of points x with normal . x = height.

    Attributes:
        normal: [3] float64, unit, towards the cameras, relative to the axes of the scene.
        height: relative to its origin.
        alike: the mean correlation of what water mirrors with what is above it; None of panes,
            which are upright.
        border: [E, 3] float64, half-planes a u + b v + c <= 0 in which it lies, u and v along the
            rows of `axes`.
    """

    normal: Array
    height: float
    alike: float | None
    border: Array

    @property
    def axes(self) -> Array:
        """Two directions along the plane, [2, 3], see `_axes`."""
        return _axes(self.normal)

    def within(self, points: Array) -> Array:
        """Which points [P, 3] of the plane are part of it."""
        flat, found = points @ self.axes.T, np.ones(len(points), bool)
        for side in self.border:
            found &= flat @ side[:2] <= -side[2]
        return found

    def hides(self, eyes: Array, points: Array, relative: float) -> Array:
        """Which points are seen behind it, from eyes [P, 3], by a part of how far away they are."""
        below = self.height - points @ self.normal
        found = below > relative * np.linalg.norm(points - eyes, axis=1)
        found &= eyes @ self.normal > self.height
        rows = np.flatnonzero(found)
        found[rows] = self.within(_crossed(eyes[rows], points[rows], self.normal, self.height))
        return found

    def met(self, scene: Scene, i: int) -> Array:
        """The inverse depths [H, W] of what a photo shows of it, were nothing before it; 0 else."""
        height, width = scene.images[i].shape[:2]
        above = float(self.normal @ scene.centres[i]) - self.height
        found = np.zeros((height, width), np.float32)
        if above <= 0:
            return found
        u, v = np.arange(width), np.arange(height)[:, None]
        inverse = np.linalg.inv(scene.K[i])
        lines = np.stack(np.broadcast_arrays(
            inverse[0, 0] * u + inverse[0, 2], inverse[1, 1] * v + inverse[1, 2], 1.0
        ), -1).reshape(-1, 3) @ scene.R[i]  # fmt: skip
        own = -(lines @ self.normal) / above
        rows = np.flatnonzero(own > 0)
        rows = rows[self.within(scene.centres[i] + lines[rows] / own[rows, None])]
        found.ravel()[rows] = own[rows]
        return found


def _borders(
    judges: _Judges, normal: Array, height: float, rows: Array, wall: Array | None = None
) -> list[Array]:
    """Half-planes around where lines of sight to what is mirrored cross a plane.

    Args:
        judges: the points.
        normal: of the plane.
        height: its own.
        rows: of points by which it is seen.
        wall: [W, 3], points of the wall that it is part of: of each pane there is a border then,
            where the wall begins. Else there is one around all of it.
    """
    from scipy import ndimage
    from scipy.spatial import ConvexHull

    kinds = judges.partners(normal[None], np.array([height]), _CLOSE, rows)[0][0]
    rows, kinds = rows[kinds != APART], kinds[kinds != APART]
    flat = judges.crossings(normal, height, rows)
    solid = np.zeros((0, 2)) if wall is None else wall @ _axes(normal).T
    low, high = np.percentile(flat[kinds == THERE] if wall is None else solid, (1, 99), axis=0)
    wide: Array = high - low
    if wall is None:
        low, wide = low - wide / 2, 2 * wide
    step = max(float(wide.max()) / _CELLS, 1e-12)

    def counted(places: Array) -> Array:
        cell = np.floor((places - low) / step).astype(np.int64)
        cell = cell[((cell >= 0) & (cell * step < wide)).all(1)]
        return np.bincount(cell @ [_CELLS, 1], minlength=_CELLS**2)[: _CELLS**2].reshape(-1, _CELLS)

    again, hidden, empty = (counted(flat[kinds == kind]) for kind in (THERE, HIDDEN, EMPTY))
    seen = (again + hidden > 0) & (again + hidden > 2 * empty)
    area = ndimage.binary_dilation(seen, iterations=2)
    if wall is not None:
        inside = np.moveaxis(np.indices(area.shape), 0, -1) * step < wide
        area = inside.all(-1) & (counted(solid) == 0) & (seen | (empty == 0))
    labelled: Any = ndimage.label(area)
    parts = labelled[0]
    most = np.bincount(parts.ravel(), again.ravel())
    kept = (parts > 0) & (most[parts] >= _PART * again.sum())
    found: list[Array] = []
    for part in [seen] if wall is None else [parts == k for k in np.unique(parts[kept])]:
        cells = np.argwhere(kept & part)
        if len(cells):
            corners = [cells + np.array(d) for d in ((-1, -1), (-1, 2), (2, -1), (2, 2))]
            found.append(ConvexHull(low + step * np.concatenate(corners)).equations)
    return found


def _peaks(counts: Array, least: float) -> Array:
    """Bins where most is, with those beside; the largest first. They are on a circle."""
    broad = 1.01 * counts + np.roll(counts, 1) + np.roll(counts, -1)
    highest = np.max([np.roll(broad, k) for k in range(-2, 3)], axis=0)
    found = np.flatnonzero((broad == highest) & (broad >= least))
    return found[np.argsort(-broad[found], kind="stable")][:_WALLS]


def _is_real(judges: _Judges, normal: Array, height: float, rows: Array) -> bool:
    """Whether what is behind a plane, and there again before it, is no mirror image all the same.

    So it is where rooms are alike, with doors between them.
    """
    from scipy.spatial import KDTree

    found, shown = judges.partners(normal[None], np.array([height]), rows=rows)
    again = found[0] == THERE
    rows, shown = rows[again], shown[0, again]
    beside = np.abs(judges.normals[rows] @ normal) < _ACROSS
    eyes = judges.centres[judges.photos]
    inside = judges.points[(eyes @ normal < height) & (judges.points @ normal < height)]
    if len(inside):
        most = _RELATIVE * judges.far
        away = KDTree(inside).query(judges.points[rows[~beside]], distance_upper_bound=most)[0]
        if np.isfinite(away).mean() > _REAL:
            return True
    patterns = _Patterns(judges.scene.smaller(_SIDES[0]))
    return -1 < patterns.alike(judges, rows[beside], shown[beside], normal, height) < _UNLIKE


def _panes(judges: _Judges, up: Array) -> list[Mirror]:
    """The parts of upright walls that mirror what is before them.

    What is behind a wall, and seen through it, may be in a room. If it is mirrored, it is there
    again before the wall, but for what photos do not show as something else is in front of it:
    mirrors show the sides of things that cameras do not. Of symmetric buildings all is there again,
    too, but there is no wall between their halves.
    """
    least, found = _WALL * len(judges.points), list[Mirror]()
    level = judges.normals[np.abs(judges.normals @ up) < _LEAN]
    flat = level @ _axes(up).T
    angle = np.arctan2(flat[:, 1], flat[:, 0]) * _BINS / (2 * np.pi)
    turn = angle.round().astype(np.int64) % _BINS
    eyes = judges.centres[judges.photos]
    for k in _peaks(np.bincount(turn, minlength=_BINS), least):
        normal = np.median(level[np.isin(turn, [(k - 1) % _BINS, k, (k + 1) % _BINS])], 0)
        normal /= np.linalg.norm(normal)
        cosines, heights = judges.normals @ normal, judges.points @ normal
        near = np.abs(heights - np.median(heights)) < _WIDE * judges.far
        facing = np.flatnonzero((cosines > _FACING) & near)
        steps = (heights[facing] - heights[facing].min(initial=np.inf)) / (_STEP * judges.far)
        place = steps.astype(np.int64)
        for j in _peaks(np.append(np.bincount(place), [0, 0, 0, 0]), least):
            wall = facing[np.abs(place - j) <= 1]
            front = float(np.median(heights[wall]))
            low, high = np.percentile(judges.points[wall] @ _axes(normal).T, (2, 98), axis=0)
            rows = np.flatnonzero((heights < front) & (eyes @ normal > front))
            where = judges.crossings(normal, front, rows)
            rows = rows[((where > low) & (where < high)).all(1)]
            trials = front + _PANES * judges.far
            telling = rows[np.abs(cosines[rows]) > _ACROSS]
            kinds = judges.partners(np.tile(normal, (len(trials), 1)), trials, rows=telling)[0]
            there, empty, hidden = ((kinds == kind).sum(1) for kind in (THERE, EMPTY, HIDDEN))
            behind = there + empty + hidden
            good = (there >= _SURER * (there + empty)) & (there >= _AGAIN * behind)
            good &= (there >= _SEEN) & (behind <= len(wall))
            good &= [all(abs(h - m.height) > _THICK * judges.far for m in found) for h in trials]
            if not good.any():
                continue
            best = np.where(good, there - empty, 0)
            height = float(trials[best >= 0.95 * best.max()].mean())
            if _is_real(judges, normal, height, rows):
                continue
            solid = judges.points[np.abs(heights - height) < _THICK * judges.far]
            borders = _borders(judges, normal, height, rows, solid)
            found += [Mirror(normal, height, None, border) for border in borders]
    return found


def find_mirrors(
    scene: Scene, depths: Depths, points: Array, normals: Array, photos: Array, up: Array
) -> tuple[Mirror, ...]:
    """Still water, and panes in walls.

    Args:
        scene: the photos.
        depths: their inverse depths.
        points: [P, 3] float64, some of what they show.
        normals: [P, 3], unit, towards the cameras.
        photos: int [P], which show them.
        up: [3], unit, about what is up in the scene.
    """
    if len(points) < _FEWEST:
        return ()
    few, many = (_Judges(scene, depths, points, normals, photos, n) for n in (_JUDGES, _AROUND))
    return (*_water(few, many, up), *_panes(many, up))


def _water(judges: _Judges, many: _Judges, up: Array) -> list[Mirror]:
    """The level plane that mirrors what is above it, if there is one, by some points and more."""
    heights, found, shown = judges.candidates(up)
    if not len(heights):
        return []
    fine = judges.scene.smaller(_SIDES[1])
    patterns = [_Patterns(fine.smaller(_SIDES[0])), _Patterns(fine)]
    # What stands in water may as well go on below it, as far as places tell.
    score = np.zeros(len(heights))
    for k, (kinds, others) in enumerate(zip(found, shown, strict=True)):
        rows = np.flatnonzero(kinds == THERE)
        score[k] = patterns[0].alike(judges, rows, others[rows], up, float(heights[k]))
    peaks = [k for k in range(len(score)) if score[k] == score[max(0, k - 2) : k + 3].max() > 0]
    best: tuple[float, Array, float] | None = None
    for start in sorted(peaks, key=lambda k: -score[k])[:_COMPARED]:
        normal, height, alike = up, float(heights[start]), 0.0
        for k, size in enumerate(patterns):
            normal, height, alike = _refined(judges, size, normal, height, 0.5**k)
        kinds = judges.partners(normal[None], np.array([height]))[0][0]
        apart, _, empty, there = np.bincount(kinds, minlength=4)
        sure = there >= _SURER * (there + empty) and there >= _MOSTLY * (len(kinds) - apart)
        if sure and alike >= max(_ALIKE, best[0] if best else 0) and normal @ up > _LEVEL:
            best = alike, normal, height
    if best is None:
        return []
    alike, normal, height = best
    borders = _borders(many, normal, height, np.arange(len(many.points)))
    return [Mirror(normal, height, alike, border) for border in borders]
