"""The compiled kernels of losses of lists: the loss of each and its gradient, in one pass.

Scores are [B, n, K], targets [B, n], of those in the mask [B, n]; `levels` takes [0, n] for all.
Arithmetic is float64, that of `tops` in the dtype of the scores with sums in float64. A kernel
works on lists start .. stop - 1; it fills in their losses and whether they count, `found` [2, B],
and a gradient as long as the scores unless that is [0, n, K]. Lists without entries have the loss 0
and do not count; those with something present that may not be there get NaN.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import math

import numpy as np
from numba import carray

from gendr.kernels.numba.arrays import copy
from gendr.kernels.numba.calls import at
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.mathematics import exp, exp_below

# Lets LLVM sum in any order, so that it can vectorise: each lane has a sum of its own.
_ANY_ORDER = {"reassoc", "contract"}
_MANY = 1e200  # of factors up to 2, before their product overflows


@inner()
def _length(mask, row):
    """How many entries a list has up to the last one that is present."""
    n = mask.shape[1]
    while n > 0 and not mask[row, n - 1]:
        n -= 1
    return n


@inner(fastmath=_ANY_ORDER)
def _softmax(values, mask, row, below, shares):
    """Fill in how far values are below the largest that is present, and exponentials of that.

    Both are 0 for absent ones. Returns the sum of the exponentials, NaN if a value is not finite.
    """
    zero, total = values.dtype.type(0.0), 0.0
    lowest = values.dtype.type(-math.inf)
    largest, odd = lowest, zero
    for i in range(len(values)):  # loops of their own, which LLVM vectorises
        value = values[i] if mask[row, i] else lowest
        largest = value if value > largest else largest
    for i in range(len(values)):
        value = values[i] if mask[row, i] else zero
        odd += value - value  # NaN for what is not finite; the way to the largest may not be
        below[i] = value - largest if mask[row, i] else zero
    for i in range(len(values)):
        shares[i] = exp_below(below[i]) if mask[row, i] else zero
        total += np.float64(shares[i])
    return total + np.float64(odd)


@inner(fastmath=_ANY_ORDER)
def _cross(shares, total, wanted, sum_wanted, below):
    """The cross-entropy of shares, which become its gradient, given their logarithms."""
    single, cross = shares.dtype.type, 0.0
    inverse, inverse_wanted = single(1.0 / total), single(1.0 / sum_wanted)
    for i in range(len(shares)):
        cross += np.float64(wanted[i] * below[i])
        shares[i] = shares[i] * inverse - wanted[i] * inverse_wanted
    return math.log(total) - cross / sum_wanted


@kernel()
def tops(scores, target, mask, found, gradient, start, stop):
    """Cross-entropies of who is first, see `gendr.sorting.ListNet`."""
    n, dtype = scores.shape[1], scores.dtype
    # Not rows of one array, which Numba takes to have any strides.
    below, shares = np.empty(n, dtype), np.empty(n, dtype)
    wanted, rest = np.empty(n, dtype), np.empty(n, dtype)
    for row in range(start, stop):
        m = _length(mask, row)
        found[:, row] = 0.0
        if m > 0:
            total = _softmax(scores[row, :m].reshape(m), mask, row, below, shares)
            wanted_total = _softmax(target[row, :m], mask, row, rest, wanted)
            found[0, row] = _cross(shares[:m], total, wanted, wanted_total, below)
            found[1, row] = 1.0
        for i in range(n if len(gradient) > 0 else 0):
            gradient[row, i, 0] = shares[i] if i < m and mask[row, i] else dtype.type(0.0)


@inner()
def _logistics(scores, p, base):
    """Fill in sigmoid(s) and 1 + exp(-|s|)."""
    for i in range(len(scores)):
        e = exp(-abs(np.float64(scores[i])))
        base[i] = 1.0 + e
        p[i] = (1.0 if scores[i] >= 0 else e) / base[i]


@kernel()
def levels(scores, target, mask, found, gradient, start, stop):
    """Cross-entropies of whether a grade is at least k, see `gendr.sorting.OrdinalLoss`."""
    n, count = scores.shape[1:]
    p, base = np.empty(n * count), np.empty(n * count)
    for row in range(start, stop):
        m = mask[row].sum() if len(mask) > 0 else n
        _logistics(scores[row].reshape(n * count), p, base)
        total, product = 0.0, 1.0
        for i in range(n):
            if len(mask) > 0 and not mask[row, i]:
                if len(gradient) > 0:
                    gradient[row, i] = 0.0
                continue
            grade = target[row, i]
            if not (0 <= grade <= count and grade == math.floor(grade)):
                total = math.nan
            for k in range(count):
                score = np.float64(scores[row, i, k])
                is_reached = 1.0 if grade > k else 0.0
                total += max(score, 0.0) - score * is_reached  # NaN for an infinity
                product *= base[i * count + k]
                if product > _MANY:
                    total += math.log(product)
                    product = 1.0
                if len(gradient) > 0:
                    gradient[row, i, k] = (p[i * count + k] - is_reached) / m
        found[0, row] = (total + math.log(product)) / max(m, 1)
        found[1, row] = 1.0 if m > 0 else 0.0


@kernel()
def add_up(found, mean, result, gradient):
    """Reduce losses [2, B] to a result [1], or take them over into [B]; and the gradients.

    Returns the sum of the losses.
    """
    total, lists = 0.0, 0.0
    for row in range(found.shape[1]):
        total += found[0, row]
        lists += found[1, row]
    weight = 1.0 / max(lists, 1.0) if mean else 1.0
    if len(result) == 1:
        result[0] = total * weight
    else:
        copy(found[0], result)
    if weight != 1.0:
        slopes = gradient.reshape(gradient.size)
        for i in range(len(slopes)):
            slopes[i] *= weight
    return total


@inner()
def _arrays(scores, target, mask, gradient, batch, n, count, dtype):
    """Tensors by their addresses: of a mask and a gradient only if there are some."""
    return (
        carray(at(scores, dtype), (batch, n, count)),
        carray(at(target, dtype), (batch, n)),
        carray(at(mask, np.bool_), (batch if mask != 0 else 0, n)),
        carray(at(gradient, dtype), (batch if gradient != 0 else 0, n, count)),
    )


@kernel()
def every_tops(scores, target, mask, gradient, batch, n, count, mean, result):
    """`tops` and `add_up` of all lists."""
    found = np.empty((2, batch))
    x, y, known, slopes = _arrays(scores, target, mask, gradient, batch, n, count, result.dtype)
    tops(x, y, known, found, slopes, np.int64(0), batch)  # the type of Python's: one compilation
    return add_up(found, mean, result, slopes)


@kernel()
def every_levels(scores, target, mask, gradient, batch, n, count, mean, result):
    """`levels` and `add_up` of all lists."""
    found = np.empty((2, batch))
    x, y, known, slopes = _arrays(scores, target, mask, gradient, batch, n, count, result.dtype)
    levels(x, y, known, found, slopes, np.int64(0), batch)  # the type of Python's: one compilation
    return add_up(found, mean, result, slopes)
