"""The compiled kernels of shortest paths through grids, forward and backward.

A map is stored row by row with a border of one cell, whose cost is inf, and one number before and
after it: the neighbours of all cells are then reached by constant offsets, and a sweep is a few
loops over whole rows. While the sweeps spread out from the start, only the rows reached take part.

A softmax needs no exponential per neighbour: exp(-beta d) of every cell is written as r 2^p, and
the weight of a neighbour is its r times a power of 2, relative to the largest p around. The error
of beta d is that of the weights, so this is done up to `_FAR`.

A unit of work is a map, so that any number of threads gives the same bits. The backward pass needs
the distances of all sweeps: they are kept by the forward pass if there is room, else computed
again; the weights are always computed again.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numba.extending import register_jitable

from gendr._runtime.numba.compilation import announce_compilation, ensure_cache
from gendr._runtime.numba.mathematics import power_of_two, split_exp
from gendr.relaxed.backends.cpu.minimum import OPTIONS, pull, smallest, weigh

ensure_cache()
announce_compilation(__name__)

_SAME = 4.5e-16  # sweeps that change no distance by more than this part of it change nothing
_FAR = 8192.0  # the largest |beta d| of split exponentials: weights are within 2e-12
_GONE = 1e-20  # where less than this of the walk is, nothing is


@register_jitable
def padded_size(height, width):
    """The length of a map with its border."""
    return (height + 2) * (width + 2) + 2


@register_jitable
def _first(width):
    """The place of the start, cell (0, 0)."""
    return 1 + (width + 2) + 1


@register_jitable
def _padded(values, outside, out):
    """Fill in the map of values [H, W]."""
    height, width = values.shape
    out[:] = outside
    for i in range(height):
        at = 1 + (i + 1) * (width + 2) + 1
        out[at : at + width] = values[i]


@register_jitable
def _unpadded(source, out):
    height, width = out.shape
    for i in range(height):
        at = 1 + (i + 1) * (width + 2) + 1
        out[i] = source[at : at + width]


@register_jitable
def _candidates(distance, low, high, offsets, x):
    """Fill in x [K, n], the distances of the neighbours of the cells low .. high - 1."""
    for k in range(len(offsets)):
        row, source = x[k], distance[low + offsets[k] : high + offsets[k]]
        for i in range(high - low):
            row[i] = source[i]


@register_jitable
def _last_row(sweep, height):
    """One past the last row that sweep 1, 2, .. can reach."""
    return min(height, sweep + 1)


@njit(**OPTIONS)
def _split(distance, beta, r, p):
    """Fill in r, p with exp(-beta d) = r 2^p; whether all d are near enough. Beyond inf r is 0."""
    far = 0.0
    for i in range(len(distance)):
        d = distance[i] if distance[i] < math.inf else 0.0
        far = max(far, abs(d))
    if not far * beta <= _FAR:
        return False
    for i in range(len(distance)):
        reached = distance[i] < math.inf
        d = distance[i] if reached else 0.0
        factor, power = split_exp(-beta * d)  # pyright: ignore
        r[i] = factor if reached else 0.0
        p[i] = power if reached else -1e6
    return True


@njit(**OPTIONS)
def _softmax(distance, begin, n, offsets, r, p, w, top, total, value):
    """Fill in the weights [K, n] and the expected distances of the neighbours, from `_split`."""
    top[:n] = -1e6
    total[:n] = 0.0
    value[:n] = 0.0
    for k in range(len(offsets)):
        power = p[begin + offsets[k] : begin + n + offsets[k]]
        for i in range(n):
            top[i] = max(top[i], power[i])
    for k in range(len(offsets)):
        out = w[k]
        power = p[begin + offsets[k] : begin + n + offsets[k]]
        factor = r[begin + offsets[k] : begin + n + offsets[k]]
        for i in range(n):
            out[i] = factor[i] * power_of_two(power[i] - top[i])
            total[i] += out[i]
    for i in range(n):
        top[i] = 1.0 / total[i] if total[i] > 0.0 else 0.0
    for k in range(len(offsets)):
        out, x = w[k], distance[begin + offsets[k] : begin + n + offsets[k]]
        for i in range(n):
            out[i] *= top[i]
            value[i] += out[i] * (x[i] if x[i] < math.inf else 0.0)
    for i in range(n):
        value[i] = value[i] if total[i] > 0.0 else math.inf


@njit(**OPTIONS)
def _pull_softmax(
    distance, begin, n, offsets, beta, w, value, g, gw, with_weights, by_beta, following, mean
):
    """Add the gradients of the distances to `following` [N], and of beta to by_beta [n].

    g [n] is the gradient of the expected distances, gw [K, n] that of the weights.
    """
    mean[:n] = 0.0
    if with_weights:
        for k in range(len(offsets)):
            weights, given = w[k], gw[k]
            for i in range(n):
                mean[i] += weights[i] * given[i]
    for k in range(len(offsets)):
        weights, given = w[k], gw[k]
        x = distance[begin + offsets[k] : begin + n + offsets[k]]
        target = following[begin + offsets[k] : begin + n + offsets[k]]
        for i in range(n):
            beyond = x[i] - value[i]
            beyond = beyond if beyond < math.inf else 0.0
            a = g[i] * beyond - mean[i]
            if with_weights:
                a += given[i]
            a *= weights[i]
            by_beta[i] -= a * beyond
            target[i] += g[i] * weights[i] - beta * a


@njit(**OPTIONS)
def _expected(before, begin, n, beta, tails, shape, offsets, scratch, lanes):
    """Fill in the weights and the expected distances of one sweep; whether by `_softmax`."""
    x, w, work = scratch
    low, total, value, z = lanes[0], lanes[1], lanes[2], lanes[3]
    r, p = work[0], work[1]
    if tails == 0 and _split(before, beta, r, p):
        _softmax(before, begin, n, offsets, r, p, w, low, total, value)
        return True
    _candidates(before, begin, begin + n, offsets, x)
    weigh(x, n, beta, tails, shape, w, low, total, z, work)
    smallest(x, n, beta, False, w, low, total, value)
    return False


@njit(**OPTIONS)
def _sweeps(costs, beta, tails, shape, offsets, iterations, least, history, scratch, lanes):
    """Run the sweeps over the map `costs` and return how many; history[t] is d after sweep t.

    A history of two rows keeps the last two. The distances before the last sweep are then in row
    (count - 1) % len(history).
    """
    value = lanes[2]
    height, width = costs.shape
    stride, start = width + 2, _first(width)
    cost = lanes[4]
    _padded(costs, math.inf, cost)
    rows = len(history)
    history[0] = math.inf
    history[0, start] = 0.0
    if rows == 2:
        history[1] = math.inf
    for sweep in range(1, iterations + 1):
        before, after = history[(sweep - 1) % rows], history[sweep % rows]
        begin, end = 1 + stride, 1 + (_last_row(sweep, height) + 1) * stride
        n = end - begin
        _expected(before, begin, n, beta, tails, shape, offsets, scratch, lanes)
        if rows > 2:
            after[:] = math.inf
        for i in range(n):
            after[begin + i] = cost[begin + i] + value[i]
        after[start] = 0.0
        if sweep > least:
            changed = 0.0
            for i in range(begin, end):
                # NaN, of inf - inf on the border, is no change
                change = abs(after[i] - before[i]) - _SAME * abs(after[i])
                changed = max(changed, change if change > 0.0 else 0.0)
            if changed == 0.0:
                return sweep
    return iterations


@njit(**OPTIONS)
def _walk(w, offsets, start, finish, begin, n, steps, position, rest):
    """Walk back from `finish` and return the number of positions.

    position [T + 2, N] gets all positions and rest [T + 2, N] the product of 1 - p before each.
    With two rows each they keep the last two.
    """
    rows = len(position)
    position[0] = 0.0
    position[0, finish] = 1.0
    rest[0] = 1.0
    t = 0
    while True:
        here, left = position[t % rows], rest[t % rows]
        there, after = position[(t + 1) % rows], rest[(t + 1) % rows]
        for i in range(begin, begin + n):
            after[i] = left[i] * (1.0 - here[i])
        away = False
        for i in range(start + 1, begin + n):
            away |= here[i] > _GONE
        t += 1
        if t > steps or not away:
            return t
        there[:] = 0.0
        there[start] = here[start]
        for k in range(len(offsets)):
            weights, source = w[k], here[begin : begin + n]
            target = there[begin + offsets[k] : begin + n + offsets[k]]
            for i in range(n):
                target[i] += source[i] * weights[i]


@njit(**OPTIONS)
def _arrays(size, count):
    """Scratch of a sweep: (x, w, work), and ten arrays with one number for each cell."""
    return (np.empty((count, size)), np.empty((count, size)), np.empty((2, size)))


@njit(**OPTIONS)
def _last_weights(before, beta, tails, shape, offsets, height, width, scratch, lanes):
    """Fill in the weights of the last sweep, for all cells; 0 at the start."""
    w = scratch[1]
    stride = width + 2
    begin, n = 1 + stride, height * stride
    _expected(before, begin, n, beta, tails, shape, offsets, scratch, lanes)
    for k in range(len(offsets)):
        w[k, _first(width) - begin] = 0.0


@njit(**OPTIONS)
def forward(costs, beta, tails, shape, offsets, iterations, least, out, saved, used, start, stop):
    """Fill in out [B, H, W] for the maps start .. stop - 1.

    saved [B, T + 1, N] gets the distances of all sweeps, unless it is empty; used [B] the number of
    sweeps.
    """
    height, width = costs.shape[1:]
    size, first = padded_size(height, width), _first(width)
    begin, n = 1 + width + 2, height * (width + 2)
    last = 1 + height * (width + 2) + width
    scratch, lanes = _arrays(size, len(offsets)), np.empty((5, size))
    short, position, rest = np.empty((2, size)), np.empty((2, size)), np.empty((2, size))
    keep = saved.shape[1] > 0
    for b in range(start, stop):
        history = saved[b] if keep else short
        sweeps = _sweeps(
            costs[b], beta, tails, shape, offsets, iterations, least, history, scratch, lanes
        )
        used[b] = sweeps
        if iterations > 0:
            before = history[(sweeps - 1) % len(history)]
            _last_weights(before, beta, tails, shape, offsets, height, width, scratch, lanes)
        steps = _walk(scratch[1], offsets, first, last, begin, n, iterations, position, rest)
        for i in range(size):
            rest[0, i] = 1.0 - rest[steps % 2, i]
        _unpadded(rest[0], out[b])


@njit(**OPTIONS)
def _walk_back(
    w, offsets, start, begin, n, steps, position, rest, given, gw, ahead, behind, after
):  # fmt: skip
    """Fill in gw [K, n], the gradients of the weights of the walk; `given` [N] is that of the path.

    ahead, behind and after [N] are scratch: the gradients of the positions of the next step and of
    this one, and the product of 1 - p over the steps that follow.
    """
    gw[:, :n] = 0.0
    ahead[:] = 0.0
    after[:] = 1.0
    for t in range(steps - 1, -1, -1):
        here, before = position[t], rest[t]
        behind[:] = 0.0
        own = behind[begin : begin + n]
        for k in range(len(offsets)):
            weights, out = w[k], gw[k]
            source = ahead[begin + offsets[k] : begin + n + offsets[k]]
            held = here[begin : begin + n]
            for i in range(n):
                own[i] += weights[i] * source[i]
                out[i] += held[i] * source[i]
        behind[start] += ahead[start]
        for i in range(begin, begin + n):
            behind[i] += given[i] * before[i] * after[i]
            after[i] *= 1.0 - here[i]
        ahead[:] = behind


@njit(**OPTIONS)
def backward(
    costs, beta, tails, density, shape, offsets, iterations, least, saved, used, grad, by_costs,
    by_beta, start, stop,
):  # fmt: skip
    """Fill in the gradients of the maps start .. stop - 1, and for each that of beta."""
    count = len(offsets)
    height, width = costs.shape[1:]
    size, first = padded_size(height, width), _first(width)
    stride = width + 2
    begin, n = 1 + stride, height * stride
    last = 1 + height * stride + width
    scratch, lanes = _arrays(size, count), np.empty((5, size))
    x, w, work = scratch
    low, total, value, z = lanes[0], lanes[1], lanes[2], lanes[3]
    more = np.zeros((7, size))
    given, g, following, sum_g, q, moved, mean = (
        more[0], more[1], more[2], more[3], more[4], more[5], more[6]
    )  # fmt: skip
    gx, gw, beta_parts = np.empty((count, size)), np.empty((count, size)), np.empty(size)
    kept = saved.shape[1] > 0
    own = np.empty((0 if kept else used[start:stop].max() + 1, size))
    walked = np.empty((2, iterations + 2, size))
    for b in range(start, stop):
        by_costs[b] = 0.0
        by_beta[b] = 0.0
        if iterations == 0:
            continue
        history = saved[b] if kept else own
        sweeps = used[b]
        if not kept:
            _sweeps(costs[b], beta, tails, shape, offsets, sweeps, least, history, scratch, lanes)
        _last_weights(history[sweeps - 1], beta, tails, shape, offsets, height, width, scratch,
                      lanes)  # fmt: skip
        steps = _walk(w, offsets, first, last, begin, n, iterations, walked[0], walked[1])
        _padded(grad[b], 0.0, given)
        _walk_back(
            w, offsets, first, begin, n, steps, walked[0], walked[1], given, gw, g, following, sum_g
        )
        gw[:, first - begin] = 0.0
        g[:] = 0.0
        sum_g[:] = 0.0
        beta_parts[:] = 0.0
        for sweep in range(sweeps, 0, -1):
            is_last = sweep == sweeps
            m = (_last_row(sweep, height) + 1) * stride - stride
            before = history[sweep - 1]
            is_split = _expected(before, begin, m, beta, tails, shape, offsets, scratch, lanes)
            g[first] = 0.0
            for i in range(begin, begin + m):
                sum_g[i] += g[i]
            following[:] = 0.0
            if is_split:
                _pull_softmax(
                    before, begin, m, offsets, beta, w, value, g[begin : begin + m], gw, is_last,
                    beta_parts, following, mean,
                )  # fmt: skip
            else:
                pull(
                    x, m, beta, density, shape, False, w, low, total, value, g[begin : begin + m],
                    gw, is_last, gx, beta_parts, z, work, q, moved, mean,
                )  # fmt: skip
                for k in range(count):
                    source = gx[k]
                    target = following[begin + offsets[k] : begin + m + offsets[k]]
                    for i in range(m):
                        target[i] += source[i]
            g[:] = following
        _unpadded(sum_g, by_costs[b])
        by_beta[b] = beta_parts[:n].sum()
