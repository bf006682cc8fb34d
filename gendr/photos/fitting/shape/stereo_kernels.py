"""The compiled kernels of stereo: planes at the pixels of a photo, and what they say of space.

A photo knows the surface as a plane at each pixel: (w, wx, wy), the inverse of its depth and how
that changes from pixel to pixel, which for a plane is the same everywhere. Pixel p = (x, y, 1) of
it is at A p + w b in a neighbour, in homogeneous pixels; x and y count the centres of pixels.

Sources: patches by normalised cross-correlation, planes propagated from pixel to pixel as in
PatchMatch stereo (Bleyer et al. 2011), in two colours of a chessboard (Galliani et al. 2015).
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.vectors import wide
from gendr.photos.fitting.shape.stereo_vectors import (
    LANES,
    SAMPLES,
    SIDE,
    compare,
    compare_each,
    prepare,
)

# No reordering of sums, which would change from compiler to compiler.
FAST: Any = {"fastmath": {"contract", "nsz"}}
F, INT = np.float32, np.int32

# Samples are STRIDE pixels apart at level 0, and twice as far at each level more, in images that
# are as much smoother.
STRIDE = 2
# What it costs, in correlation, to leave the surface given, at most: what is plain or changes
# smoothly is alike at many depths, and stays. And how many times `before` costs half of it.
_LEAVE, _SOON = F(0.2), F(2.0)
# How steeply a surface may be seen: the tangent.
STEEP = F(4.0)
# A correlation that two neighbours hardly have by chance.
_SEEN = F(0.5)
HALF, ONE = F(0.5), F(1.0)
# The other colour of the chessboard, near and a little further; and how many planes are tried: of
# these, and changes of one's own.
RIGHT, DOWN = (-1, 1, 0, 0, -5, 5, 0, 0, -2, 2, -2, 2), (0, 0, -1, 1, 0, 0, -5, 5, -1, -1, 1, 1)
AROUND, TRIED = len(RIGHT), len(RIGHT) + 6


@inner(**FAST)
def loaded(pixels, begin, count, levels, tints, ref, photo, xs, ys, strides, own, starts):
    """Give each lane a pixel; behind the last it is that of the last."""
    height, width = levels.shape
    for lane in range(LANES):
        place = pixels[min(begin + lane, count - 1)]
        y, x = place // width, place % width
        level, tint = levels[y, x] & 7, levels[y, x] >> 3
        xs[lane], ys[lane], strides[lane] = x, y, STRIDE << level
        starts[lane] = level * height * width + tint * tints
        own[lane] = ref * photo + starts[lane]


@inner(**FAST)
def _scored(
    images, starts, lenses, levels, xs, ys, strides, planes, values, weights, centres, out, first,
    second, one, other,
):  # fmt: skip
    """The two best correlations with the neighbours in each lane, >= -1; and whose they are."""
    height, width = levels.shape
    for lane in range(LANES):
        first[lane] = second[lane] = -ONE
        one[lane], other[lane] = 0, 1
    for k in range(len(lenses)):
        compare(
            images, starts, lenses, k, width, height, xs, ys, strides, planes, values, weights,
            centres, out,
        )  # fmt: skip
        for lane in range(LANES):
            found = out[lane]
            if found > first[lane]:
                second[lane], other[lane] = first[lane], one[lane]
                first[lane], one[lane] = found, k
            elif found > second[lane]:
                second[lane], other[lane] = found, k


@inner(**FAST)
def _cost(way, before):
    """What it costs to go so far from the surface given."""
    way = abs(way)
    return _LEAVE * way / (way + _SOON * before)


@kernel(**FAST)
def sweep(
    images, tints, ref, photo, near, levels, lenses, front, back, before, step, focal, planes,
    scores, pairs, start, stop,
):  # fmt: skip
    """Try depths from `front` to `back`, parallel to the image and aslant; keep the best.

    Only every second pixel does, as on a chessboard, and neighbouring ones try different slants;
    the best is propagated later.

    Args:
        images: uint32 [T, B, L, H, W], flat, and one more: tints, at each level as smooth as its
            patches are coarse; see `compare`.
        tints: B L H W.
        ref: the photo that is looked at.
        photo: L H W.
        near: float32 [H, W], 0 where the photo shows the object, else +inf.
        levels: uint8 [H, W], that of the patch at each pixel, plus 8 times its tint.
        lenses: float32 [K, 16], where its pixels are in the neighbours; see `compare`.
        front: float32 [H, W], w of the surface given, 0 where there is nothing.
        back: float32 [H, W], the smallest w.
        before: by how much w may be larger than `front`.
        step: of w.
        focal: in pixels.
        planes: float32 [H, W, 3], out.
        scores: float32 [H, W], out; -1 where nothing is known.
        pairs: uint8 [H, W], out, the neighbours that see the plane best: K times one plus another.
        start: the first row; stop: the row after the last.
        stop: see start.
    """
    wide()
    height, width = levels.shape
    pixels, count = np.empty((stop - start) * width, INT), 0
    for y in range(start, stop):
        for x in range(width):
            scores[y, x] = -ONE
            planes[y, x, 0] = front[y, x]
            planes[y, x, 1] = planes[y, x, 2] = F(0)
            pairs[y, x] = 1
            if (x + y) % 2 and front[y, x] > 0 and near[y, x] <= 0:
                pixels[count] = y * width + x
                count += 1
    xs, ys, strides = np.empty(LANES, INT), np.empty(LANES, INT), np.empty(LANES, INT)
    own, starts = np.empty(LANES, INT), np.empty(LANES, INT)
    one, other = np.empty(LANES, INT), np.empty(LANES, INT)
    values, weights = np.empty((SAMPLES, LANES), F), np.empty((SAMPLES, LANES), F)
    plane, lanes = np.empty((3, LANES), F), np.empty((8, LANES), F)
    centres, fine, out, limits = lanes[0], lanes[1], lanes[2], np.ones(LANES, F)
    first, second, former, best, after = lanes[3], lanes[4], lanes[5], lanes[6], lanes[7]
    place, slant, last = np.empty(LANES, F), np.empty(LANES, F), np.empty(LANES, F)
    across, upward = np.empty(LANES, F), np.empty(LANES, F)
    fresh, live = np.empty(LANES, np.bool_), np.empty(LANES, np.bool_)
    for begin in range(0, count, LANES):
        loaded(pixels, begin, count, levels, tints, ref, photo, xs, ys, strides, own, starts)
        prepare(
            images, own, near, width, height, xs, ys, strides, limits, values, weights, centres,
            fine,
        )  # fmt: skip
        for lane in range(LANES):
            x, y = xs[lane], ys[lane]
            former[lane] = best[lane] = after[lane] = -ONE
            place[lane] = slant[lane] = F(0)
            # Right, down, left and up, by 45 degrees.
            sign = ONE if (x + y) % 4 < 2 else -ONE
            across[lane] = F(0) if x % 2 else sign / focal
            upward[lane] = sign / focal - across[lane]
        for aslant in range(2):
            tilt = F(aslant)
            for lane in range(LANES):
                plane[0, lane] = front[ys[lane], xs[lane]] + before
                last[lane], fresh[lane] = -ONE, False
            while True:
                left = False
                for lane in range(LANES):
                    w = plane[0, lane]
                    live[lane] = fine[lane] > 0 and w >= back[ys[lane], xs[lane]]
                    left |= live[lane]
                    plane[1, lane] = w * tilt * across[lane]
                    plane[2, lane] = w * tilt * upward[lane]
                if not left:
                    break
                _scored(
                    images, starts, lenses, levels, xs, ys, strides, plane, values, weights,
                    centres, out, first, second, one, other,
                )  # fmt: skip
                for lane in range(LANES):
                    w = plane[0, lane]
                    if live[lane]:
                        y, x = ys[lane], xs[lane]
                        found = HALF * (first[lane] + second[lane])
                        found -= _cost(front[y, x] - w, before)
                        if fresh[lane]:
                            after[lane], fresh[lane] = found, False
                        if found > best[lane]:
                            former[lane], best[lane], place[lane] = last[lane], found, w
                            after[lane], fresh[lane], slant[lane] = -ONE, True, tilt
                            pairs[y, x] = len(lenses) * one[lane] + other[lane]
                        last[lane] = found
                    plane[0, lane] = w - step
        for lane in range(min(LANES, count - begin)):
            if best[lane] <= -1:
                continue
            y, x, at = ys[lane], xs[lane], place[lane]
            bend = former[lane] - 2 * best[lane] + after[lane]
            if former[lane] > -1 and after[lane] > -1 and bend < -1e-6:
                at -= HALF * (former[lane] - after[lane]) / bend * step
            planes[y, x, 0] = at
            planes[y, x, 1] = at * slant[lane] * across[lane]
            planes[y, x, 2] = at * slant[lane] * upward[lane]
            scores[y, x] = best[lane]


@inner()
def random(seed, k):
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
    images, tints, ref, photo, near, levels, lenses, front, back, before, focal, spread, turn,
    planes, scores, pairs, start, stop,
):  # fmt: skip
    """Try the planes of neighbouring pixels, and changes of one's own, at half of the pixels.

    Args:
        images: and all that `sweep` has too, as there.
        tints: see `sweep`.
        ref: see `sweep`.
        photo: see `sweep`.
        near: see `sweep`.
        levels: see `sweep`.
        lenses: see `sweep`.
        front: see `sweep`.
        back: see `sweep`.
        before: see `sweep`.
        focal: in pixels.
        spread: how far w is changed.
        turn: the number of the call, whose parity says which half it is.
        planes: in and out.
        scores: in and out.
        pairs: in and out.
        start: see `sweep`.
        stop: see `sweep`.
    """
    wide()
    height, width = levels.shape
    pixels, count = np.empty((stop - start) * width, INT), 0
    for y in range(start, stop):
        for x in range((y + turn) % 2, width, 2):
            if front[y, x] > 0 and near[y, x] <= 0:
                pixels[count] = y * width + x
                count += 1
    xs, ys, strides = np.empty(LANES, INT), np.empty(LANES, INT), np.empty(LANES, INT)
    own, starts = np.empty(LANES, INT), np.empty(LANES, INT)
    one, other = np.empty(LANES, INT), np.empty(LANES, INT)
    this, that = np.empty(LANES, INT), np.empty(LANES, INT)
    values, weights = np.empty((SAMPLES, LANES), F), np.empty((SAMPLES, LANES), F)
    plane, found, lanes = np.empty((3, LANES), F), np.empty((3, LANES), F), np.empty((6, LANES), F)
    centres, fine, out, first, second, best = (
        lanes[0], lanes[1], lanes[2], lanes[3], lanes[4], lanes[5]
    )  # fmt: skip
    limits, tried = np.ones(LANES, F), np.empty(LANES, np.bool_)
    # Who sees the plane that a pixel has, and how well, which later visits know.
    for begin in range(0, count if turn < 2 else 0, LANES):
        loaded(pixels, begin, count, levels, tints, ref, photo, xs, ys, strides, own, starts)
        prepare(
            images, own, near, width, height, xs, ys, strides, limits, values, weights, centres,
            fine,
        )  # fmt: skip
        for lane in range(LANES):
            for r in range(3):
                plane[r, lane] = planes[ys[lane], xs[lane], r]
        _scored(
            images, starts, lenses, levels, xs, ys, strides, plane, values, weights, centres, out,
            first, second, one, other,
        )  # fmt: skip
        for lane in range(min(LANES, count - begin)):
            if fine[lane] > 0:
                y, x = ys[lane], xs[lane]
                scores[y, x] = HALF * (first[lane] + second[lane])
                pairs[y, x] = len(lenses) * one[lane] + other[lane]
    # Pixels of which that is known, and others.
    kinds, counts = np.empty((2, max(count, 1)), INT), np.zeros(2, np.int64)
    for n in range(count):
        kind = 0 if scores[pixels[n] // width, pixels[n] % width] > _SEEN else 1
        kinds[kind, counts[kind]] = pixels[n]
        counts[kind] += 1
    for kind in range(2):
        for begin in range(0, counts[kind], LANES):
            loaded(
                kinds[kind], begin, counts[kind], levels, tints, ref, photo, xs, ys, strides, own,
                starts,
            )  # fmt: skip
            prepare(
                images, own, near, width, height, xs, ys, strides, limits, values, weights,
                centres, fine,
            )  # fmt: skip
            for lane in range(LANES):
                y, x = ys[lane], xs[lane]
                best[lane] = scores[y, x]
                for r in range(3):
                    found[r, lane] = planes[y, x, r]
            for k in range(TRIED):
                some = False
                for lane in range(LANES):
                    x, y = xs[lane], ys[lane]
                    w, wx, wy = found[0, lane], found[1, lane], found[2, lane]
                    pair, good = pairs[y, x], fine[lane] > 0
                    if k < AROUND:
                        dx, dy = RIGHT[k], DOWN[k]
                        u, v = x + dx, y + dy
                        good = u >= 0 and v >= 0 and u < width and v < height
                        good = good and scores[v, u] > -1
                        if good:
                            wx, wy = planes[v, u, 1], planes[v, u, 2]
                            w = planes[v, u, 0] - F(dx) * wx - F(dy) * wy
                            pair = pairs[v, u]
                    else:
                        w, wx, wy = changed(w, wx, wy, spread, y * width + x, turn, k)
                    good = good and back[y, x] <= w and w <= front[y, x] + before
                    tried[lane] = good and focal * np.sqrt(wx * wx + wy * wy) <= STEEP * w
                    some |= tried[lane]
                    plane[0, lane], plane[1, lane], plane[2, lane] = w, wx, wy
                    this[lane], that[lane] = pair // len(lenses), pair % len(lenses)
                if not some:
                    continue
                if kind:
                    _scored(
                        images, starts, lenses, levels, xs, ys, strides, plane, values, weights,
                        centres, out, first, second, this, that,
                    )  # fmt: skip
                else:
                    # Whoever sees the place best judges changes of its plane, and those who see
                    # that of another pixel best judge it here; of no place, all do.
                    compare_each(
                        images, starts, lenses, this, width, height, xs, ys, strides, plane,
                        values, weights, centres, first,
                    )  # fmt: skip
                    some = False
                    for lane in range(LANES):
                        tried[lane] &= HALF * (first[lane] + ONE) > best[lane]
                        some |= tried[lane]
                    if not some:
                        continue
                    compare_each(
                        images, starts, lenses, that, width, height, xs, ys, strides, plane,
                        values, weights, centres, second,
                    )  # fmt: skip
                for lane in range(LANES):
                    score = HALF * (first[lane] + second[lane])
                    if tried[lane] and score > best[lane]:
                        best[lane] = score
                        pairs[ys[lane], xs[lane]] = len(lenses) * this[lane] + that[lane]
                        for r in range(3):
                            found[r, lane] = plane[r, lane]
            for lane in range(min(LANES, counts[kind] - begin)):
                y, x = ys[lane], xs[lane]
                scores[y, x] = best[lane]
                for r in range(3):
                    planes[y, x, r] = found[r, lane]


@inner(**FAST)
def changed(w, wx, wy, spread, pixel, turn, k):
    """A plane after the random change k; of the last three w stays."""
    seed = pixel * 64 + turn
    size = spread / F(1 << ((k - AROUND) % 3))
    if k < AROUND + 3:
        w = w + size * random(seed, 3 * k)
    wx = wx + HALF * size * random(seed, 3 * k + 1) / F(SIDE)
    wy = wy + HALF * size * random(seed, 3 * k + 2) / F(SIDE)
    return w, wx, wy


@inner()
def _mirrored(n, size):
    """The place n, or if it is outside the one that the border mirrors it to."""
    n = -1 - n if n < 0 else n
    n = 2 * size - 1 - n if n >= size else n
    return min(max(n, 0), size - 1)


@kernel()
def energies(image, box, size, out):
    """Sums over directions of the squares of slopes in windows: their means.

    Without what the brightness and the contrast of a window explain. Borders mirror the image.

    Args:
        image: float32 [H, W].
        box: int64 [2, 2], first and last, plus one, of the rows and of the columns that count.
        size: of the windows, odd.
        out: float32, as large as the box.
    """
    height, width = image.shape
    reach, share = size // 2, 1 / size**2
    left, wide = box[1, 0], box[1, 1] - box[1, 0]
    # Sums over columns, which slide down: of a value and of two slopes, and of products.
    columns, sums, own = np.zeros((wide + 2 * reach + 1, 8)), np.zeros(8), np.zeros(8)
    for y in range(box[0, 0] - reach, box[0, 1] + reach):
        for n in range(2):
            # The row that comes, and the one that goes.
            row = y - n * size
            if row < box[0, 0] - reach:
                continue
            sign = 1.0 - 2.0 * n
            j = _mirrored(row, height)
            above, below = max(j - 1, 0), min(j + 1, height - 1)
            for k in range(wide + 2 * reach):
                i = _mirrored(left + k - reach, width)
                before, after = max(i - 1, 0), min(i + 1, width - 1)
                value = np.float64(image[j, i])
                down = (image[below, i] - image[above, i]) / max(below - above, 1)
                right = (image[j, after] - image[j, before]) / max(after - before, 1)
                columns[k, 0] += sign * value
                columns[k, 1] += sign * value * value
                columns[k, 2] += sign * down
                columns[k, 3] += sign * down * down
                columns[k, 4] += sign * down * value
                columns[k, 5] += sign * right
                columns[k, 6] += sign * right * right
                columns[k, 7] += sign * right * value
        line = y - box[0, 0] - reach
        if line < 0:
            continue
        sums[:] = 0.0
        for k in range(wide + 2 * reach):
            for r in range(8):
                sums[r] += columns[k, r]
            if k >= 2 * reach:
                for r in range(8):
                    own[r] = share * sums[r]
                    sums[r] -= columns[k - 2 * reach, r]
                spread = max(own[1] - own[0] * own[0], 1e-12)
                energy = 0.0
                for r in (2, 5):
                    alike = own[r + 2] - own[r] * own[0]
                    energy += max(own[r + 1] - own[r] * own[r] - alike * alike / spread, 0.0)
                out[line, k - 2 * reach] = energy


@kernel()
def count_consistent(
    ref, near, a, b, backwards, offsets, planes, scores, least, counts, start, stop
):
    """Count the neighbours that see the surface of each pixel at the same place.

    Args:
        ref: the photo.
        near: int64 [K], its neighbours.
        a: float32 [K, 3, 3], as for `sweep`; and b.
        b: see a.
        backwards: float32 [K, 3, 3], A of the neighbours for this photo; and offsets, [K, 3], b.
        offsets: see backwards.
        planes: float32 [B, H, W, 3].
        scores: float32 [B, H, W].
        least: a score that counts.
        counts: uint8 [H, W], out.
        start: the first row; stop: the row after the last.
        stop: see start.
    """
    height, width = counts.shape
    for y in range(start, stop):
        for x in range(width):
            counts[y, x] = 0
            if scores[ref, y, x] < least:
                continue
            w = planes[ref, y, x, 0]
            for k in range(len(near)):
                m, c = a[k], b[k]
                q = m[2, 0] * x + m[2, 1] * y + m[2, 2] + w * c[2]
                if q <= 0:
                    continue
                u = (m[0, 0] * x + m[0, 1] * y + m[0, 2] + w * c[0]) / q
                v = (m[1, 0] * x + m[1, 1] * y + m[1, 2] + w * c[1]) / q
                i, j = int(np.floor(u + 0.5)), int(np.floor(v + 0.5))
                if i < 0 or j < 0 or i >= width or j >= height:
                    continue
                n = near[k]
                if scores[n, j, i] < least:
                    continue
                there = planes[n, j, i]
                other = there[0] + (u - i) * there[1] + (v - j) * there[2]
                # Its own w there is w / q: depths scale by q.
                if abs(other * q / w - 1) > 0.01:
                    continue
                m, c = backwards[k], offsets[k]
                p = m[2, 0] * u + m[2, 1] * v + m[2, 2] + other * c[2]
                s = (m[0, 0] * u + m[0, 1] * v + m[0, 2] + other * c[0]) / p - x
                t = (m[1, 0] * u + m[1, 1] * v + m[1, 2] + other * c[1]) / p - y
                if s * s + t * t < 1.0:
                    counts[y, x] += 1


@kernel()
def fuse(
    cells, corner, side, shape, projections, focals, planes, weights, reach, free, out, start, stop
):
    """Signed distances of the surfaces of all photos, positive inside: their weighted mean.

    Args:
        cells: int64 [N], those of the grid that are asked for.
        corner: float64 [3], the first point of the grid.
        side: of a cell.
        shape: of the grid.
        projections: float64 [B, 3, 4], to pixels times depth.
        focals: float64 [B], in pixels.
        planes: float32 [B, H, W, 3].
        weights: float32 [B, H, W], 0 where nothing is known.
        reach: distances beyond it are cut off.
        free: the weight of a cell that is seen through, of that of a surface.
        out: float32 [N, 2], the mean and the sum of weights.
        start: the first cell; stop: the cell after the last.
        stop: see start.
    """
    height, width = weights.shape[1:]
    for n in range(start, stop):
        cell = cells[n]
        k = cell % shape[2]
        j = (cell // shape[2]) % shape[1]
        i = cell // (shape[2] * shape[1])
        px, py, pz = corner[0] + side * i, corner[1] + side * j, corner[2] + side * k
        total = mean = 0.0
        for r in range(len(projections)):
            m = projections[r]
            z = m[2, 0] * px + m[2, 1] * py + m[2, 2] * pz + m[2, 3]
            if z <= 0:
                continue
            u = (m[0, 0] * px + m[0, 1] * py + m[0, 2] * pz + m[0, 3]) / z
            v = (m[1, 0] * px + m[1, 1] * py + m[1, 2] * pz + m[1, 3]) / z
            x, y = int(np.floor(u + 0.5)), int(np.floor(v + 0.5))
            if x < 0 or y < 0 or x >= width or y >= height:
                continue
            weight = weights[r, y, x]
            if weight <= 0:
                continue
            plane = planes[r, y, x]
            w = plane[0] + (u - x) * plane[1] + (v - y) * plane[2]
            if w <= 0:
                continue
            slope = focals[r] * np.sqrt(plane[1] ** 2 + plane[2] ** 2) / plane[0]
            cosine = 1 / np.sqrt(1 + slope * slope)
            distance = (z - 1 / w) * cosine
            if distance > reach:
                continue
            weight *= cosine
            if distance < -reach:
                distance = -reach
                weight *= free
            mean += weight * distance
            total += weight
        out[n, 0] = mean / total if total > 0 else 0.0
        out[n, 1] = total


@kernel()
def restore(field, corner, side, shape, rays, origins, first, last, least, places, start, stop):
    """Of lines of sight, the cell that is most inside.

    Args:
        field: float32 [P], positive inside.
        corner: float64 [3], the first point of the grid.
        side: of a cell.
        shape: of the grid.
        rays: float64 [N, 3], unit vectors.
        origins: float64 [N, 3].
        first: where the lines come near the grid; and last.
        last: see first.
        least: cells below it do not count.
        places: int64 [N], out; -1 if there is none.
        start: the first line; stop: the line after the last.
        stop: see start.
    """
    for n in range(start, stop):
        places[n] = -1
        best = least
        t = first
        while t < last:
            i = int(np.floor((origins[n, 0] + t * rays[n, 0] - corner[0]) / side + 0.5))
            j = int(np.floor((origins[n, 1] + t * rays[n, 1] - corner[1]) / side + 0.5))
            k = int(np.floor((origins[n, 2] + t * rays[n, 2] - corner[2]) / side + 0.5))
            if 0 <= i < shape[0] and 0 <= j < shape[1] and 0 <= k < shape[2]:
                value = field[(i * shape[1] + j) * shape[2] + k]
                if value > best:
                    best = value
                    places[n] = (i * shape[1] + j) * shape[2] + k
            t += 0.5 * side


@kernel()
def cover(cells, corner, side, shape, projections, focals, covered, start, stop):
    """Mark the pixels at which cells of the surface are seen.

    Args:
        cells: int64 [N].
        corner: float64 [3], the first point of the grid.
        side: of a cell.
        shape: of the grid.
        projections: float64 [B, 3, 4], to pixels times depth.
        focals: float64 [B], in pixels.
        covered: uint8 [B, H, W], in and out.
        start: the first photo; stop: the photo after the last.
        stop: see start.
    """
    height, width = covered.shape[1:]
    for r in range(start, stop):
        m = projections[r]
        for n in range(len(cells)):
            cell = cells[n]
            px = corner[0] + side * (cell // (shape[2] * shape[1]))
            py = corner[1] + side * ((cell // shape[2]) % shape[1])
            pz = corner[2] + side * (cell % shape[2])
            z = m[2, 0] * px + m[2, 1] * py + m[2, 2] * pz + m[2, 3]
            if z <= 0:
                continue
            u = (m[0, 0] * px + m[0, 1] * py + m[0, 2] * pz + m[0, 3]) / z
            v = (m[1, 0] * px + m[1, 1] * py + m[1, 2] * pz + m[1, 3]) / z
            half = max(0.5, 0.5 * side * focals[r] / z)
            left, right = max(0, int(np.ceil(u - half))), min(width - 1, int(np.floor(u + half)))
            for y in range(max(0, int(np.ceil(v - half))), min(height - 1, int(v + half)) + 1):
                for x in range(left, right + 1):
                    covered[r, y, x] = 1
