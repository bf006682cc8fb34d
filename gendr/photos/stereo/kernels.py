"""The compiled kernels of stereo: planes at the pixels of a photo, and who else sees them.

A photo knows the surface as a plane at each pixel: (w, wx, wy), the inverse of its depth and how
that changes from pixel to pixel, which for a plane is the same everywhere. Pixel p = (x, y, 1) of
it is at A p + w b in a neighbour, in homogeneous pixels; x and y count the centres of pixels.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.vectors import wide
from gendr.photos.stereo.patches import BEST, NOTHING, SAMPLES
from gendr.photos.stereo.vectors import LANES, compare, prepare

# No reordering of sums, which would change from compiler to compiler.
FAST: Any = {"fastmath": {"contract", "nsz"}}
F, INT = np.float32, np.int32

# Samples are STRIDE pixels apart at level 0, and twice as far at each level more, in images that
# are as much smoother.
STRIDE = 2
# The largest cost of a plane that is propagated.
_WORTH = F(1.1)
# By which part of the depth what is known is before a plane, whose patch it is no part of.
_APART = F(0.015)
# Pixels of disagreement with another photo, at most.
_MOST = F(3.0)
# The other colour of the chessboard, near and further; and what is known of none is far.
RIGHT, DOWN = (1, -1, 0, 0, 5, -5, 0, 0), (0, 0, 1, -1, 0, 0, 5, -5)
AROUND, FAR = len(RIGHT), F(9.0)


@inner(**FAST)
def moved(a, b, x, y, w):
    """Where another photo shows (x, y) at the inverse depth w; and the depth there, over 1 / w."""
    z = a[2, 0] * x + a[2, 1] * y + a[2, 2] + w * b[2]
    u = (a[0, 0] * x + a[0, 1] * y + a[0, 2] + w * b[0]) / z
    v = (a[1, 0] * x + a[1, 1] * y + a[1, 2] + w * b[1]) / z
    return u, v, z


@inner(**FAST)
def _apart(a, b, back_a, back_b, depths, base, width, height, x, y, w):
    """How many pixels away from (x, y) what another photo knows at its place comes back.

    At most `_MOST`; 0 where it knows nothing.

    Source: Schönberger et al. 2016, eq. 11.
    """
    u, v, z = moved(a, b, x, y, w)
    if not (z > F(0) and u >= F(0) and v >= F(0) and u < width - F(0.5) and v < height - F(0.5)):
        return F(0)
    other = depths[base + np.int64(v + F(0.5)) * width + np.int64(u + F(0.5))]
    if other <= F(0):
        return F(0)
    ub, vb, zb = moved(back_a, back_b, u, v, other)
    ub, vb = ub - x, vb - y
    return min(np.sqrt(ub * ub + vb * vb), _MOST) if zb > F(0) else _MOST


@inner()
def _random(seed, k):
    """A number in [-1, 1) of two others."""
    h = np.uint32(seed) ^ (np.uint32(k) * np.uint32(0x9E3779B9))
    h ^= h >> np.uint32(16)
    h = np.uint32(h * np.uint32(0x7FEB352D))
    h ^= h >> np.uint32(15)
    h = np.uint32(h * np.uint32(0x846CA68B))
    h ^= h >> np.uint32(16)
    return np.float32(h) / np.float32(2147483648.0) - np.float32(1.0)


@kernel(**FAST)
def propagate(
    images, tints, bases, widths, heights, a, b, back_a, back_b, depths, geometric, lonely, levels,
    near, low, high, steep, planes, costs, views, fresh, sure, most, strict, spread, tilt, tries,
    turn, counts, start, stop,
):  # fmt: skip
    """Try the planes of neighbouring pixels, and changes of one's own, at half of the pixels.

    Of a chessboard; what a pixel reads of others is of the other colour, so that rows may come in
    any order. Planes that sure pixels try are compared in the photos that show these best where
    they come from, those of others in all.

    Args:
        images: uint32 [sum of pixels], of all photos, levels and tints; see `compare`.
        tints: pixels of a tint of all of them.
        bases: int64 [1 + K], where the photo begins, and its neighbours.
        widths: int64 [1 + K].
        heights: int64 [1 + K].
        a: float32 [K, 3, 3], to the neighbours.
        b: float32 [K, 3].
        back_a: float32 [K, 3, 3], from the neighbours.
        back_b: float32 [K, 3].
        depths: float32 [sum of pixels], inverse depths that are known of neighbours, 0 elsewhere,
            one photo after the other; not read if `geometric` is 0.
        geometric: what a pixel of disagreement with these costs.
        lonely: what it costs, beside it, that one photo alone shows a plane; not where `geometric`
            is 0.
        levels: uint8 [H, W], that of the patch at each pixel, plus 8 times its tint.
        near: float32 [H, W], +inf where nothing is to be matched, and else what is known of inverse
            depths, which stay, 0 where nothing is.
        low: float32 [H, W], the smallest inverse depths.
        high: float32 [H, W], the largest.
        steep: the steepest change of w from pixel to pixel, in w.
        planes: float32 [H, W, 3], is changed.
        costs: float32 [H, W], is changed: the mean of 1 - the correlation with the photos that show
            it best, and what disagreement costs; `NOTHING` where there is no pattern.
        views: uint8 [H, W, BEST], is changed: the neighbours that show a pixel best.
        fresh: whether costs and views are not those of the planes yet.
        sure: the largest cost of pixels that are sure.
        most: photos that judge a plane, <= BEST.
        strict: see `prepare`.
        spread: by how much w is changed.
        tilt: by how much its changes are changed, in w.
        tries: random changes.
        turn: of the call; its parity is that of row + column.
        counts: int64 [H], is written: how many patches were compared in each row.
        start: the first row.
        stop: the row after the last.

    Source: Bleyer et al. 2011; Galliani et al. 2015.
    """
    wide()
    height, width = costs.shape
    count = len(a)
    most = min(count, most)
    share = F(1) / F(most)
    offsets = np.zeros(count + 1, np.int64)
    for k in range(count):
        offsets[k + 1] = offsets[k] + widths[k + 1] * heights[k + 1]
    # What lanes look at: all at one neighbour, or each at those that show its pixel best.
    lenses, sizes = np.empty((count + BEST, 12, LANES), F), np.empty((count + BEST, 3, LANES), INT)
    for n in range(count + BEST):
        k = n if n < count else 0
        for lane in range(LANES):
            for r in range(9):
                lenses[n, r, lane] = a[k, r // 3, r % 3]
            for r in range(3):
                lenses[n, 9 + r, lane] = b[k, r]
            sizes[n, 0, lane], sizes[n, 1, lane] = bases[k + 1], widths[k + 1]
            sizes[n, 2, lane] = heights[k + 1]
    values, weights = np.empty((SAMPLES, LANES), F), np.empty((SAMPLES, LANES), F)
    xs, ys, strides = np.empty(LANES, INT), np.empty(LANES, INT), np.empty(LANES, INT)
    own, starts = np.empty(LANES, INT), np.empty(LANES, INT)
    plane, found = np.empty((3, LANES), F), np.empty((3, LANES), F)
    limits, centres, fine = np.empty(LANES, F), np.empty(LANES, F), np.empty(LANES, F)
    out, best, total = np.empty(LANES, F), np.empty(LANES, F), np.empty(LANES, F)
    least, order = np.empty((BEST, LANES), F), np.empty((BEST, LANES), np.int64)
    shown, asked = np.empty((BEST, LANES), np.int64), np.empty((BEST, LANES), np.int64)
    there = np.empty((BEST, LANES), np.int64)  # whose rows are in `lenses` behind the others
    tried = np.empty(LANES, np.bool_)
    # Pixels that are sure, and others.
    pixels, numbers = np.empty((2, width), INT), np.empty(2, np.int64)
    for y in range(start, stop):
        compared = 0
        numbers[:] = 0
        for x in range((y + turn) % 2, width, 2):
            if near[y, x] <= F(0):
                kind = 0 if costs[y, x] <= sure else 1
                pixels[kind, numbers[kind]] = x
                numbers[kind] += 1
        for kind in range(2):
            for begin in range(0, numbers[kind], LANES):
                for lane in range(LANES):
                    x = pixels[kind, min(begin + lane, numbers[kind] - 1)]
                    xs[lane], ys[lane] = x, y
                    level, tint = levels[y, x] & 7, levels[y, x] >> 3
                    strides[lane] = STRIDE << level
                    starts[lane] = level * height * width + tint * tints
                    own[lane] = bases[0] + starts[lane]
                    for r in range(3):
                        found[r, lane] = planes[y, x, r]
                    limits[lane] = (F(1) + _APART) * found[0, lane]
                    for m in range(most):
                        shown[m, lane] = views[y, x, m]
                    best[lane] = FAR if fresh else costs[y, x]
                prepare(
                    images, own, near, width, height, xs, ys, strides, limits, strict, values,
                    weights, centres, fine,
                )  # fmt: skip
                there[:] = -1
                for n in range(-1 if fresh else 0, AROUND + tries):
                    now = 0  # planes that are tried
                    for lane in range(LANES):
                        x, good = xs[lane], fine[lane] > F(0)
                        w, wx, wy = found[0, lane], found[1, lane], found[2, lane]
                        for m in range(most):
                            asked[m, lane] = shown[m, lane]
                        if good and 0 <= n < AROUND:
                            u, v = x + RIGHT[n], y + DOWN[n]
                            good = u >= 0 and v >= 0 and u < width and v < height
                            good = good and costs[v, u] <= _WORTH
                            if good:
                                wx, wy = planes[v, u, 1], planes[v, u, 2]
                                w = planes[v, u, 0] - F(RIGHT[n]) * wx - F(DOWN[n]) * wy
                                # They are all 0 where they are not known yet.
                                for m in range(most if views[v, u, 0] != views[v, u, 1] else 0):
                                    asked[m, lane] = views[v, u, m]
                        elif good and n >= AROUND:
                            seed = (y * width + x) * 64 + turn
                            size = F(1) if n % 2 else F(0.25)
                            w += size * spread * _random(seed, 3 * n)
                            wx += size * tilt * w * _random(seed, 3 * n + 1)
                            wy += size * tilt * w * _random(seed, 3 * n + 2)
                        if n < 0:
                            w = min(max(w, low[y, x]), high[y, x])
                        good = good and w >= low[y, x] and w <= high[y, x]
                        if max(abs(wx), abs(wy)) > steep * w:
                            wx, wy, good = F(0), F(0), good and n < 0
                        tried[lane] = good
                        now += tried[lane] and begin + lane < numbers[kind]
                        plane[0, lane], plane[1, lane], plane[2, lane] = w, wx, wy
                    if now == 0:
                        continue
                    if kind or n < 0:
                        for m in range(BEST):
                            for lane in range(LANES):
                                least[m, lane], order[m, lane] = FAR, 0
                        for k in range(count):
                            compare(
                                images, starts, lenses, sizes, k, xs, ys, strides, plane, values,
                                weights, centres, out,
                            )  # fmt: skip
                            compared += now
                            for lane in range(LANES):
                                c = out[lane]
                                if geometric > F(0) and tried[lane]:
                                    c += geometric * _apart(
                                        a[k], b[k], back_a[k], back_b[k], depths, offsets[k],
                                        widths[k + 1], heights[k + 1], F(xs[lane]), F(y),
                                        plane[0, lane],
                                    )  # fmt: skip
                                if c < least[0, lane]:
                                    least[2, lane], order[2, lane] = least[1, lane], order[1, lane]
                                    least[1, lane], order[1, lane] = least[0, lane], order[0, lane]
                                    least[0, lane], order[0, lane] = c, k
                                elif c < least[1, lane]:
                                    least[2, lane], order[2, lane] = least[1, lane], order[1, lane]
                                    least[1, lane], order[1, lane] = c, k
                                elif c < least[2, lane]:
                                    least[2, lane], order[2, lane] = c, k
                        for lane in range(LANES):
                            total[lane] = F(0)
                            for m in range(most):
                                total[lane] += share * least[m, lane]
                            if geometric > F(0):
                                total[lane] = min(total[lane], least[0, lane] + lonely)
                    else:
                        for m in range(most):
                            for lane in range(LANES):
                                k = asked[m, lane]
                                if tried[lane] and there[m, lane] != k:
                                    there[m, lane] = k
                                    for r in range(12):
                                        lenses[count + m, r, lane] = lenses[k, r, lane]
                                    for r in range(3):
                                        sizes[count + m, r, lane] = sizes[k, r, lane]
                        for lane in range(LANES):
                            total[lane] = F(0)
                        hope = True
                        for m in range(most):
                            compare(
                                images, starts, lenses, sizes, count + m, xs, ys, strides, plane,
                                values, weights, centres, out,
                            )  # fmt: skip
                            compared += now
                            hope = False
                            for lane in range(LANES):
                                total[lane] += share * out[lane]
                                hope |= tried[lane] and total[lane] < best[lane]
                            if not hope:
                                break
                        if not hope:
                            continue
                        for lane in range(LANES):
                            if geometric > F(0) and tried[lane] and total[lane] < best[lane]:
                                for m in range(most):
                                    k = asked[m, lane]
                                    total[lane] += share * geometric * _apart(
                                        a[k], b[k], back_a[k], back_b[k], depths, offsets[k],
                                        widths[k + 1], heights[k + 1], F(xs[lane]), F(y),
                                        plane[0, lane],
                                    )  # fmt: skip
                    for lane in range(LANES):
                        if tried[lane] and total[lane] < best[lane]:
                            best[lane] = total[lane]
                            for r in range(3):
                                found[r, lane] = plane[r, lane]
                            for m in range(most):
                                shown[m, lane] = order[m, lane] if kind or n < 0 else asked[m, lane]
                for lane in range(min(LANES, numbers[kind] - begin)):
                    x = xs[lane]
                    costs[y, x] = best[lane] if fine[lane] > F(0) else F(NOTHING)
                    for r in range(3):
                        planes[y, x, r] = found[r, lane]
                    for m in range(most):
                        views[y, x, m] = shown[m, lane]
        counts[y] = compared


@kernel()
def count_consistent(
    ref, near, a, b, back_a, back_b, planes, costs, most, counts, start, stop
):  # fmt: skip
    """Count the neighbours that see the surface of each pixel at the same place.

    Args:
        ref: the photo.
        near: int64 [K], its neighbours.
        a: float32 [K, 3, 3], to them.
        b: float32 [K, 3].
        back_a: float32 [K, 3, 3], from them.
        back_b: float32 [K, 3].
        planes: float32 [B, H, W, 3].
        costs: float32 [B, H, W].
        most: the largest cost that counts.
        counts: uint8 [H, W], out.
        start: the first row.
        stop: the row after the last.
    """
    height, width = counts.shape
    for y in range(start, stop):
        for x in range(width):
            counts[y, x] = 0
            if costs[ref, y, x] > most:
                continue
            w = planes[ref, y, x, 0]
            for k in range(len(near)):
                n = near[k]
                u, v, z = moved(a[k], b[k], F(x), F(y), w)
                i, j = int(np.floor(u + 0.5)), int(np.floor(v + 0.5))
                if z <= 0 or i < 0 or j < 0 or i >= width or j >= height or costs[n, j, i] > most:
                    continue
                there = planes[n, j, i]
                other = there[0] + (u - i) * there[1] + (v - j) * there[2]
                # Its own w there is w / z: depths scale by z.
                if abs(other * z / w - 1) > 0.01:
                    continue
                s, t, _ = moved(back_a[k], back_b[k], u, v, other)
                if (s - x) ** 2 + (t - y) ** 2 < 1.0:
                    counts[y, x] += 1
