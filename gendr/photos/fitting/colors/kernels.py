"""The compiled kernels of colours: what photos show of points, and mixtures of their colours."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from gendr.kernels.numba.compilation import kernel

# No reordering of sums, which would change from compiler to compiler.
_FAST: Any = {"fastmath": {"contract", "nsz"}}

_ONE = np.float32(1.0)


@kernel(**_FAST)
def see(
    points, normals, matrix, eye, ahead, unit, least, nearest, counts, image, white, colors,
    weights, start, stop,
):  # fmt: skip
    """Fill in colours [K, 3] and weights [K] of points start .. stop - 1 in a photo; 0: not seen.

    points, normals: float32 [K, 3]. matrix: float32 [4, 4], from the world to X, Y, W and depth.
    eye, ahead: float32 [3]; of `ahead` all is 0 for perspective cameras. unit: of a pixel at depth
    1. least: the cosine. nearest: [H, W], depths. counts: uint8 [H, W], how much a
    pixel counts. image: [3, H, W], float32 or uint8. white: float32, what is 1 in it.
    """
    height, width = counts.shape
    side = np.float32(min(height, width))
    flat = ahead[0] != 0 or ahead[1] != 0 or ahead[2] != 0
    half = np.float32(0.5)
    for k in range(start, stop):
        weights[k] = 0
        px, py, pz = points[k, 0], points[k, 1], points[k, 2]
        nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
        if flat:
            cosine = -(nx * ahead[0] + ny * ahead[1] + nz * ahead[2])
        else:
            dx, dy, dz = eye[0] - px, eye[1] - py, eye[2] - pz
            cosine = (nx * dx + ny * dy + nz * dz) / np.sqrt(dx * dx + dy * dy + dz * dz)
        if not cosine > least:
            continue
        cosine = min(cosine, _ONE)
        depth = matrix[3, 0] * px + matrix[3, 1] * py + matrix[3, 2] * pz + matrix[3, 3]
        if not depth > 0:
            continue
        w = matrix[2, 0] * px + matrix[2, 1] * py + matrix[2, 2] * pz + matrix[2, 3]
        x = (matrix[0, 0] * px + matrix[0, 1] * py + matrix[0, 2] * pz + matrix[0, 3]) / w
        y = (matrix[1, 0] * px + matrix[1, 1] * py + matrix[1, 2] * pz + matrix[1, 3]) / w
        x, y = (x * side + width) * half, (height - y * side) * half
        if not (x >= 0 and y >= 0 and x < width and y < height):
            continue
        column, row = int(x), int(y)
        count = counts[row, column]
        if count == 0:
            continue
        step = unit if flat else unit * depth
        # The nearest depth was taken up to 1.5 subpixels away, where the surface itself is nearer.
        slope = np.float32(1.5) * np.sqrt(_ONE - cosine * cosine) / cosine
        if depth > nearest[row, column] + step * (_ONE + slope):
            continue
        x, y = x - half, y - half
        column, row = int(np.floor(x)), int(np.floor(y))
        s, t = np.float32(x - column), np.float32(y - row)
        left, right = max(column, 0), min(column + 1, width - 1)
        top, down = max(row, 0), min(row + 1, height - 1)
        for c in range(3):
            a, b = np.float32(image[c, top, left]), np.float32(image[c, top, right])
            d, e = np.float32(image[c, down, left]), np.float32(image[c, down, right])
            a, b, d, e = a / white, b / white, d / white, e / white
            above, below = a + s * (b - a), d + s * (e - d)
            colors[k, c] = above + t * (below - above)
        weights[k] = np.float32(count) * (cosine * cosine / (step * step))


@kernel(**_FAST)
def gather(colors, weights, shade, mean, off, summed, total, start, stop):
    """Add colours of points over their shade to weighted sums [K, 3], [K, 3].

    With off > 0 what is far from the mean by it counts less; with 0 there is no mean yet, and the
    photos count nearly alike, lest one that shows something else, but from nearby, is the mean.

    shade: [K, 3] or [1, 3], the factors of the photo over the colours of points.
    """
    each = len(shade) > 1
    for k in range(start, stop):
        weight = weights[k]
        if weight == 0:
            continue
        j = k if each else 0
        if off > 0:
            square = np.float32(0.0)
            for c in range(3):
                d = colors[k, c] - mean[k, c] * shade[j, c]
                square += d * d
            trust = _ONE / (_ONE + square / (3 * off * off))
            weight *= trust * trust
        else:
            weight = np.sqrt(np.sqrt(weight))
        for c in range(3):
            summed[k, c] += weight * shade[j, c] * colors[k, c]
            total[k, c] += weight * shade[j, c] * shade[j, c]


@kernel(**_FAST)
def mix(columns, values, colors, out, start, stop):
    """Fill in mixtures [P, C] of colours [K, C]: columns and values are [P, M]."""
    for p in range(start, stop):
        for c in range(colors.shape[1]):
            out[p, c] = 0
        for m in range(columns.shape[1]):
            k, value = columns[p, m], values[p, m]
            for c in range(colors.shape[1]):
                out[p, c] += value * colors[k, c]


@kernel(**_FAST)
def spread(columns, values, pixels, power, out, start, stop):
    """Add the transpose of `mix`, for channels start .. stop - 1; or of its squared values."""
    for p in range(len(columns)):
        for m in range(columns.shape[1]):
            value = values[p, m]
            if power == 2:
                value *= value
            for c in range(start, stop):
                out[columns[p, m], c] += value * pixels[p, c]


@kernel()
def details(pixels, shown, image, inner, steps, blurred, out):
    """Sums of squared differences of two images, blurred, from pixels to others beside them.

    Args:
        pixels: int64 [P], those of a photo that count, row by row.
        shown: float32 [P, 3], what a rendering has there.
        image: float32 [3, H, W], the photo.
        inner: uint8 [H, W], the pixels whose differences count; those beside them are `pixels`.
        steps: int64 [D, 2], rows and columns to the others.
        blurred: float32 [H, W, 6], zeros; is changed.
        out: float64 [D, 2], is written: of the rendering and of the photo.
    """
    height, width = inner.shape
    ninth = np.float32(1 / 9)
    for p in range(len(pixels)):
        y, x = pixels[p] // width, pixels[p] % width
        for v in range(max(y - 1, 0), min(y + 2, height)):
            for u in range(max(x - 1, 0), min(x + 2, width)):
                for c in range(3):
                    blurred[v, u, c] += ninth * shown[p, c]
                    blurred[v, u, 3 + c] += ninth * image[c, y, x]
    out[:] = 0.0
    for p in range(len(pixels)):
        y, x = pixels[p] // width, pixels[p] % width
        if not inner[y, x]:
            continue
        for d in range(len(steps)):
            v, u = y - steps[d, 0], x - steps[d, 1]
            for n in range(2):
                for c in range(3 * n, 3 * n + 3):
                    off = blurred[y, x, c] - blurred[v, u, c]
                    out[d, n] += off * off
