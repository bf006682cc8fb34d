"""The order of rows of keys, stable: 3 to 9 times as fast as that of torch for float32."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false, reportCallIssue=false
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray
from numba.extending import register_jitable

from gendr._common.checks import look_by
from gendr.kernels.numba.calls import at
from gendr.kernels.numba.compilation import inner, kernel

# From how many keys on three passes over digits of 11 bits beat a sort by comparisons.
MANY = 600
_DIGITS = 1 << 11
_SIGN = np.uint32(1 << 31)


def fill_order(x: np.ndarray[Any, Any], order: np.ndarray[Any, Any]) -> None:
    """Fill in the order, of int32 or int64, that sorts rows of floats, x [B, n], stably."""
    if x.dtype != np.float32:
        order[...] = np.argsort(x, axis=-1, kind="stable")
        return
    if x.shape[-1] >= MANY:
        radix(x.view(np.uint32), order)
        return
    # No two keys are equal with their places behind them, so that NumPy's fast sort will do.
    places = np.empty(x.shape, np.uint64)
    keyed(x.view(np.uint32), places)
    places.sort(axis=-1)
    order[...] = places & np.uint64(0xFFFFFFFF)


@register_jitable
def _ordered(bits):
    """Bits of a float32 as a uint32 in the same order; -0 is 0."""
    bits = np.uint32(0) if bits == _SIGN else bits
    return bits ^ (np.uint32(0xFFFFFFFF) if bits >= _SIGN else _SIGN)


@kernel()
def keyed(keys, places):
    """Fill in bits of float32 [B, n], in their order, with their places in the lower half."""
    for row in range(len(keys)):
        for i in range(keys.shape[1]):
            places[row, i] = (np.uint64(_ordered(keys[row, i])) << np.uint64(32)) | np.uint64(i)


@kernel()
def tied(x, order, first, last):
    """Fill in the first and the last rank, from 1, that each of x [B, n] can have, by its order."""
    n = x.shape[1]
    for row in range(len(x)):
        start = 0
        for end in range(1, n + 1):
            if end < n and x[row, order[row, end]] == x[row, order[row, start]]:
                continue
            for place in range(start, end):
                first[row, order[row, place]] = start + 1
                last[row, order[row, place]] = end
            start = end


@kernel()
def correlations(x, order, mask, found):
    """Fill in Spearman's rho [B] of the pairs x [2 B, n], by their order, of those in mask [B, n].

    Those absent are the largest, and rank as the last one present does; without any, n = 0 there.
    """
    n = x.shape[1]
    ranks = np.empty((2, n))  # twice, less the mean
    for pair in range(len(found)):
        count = mask[pair].sum() if mask.shape[1] else n
        for side in range(2):
            keys, places = x[2 * pair + side], order[2 * pair + side]
            start = 0
            for end in range(1, n + 1):
                if end < n and keys[places[end]] == keys[places[start]]:
                    continue
                for place in range(start, end):
                    ranks[side, places[place]] = start + min(end, count) - count
                start = end
        xx = xy = yy = 0.0
        for i in range(n):
            if mask.shape[1] == 0 or mask[pair, i]:
                xx += ranks[0, i] * ranks[0, i]
                xy += ranks[0, i] * ranks[1, i]
                yy += ranks[1, i] * ranks[1, i]
        found[pair] = xy / max(1.0, np.sqrt(xx * yy))


@inner()
def sort_row(keys, order):
    """Fill in the order [n] of bits of float32 [n] by three digits, the last first."""
    n = len(keys)
    counts = np.zeros((3, _DIGITS), np.int32)
    some, others = np.empty((2, n), np.uint64)  # keys with their places behind them
    for i in range(n):
        key = _ordered(keys[i])
        counts[0, key & 2047] += 1
        counts[1, (key >> 11) & 2047] += 1
        counts[2, key >> 22] += 1
    for digit in range(3):
        total = np.int32(0)
        for k in range(_DIGITS):
            count = counts[digit, k]
            counts[digit, k] = total
            total += count
    for i in range(n):
        key = _ordered(keys[i])
        place = counts[0, key & 2047]
        counts[0, key & 2047] = place + 1
        some[place] = (np.uint64(key) << np.uint64(32)) | np.uint64(i)
    for i in range(n):
        digit = (some[i] >> np.uint64(43)) & np.uint64(2047)
        place = counts[1, digit]
        counts[1, digit] = place + 1
        others[place] = some[i]
    for i in range(n):
        digit = others[i] >> np.uint64(54)
        place = counts[2, digit]
        counts[2, digit] = place + 1
        order[place] = others[i] & np.uint64(0xFFFFFFFF)


@kernel()
def radix(keys, order):
    """Fill in the orders of rows of bits of float32, both [B, n]."""
    for row in range(len(keys)):
        sort_row(keys[row], order[row])


@kernel()
def are_finite(values, count, is_double):
    """Whether so many floats at an address have neither NaN nor infinities among them."""
    known = True
    if is_double:
        x = carray(at(values, np.float64), count)
        for i in range(count):
            known &= x[i] - x[i] == 0.0
    else:
        y = carray(at(values, np.float32), count)
        for i in range(count):
            known &= y[i] - y[i] == 0.0
    return known


look_by(are_finite)
