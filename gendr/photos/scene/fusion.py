"""One cloud of depth maps: points on which photos agree, with who sees them.

Source: Schönberger et al., Pixelwise View Selection for Unstructured Multi-View Stereo, ECCV 2016,
section 4.5: three photos that agree in position and depth, or two where no third has the point in
its frame; and their code, whose limits of costs are as wide as that of doubtful pixels here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from gendr.kernels.threads import mapped, run
from gendr.photos.scene.depth_maps import DepthMap
from gendr.photos.scene.ground import Ground, aligned, find_ground
from gendr.photos.scene.model import Scene
from gendr.photos.scene.sky import above_all, above_horizon, find_plain, find_sky
from gendr.photos.upright import upwards

__all__ = ["Cloud", "FusionSettings", "fused", "thinned"]

Array = npt.NDArray[Any]

# Every so many-th pixel that is sure tells of the ground.
_SPARSE = 16
# Of photos of more pixels in all, this part of their points is kept: memory grows with these, and
# the surface is made of means of dozens of them.
_PIXELS = 30_000_000


@final
@dataclass(frozen=True)
class FusionSettings:
    """When photos agree.

    Attributes:
        limit: the largest cost of a pixel that counts.
        doubtful: the largest cost of one that counts if one more photo agrees than `least`, in any
            case: of what has little contrast, noise hides patterns, but hardly agrees on depths.
        pixels: by which planes may come back elsewhere.
        relative: by which depths may differ.
        least: photos, of as many as have a point in their frames.
        sure: the largest cost of a pixel by which the ground is found.
    """

    limit: float = 0.6
    doubtful: float = 0.9
    pixels: float = 1.5
    relative: float = 0.01
    least: int = 3
    sure: float = 0.3


@final
@dataclass(frozen=True, eq=False)
class Cloud:
    """Points that several photos see.

    Attributes:
        points: [P, 3] float32, relative to the origin of the scene.
        normals: [P, 3] float32, towards the first photo that sees each.
        colors: [P, 3] uint8, of that photo.
        first: [P] int32, that photo.
        places: [P] int64, the pixel of it, row by row.
        views: int32, the photos that see each point, one point after the other.
        starts: [P + 1] int64, where those of a point begin.
        matched: [N], the share of the pixels of each photo whose cost is low enough, or that are
            doubtful and part of a point.
        kept: [N], the share of them that are part of a point.
        assumed: [N], the share that is taken to be ground, see `Ground`.
        plain: [N], the share without a pattern that is neither matched nor ground.
        depths: float32 [H, W] of each photo, the inverse depths of the pixels whose cost is low
            enough, or that are assumed, or doubtful and part of a point; -1 in the sky, and 0
            elsewhere.
        ground: the plane under the cameras, if there is one.
    """

    points: Array
    normals: Array
    colors: Array
    first: Array
    places: Array
    views: Array
    starts: Array
    matched: Array
    kept: Array
    assumed: Array
    plain: Array
    depths: tuple[Array, ...]
    ground: Ground | None

    def __len__(self) -> int:
        return len(self.points)

    def within(self, box: Array) -> Cloud:
        """The points between the corners [2, 3] of a box."""
        rows = np.flatnonzero(((self.points >= box[0]) & (self.points <= box[1])).all(1))
        views, starts = self.chosen(rows)
        names = ("points", "normals", "colors", "first", "places")
        own = {name: getattr(self, name)[rows] for name in names}
        return replace(self, **own, views=views, starts=starts)

    def chosen(self, rows: Array) -> tuple[Array, Array]:
        """`views` and `starts` of some of the points."""
        count = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(count)])
        inside = np.arange(starts[-1]) - np.repeat(starts[:-1], count)
        return self.views[np.repeat(self.starts[rows], count) + inside], starts


def fused(
    scene: Scene, files: list[Path], settings: FusionSettings | None = None,
    tell: Callable[[float], None] | None = None,
) -> Cloud:  # fmt: skip
    """The points on which depth maps agree.

    Args:
        scene: the photos.
        files: their depth maps, see `find_depths`; of photos without one there is no file.
        settings: by default as they are.
        tell: called with the part that is done.
    """
    from gendr.photos.scene.fusion_kernels import agree

    settings, tell = settings or FusionSettings(), tell or (lambda part: None)
    shapes = np.array([image.shape[:2] for image in scene.images], np.int64)
    sizes = shapes.prod(1)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    depths, plain = np.zeros(offsets[-1], np.float32), np.zeros(offsets[-1], bool)
    heights, widths = shapes[:, 0].copy(), shapes[:, 1].copy()
    flat: list[tuple[Array, Array]] = []
    sky: dict[int, Array] = {}
    up = upwards(scene.R, scene.quarters)
    for i, file in enumerate(files):
        if file.is_file():
            found = DepthMap.load(file)
            good = (found.costs <= settings.limit) & (found.planes[..., 0] > 0)
            places = np.flatnonzero(good & (found.costs <= settings.sure))[::_SPARSE]
            planes = found.planes.reshape(-1, 3)
            even = find_plain(scene.images[i])
            nothing = find_sky(even, good)
            good &= ~nothing
            # Doubtful ones are negative until the ground is known, which has precedence.
            weak = (found.costs > settings.limit) & (found.costs <= settings.doubtful) & ~nothing
            signs = np.where(good, 1, np.where(weak, -1, 0)).astype(np.float32)
            nothing &= above_horizon(scene, i, up)
            sky[i] = above_all(scene.images[i], nothing, scene.quarters[i])
            plain[offsets[i] : offsets[i + 1]] = even.ravel()
            depths[offsets[i] : offsets[i + 1]] = (signs * found.planes[..., 0].clip(0)).ravel()
            flat.append((_positions(scene, i, planes, places), _normals(scene, i, planes, places)))
    per_photo = [slice(offsets[i], offsets[i + 1]) for i in range(len(scene))]
    assumed = np.zeros(len(depths), bool)
    ground = (
        find_ground(scene, *(np.concatenate(part) for part in zip(*flat, strict=True)))
        if flat
        else None
    )
    if ground is not None:

        def assume(i: int, ground: Ground) -> Array:
            if not files[i].is_file():
                return np.zeros(int(sizes[i]), np.float32)
            return ground.assumed(scene, i, depths[per_photo[i]].reshape(shapes[i])).ravel()

        rows = range(len(scene))
        by_points = mapped(partial(assume, ground=ground), rows)
        ground = aligned(ground, scene, [np.flatnonzero(each) for each in by_points])
        for own, extra in zip(per_photo, mapped(partial(assume, ground=ground), rows), strict=True):
            assumed[own] = extra > 0
            depths[own][assumed[own]] = extra[assumed[own]]
    doubtful = depths < 0
    np.abs(depths, out=depths)
    taken = np.zeros(len(depths), bool)
    dice, share = np.random.default_rng(0), _PIXELS / len(depths)
    inverse = np.linalg.inv(scene.K)
    parts: list[tuple[Array, ...]] = []
    for i, near in enumerate(scene.neighbours):
        if near and files[i].is_file():
            pairs = [scene.between(i, j) for j in near]
            backs = [scene.between(j, i) for j in near]
            tables = [np.array([p[k] for p in some]) for some in (pairs, backs) for k in (0, 1)]
            size = int(sizes[i])
            positions, counts = np.empty((size, 3), np.float32), np.empty(size, np.uint8)
            views = np.empty((size, len(near) + 1), np.int32)
            run(
                agree, int(heights[i]), i, np.array(near, np.int64), *tables, inverse, scene.R,
                scene.t, depths, offsets[:-1], widths, heights, assumed, doubtful, taken,
                settings.pixels, settings.relative, settings.least, positions, views, counts,
            )  # fmt: skip
            places = np.flatnonzero(counts)
            if share < 1:
                places = places[dice.random(len(places)) < share]
            counts = counts[places]
            told = views[places][np.arange(views.shape[1]) < counts[:, None]]
            normals = _normals(scene, i, DepthMap.load(files[i]).planes.reshape(-1, 3), places)
            if ground is not None:
                normals[assumed[offsets[i] + places]] = ground.up
            parts.append((
                positions[places], normals, scene.images[i].reshape(-1, 3)[places],
                np.full(len(places), i, np.int32), places, told, counts,
            ))  # fmt: skip
        tell((i + 1) / len(scene))
    if not parts:
        raise ValueError("no photo has a depth map")
    columns = [list(column) for column in zip(*parts, strict=True)]
    parts.clear()
    joined: list[Array] = []
    for column in columns:
        joined.append(np.concatenate(column))
        column.clear()  # there may be a gigabyte of points
    starts = np.concatenate([[0], np.cumsum(joined[6], dtype=np.int64)])
    depths[doubtful & ~taken] = 0
    plain &= depths <= 0
    matched, kept, ground_share, plain_share = (
        np.array([float(x[own].mean()) for own in per_photo])
        for x in ((depths > 0) & ~assumed, taken, assumed, plain)
    )
    for i, where in sky.items():
        own = depths[per_photo[i]].reshape(where.shape)
        own[where & (own == 0)] = -1
    maps = tuple(depths[own].reshape(h, w) for own, (h, w) in zip(per_photo, shapes, strict=True))
    points, normals, colors, first, places, told, _ = joined
    return Cloud(
        points, normals, colors, first, places, told, starts, matched, kept, ground_share,
        plain_share, maps, ground,
    )  # fmt: skip


def _positions(scene: Scene, i: int, planes: Array, places: Array) -> Array:
    """Where the planes at some pixels are: [P, 3]."""
    width = scene.images[i].shape[1]
    pixels = np.stack([places % width, places // width, np.ones(len(places))], 1)
    x = pixels @ np.linalg.inv(scene.K[i]).T / planes[places, :1]
    return (x - scene.t[i]) @ scene.R[i]


def _normals(scene: Scene, i: int, planes: Array, places: Array) -> Array:
    """Unit normals of the planes at some pixels, towards the camera.

    Where w = n . K^-1 p / d, K^T (wx, wy, w - x wx - y wy) is along n.
    """
    width = scene.images[i].shape[1]
    w, wx, wy = planes[places].astype(np.float64).T
    rest = w - (places % width) * wx - (places // width) * wy
    normals = -np.stack([wx, wy, rest], 1) @ scene.K[i] @ scene.R[i]
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    return normals.astype(np.float32)


def thinned(scene: Scene, cloud: Cloud, most: int) -> tuple[Array, Array, int]:
    """At most so many points, each the mean of those near a median in a square of pixels.

    Args:
        scene: the photos.
        cloud: the points.
        most: of them.

    Returns: positions [Q, 3] float64; rows [Q] of the cloud, the points in whose place they are;
        and the side of the squares.
    """
    widths = np.array([image.shape[1] for image in scene.images], np.int64)[cloud.first]
    x, y = cloud.places % widths, cloud.places // widths
    # Inverse depth along the axis of the first photo.
    depth = np.einsum("pk,pk->p", scene.R[:, 2][cloud.first], cloud.points)
    depth += scene.t[cloud.first, 2]
    down, across = (max(image.shape[k] for image in scene.images) for k in (0, 1))
    side = 1
    while True:
        key = (cloud.first * np.int64(down) + y // side) * across + x // side
        taken = np.zeros(len(scene) * down * across, bool)
        taken[key] = True
        count = np.count_nonzero(taken)
        if count <= most:
            break
        side = max(side + 1, int(side * (count / most) ** 0.5))
    order = np.lexsort((depth, key))
    _, begin, count = np.unique(key[order], return_index=True, return_counts=True)
    middle = order[begin + count // 2]
    group = np.repeat(np.arange(len(begin)), count)
    pixel = depth / scene.K[cloud.first, 0, 0]
    # What is as near as a plane of 60 degrees brings about is of the same surface.
    near = np.abs(depth[order] - depth[middle][group]) <= 2 * side * pixel[middle][group]
    positions = np.zeros((len(begin), 3))
    for axis in range(3):
        sums = np.bincount(group[near], cloud.points[order[near], axis], len(begin))
        positions[:, axis] = sums / np.bincount(group[near], minlength=len(begin))
    return positions, middle, side
