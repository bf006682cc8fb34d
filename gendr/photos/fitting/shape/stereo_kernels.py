"""The compiled kernels of stereo: planes at the pixels of a photo, and what they say of space.

A photo knows the surface as a plane at each pixel: (w, wx, wy), the inverse of its depth and how
that changes from pixel to pixel, which for a plane is the same everywhere. Pixel p = (x, y, 1) of
it is at A p + w b in a neighbour, in homogeneous pixels; x and y count the centres of pixels.

Sources: patches by normalised cross-correlation, planes handed on from pixel to pixel as in
PatchMatch stereo (Bleyer et al. 2011), in two colours of a chessboard (Galliani et al. 2015).
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from gendr.kernels.numba.compilation import announce_compilation, ensure_cache, inner, kernel
from gendr.photos.fitting.shape.stereo_vectors import SAMPLES, SIDE, sampled

ensure_cache()
announce_compilation(__name__)

_OPTIONS: Any = {"error_model": "numpy"}
# No reordering of sums, which would change from compiler to compiler.
_FAST: Any = {**_OPTIONS, "fastmath": {"contract", "nsz"}}

# Samples are STRIDE pixels apart at level 0, and twice as far at each level more, in images that
# are as much smoother.
STRIDE = 2
# Samples of other brightness count less: half a step of this much.
_LIKE = np.float32(0.15)
# A patch of less variance has no pattern.
_FLAT = np.float32(4e-5)
# What it costs, in correlation, to leave the surface given, at most: what is plain or changes
# smoothly is alike at many depths, and stays. And how many times `before` costs half of it.
_LEAVE, _SOON = np.float32(0.2), np.float32(2.0)
# How steeply a surface may be seen: the tangent.
_STEEP = np.float32(4.0)
# A correlation that two neighbours hardly have by chance.
_SEEN = np.float32(0.5)
_HALF, _ONE = np.float32(0.5), np.float32(1.0)


@inner(**_FAST)
def _patch(grey, inside, x, y, stride, values, weights):
    """Fill in values, less their mean, and weights of a patch; whether it has a pattern."""
    height, width = grey.shape
    centre = grey[y, x]
    total = mean = np.float32(0.0)
    begin = stride * (SIDE - 1) // 2
    for k in range(SAMPLES):
        u = x + (k % SIDE) * stride - begin
        v = y + (k // SIDE) * stride - begin
        weights[k] = 0.0
        values[k] = 0.0
        if 0 <= u < width and 0 <= v < height and inside[v, u]:
            values[k] = grey[v, u]
            off = (values[k] - centre) / _LIKE
            weights[k] = 1 / (1 + off * off)
            total += weights[k]
            mean += weights[k] * values[k]
    if total < 2:
        return False
    mean /= total
    variance = np.float32(0.0)
    for k in range(SAMPLES):
        values[k] -= mean
        weights[k] /= total
        variance += weights[k] * values[k] * values[k]
    if variance < _FLAT:
        return False
    scale = 1 / np.sqrt(variance)
    for k in range(SAMPLES):
        values[k] *= scale * weights[k]
    return True


@inner(**_FAST)
def _correlation(images, n, a, b, k, x, y, stride, w, wx, wy, values, weights):
    """The correlation of a patch with what neighbour k shows of a plane, -1 .. 1; -2: unseen."""
    begin = stride * (SIDE - 1) // 2
    # Single precision throughout: as integers they would make it double.
    apart, end = np.float32(stride), np.float32(begin)
    x0, y0 = np.float32(x - begin), np.float32(y - begin)
    w0 = w - end * (wx + wy)
    across = (
        a[k, 0, 0] * x0 + a[k, 0, 1] * y0 + a[k, 0, 2] + w0 * b[k, 0],
        apart * (a[k, 0, 0] + wx * b[k, 0]), apart * (a[k, 0, 1] + wy * b[k, 0]),
    )  # fmt: skip
    down = (
        a[k, 1, 0] * x0 + a[k, 1, 1] * y0 + a[k, 1, 2] + w0 * b[k, 1],
        apart * (a[k, 1, 0] + wx * b[k, 1]), apart * (a[k, 1, 1] + wy * b[k, 1]),
    )  # fmt: skip
    deep = (
        a[k, 2, 0] * x0 + a[k, 2, 1] * y0 + a[k, 2, 2] + w0 * b[k, 2],
        apart * (a[k, 2, 0] + wx * b[k, 2]), apart * (a[k, 2, 1] + wy * b[k, 2]),
    )  # fmt: skip
    mean, square, both, seen = sampled(images, n, values, weights, across, down, deep)
    if not seen:
        return np.float32(-2.0)
    variance = square - mean * mean
    if variance < _HALF * _FLAT:
        return np.float32(-1.0)
    return both / np.sqrt(variance)


@inner(**_FAST)
def _score(images, near, a, b, x, y, stride, w, wx, wy, values, weights):
    """The mean of the two best correlations with the neighbours, -1 .. 1; and whose they are."""
    first = second = np.float32(-1.0)
    one, other = 0, 1
    for k in range(len(near)):
        found = _correlation(images, near[k], a, b, k, x, y, stride, w, wx, wy, values, weights)
        if found > first:
            first, second, one, other = found, first, k, one
        elif found > second:
            second, other = found, k
    return _HALF * (first + second), one, other


@inner(**_FAST)
def _of_both(images, near, a, b, x, y, stride, w, wx, wy, values, weights, one, other, best):
    """The mean correlation with two neighbours; -1 as soon as it cannot be more than `best`."""
    first = _correlation(images, near[one], a, b, one, x, y, stride, w, wx, wy, values, weights)
    if _HALF * (first + _ONE) <= best:
        return np.float32(-1.0)
    second = _correlation(
        images, near[other], a, b, other, x, y, stride, w, wx, wy, values, weights
    )
    return _HALF * (first + second)


@inner(**_FAST)
def _cost(way, before):
    """What it costs to go so far from the surface given."""
    way = abs(way)
    return _LEAVE * way / (way + _SOON * before)


@kernel(**_FAST)
def sweep(
    images, ref, inside, levels, near, a, b, front, back, before, step, focal, planes, scores,
    pairs, start, stop,
):  # fmt: skip
    """Try depths from `front` to `back`, parallel to the image and aslant; keep the best.

    Only every second pixel does, as on a chessboard, and neighbouring ones try different slants;
    the best is handed on later.

    Args:
        images: float32 [L, T, B, H, W], tints, at each level as smooth as its patches are coarse.
        ref: the photo that is looked at.
        inside: uint8 [H, W], what it shows of the object.
        levels: uint8 [H, W], that of the patch at each pixel, plus 8 times its tint.
        near: int64 [K], its neighbours.
        a: float32 [K, 3, 3]; and b, [K, 3]: where its pixels are in the neighbours.
        b: see a.
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
    values, weights = np.empty(SAMPLES, np.float32), np.empty(SAMPLES, np.float32)
    zero = np.float32(0.0)
    for y in range(start, stop):
        for x in range(inside.shape[1]):
            scores[y, x] = -1.0
            planes[y, x, 0] = front[y, x]
            planes[y, x, 1] = planes[y, x, 2] = 0.0
            pairs[y, x] = 1
            if (x + y) % 2 == 0 or not inside[y, x] or front[y, x] <= 0:
                continue
            level = levels[y, x] & 7
            smooth, stride = images[level, levels[y, x] >> 3], STRIDE << level
            if not _patch(smooth[ref], inside, x, y, stride, values, weights):
                continue
            former = best = after = np.float32(-1.0)
            place = slant = zero
            # Right, down, left and up, by 45 degrees.
            sign = _ONE if (x + y) % 4 < 2 else -_ONE
            across = zero if x % 2 else sign / focal
            upward = sign / focal - across
            for aslant in range(2):
                last, fresh = np.float32(-1.0), False
                w = front[y, x] + before
                while w >= back[y, x]:
                    tilt = w * np.float32(aslant)
                    found, one, other = _score(
                        smooth, near, a, b, x, y, stride, w, tilt * across, tilt * upward, values,
                        weights,
                    )  # fmt: skip
                    found -= _cost(front[y, x] - w, before)
                    if fresh:
                        after, fresh = found, False
                    if found > best:
                        former, best, place, fresh, after = last, found, w, True, np.float32(-1.0)
                        slant = np.float32(aslant)
                        pairs[y, x] = len(near) * one + other
                    last = found
                    w -= step
            if best <= -1:
                continue
            bend = former - 2 * best + after
            if former > -1 and after > -1 and bend < -1e-6:
                place -= _HALF * (former - after) / bend * step
            planes[y, x, 0] = place
            planes[y, x, 1], planes[y, x, 2] = place * slant * across, place * slant * upward
            scores[y, x] = best


