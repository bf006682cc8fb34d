"""A second look at pixels that photos do not agree about, with what is known of all others.

A place that a neighbour knows something nearer of is hidden there, so that this neighbour says
nothing; one that it knows something deeper of is not there. And samples of a patch that are known
to lie in front of a place, as the rim before a hollow, are none of its surface.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from gendr.kernels.numba.compilation import announce_compilation, ensure_cache, inner, kernel
from gendr.photos.fitting.shape.stereo_kernels import _STEEP, STRIDE, _correlation, _patch, _random
from gendr.photos.fitting.shape.stereo_vectors import SAMPLES, SIDE

ensure_cache()
announce_compilation(__name__)

# No reordering of sums, which would change from compiler to compiler.
_FAST: Any = {"error_model": "numpy", "fastmath": {"contract", "nsz"}}
# By which part of the depth something is nearer, or deeper.
_APART = np.float32(0.015)
# What it costs if one neighbour alone may see a place, and for each that sees through it.
_LONELY, _THROUGH = np.float32(0.1), np.float32(0.15)
_HALF, _ONE = np.float32(0.5), np.float32(1.0)


@inner(**_FAST)
def _occluded(known, planes, n, u, v, w):
    """Whether photo n knows something nearer there than w: 1; deeper: -1; or neither: 0."""
    height, width = known.shape[1:]
    i, j = int(np.floor(u + _HALF)), int(np.floor(v + _HALF))
    if i < 0 or j < 0 or i >= width or j >= height:
        return 1
    if not known[n, j, i]:
        return 0
    there = planes[n, j, i, 0] + (u - i) * planes[n, j, i, 1] + (v - j) * planes[n, j, i, 2]
    if there > (_ONE + _APART) * w:
        return 1
    return -1 if there < (_ONE - _APART) * w else 0


@inner(**_FAST)
def _behind(known, planes, inside, ref, x, y, stride, w, open_):
    """Fill in `open_`, what a patch may be compared at: the object, but for what is before w."""
    height, width = known.shape[1:]
    begin = stride * (SIDE - 1) // 2
    for k in range(SAMPLES):
        u = x + (k % SIDE) * stride - begin
        v = y + (k // SIDE) * stride - begin
        open_[v - y + begin, u - x + begin] = (
            0 <= u < width and 0 <= v < height and inside[v, u]
            and not (known[ref, v, u] and planes[ref, v, u, 0] > (_ONE + _APART) * w)
        )  # fmt: skip


@inner(**_FAST)
def _judged(
    images, ref, inside, known, former, near, a, b, x, y, stride, w, wx, wy, cut, open_, values,
    weights,
):  # fmt: skip
    """The correlation with the two that see a plane best, of those that may see it; -1: none."""
    height, width = inside.shape
    begin = stride * (SIDE - 1) // 2
    side = stride * (SIDE - 1) + 1
    _behind(known, former, inside, ref, x, y, stride, w, open_)
    for k in range(SAMPLES):
        i, j = (k % SIDE) * stride, (k // SIDE) * stride
        u, v = min(max(x + i - begin, 0), width - 1), min(max(y + j - begin, 0), height - 1)
        cut[j, i] = images[ref, v, u]
    cut[begin, begin] = images[ref, y, x]  # no sample, but what samples are compared with
    if not _patch(cut[:side, :side], open_[:side, :side], begin, begin, stride, values, weights):
        return -_ONE
    first = second = -_ONE
    cost = np.float32(0.0)
    for k in range(len(near)):
        q = a[k, 2, 0] * x + a[k, 2, 1] * y + a[k, 2, 2] + w * b[k, 2]
        if q <= 0:
            continue
        u = (a[k, 0, 0] * x + a[k, 0, 1] * y + a[k, 0, 2] + w * b[k, 0]) / q
        v = (a[k, 1, 0] * x + a[k, 1, 1] * y + a[k, 1, 2] + w * b[k, 1]) / q
        way = _occluded(known, former, near[k], u, v, w / q)
        if way > 0:
            continue
        if way < 0:
            cost += _THROUGH
            continue
        found = _correlation(images, near[k], a, b, k, x, y, stride, w, wx, wy, values, weights)
        if found > first:
            first, second = found, first
        elif found > second:
            second = found
    if first <= -1:
        return -_ONE
    return (first - _LONELY if second <= -1 else _HALF * (first + second)) - cost


@kernel(**_FAST)
def second_pass(
    images, ref, inside, levels, near, a, b, front, back, before, focal, spread, turn, former,
    known, planes, scores, start, stop,
):  # fmt: skip
    """Try the planes of neighbouring pixels, and changes of one's own, where nothing is known.

    Args:
        images: and all that `propagate` has too, as there.
        ref: see `propagate`.
        inside: see `propagate`.
        levels: see `propagate`.
        near: see `propagate`.
        a: see `propagate`.
        b: see `propagate`.
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
    height, width = inside.shape
    values, weights = np.empty(SAMPLES, np.float32), np.empty(SAMPLES, np.float32)
    size = STRIDE * 8 * SIDE
    cut, open_ = np.zeros((size, size), np.float32), np.zeros((size, size), np.bool_)
    dx = np.array([-1, 1, 0, 0, -5, 5, 0, 0, -2, 2, -2, 2])
    dy = np.array([0, 0, -1, 1, 0, 0, -5, 5, -1, -1, 1, 1])
    for y in range(start, stop):
        for x in range((y + turn) % 2, width, 2):
            if not inside[y, x] or front[y, x] <= 0 or known[ref, y, x]:
                continue
            level = levels[y, x] & 7
            smooth, stride = images[level, levels[y, x] >> 3], STRIDE << level
            w, wx, wy = planes[y, x, 0], planes[y, x, 1], planes[y, x, 2]
            best = scores[y, x]
            if turn < 2:
                best = _judged(
                    smooth, ref, inside, known, former, near, a, b, x, y, stride, w, wx, wy, cut,
                    open_, values, weights,
                )  # fmt: skip
            for k in range(18):
                if k < 12:
                    u, v = x + dx[k], y + dy[k]
                    if u < 0 or v < 0 or u >= width or v >= height or scores[v, u] <= -1:
                        continue
                    tx, ty = planes[v, u, 1], planes[v, u, 2]
                    tw = planes[v, u, 0] - dx[k] * tx - dy[k] * ty
                else:
                    seed = (y * width + x) * 64 + turn
                    wide = spread / (1 << ((k - 12) % 3))
                    tw = w + wide * _random(seed, 3 * k) if k < 15 else w
                    tx = wx + _HALF * wide * _random(seed, 3 * k + 1) / SIDE
                    ty = wy + _HALF * wide * _random(seed, 3 * k + 2) / SIDE
                if not (back[y, x] <= tw <= front[y, x] + before):
                    continue
                if focal * np.sqrt(tx * tx + ty * ty) > _STEEP * tw:
                    continue
                found = _judged(
                    smooth, ref, inside, known, former, near, a, b, x, y, stride, tw, tx, ty, cut,
                    open_, values, weights,
                )  # fmt: skip
                if found > best:
                    best, w, wx, wy = found, tw, tx, ty
            scores[y, x] = best
            planes[y, x, 0], planes[y, x, 1], planes[y, x, 2] = w, wx, wy
