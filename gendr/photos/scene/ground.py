"""The ground: the plane under the cameras on which what they see stands.

Gravel, lawn and floors are seen at grazing angles, under which their patterns smear, so that photos
match little of them. What they match, by edges and shadows, lies on a plane, and what is matched
nowhere below its horizon is taken to lie there too: a planar prior, as Xu & Tao, Planar Prior
Assisted PatchMatch Multi-View Stereo, AAAI 2020, have it for any plane, but only for this one, of
which photos themselves say that nothing is behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from gendr.photos.scene.model import Scene

__all__ = ["Ground", "find_ground"]

Array = npt.NDArray[Any]

# Planes that are tried, the points by which they are judged, and the largest angle to what is up
# in the mean of the photos, as a cosine.
_TRIES, _JUDGES, _UPRIGHT = 3000, 20_000, 0.96
# How far a point of the plane is off, of the median depth; how many times that is below it; what
# such a point counts against one of the plane; and the least share that is of it.
_THICK, _BELOW, _AGAINST, _LEAST = 0.004, 3.0, 4.0, 0.01
# Only points whose own planes are as flat as this correct it, as a cosine.
_FLAT, _CORRECTIONS = 0.8, 10
# What is assumed begins where the nearest thing that was found ends, but for this share of depth,
# and no farther away than all but this share of what was found, in percent.
_BEHIND, _FARTHEST = 0.03, 99.0
# Pixels of a side of a square in which what was found is looked for.
_COARSE = 4


@final
@dataclass(frozen=True, eq=False)
class Ground:
    """A plane: points x with up . x = height.

    Attributes:
        up: [3] float64, unit, relative to the axes of the scene.
        height: relative to its origin.
    """

    up: Array
    height: float

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
        own = -(line[0] * np.arange(width) + (line[1] * np.arange(height) + line[2])[:, None])
        own = (own / below).astype(np.float32)
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
        return np.where(good, own, np.float32(0))


def find_ground(scene: Scene, points: Array, normals: Array) -> Ground | None:
    """The lowest level plane on which many points lie, below all cameras; None if there is none.

    Args:
        scene: the photos, the mean of which is upright.
        points: [P, 3], as dense as photos show them.
        normals: [P, 3], unit, towards the cameras.
    """
    if len(points) < 100:
        return None
    dice = np.random.default_rng(0)
    used = [i for i in range(len(scene)) if scene.neighbours[i]]
    centres = scene.centres[used]
    upright = -scene.R[used, 1].mean(0)
    upright /= max(float(np.linalg.norm(upright)), 1e-12)
    depth = np.linalg.norm(points - centres.mean(0), axis=1)
    thick = _THICK * float(np.median(depth))
    flat = points[normals @ upright > _FLAT]
    if len(flat) < 3:
        return None
    judges = points[dice.integers(0, len(points), min(_JUDGES, len(points)))]
    corners = flat[dice.integers(0, len(flat), (_TRIES, 3))]
    up = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    up /= np.linalg.norm(up, axis=1, keepdims=True) + 1e-300
    up *= np.sign(up @ upright)[:, None]
    height = (up * corners[:, 0]).sum(1)
    good = (up @ upright > _UPRIGHT) & ((centres @ up.T).min(0) > height + _BELOW * thick)
    best, found = _LEAST * len(judges), None
    for k in np.flatnonzero(good):
        off = judges @ up[k] - height[k]
        score = (np.abs(off) < thick).sum() - _AGAINST * (off < -_BELOW * thick).sum()
        if score > best:
            best, found = score, Ground(up[k], float(height[k]))
    for _ in range(_CORRECTIONS if found is not None else 0):
        assert found is not None
        some = flat[np.abs(flat @ found.up - found.height) < thick]
        middle = some.mean(0)
        own = np.linalg.svd(some - middle, full_matrices=False)[2][2]
        own = own * np.sign(own @ upright)
        if own @ upright < _UPRIGHT or (centres @ own).min() <= own @ middle:
            break
        found = Ground(own, float(own @ middle))
    return found
