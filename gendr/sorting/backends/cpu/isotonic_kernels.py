"""The compiled kernels of the projection onto the permutahedron.

A kernel works on a range of rows to which no other thread writes. All arithmetic is float64,
whatever the dtype of the input, so that sums over a thousand float32 values keep all digits. Of
projections, tensors come by their addresses, with an array `like` them for the dtype.

Isotonic regression by pooling adjacent violators: s and w are two ascending vectors, m is the mean
(l2) or the logarithm of the sum of exponentials (entropic), and positions are pooled into blocks B
until m_B(s) - m_B(w) increases from block to block. The projection is then s - m_B(s) + m_B(w),
which is w itself in a block of one. Blocks of equal levels are pooled too: at such a kink the
gradient is that of the side with the larger block. Every comparison is between a difference within
s and a difference within w, so that a large s does not absorb w.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false, reportCallIssue=false
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import math

import numpy as np
from numba import carray

from gendr.kernels.numba.calls import at
from gendr.kernels.numba.compilation import inner, kernel
from gendr.sorting.backends.cpu.order import sort_row

# Neighbours in s that are more than this times n apart are never in one block, as w spans less than
# that in both regularisations. Wider gaps are cut to it, so that s stays small and loses no digits.
_WIDE_GAP = 4.0


@inner()
def _pool_means(n, s, w, mean_s, mean_w, first):
    """Pool into blocks for l2; returns their number, fills in their means and first positions."""
    blocks = 0
    last_s, last_w, last_f = 0.0, 0.0, 0  # the last block, which is not read back from memory
    for i in range(n):
        a, b, f = s[i], w[i], i
        while blocks > 0 and a - last_s <= b - last_w:
            blocks -= 1
            share = (i + 1 - f) / (i + 1 - last_f)
            f = last_f
            # The first form returns equal values unchanged, the second cannot overflow.
            a = last_s + (a - last_s) * share
            b = last_w * (1.0 - share) + b * share
            if blocks > 0:
                last_s, last_w = mean_s[blocks - 1], mean_w[blocks - 1]
                last_f = first[blocks - 1]
        mean_s[blocks], mean_w[blocks], first[blocks] = a, b, f
        last_s, last_w, last_f = a, b, f
        blocks += 1
    return blocks


@inner()
def _pool_ranks(n, s, sums, first):
    """Pool into blocks for l2, where w is 1 .. n, whose means are known.

    Returns their number, and fills in their first positions and sums of s, relative to its first.
    """
    blocks, i = 0, 0
    while i < n:
        f, total = i, 0.0
        i += 1
        is_open = True
        while is_open:
            # Take in what follows one by one. Everywhere the difference of the means of s is
            # compared with that of w, half of how many there are, both times the counts.
            start, count = s[f], i - f
            while i < n and (s[i] - start - 0.5 * (count + 1)) * count <= total:
                total += s[i] - start
                i += 1
                count += 1
            is_open = False
            while blocks > 0:  # then the blocks before
                last = first[blocks - 1]
                before, rise = f - last, s[f] - s[last]
                difference = (rise - 0.5 * (count + before)) * (count * before)
                if difference + total * before > sums[blocks - 1] * count:
                    break
                blocks -= 1
                total = sums[blocks] + (total + rise * count)
                f, count, is_open = last, count + before, True
        sums[blocks], first[blocks] = total, f
        blocks += 1
    return blocks


@inner()
def _pool_exponentials(n, s, w, weight_w, sum_s, sum_w, first):
    """Pool into blocks for the entropic regularisation.

    Returns their number, and fills in their first positions and sums: of exp(s) relative to the
    last s of the block, and of weight_w exp(w) relative to its last w.
    """
    blocks = 0
    for i in range(n):
        a, b, f = 1.0, weight_w[i], i
        while blocks > 0:
            last = f - 1  # the end of the block before
            rise_s, rise_w = s[i] - s[last], w[i] - w[last]
            before_s, before_w = sum_s[blocks - 1], sum_w[blocks - 1]
            if not a * before_w <= before_s * b * math.exp(rise_w - rise_s):
                break
            blocks -= 1
            a += before_s * math.exp(-rise_s)
            b += before_w * math.exp(-rise_w)
            f = first[blocks]
        sum_s[blocks], sum_w[blocks], first[blocks] = a, b, f
        blocks += 1
    return blocks


@kernel()
def isotonic_rows(x, starts, start, stop):
    """The first position of the block of every position, of the isotonic regression of x."""
    n = x.shape[1]
    means, zeros, zero = np.empty(n), np.empty(n), np.zeros(n)
    first = np.empty(n + 1, np.int64)
    for row in range(start, stop):
        blocks = _pool_means(n, x[row], zero, means, zeros, first)
        first[blocks] = n
        for k in range(blocks):
            starts[row, first[k] : first[k + 1]] = first[k]


@kernel()
def block_means(x, starts, result, start, stop):
    """The mean of x over the block of every position; all [rows, n]."""
    n = x.shape[1]
    for row in range(start, stop):
        f = 0
        while f < n:
            end, mean = f, 0.0
            while end < n and starts[row, end] == f:
                mean += (x[row, end] - mean) / (end + 1 - f)
                end += 1
            result[row, f:end] = mean
            f = end


@inner()
def _rows(address, like, order):
    """A tensor of the dtype of `like` and the shape of `order`, by its address."""
    return carray(at(address, like.dtype), order.shape)


@kernel()
def rank_rows(values, result, like, order, starts, steepness, entropic, sorts, start, stop):
    """Soft ranks of every row: s = steepness x, sorted, and w = 1 .. n (its logarithm).

    values: x [rows, n]; order: [rows, n], which sorts them, filled in here if `sorts`, for float32
    alone. Fills in the result [rows, n], and starts [rows, n], the first position of the block of
    every sorted position. Ranks of a row with NaN or ±inf are NaN.
    """
    n = order.shape[1]
    x, ranks = _rows(values, like, order), _rows(result, like, order)
    keys = carray(at(values, np.uint32), order.shape)
    s, total_s, total_w = np.empty(n), np.empty(n), np.empty(n)
    first = np.empty(n + 1, np.int64)
    w, zero = np.arange(1.0, n + 1.0), np.zeros(n)
    widest = _WIDE_GAP * n
    for row in range(start, stop):
        if sorts:
            sort_row(keys[row], order[row])
        last, total = np.float64(x[row, order[row, 0]]), 0.0
        known = True  # neither NaN nor infinite
        for i in range(n):
            key = np.float64(x[row, np.uint32(order[row, i])])
            known &= key - key == 0.0
            rise = steepness * (key - last)
            total += widest if rise > widest else rise
            s[i], last = total, key
        if entropic:
            blocks = _pool_exponentials(n, s, zero, w, total_s, total_w, first)
        else:
            blocks = _pool_ranks(n, s, total_s, first)
        first[blocks] = n
        for k in range(blocks):
            f, end = np.uint32(first[k]), np.uint32(first[k + 1])
            middle = 0.5 * (f + 1 + end) - total_s[k] / (end - f)
            for i in range(f, end):
                starts[row, i] = f
                if entropic:
                    rank = math.exp(s[i] - s[end - 1]) / total_s[k] * total_w[k]
                else:
                    rank = middle + (s[i] - s[f])
                ranks[row, np.uint32(order[row, i])] = rank
        if not known:
            ranks[row] = np.nan


@inner()
def _is_finite(x, row):
    """Whether a row of x [rows, n] has neither NaN nor infinities."""
    known = True
    for i in range(x.shape[1]):
        known &= x[row, i] - x[row, i] == 0.0
    return known


@kernel()
def rank_gradients(
    values, above, found, to_x, like, order, starts, steepness, entropic, start, stop
):
    """Gradient of the soft ranks to x, given that above, and the ranks if entropic; [rows, n].

    That of a row with NaN or ±inf is NaN.
    """
    n = order.shape[1]
    x, grad = _rows(values, like, order), _rows(above, like, order)
    ranks, result = _rows(found, like, order), _rows(to_x, like, order)
    for row in range(start, stop):
        if not _is_finite(x, row):
            result[row] = np.nan
            continue
        f = 0
        while f < n:
            end, total, weight = f, 0.0, 0.0
            while end < n and starts[row, end] == f:
                i = np.uint32(order[row, end])
                share = np.float64(ranks[row, i]) if entropic else 1.0
                total += share * grad[row, i]
                weight += share
                end += 1
            mean = total / weight
            alone = end == f + 1
            for k in range(f, end):
                i = np.uint32(order[row, k])
                share = np.float64(ranks[row, i]) if entropic else 1.0
                result[row, i] = 0.0 if alone else steepness * share * (grad[row, i] - mean)
            f = end


@kernel()
def value_rows(values, result, like, order, starts, steepness, entropic, sorts, start, stop):
    """Soft sorted values of every row: s = steepness (1 .. n), w = x, sorted.

    As `rank_rows`; the result [rows, n] is in the order of ranks.
    """
    n = order.shape[1]
    x, soft = _rows(values, like, order), _rows(result, like, order)
    keys = carray(at(values, np.uint32), order.shape)
    w, total_s, total_w = np.empty(n), np.empty(n), np.empty(n)
    first = np.empty(n + 1, np.int64)
    s, ones = steepness * np.arange(n), np.ones(n)
    for row in range(start, stop):
        if sorts:
            sort_row(keys[row], order[row])
        known = True
        for i in range(n):
            w[i] = x[row, order[row, i]]
            known &= w[i] - w[i] == 0.0
        if entropic:
            blocks = _pool_exponentials(n, s, w, ones, total_s, total_w, first)
        else:
            blocks = _pool_means(n, s, w, total_s, total_w, first)
        first[blocks] = n
        for k in range(blocks):
            f, end = first[k], first[k + 1]
            for i in range(f, end):
                starts[row, i] = f
                if end == f + 1:  # s may have overflowed
                    value = w[f]
                elif entropic:
                    level = w[end - 1] + math.log(total_w[k] / total_s[k])
                    value = level + (s[i] - s[end - 1])
                else:
                    value = total_w[k] + (s[i] - total_s[k])
                soft[row, i] = value
        if not known:
            soft[row] = np.nan


@kernel()
def value_gradients(values, above, to_x, like, order, starts, entropic, start, stop):
    """Gradient of the soft sorted values to x, given that above; NaN as in `rank_gradients`."""
    n = order.shape[1]
    x, grad = _rows(values, like, order), _rows(above, like, order)
    result = _rows(to_x, like, order)
    for row in range(start, stop):
        if not _is_finite(x, row):
            result[row] = np.nan
            continue
        f = 0
        while f < n:
            end, total = f, 0.0
            while end < n and starts[row, end] == f:
                total += grad[row, end]
                end += 1
            largest, weight = np.float64(x[row, order[row, end - 1]]), 0.0
            for k in range(f, end):
                weight += math.exp(x[row, order[row, k]] - largest) if entropic else 1.0
            for k in range(f, end):
                i = order[row, k]
                share = math.exp(x[row, i] - largest) if entropic else 1.0
                result[row, i] = total * (share / weight)
            f = end
