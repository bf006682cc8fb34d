"""The compiled kernels of products with the matrices of NeuralSort and SoftSort, without these.

They compute r_i = sum_j p_ij a_j and c_j = sum_i w_i p_ij, and the derivatives of sum w_i p_ij a_j,
from which those of both follow; of all rows, or of the last m. Keys are in ascending order inside,
where the arguments of a row fall off to both sides of its rank: only those whose exponentials count
are computed, and the window of them moves up from row to row. The rows of SoftSort with the power 1
are sums of decaying exponentials to both sides, which go from key to key: they take O(n)
altogether, and all keys below those of the last rows decay from the first of these, in any order.

A unit of work is up to `PART` rows of a matrix, or a whole one of O(n). Only it writes these rows
and their part of the sums over columns, so that any number of threads gives the same bits.
Arithmetic is float64; only the exponential has no more digits than the dtype of the keys. Shapes:
x, order [B, n], order the stable argsort of x; w, r [B, m, c] by rank; a, c [B, n, c] by input. Of
these and of the gradients some are empty, and what depends on them is left out.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import sys

import numpy as np
from numba import types
from numba.extending import overload

from gendr.kernels.numba import vectors
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.mathematics import ROUNDER, exp
from gendr.kernels.numba.vectors import LANES, lanewise, maximum, minimum, power_of_two, where
from gendr.sorting.backends.cpu.row_kernels import (
    ANY_ORDER,
    COEFFICIENTS,
    LOG2_E,
    SMALLEST,
    bounded,
    exp_for,
    most_of,
)
from gendr.sorting.base import SHRINK

PART = 256
_LARGEST = sys.float_info.max


# ---------------------------------------------------------------------------------------------
# Windows: NeuralSort, and SoftSort with the power 2
# ---------------------------------------------------------------------------------------------


def _short_exp(v):
    """The exponential of v <= 0 to float32 precision; 0 where it would be subnormal."""
    t = maximum(v, SMALLEST) * LOG2_E
    n = (t + ROUNDER) - ROUNDER
    z, found = t - n, COEFFICIENTS[0]
    for coefficient in COEFFICIENTS[1:]:
        found = found * z + coefficient
    return where(v > SMALLEST, found * power_of_two(n), 0.0)


def _weighing(neural, exponential):
    """A step over keys: the exponentials of their arguments, 0 from `count` on, and their sum."""

    def weigh(y, total, row, sums, steep, factor, key, distances, j, count):
        if neural:
            v = steep * minimum(factor * (y[j] - key) - (total[j] - distances), 0.0)
        else:
            d = key - y[j]
            v = steep * (0.0 - d * d)
        found = exponential(v)
        row[j] = where(found.before(count), found, 0.0)
        sums[0] = sums[0] + row[j]

    return lanewise(weigh)


# By the dtype of the keys, to which the exponential has digits; and its least argument.
_STEPS = {
    types.float32: (_weighing(True, _short_exp), _weighing(False, _short_exp), SMALLEST),
    types.float64: (_weighing(True, vectors.exp), _weighing(False, vectors.exp), -708.0),
}


def _weigh(x, neural, y, total, row, sums, steep, factor, key, distances, j, count):
    """The step of a method and the dtype of x; for compiled code."""


@overload(_weigh)
def _weigh_by_dtype(x, neural, y, total, row, sums, steep, factor, key, distances, j, count):
    of_neural, of_squared, _ = _STEPS[x.dtype]

    def weigh(x, neural, y, total, row, sums, steep, factor, key, distances, j, count):
        if neural:
            of_neural(y, total, row, sums, steep, factor, key, distances, j, count)
        else:
            of_squared(y, total, row, sums, steep, factor, key, distances, j, count)

    return weigh


def _least(x):
    """The argument below which an exponential is 0; for compiled code."""


@overload(_least)
def _least_by_dtype(x):
    least = _STEPS[x.dtype][2]
    return lambda x: least


@lanewise
def _multiply(row, a, sums, j):
    """Add row * a to sums."""
    sums[0] = sums[0] + row[j] * a[j]


@lanewise
def _add(out, factor, row, j):
    """Add factor * row to out."""
    out[j] = out[j] + factor * row[j]


@lanewise
def _accumulate(out, start, factor, a, limit, j):
    """Set out to start + factor * a, within the limit."""
    out[j] = maximum(minimum(start[j] + factor * a[j], limit), -1.0 * limit)


@lanewise
def _derive(slope, row, g, mean, scale, factor, plain, weighted, sums, j):
    """Add the derivatives of arguments to sums over columns, plain and times their slope by a key.

    `slope` is that of the argument by its own key, less `factor`; `sums` get all of the latter.
    """
    t = (row[j] * scale) * (g[j] - mean)
    by_key = (factor - slope[j]) * t
    plain[j] = plain[j] + t
    weighted[j] = weighted[j] + by_key
    sums[0] = sums[0] + by_key


@inner()
def _prepare(x, order, neural, y, total, slope):
    """Fill in the ascending keys, sums of distances, and slopes of arguments by their own key.

    Keys are less their median; for huge ones also times a power of 2, which leaves room for sums.
    Slopes are without what is the same in a whole row. Returns that power, 1 for all others.
    """
    n = len(x)
    largest = max(abs(np.float64(x[order[0]])), abs(np.float64(x[order[-1]])))
    shrink = SHRINK if neural and largest > SHRINK * _LARGEST else 1.0
    median = np.float64(x[order[n // 2]]) * shrink
    for j in range(n):
        y[j] = bounded(x[order[j]] * shrink - median, 0.25 * _LARGEST)
        slope[j] = 2.0 * y[j]
    if not neural:
        return shrink
    running = 0.0
    for j in range(n):
        running += y[j] - y[0]
    total[0] = running
    for k in range(1, n):
        running += (2 * k - n) * (y[k] - y[k - 1])
        total[k] = running
    first = 0
    while first < n:  # one run of equal keys after the other: those below less those above
        end = first + 1
        while end < n and x[order[end]] == x[order[first]]:
            end += 1
        for k in range(first, end):
            slope[k] = np.float64(first - (n - end))
        first = end
    return shrink


@inner()
def _argument(y, total, neural, steep, i, j):
    """The argument of key j in row i, less the largest of the row, which is that of key i."""
    if neural:
        factor = 2.0 * i + 1 - len(y)
        return steep * (factor * (y[j] - y[i]) - (total[j] - total[i]))
    d = y[i] - y[j]
    return -steep * (d * d)


@inner()
def _total(sums):
    """The sum of a vector, which becomes 0."""
    found = 0.0
    for k in range(LANES):
        found += sums[k]
        sums[k] = 0.0
    return found


@inner()
def _windows(x, order, steepness, neural, before, w, a, first, end, r, sums, plain, weighted, lost):
    """The rows first .. end - 1 of one matrix; those of w and r begin with row `before`.

    `sums` [c, n + LANES] and those of the derivatives, plain and weighted, are over its columns.
    """
    n, vector = len(x), np.zeros(LANES)
    # With room for whole vectors.
    y, total, slope, exponentials, g, zeros = np.zeros((6, n + LANES))
    steep = bounded(steepness / _prepare(x, order, neural, y[:n], total[:n], slope[:n]), _LARGEST)
    least, limit = _least(x), np.float64(most_of(x))
    columns = np.zeros((a.shape[1], n + LANES))
    for j in range(len(a)):
        for k in range(a.shape[1]):
            columns[k, j] = a[order[j], k]
    low, high = 0, first + 1
    for i in range(first, end):
        while low < i and _argument(y[:n], total, neural, steep, i, low) < least:
            low += 1
        high = max(high, i + 1)
        while high < n and _argument(y[:n], total, neural, steep, i, high) >= least:
            high += 1
        factor = 2.0 * i + 1 - n if neural else 2.0 * y[i]
        for j in range(low, high, LANES):
            _weigh(
                x, neural, y, total, exponentials, vector, steep, factor, y[i], total[i], j,
                high - j,
            )  # fmt: skip
        scale = 1.0 / _total(vector)
        for k in range(r.shape[1]):
            for j in range(low, high, LANES):
                _multiply(exponentials, columns[k], vector, j)
            r[i - before, k] = scale * _total(vector)
        for k in range(len(sums)):
            for j in range(low, high, LANES):
                _add(sums[k], w[i - before, k] * scale, exponentials, j)
        if len(plain) > 0:
            for k in range(w.shape[1]):
                start = g if k > 0 else zeros
                for j in range(low, high, LANES):
                    _accumulate(g, start, np.float64(w[i - before, k]), columns[k], limit, j)
            for j in range(low, high, LANES):
                _multiply(exponentials, g, vector, j)
            mean = scale * _total(vector)
            for j in range(low, high, LANES):
                _derive(slope, exponentials, g, mean, scale, factor, plain, weighted, vector, j)
            lost[i] = _total(vector)


@kernel()
def windows(x, order, steepness, neural, before, w, a, r, sums, shares, lost, start, stop):
    """Fill in r, sums [B, parts, c, room], shares [B, parts, 2, room] and lost [B, n].

    Of rows from `before` on; `lost` of those before them stays.

    `room` is n + LANES, or 0 where sums are not wanted.
    """
    n = x.shape[1]
    parts = sums.shape[1]
    for unit in range(start, stop):
        b, part = unit // parts, unit % parts
        first = before + part * PART
        end = min(n, first + PART)
        sums[b, part] = 0.0
        shares[b, part] = 0.0
        _windows(
            x[b], order[b], steepness, neural, before, w[b], a[b], first, end, r[b],
            sums[b, part], shares[b, part, 0], shares[b, part, 1], lost[b],
        )  # fmt: skip


@kernel()
def windows_end(
    x, order, steepness, neural, sums, shares, lost, c, grad, grad_steepness, start, stop
):
    """Fill in c, and the gradients of x and of the steepness for each matrix, from these sums."""
    n, limit = x.shape[1], most_of(x)
    y, total, slope, by_key = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for b in range(start, stop):
        for part in range(1, sums.shape[1]):
            for k in range(sums.shape[2]):
                for j in range(sums.shape[3]):
                    sums[b, 0, k, j] += sums[b, part, k, j]
            for k in range(2):
                for j in range(shares.shape[3]):
                    shares[b, 0, k, j] += shares[b, part, k, j]
        for k in range(c.shape[2]):
            for j in range(n):
                c[b, order[b, j], k] = sums[b, 0, k, j]
        if len(grad) == 0:
            continue
        plain, weighted = shares[b, 0, 0, :n], shares[b, 0, 1, :n]
        shrink = _prepare(x[b], order[b], neural, y, total, slope)
        if neural:  # less sum_k plain_k sign(x_j - x_k)
            whole = plain.sum()
            below, j = 0.0, 0
            while j < n:
                end, equal = j, 0.0
                while end < n and slope[end] == slope[j]:
                    equal += plain[end]
                    end += 1
                for k in range(j, end):
                    by_key[k] = weighted[k] - (2.0 * below + equal - whole)
                below += equal
                j = end
        else:
            for j in range(n):
                by_key[j] = weighted[j] - lost[b, j]
        # Arguments are homogeneous in x, of the degree 1 or 2 (Euler's theorem).
        euler = 0.0
        for j in range(n):
            grad[b, order[b, j]] = bounded(steepness * by_key[j], limit)
            euler += y[j] * by_key[j]
        grad_steepness[b] = bounded(euler / shrink if neural else 0.5 * euler, _LARGEST)


# ---------------------------------------------------------------------------------------------
# Decays: SoftSort with the power 1
# ---------------------------------------------------------------------------------------------


@inner()
def _sides(y, decay, v, whole, signed, rest, strict):
    """Fill in whole[i] = sum_j e_ij v_j and signed[i] = sum_j e_ij v_j sign(y_j - y_i).

    e_ij = exp(-steepness |y_i - y_j|) for ascending y; decay[j] = e_(j-1)j. Below y_0 there are
    further keys, of which `rest` is sum_j e_0j v_j, and `strict` that without those equal to it.

    Returns:
        sum_j e_0j v_j of y itself, and the same without those equal to y_0.
    """
    n, up, below, down, above = len(y), rest, strict, 0.0, 0.0
    whole[:] = 0.0
    signed[:] = 0.0
    for j in range(n):  # both ways at once, as each waits for its own last product
        k = n - 1 - j
        if j > 0 and y[j] != y[j - 1]:
            below = up * decay[j]
        up = up * decay[j] + v[j]
        whole[j] += up
        signed[j] -= below
        if j > 0:
            down *= decay[k + 1]
            if y[k] != y[k + 1]:
                above = down
        whole[k] += down
        signed[k] += above
        down += v[k]
    return down, above


@inner(fastmath=ANY_ORDER)
def _fall(x, key, steepness, top, far):
    """Fill in far[j] = exp(-steepness (key - x_j)), 0 for the inputs `top`; the sums of `_rest`."""
    for j in range(len(x)):
        far[j] = exp_for(-(steepness * max(key - x[j], 0.0)), x)
    for j in top:
        far[j] = 0.0
    whole = strict = 0.0
    for j in range(len(x)):
        whole += far[j]
        strict += far[j] if x[j] < key else 0.0
    return whole, strict


@inner(fastmath=ANY_ORDER)
def _rest(x, key, far, v):
    """The sum of far_j v_j, and the same of inputs below the key."""
    whole = strict = 0.0
    for j in range(len(x)):
        found = far[j] * np.float64(v[j])
        whole += found
        strict += found if x[j] < key else 0.0
    return whole, strict


@kernel()
def decays(x, order, steepness, w, a, r, c, grad, grad_steepness, start, stop):
    """Fill in r and c, and the gradients of x and of the steepness for each matrix, if not empty.

    With p_ij = e_ij / d_i and u_i = w_i / d_i the derivatives of arguments are
    t_ij = e_ij (u_i a_j - u_i r_i). Of the order there are as many of the last columns as rows.
    """
    n, m = x.shape[1], order.shape[1]
    width, limit, few = max(w.shape[2], a.shape[2]), most_of(x), m < n
    # One by one: of rows of one array LLVM does not know that they are apart, and takes no vectors.
    y, decay, ones, inverse, by_key = (
        np.empty(m), np.empty(m), np.ones(m), np.empty(m), np.empty(m)
    )  # fmt: skip
    values, upstream, mean, whole, signed, other = (
        np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    )  # fmt: skip
    rest_size = n if few else 0
    far, by_rest = np.empty(rest_size), np.empty(rest_size)
    for b in range(start, stop):
        for j in range(m):
            y[j] = x[b, order[b, j]]
        decay[0] = 1.0
        for j in range(1, m):
            decay[j] = exp(-(steepness * (y[j] - y[j - 1])))
        rest = strict = 0.0
        if few:
            rest, strict = _fall(x[b], y[0], steepness, order[b], far)
        _sides(y, decay, ones, inverse, other, rest, strict)
        for j in range(m):
            inverse[j] = 1.0 / inverse[j]
        by_key[:] = 0.0
        mean[:] = 0.0
        by_rest[:] = 0.0
        for k in range(width):
            if a.size > 0:
                for j in range(m):
                    values[j] = a[b, order[b, j], k]
                rest = strict = 0.0
                if few:
                    rest, strict = _rest(x[b], y[0], far, a[b, :, k])
                _sides(y, decay, values, whole, signed, rest, strict)
                for j in range(m):
                    whole[j] *= inverse[j]
                for j in range(r.shape[1]):
                    r[b, j, k] = whole[j]
            if w.size > 0:
                for j in range(m):
                    upstream[j] = w[b, j, k] * inverse[j]
                if len(grad) > 0:
                    for j in range(m):
                        mean[j] += upstream[j] * whole[j]
                        by_key[j] += upstream[j] * signed[j]
                rest, strict = _sides(y, decay, upstream, whole, signed, 0.0, 0.0)
                if c.size > 0:
                    for j in range(len(far)):
                        c[b, j, k] = far[j] * rest
                    for j in range(m):
                        c[b, order[b, j], k] = whole[j]
                if len(grad) > 0:
                    for j in range(len(far)):
                        by_rest[j] += np.float64(a[b, j, k]) * (rest if x[b, j] < y[0] else strict)
                    for j in range(m):
                        by_key[j] += values[j] * signed[j]
        if len(grad) == 0:
            continue
        rest, strict = _sides(y, decay, mean, whole, signed, 0.0, 0.0)
        middle, euler = y[m // 2], 0.0
        # Arguments are homogeneous of degree 1 in x (Euler's theorem).
        for j in range(len(far)):
            of_key = far[j] * (by_rest[j] - (rest if x[b, j] < y[0] else strict))
            grad[b, j] = bounded(steepness * of_key, limit)
            euler += bounded(x[b, j] - middle, _LARGEST) * of_key
        for j in range(m):
            by_key[j] -= signed[j] + mean[j] * other[j]
            grad[b, order[b, j]] = bounded(steepness * by_key[j], limit)
            euler += bounded(y[j] - middle, _LARGEST) * by_key[j]
        grad_steepness[b] = euler
