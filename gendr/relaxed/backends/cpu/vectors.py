"""A step of the kernels of alignments, on vectors."""

# Numba runs these functions while it compiles; their arguments are objects of its own.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

import math

from gendr.kernels.numba.vectors import exp, lanewise, minimum, total, where


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
