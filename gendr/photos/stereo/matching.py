"""Planes at the pixels of a photo, by what its neighbours show: PatchMatch, from coarse to fine.

Pixels take over the planes of their neighbours (propagation) and random changes of them where
photos agree better with these: those few that agree best at a pixel (view selection). In later
passes planes also have to lie where what is known of other photos does (geometric consistency).
Where planes may lie, and the first of them, is up to who asks: points or a hull say it.

Source: Zheng, Dunn, Jojic & Frahm, PatchMatch Based Joint View Selection and Depthmap Estimation,
CVPR 2014; Schönberger, Zheng, Frahm & Pollefeys, Pixelwise View Selection for Unstructured
Multi-View Stereo, ECCV 2016; Xu & Tao, Multi-Scale Geometric Consistency Guided Multi-View Stereo,
CVPR 2019, for the chessboard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from gendr.kernels.threads import run
from gendr.photos.stereo.patches import BEST, NOTHING, UNIT

__all__ = ["Matcher", "StereoSettings", "enlarged", "first_planes", "match", "packed", "refine"]

Array = npt.NDArray[Any]


@final
@dataclass(frozen=True)
class StereoSettings:
    """How photos are matched.

    Attributes:
        levels: by which photos are shrunk, one after the other.
        rounds: visits of each pixel at the first level, at others but the last, at the last, and in
            each pass with geometric consistency, of which there is none with 0.
        tries: random planes at each visit, at the first level and at others.
        size: of random changes, of the range of inverse depths, at the first level and at others;
            half of it at each visit more.
        tilt: the same of slopes, tangents.
        steepest: plane, the tangent.
        best: photos that judge a pixel, of all neighbours, 1 .. 3.
        sure: the largest cost of pixels that only these judge, after the first level, and in passes
            with geometric consistency; of others, and at the first level, all do.
        geometric: what each pixel of disagreement with what is known of another photo costs.
        lonely: what it costs in these passes that one photo alone shows a plane, at most.
        strict: whether what is brighter than its patch must have a pattern of its own colour, as
            the sky beside a roof has not.
    """

    levels: tuple[int, ...] = (4, 2, 1)
    rounds: tuple[int, int, int, int] = (4, 2, 1, 1)
    tries: tuple[int, int] = (4, 2)
    size: tuple[float, float] = (0.15, 0.01)
    tilt: tuple[float, float] = (0.3, 0.02)
    steepest: float = 60.0
    best: int = 3
    sure: tuple[float, float] = (9.0, 9.0)
    geometric: float = 0.15
    lonely: float = 9.0
    strict: bool = True


@final
@dataclass(frozen=True, eq=False)
class Matcher:
    """A photo and its K neighbours at one size.

    Attributes:
        images: uint32, numbers of all photos, see `packed`.
        tints: pixels of a tint of all of them.
        bases: int64 [1 + K], where the photo begins, and its neighbours.
        widths: int64 [1 + K].
        heights: int64 [1 + K].
        tables: A [K, 3, 3] and b [K, 3], float32, to the neighbours; and those back from them.
        levels: uint8 [H, W], that of the patch at each pixel, plus 8 times its tint.
        near: float32 [H, W], +inf where nothing is to be matched, else the inverse depths that are
            known, 0 where none is.
        low: float32 [H, W], the smallest inverse depths.
        high: float32 [H, W], the largest.
        span: of the photo's inverse depths.
        focal: in pixels.
    """

    images: Array
    tints: int
    bases: Array
    widths: Array
    heights: Array
    tables: tuple[Array, Array, Array, Array]
    levels: Array
    near: Array
    low: Array
    high: Array
    span: float
    focal: float

    @property
    def size(self) -> tuple[int, int]:
        """(H, W)."""
        return self.near.shape[0], self.near.shape[1]

    def visit(
        self, planes: Array, costs: Array, views: Array, settings: StereoSettings, turn: int, *,
        coarse: bool, fresh: bool, shrink: float, depths: Array | None = None,
    ) -> int:  # fmt: skip
        """Visit each pixel once, and change planes, costs and views; returns patches compared."""
        from gendr.photos.stereo import kernels

        counts, k = np.zeros(len(costs), np.int64), 0 if coarse else 1
        geometric = 0.0 if depths is None else settings.geometric
        compared = 0
        for parity in (0, 1):
            run(
                kernels.propagate, len(costs), self.images, self.tints, self.bases, self.widths,
                self.heights, *self.tables, np.zeros(1, np.float32) if depths is None else depths,
                np.float32(geometric), np.float32(settings.lonely), self.levels, self.near,
                self.low, self.high,
                np.float32(settings.steepest / self.focal), planes, costs, views, fresh,
                np.float32(-1 if coarse else settings.sure[depths is not None]), settings.best,
                settings.strict,
                np.float32(shrink * settings.size[k] * self.span),
                np.float32(shrink * settings.tilt[k] / self.focal), settings.tries[k],
                2 * turn + parity, counts,
            )  # fmt: skip
            compared += int(counts.sum())
        return compared


def packed(values: Array) -> Array:
    """uint32 of numbers [..., H, W] in -1 .. 1: in the lower half of a word, and what is below."""
    words = np.rint((values + np.float32(1)) / np.float32(UNIT)).astype(np.uint32)
    words[..., :-1, :] |= words[..., 1:, :] << 16
    words[..., -1, :] |= words[..., -1, :] << 16
    return words


def first_planes(matcher: Matcher, known: Array, seed: int) -> Array:
    """Planes [H, W, 3]: half of the pixels have what is known [H, W], not 0, and others any."""
    dice = np.random.default_rng(seed)
    w = dice.uniform(matcher.low, matcher.high)
    w = np.where(
        (dice.random(w.shape) < 0.5) & (known > 0), known.clip(matcher.low, matcher.high), w
    )
    slopes = dice.uniform(-1, 1, (*w.shape, 2)) * w[..., None] / matcher.focal
    return np.concatenate([w[..., None], slopes], -1).astype(np.float32)


def match(
    at: Callable[[int], Matcher], start: Callable[[Matcher], Array], settings: StereoSettings
) -> tuple[Array, Array, int]:
    """The planes of a photo by what neighbours show.

    Args:
        at: gives the photo shrunk by a number.
        start: gives the first planes.
        settings: see there.

    Returns: planes [H, W, 3], costs [H, W], and how many patches were compared.
    """
    planes, costs, views, compared = None, None, None, 0
    for number, level in enumerate(settings.levels):
        matcher = at(level)
        if planes is None or costs is None or views is None:
            planes, costs = start(matcher), np.ones(matcher.size, np.float32)
            views = np.zeros((*matcher.size, BEST), np.uint8)
        else:
            ratio = settings.levels[number - 1] // level
            planes = _of_planes(planes, matcher.size, ratio)
            costs, views = (enlarged(each, matcher.size, ratio) for each in (costs, views))
        costs[matcher.near > 0] = NOTHING
        last = number == len(settings.levels) - 1
        for k in range(settings.rounds[0 if number == 0 else 2 if last else 1]):
            compared += matcher.visit(
                planes, costs, views, settings, 16 * number + k, coarse=number == 0,
                fresh=k == 0, shrink=0.5**k,
            )  # fmt: skip
    assert planes is not None
    assert costs is not None
    return planes, costs, compared


def refine(
    matcher: Matcher, planes: Array, costs: Array, depths: Array, settings: StereoSettings,
    number: int = 0,
) -> tuple[Array, Array, int]:  # fmt: skip
    """Planes and costs after a pass in which planes also lie where what neighbours know does.

    Args:
        matcher: the photo.
        planes: float32 [H, W, 3], of `match`; they are not changed.
        costs: float32 [H, W].
        depths: inverse depths that are known of the neighbours, one after the other; 0 elsewhere.
        settings: see there.
        number: of the pass.

    Returns: as `match`.
    """
    planes, costs = planes.copy(), costs.copy()
    views, compared = np.zeros((*matcher.size, BEST), np.uint8), 0
    for k in range(settings.rounds[3]):
        compared += matcher.visit(
            planes, costs, views, settings, 16 * (8 + number) + k, coarse=False, fresh=k == 0,
            shrink=0.5**k, depths=depths,
        )  # fmt: skip
    return planes, costs, compared


def enlarged(values: Array, size: tuple[int, int], ratio: int) -> Array:
    """The values of a coarser level at each pixel of a finer one."""
    rows, columns = (
        np.minimum(np.arange(n) // ratio, m - 1)
        for n, m in zip(size, values.shape[:2], strict=True)
    )
    return np.ascontiguousarray(values[rows[:, None], columns])


def _of_planes(planes: Array, size: tuple[int, int], ratio: int) -> Array:
    """The planes of a coarser level at each pixel of a finer one."""
    fine = enlarged(planes, size, ratio)
    fine[..., 1:] /= ratio
    for axis, slope in ((0, 2), (1, 1)):
        n, m = size[axis], planes.shape[axis]
        # From the centre of the coarse pixel, which is at ratio * k + (ratio - 1) / 2.
        k = np.minimum(np.arange(n) // ratio, m - 1)
        off = (np.arange(n) - ratio * k - (ratio - 1) / 2).astype(np.float32)
        fine[..., 0] += fine[..., slope] * (off[:, None] if axis == 0 else off)
    return fine
