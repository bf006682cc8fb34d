"""Depth maps of a scene: multi-view stereo by PatchMatch, a slanted plane at each pixel.

From coarse to fine, pixels take over the planes of their neighbours (propagation) and random
changes of them where photos agree better with these: those three, of up to six, that agree best at
a pixel (view selection). A last pass also asks that planes lie where the other photos' planes do
(geometric consistency).

Source: Zheng, Dunn, Jojic & Frahm, PatchMatch Based Joint View Selection and Depthmap Estimation,
CVPR 2014; Schönberger, Zheng, Frahm & Pollefeys, Pixelwise View Selection for Unstructured
Multi-View Stereo, ECCV 2016; Xu & Tao, Multi-Scale Geometric Consistency Guided Multi-View Stereo,
CVPR 2019, for the chessboard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from gendr._common.arrays import read_arrays, write_arrays
from gendr.kernels.threads import run
from gendr.photos.scene.model import Scene, at_level, shrunk

__all__ = ["DepthMap", "DepthSettings", "find_depths", "grey_of", "noise_of", "packed"]

Array = npt.NDArray[Any]
Tell = Callable[[float], None]

# The noise of grey values, of 255, that patches bear; the quartile of the normal distribution.
_NOISE, _QUARTILE = 2.5, 0.6745


@final
@dataclass(frozen=True)
class DepthSettings:
    """How depth maps are found.

    Attributes:
        levels: by which photos are shrunk, one after the other.
        rounds: visits of each pixel at the first level, at others but the last, at the last, and in
            the pass with geometric consistency, of which there is none with 0.
        tries: random planes at each visit, at the first level and at others.
        size: of random changes, of the range of inverse depths, at the first level and at others.
        geometric: what each pixel of disagreement with the planes of another photo costs.
    """

    levels: tuple[int, ...] = (4, 2, 1)
    rounds: tuple[int, int, int, int] = (5, 2, 1, 1)
    tries: tuple[int, int] = (4, 2)
    size: tuple[float, float] = (0.15, 0.01)
    geometric: float = 0.15


@final
@dataclass(frozen=True, eq=False)
class DepthMap:
    """What stereo found for a photo.

    Attributes:
        planes: float32 [H, W, 3]: inverse depth, and its change per pixel to the right and down.
        costs: float32 [H, W]: 1 - the mean correlation, and what disagreement costs; 2 where
            there is no contrast.
        compared: patches that were compared.
    """

    planes: Array
    costs: Array
    compared: int

    def save(self, path: Path) -> None:
        """Write it; `load` reads it."""
        compared = np.array(self.compared)
        write_arrays(path, {"planes": self.planes, "costs": self.costs, "compared": compared})

    @staticmethod
    def load(path: Path) -> DepthMap:
        """Read what `save` wrote."""
        found = read_arrays(path)
        return DepthMap(found["planes"], found["costs"], int(found["compared"]))


def find_depths(
    scene: Scene, folder: Path, settings: DepthSettings | None = None, tell: Tell | None = None
) -> list[Path]:
    """The depth maps of all photos that have neighbours, as files in a folder.

    A file that is there already is used: whoever has other photos or settings takes another folder.
    At any time a photo, its neighbours and one plane a pixel are in memory. The result depends
    neither on the number of threads nor on interruptions.

    Args:
        scene: the photos.
        folder: of the files, which is made.
        settings: by default as they are.
        tell: called with the part that is done.

    Returns: the files, of photos in their order; one of a photo without neighbours is not there.
    """
    settings, tell = settings or DepthSettings(), tell or (lambda part: None)
    folder.mkdir(parents=True, exist_ok=True)
    again = bool(settings.rounds[3])
    first = [folder / f"{i:05d}_{'first' if again else 'depth'}.npz" for i in range(len(scene))]
    last = [folder / f"{i:05d}_depth.npz" for i in range(len(scene))]
    used = [i for i in range(len(scene)) if scene.neighbours[i]]
    greys = [grey_of(image) for image in scene.images]
    share = 0.45 if again else 1.0
    for n, i in enumerate(used):
        if not first[i].is_file() and not last[i].is_file():
            _alone(scene, greys, i, settings).save(first[i])
        tell(share * (n + 1) / len(used))
    for n, i in enumerate(used if again else ()):
        if not last[i].is_file():
            _together(scene, greys, i, first, settings).save(last[i])
        tell(share + (1 - share) * (n + 1) / len(used))
    return last


def packed(grey: Array) -> Array:
    """uint32 [H * W] of uint8 [H, W]: a pixel, the one right of it, and the two below."""
    right = np.concatenate([grey[:, 1:], grey[:, -1:]], 1)
    near, next_ = grey.astype(np.uint32), right.astype(np.uint32)
    below = np.minimum(np.arange(1, len(grey) + 1), len(grey) - 1)
    return (near | next_ << 8 | near[below] << 16 | next_[below] << 24).ravel()


def grey_of(image: Array) -> Array:
    """Grey values uint8 [H, W] of a photo, smoothed by three pixels along each axis if it is noisy.

    Patches take every second pixel: the noise of photos in poor light would hide faint patterns.
    """
    from scipy import ndimage

    grey = image @ np.array([0.299, 0.587, 0.114], np.float32)
    # The weights (a, 1 - 2 a, a) along both axes leave 6 a² - 4 a + 1 of it; 3 / 8 with a quarter.
    left = max(_NOISE / max(noise_of(grey), _NOISE), 0.375)
    a = (4 - (24 * left - 8) ** 0.5) / 12
    for axis in (0, 1) if left < 1 else ():
        grey = ndimage.correlate1d(grey, [a, 1 - 2 * a, a], axis, mode="nearest")
    return (grey + np.float32(0.5)).astype(np.uint8)


def noise_of(grey: Array) -> float:
    """The standard deviation of the noise of grey values [H, W].

    By what differs from planes through 3 x 3 pixels, in the median, as edges are few.

    Source: Immerkær, Fast Noise Variance Estimation, CVIU 64 (1996).
    """
    from scipy import ndimage

    off = grey
    for axis in (0, 1):
        off = ndimage.correlate1d(off, [1, -2, 1], axis)
    return float(np.median(np.abs(off[1:-1, 1:-1]))) / (6 * _QUARTILE)


class _Sweeper:
    """One photo and its neighbours at a level, ready to be swept over."""

    def __init__(
        self, scene: Scene, greys: list[Array], i: int, level: int, depths: Array | None = None
    ) -> None:
        near = scene.neighbours[i]
        small = [shrunk(greys[j], level) for j in (i, *near)]
        self.size = small[0].shape
        self.words = np.concatenate([packed(grey) for grey in small])
        shapes = np.array([grey.shape for grey in small], np.int64)
        self.heights, self.widths = shapes[:, 0].copy(), shapes[:, 1].copy()
        self.bases = np.concatenate([[0], np.cumsum(shapes.prod(1))[:-1]])
        pairs = [scene.between(i, j, level) for j in near]
        backs = [scene.between(j, i, level) for j in near]
        self.tables = [
            np.array([pair[k] for pair in some], np.float32)
            for some in (pairs, backs)
            for k in (0, 1)
        ]
        low, high = scene.ranges[i]
        self.range = np.float32(low), np.float32(high)
        self.focal = np.float32(at_level(scene.K[i], level)[0, 0])
        self.depths = np.zeros(1, np.float32) if depths is None else depths
        self.compared = 0

    def sweep(
        self, planes: Array, costs: Array, seen: Array, *, every: bool, geometric: float,
        size: float, tries: int, seed: int,
    ) -> None:  # fmt: skip
        """Visit each pixel once; planes, costs and seen are changed."""
        from gendr.photos.scene import depth_kernels as kernels

        counts = np.zeros(len(costs), np.int64)
        for parity in (0, 1):
            run(
                kernels.sweep, len(costs), self.words, self.bases, self.widths, self.heights,
                *self.tables, self.depths, np.float32(geometric), planes, costs, seen, parity,
                every, *self.range, self.focal, np.float32(size), tries, 2 * seed + parity, counts,
            )  # fmt: skip
            self.compared += int(counts.sum())


def _alone(scene: Scene, greys: list[Array], i: int, settings: DepthSettings) -> DepthMap:
    """The planes of a photo by what neighbours show."""
    planes, costs, compared = None, None, 0
    for number, level in enumerate(settings.levels):
        sweeper = _Sweeper(scene, greys, i, level)
        if planes is None or costs is None:
            planes = _start(scene, i, level, sweeper.size)
            costs = np.ones(sweeper.size, np.float32)
        else:
            ratio = settings.levels[number - 1] // level
            planes, costs = (
                _enlarged(planes, sweeper.size, ratio),
                _taken(costs, sweeper.size, ratio),
            )
        seen = np.zeros((*sweeper.size, 3), np.uint8)
        coarse = number == 0
        finest = number == len(settings.levels) - 1
        for k in range(settings.rounds[0 if coarse else 2 if finest else 1]):
            sweeper.sweep(
                planes, costs, seen, every=coarse, geometric=0.0,
                size=settings.size[0 if coarse else 1] * 0.5**k,
                tries=settings.tries[0 if coarse else 1], seed=7 * k + 100 * number,
            )  # fmt: skip
        compared += sweeper.compared
    assert planes is not None
    assert costs is not None
    return DepthMap(planes, costs, compared)


def _together(
    scene: Scene, greys: list[Array], i: int, files: list[Path], settings: DepthSettings
) -> DepthMap:
    """The planes of a photo that also lie where those of its neighbours do."""
    found, level = DepthMap.load(files[i]), settings.levels[-1]
    others = [
        DepthMap.load(files[j]).planes[..., 0].ravel()
        if files[j].is_file()
        else np.zeros(shrunk(greys[j], level).size, np.float32)
        for j in scene.neighbours[i]
    ]
    depths = np.concatenate([np.zeros(found.costs.size, np.float32), *others])
    sweeper = _Sweeper(scene, greys, i, level, depths)
    planes, costs = found.planes, found.costs
    seen = np.zeros((*sweeper.size, 3), np.uint8)
    for k in range(settings.rounds[3]):
        sweeper.sweep(
            planes, costs, seen, every=False, geometric=settings.geometric,
            size=settings.size[1] * 0.5**k, tries=settings.tries[1], seed=7 * k + 1000,
        )  # fmt: skip
    return DepthMap(planes, costs, found.compared + sweeper.compared)


def _start(scene: Scene, i: int, level: int, size: tuple[int, int]) -> Array:
    """First planes: half of the pixels have the depth of the nearest sparse point, half any."""
    from scipy.spatial import KDTree

    (height, width), (low, high) = size, scene.ranges[i]
    dice = np.random.default_rng(i)
    any_depth = dice.uniform(low, high, size)
    K = at_level(scene.K[i], level)
    x = scene.points[scene.seen[i]] @ scene.R[i].T + scene.t[i]
    x = x[x[:, 2] > 0] if len(x) else x.reshape(0, 3)
    start = any_depth
    if len(x):
        pixels = x @ K.T
        rows, columns = np.mgrid[:height, :width]
        where = np.stack([columns.ravel(), rows.ravel()], 1)
        nearest = KDTree(pixels[:, :2] / pixels[:, 2:]).query(where)[1]
        known = np.clip(1 / x[nearest, 2], low, high).reshape(size)
        start = np.where(dice.random(size) < 0.5, known, any_depth)
    slopes = dice.uniform(-1, 1, (*size, 2)) * start[..., None] / K[0, 0]
    return np.concatenate([start[..., None], slopes], -1).astype(np.float32)


def _taken(values: Array, size: tuple[int, int], ratio: int) -> Array:
    """The values of a coarser level at each pixel of a finer one."""
    rows, columns = (
        np.minimum(np.arange(n) // ratio, m - 1)
        for n, m in zip(size, values.shape[:2], strict=True)
    )
    return np.ascontiguousarray(values[rows[:, None], columns])


def _enlarged(planes: Array, size: tuple[int, int], ratio: int) -> Array:
    """The planes of a coarser level at each pixel of a finer one."""
    fine = _taken(planes, size, ratio)
    fine[..., 1:] /= ratio
    for axis, slope in ((0, 2), (1, 1)):
        n, m = size[axis], planes.shape[axis]
        # From the centre of the coarse pixel, which is at ratio * k + (ratio - 1) / 2.
        k = np.minimum(np.arange(n) // ratio, m - 1)
        off = (np.arange(n) - ratio * k - (ratio - 1) / 2).astype(np.float32)
        fine[..., 0] += fine[..., slope] * (off[:, None] if axis == 0 else off)
    return fine
