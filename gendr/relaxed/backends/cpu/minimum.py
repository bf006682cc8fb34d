"""The relaxed arg min and min inside kernels: rows of candidates, one lane for every decision.

Candidates are x [K, n]: K values for each of n decisions, inf for "not reached"; the mathematics is
in `gendr.relaxed.algorithms.minimum`. Loops run over lanes without branches, so that LLVM
vectorises them. `tails` and `density` are the addresses of a law's compiled functions; `tails` = 0
stands for a law whose odds are exp(-z), for which the weights are a softmax.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math

from numba import njit
from numba.extending import register_jitable

from gendr._runtime.numba.calls import call_cdf, call_pdf, pointer
from gendr._runtime.numba.compilation import announce_compilation, ensure_cache
from gendr._runtime.numba.mathematics import exp, log1p

ensure_cache()
announce_compilation(__name__)

OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}
LARGE = 1e300  # as far as a law is asked


@register_jitable
def _lowest(x, n, low):
    """Fill in the smallest candidate of each decision; 0 where nothing is reached."""
    low[:n] = math.inf
    for k in range(len(x)):
        row = x[k]
        for i in range(n):
            low[i] = min(low[i], row[i])
    for i in range(n):
        low[i] = low[i] if low[i] < math.inf else 0.0


@register_jitable
def _arguments(row, n, low, beta, z):
    """Fill in z = (x - low) beta, finite."""
    for i in range(n):
        value = (row[i] - low[i]) * beta
        z[i] = value if value < LARGE else LARGE


@njit(**OPTIONS)
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


@njit(**OPTIONS)
def weigh(x, n, beta, tails, shape, w, low, total, z, work):
    """Fill in the weights w [K, n], the smallest candidates, and the sums of the odds.

    z [n] and work [2, n] are scratch. The total is 0 where nothing is reached, and so are weights.
    """
    _lowest(x, n, low)
    total[:n] = 0.0
    for k in range(len(x)):
        row, out = x[k], w[k]
        if tails == 0:  # in one loop
            for i in range(n):
                odds = exp((low[i] - row[i]) * beta)
                out[i] = odds if row[i] < math.inf else 0.0
        else:
            _arguments(row, n, low, beta, z)
            odds_of(z, n, tails, shape, work, out)
            for i in range(n):
                out[i] = out[i] if row[i] < math.inf else 0.0
        for i in range(n):
            total[i] += out[i]
    for i in range(n):
        z[i] = 1.0 / total[i] if total[i] > 0.0 else 0.0
    for k in range(len(x)):
        out = w[k]
        for i in range(n):
            out[i] *= z[i]


@njit(**OPTIONS)
def smallest(x, n, beta, log_sum_exp, w, low, total, value):
    """Fill in the relaxed minima from what `weigh` filled in; inf where nothing is reached."""
    if log_sum_exp:
        for i in range(n):
            # The total is at least 1, the odds of the smallest candidate.
            value[i] = low[i] - log1p(total[i] - 1.0) / beta if total[i] > 0.0 else math.inf
        return
    value[:n] = 0.0
    for k in range(len(x)):
        row, weights = x[k], w[k]
        for i in range(n):
            beyond = row[i] - low[i]
            value[i] += weights[i] * (beyond if beyond < math.inf else 0.0)
    for i in range(n):
        value[i] = value[i] + low[i] if total[i] > 0.0 else math.inf


@njit(**OPTIONS)
def _slopes(row, n, beta, density, shape, weights, low, total, z, work, q):
    """Fill in q, the derivative of the odds with respect to z, divided by the total."""
    if density == 0:
        for i in range(n):
            q[i] = -weights[i]
        return
    pdf = work[0]
    _arguments(row, n, low, beta, z)
    call_pdf(density, pointer(z), n, shape, pointer(pdf))
    for i in range(n):
        q[i] = slope_of(weights[i], total[i], pdf[i]) if row[i] < math.inf else 0.0


@njit(**OPTIONS)
def pull(
    x, n, beta, density, shape, log_sum_exp, w, low, total, value, g, gw, with_weights, gx,
    by_beta, z, work, q, moved, mean,
):  # fmt: skip
    """Fill in gx [K, n], the gradients of the candidates, and add to by_beta [n], of beta.

    g [n] is the gradient of the minima, gw [K, n] that of the weights, read if `with_weights`. The
    other arrays are those of `weigh` and `smallest`, and scratch: z, q, moved, mean [n].
    """
    if log_sum_exp:  # the weights are its gradient
        for k in range(len(x)):
            row, weights, out = x[k], w[k], gx[k]
            for i in range(n):
                beyond = row[i] - value[i]
                beyond = beyond if beyond < math.inf else 0.0
                out[i] = g[i] * weights[i]
                by_beta[i] += out[i] * beyond / beta
        return
    mean[:n] = 0.0
    moved[:n] = 0.0
    if with_weights:
        for k in range(len(x)):
            weights, given = w[k], gw[k]
            for i in range(n):
                mean[i] += weights[i] * given[i]
    for k in range(len(x)):
        row, weights, out = x[k], w[k], gx[k]
        _slopes(row, n, beta, density, shape, weights, low, total, z, work, q)
        for i in range(n):
            beyond = row[i] - value[i]
            a = g[i] * (beyond if beyond < math.inf else 0.0) - mean[i]
            out[i] = q[i] * a
        if with_weights:
            given = gw[k]
            for i in range(n):
                out[i] += q[i] * given[i]
        for i in range(n):
            beyond = row[i] - low[i]
            by_beta[i] += out[i] * (beyond if beyond < math.inf else 0.0)
            out[i] *= beta
            moved[i] += out[i]
            out[i] += g[i] * weights[i]
    if density == 0:  # a softmax does not change when all candidates move
        return
    z[:n] = 0.0
    for k in range(len(x)):
        row = x[k]
        for i in range(n):
            z[i] += 1.0 if row[i] == low[i] else 0.0
    for k in range(len(x)):
        row, out = x[k], gx[k]
        for i in range(n):
            share = moved[i] / z[i] if row[i] == low[i] else 0.0
            out[i] -= share
