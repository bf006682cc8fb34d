"""The compiled kernels of the membership mask: the threshold, the mask, and its gradients.

A kernel works on a range of rows to which no other thread writes. Arithmetic is float64, whatever
the dtype of the input. Distributions are called by address on blocks of values that stay in the
nearest cache; they are evaluated at u = sign z + shift, and cdf and sf change places if sign is -1,
for a reversed distribution.

A row is passed over once for every step of the search and twice for its gradient. Long rows are
searched in a sample first, every 64th of their values, whose threshold is near that of all.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math

import numpy as np

from gendr.kernels.numba.calls import call_cdf, call_pdf, pointer
from gendr.kernels.numba.compilation import inner, kernel

# Lets LLVM sum in any order, so that it can vectorise: each lane has a sum of its own.
_ANY_ORDER = {"reassoc", "contract"}
BLOCK = 512  # values per call of a distribution: six arrays of them fit in the L1 cache
STRIDE = 64
LONG = 128 * STRIDE  # rows from this length on are searched in a sample first
_NOISE = 1e-7  # errors that are that small and do not shrink any more are those of rounding
LIMIT = 300  # steps of the search; about 110 in the worst case, usually 4 to 8


@inner(fastmath=_ANY_ORDER)
def _sum(values, count):
    total = 0.0
    for i in range(count):
        total += values[i]
    return total


@inner(fastmath=_ANY_ORDER)
def _dot(a, b, count):
    total = 0.0
    for i in range(count):
        total += a[i] * b[i]
    return total


@inner()
def _arguments(x, first, step, count, b, inverse, sign, shift, u):
    """Fill in u = sign (x - b) inverse + shift for every `step`-th of x from `first` on."""
    factor = sign * inverse
    if step == 1:
        for i in range(count):
            u[i] = (x[first + i] - b) * factor + shift
    else:
        for i in range(count):
            u[i] = (x[first + i * step] - b) * factor + shift


@inner()
def _sums(x, step, b, inverse, sign, shift, tails, density, shape, buffers):
    """The sums of F, of 1 - F and of the density at (x - b) inverse, over every `step`-th of x."""
    u, cdf, sf, pdf = buffers[0], buffers[1], buffers[2], buffers[3]
    inside, outside, slope = 0.0, 0.0, 0.0
    for first in range(0, len(x), BLOCK * step):
        count = min(BLOCK, (len(x) - first + step - 1) // step)
        _arguments(x, first, step, count, b, inverse, sign, shift, u)
        call_cdf(tails, pointer(u), count, shape, pointer(cdf), pointer(sf))
        call_pdf(density, pointer(u), count, shape, pointer(pdf))
        inside += _sum(cdf, count)
        outside += _sum(sf, count)
        slope += _sum(pdf, count)
    return (inside, outside, slope) if sign > 0.0 else (outside, inside, slope)


@inner()
def _search(x, step, k, b, low, high, tolerance, inverse, sign, shift, tails, density, shape, work):
    """The b of low .. high at which the sum of F over every `step`-th of x is k.

    Newton's method on the logarithm of the odds, the sum of F over that of 1 - F, which is nearly
    straight in both tails. If a step does not halve the error, the bracket is halved instead.
    """
    m = (len(x) + step - 1) // step
    error, last = math.inf, b
    for _ in range(LIMIT):
        inside, outside, slope = _sums(
            x, step, b, inverse, sign, shift, tails, density, shape, work
        )
        before = abs(error)
        error = math.log(inside / k) - math.log(outside / (m - k))
        rate = slope * inverse * (1.0 / inside + 1.0 / outside)
        if error > 0.0:
            low = b
        else:
            high = b
        if abs(error) <= tolerance:
            return b
        is_slow = abs(error) > 0.5 * before
        if is_slow and before <= _NOISE:
            return last
        after = b + error / rate
        if is_slow or not low < after < high:  # true for NaN, from 0 / 0, too
            after = 0.5 * low + 0.5 * high
        if after == b or not low < high:
            return b
        last, b = b, after
    return b


@kernel()
def mask(
    x, k, scale, quantile, tolerance, sign, shift, tails, density, shape, p, thresholds, start, stop
):
    """Fill in p [rows, n] and thresholds [rows] for the rows start .. stop - 1 of x [rows, n].

    k, scale and quantile are [rows]; the last is the argument at which the distribution is k / n,
    which gives the threshold if all values are equal, and so a bracket. `tails` and `density` are
    the addresses of the distribution.
    """
    n = x.shape[1]
    work = np.empty((4, BLOCK))
    u, cdf, sf = work[0], work[1], work[2]
    for row in range(start, stop):
        values, inverse = x[row], 1.0 / scale[row]
        least, most = np.float64(values[0]), np.float64(values[0])
        for i in range(n):
            least, most = min(least, np.float64(values[i])), max(most, np.float64(values[i]))
        low, high = least - scale[row] * quantile[row], most - scale[row] * quantile[row]
        b = 0.5 * low + 0.5 * high
        if n >= LONG:
            sample = (n + STRIDE - 1) // STRIDE
            b = _search(
                values, STRIDE, k[row] * sample / n, b, low, high, 1e-3, inverse, sign, shift,
                tails, density, shape, work,
            )  # fmt: skip
        b = _search(
            values, 1, k[row], b, low, high, tolerance, inverse, sign, shift, tails, density,
            shape, work,
        )  # fmt: skip
        thresholds[row] = b
        for first in range(0, n, BLOCK):
            count = min(BLOCK, n - first)
            _arguments(values, first, 1, count, b, inverse, sign, shift, u)
            call_cdf(tails, pointer(u), count, shape, pointer(cdf), pointer(sf))
            part = cdf if sign > 0.0 else sf
            for i in range(count):
                p[row, first + i] = part[i]


@kernel()
def mask_back(
    x, thresholds, scale, grad, sign, shift, density, shape, grad_x, grad_scale, grad_k,
    start, stop,
):  # fmt: skip
    """Fill in the gradients of x [rows, n], scale and k [rows], from that of p.

    With w the densities: dp = w (dx - db - z dscale) / scale, and db is such that the sum of dp is
    dk. So the gradient of x is w / scale times what grad is above its mean under w, and that mean
    is the gradient of k. Where no value lies within the support of the density, all are 0.
    """
    n = x.shape[1]
    work = np.empty((3, BLOCK))
    u, w, g = work[0], work[1], work[2]
    for row in range(start, stop):
        b, inverse = thresholds[row], 1.0 / scale[row]
        weight, mean = 0.0, 0.0
        for first in range(0, n, BLOCK):
            count = min(BLOCK, n - first)
            _arguments(x[row], first, 1, count, b, inverse, sign, shift, u)
            call_pdf(density, pointer(u), count, shape, pointer(w))
            for i in range(count):
                g[i] = grad[row, first + i]
                grad_x[row, first + i] = w[i]
            weight += _sum(w, count)
            mean += _dot(w, g, count)
        mean = mean / weight if weight > 0.0 else 0.0
        total = 0.0
        for first in range(0, n, BLOCK):
            count = min(BLOCK, n - first)
            for i in range(count):
                g[i] = grad_x[row, first + i] * (grad[row, first + i] - mean)
                grad_x[row, first + i] = g[i] * inverse
                u[i] = (x[row, first + i] - b) * inverse
            total += _dot(g, u, count)
        grad_k[row] = mean
        grad_scale[row] = -total * inverse
