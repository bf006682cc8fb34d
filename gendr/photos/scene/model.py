"""The photos of a scene with their cameras, and what is known of it before stereo.

Everything is relative to an origin between the cameras, so that single precision suffices for what
follows, also where the world is in UTM metres.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from gendr.kernels.threads import mapped
from gendr.mesh.images import MAX_MEGAPIXELS, Picture
from gendr.photos.camera_files.colmap import read_point_file, read_tracks
from gendr.photos.camera_files.lenses import straightening
from gendr.photos.camera_files.transforms import lens_of, list_frames, pose_of, read_cameras
from gendr.photos.camera_files.worlds import World, points_beside
from gendr.photos.folders import resized_straight
from gendr.photos.images import decoded_at_once, open_photo

__all__ = ["MOST_NEIGHBOURS", "Scene", "at_level", "read_scene", "shrunk"]

Array = npt.NDArray[Any]

# Photos that each is compared with, at most; points have a byte for who sees them.
MOST_NEIGHBOURS = 6
# Sparse points that two photos must share, weighed by their angles, to be compared.
_LEAST_SCORE = 5.0
# The angle between two lines of sight to a point up to which more of it is better, and how fast it
# is worse beyond, in degrees.
_BEST_ANGLE, _FALL = 10.0, 20.0
# Photos from one place, as copies and bursts: what they share, at least this part of the points of
# one of them, is seen at a smaller angle in the median, in degrees; without points, they are nearer
# than this part of the usual distance.
_SAME_SHARE, _SAME_ANGLE, _SAME_PART = 0.2, 0.3, 0.01
# Depths: of the percentiles of sparse points, the nearest divided and the farthest multiplied.
# Clouds are matched as well; of points that no two photos see at this angle, in degrees, depths are
# guesses (Schönberger & Frahm, Structure-from-Motion Revisited, CVPR 2016, whose code drops them).
# Where hardly any are better, as of mountains from a road, a guess is what there is: in photos in
# which less than this part of the points is seen so, or fewer than so many.
_PERCENTILES, _WIDER, _WIDE_ANGLE = (1.0, 99.0), (3.0, 3.0), 1.5
_WIDE_PART, _LEAST_WIDE = 0.1, 4
# Without points: from so many distances between neighbouring cameras on.
_NEAREST = 1.5


@final
@dataclass(frozen=True, eq=False)
class Scene:
    """Photos as pinholes see them, their cameras, and sparse points.

    Attributes:
        names: of the photos.
        images: uint8 [H, W, 3] of each, straightened and shrunk.
        K: [N, 3, 3] float64, in pixels of these; the centre of the first pixel is at 0.
        R: [N, 3, 3], OpenCV's: x right, y down, z ahead.
        t: [N, 3]; R x + t for points x less the origin.
        origin: [3], in the world.
        points: [P, 3], less the origin; none if nothing is known.
        seen: of each photo, the points that it shows.
        neighbours: of each photo, those that it is compared with, best first.
        ranges: [N, 2], the inverse depths between which each looks.
        quarters: quarter turns to the right that make each photo upright, as its EXIF data say.
    """

    names: tuple[str, ...]
    images: tuple[Array, ...]
    K: Array
    R: Array
    t: Array
    origin: Array
    points: Array
    seen: tuple[Array, ...]
    neighbours: tuple[tuple[int, ...], ...]
    ranges: Array
    quarters: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def centres(self) -> Array:
        """[N, 3], where the cameras stand."""
        return -np.einsum("nji,nj->ni", self.R, self.t)

    def smaller(self, side: int) -> Scene:
        """The same with photos whose longer sides are at most so many pixels."""
        from PIL import Image

        images: list[Array] = []
        K = self.K.copy()
        for i, image in enumerate(self.images):
            height, width = image.shape[:2]
            part = min(1.0, side / max(height, width))
            size = max(1, round(part * width)), max(1, round(part * height))
            small = Image.fromarray(image).resize(size, Image.Resampling.BOX)
            images.append(image if part == 1 else np.array(small))
            for axis, ratio in enumerate((size[0] / width, size[1] / height)):
                K[i, axis] *= ratio
                K[i, axis, 2] += (ratio - 1) / 2
        return replace(self, images=tuple(images), K=K)

    def between(self, i: int, j: int, level: int = 1) -> tuple[Array, Array]:
        """A [3, 3], b [3]: pixel p of photo i with inverse depth w is at A p + w b in photo j."""
        turn = self.R[j] @ self.R[i].T
        first, second = (at_level(self.K[k], level) for k in (i, j))
        return second @ turn @ np.linalg.inv(first), second @ (self.t[j] - turn @ self.t[i])


def at_level(K: Array, level: int) -> Array:
    """The matrix of a lens for an image of which each level x level pixels are one."""
    K = K.copy()
    K[:2] /= level
    K[:2, 2] -= (1 - 1 / level) / 2
    return K


def shrunk(grey: Array, level: int) -> Array:
    """Means of level x level pixels; what is left over right and below goes."""
    if level == 1:
        return grey
    height, width = (n // level * level for n in grey.shape)
    blocks = grey[:height, :width].reshape(height // level, level, width // level, level)
    return (blocks.mean((1, 3)) + 0.5).astype(np.uint8)


def read_scene(
    path: str | Path,
    *,
    cameras: str | Path | None = None,
    side: int = 1600,
    max_megapixels: float = MAX_MEGAPIXELS,
    left_out: Sequence[int] = (),
    images: Sequence[Array] | None = None,
) -> Scene:
    """Read the photos of a folder, of any sizes and lenses, and the points found with the cameras.

    Args:
        path: the folder, or its file of cameras; see `gendr.photos.load_views`.
        cameras: the JSON file of the cameras, if it is not in the folder.
        side: the longer side of what is made of each photo, in pixels, at most its own.
        max_megapixels: the largest photo that is read.
        left_out: photos by which nothing is found.
        images: the photos, straightened and shrunk, uint8 [H, W, 3], if they were read before;
            `side` says nothing then.

    Raises:
        ValueError: as `load_views` does; or if no two photos show the same.
    """
    given = read_cameras(Path(path), None if cameras is None else Path(cameras))
    frames = list_frames(given, max_megapixels)
    lenses = [lens_of(given.meta, frame) for frame in frames]
    sizes = [frame.size for frame in frames]
    bends = straightening(lenses, sizes, [frame.where for frame in frames])
    matrices: list[Array] = []
    targets: list[tuple[int, int]] = []
    for i, (lens, size, bent) in enumerate(zip(lenses, sizes, bends, strict=True)):
        own = size if bent is None else bent.size(size)
        pinhole = lens if bent is None else bent.pinhole(size)
        part = min(1.0, side / max(own))
        target = (max(1, round(part * own[0])), max(1, round(part * own[1])))
        if images is not None:
            target = images[i].shape[0], images[i].shape[1]
        pinhole = pinhole.scaled(target[1] / own[1], target[0] / own[0])
        matrices.append(np.array([
            [pinhole.fx, 0, pinhole.cx - 0.5], [0, pinhole.fy, pinhole.cy - 0.5], [0, 0, 1.0]
        ]))  # fmt: skip
        targets.append(target)

    def read(i: int) -> Array:
        frame = frames[i]
        with open_photo(frame.image, max_megapixels, frame.turn) as opened:
            image = Picture(opened)
            channels = [0, 1, 2] if image.channels > 2 else [0, 0, 0]

            def rows(start: int, stop: int) -> npt.NDArray[np.float64]:
                own = image.rows(start, stop)
                return np.stack([own[c] for c in channels]).astype(np.float64)

            planes = resized_straight(rows, frame.size, targets[i], bends[i])
            shades = (planes * (255 / image.white)).round().clip(0, 255)
            return np.ascontiguousarray(shades.astype(np.uint8).transpose(1, 2, 0))

    if images is None:
        largest = max(sizes, key=lambda size: size[0] * size[1])
        images = mapped(read, range(len(frames)), most=decoded_at_once(largest))
    poses = np.stack([pose_of(frame) for frame in frames]).astype(np.float64)
    R = (poses[:, :3, :3] * np.array([1.0, -1.0, -1.0])).transpose(0, 2, 1)
    R /= np.linalg.norm(R, axis=2, keepdims=True)
    eyes = poses[:, :3, 3]
    origin = eyes.mean(0)
    t = -np.einsum("nij,nj->ni", R, eyes - origin)
    points, tracks, ids = _points(Path(path), None if cameras is None else Path(cameras))
    numbers: list[int] = [
        frame.entry.get("image_id") or ids.get(World.name_of(frame.name)) or i + 1
        for i, frame in enumerate(frames)
    ]
    points = points - origin
    K = np.stack(matrices)
    seen = _visible_points(points, tracks, numbers, K, R, t, targets)
    near, angles = _neighbours(points, seen, eyes - origin, set(left_out))
    kept = [i for i in range(len(frames)) if i not in left_out]
    if not any(near[i] for i in kept):
        raise ValueError(
            f"{given.file}: no two photos show enough of the same: take more of them, of which "
            "neighbours overlap by two thirds"
        )
    ranges = _ranges(points, _told(seen, angles), R, t, eyes - origin)
    return Scene(
        tuple(frame.name for frame in frames), tuple(images), K, R, t, origin, points, seen, near,
        ranges, tuple(frame.quarters for frame in frames),
    )  # fmt: skip


def _points(
    path: Path, cameras: Path | None
) -> tuple[Array, list[tuple[int, ...]], dict[str, int]]:
    """The sparse points that belong to the cameras, who sees them, and numbers of these by name.

    None if there are none; and no numbers if the cameras have their own.
    """
    source = points_beside(path, cameras)
    if source is None:
        return np.zeros((0, 3)), [], {}
    file, world = source
    return world.moved(read_point_file(file)[0]), read_tracks(file), world.numbers


def _visible_points(
    points: Array, tracks: list[tuple[int, ...]], numbers: list[int], K: Array, R: Array, t: Array,
    sizes: list[tuple[int, int]],
) -> tuple[Array, ...]:  # fmt: skip
    """The points that each photo shows; all in its frame, where no tracks say which it does."""
    found: list[Array] = []
    row = {number: i for i, number in enumerate(numbers)}
    said: list[list[int]] = [[] for _ in numbers]
    for p, track in enumerate(tracks):
        for number in set(track):
            if number in row:
                said[row[number]].append(p)
    known = any(said)
    for i, (height, width) in enumerate(sizes):
        x = points @ R[i].T + t[i]
        ahead = x[:, 2] > 0
        pixels = x @ K[i].T
        with np.errstate(all="ignore"):
            u, v = pixels[:, 0] / pixels[:, 2], pixels[:, 1] / pixels[:, 2]
            inside = ahead & (u > 0) & (v > 0) & (u < width - 1) & (v < height - 1)
        if known:
            chosen = np.array(said[i], np.int64)
            found.append(chosen[inside[chosen]])
        else:
            found.append(np.flatnonzero(inside))
    return tuple(found)


def _neighbours(
    points: Array, seen: tuple[Array, ...], centres: Array, gone: set[int]
) -> tuple[tuple[tuple[int, ...], ...], Array]:
    """Of each photo those that share most points at good angles, or that stand nearest.

    Of several from one place one is enough: where they agree they tell of no depth.

    Returns: these; and the widest angle [P] at which two photos see each point, in degrees.
    """
    count, widest = len(centres), np.zeros(len(points))
    score = np.zeros((count, count))
    apart = np.linalg.norm(centres[:, None] - centres, axis=-1)
    usual = max(float(np.median(apart)), 1e-12)
    same = apart <= _SAME_PART * usual
    for i, j in combinations(range(count), 2):
        if i in gone or j in gone:
            continue
        if not len(points):
            score[i, j] = score[j, i] = 1e3 / (1 + apart[i, j] / usual)
            continue
        both = np.intersect1d(seen[i], seen[j], assume_unique=True)
        first, second = points[both] - centres[i], points[both] - centres[j]
        length = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        cosine = (first * second).sum(1) / np.maximum(length, 1e-300)
        angle = np.degrees(np.arccos(cosine.clip(-1, 1)))
        widest[both] = np.maximum(widest[both], angle)
        many = len(both) > _SAME_SHARE * min(len(seen[i]), len(seen[j]))
        same[i, j] = same[j, i] = many and float(np.median(angle)) < _SAME_ANGLE
        near = np.minimum(1, angle / _BEST_ANGLE) ** 2
        far = np.exp(-(((angle - _BEST_ANGLE) / _FALL) ** 2))
        score[i, j] = score[j, i] = np.where(angle < _BEST_ANGLE, near, far).sum()
    found: list[tuple[int, ...]] = []
    for i, row in enumerate(np.argsort(-score, 1, kind="stable")):
        chosen: list[int] = []
        for j in row[score[i, row] > _LEAST_SCORE].tolist():
            if len(chosen) < MOST_NEIGHBOURS and not same[j, [i, *chosen]].any():
                chosen.append(j)
        found.append(tuple(chosen))
    return tuple(found), widest


def _told(seen: tuple[Array, ...], angles: Array) -> tuple[Array, ...]:
    """Of the points that each photo shows, those that tell how far it looks."""
    wide = [rows[angles[rows] > _WIDE_ANGLE] for rows in seen]
    return tuple(
        own if len(own) >= max(_LEAST_WIDE, _WIDE_PART * len(rows)) else rows
        for own, rows in zip(wide, seen, strict=True)
    )


def _ranges(points: Array, seen: tuple[Array, ...], R: Array, t: Array, centres: Array) -> Array:
    """[N, 2], the smallest and the largest inverse depth of each photo."""
    if not len(points):
        apart = np.linalg.norm(centres[:, None] - centres, axis=-1)
        np.fill_diagonal(apart, np.inf)
        nearest = _NEAREST * float(np.median(apart.min(1)))
        return np.tile([0.0, 1 / max(nearest, 1e-12)], (len(R), 1))
    found = np.zeros((len(R), 2))
    for i in range(len(R)):
        z = (points[seen[i]] @ R[i].T + t[i])[:, 2]
        if len(z) < 4:
            continue
        near, far = np.percentile(z, _PERCENTILES)
        found[i] = 1 / (far * _WIDER[1]), _WIDER[0] / near
    return found
