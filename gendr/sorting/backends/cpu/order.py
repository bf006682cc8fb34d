"""The order of rows of keys, stable: 3 to 9 times as fast as that of torch for float32."""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: reportMissingParameterType=false

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from gendr.kernels.numba.compilation import kernel

# From how many keys on three passes over digits of 11 bits beat a sort by comparisons.
_MANY = 600
_DIGITS = 1 << 11
_SIGN = np.uint32(1 << 31)


def fill_order(x: np.ndarray[Any, Any], order: np.ndarray[Any, Any]) -> None:
    """Fill in the int64 order that sorts rows of floats, x [B, n]; equal ones stay in place."""
    if x.dtype != np.float32:
        order[...] = np.argsort(x, axis=-1, kind="stable")
        return
    if x.shape[-1] >= _MANY:
        radix(x.view(np.uint32), order)
        return
    bits = (x + np.float32(0)).view(np.int32)  # -0 becomes 0
    bits ^= (bits >> 31) & 0x7FFFFFFF  # integers in the order of the floats
    # No two keys are equal with their places behind them, so that NumPy's fast sort will do.
    np.left_shift(bits, 32, out=order, dtype=np.int64)
    order |= np.arange(x.shape[-1])
    order.sort(axis=-1)
    order &= 0xFFFFFFFF


@kernel(error_model="numpy")
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


@register_jitable
def _ordered(bits):
    """Bits of a float32 as a uint32 in the same order; -0 is 0."""
    bits = np.uint32(0) if bits == _SIGN else bits
    return bits ^ (np.uint32(0xFFFFFFFF) if bits >= _SIGN else _SIGN)


@kernel(error_model="numpy")
def radix(keys, order):
    """Sort rows of bits of float32 by three digits, the last first; keys move with their places."""
    n = keys.shape[1]
    counts = np.empty((3, _DIGITS), np.int64)
    some, others = np.empty((2, n), np.uint64)
    for row in range(len(keys)):
        counts[:] = 0
        for i in range(n):
            key = _ordered(keys[row, i])
            counts[0, key & 2047] += 1
            counts[1, (key >> 11) & 2047] += 1
            counts[2, key >> 22] += 1
        for digit in range(3):
            total = 0
            for k in range(_DIGITS):
                count = counts[digit, k]
                counts[digit, k] = total
                total += count
        for i in range(n):
            key = _ordered(keys[row, i])
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
            order[row, place] = np.int64(others[i] & np.uint64(0xFFFFFFFF))
