"""The compiled kernels of NeuralSort and SoftSort: rows of softmaxes, forward and backward.

Every row is computed in one pass, while it is in the L1 cache: its arguments, their exponentials,
the sum and the quotient. The largest argument of a row needs no search: in row i it belongs to the
input that the hard sort puts at rank i. The backward pass reads P and its gradient once, and keeps
only sums over the rows of each column. Arithmetic is float64 whatever the input, because arguments
are small differences of large sums; only the exponential has no more digits than the output dtype.

A unit of work is up to `ROWS` rows of one matrix. Only it writes these rows and their part of the
sums over columns, so that any number of threads gives the same bits. Shapes: x, order [B, n], where
order is the stable argsort of x; p, g [B, m, n], the last m rows of the matrix; shares
[B, parts, sums, n].
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import sys

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from gendr.kernels.numba.arrays import copy
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.mathematics import (
    ROUNDER,
    ROUNDER_BITS,
    bits_of,
    exp,
    fma,
    from_bits,
)
from gendr.sorting.base import SHRINK

ROWS = 64  # enough to make the O(n) work that is done once per unit negligible
LOG2_E = 1.4426950408889634
_BIAS = 1023
_LARGEST = sys.float_info.max
SMALLEST = -87.3  # below it the exponential is subnormal in float32, on which processors are slow
# Of 2^z at the Chebyshev nodes of |z| <= 1/2, from z^6 down; relative error 5e-9.
COEFFICIENTS = (
    0.0001545316294512, 0.001339086336467, 0.009618082557278, 0.05550357114219, 0.2402265076057,
    0.6931471880262, 1.0,
)  # fmt: skip

# Lets LLVM sum in any order, so that it can vectorise: each lane has a sum of its own.
ANY_ORDER = {"reassoc", "contract"}


# ---------------------------------------------------------------------------------------------
# Helpers of both methods
# ---------------------------------------------------------------------------------------------


@register_jitable
def short_exp(v):
    """The exponential of v <= 0 to float32 precision; 0 where it would be subnormal."""
    t = v * LOG2_E if v > SMALLEST else 0.0
    shifted = t + ROUNDER
    z = t - (shifted - ROUNDER)
    p = fma(z, COEFFICIENTS[0], COEFFICIENTS[1])
    p = fma(z, p, COEFFICIENTS[2])
    p = fma(z, p, COEFFICIENTS[3])
    p = fma(z, p, COEFFICIENTS[4])
    p = fma(z, p, COEFFICIENTS[5])
    p = fma(z, p, COEFFICIENTS[6])
    p = p * from_bits((bits_of(shifted) - ROUNDER_BITS + _BIAS) << 52)
    return p if v > SMALLEST else 0.0


def exp_for(v, row):
    """The exponential of v <= 0, to the precision of the dtype of `row`; for compiled code."""


@overload(exp_for)
def _exp_by_dtype(v, row):
    if row.dtype == types.float32:
        return lambda v, row: short_exp(v)
    return lambda v, row: exp(v)


@inner(fastmath=ANY_ORDER)
def _sum(row):
    total = row.dtype.type(0.0)
    for j in range(len(row)):
        total += row[j]
    return total


@inner()
def _normalise(row):
    inverse = row.dtype.type(1.0) / _sum(row)
    for j in range(len(row)):
        row[j] *= inverse


@register_jitable
def bounded(v, limit):
    """Clamp v to -limit .. limit; NaN stays NaN."""
    return limit if v > limit else (-limit if v < -limit else v)


@register_jitable
def most_of(g):
    """The limit for gradients, which keeps their differences from a mean finite."""
    return g.dtype.type(np.finfo(g.dtype).max * 0.25)


@inner(fastmath=ANY_ORDER)
def _mean_gradient(p, g):
    """The mean of g under p: sum p_j g_j."""
    total, most = 0.0, most_of(g)
    for j in range(len(p)):
        total += np.float64(p[j]) * np.float64(bounded(g[j], most))
    return total


@register_jitable
def parts(m):
    """The number of units of a matrix with m rows."""
    return (m + ROWS - 1) // ROWS


@register_jitable
def _rows_of(unit, m):
    """(matrix, part of it, first row, end) of a unit."""
    b, part = unit // parts(m), unit % parts(m)
    return b, part, part * ROWS, min(m, (part + 1) * ROWS)


# ---------------------------------------------------------------------------------------------
# NeuralSort: arguments steepness ((2 i - n - 1) x_j - A_j), A_j = sum_k |x_j - x_k|
# ---------------------------------------------------------------------------------------------


@inner()
def centre(x, order, centred):
    """Subtract the median of x, which shifts all arguments of a row equally and makes them smaller.

    For huge x `centred` is also divided by a power of 2, to leave room for sums. Returns that
    power, which is 1 for all other x.
    """
    largest = max(abs(np.float64(x[order[0]])), abs(np.float64(x[order[-1]])))
    shrink = SHRINK if largest > SHRINK * _LARGEST else 1.0
    median = np.float64(x[order[len(x) // 2]]) * shrink
    for j in range(len(x)):
        centred[j] = x[j] * shrink - median
    return shrink


@inner()
def distances(x, order, total):
    """Fill in total[j] = sum_k |x_j - x_k|, incrementally from one sorted value to the next."""
    n = len(x)
    lowest = x[order[0]]
    running = 0.0
    for j in range(n):
        running += x[j] - lowest
    total[order[0]] = running
    for k in range(1, n):
        running += (2 * k - n) * (x[order[k]] - x[order[k - 1]])
        total[order[k]] = running


@kernel()
def neuralsort_rows(x, order, steepness, p, start, stop):
    """Fill in p for the units start .. stop - 1."""
    n = x.shape[1]
    centred, total = np.empty(n), np.empty(n)
    for unit in range(start, stop):
        b, _, first, end = _rows_of(unit, p.shape[1])
        steep = bounded(steepness / centre(x[b], order[b], centred), _LARGEST)
        distances(centred, order[b], total)
        for i in range(first, end):
            row = p[b, i]
            place = i + n - p.shape[1]
            factor = 2.0 * place + 1 - n  # the rank is place + 1
            top = order[b, place]
            largest = factor * centred[top] - total[top]
            for j in range(n):
                v = (factor * centred[j] - total[j]) - largest
                v = v if v < 0.0 else 0.0
                row[j] = exp_for(steep * v, row)
            _normalise(row)


@inner()
def balances(x, order, weight, balance):
    """Fill in balance[j] = sum_k weight[k] sign(x_j - x_k)."""
    n = len(x)
    total = 0.0
    for k in range(n):
        total += weight[k]
    below = 0.0
    first = 0
    while first < n:  # one run of equal values after the other
        value = x[order[first]]
        end = first + 1  # of NaN, which no number equals, too
        equal = 0.0 + weight[order[first]]
        while end < n and x[order[end]] == value:
            equal += weight[order[end]]
            end += 1
        above = total - below - equal
        for k in range(first, end):
            balance[order[k]] = below - above
        below += equal
        first = end


@kernel()
def neuralsort_shares(x, order, p, g, shares, start, stop):
    """Sum the columns of t = dL/d(argument), plain and weighted.

    The weights are d(argument)/dx_j without the terms of other columns: (2 i - n - 1) - sum_k
    sign(x_j - x_k). They are about twice the distance from the diagonal; if the two parts were
    summed separately, they would cancel.
    """
    n, most = x.shape[1], most_of(g)
    slope = np.empty(n)
    for unit in range(start, stop):
        b, part, first, end = _rows_of(unit, p.shape[1])
        balances(x[b], order[b], np.ones(n), slope)
        plain, weighted = shares[b, part, 0], shares[b, part, 1]
        plain[:] = 0.0
        weighted[:] = 0.0
        for i in range(first, end):
            p_row, g_row = p[b, i], g[b, i]
            mean = _mean_gradient(p_row, g_row)
            factor = 2.0 * (i + n - p.shape[1]) + 1 - n
            for j in range(n):
                t = p_row[j] * (np.float64(bounded(g_row[j], most)) - mean)
                plain[j] += t
                weighted[j] += (factor - slope[j]) * t


@kernel()
def neuralsort_gradient(x, order, steepness, shares, grad, grad_steepness, start, stop):
    """The gradients of x, and of the steepness for each matrix, from the sums over columns."""
    n = x.shape[1]
    balance, centred = np.empty(n), np.empty(n)
    for b in range(start, stop):
        plain, weighted = shares[b, 0, 0], shares[b, 0, 1]
        for part in range(1, shares.shape[1]):
            plain += shares[b, part, 0]
            weighted += shares[b, part, 1]
        balances(x[b], order[b], plain, balance)
        shrink = centre(x[b], order[b], centred)
        total = 0.0
        for j in range(n):
            by_argument = weighted[j] - balance[j]
            grad[b, j] = steepness * by_argument
            # Arguments are homogeneous of degree 1 in x (Euler's theorem).
            total += centred[j] * by_argument
        grad_steepness[b] = bounded(total / shrink, _LARGEST)


# ---------------------------------------------------------------------------------------------
# SoftSort: arguments -steepness |y_i - x_j|^power, y the sorted x, power 1 or 2
# ---------------------------------------------------------------------------------------------


@kernel()
def softsort_rows(x, order, steepness, squared, p, start, stop):
    """Fill in p for the units start .. stop - 1."""
    n = x.shape[1]
    values = np.empty(n)
    for unit in range(start, stop):
        b, _, first, end = _rows_of(unit, p.shape[1])
        copy(x[b], values)
        for i in range(first, end):
            row = p[b, i]
            y = values[order[b, i + order.shape[1] - p.shape[1]]]
            for j in range(n):
                d = abs(y - values[j])
                v = -steepness * (d * d if squared else d)
                row[j] = exp_for(v, row)
            _normalise(row)


@inner(fastmath=ANY_ORDER)
def _softsort_row(values, y, squared, p_row, g_row, columns):
    """Add t times the slope of the distance from y to `columns`; return the sum of the added terms.

    t = dL/d(argument).
    """
    mean, most = _mean_gradient(p_row, g_row), most_of(g_row)
    total = 0.0
    for j in range(len(values)):
        d = bounded(y - values[j], 0.5 * _LARGEST)
        slope = 2.0 * d if squared else (1.0 if d > 0.0 else 0.0) - (1.0 if d < 0.0 else 0.0)
        t = p_row[j] * (np.float64(bounded(g_row[j], most)) - mean) * slope
        columns[j] += t
        total += t
    return total


@kernel()
def softsort_shares(x, order, squared, p, g, shares, rows, start, stop):
    """Sum columns and rows of dL/d(argument) times the slope of the distance."""
    n = x.shape[1]
    values = np.empty(n)
    for unit in range(start, stop):
        b, part, first, end = _rows_of(unit, p.shape[1])
        copy(x[b], values)
        columns = shares[b, part, 0]
        columns[:] = 0.0
        for i in range(first, end):
            y = values[order[b, i + order.shape[1] - p.shape[1]]]
            rows[b, i] = _softsort_row(values, y, squared, p[b, i], g[b, i], columns)


@kernel()
def softsort_gradient(
    x, order, steepness, squared, shares, rows, grad, grad_steepness, start, stop
):
    """The gradients of x, and each matrix's part of that of the steepness, from these sums."""
    n = x.shape[1]
    for b in range(start, stop):
        columns = shares[b, 0, 0]
        for part in range(1, shares.shape[1]):
            columns += shares[b, part, 0]
        m = rows.shape[1]
        for i in range(m):  # y_i is gathered from this input
            columns[order[b, i + order.shape[1] - m]] -= rows[b, i]
        median = np.float64(x[b, order[b, order.shape[1] // 2]])
        total = 0.0
        for j in range(n):
            grad[b, j] = steepness * columns[j]
            # Arguments are homogeneous in x; the degree is the power (Euler's theorem).
            total += bounded(x[b, j] - median, _LARGEST) * columns[j]
        grad_steepness[b] = 0.5 * total if squared else total
