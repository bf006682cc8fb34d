"""The compiled kernel of charts: regions that a parallel projection shows once."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import numpy as np

from gendr.kernels.numba.compilation import inner, kernel

# Faces after which the direction of a chart is known.
_ENOUGH = 4096


@inner()
def _claim(flat, low, chart, taken):
    """Whether no cell centre in a triangle [3, 2] is of the chart already; if so, it takes them."""
    x0, y0 = flat[0, 0] - low[0], flat[0, 1] - low[1]
    x1, y1 = flat[1, 0] - low[0], flat[1, 1] - low[1]
    x2, y2 = flat[2, 0] - low[0], flat[2, 1] - low[1]
    area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
    if area <= 0:
        return area > -1e-9
    first, last = int(np.ceil(min(y0, y1, y2))), int(np.floor(max(y0, y1, y2)))
    left, right = int(np.ceil(min(x0, x1, x2))), int(np.floor(max(x0, x1, x2)))
    for take in range(2):
        for row in range(first, last + 1):
            for column in range(left, right + 1):
                a = (x1 - column) * (y2 - row) - (x2 - column) * (y1 - row)
                b = (x2 - column) * (y0 - row) - (x0 - column) * (y2 - row)
                c = (x0 - column) * (y1 - row) - (x1 - column) * (y0 - row)
                # Centres on an edge, which is shared, belong to both sides.
                if a > 0 and b > 0 and c > 0:
                    if take == 1:
                        taken[row, column] = chart
                    elif taken[row, column] == chart:
                        return False
    return True


@kernel()
def grow(points, faces, neighbours, normals, order, least, charts, flat, taken, queue):
    """Fill in the chart [F] of each face and its corners there, [F, 3, 2]; returns how many.

    points: [V, 3], in cells. neighbours: int [F, 3], -1 for none. normals: [F, 3], unit vectors.
    order: the faces from which charts start. least: cosine to the direction of a chart. charts: int
    [F], all -1. taken: int32, cells of any projection, all -1. queue: int [3 F + 1].
    """
    count = 0
    low = np.array([-taken.shape[1] / 2, -taken.shape[0] / 2])
    for seed in order:
        if charts[seed] >= 0:
            continue
        ahead = normals[seed].copy()
        number = 0
        for turn in range(2):  # first to find the mean direction, then along it
            axis = 0
            for k in range(1, 3):
                if abs(ahead[k]) < abs(ahead[axis]):
                    axis = k
            across = -ahead[axis] * ahead
            across[axis] += 1
            across /= np.sqrt((across * across).sum())
            upward = np.cross(ahead, across)
            # A chart that is being tried has a number below -1, of its own.
            trial = -2 - (2 * count + turn)
            mean = np.zeros(3)
            number, at, end = 0, 0, 1
            queue[0], charts[seed] = seed, trial
            while at < end and (turn == 1 or number < _ENOUGH):
                f = queue[at]
                at += 1
                for k in range(3):
                    p = points[faces[f, k]]
                    flat[f, k, 0] = (p * across).sum()
                    flat[f, k, 1] = (p * upward).sum()
                good = (normals[f] * ahead).sum() >= least and _claim(flat[f], low, trial, taken)
                if not good and f != seed:
                    charts[f] = -1
                    continue
                queue[number] = f
                number += 1
                mean += normals[f]
                for k in range(3):
                    g = neighbours[f, k]
                    if g >= 0 and charts[g] < 0 and charts[g] != trial:
                        charts[g] = trial
                        queue[end] = g
                        end += 1
            mean /= np.sqrt((mean * mean).sum()) + 1e-30
            if turn == 0 and (mean * normals[seed]).sum() >= least:
                ahead = mean
        for k in range(number):
            charts[queue[k]] = count
        count += 1
    return count


@kernel()
def outline(flat, rows, bottom, top):
    """Fill in the lowest and the highest cell of each column of a chart: its faces are `rows`."""
    for f in rows:
        for k in range(3):
            x0, y0 = flat[f, k, 0], flat[f, k, 1]
            x1, y1 = flat[f, (k + 1) % 3, 0], flat[f, (k + 1) % 3, 1]
            if x1 < x0:
                x0, y0, x1, y1 = x1, y1, x0, y0
            for column in range(int(np.floor(x0)), int(np.floor(x1)) + 1):
                a, b = max(x0, float(column)), min(x1, column + 1.0)
                slope = (y1 - y0) / (x1 - x0) if x1 > x0 else 0.0
                ya, yb = y0 + (a - x0) * slope, y0 + (b - x0) * slope
                if x1 == x0:
                    ya, yb = y0, y1
                bottom[column] = min(bottom[column], int(np.floor(min(ya, yb))))
                top[column] = max(top[column], int(np.floor(max(ya, yb))))


@kernel()
def place(horizon, bottom, top, pad):
    """Where a chart, not wider, comes to lie lowest on a horizon [W], which rises: column, row."""
    width = len(bottom)
    best, column = 1 << 60, -1
    for x in range(pad, len(horizon) - width - pad + 1):
        row = 0
        for j in range(width):
            row = max(row, horizon[x + j] - bottom[j])
            if row >= best:
                break
        if row < best:
            best, column = row, x
    for j in range(-pad, width + pad):
        if 0 <= column + j < len(horizon):
            for k in range(max(j - pad, 0), min(j + pad, width - 1) + 1):
                horizon[column + j] = max(horizon[column + j], best + top[k] + 1 + pad)
    return column, best
