"""The compiled kernels of mirrors: where photos show what points would mirror."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false

from __future__ import annotations

import numpy as np

from gendr.kernels.numba.compilation import kernel

# What becomes of a point behind a plane: it is not behind it, no photo shows its place before it,
# photos look through that place, or the surface is there.
APART, HIDDEN, EMPTY, THERE = 0, 1, 2, 3
# Samples along a side of a patch, of every pixel, and the least deviation of grey values.
_SIDE, _CONTRAST = 7, 1.5


@kernel()
def partners(
    normals, heights, points, photos, near, K, R, t, centres, depths, offsets, widths, tall, margin,
    relative, found, shown, start, stop,
):  # fmt: skip
    """What photos show where planes start .. stop - 1 would mirror points to.

    Args:
        normals: float64 [C, 3], unit, of the planes.
        heights: float64 [C], normal . x of their points x.
        points: float64 [P, 3].
        photos: int64 [P], the one that shows each.
        near: int64 [N, K], photos that are asked, of each photo; -1 for none.
        K: float64 [N, 3, 3].
        R: float64 [N, 3, 3].
        t: float64 [N, 3].
        centres: float64 [N, 3].
        depths: float32 [sum of pixels], inverse, 0 where there is none.
        offsets: int64 [N].
        widths: int64 [N].
        tall: int64 [N], the heights of the photos.
        margin: how far behind a plane a point must be, of its distance from the camera.
        relative: by which depths may differ.
        found: uint8 [C, P], is written: see above.
        shown: int32 [C, P], is written: the photo that shows the surface there, if any.
        start: plane.
        stop: plane behind the last.
    """
    for c in range(start, stop):
        nx, ny, nz = normals[c, 0], normals[c, 1], normals[c, 2]
        for p in range(len(points)):
            i = photos[p]
            x, y, z = points[p, 0], points[p, 1], points[p, 2]
            ex, ey, ez = centres[i, 0], centres[i, 1], centres[i, 2]
            above = nx * ex + ny * ey + nz * ez - heights[c]
            below = heights[c] - (nx * x + ny * y + nz * z)
            far = np.sqrt((x - ex) ** 2 + (y - ey) ** 2 + (z - ez) ** 2)
            found[c, p], shown[c, p] = APART, -1
            if not (above > 0 and below > margin * far):
                continue
            found[c, p] = HIDDEN
            x, y, z = x + 2 * below * nx, y + 2 * below * ny, z + 2 * below * nz
            best = relative
            for k in range(near.shape[1]):
                j = near[i, k]
                if j < 0:
                    break
                w = R[j, 2, 0] * x + R[j, 2, 1] * y + R[j, 2, 2] * z + t[j, 2]
                if w <= 0:
                    continue
                u = (R[j, 0, 0] * x + R[j, 0, 1] * y + R[j, 0, 2] * z + t[j, 0]) / w
                v = (R[j, 1, 0] * x + R[j, 1, 1] * y + R[j, 1, 2] * z + t[j, 1]) / w
                u, v = K[j, 0, 0] * u + K[j, 0, 2], K[j, 1, 1] * v + K[j, 1, 2]
                if not (u > -0.5 and v > -0.5 and u < widths[j] - 0.5 and v < tall[j] - 0.5):
                    continue
                there = depths[offsets[j] + int(v + 0.5) * widths[j] + int(u + 0.5)]
                if there <= 0:
                    continue
                off = there * w - 1
                if abs(off) < best:
                    best = abs(off)
                    found[c, p], shown[c, p] = THERE, j
                elif off < -2 * relative and found[c, p] != THERE:
                    found[c, p] = EMPTY


@kernel()
def correlate(
    normal, height, points, facing, photos, others, K, R, t, centres, greys, offsets, widths, tall,
    found, start, stop,
):  # fmt: skip
    """How photos correlate with others in what a plane mirrors: of points start .. stop - 1.

    Args:
        normal: float64 [3], unit, of the plane.
        height: float64 [1].
        points: float64 [P, 3], behind the plane.
        facing: float64 [P, 3], their normals.
        photos: int64 [P], that show them.
        others: int64 [P], that show what they mirror.
        K: float64 [N, 3, 3].
        R: float64 [N, 3, 3].
        t: float64 [N, 3].
        centres: float64 [N, 3].
        greys: uint8 [sum of pixels].
        offsets: int64 [N].
        widths: int64 [N].
        tall: int64 [N], the heights of the photos.
        found: float64 [P], is written: -1 to 1, or NaN where there is no contrast, or no pixels.
        start: point.
        stop: point behind the last.
    """
    half, count = _SIDE // 2, _SIDE * _SIDE
    for p in range(start, stop):
        i, j = photos[p], others[p]
        found[p] = np.nan
        x, y, z = points[p, 0], points[p, 1], points[p, 2]
        w = R[i, 2, 0] * x + R[i, 2, 1] * y + R[i, 2, 2] * z + t[i, 2]
        u = (R[i, 0, 0] * x + R[i, 0, 1] * y + R[i, 0, 2] * z + t[i, 0]) / w
        v = (R[i, 1, 0] * x + R[i, 1, 1] * y + R[i, 1, 2] * z + t[i, 1]) / w
        x0 = int(np.floor(K[i, 0, 0] * u + K[i, 0, 2] + 0.5))
        y0 = int(np.floor(K[i, 1, 1] * v + K[i, 1, 2] + 0.5))
        if x0 < half or y0 < half or x0 >= widths[i] - half or y0 >= tall[i] - half:
            continue
        away = (
            facing[p, 0] * (x - centres[i, 0]) + facing[p, 1] * (y - centres[i, 1])
            + facing[p, 2] * (z - centres[i, 2])
        )  # fmt: skip
        sa, sb, saa, sbb, sab, good = 0.0, 0.0, 0.0, 0.0, 0.0, True
        for dy in range(-half, half + 1):
            for dx in range(-half, half + 1):
                rx = (x0 + dx - K[i, 0, 2]) / K[i, 0, 0]
                ry = (y0 + dy - K[i, 1, 2]) / K[i, 1, 1]
                lx = R[i, 0, 0] * rx + R[i, 1, 0] * ry + R[i, 2, 0]
                ly = R[i, 0, 1] * rx + R[i, 1, 1] * ry + R[i, 2, 1]
                lz = R[i, 0, 2] * rx + R[i, 1, 2] * ry + R[i, 2, 2]
                steep = facing[p, 0] * lx + facing[p, 1] * ly + facing[p, 2] * lz
                far = away / steep if steep * away > 0 else 0.0
                x, y, z = (
                    centres[i, 0] + far * lx,
                    centres[i, 1] + far * ly,
                    centres[i, 2] + far * lz,
                )
                below = height[0] - (normal[0] * x + normal[1] * y + normal[2] * z)
                x, y, z = (
                    x + 2 * below * normal[0],
                    y + 2 * below * normal[1],
                    z + 2 * below * normal[2],
                )
                w = R[j, 2, 0] * x + R[j, 2, 1] * y + R[j, 2, 2] * z + t[j, 2]
                if far <= 0 or w <= 0:
                    good = False
                    break
                u = (R[j, 0, 0] * x + R[j, 0, 1] * y + R[j, 0, 2] * z + t[j, 0]) / w
                v = (R[j, 1, 0] * x + R[j, 1, 1] * y + R[j, 1, 2] * z + t[j, 1]) / w
                u, v = K[j, 0, 0] * u + K[j, 0, 2], K[j, 1, 1] * v + K[j, 1, 2]
                if not (u >= 0 and v >= 0 and u < widths[j] - 1 and v < tall[j] - 1):
                    good = False
                    break
                iu, iv = int(u), int(v)
                fu, fv = u - iu, v - iv
                n = offsets[j] + iv * widths[j] + iu
                b = (1 - fv) * ((1 - fu) * greys[n] + fu * greys[n + 1])
                n += widths[j]
                b += fv * ((1 - fu) * greys[n] + fu * greys[n + 1])
                a = np.float64(greys[offsets[i] + (y0 + dy) * widths[i] + x0 + dx])
                sa, sb, saa, sbb, sab = sa + a, sb + b, saa + a * a, sbb + b * b, sab + a * b
            if not good:
                break
        if not good:
            continue
        aa, bb = saa / count - (sa / count) ** 2, sbb / count - (sb / count) ** 2
        if min(aa, bb) > _CONTRAST * _CONTRAST:
            found[p] = (sab / count - sa * sb / count**2) / np.sqrt(aa * bb)
