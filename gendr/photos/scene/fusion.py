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
from threadpoolctl import threadpool_limits

from gendr.kernels.threads import mapped, run
from gendr.photos.scene.depth_maps import DepthMap
from gendr.photos.scene.ground import Ground, aligned, find_ground
from gendr.photos.scene.mirrors import Depths, Mirror, find_mirrors
from gendr.photos.scene.model import Scene
from gendr.photos.scene.planar import find_planar, find_walls, normals_of
from gendr.photos.scene.sky import (
    above_all,
    above_horizon,
    as_bright,
    at_upper_edge,
    behind_wires,
    find_plain,
    find_sky,
    find_smooth,
)
from gendr.photos.upright import upwards

__all__ = ["Cloud", "FusionSettings", "fused", "thinned"]

Array = npt.NDArray[Any]

# Every so many-th pixel that is sure tells of the ground.
_SPARSE = 16
# Of photos of more pixels in all, this part of their points is kept: memory grows with these, and
# the surface is made of means of dozens of them.
_PIXELS = 30_000_000
# Stereo looks no farther than some times the depth of the points, so that clouds are matched there,
# at the end: inverse depths up to this many times the least one of a photo tell of no depth.
_END = 1.2
# How exactly stereo knows depths, in pixels of the median of the other photos.
_EXACT = 0.5
# The first number of the planes of a photo, of which there are at most `planar.MOST`.
_PLANAR = 128


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
        mirrors: whether what still water and panes mirror is put onto them.
    """

    limit: float = 0.6
    doubtful: float = 0.9
    pixels: float = 1.5
    relative: float = 0.01
    least: int = 3
    sure: float = 0.3
    mirrors: bool = True


@final
@dataclass(frozen=True, eq=False)
class Cloud:
    """Points that several photos see.

    Attributes:
        points: [P, 3] float32, relative to the origin of the scene.
        normals: [P, 3] float32, towards the first photo that sees each.
        colors: [P, 3] uint8, of that photo.
        first: [P] int32, that photo; in ascending order.
        places: [P] int32, the pixel of it, row by row.
        views: [P] uint8, who sees each: bit 0 is set, and bit k if the k-th neighbour of that photo
            does, see `chosen`.
        matched: [N], the share of the pixels of each photo whose cost is low enough, or that are
            doubtful and part of a point.
        kept: [N], the share of them that are part of a point.
        assumed: [N], the share that is taken to be ground, see `Ground`.
        planar: [N], the share without a pattern that is taken to lie on planes around it.
        plain: [N], the share without a pattern that is neither matched nor taken to be anything.
        depths: float32 [H, W] of each photo, the inverse depths of the pixels whose cost is low
            enough, or that are assumed, or doubtful and part of a point; -1 in the sky, and 0
            elsewhere.
        ground: the plane under the cameras, if there is one.
        mirrors: still water, and panes: what photos show behind them is on them here.
        mirrored: [N, M], the shares of the pixels of each photo that show each of them.
    """

    points: Array
    normals: Array
    colors: Array
    first: Array
    places: Array
    views: Array
    matched: Array
    kept: Array
    assumed: Array
    planar: Array
    plain: Array
    depths: tuple[Array, ...]
    ground: Ground | None
    mirrors: tuple[Mirror, ...]
    mirrored: Array

    def __len__(self) -> int:
        return len(self.points)

    def within(self, box: Array) -> Cloud:
        """The points between the corners [2, 3] of a box."""
        rows = np.flatnonzero(((self.points >= box[0]) & (self.points <= box[1])).all(1))
        names = ("points", "normals", "colors", "first", "places", "views")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def chosen(self, scene: Scene, rows: Array) -> tuple[Array, Array]:
        """Who sees some of the points.

        Returns: int32, the photos, those of one point after the other; and int64 [R + 1], where
        those of a point begin.
        """
        photos = np.zeros((len(scene), 8), np.int32)
        for i, near in enumerate(scene.neighbours):
            photos[i, : len(near) + 1] = i, *near
        sees = np.unpackbits(self.views[rows, None], axis=1, bitorder="little").astype(bool)
        starts = np.concatenate([[0], np.cumsum(sees.sum(1))])
        return photos[self.first[rows]][sees], starts


# Small products on each of our threads: those of BLAS would take the cores from each other.
@threadpool_limits.wrap(limits=1, user_api="blas")
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
    per_photo = [slice(offsets[i], offsets[i + 1]) for i in range(len(scene))]
    used = [i for i, file in enumerate(files) if file.is_file()]
    sky: dict[int, Array] = {}
    up = upwards(scene.R, scene.quarters)

    def filled(i: int) -> tuple[Array, Array]:
        """Depths of a photo; positions and normals of some of its pixels that are sure."""
        found = DepthMap.load(files[i])
        # All that is sure tells of the ground, also at the end: it is as thick as all is far away.
        sure = (found.costs <= settings.sure) & (found.planes[..., 0] > 0)
        near = found.planes[..., 0] > _END * scene.ranges[i, 0]
        good = (found.costs <= settings.limit) & near
        planes = found.planes.reshape(-1, 3)
        even = find_plain(scene.images[i])
        bare, rises = find_sky(even, good), above_horizon(scene, i, up)
        # There all that stereo finds tells of nothing.
        calm = find_sky(find_smooth(scene.images[i], even & rises), np.zeros_like(good))
        bare |= above_all(scene.images[i], calm & rises, scene.quarters[i])
        good &= ~bare
        nothing = bare & rises
        sky[i] = above_all(scene.images[i], nothing, scene.quarters[i])
        off = _EXACT / max(_motion(scene, i), 1e-300)
        upper = at_upper_edge(nothing, scene.quarters[i])
        walls = find_walls(scene.K[i], found.planes, good, upper, off)
        sky[i] &= ~walls
        sky[i] |= behind_wires(scene.images[i], even & rises & ~walls, good, sky[i])
        good &= ~sky[i]
        # Doubtful ones are negative until the ground is known, which has precedence.
        weak = (found.costs > settings.limit) & (found.costs <= settings.doubtful) & near
        weak &= ~(bare | sky[i])
        signs = np.where(good, 1, np.where(weak, -1, 0)).astype(np.float32)
        places = np.flatnonzero(sure & ~sky[i])[::_SPARSE]
        plain[per_photo[i]] = even.ravel()
        depths[per_photo[i]] = (signs * found.planes[..., 0].clip(0)).ravel()
        # A deep blue or dark one is no less a sky for being darker than the front before it.
        upper &= ~walls
        maybe = upper | (rises & as_bright(scene.images[i], sky[i]))
        part = find_planar(scene.images[i], scene.K[i], found.planes, good, even, maybe, off)
        assumed[per_photo[i]] = np.where(part.labels > 0, _PLANAR - 1 + part.labels, 0).ravel()
        planes_of[i] = part.planes
        return _positions(scene, i, planes, places), _normals(scene, i, planes, places)

    # Of each pixel 0, or whose plane it is given: 1 the ground's, from 2 on those of mirrors, and
    # from `_PLANAR` on those of its photo, see `find_planar`.
    assumed, planes_of = np.zeros(len(depths), np.uint8), dict[int, Array]()
    flat = mapped(filled, used)
    ground, mirrors = None, tuple[Mirror, ...]()
    if flat:
        points, normals = (np.concatenate(part) for part in zip(*flat, strict=True))
        photo = np.repeat(used, [len(part) for part, _ in flat])
        if settings.mirrors:
            maps = Depths(depths, offsets[:-1], widths, heights)
            mirrors = find_mirrors(scene, maps, points, normals, photo, up)
        for k, mirror in enumerate(mirrors):

            def leveled(i: int, mirror: Mirror = mirror, k: int = k) -> None:
                """Put what a photo shows behind a mirror, or not at all, where the mirror is."""
                own, met = depths[per_photo[i]], mirror.met(scene, i).ravel()
                behind = (met > 0) & (np.abs(own) < (1 - settings.relative) * met)
                own[behind], assumed[per_photo[i]][behind] = met[behind], 2 + k

            mapped(leveled, range(len(scene)))
            real = ~mirror.hides(scene.centres[photo], points, 2 * settings.relative)
            points, normals, photo = points[real], normals[real], photo[real]
        ground = find_ground(scene, points, normals)
        flat.clear()
        del points, normals, photo
    if ground is not None:

        def assume(i: int, ground: Ground, *, last: bool) -> Array:
            own = per_photo[i]
            extra = ground.assumed(scene, i, depths[own].reshape(shapes[i])).ravel()
            if last:
                assumed[own][extra > 0] = 1
                depths[own][extra > 0] = extra[extra > 0]
            return np.flatnonzero(extra)

        by_points = mapped(partial(assume, ground=ground, last=False), range(len(scene)))
        ground = aligned(ground, scene, by_points)
        if ground is not None:
            mapped(partial(assume, ground=ground, last=True), range(len(scene)))
    for i, planes in planes_of.items():
        # What is neither a mirror's nor the ground's by now.
        places = np.flatnonzero(assumed[per_photo[i]] >= _PLANAR)
        y, x = np.divmod(places, widths[i])
        a, b, c = planes[assumed[per_photo[i]][places] - _PLANAR].T
        depths[per_photo[i]][places] = a * x + b * y + c
    doubtful = depths < 0
    np.abs(depths, out=depths)
    taken = np.zeros(len(depths), bool)
    dice, share = np.random.default_rng(0), _PIXELS / len(depths)
    inverse = np.linalg.inv(scene.K)
    agreed: list[tuple[int, Array, Array, Array]] = []
    for i, near in enumerate(scene.neighbours):
        if near and files[i].is_file():
            pairs = [scene.between(i, j) for j in near]
            backs = [scene.between(j, i) for j in near]
            tables = [np.array([p[k] for p in some]) for some in (pairs, backs) for k in (0, 1)]
            size = int(sizes[i])
            positions, views = np.empty((size, 3), np.float32), np.empty(size, np.uint8)
            run(
                agree, int(heights[i]), i, np.array(near, np.int64), *tables, inverse, scene.R,
                scene.t, depths, offsets[:-1], widths, heights, assumed, doubtful, taken,
                settings.pixels, settings.relative, settings.least, positions, views,
            )  # fmt: skip
            places = np.flatnonzero(views)
            if share < 1:
                places = places[dice.random(len(places)) < share]
            agreed.append((i, places.astype(np.int32), positions[places], views[places]))
        tell((i + 1) / len(scene))

    def described(k: int) -> tuple[Array, ...]:
        i, places, positions, views = agreed[k]
        kinds = assumed[offsets[i] + places]
        planes, planar = DepthMap.load(files[i]).planes.reshape(-1, 3), kinds >= _PLANAR
        planes[places[planar], 0] = depths[offsets[i] + places[planar]]
        planes[places[planar], 1:] = planes_of[i][kinds[planar] - _PLANAR, :2]
        normals = _normals(scene, i, planes, places)
        if ground is not None:
            normals[kinds == 1] = ground.up
        for m, mirror in enumerate(mirrors):
            normals[kinds == 2 + m] = mirror.normal
        return (
            positions, normals, scene.images[i].reshape(-1, 3)[places],
            np.full(len(places), i, np.int32), places, views,
        )  # fmt: skip

    parts = mapped(described, range(len(agreed)))
    agreed.clear()
    if not parts:
        raise ValueError("no photo has a depth map")
    columns = [list(column) for column in zip(*parts, strict=True)]
    parts.clear()
    joined: list[Array] = []
    for column in columns:
        joined.append(np.concatenate(column))
        column.clear()  # there may be a gigabyte of points
    depths[doubtful & ~taken] = 0
    plain &= depths <= 0
    matched, kept, ground_share, planar_share, plain_share, *mirrored = (
        np.array([float(x[own].mean()) for own in per_photo])
        for x in (
            (depths > 0) & (assumed == 0), taken, assumed == 1, assumed >= _PLANAR, plain,
            *(assumed == 2 + k for k in range(len(mirrors))),
        )
    )  # fmt: skip
    for i, where in sky.items():
        own = depths[per_photo[i]].reshape(where.shape)
        own[where & (own == 0)] = -1
    parted = tuple(depths[own].reshape(h, w) for own, (h, w) in zip(per_photo, shapes, strict=True))
    points, normals, colors, first, places, views = joined
    return Cloud(
        points, normals, colors, first, places, views, matched, kept, ground_share,
        planar_share, plain_share, parted, ground, mirrors,
        np.array(mirrored).reshape(-1, len(scene)).T,
    )  # fmt: skip


def _positions(scene: Scene, i: int, planes: Array, places: Array) -> Array:
    """Where the planes at some pixels are: [P, 3]."""
    width = scene.images[i].shape[1]
    pixels = np.stack([places % width, places // width, np.ones(len(places))], 1)
    x = pixels @ np.linalg.inv(scene.K[i]).T / planes[places, :1]
    return (x - scene.t[i]) @ scene.R[i]


def _motion(scene: Scene, i: int) -> float:
    """By how many pixels a photo moves in others as inverse depths change by 1, in the median.

    Of its middle and corners where it is most: the middle stands still as one walks ahead.
    """
    height, width = scene.images[i].shape[:2]
    places = np.array([[0.5, 0.5], [0, 0], [0, 1], [1, 0], [1, 1]]) * [width, height]
    moves: list[float] = []
    for j in scene.neighbours[i]:
        turn, shift = scene.between(i, j)
        at = np.pad(places, ((0, 0), (0, 1)), constant_values=1) @ turn.T
        at = at[at[:, 2] > 0]
        moved = (shift[:2] - shift[2] * at[:, :2] / at[:, 2:]) / at[:, 2:]
        moves.append(float(np.linalg.norm(moved, axis=1).max(initial=0)))
    return float(np.median(moves))


def _normals(scene: Scene, i: int, planes: Array, places: Array) -> Array:
    """Unit normals of the planes at some pixels, towards the camera."""
    y, x = np.divmod(places, scene.images[i].shape[1])
    away = normals_of(scene.K[i], planes[places], x, y)
    return (-away @ scene.R[i]).astype(np.float32)


def thinned(scene: Scene, cloud: Cloud, most: int) -> tuple[Array, Array, int]:
    """At most so many points, each the mean of those near a median in a square of pixels.

    Args:
        scene: the photos.
        cloud: the points.
        most: of them.

    Returns: positions [Q, 3] float64; rows [Q] of the cloud, the points in whose place they are;
        and the side of the squares.
    """
    ends = np.searchsorted(cloud.first, np.arange(len(scene) + 1))

    def squares(i: int, side: int) -> Array:
        """The number of the square that each point of a photo is in."""
        width = scene.images[i].shape[1]
        y, x = np.divmod(cloud.places[ends[i] : ends[i + 1]], width)
        return y // side * (width // side + 1) + x // side

    def means(i: int) -> tuple[Array, Array]:
        own = slice(ends[i], ends[i + 1])
        points, key = cloud.points[own], squares(i, side)
        # Inverse depth along the axis of the photo.
        axis = np.broadcast_to(scene.R[i, 2], points.shape)
        depth = np.einsum("pk,pk->p", axis, points) + scene.t[i, 2]
        order = np.lexsort((depth, key))
        _, begin, count = np.unique(key[order], return_index=True, return_counts=True)
        middle = order[begin + count // 2]
        group = np.repeat(np.arange(len(begin)), count)
        pixel = depth / scene.K[i, 0, 0]
        # What is as near as a plane of 60 degrees brings about is of the same surface.
        near = np.abs(depth[order] - depth[middle][group]) <= 2 * side * pixel[middle][group]
        positions, total = np.zeros((len(begin), 3)), np.bincount(group[near], minlength=len(begin))
        for k in range(3):
            positions[:, k] = np.bincount(group[near], points[order[near], k], len(begin)) / total
        return positions, ends[i] + middle

    def filled(i: int, side: int) -> int:
        return int(np.count_nonzero(np.bincount(squares(i, side))))

    rows, side = range(len(scene)), 1
    while True:
        count = sum(mapped(partial(filled, side=side), rows))
        if count <= most:
            break
        side = max(side + 1, int(side * (count / most) ** 0.5))
    found = zip(*mapped(means, rows), strict=True)
    positions, middle = (np.concatenate(part) for part in found)
    return positions, middle, side
