"""The Triton kernels of the membership mask: the threshold, the mask, and its gradients.

The search is that of `gendr.topk.backends.cpu.mask_kernels`, but for its bracket, which grows from
the ends of a row. A program works on a row. Sums are float64; distributions are evaluated in
float32, at u = sign (x - b) / scale + shift, and cdf and sf change places if sign is -1.
"""

# Triton compiles these functions; their arguments are blocks and pointers.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import triton
import triton.language as tl

# Relative errors of the sum: float32 has no more digits, and errors below the second that do not
# shrink any more are those of rounding.
_TOLERANCE: tl.constexpr = tl.constexpr(5e-8)
_NOISE: tl.constexpr = tl.constexpr(2e-6)
_STEPS: tl.constexpr = tl.constexpr(100)


@triton.jit
def argument_at(x, b, inverse, sign, shift):
    """Where the distribution is evaluated; differences are those of float64."""
    z = (x.to(tl.float64) - b) * inverse
    return (z * sign + shift).to(tl.float32)


@triton.jit
def sums_at(
    x, b, inverse, sign, shift, shape, constant, n,
    CDF: tl.constexpr, PDF: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The sums of F, of 1 - F and of the density over a row."""
    lane = tl.arange(0, BLOCK)
    zero = tl.zeros([BLOCK], tl.float64)
    inside, outside, slope, i = zero, zero, zero, 0
    while i < n:
        valid = i + lane < n
        u = argument_at(tl.load(x + i + lane, valid, 0.0), b, inverse, sign, shift)
        cdf, sf = CDF(u, shape, constant)
        inside += tl.where(valid, cdf, 0.0).to(tl.float64)
        outside += tl.where(valid, sf, 0.0).to(tl.float64)
        slope += tl.where(valid, PDF(u, shape, constant), 0.0).to(tl.float64)
        i += BLOCK
    a, s = tl.sum(inside, 0), tl.sum(outside, 0)
    return tl.where(sign > 0.0, a, s), tl.where(sign > 0.0, s, a), tl.sum(slope, 0)


@triton.jit(do_not_specialize=["sign", "shift", "shape", "constant", "n"])
def mask(
    x, ks, scales, p, thresholds, sign, shift, shape, constant, n,
    CDF: tl.constexpr, PDF: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """P [rows, n] and thresholds [rows] of rows of x [rows, n]; ks, scales [rows] are float64."""
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    x += row * n
    p += row * n
    k, scale = tl.load(ks + row), tl.load(scales + row)
    inverse, least, most, i, bad = 1.0 / scale, float("inf"), -float("inf"), 0, 0
    while i < n:
        values = tl.load(x + i + lane, i + lane < n, 0.0)
        least = tl.minimum(least, tl.min(tl.where(i + lane < n, values, float("inf")), 0))
        bad += tl.sum((values - values != 0.0).to(tl.int32), 0)
        most = tl.maximum(most, tl.max(tl.where(i + lane < n, values, -float("inf")), 0))
        i += BLOCK
    low, high = tl.cast(least, tl.float64), tl.cast(most, tl.float64)
    b = 0.5 * low + 0.5 * high
    reach = scale + (high - low)
    best, error, smallest = b, reach * 0.0 + float("inf"), reach * 0.0 + float("inf")
    is_below, is_above, step = 0, 0, 0  # whether ends of the bracket are known
    while step < _STEPS:
        inside, outside, slope = sums_at(
            x, b, inverse, sign, shift, shape, constant, n, CDF, PDF, BLOCK
        )
        before = tl.abs(error)
        # Sums that vanish are infinitely far off, in a direction that is known.
        error = tl.log(inside / k) - tl.log(outside / (n - k))
        error = tl.where(inside <= 0.0, -float("inf"), error)
        error = tl.where(outside <= 0.0, float("inf"), error)
        closer = tl.abs(error) < smallest
        best = tl.where(closer, b, best)
        smallest = tl.where(closer, tl.abs(error), smallest)
        low = tl.where(error > 0.0, b, low)
        is_below = tl.where(error > 0.0, 1, is_below)
        high = tl.where(error > 0.0, high, b)
        is_above = tl.where(error > 0.0, is_above, 1)
        rate = slope * inverse * (1.0 / inside + 1.0 / outside)
        after = b + error / rate
        is_slow = tl.abs(error) > 0.5 * before
        known = (is_below > 0) & (is_above > 0)
        # Without the other end the step doubles; with it, bad ones halve the bracket.
        far = tl.where(error > 0.0, b + reach, b - reach)
        reach = tl.where(known, reach, 2.0 * reach)
        between = known & (low < after) & (after < high) & (is_slow == 0)
        near = (known == 0) & (slope > 0.0) & (tl.abs(after - b) < tl.abs(far - b))
        after = tl.where(between | near, after, tl.where(known, 0.5 * low + 0.5 * high, far))
        is_done = (tl.abs(error) <= _TOLERANCE) | (is_slow & (before <= _NOISE)) | (after == b)
        step = tl.where(is_done, _STEPS, step + 1)
        b = after
    best = tl.where(bad > 0, float("nan"), best)
    tl.store(thresholds + row, best)
    i = 0
    while i < n:
        valid = i + lane < n
        u = argument_at(tl.load(x + i + lane, valid, 0.0), best, inverse, sign, shift)
        cdf, sf = CDF(u, shape, constant)
        found = tl.where(sign > 0.0, cdf, sf)
        tl.store(p + i + lane, tl.where(bad > 0, float("nan"), found), valid)
        i += BLOCK


@triton.jit(do_not_specialize=["sign", "shift", "shape", "constant", "n"])
def mask_back(
    x, thresholds, scales, grads, of_x, of_scale, of_k, sign, shift, shape, constant, n,
    PDF: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of x [rows, n], scale and k [rows], from that of p; see the CPU's kernel."""
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    x += row * n
    grads += row * n
    of_x += row * n
    b, scale = tl.load(thresholds + row), tl.load(scales + row)
    inverse = 1.0 / scale
    zero = tl.zeros([BLOCK], tl.float64)
    weight, product, i = zero, zero, 0
    while i < n:
        valid = i + lane < n
        u = argument_at(tl.load(x + i + lane, valid, 0.0), b, inverse, sign, shift)
        w = tl.where(valid, PDF(u, shape, constant), 0.0).to(tl.float64)
        weight += w
        product += w * tl.load(grads + i + lane, valid, 0.0).to(tl.float64)
        i += BLOCK
    whole = tl.sum(weight, 0)
    mean = tl.where(whole > 0.0, tl.sum(product, 0) / tl.where(whole > 0.0, whole, 1.0), 0.0)
    total, i = zero, 0
    while i < n:
        valid = i + lane < n
        value = tl.load(x + i + lane, valid, 0.0)
        u = argument_at(value, b, inverse, sign, shift)
        w = tl.where(valid, PDF(u, shape, constant), 0.0).to(tl.float64)
        g = w * (tl.load(grads + i + lane, valid, 0.0).to(tl.float64) - mean)
        tl.store(of_x + i + lane, (g * inverse).to(of_x.dtype.element_ty), valid)
        total += g * ((value.to(tl.float64) - b) * inverse)
        i += BLOCK
    tl.store(of_k + row, mean)
    tl.store(of_scale + row, -tl.sum(total, 0) * inverse)
