"""The compiled kernel of fusion: points on which the depth maps of several photos agree."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false

from __future__ import annotations

import numpy as np

from gendr.kernels.numba.compilation import kernel
from gendr.photos.stereo.kernels import moved

F = np.float32


@kernel()
def agree(
    i, near, a, b, back_a, back_b, inverse, R, t, depths, offsets, widths, heights, assumed,
    doubtful, taken, pixels, relative, least, positions, views, start, stop,
):  # fmt: skip
    """Points of rows start .. stop - 1 of a photo on which others agree, and no photo before has.

    Of the photo itself a point takes its own pixel only, so that rows do not depend on each other.

    Args:
        i: the photo.
        near: int64 [K], its neighbours.
        a: float64 [K, 3, 3], to the neighbours.
        b: float64 [K, 3].
        back_a: float64 [K, 3, 3], from the neighbours.
        back_b: float64 [K, 3].
        inverse: float64 [N, 3, 3], of the matrices of all lenses.
        R: float64 [N, 3, 3].
        t: float64 [N, 3].
        depths: float32 [sum of pixels], inverse depths of all photos, 0 where there is none.
        offsets: int64 [N], where each photo begins.
        widths: int64 [N].
        heights: int64 [N].
        assumed: uint8 [sum of pixels], not 0 for depths by which no other photo needs to agree if
            none has the point in its frame.
        doubtful: bool [sum of pixels], depths by which one more photo needs to agree than `least`,
            whoever has the point in their frames.
        taken: bool [sum of pixels], is changed: what has become part of a point.
        pixels: by which planes may come back elsewhere.
        relative: by which depths may differ.
        least: photos that agree, of as many as have the point in their frames, if more than two do.
        positions: float32 [pixels of the photo, 3], is written.
        views: uint8 [pixels of the photo], is written: bit 0 where there is a point, and bit k + 1
            if neighbour k agrees.
        start: row.
        stop: row behind the last.

    Source: Schönberger et al. 2016, section 4.5.
    """
    width, begin = widths[i], offsets[i]
    hits = np.empty((len(near) + 1, 3), np.int64)
    for y in range(start, stop):
        for x in range(width):
            n = y * width + x
            views[n] = 0
            w = np.float64(depths[begin + n])
            if w <= 0 or taken[begin + n]:
                continue
            found, inside, agreed = 0, 0, 1
            hits[0, 0], hits[0, 1], hits[0, 2] = i, y, x
            for k in range(len(near)):
                j = near[k]
                u, v, z = moved(a[k], b[k], x, y, w)
                if z <= 0:
                    continue
                if not (u > -0.5 and v > -0.5 and u < widths[j] - 0.5 and v < heights[j] - 0.5):
                    continue
                inside += 1
                iu, iv = int(u + 0.5), int(v + 0.5)
                other = np.float64(depths[offsets[j] + iv * widths[j] + iu])
                # The inverse depth of the point itself in the other photo is w / z.
                if other <= 0 or abs(other * z / w - 1) > relative:
                    continue
                du, dv, _ = moved(back_a[k], back_b[k], iu, iv, other)
                du, dv = du - x, dv - y
                # Its pixel is up to half of one of its own away.
                if not du * du + dv * dv <= pixels * pixels:
                    continue
                found += 1
                agreed |= 2 << k
                hits[found, 0], hits[found, 1], hits[found, 2] = j, iv, iu
            alone = 1 if assumed[begin + n] else 2
            needed = min(least, max(alone, inside + 1))
            if found + 1 < (least + 1 if doubtful[begin + n] else needed):
                continue
            p0, p1, p2 = 0.0, 0.0, 0.0
            for k in range(found + 1):
                j, v, u = hits[k, 0], hits[k, 1], hits[k, 2]
                place = offsets[j] + v * widths[j] + u
                taken[place] = True
                d = 1 / np.float64(depths[place])
                q0 = (inverse[j, 0, 0] * u + inverse[j, 0, 1] * v + inverse[j, 0, 2]) * d - t[j, 0]
                q1 = (inverse[j, 1, 1] * v + inverse[j, 1, 2]) * d - t[j, 1]
                q2 = d - t[j, 2]
                p0 += R[j, 0, 0] * q0 + R[j, 1, 0] * q1 + R[j, 2, 0] * q2
                p1 += R[j, 0, 1] * q0 + R[j, 1, 1] * q1 + R[j, 2, 1] * q2
                p2 += R[j, 0, 2] * q0 + R[j, 1, 2] * q1 + R[j, 2, 2] * q2
            share = 1.0 / (found + 1)
            positions[n, 0], positions[n, 1], positions[n, 2] = p0 * share, p1 * share, p2 * share
            views[n] = agreed
