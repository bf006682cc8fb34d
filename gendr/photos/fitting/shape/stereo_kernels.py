"""The compiled kernels around stereo inside the hull: patterns before, and space after it."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import numpy as np

from gendr.kernels.numba.compilation import inner, kernel


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