@inner(**_OPTIONS)
def _random(seed, k):
    """A number in [-1, 1) of two others."""
    h = np.uint32(seed) ^ (np.uint32(k) * np.uint32(0x9E3779B9))
    h ^= h >> np.uint32(16)
    h = np.uint32(h * np.uint32(0x7FEB352D))
    h ^= h >> np.uint32(15)
    h = np.uint32(h * np.uint32(0x846CA68B))
    h ^= h >> np.uint32(16)
    return np.float32(h) / np.float32(2147483648.0) - np.float32(1.0)


@kernel(**_FAST)
def propagate(
    images, ref, inside, levels, near, a, b, front, back, before, focal, spread, turn, planes,
    scores, pairs, start, stop,
):  # fmt: skip
    """Try the planes of neighbouring pixels, and changes of one's own, at half of the pixels.

    Args:
        images: and all that `sweep` has too, as there.
        ref: see `sweep`.
        inside: see `sweep`.
        levels: see `sweep`.
        near: see `sweep`.
        a: see `sweep`.
        b: see `sweep`.
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
    height, width = inside.shape
    values, weights = np.empty(SAMPLES, np.float32), np.empty(SAMPLES, np.float32)
    # The other colour of the chessboard, near and a little further.
    dx = np.array([-1, 1, 0, 0, -5, 5, 0, 0, -2, 2, -2, 2])
    dy = np.array([0, 0, -1, 1, 0, 0, -5, 5, -1, -1, 1, 1])
    for y in range(start, stop):
        for x in range((y + turn) % 2, width, 2):
            if not inside[y, x] or front[y, x] <= 0:
                continue
            level = levels[y, x] & 7
            smooth, stride = images[level, levels[y, x] >> 3], STRIDE << level
            if not _patch(smooth[ref], inside, x, y, stride, values, weights):
                continue
            w, wx, wy = planes[y, x, 0], planes[y, x, 1], planes[y, x, 2]
            best, one, other = _score(smooth, near, a, b, x, y, stride, w, wx, wy, values, weights)
            # Whoever sees the place best judges changes of its plane, and those who see that of
            # another pixel best judge it here; of no place, all do.
            known = best > _SEEN
            for k in range(18):
                if k < 12:
                    u, v = x + dx[k], y + dy[k]
                    if u < 0 or v < 0 or u >= width or v >= height or scores[v, u] <= -1:
                        continue
                    tx, ty = planes[v, u, 1], planes[v, u, 2]
                    tw = planes[v, u, 0] - dx[k] * tx - dy[k] * ty
                    this, that = pairs[v, u] // len(near), pairs[v, u] % len(near)
                else:
                    seed = (y * width + x) * 64 + turn
                    size = spread / (1 << ((k - 12) % 3))
                    tw = w + size * _random(seed, 3 * k)
                    tx = wx + _HALF * size * _random(seed, 3 * k + 1) / SIDE
                    ty = wy + _HALF * size * _random(seed, 3 * k + 2) / SIDE
                    if k >= 15:
                        tw = w
                    this, that = one, other
                if not (back[y, x] <= tw <= front[y, x] + before):
                    continue
                if focal * np.sqrt(tx * tx + ty * ty) > _STEEP * tw:
                    continue
                if known:
                    found = _of_both(
                        smooth, near, a, b, x, y, stride, tw, tx, ty, values, weights, this, that,
                        best,
                    )  # fmt: skip
                else:
                    found, this, that = _score(
                        smooth, near, a, b, x, y, stride, tw, tx, ty, values, weights
                    )  # fmt: skip
                if found > best:
                    best, w, wx, wy, one, other = found, tw, tx, ty, this, that
            scores[y, x], pairs[y, x] = best, len(near) * one + other
            planes[y, x, 0], planes[y, x, 1], planes[y, x, 2] = w, wx, wy


@kernel(**_OPTIONS)
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


@kernel(**_OPTIONS)
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


@kernel(**_OPTIONS)
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


@kernel(**_OPTIONS)
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
