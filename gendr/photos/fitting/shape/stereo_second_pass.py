"""A second look at pixels that photos do not agree about, with what is known of all others.

A place that a neighbour knows something nearer of is hidden there, so that this neighbour says
nothing; one that it knows something deeper of is not there. Samples of a patch that are known
to lie in front of a place, as the rim before a hollow, are none of its surface.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import numpy as np

from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.vectors import wide
from gendr.photos.fitting.shape.stereo_kernels import (
    AROUND,
    DOWN,
    FAST,
    HALF,
    INT,
    ONE,
    RIGHT,
    STEEP,
    TRIED,
    F,
    changed,
    loaded,
)
from gendr.photos.fitting.shape.stereo_vectors import LANES, SAMPLES, compare, prepare

# By which part of the depth something is nearer, or deeper.
APART = F(0.015)
# What it costs if one neighbour alone may see a place, and for each that sees through it.
_LONELY, _THROUGH = F(0.1), F(0.15)


@inner(**FAST)
def _occluded(known, planes, n, u, v, w):
    """Whether photo n knows something nearer there than w: 1; deeper: -1; or neither: 0."""
    height, width = known.shape[1:]
    i, j = int(np.floor(u + HALF)), int(np.floor(v + HALF))
    if i < 0 or j < 0 or i >= width or j >= height:
        return 1
    if not known[n, j, i]:
        return 0
    there = planes[n, j, i, 0] + (u - i) * planes[n, j, i, 1] + (v - j) * planes[n, j, i, 2]
    if there > (ONE + APART) * w:
        return 1
    return -1 if there < (ONE - APART) * w else 0


@inner(**FAST)
def _judged(
    images, own, starts, lenses, near, inside, known, former, xs, ys, strides, plane, tried, values,
    weights, lanes, first, second, cost,
):  # fmt: skip
    """The correlation with the two that see a plane best, of those that may see it; -1: none."""
    height, width = inside.shape
    centres, fine, out, limits = lanes[0], lanes[1], lanes[2], lanes[3]
    for lane in range(LANES):
        # Of a patch what is before w is none of its surface.
        limits[lane] = (ONE + APART) * plane[0, lane]
        first[lane] = second[lane] = -ONE
        cost[lane] = F(0)
    prepare(
        images, own, inside, width, height, xs, ys, strides, limits, values, weights, centres, fine
    )
    may = np.empty(LANES, np.bool_)
    for k in range(len(lenses)):
        a, some = lenses[k], False
        for lane in range(LANES):
            may[lane] = False
            if not tried[lane] or fine[lane] <= 0:
                continue
            x, y, w = F(xs[lane]), F(ys[lane]), plane[0, lane]
            q = a[6] * x + a[7] * y + a[8] + w * a[11]
            if q <= 0:
                continue
            u = (a[0] * x + a[1] * y + a[2] + w * a[9]) / q
            v = (a[3] * x + a[4] * y + a[5] + w * a[10]) / q
            way = _occluded(known, former, near[k], u, v, w / q)
            if way < 0:
                cost[lane] += _THROUGH
            may[lane] = way == 0
            some |= way == 0
        if not some:
            continue
        compare(
            images, starts, lenses, k, width, height, xs, ys, strides, plane, values, weights,
            centres, out,
        )  # fmt: skip
        for lane in range(LANES):
            found = out[lane]
            if may[lane] and found > first[lane]:
                second[lane], first[lane] = first[lane], found
            elif may[lane] and found > second[lane]:
                second[lane] = found
    for lane in range(LANES):
        if first[lane] > -1:
            both = HALF * (first[lane] + second[lane])
            first[lane] = (first[lane] - _LONELY if second[lane] <= -1 else both) - cost[lane]


@kernel(**FAST)
def second_pass(
    images, tints, ref, photo, inside, levels, lenses, near, front, back, before, focal, spread,
    turn, former, known, planes, scores, start, stop,
):  # fmt: skip
    """Try the planes of neighbouring pixels, and changes of one's own, where nothing is known.

    Args:
        images: and all that `propagate` has too, as there.
        tints: see `propagate`.
        ref: see `propagate`.
        photo: see `propagate`.
        inside: float32 [H, W], +inf where the photo does not show the object; else what is known
            of inverse depths, 0 where nothing is.
        levels: see `propagate`.
        lenses: see `propagate`.
        near: int64 [K], the neighbours.
        front: see `propagate`.
        back: see `propagate`.
        before: see `propagate`.
        focal: see `propagate`.
        spread: see `propagate`.
        turn: see `propagate`; at less than two, planes are judged anew.
        former: float32 [B, H, W, 3], planes.
        known: bool [B, H, W], where photos agree about them.
        planes: float32 [H, W, 3], in and out.
        scores: float32 [H, W], in and out.
        start: see `propagate`.
        stop: see `propagate`.
    """
    wide()
    height, width = levels.shape
    pixels, count = np.empty((stop - start) * width, INT), 0
    for y in range(start, stop):
        for x in range((y + turn) % 2, width, 2):
            if front[y, x] > 0 and not known[ref, y, x] and np.isfinite(inside[y, x]):
                pixels[count] = y * width + x
                count += 1
    xs, ys, strides = np.empty(LANES, INT), np.empty(LANES, INT), np.empty(LANES, INT)
    own, starts = np.empty(LANES, INT), np.empty(LANES, INT)
    values, weights = np.empty((SAMPLES, LANES), F), np.empty((SAMPLES, LANES), F)
    plane, found, lanes = np.empty((3, LANES), F), np.empty((3, LANES), F), np.empty((4, LANES), F)
    first, second, cost, best = (
        np.empty(LANES, F), np.empty(LANES, F), np.empty(LANES, F), np.empty(LANES, F)
    )  # fmt: skip
    tried = np.empty(LANES, np.bool_)
    for begin in range(0, count, LANES):
        loaded(pixels, begin, count, levels, tints, ref, photo, xs, ys, strides, own, starts)
        for lane in range(LANES):
            y, x = ys[lane], xs[lane]
            best[lane] = -ONE if turn < 2 else scores[y, x]
            for r in range(3):
                found[r, lane] = planes[y, x, r]
        # One's own plane comes first, where it is judged anew.
        for k in range(-1 if turn < 2 else 0, TRIED):
            some = False
            for lane in range(LANES):
                x, y = xs[lane], ys[lane]
                w, wx, wy = found[0, lane], found[1, lane], found[2, lane]
                good = True
                if 0 <= k < AROUND:
                    dx, dy = RIGHT[k], DOWN[k]
                    u, v = x + dx, y + dy
                    good = u >= 0 and v >= 0 and u < width and v < height
                    good = good and scores[v, u] > -1
                    if good:
                        wx, wy = planes[v, u, 1], planes[v, u, 2]
                        w = planes[v, u, 0] - F(dx) * wx - F(dy) * wy
                elif k >= AROUND:
                    w, wx, wy = changed(w, wx, wy, spread, y * width + x, turn, k)
                if k >= 0:
                    good = good and back[y, x] <= w and w <= front[y, x] + before
                    good = good and focal * np.sqrt(wx * wx + wy * wy) <= STEEP * w
                tried[lane] = good
                some |= good
                plane[0, lane], plane[1, lane], plane[2, lane] = w, wx, wy
            if not some:
                continue
            _judged(
                images, own, starts, lenses, near, inside, known, former, xs, ys, strides, plane,
                tried, values, weights, lanes, first, second, cost,
            )  # fmt: skip
            for lane in range(LANES):
                if tried[lane] and first[lane] > best[lane]:
                    best[lane] = first[lane]
                    for r in range(3):
                        found[r, lane] = plane[r, lane]
        for lane in range(min(LANES, count - begin)):
            y, x = ys[lane], xs[lane]
            scores[y, x] = best[lane]
            for r in range(3):
                planes[y, x, r] = found[r, lane]
