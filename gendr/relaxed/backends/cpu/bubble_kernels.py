"""The compiled kernels of bubble sort, forward and backward.

`GROUP` rows of the batch are sorted together, one in each lane: a comparison is a few loops over
the lanes and one call of the distribution. The backward pass sorts again and keeps what it needs,
so that the forward pass keeps nothing. A unit of work is a group, so that any number of threads
gives the same bits.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from gendr.kernels.numba.arrays import copy
from gendr.kernels.numba.calls import call_cdf, call_pdf, keep_alive, row
from gendr.kernels.numba.compilation import inner, kernel
from gendr.relaxed.backends.cpu.minimum import LARGE, Decision

GROUP = 32


@inner()
def _load(source, first, out):
    """Fill in out [n, GROUP] with rows of source [B, n]; lanes beyond the last row repeat it."""
    for lane in range(GROUP):
        given = row(source, min(first + lane, len(source) - 1))
        for i in range(source.shape[1]):
            out[i, lane] = given[i]


@register_jitable
def _arguments(difference, beta, z):
    """Fill in z = difference beta, finite."""
    for i in range(GROUP):
        value = difference[i] * beta
        value = value if value < LARGE else LARGE
        z[i] = value if value > -LARGE else -LARGE


@inner()
def _compare(a, b, decision, difference, z, p, q):
    """Fill in difference = b - a, and p and q, the probabilities of a > b and of the opposite."""
    for i in range(GROUP):
        difference[i] = b[i] - a[i]
    _arguments(difference, decision.beta, z)
    call_cdf(decision.tails, z, GROUP, decision.shape, q, p)


@inner()
def _mix(a, b, p, q):
    for i in range(GROUP):
        x, y = a[i], b[i]
        a[i], b[i] = p[i] * y + q[i] * x, p[i] * x + q[i] * y


@kernel()
def forward(x, decision, values, swaps, ordered, start, stop):
    """Fill in values [B, n], swaps [B] and ordered [B] for the groups start .. stop - 1; n >= 2.

    decision is a `Decision`, which has `tails` for the logistic distribution too.
    """
    decision = Decision(*decision)
    batch, n = x.shape
    array, mixed = np.empty((n, GROUP)), np.empty((n, GROUP))
    lanes, scratch = np.empty((8, GROUP)), np.empty((4, GROUP))
    difference, z, p, q = row(scratch, 0), row(scratch, 1), row(scratch, 2), row(scratch, 3)
    count, order, all_swaps, all_order = lanes[0], lanes[1], lanes[2], lanes[3]
    reached, swapped, left, part = lanes[4], lanes[5], lanes[6], lanes[7]
    for group in range(start, stop):
        first = group * GROUP
        _load(x, first, array)
        mixed[:] = 0.0
        count[:] = 0.0
        order[:] = 1.0
        all_swaps[:] = 0.0
        all_order[:] = 0.0
        reached[:] = 1.0
        for last in range(n - 1, 0, -1):
            swapped[:] = 0.0
            left[:] = 1.0
            for i in range(last):
                a, b = row(array, i), row(array, i + 1)
                _compare(a, b, decision, difference, z, p, q)
                _mix(a, b, p, q)
                for k in range(GROUP):
                    swapped[k] = p[k] + q[k] * swapped[k]
                    left[k] *= q[k]
                for k in range(GROUP):
                    order[k] *= q[k]
                    count[k] += p[k]
            for k in range(GROUP):
                part[k] = reached[k] if last == 1 else reached[k] * left[k]
                reached[k] *= swapped[k]
            for i in range(n):
                for k in range(GROUP):
                    mixed[i, k] += part[k] * array[i, k]
            for k in range(GROUP):
                all_swaps[k] += part[k] * count[k]
                all_order[k] += part[k] * order[k]
        for lane in range(min(GROUP, batch - first)):
            for i in range(n):
                values[first + lane, i] = mixed[i, lane]
            swaps[first + lane] = all_swaps[lane]
            ordered[first + lane] = all_order[lane]
    keep_alive((scratch,))


@kernel()
def backward(x, decision, grad_values, grad_swaps, grad_ordered, by_x, by_beta, start, stop):
    """Fill in the gradients of x [B, n] and, for each group, of beta.

    density = 0 stands for the logistic distribution, whose density is p q.
    """
    decision = Decision(*decision)
    batch, n = x.shape
    passes, size = n - 1, n * (n - 1) // 2
    array, g, given = np.empty((n, GROUP)), np.empty((n, GROUP)), np.empty((n, GROUP))
    difference, p, q = np.empty((size, GROUP)), np.empty((size, GROUP)), np.empty((size, GROUP))
    # What was there before each comparison, and after each pass.
    order_before, left_before = np.empty((size, GROUP)), np.empty((size, GROUP))
    after = np.empty((passes, n, GROUP))
    past, lanes = np.empty((5, passes, GROUP)), np.empty((14, GROUP))
    counts, orders, lefts, swappeds, reach = past[0], past[1], past[2], past[3], past[4]
    z, pdf, order, left, count = row(lanes, 0), row(lanes, 1), lanes[2], lanes[3], lanes[4]
    reached, swapped, g_order, g_left = lanes[5], lanes[6], lanes[7], lanes[8]
    g_count, g_reached, beta_parts = lanes[9], lanes[10], lanes[11]
    g_swaps, g_ordered = lanes[12], lanes[13]
    for group in range(start, stop):
        first = group * GROUP
        _load(x, first, array)
        _load(grad_values, first, given)
        for lane in range(GROUP):
            at = min(first + lane, batch - 1)
            g_swaps[lane], g_ordered[lane] = grad_swaps[at], grad_ordered[at]
        order[:] = 1.0
        count[:] = 0.0
        reached[:] = 1.0
        c = 0
        for t in range(passes):
            swapped[:] = 0.0
            left[:] = 1.0
            for i in range(passes - t):
                a, b, here_p, here_q = row(array, i), row(array, i + 1), row(p, c), row(q, c)
                _compare(a, b, decision, row(difference, c), z, here_p, here_q)
                _mix(a, b, here_p, here_q)
                for k in range(GROUP):
                    order_before[c, k] = order[k]
                    left_before[c, k] = left[k]
                    swapped[k] = p[c, k] + q[c, k] * swapped[k]
                    left[k] *= q[c, k]
                    order[k] *= q[c, k]
                    count[k] += p[c, k]
                c += 1
            for i in range(len(array)):
                copy(array[i], after[t, i])
            for k in range(GROUP):
                counts[t, k], orders[t, k], lefts[t, k] = count[k], order[k], left[k]
                swappeds[t, k], reach[t, k] = swapped[k], reached[k]
                reached[k] *= swapped[k]
        g[:] = 0.0
        g_order[:] = 0.0
        g_count[:] = 0.0
        g_reached[:] = 0.0
        beta_parts[:] = 0.0
        for t in range(passes - 1, -1, -1):
            is_last = t == passes - 1
            for k in range(GROUP):
                # The part of this pass: its gradient, and what it hands to the state.
                by_part = g_swaps[k] * counts[t, k] + g_ordered[k] * orders[t, k]
                for i in range(n):
                    by_part += given[i, k] * after[t, i, k]
                part = reach[t, k] if is_last else reach[t, k] * lefts[t, k]
                for i in range(n):
                    g[i, k] += part * given[i, k]
                g_count[k] += part * g_swaps[k]
                g_order[k] += part * g_ordered[k]
                if is_last:
                    g_left[k] = 0.0
                    g_reached[k] = by_part
                else:
                    # swapped = 1 - left
                    g_left[k] = reach[t, k] * (by_part - g_reached[k])
                    g_reached[k] = by_part * lefts[t, k] + g_reached[k] * swappeds[t, k]
            for i in range(passes - t - 1, -1, -1):
                c -= 1
                if decision.density == 0:
                    for k in range(GROUP):
                        pdf[k] = p[c, k] * q[c, k]
                else:
                    _arguments(row(difference, c), decision.beta, z)
                    call_pdf(decision.density, z, GROUP, decision.shape, pdf)
                for k in range(GROUP):
                    d, gi, gj = difference[c, k], g[i, k], g[i + 1, k]
                    by_q = d * (gj - gi) - g_count[k]
                    by_q += g_order[k] * order_before[c, k] + g_left[k] * left_before[c, k]
                    by_d = by_q * pdf[k] * decision.beta
                    beta_parts[k] += by_q * pdf[k] * d
                    g[i, k] = q[c, k] * gi + p[c, k] * gj - by_d
                    g[i + 1, k] = p[c, k] * gi + q[c, k] * gj + by_d
                    g_order[k] *= q[c, k]
                    g_left[k] *= q[c, k]
        by_beta[group] = 0.0
        for lane in range(min(GROUP, batch - first)):
            for i in range(n):
                by_x[first + lane, i] = g[i, lane]
            by_beta[group] += beta_parts[lane]
