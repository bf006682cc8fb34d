"""The compiled kernels of ranks that are sums of comparisons: each pair present once.

Of a symmetric distribution F(-d) is 1 - F(d), so that a pair is one call for both. Arithmetic is
float64, distributions are called by address on the pairs of an entry with all after it, and a
kernel works on a range of lists to which no other thread writes.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import numpy as np

from gendr.kernels.numba.calls import call_cdf, call_pdf, pointer
from gendr.kernels.numba.compilation import inner, kernel

_MOST = np.finfo(np.float64).max


@inner()
def _present(counted, places):
    """How many entries of a list are present; their places are filled in."""
    m = 0
    for i in range(len(counted)):
        if counted[i] > 0.0:
            places[m] = i
            m += 1
    return m


@inner()
def _differences(x, places, first, m, steepness, u):
    """Fill in steepness (x_i - x_j), for an entry i and all after it that are present."""
    for k in range(first + 1, m):
        d = steepness * (x[places[first]] - x[places[k]])
        u[k] = min(max(d, -_MOST), _MOST)  # a distribution of an infinity may be NaN


@kernel()
def ranks(x, counted, steepness, tails, found, start, stop):
    """Fill in the ranks [B, n] of lists start .. stop - 1 of x [B, n]: 1 for the largest."""
    n = x.shape[1]
    u, cdf, sf = np.empty(n + 1), np.empty(n + 1), np.empty(n + 1)
    places, sums = np.empty(n, np.int64), np.empty(n)
    for row in range(start, stop):
        m = _present(counted[row], places)
        sums[:] = 1.0
        for i in range(m - 1):
            _differences(x[row], places, i, m, steepness, u)
            rest = i + 1
            call_cdf(
                tails, pointer(u[rest:]), m - rest, 0.0, pointer(cdf[rest:]), pointer(sf[rest:])
            )
            for k in range(rest, m):
                sums[k] += cdf[k]
                sums[i] += sf[k]
        found[row] = 1.0
        for k in range(m):
            found[row, places[k]] = sums[k]


@kernel()
def ranks_back(x, counted, steepness, density, grad, by_x, by_steepness, start, stop):
    """From the gradient of ranks [B, n]: those of x [B, n], and each list's part of steepness."""
    n = x.shape[1]
    u, pdf = np.empty(n + 1), np.empty(n + 1)
    places, sums = np.empty(n, np.int64), np.empty(n)
    for row in range(start, stop):
        m = _present(counted[row], places)
        sums[:], total = 0.0, 0.0
        for i in range(m - 1):
            _differences(x[row], places, i, m, steepness, u)
            rest = i + 1
            call_pdf(density, pointer(u[rest:]), m - rest, 0.0, pointer(pdf[rest:]))
            for k in range(rest, m):
                slope = pdf[k] * (grad[row, places[k]] - grad[row, places[i]])
                total += slope * u[k] / steepness
                sums[i] += slope * steepness
                sums[k] -= slope * steepness
        by_x[row], by_steepness[row] = 0.0, total
        for k in range(m):
            by_x[row, places[k]] = sums[k]
