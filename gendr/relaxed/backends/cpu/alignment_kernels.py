"""The compiled kernels of alignments, forward and backward: edit distances and time warping.

A pair of sequences is worked on diagonal by diagonal. Diagonal k holds d(i, k - i) at place i, so
that the three cells that a cell is made from are at i - 1 and i of diagonal k - 1 and at i - 1 of
diagonal k - 2: all cells of a diagonal are computed at once, in vectors. The forward pass keeps
the derivatives of every cell, so that the backward pass is linear and knows no law. The three of a
cell add up to 1, since a minimum moves with its candidates, so two of them are kept.

A unit of work is a pair, so that any number of threads gives the same bits.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from gendr.kernels.numba.calls import pointer, shifted
from gendr.kernels.numba.calls import row as row_of
from gendr.kernels.numba.compilation import announce_compilation, ensure_cache, inner, kernel
from gendr.kernels.numba.mathematics import exp, log1p
from gendr.kernels.numba.vectors import LANES, wide
from gendr.relaxed.backends.cpu.minimum import (
    OPTIONS,
    Decision,
    candidates,
    pull,
    smallest,
    weigh,
)
from gendr.relaxed.backends.cpu.vectors import align

ensure_cache()
announce_compilation(__name__)


@register_jitable
def _inside(k, n, m):
    """The first place of diagonal k that is no border, and their number."""
    first = max(1, k - m)
    return first, max(0, min(n, k - 1) - first + 1)


@register_jitable
def _by_law(
    above, left, corner, local, count, row, column, on_corner, after, law, log_sum_exp, target,
    slopes, ways,
):  # fmt: skip
    """As `align`, for any law and minimum; without derivatives if slopes are empty."""
    first, second, third = ways.x[0], ways.x[1], ways.x[2]
    for i in range(count):
        first[i] = above[i] + row
        second[i] = left[i] + column
        third[i] = corner[i] + on_corner * local[i]
    weigh(ways, count, law)
    smallest(ways, count, law.beta, log_sum_exp)
    for i in range(count):
        target[i] = ways.value[i] + after * local[i]
    if slopes.shape[1] == 0:
        return
    ways.by_value[:count] = 1.0
    pull(ways, count, law, log_sum_exp, False)
    slopes[:, :count] = ways.by_x[:2, :count]


@inner(**OPTIONS)
def _log_sum_exp(
    above, left, corner, local, count, row, column, on_corner, after, beta, target, by_above,
    by_left, is_saved,
):  # fmt: skip
    """As `align`, for the minimum -log(sum exp(-beta x)) / beta; derivatives if saved."""
    wide()
    inverse = 1.0 / beta
    for i in range(count):
        a, b, c = above[i] + row, left[i] + column, corner[i] + on_corner * local[i]
        low = min(a, min(b, c))
        p, q, r = exp((low - a) * beta), exp((low - b) * beta), exp((low - c) * beta)
        total = p + q + r  # one of them is 1
        target[i] = low - log1p(total - 1.0) * inverse + after * local[i]
        if is_saved:
            by_above[i], by_left[i] = p / total, q / total


@kernel(**OPTIONS)
def forward(matrix, skips, lengths, law, warping, log_sum_exp, out, saved, start, stop):
    """Fill in out [B] for the pairs start .. stop - 1; law is a `Decision`.

    saved [B, 2, n m + LANES] gets the derivatives of every cell by those above and to the left of
    it, diagonal after diagonal, unless it is empty.
    """
    n, m = matrix.shape[1:]
    is_saved, size = saved.shape[2] > 0, n + 2 + LANES
    unsaved = np.empty((2, size))
    diagonals, local = np.zeros((3, size)), np.zeros(size)
    law, ways = Decision(*law), candidates(3, size)
    row, column = (0.0, 0.0) if warping else (skips[0], skips[1])
    on_corner, after = (0.0, 1.0) if warping else (1.0, 0.0)
    is_fast = law.tails == 0 and not log_sum_exp
    for b in range(start, stop):
        rows, columns = lengths[b, 0], lengths[b, 1]
        at = 0
        for k in range(rows + columns + 1):
            current = row_of(diagonals, k % 3)
            before, across = row_of(diagonals, (k + 2) % 3), row_of(diagonals, (k + 1) % 3)
            first, count = _inside(k, rows, columns)
            if count > 0:
                source = shifted(row_of(matrix, b), (first - 1) * m + k - first - 1)
                for i in range(count):
                    local[i] = source[i * (m - 1)]
                above, left = shifted(before, first - 1), shifted(before, first)
                corner, target = shifted(across, first - 1), shifted(current, first)
                slopes = saved[b, :, at:] if is_saved else unsaved
                if is_fast:
                    stride = saved.shape[2] if is_saved else size
                    for i in range(0, count, LANES):
                        align(
                            i, above, left, corner, local, row, column, on_corner, after, law.beta,
                            target, slopes, stride,
                        )  # fmt: skip
                elif law.tails == 0:
                    _log_sum_exp(
                        above, left, corner, local, count, row, column, on_corner, after, law.beta,
                        target, pointer(slopes[0]), pointer(slopes[1]), is_saved,
                    )  # fmt: skip
                else:
                    _by_law(
                        above, left, corner, local, count, row, column, on_corner, after, law,
                        log_sum_exp, target, slopes if is_saved else unsaved[:, :0], ways,
                    )  # fmt: skip
                at += count
            # The borders come last, since vectors are written beyond the last cell.
            if k <= columns:
                current[0] = math.inf if warping and k > 0 else k * column
            if k <= rows:
                current[k] = math.inf if warping and k > 0 else k * row
        out[b] = diagonals[(rows + columns) % 3, rows]


@kernel(**OPTIONS)
def backward(
    matrix, skips, lengths, beta, warping, value, saved, grad, by_matrix, by_skips, by_beta, start,
    stop,
):  # fmt: skip
    """Fill in the gradients of the pairs start .. stop - 1; by_skips [B, 2] and by_beta [B].

    value [B] is the result of `forward`.
    """
    n, m = matrix.shape[1:]
    stride = saved.shape[2]
    g = np.empty((3, n + 2))
    for b in range(start, stop):
        by_matrix[b] = 0.0
        by_skips[b] = 0.0
        rows, columns = lengths[b, 0], lengths[b, 1]
        at, by_row, by_column, total = rows * columns, 0.0, 0.0, 0.0
        g[:] = 0.0
        g[(rows + columns) % 3, rows] = grad[b]
        for k in range(rows + columns, 0, -1):
            current = row_of(g, k % 3)
            before, across = row_of(g, (k + 2) % 3), row_of(g, (k + 1) % 3)
            first, count = _inside(k, rows, columns)
            if count > 0:
                at -= count
                by_above = shifted(row_of(saved, b), at)
                by_left = shifted(by_above, stride)
                above, left = shifted(before, first - 1), shifted(before, first)
                given, corner = shifted(current, first), shifted(across, first - 1)
                for i in range(count):
                    above[i] += given[i] * by_above[i]
                for i in range(count):
                    left[i] += given[i] * by_left[i]
                for i in range(count):
                    corner[i] += given[i] * (1.0 - by_above[i] - by_left[i])
                place = (first - 1) * m + k - first - 1
                own, price = shifted(row_of(by_matrix, b), place), shifted(row_of(matrix, b), place)
                for i in range(count):
                    part = given[i]
                    if not warping:
                        part *= 1.0 - by_above[i] - by_left[i]
                        by_row += given[i] * by_above[i]
                        by_column += given[i] * by_left[i]
                    own[i * (m - 1)] = part
                    total += part * price[i * (m - 1)]
            if not warping:
                if k <= columns:
                    by_column += k * current[0]
                if k <= rows:
                    by_row += k * current[k]
            for i in range(n + 2):
                current[i] = 0.0
        by_skips[b, 0], by_skips[b, 1] = by_row, by_column
        # The distance is doubled where prices are, and beta is halved (Euler).
        total += by_row * skips[0] + by_column * skips[1]
        by_beta[b] = (total - grad[b] * value[b]) / beta
