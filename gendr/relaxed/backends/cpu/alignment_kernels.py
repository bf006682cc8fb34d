"""The compiled kernels of alignments, forward and backward: edit distances and time warping.

A pair of sequences is worked on diagonal by diagonal. Diagonal k holds d(i, k - i) at place i, so
that the three cells that a cell is made from are at i - 1 and i of diagonal k - 1 and at i - 1 of
diagonal k - 2: all cells of a diagonal are computed at once, in vectors. The forward pass keeps
the derivatives of every cell, so that the backward pass is linear and knows no distribution. The
three of a cell add up to 1, since a minimum moves with its candidates, so two of them are kept.

A unit of work is a pair, so that any number of threads gives the same bits.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from gendr.kernels.numba.arrays import copy
from gendr.kernels.numba.calls import row as row_of
from gendr.kernels.numba.calls import shifted
from gendr.kernels.numba.compilation import kernel
from gendr.kernels.numba.mathematics import exp
from gendr.kernels.numba.vectors import LANES
from gendr.relaxed.backends.cpu.minimum import (
    Decision,
    candidates,
    minimum_backward,
    smallest,
    weigh,
)
from gendr.relaxed.backends.cpu.vectors import align, align_sums, align_sums_saved

_LN2, _LOG2_E = math.log(2), 1 / math.log(2)
_STEPS = 128  # in each of which a sum grows by a factor of 3 sqrt(2) at most


@register_jitable
def _inside(k, n, m):
    """The first place of diagonal k that is no border, and their number."""
    first = max(1, k - m)
    return first, max(0, min(n, k - 1) - first + 1)


@register_jitable
def _by_weights(
    above, left, corner, local, count, row, column, on_corner, after, decision, target, slopes, ways
):
    """As `align`, for any distribution; without derivatives if slopes are empty."""
    first, second, third = ways.x[0], ways.x[1], ways.x[2]
    for i in range(count):
        first[i] = above[i] + row
        second[i] = left[i] + column
        third[i] = corner[i] + on_corner * local[i]
    weigh(ways, count, decision)
    smallest(ways, count)
    for i in range(count):
        target[i] = ways.value[i] + after * local[i]
    if slopes.shape[1] == 0:
        return
    ways.by_value[:count] = 1.0
    minimum_backward(ways, count, decision, np.bool_(False))  # no constant: one compilation
    for k in range(2):
        copy(ways.by_x[k, :count], slopes[k])


@register_jitable
def _set_sum(target, place, length, x):
    """Set a sum to exp(x)."""
    power = math.floor(x * _LOG2_E + 0.5) if x > -math.inf else -math.inf
    target[place] = exp(x - power * _LN2) if x > -math.inf else 0.0
    target[place + length] = power


@register_jitable
def _rescale(sums, length):
    """Take powers of two out of sums, of which neither may overflow nor vanish."""
    for i in range(length):
        if sums[i] > 0.0:
            sums[i], power = math.frexp(sums[i])
            sums[i + length] += power


@kernel()
def forward(matrix, skips, lengths, decision, warping, log_sum_exp, out, saved, start, stop):
    """Fill in out [B] for the pairs start .. stop - 1; decision is a `Decision`.

    saved [B, 2, n m + LANES] gets the derivatives of every cell by those above and to the left of
    it, diagonal after diagonal, unless it is empty. For the minimum -log(sum exp(-beta x)) / beta,
    of a softmax, diagonals hold the sums, see `align_sums`.
    """
    n, m = matrix.shape[1:]
    is_saved, size = saved.shape[2] > 0, n + 2 + LANES
    unsaved = np.empty((2, size))
    diagonals, local = np.zeros((3, 2 * size)), np.zeros(size)
    decision, ways = Decision(*decision), candidates(3, size)
    row, column = (0.0, 0.0) if warping else (skips[0], skips[1])
    on_corner, after = (0.0, 1.0) if warping else (1.0, 0.0)
    prices = np.zeros((2, 2))
    _set_sum(prices[0], 0, 1, -decision.beta * row)
    _set_sum(prices[1], 0, 1, -decision.beta * column)
    rows_by = prices[0, 0], prices[0, 1]
    columns_by = prices[1, 0], prices[1, 1]
    stride = saved.shape[2] if is_saved else size
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
                if log_sum_exp and is_saved:
                    for i in range(0, count, LANES):
                        align_sums_saved(
                            i, above, left, corner, local, rows_by, columns_by, on_corner, after,
                            decision.beta, target, size, slopes, stride,
                        )  # fmt: skip
                elif log_sum_exp:
                    for i in range(0, count, LANES):
                        align_sums(
                            i, above, left, corner, local, rows_by, columns_by, on_corner, after,
                            decision.beta, target, size,
                        )  # fmt: skip
                elif decision.tails == 0:
                    for i in range(0, count, LANES):
                        align(
                            i, above, left, corner, local, row, column, on_corner, after,
                            decision.beta, target, slopes, stride,
                        )  # fmt: skip
                else:
                    _by_weights(
                        above, left, corner, local, count, row, column, on_corner, after, decision,
                        target, slopes if is_saved else unsaved[:, :0], ways,
                    )  # fmt: skip
                at += count
            # The borders come last, since vectors are written beyond the last cell.
            for place, end, price in ((0, columns, column), (k, rows, row)):
                if k <= end:
                    border = math.inf if warping and k > 0 else k * price
                    if log_sum_exp:
                        _set_sum(current, place, size, -decision.beta * border)
                    else:
                        current[place] = border
            if log_sum_exp and k % _STEPS == _STEPS - 1:
                _rescale(current, size)
                _rescale(before, size)
        last = row_of(diagonals, (rows + columns) % 3)
        if log_sum_exp:
            whole = math.log(last[rows]) + last[rows + size] * _LN2 if last[rows] > 0 else -math.inf
            out[b] = -whole / decision.beta
        else:
            out[b] = last[rows]


@kernel()
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
