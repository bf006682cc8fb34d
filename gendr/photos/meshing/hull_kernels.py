"""The compiled kernels of visual hulls: how far pixels and points are inside of masks."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false

from __future__ import annotations

import math

import numpy as np

from gendr.kernels.numba.compilation import kernel


@kernel()
def least_distances(points, cameras, orthographic, images, unit, least, start, stop):
    """The least distance of each point over the views, world units; those behind do not count.

    Args:
        points: float64 [P, 3].
        cameras: float64 [B, 16], the rotation row by row, translation, focal lengths, and the
            principal point, in NDC.
        orthographic: of the cameras.
        images: float32 [B, H + 2, W + 2], distances in pixels, with a border.
        unit: NDC units of a pixel.
        least: float32 [P], is written.
        start: of the points.
        stop: of the points.
    """
    views, rows, columns = images.shape
    for p in range(start, stop):
        x, y, z = points[p, 0], points[p, 1], points[p, 2]
        nearest = np.float32(math.inf)
        for b in range(views):
            c = cameras[b]
            depth = c[6] * x + c[7] * y + c[8] * z + c[11]
            if not depth > 0.0:
                continue
            w = 1.0 if orthographic else depth
            u = c[12] * (c[0] * x + c[1] * y + c[2] * z + c[9]) / w + c[14]
            v = c[13] * (c[3] * x + c[4] * y + c[5] * z + c[10]) / w + c[15]
            # In pixels of the image; beyond the border as there.
            i = min(max((rows - 1.0) / 2 - v / unit, 0.0), rows - 1.0)
            j = min(max((columns - 1.0) / 2 + u / unit, 0.0), columns - 1.0)
            top, left = min(int(i), rows - 2), min(int(j), columns - 2)
            i, j = i - top, j - left
            above = (1.0 - j) * images[b, top, left] + j * images[b, top, left + 1]
            below = (1.0 - j) * images[b, top + 1, left] + j * images[b, top + 1, left + 1]
            pixels = (1.0 - i) * above + i * below
            nearest = min(nearest, np.float32(pixels * unit * w * 2.0 / (c[12] + c[13])))
        least[p] = nearest


@kernel()
def fill_holes(inside, least):
    """Fill the holes of a mask, bool [H, W], that have fewer than so many pixels, by their sides.

    SciPy's `label` would do; the import of its ndimage takes longer than a whole hull.
    """
    height, width = inside.shape
    known, stack = inside.copy(), np.empty(inside.size, np.int64)
    for first in range(inside.size):
        if known[first // width, first % width]:
            continue
        known[first // width, first % width] = True
        stack[0], at, end = first, 0, 1
        while at < end:
            i, j = stack[at] // width, stack[at] % width
            at += 1
            for y, x in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
                if 0 <= y < height and 0 <= x < width and not known[y, x]:
                    known[y, x] = True
                    stack[end] = y * width + x
                    end += 1
        for k in range(end if end < least else 0):
            inside[stack[k] // width, stack[k] % width] = True


@kernel()
def signed_distances(inside, far, out):
    """How far the pixels of a mask, bool [H, W], are from the nearest one on the other side.

    Those inside are positive, and those of a mask without another side `far`; `out` float64 [H, W].

    Source: Felzenszwalb and Huttenlocher, Distance Transforms of Sampled Functions, 2012.
    """
    height, width = inside.shape
    square = np.empty((height, width))  # of the distance within the column
    beyond = float(height + width) ** 2
    lowest, begin = np.empty(width, np.int64), np.empty(width + 1)
    for side in (True, False):
        for j in range(width):
            for i in range(height):
                gap = math.sqrt(square[i - 1, j]) + 1.0 if i else float(height + width)
                square[i, j] = gap * gap if inside[i, j] == side else 0.0
            for i in range(height - 2, -1, -1):
                gap = math.sqrt(square[i + 1, j]) + 1.0
                square[i, j] = min(square[i, j], gap * gap)
        for i in range(height):
            # The parabolas over columns that are somewhere the lowest, and from where on.
            row, count = square[i], 0
            for j in range(width):
                x = -math.inf
                while count:
                    n = lowest[count - 1]
                    x = (row[j] - row[n] + j * j - n * n) / (2.0 * (j - n))
                    if x > begin[count - 1]:
                        break
                    count, x = count - 1, -math.inf
                lowest[count], begin[count] = j, x
                count += 1
            begin[count] = math.inf
            k = 0
            for j in range(width):
                while begin[k + 1] < j:
                    k += 1
                if inside[i, j] == side:
                    n = lowest[k]
                    best = row[n] + (j - n) * (j - n)
                    distance = math.sqrt(best) if best < beyond else far
                    out[i, j] = distance if side else -distance
