"""The relaxed arg min and min inside kernels: rows of candidates, one lane for every decision.

The mathematics is in `gendr.relaxed.algorithms.minimum`. Loops run over lanes without branches, so
that LLVM vectorises them.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from gendr.kernels.numba.calls import call_cdf, call_pdf, pointer
from gendr.kernels.numba.compilation import inner
from gendr.kernels.numba.mathematics import exp

LARGE = 1e300  # as far as a distribution is asked


class Decision(NamedTuple):
    """How decisions are taken; kernels get it as a plain tuple.

    Attributes:
        beta: the steepness.
        tails: the address of the compiled cdf and sf of a distribution; 0 for one whose odds are
            exp(-z), for which the weights are a softmax.
        density: the address of its compiled density, likewise.
        shape: its parameter.
    """

    beta: Any
    tails: Any
    density: Any
    shape: Any


class Candidates(NamedTuple):
    """K candidates for each of up to n decisions, and what is found out about them.

    Attributes:
        x: [K, n], the candidates; inf for "not reached".
        w: [K, n], their weights; 0 where nothing is reached.
        by_x, by_w: [K, n], the gradients of these.
        low: [n], the smallest candidate; 0 where nothing is reached.
        total: [n], the sum of the odds; 0 where nothing is reached.
        value: [n], the relaxed minimum; inf where nothing is reached.
        by_value: [n], its gradient.
        by_beta: [n], the gradient of beta.
        z, q, moved, mean, work: scratch.
    """

    x: Any
    w: Any
    by_x: Any
    by_w: Any
    low: Any
    total: Any
    value: Any
    by_value: Any
    by_beta: Any
    z: Any
    q: Any
    moved: Any
    mean: Any
    work: Any


@register_jitable
def candidates(count, n):
    """Room for `count` candidates of n decisions."""
    a, b = np.empty((4, count, n)), np.empty((11, n))
    return Candidates(
        a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9:]
    )


@register_jitable
def _arguments(row, n, low, beta, z):
    """Fill in z = (x - low) beta, finite."""
    for i in range(n):
        value = (row[i] - low[i]) * beta
        z[i] = value if value < LARGE else LARGE


@inner()
def odds_of(z, n, tails, shape, work, out):
    """Fill in the odds sf(z) / cdf(z) for finite z >= 0; work [2, n] is scratch."""
    if tails == 0:
        for i in range(n):
            out[i] = exp(-z[i])
        return
    cdf, sf = work[0], work[1]
    call_cdf(tails, pointer(z), n, shape, pointer(cdf), pointer(sf))
    for i in range(n):
        out[i] = 1.0 if z[i] == 0.0 else sf[i] / cdf[i]


@register_jitable
def slope_of(weight, total, pdf):
    """The derivative by z of odds, weight times total, divided by the total."""
    odds = weight * total  # sf / cdf; cdf = 1 / (1 + odds)
    return -pdf * (1.0 + odds) * (1.0 + odds) / total


@inner()
def weigh(c, n, decision):
    """Fill in the weights, the smallest candidates and the sums of the odds of n decisions."""
    low, total, z = c.low, c.total, c.z
    low[:n] = math.inf
    for k in range(len(c.x)):
        row = c.x[k]
        for i in range(n):
            low[i] = min(low[i], row[i])
    for i in range(n):
        low[i] = low[i] if low[i] < math.inf else 0.0
    total[:n] = 0.0
    for k in range(len(c.x)):
        row, out = c.x[k], c.w[k]
        if decision.tails == 0:  # in one loop
            for i in range(n):
                odds = exp((low[i] - row[i]) * decision.beta)
                out[i] = odds if row[i] < math.inf else 0.0
        else:
            _arguments(row, n, low, decision.beta, z)
            odds_of(z, n, decision.tails, decision.shape, c.work, out)
            for i in range(n):
                out[i] = out[i] if row[i] < math.inf else 0.0
        for i in range(n):
            total[i] += out[i]
    for i in range(n):
        z[i] = 1.0 / total[i] if total[i] > 0.0 else 0.0
    for k in range(len(c.x)):
        out = c.w[k]
        for i in range(n):
            out[i] *= z[i]


@inner()
def smallest(c, n):
    """Fill in the relaxed minima from what `weigh` filled in."""
    low, total, value = c.low, c.total, c.value
    value[:n] = 0.0
    for k in range(len(c.x)):
        row, weights = c.x[k], c.w[k]
        for i in range(n):
            beyond = row[i] - low[i]
            value[i] += weights[i] * (beyond if beyond < math.inf else 0.0)
    for i in range(n):
        value[i] = value[i] + low[i] if total[i] > 0.0 else math.inf


@inner()
def _slopes(c, k, n, decision):
    """Fill in q, the derivative of the odds of candidate k by z, divided by the total."""
    row, weights, q = c.x[k], c.w[k], c.q
    if decision.density == 0:
        for i in range(n):
            q[i] = -weights[i]
        return
    pdf, total = c.work[0], c.total
    _arguments(row, n, c.low, decision.beta, c.z)
    call_pdf(decision.density, pointer(c.z), n, decision.shape, pointer(pdf))
    for i in range(n):
        q[i] = slope_of(weights[i], total[i], pdf[i]) if row[i] < math.inf else 0.0


@inner()
def minimum_backward(c, n, decision, with_weights):
    """Fill in the gradients of the candidates, after `smallest`, and add to that of beta.

    They follow from those of the minima and, if `with_weights`, those of the weights.
    """
    g, low, value, by_beta, z = c.by_value, c.low, c.value, c.by_beta, c.z
    q, moved, mean = c.q, c.moved, c.mean
    mean[:n] = 0.0
    moved[:n] = 0.0
    if with_weights:
        for k in range(len(c.x)):
            weights, given = c.w[k], c.by_w[k]
            for i in range(n):
                mean[i] += weights[i] * given[i]
    for k in range(len(c.x)):
        row, weights, out = c.x[k], c.w[k], c.by_x[k]
        _slopes(c, k, n, decision)
        for i in range(n):
            beyond = row[i] - value[i]
            a = g[i] * (beyond if beyond < math.inf else 0.0) - mean[i]
            out[i] = q[i] * a
        if with_weights:
            given = c.by_w[k]
            for i in range(n):
                out[i] += q[i] * given[i]
        for i in range(n):
            beyond = row[i] - low[i]
            by_beta[i] += out[i] * (beyond if beyond < math.inf else 0.0)
            out[i] *= decision.beta
            moved[i] += out[i]
            out[i] += g[i] * weights[i]
    if decision.density == 0:  # a softmax does not change when all candidates move
        return
    z[:n] = 0.0
    for k in range(len(c.x)):
        row = c.x[k]
        for i in range(n):
            z[i] += 1.0 if row[i] == low[i] else 0.0
    for k in range(len(c.x)):
        row, out = c.x[k], c.by_x[k]
        for i in range(n):
            share = moved[i] / z[i] if row[i] == low[i] else 0.0
            out[i] -= share
