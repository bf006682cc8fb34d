"""The compiled kernels of depth maps: a plane at each pixel, compared with other photos.

A pixel holds (w, wx, wy): the inverse depth of its plane there, and how it changes from pixel to
pixel, which is constant along a plane. Pixel p is at A p + w b in another photo. Four neighbouring
grey values lie in one word of 32 bits, so that bilinear interpolation takes one load.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false

from __future__ import annotations

import numpy as np

from gendr._runtime.numba.compilation import announce_compilation, ensure_cache, inner, kernel
from gendr._runtime.numba.vectors import wide

ensure_cache()
announce_compilation(__name__)

F = np.float32
# A patch: SIDE x SIDE samples, STRIDE pixels apart. 16 samples are one vector of AVX-512.
SIDE, STRIDE = 4, 2
SAMPLES = SIDE * SIDE
_DX = np.array([(k % SIDE) * STRIDE - (SIDE - 1) * STRIDE / 2 for k in range(SAMPLES)], F)
_DY = np.array([(k // SIDE) * STRIDE - (SIDE - 1) * STRIDE / 2 for k in range(SAMPLES)], F)
# Less contrast than this (of 255) is none; the difference at which a sample weighs half.
_PLAIN, _SOFT = F(1.5), F(30.0)
# The costs of what is outside of the other photo, of what cannot be compared, and of a pixel that
# has no contrast.
OUTSIDE, UNLIKE, NOTHING = F(1.2), F(1.0), F(2.0)
# The steepest plane: the change of w over the focal length, in w.
_STEEPEST = F(8.0)
# Photos that are compared, of all neighbours, once it is known which show a pixel best.
BEST = 3
_FAST = {"fastmath": True, "error_model": "numpy"}


@inner(**_FAST)
def _patch(words, base, width, height, x, y, values, weights):
    """Bilateral weights, values less their mean, times weights over the deviation; the deviation.

    Source: Schönberger et al., Pixelwise View Selection for Unstructured Multi-View Stereo, 2016,
    eq. 13, with a rational weight of colours and none of distances.
    """
    start = np.int32(base)
    row = np.int32(width)
    centre = F(np.int32(words[base + y * width + x] & np.uint32(255)))
    fx, fy, right, low = F(x), F(y), F(width - 1), F(height - 1)
    total = F(0)
    mean = F(0)
    square = F(0)
    for k in range(SAMPLES):
        u = np.int32(min(max(fx + _DX[k], F(0)), right))
        v = np.int32(min(max(fy + _DY[k], F(0)), low))
        # A number that is surely not negative: its loads take 32-bit places.
        place = np.uint32(start + v * row + u) & np.uint32(0x7FFFFFFF)
        grey = F(np.int32(words[place] & np.uint32(255)))
        off = (grey - centre) / _SOFT
        weight = F(1) / (F(1) + off * off)
        values[k] = grey
        weights[k] = weight
        total += weight
        mean += weight * grey
        square += weight * grey * grey
    mean /= total
    deviation = np.sqrt(max(square / total - mean * mean, F(1e-6)))
    for k in range(SAMPLES):
        weights[k] /= total
        values[k] = (values[k] - mean) * weights[k] / deviation
    return deviation


@inner(**_FAST)
def _unlike(words, base, width, height, a, b, x, y, w, wx, wy, values, weights):
    """1 - the correlation of a patch with where its plane lies in another photo: 0 .. 2."""
    u0 = a[0, 0] * x + a[0, 1] * y + a[0, 2] + w * b[0]
    v0 = a[1, 0] * x + a[1, 1] * y + a[1, 2] + w * b[1]
    z0 = a[2, 0] * x + a[2, 1] * y + a[2, 2] + w * b[2]
    ux, uy = a[0, 0] + wx * b[0], a[0, 1] + wy * b[0]
    vx, vy = a[1, 0] + wx * b[1], a[1, 1] + wy * b[1]
    zx, zy = a[2, 0] + wx * b[2], a[2, 1] + wy * b[2]
    last_u, last_v = F(width) - F(1.01), F(height) - F(1.01)
    row, start = np.int32(width), np.int32(base)
    out = F(0)
    mean = F(0)
    square = F(0)
    both = F(0)
    for k in range(SAMPLES):
        z = F(1) / (z0 + _DX[k] * zx + _DY[k] * zy)
        u = (u0 + _DX[k] * ux + _DY[k] * uy) * z
        v = (v0 + _DX[k] * vx + _DY[k] * vy) * z
        cu = min(max(u, F(0)), last_u)
        cv = min(max(v, F(0)), last_v)
        out += abs(cu - u) + abs(cv - v) + min(z, F(0)) * F(-1e9)
        iu, iv = np.int32(cu), np.int32(cv)
        s, r = cu - F(iu), cv - F(iv)
        word = words[np.uint32(start + iv * row + iu) & np.uint32(0x7FFFFFFF)]
        g00 = F(np.int32(word & np.uint32(255)))
        g01 = F(np.int32((word >> np.uint32(8)) & np.uint32(255)))
        g10 = F(np.int32((word >> np.uint32(16)) & np.uint32(255)))
        g11 = F(np.int32(word >> np.uint32(24)))
        top, low = g00 + s * (g01 - g00), g10 + s * (g11 - g10)
        grey = top + r * (low - top)
        part = weights[k] * grey
        mean += part
        square += part * grey
        both += values[k] * grey
    if not out <= F(0):
        return OUTSIDE
    variance = square - mean * mean
    return F(1) - both / np.sqrt(variance) if variance > F(1) else UNLIKE


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
def _drawn(state):
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
    values, weights = np.empty(SAMPLES, F), np.empty(SAMPLES, F)
    for y in range(start, stop):
        compared = 0
        for x in range((y + parity) % 2, width, 2):
            fx, fy = F(x), F(y)
            if _patch(words, bases[0], width, height, x, y, values, weights) < _PLAIN:
                costs[y, x] = NOTHING
                continue
            state = np.uint64(y * width + x) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
            best = F(9)
            bw, bx, by = F(0), F(0), F(0)
            first, second, third = seen[y, x, 0], seen[y, x, 1], seen[y, x, 2]
            for n in range(9 + tries):
                if n == 0:
                    w, wx, wy = planes[y, x, 0], planes[y, x, 1], planes[y, x, 2]
                elif n < 9:  # of four adjacent pixels, and of four that are farther
                    far = 1 if n < 5 else 5
                    side = (n - 1) % 4
                    dx = far if side == 0 else (-far if side == 1 else 0)
                    dy = far if side == 2 else (-far if side == 3 else 0)
                    u, v = x + dx, y + dy
                    if u < 0 or v < 0 or u >= width or v >= height or costs[v, u] > F(1.1):
                        continue
                    wx, wy = planes[v, u, 1], planes[v, u, 2]
                    w = planes[v, u, 0] - F(dx) * wx - F(dy) * wy
                else:
                    state, r = _drawn(state)
                    state, s = _drawn(state)
                    state, p = _drawn(state)
                    scale = size if n % 2 else size * F(0.25)
                    w = bw + r * scale * (high - low)
                    wx = bx + s * scale * F(2) * bw / focal
                    wy = by + p * scale * F(2) * bw / focal
                steep = _STEEPEST * w / focal
                if not (w > low and w < high and abs(wx) < steep and abs(wy) < steep):
                    continue
                if n == 0 or every:
                    c0, c1, c2 = F(9), F(9), F(9)
                    i, j, m = np.uint8(0), np.uint8(0), np.uint8(0)
                    for k in range(count):
                        c = _unlike(
                            words, bases[k + 1], widths[k + 1], heights[k + 1], a[k], b[k], fx, fy,
                            w, wx, wy, values, weights,
                        )  # fmt: skip
                        if geometric > F(0):
                            c += geometric * _apart(
                                a[k], b[k], back_a[k], back_b[k], depths, bases[k + 1],
                                widths[k + 1], heights[k + 1], fx, fy, w,
                            )  # fmt: skip
                        if c < c0:
                            c0, c1, c2, i, j, m = c, c0, c1, np.uint8(k), i, j
                        elif c < c1:
                            c1, c2, j, m = c, c1, np.uint8(k), j
                        elif c < c2:
                            c2, m = c, np.uint8(k)
                    compared += count
                    c = c0
                    if best_of > 1:
                        c += c1
                    if best_of > 2:
                        c += c2
                    c *= share
                    if c < best:
                        best, bw, bx, by, first, second, third = c, w, wx, wy, i, j, m
                else:
                    total = F(0)
                    for q in range(best_of):
                        k = first if q == 0 else (second if q == 1 else third)
                        total += share * _unlike(
                            words, bases[k + 1], widths[k + 1], heights[k + 1], a[k], b[k], fx, fy,
                            w, wx, wy, values, weights,
                        )  # fmt: skip
                        compared += 1
                        if total >= best:
                            break
                        if geometric > F(0):
                            total += share * geometric * _apart(
                                a[k], b[k], back_a[k], back_b[k], depths, bases[k + 1],
                                widths[k + 1], heights[k + 1], fx, fy, w,
                            )  # fmt: skip
                    if total < best:
                        best, bw, bx, by = total, w, wx, wy
            costs[y, x] = best
            planes[y, x, 0], planes[y, x, 1], planes[y, x, 2] = bw, bx, by
            seen[y, x, 0], seen[y, x, 1], seen[y, x, 2] = first, second, third
        counts[y] = compared
