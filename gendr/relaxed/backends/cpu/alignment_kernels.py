"""The compiled kernels of alignments, forward and backward: edit distances and time warping.

A pair of sequences is worked on diagonal by diagonal. Diagonal k holds d(i, k - i) at place i, so
that the three cells that a cell is made from are at i - 1 and i of diagonal k - 1 and at i - 1 of
diagonal k - 2: all cells of a diagonal are computed at once, in vectors. The backward pass reads
the diagonals that the forward pass has kept, and computes the weights again.

A unit of work is a pair, so that any number of threads gives the same bits.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numba.extending import register_jitable

from gendr._runtime.numba.compilation import announce_compilation, ensure_cache
from gendr.relaxed.backends.cpu.minimum import OPTIONS, pull, smallest, weigh

ensure_cache()
announce_compilation(__name__)


@register_jitable
def _inside(k, n, m):
    """The first place of diagonal k that is no border, and their number."""
    first = max(1, k - m)
    return first, max(0, min(n, k - 1) - first + 1)


@register_jitable
def _ways(diagonals, matrix, k, first, count, row, column, warping, x, local):
    """Fill in the three candidates x [3, count] of the cells of diagonal k, and their m."""
    for i in range(count):
        local[i] = matrix[first + i - 1, k - first - i - 1]
    before, across = diagonals[k - 1], diagonals[k - 2]
    above, left, corner = x[0], x[1], x[2]
    source, same, far = before[first - 1 :], before[first:], across[first - 1 :]
    weight = 0.0 if warping else 1.0
    for i in range(count):
        above[i] = source[i] + row
        left[i] = same[i] + column
        corner[i] = far[i] + weight * local[i]


@njit(**OPTIONS)
def forward(
    matrix, skips, lengths, beta, tails, shape, warping, log_sum_exp, out, saved, start, stop
):
    """Fill in out [B] for the pairs start .. stop - 1.

    saved [B, n + m + 1, n + 1] gets the diagonals; if it is empty, nothing is kept.
    """
    n, m = matrix.shape[1:]
    keep = len(saved) > 0
    own = np.empty((n + m + 1, n + 1))
    x, w, work, lanes = (
        np.empty((3, n + 1)), np.empty((3, n + 1)), np.empty((2, n + 1)), np.empty((5, n + 1))
    )  # fmt: skip
    low, total, value, z, local = lanes[0], lanes[1], lanes[2], lanes[3], lanes[4]
    row, column = (0.0, 0.0) if warping else (skips[0], skips[1])
    for b in range(start, stop):
        diagonals = saved[b] if keep else own
        rows, columns = lengths[b, 0], lengths[b, 1]
        for k in range(rows + columns + 1):
            current = diagonals[k]
            if k <= columns:
                current[0] = math.inf if warping and k > 0 else k * column
            if k <= rows:
                current[k] = math.inf if warping and k > 0 else k * row
            first, count = _inside(k, rows, columns)
            if count > 0:
                _ways(diagonals, matrix[b], k, first, count, row, column, warping, x, local)
                weigh(x, count, beta, tails, shape, w, low, total, z, work)
                smallest(x, count, beta, log_sum_exp, w, low, total, value)
                weight = 1.0 if warping else 0.0
                target = current[first:]
                for i in range(count):
                    target[i] = value[i] + weight * local[i]
        out[b] = diagonals[rows + columns, rows]


@njit(**OPTIONS)
def backward(
    matrix, skips, lengths, beta, tails, density, shape, warping, log_sum_exp, saved, grad,
    by_matrix, by_skips, by_beta, start, stop,
):  # fmt: skip
    """Fill in the gradients of the pairs start .. stop - 1; by_skips [B, 2] and by_beta [B]."""
    n = matrix.shape[1]
    x, w, work, gx = (
        np.empty((3, n + 1)), np.empty((3, n + 1)), np.empty((2, n + 1)), np.empty((3, n + 1))
    )  # fmt: skip
    lanes = np.empty((8, n + 1))
    low, total, value, z, local, q, moved, mean = (
        lanes[0], lanes[1], lanes[2], lanes[3], lanes[4], lanes[5], lanes[6], lanes[7]
    )  # fmt: skip
    g, beta_parts = np.empty((3, n + 2)), np.empty(n + 1)
    row, column = (0.0, 0.0) if warping else (skips[0], skips[1])
    for b in range(start, stop):
        by_matrix[b] = 0.0
        by_skips[b] = 0.0
        beta_parts[:] = 0.0
        diagonals, own = saved[b], by_matrix[b]
        rows, columns = lengths[b, 0], lengths[b, 1]
        g[:] = 0.0
        g[(rows + columns) % 3, rows] = grad[b]
        for k in range(rows + columns, 0, -1):
            current, before, across = g[k % 3], g[(k + 2) % 3], g[(k + 1) % 3]
            first, count = _inside(k, rows, columns)
            if count > 0:
                _ways(diagonals, matrix[b], k, first, count, row, column, warping, x, local)
                weigh(x, count, beta, tails, shape, w, low, total, z, work)
                smallest(x, count, beta, log_sum_exp, w, low, total, value)
                given = current[first:]
                pull(
                    x, count, beta, density, shape, log_sum_exp, w, low, total, value, given, x,
                    False, gx, beta_parts, z, work, q, moved, mean,
                )  # fmt: skip
                above, left, corner = gx[0], gx[1], gx[2]
                source, same, far = before[first - 1 :], before[first:], across[first - 1 :]
                for i in range(count):
                    source[i] += above[i]
                for i in range(count):
                    same[i] += left[i]
                    far[i] += corner[i]
                for i in range(count):
                    by_skips[b, 0] += above[i]
                    by_skips[b, 1] += left[i]
                    own[first + i - 1, k - first - i - 1] = given[i] if warping else corner[i]
            if not warping:
                if k <= columns:
                    by_skips[b, 1] += k * current[0]
                if k <= rows:
                    by_skips[b, 0] += k * current[k]
            current[:] = 0.0
        by_beta[b] = beta_parts.sum()
