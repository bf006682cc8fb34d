"""A step of the kernels of alignments, on vectors."""

# Numba runs these functions while it compiles; their arguments are objects of its own.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

import math

from gendr.kernels.numba.mathematics import ROUNDER
from gendr.kernels.numba.vectors import (
    exp,
    lanewise,
    maximum,
    minimum,
    power_of_two,
    split_exp,
    total,
    where,
)


@lanewise
def align(i, above, left, corner, local, row, column, on_corner, after, beta, out, slopes, stride):
    """Set out to the softmin of above + row, left + column, corner + on_corner m, plus after m.

    Rows of `slopes`, `stride` apart, get its derivatives by the first two ways.
    """
    m = local[i]
    ways = (above[i] + row, left[i] + column, corner[i] + m * on_corner)
    low = minimum(minimum(ways[0], ways[1]), ways[2])
    beyond = [way - low for way in ways]
    odds = [exp(0.0 - b * beta) for b in beyond]
    beyond = [where(b < math.inf, b, 0.0) for b in beyond]
    inverse = 1.0 / total(odds)
    weights = [o * inverse for o in odds]
    mean = total([w * b for w, b in zip(weights, beyond, strict=True)])
    out[i] = (low + mean) + m * after
    for k in range(2):
        slopes[i + stride * k] = weights[k] - (weights[k] * (beyond[k] - mean)) * beta


_LOG2_E = 1 / math.log(2)


def _factored(x):
    """(r, n) with exp(x) = r 2^n, for any x, also -inf."""
    near, power = split_exp(where(x * x < 1e30, x, 0.0))
    # Beyond, a power of two is as exact as x: a multiple of 4, so that it is an integer.
    far = ((x * (_LOG2_E / 4) + ROUNDER) - ROUNDER) * 4.0
    return near, where(x * x < 1e30, power, far)


def _summed(i, above, left, corner, local, row, column, on_corner, after, beta, out, length):
    """The three parts and their sum; `out` gets the sum times exp(-beta after m)."""
    factor, power = _factored(local[i] * (0.0 - beta))
    factors = (row[0], column[0], (factor - 1.0) * on_corner + 1.0)
    powers = (row[1], column[1], where(on_corner > 0.0, power, 0.0))
    ways = (above, left, corner)
    powers = [x[i + length] + p for x, p in zip(ways, powers, strict=True)]
    most = maximum(maximum(powers[0], powers[1]), powers[2])
    # A comparison with NaN, of -inf and -inf, fails: the power of two is 0.
    parts = [
        x[i] * f * power_of_two(maximum(p - most, -1023.0))
        for x, f, p in zip(ways, factors, powers, strict=True)
    ]
    whole = total(parts)
    out[i] = whole * ((factor - 1.0) * after + 1.0)
    out[i + length] = most + where(after > 0.0, power, 0.0)
    return parts, whole


@lanewise
def align_sums(i, above, left, corner, local, row, column, on_corner, after, beta, out, length):
    """As `align` without derivatives, for sums of exp(-beta x) in place of minima.

    A sum is a number times a power of two, whose exponent, -inf for a sum of 0, stands `length`
    places behind it. `row` and `column` are what sums are multiplied by, and exponents.
    """
    _summed(i, above, left, corner, local, row, column, on_corner, after, beta, out, length)


@lanewise
def align_sums_saved(
    i, above, left, corner, local, row, column, on_corner, after, beta, out, length, slopes, stride
):
    """As `align_sums`, with the derivatives of -log(sum) / beta by the first two ways."""
    parts, whole = _summed(
        i, above, left, corner, local, row, column, on_corner, after, beta, out, length
    )
    inverse = where(whole > 0.0, 1.0 / whole, 0.0)
    for k in range(2):
        slopes[i + stride * k] = parts[k] * inverse
