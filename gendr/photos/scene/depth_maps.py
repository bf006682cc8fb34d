"""Depth maps of a scene: a slanted plane at each pixel of each photo, as files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from gendr._common.arrays import read_arrays, write_arrays
from gendr.photos.scene.model import Scene, at_level, shrunk
from gendr.photos.stereo.matching import (
    Matcher,
    StereoSettings,
    first_planes,
    match,
    packed,
    refine,
)

__all__ = ["DepthMap", "find_depths", "grey_of", "noise_of"]

Array = npt.NDArray[Any]
Tell = Callable[[float], None]

# The noise of grey values, of 255, that patches bear; the quartile of the normal distribution.
_NOISE, _QUARTILE = 2.5, 0.6745


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
    scene: Scene, folder: Path, settings: StereoSettings | None = None, tell: Tell | None = None
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
    settings, tell = settings or StereoSettings(), tell or (lambda part: None)
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


def _matcher(scene: Scene, greys: list[Array], i: int, level: int) -> Matcher:
    """One photo and its neighbours at a level."""
    near = scene.neighbours[i]
    small = [shrunk(greys[j], level) for j in (i, *near)]
    size, (low, high) = small[0].shape, scene.ranges[i]
    shapes = np.array([grey.shape for grey in small], np.int64)
    pairs = [scene.between(i, j, level) for j in near]
    backs = [scene.between(j, i, level) for j in near]
    a, b, back_a, back_b = (
        np.array([pair[k] for pair in some], np.float32) for some in (pairs, backs) for k in (0, 1)
    )
    return Matcher(
        images=np.concatenate([packed(grey / np.float32(255)).ravel() for grey in small]),
        tints=0,
        bases=np.concatenate([[0], np.cumsum(shapes.prod(1))[:-1]]),
        widths=shapes[:, 1].copy(),
        heights=shapes[:, 0].copy(),
        tables=(a, b, back_a, back_b),
        levels=np.zeros(size, np.uint8),
        near=np.zeros(size, np.float32),
        low=np.full(size, low, np.float32),
        high=np.full(size, high, np.float32),
        span=high - low,
        focal=at_level(scene.K[i], level)[0, 0],
    )


def _alone(scene: Scene, greys: list[Array], i: int, settings: StereoSettings) -> DepthMap:
    """The planes of a photo by what neighbours show."""

    def start(matcher: Matcher) -> Array:
        return first_planes(matcher, _known(scene, i, settings.levels[0], matcher.size), i)

    found = match(lambda level: _matcher(scene, greys, i, level), start, settings)
    return DepthMap(*found)


def _together(
    scene: Scene, greys: list[Array], i: int, files: list[Path], settings: StereoSettings
) -> DepthMap:
    """The planes of a photo that also lie where those of its neighbours do."""
    found, level = DepthMap.load(files[i]), settings.levels[-1]
    depths = np.concatenate([
        DepthMap.load(files[j]).planes[..., 0].ravel()
        if files[j].is_file()
        else np.zeros(shrunk(greys[j], level).size, np.float32)
        for j in scene.neighbours[i]
    ])  # fmt: skip
    matcher = _matcher(scene, greys, i, level)
    planes, costs, more = refine(matcher, found.planes, found.costs, depths, settings)
    return DepthMap(planes, costs, found.compared + more)


def _known(scene: Scene, i: int, level: int, size: tuple[int, int]) -> Array:
    """The inverse depth [H, W] of the sparse point that is nearest to each pixel; 0 without any."""
    from scipy.spatial import KDTree

    K = at_level(scene.K[i], level)
    x = scene.points[scene.seen[i]] @ scene.R[i].T + scene.t[i]
    x = x[x[:, 2] > 0] if len(x) else x.reshape(0, 3)
    if not len(x):
        return np.zeros(size)
    pixels = x @ K.T
    where = np.indices(size)[::-1].reshape(2, -1).T
    nearest = KDTree(pixels[:, :2] / pixels[:, 2:]).query(where)[1]
    return (1 / x[nearest, 2]).reshape(size)
