"""The ground: the plane under the cameras on which what they see stands.

Gravel, lawn and floors are seen at grazing angles, under which their patterns smear, so that photos
match little of them. What they match, by edges and shadows, lies on a plane, and what is matched
nowhere below its horizon is taken to lie there too: a planar prior, as Xu & Tao, Planar Prior
Assisted PatchMatch Multi-View Stereo, AAAI 2020, have it for any plane, but only for this one, of
which photos themselves say that nothing is behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch

from gendr.kernels.threads import mapped
from gendr.mesh import Mesh
from gendr.photos.scene.model import Scene
from gendr.photos.upright import upwards

__all__ = ["Ground", "aligned", "find_ground"]

Array = npt.NDArray[Any]

# Planes that are tried, the points by which they are judged, and the largest angle to what is up
# in the mean of the photos, as a cosine.
_TRIES, _JUDGES, _UPRIGHT = 20_000, 20_000, 0.96
# How far a point of the plane is off, of the median depth; how many times that is below it; what
# such a point counts against one of the plane. Depths are from so many cameras, those nearest to a
# point: the others of a long row do not see it.
_THICK, _BELOW, _AGAINST, _NEAREST = 0.004, 3.0, 4.0, 16
# The least share that is of it, in percent, of planes through all points that are level, and if
# there is none of planes through the lowest of these alone, in percent, with the largest angle to
# what is up: around a statue flagstones are seen at a few degrees, and from elsewhere in each
# photo, so that hardly any are matched, too few and too near to each other for tilts.
_LEAST = ((1.0, 100.0, _UPRIGHT), (0.2, 5.0, 0.999))
# Only points whose own planes are as flat as this tell of it, as a cosine: of gravel seen at a few
# degrees hardly any are flatter. It is corrected by those near it, so often, within a distance that
# shrinks by this each time: else the foot of a wall lifts it, and a lawn moves by pixels.
_FLAT, _CORRECTIONS, _SHRINKS = 0.3, 16, 0.95
# What is assumed begins where the nearest thing that was found ends, but for this share of depth,
# and no farther away than all but this share of what was found, in percent.
_BEHIND, _FARTHEST = 0.03, 99.0
# A plane is none, but a step or a table, if lower points are the majority in as many squares as
# this part of those that its own are above. Of mirror images in it squares have a few.
_ISLAND = 0.3
# Where it is seen more steeply, as a sine, only beside what lies on it, to this share of depth:
# below a drone, what is matched nowhere on a hill would become pits down to the valley.
_STEEP, _BESIDE = 0.7, 0.01
# Pixels of a side of a square in which what was found is looked for.
_COARSE = 4
# Photos of this longer side are aligned on the ground, by so many pixels of each; a difference of
# colours that counts a half; by how much less they must differ then: of planes that points know
# well, tilts gain two in a hundred by what lies on the ground. Of few points it is a guess unless
# they differ by less than this part of what they do a tenth of the cameras' height above and below;
# and where they hardly differ there, as on white paper, they say nothing.
_ALIGNED_SIDE, _ALIGNED, _OFF, _GAIN = 400, 1000, 0.1, 0.04
_CLEAR, _ASIDE, _PLAIN = 0.8, 0.1, 0.02
# Steps of tilts and of the height of the cameras to begin with; how far they may go; how many.
_STEPS, _MOST, _TRIALS = (0.004, 0.004, 0.03), (0.02, 0.02, 0.2), 60

# Of the plane around the cameras: the sides of its squares and how far it reaches beyond them, in
# their height; squares along a side, at most; how far below it is, in sides; and their halves.
_CELL, _AROUND, _CELLS, _SUNK, _HALVES = 0.5, 4.0, 100, 0.03, ((0, 1, 2), (0, 2, 3))


@final
@dataclass(frozen=True, eq=False)
class Ground:
    """A plane: points x with up . x = height.

    Attributes:
        up: [3] float64, unit, relative to the axes of the scene.
        height: relative to its origin.
        sure: whether many points lie on it; else photos must agree about its colours.
    """

    up: Array
    height: float
    sure: bool = True

    def assumed(self, scene: Scene, i: int, depths: Array) -> Array:
        """The inverse depths [H, W] of the ground where a photo has found nothing; 0 elsewhere.

        Args:
            scene: the photos.
            i: the photo.
            depths: float32 [H, W], inverse; 0 where nothing was found.
        """
        from scipy.ndimage import distance_transform_edt

        height, width = depths.shape
        if not (depths > 0).any():
            return np.zeros_like(depths)
        # up . (R' (K^-1 p / w - t)) = height.
        line = np.linalg.inv(scene.K[i]).T @ (scene.R[i] @ self.up)
        below = self.up @ scene.centres[i] - self.height
        down = -(line[0] * np.arange(width) + (line[1] * np.arange(height) + line[2])[:, None])
        own = (down / below).astype(np.float32)
        # The nearest squares in which anything was found, and the farthest of it there.
        rows, columns = (-(-n // _COARSE) for n in depths.shape)
        padded = np.full((rows * _COARSE, columns * _COARSE), np.inf, np.float32)
        padded[:height, :width] = np.where(depths > 0, depths, np.inf)
        least = padded.reshape(rows, _COARSE, columns, _COARSE).min((1, 3))
        near: Any = distance_transform_edt(
            ~np.isfinite(least), return_distances=False, return_indices=True
        )
        beside = least[tuple(near)].repeat(_COARSE, 0).repeat(_COARSE, 1)[:height, :width]
        farthest = np.percentile(depths[depths > 0], 100 - _FARTHEST)
        good = (depths <= 0) & (own >= farthest) & (own >= (1 - _BEHIND) * beside)
        steep = down**2 > _STEEP**2 * _squares(scene.K[i], height, width)
        good &= ~steep | (np.abs(own - beside) < _BESIDE * beside)
        return np.where(good, own, np.float32(0))

    def beneath(self, scene: Scene) -> Mesh:
        """The plane around the cameras, in triangles, a little below what photos show of it."""
        used = [i for i in range(len(scene)) if scene.neighbours[i]]
        across = np.linalg.svd(self.up[None])[2][1:]
        at, tall = scene.centres[used] @ across.T, scene.centres[used] @ self.up - self.height
        step = _CELL * float(np.median(tall))
        low, high = at.min(0) - _AROUND / _CELL * step, at.max(0) + _AROUND / _CELL * step
        step = max(step, float((high - low).max()) / _CELLS)
        u, v = (np.arange(a, b + step, step) for a, b in zip(low, high, strict=True))
        grid = np.stack(np.meshgrid(u, v, indexing="ij"), -1)
        points = grid.reshape(-1, 2) @ across + (self.height - _SUNK * step) * self.up
        first = (np.arange(len(u) - 1)[:, None] * len(v) + np.arange(len(v) - 1)).ravel()
        corners = [first, first + len(v), first + len(v) + 1, first + 1]
        faces = np.concatenate([np.stack([corners[k] for k in row], 1) for row in _HALVES])
        return Mesh(torch.from_numpy(points).float(), torch.from_numpy(faces))


def _squares(K: Array, height: int, width: int) -> Array:
    """The squared lengths [H, W] of the lines of sight of pixels to a depth of 1."""
    inverse = np.linalg.inv(K)
    across = (inverse[0, 0] * np.arange(width) + inverse[0, 2]) ** 2
    return across + ((inverse[1, 1] * np.arange(height) + inverse[1, 2]) ** 2 + 1)[:, None]


def aligned(ground: Ground, scene: Scene, assumed: list[Array]) -> Ground | None:
    """The plane on which photos agree best about the colours of the ground.

    None if it is not sure, and they do not agree clearly better on it than above and below.

    At a few degrees a plane that is off by a hundredth of the cameras' height moves the border of a
    lawn by pixels, and points of gravel are not that good.

    Args:
        ground: as points say.
        scene: the photos.
        assumed: of each photo, the pixels [P] that show it and nothing else, row by row.

    Source: Irani, Anandan & Weinshall, From Reference Frames to Reference Planes, ECCV 1998, for
    planes by direct methods; Nelder & Mead, A Simplex Method for Function Minimization, 1965.
    """
    from scipy.ndimage import gaussian_filter, map_coordinates
    from scipy.optimize import minimize

    dice, small = np.random.default_rng(0), scene.smaller(_ALIGNED_SIDE)
    lines = {
        i: _lines(scene, i, dice.choice(places, min(_ALIGNED, len(places)), replace=False))
        for i, places in enumerate(assumed)
        if len(places)
    }
    if not lines:
        return ground if ground.sure else None
    images = [
        [gaussian_filter(image[..., c].astype(np.float32) / 255, 1) for c in range(3)]
        for image in small.images
    ]

    def met(i: int, found: Ground) -> Array:
        below = found.up @ scene.centres[i] - found.height
        return scene.centres[i] - lines[i] * (below / (lines[i] @ found.up))[:, None]

    def places(j: int, points: Array) -> Array:
        pixels = (points @ small.R[j].T + small.t[j]) @ small.K[j].T
        return np.where(pixels[:, 2] > 0, (pixels[:, 1::-1] / pixels[:, 2:]).T, -1)

    def colors(j: int, points: Array) -> Array:
        at = places(j, points)
        return np.stack([map_coordinates(c, at, order=1, mode="nearest") for c in images[j]])

    own = {i: colors(i, met(i, ground)) for i in lines}
    # Pairs of photos that show a point to begin with: others would draw the plane to them.
    pairs: list[tuple[int, int, Array]] = []
    for i in lines:
        for j in scene.neighbours[i]:
            at, size = places(j, met(i, ground)), np.array(small.images[j].shape[:2])[:, None]
            pairs.append((i, j, np.flatnonzero(((at > 0) & (at < size - 1)).all(0))))
    tall = float(np.median(scene.centres[list(lines)] @ ground.up)) - ground.height
    across = np.linalg.svd(ground.up[None])[2][1:]
    # Tilts are around what photos show, lest they move it up and down.
    pivot = np.median(np.concatenate([met(i, ground) for i in lines]), 0)

    def plane(x: Array) -> Ground:
        up = ground.up + x[:2] @ across
        up /= np.linalg.norm(up)
        return replace(ground, up=up, height=float(up @ pivot + x[2] * tall))

    def differences(x: Array) -> float:
        """The mean over all pairs, each after a factor per channel: 0 to 1 (Geman-McClure)."""
        if (np.abs(x) > _MOST).any():
            return 1.0
        found = plane(x)
        points = {i: met(i, found) for i in lines}

        def difference(pair: tuple[int, int, Array]) -> float:
            i, j, some = pair
            mine, other = own[i][:, some], colors(j, points[i][some])
            gain = (mine * other).sum(1) / np.maximum((other * other).sum(1), 1e-12)
            off = np.square(mine - gain[:, None] * other).mean(0) / _OFF**2
            return float((off / (1 + off)).sum())

        return sum(mapped(difference, pairs)) / max(sum(len(some) for *_, some in pairs), 1)

    start = np.vstack([np.zeros(3), np.diag(_STEPS)])
    options = {"initial_simplex": start, "maxfev": _TRIALS}
    best = minimize(differences, np.zeros(3), method="Nelder-Mead", options=options)
    aside = [differences(best.x + np.array([0, 0, side])) for side in (-_ASIDE, _ASIDE)]
    if not ground.sure and (min(aside) < _PLAIN or best.fun > _CLEAR * min(aside)):
        return None
    return plane(best.x) if best.fun < (1 - _GAIN) * differences(np.zeros(3)) else ground


def _lines(scene: Scene, i: int, places: Array) -> Array:
    """Directions [P, 3] of the lines of sight of pixels."""
    width = scene.images[i].shape[1]
    pixels = np.stack([places % width, places // width, np.ones(len(places))], 1)
    return pixels @ np.linalg.inv(scene.K[i]).T @ scene.R[i]


def find_ground(scene: Scene, points: Array, normals: Array) -> Ground | None:
    """The lowest level plane on which many points lie, below all cameras; None if there is none.

    Args:
        scene: the photos, most of which are upright.
        points: [P, 3], as dense as photos show them.
        normals: [P, 3], unit, towards the cameras.
    """
    from scipy.spatial import KDTree

    if len(points) < 100:
        return None
    dice = np.random.default_rng(0)
    used = [i for i in range(len(scene)) if scene.neighbours[i]]
    centres = scene.centres[used]
    upright = upwards(scene.R[used], [scene.quarters[i] for i in used])
    level = points[normals @ upright > _FLAT]
    if len(level) < 3:
        return None
    judges = points[dice.integers(0, len(points), min(_JUDGES, len(points)))]
    # Around a statue the middle of the cameras is in it: what is far away is so from cameras.
    nearest = KDTree(centres).query(judges, min(_NEAREST, len(centres)))[0]
    thick = _THICK * float(np.median(nearest.reshape(len(judges), -1).mean(1)))
    fields = _fields(judges, centres, upright)
    for least, lowest, upper in _LEAST:
        heights = level @ upright
        flat = level[heights <= np.percentile(heights, lowest)]
        corners = flat[dice.integers(0, len(flat), (_TRIES, 3))]
        up = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        up /= np.linalg.norm(up, axis=1, keepdims=True) + 1e-300
        up *= np.sign(up @ upright)[:, None]
        height = (up * corners[:, 0]).sum(1)
        good = (up @ upright > upper) & ((centres @ up.T).min(0) > height + _BELOW * thick)
        best, found = least / 100 * len(judges), None
        for k in np.flatnonzero(good):
            off = judges @ up[k] - height[k]
            on, below = np.abs(off) < thick, off < -_BELOW * thick
            score = on.sum() - _AGAINST * below.sum()
            if score > best and not _is_island(fields[on], fields[below]):
                best, found = score, Ground(up[k], float(height[k]))
        if found is None:
            continue
        if lowest < 100:
            return replace(found, sure=False)
        for _ in range(_CORRECTIONS):
            off = flat @ found.up - found.height
            weight = np.where(np.abs(off) < 4 * thick, 1 / (1 + (off / thick) ** 2) ** 2, 0)
            middle = weight @ flat / weight.sum()
            own = np.linalg.eigh((weight[:, None] * (flat - middle)).T @ (flat - middle))[1][:, 0]
            own = own * np.sign(own @ upright)
            if own @ upright < _UPRIGHT or (centres @ own).min() <= own @ middle:
                break
            found, thick = Ground(own, float(own @ middle)), _SHRINKS * thick
        return found
    return None


def _fields(points: Array, centres: Array, up: Array) -> Array:
    """The square [P] of the level plane that each point is above, half as wide as cameras are high.

    Numbers from 0 on; what is beyond all is in those at the border.
    """
    across = np.linalg.svd(up[None])[2][1:]
    tall = float(np.median(centres @ up) - np.percentile(points @ up, 1))
    at = (points - centres.mean(0)) @ across.T / max(_CELL * tall, 1e-300)
    row, column = (at.clip(-_CELLS, _CELLS) + _CELLS).astype(np.int64).T
    return row * (2 * _CELLS + 1) + column


def _is_island(own: Array, lower: Array) -> bool:
    """Whether lower points are around a plane, by squares: near ones have most points."""
    size = max(own.max(initial=0), lower.max(initial=0)) + 1
    first, second = np.bincount(own, minlength=size), np.bincount(lower, minlength=size)
    return bool((second > first).sum() >= _ISLAND * (first > 0).sum())
