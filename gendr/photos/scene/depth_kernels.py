"""The compiled kernels of depth maps: a plane at each pixel, compared with other photos.

A pixel holds (w, wx, wy): the inverse depth of its plane there, and how it changes from pixel to
pixel, which is constant along a plane. Pixel p is at A p + w b in another photo. Four neighbouring
grey values lie in one word of 32 bits, so that bilinear interpolation takes one load.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false

from __future__ import annotations

import numpy as np

from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.vectors import wide
from gendr.photos.scene.depth_vectors import LANES, SAMPLES, compare, prepare

F, INT = np.float32, np.int32
# Less contrast than this (of 255) is none; the difference at which a sample weighs half; and the
# cost of a pixel that has no contrast.
_PLAIN, _SOFT, NOTHING = F(1.5), F(30.0), F(2.0)
# The steepest plane: the change of w over the focal length, in w.
_STEEPEST = F(60.0)
# Photos that are compared, of all neighbours, once it is known which show a pixel best.
BEST = 3
_FAST = {"fastmath": True}


@inner(**_FAST)
def _apart(a, b, back_a, back_b, depths, base, width, height, x, y, w):
    """How many pixels away from (x, y) the plane of another photo at its place comes back; <= 3.

    Source: Schönberger et al. 2016, eq. 11.
    """
    z = a[2, 0] * x + a[2, 1] * y + a[2, 2] + w * b[2]
    u = (a[0, 0] * x + a[0, 1] * y + a[0, 2] + w * b[0]) / z
    v = (a[1, 0] * x + a[1, 1] * y + a[1, 2] + w * b[1]) / z
    if not (z > F(0) and u >= F(0) and v >= F(0) and u < width - F(0.5) and v < height - F(0.5)):
        return F(3)
    other = depths[base + np.int64(v + F(0.5)) * width + np.int64(u + F(0.5))]
    if other <= F(0):
        return F(3)
    zb = back_a[2, 0] * u + back_a[2, 1] * v + back_a[2, 2] + other * back_b[2]
    ub = (back_a[0, 0] * u + back_a[0, 1] * v + back_a[0, 2] + other * back_b[0]) / zb - x
    vb = (back_a[1, 0] * u + back_a[1, 1] * v + back_a[1, 2] + other * back_b[1]) / zb - y
    return min(np.sqrt(ub * ub + vb * vb), F(3)) if zb > F(0) else F(3)


@inner(**_FAST)
def _random(state):
    """The next state of a generator (Knuth's MMIX), and a number in [-1, 1)."""
    state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    return state, F(np.float64(state >> np.uint64(40)) * (2.0 / 2**24) - 1.0)


@kernel(**_FAST)
def sweep(
    words, bases, widths, heights, a, b, back_a, back_b, depths, geometric, planes, costs, seen,
    parity, every, low, high, focal, size, tries, seed, counts, start, stop,
):  # fmt: skip
    """Visit the pixels of one colour of a chessboard: their plane, neighbours' planes, random ones.

    What a pixel reads of others is of the other colour, so that rows may come in any order. Each
    plane is compared in the photos that show the present one best, or in all if `every`.

    Args:
        words: uint32 [sum of pixels], the photo itself first, then its neighbours.
        bases: int64 [1 + K], where each begins.
        widths: int64 [1 + K].
        heights: int64 [1 + K].
        a: float32 [K, 3, 3], to the neighbours.
        b: float32 [K, 3].
        back_a: float32 [K, 3, 3], from the neighbours.
        back_b: float32 [K, 3].
        depths: float32 [sum of pixels], inverse depths that neighbours have found; where `bases`
            says. Of size 0 if there are none.
        geometric: what a pixel of disagreement with these costs; 0 for none.
        planes: float32 [H, W, 3], is changed.
        costs: float32 [H, W], is changed.
        seen: uint8 [H, W, BEST], is changed: the neighbours that show a pixel best.
        parity: of row + column.
        every: whether all neighbours are compared.
        low: the smallest inverse depth.
        high: the largest.
        focal: in pixels.
        size: of the random changes, of high - low.
        tries: random planes.
        seed: of these.
        counts: int64 [H], is written: how many patches were compared in each row.
        start: of the rows.
        stop: of the rows.
    """
    wide()
    height, width = costs.shape
    count = len(a)
    best_of = min(count, BEST)
    share = F(1) / F(best_of)
    values, weights = np.empty((SAMPLES, LANES), F), np.empty((SAMPLES, LANES), F)
    # What each lane looks at: all at one neighbour, or each at those that show its pixel best.
    lenses, sizes = np.empty((count, 12, LANES), F), np.empty((count, 3, LANES), INT)
    own_lenses, own_sizes = np.empty((BEST, 12, LANES), F), np.empty((BEST, 3, LANES), INT)
    for k in range(count):
        for lane in range(LANES):
            for r in range(9):
                lenses[k, r, lane] = a[k, r // 3, r % 3]
            for r in range(3):
                lenses[k, 9 + r, lane] = b[k, r]
            sizes[k, 0, lane], sizes[k, 1, lane] = bases[k + 1], widths[k + 1]
            sizes[k, 2, lane] = heights[k + 1]
    xs, deviations, out = np.empty(LANES, F), np.empty(LANES, F), np.empty(LANES, F)
    plane, found = np.empty((3, LANES), F), np.empty((3, LANES), F)
    best, total = np.empty(LANES, F), np.empty(LANES, F)
    least, shown = np.empty((BEST, LANES), F), np.empty((BEST, LANES), np.int64)
    order = np.empty((BEST, LANES), np.int64)
    live, tried = np.empty(LANES, np.bool_), np.empty(LANES, np.bool_)
    states = np.empty(LANES, np.uint64)
    for y in range(start, stop):
        compared = 0
        for left in range((y + parity) % 2, width, 2 * LANES):
            for lane in range(LANES):
                xs[lane] = min(left + 2 * lane, width - 1)
            prepare(
                words, INT(bases[0]), INT(width), INT(height), xs, F(y), _SOFT, values, weights,
                deviations,
            )  # fmt: skip
            any_live = False
            for lane in range(LANES):
                x = left + 2 * lane
                live[lane] = x < width and deviations[lane] >= _PLAIN
                if x < width and not live[lane]:
                    costs[y, x] = NOTHING
                any_live |= live[lane]
                best[lane] = F(9)
                states[lane] = np.uint64(y * width + x) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
                    seed
                )
                if live[lane]:
                    for m in range(BEST):
                        shown[m, lane] = seen[y, x, m]
                else:
                    for m in range(BEST):
                        shown[m, lane] = 0
            if not any_live:
                continue
            for n in range(9 + tries):
                # Of four adjacent pixels, and of four that are farther.
                far = 1 if n < 5 else 5
                side = (n - 1) % 4
                dx = far if side == 0 else (-far if side == 1 else 0)
                dy = far if side == 2 else (-far if side == 3 else 0)
                now = 0  # planes that are tried
                for lane in range(LANES):
                    x = left + 2 * lane
                    w, wx, wy = F(0), F(0), F(0)
                    good = live[lane]
                    if good and n == 0:
                        w, wx, wy = planes[y, x, 0], planes[y, x, 1], planes[y, x, 2]
                    elif good and n < 9:
                        u, v = x + dx, y + dy
                        good = u >= 0 and v >= 0 and u < width and v < height
                        if good:
                            good = costs[v, u] <= F(1.1)
                        if good:
                            wx, wy = planes[v, u, 1], planes[v, u, 2]
                            w = planes[v, u, 0] - F(dx) * wx - F(dy) * wy
                    elif good:
                        state, r = _random(states[lane])
                        state, s = _random(state)
                        state, p = _random(state)
                        states[lane] = state
                        scale = size if n % 2 else size * F(0.25)
                        bw = found[0, lane]
                        w = bw + r * scale * (high - low)
                        wx = found[1, lane] + s * scale * F(2) * bw / focal
                        wy = found[2, lane] + p * scale * F(2) * bw / focal
                    steep = _STEEPEST * w / focal
                    good = good and w > low and w < high and abs(wx) < steep and abs(wy) < steep
                    tried[lane] = good
                    now += good
                    plane[0, lane], plane[1, lane], plane[2, lane] = w, wx, wy
                if now == 0 and n > 0:
                    continue
                if n == 0 or every:
                    for m in range(BEST):
                        for lane in range(LANES):
                            least[m, lane], order[m, lane] = F(9), 0
                    for k in range(count):
                        compare(words, lenses, sizes, k, xs, F(y), plane, values, weights, out)
                        compared += now
                        for lane in range(LANES):
                            c = out[lane]
                            if geometric > F(0) and tried[lane]:
                                c += geometric * _apart(
                                    a[k], b[k], back_a[k], back_b[k], depths, bases[k + 1],
                                    widths[k + 1], heights[k + 1], xs[lane], F(y), plane[0, lane],
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
                        c = least[0, lane]
                        if best_of > 1:
                            c += least[1, lane]
                        if best_of > 2:
                            c += least[2, lane]
                        c *= share
                        if tried[lane] and c < best[lane]:
                            best[lane] = c
                            for r in range(3):
                                found[r, lane] = plane[r, lane]
                            for m in range(BEST):
                                shown[m, lane] = order[m, lane]
                    if n == 0:
                        for lane in range(LANES):
                            if best[lane] == F(9):
                                found[0, lane], found[1, lane], found[2, lane] = low, F(0), F(0)
                        if not every:
                            for m in range(BEST):
                                for lane in range(LANES):
                                    k = shown[m, lane]
                                    for r in range(12):
                                        own_lenses[m, r, lane] = lenses[k, r, lane]
                                    for r in range(3):
                                        own_sizes[m, r, lane] = sizes[k, r, lane]
                else:
                    for lane in range(LANES):
                        total[lane] = F(0)
                    hope = True
                    for m in range(best_of):
                        compare(
                            words, own_lenses, own_sizes, m, xs, F(y), plane, values, weights,
                            out,
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
                        if not (tried[lane] and total[lane] < best[lane]):
                            continue
                        if geometric > F(0):
                            for m in range(best_of):
                                k = shown[m, lane]
                                total[lane] += share * geometric * _apart(
                                    a[k], b[k], back_a[k], back_b[k], depths, bases[k + 1],
                                    widths[k + 1], heights[k + 1], xs[lane], F(y), plane[0, lane],
                                )  # fmt: skip
                        if total[lane] < best[lane]:
                            best[lane] = total[lane]
                            for r in range(3):
                                found[r, lane] = plane[r, lane]
            for lane in range(LANES):
                if live[lane]:
                    x = left + 2 * lane
                    costs[y, x] = best[lane]
                    for r in range(3):
                        planes[y, x, r] = found[r, lane]
                    for m in range(BEST):
                        seen[y, x, m] = shown[m, lane]
        counts[y] = compared
