"""The compiled kernels of shortest paths through grids, forward and backward.

A map is stored row by row with a border of one cell, whose cost is inf, and one number before it:
the neighbours of all cells are then reached by constant offsets, and a sweep is one loop over whole
rows, `LANES` cells at once. While the sweeps spread out from the start, only the rows reached take
part. Numbers beyond the last row are there for the last vector.

A softmax needs no exponential per neighbour. Where exp(-beta d) of all cells are numbers, as they
are for steepness and costs of use, its total over the neighbours is a sum of shifted arrays, and
so are the mean distance, a step of the walk, and the gradients of both: the weights never appear.
Farther apart, up to `_FAR`, exp(-beta d) of every cell is written as r 2^p, and the weight of a
neighbour is its r times a power of 2, relative to the largest p around. The error of beta d is that
of the weights. Other laws, and distances farther still, take the way of `minimum`, which evaluates
the law for every neighbour.

A unit of work is a map, so that any number of threads gives the same bits. The backward pass needs
the distances of all sweeps. For a softmax it computes them again, which takes less time than to
fetch them from memory; for other laws the forward pass keeps them if there is room. The weights are
always computed again.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numba.extending import register_jitable

from gendr._runtime.numba.calls import row
from gendr._runtime.numba.compilation import announce_compilation, ensure_cache
from gendr.relaxed.backends.cpu.minimum import OPTIONS, pull, smallest, weigh
from gendr.relaxed.backends.cpu.path_vectors import (
    expected,
    expected_near,
    exponentials,
    gather,
    outer,
    return_near,
    share,
    split,
    spread,
    spread_near,
    turn_near,
    walk_near,
    weights,
)
from gendr.relaxed.backends.cpu.vectors import LANES

ensure_cache()
announce_compilation(__name__)

_SAME = 4.5e-16  # sweeps that change no distance by more than this part of it change nothing
_NEAR = 600.0  # the largest |beta d| of exponentials that are numbers, and may be multiplied by d
_FAR = 8192.0  # the largest |beta d| of split exponentials: weights are within 2e-12
NEAR, SPLIT, BY_LAW = 2, 1, 0  # how weights are found, see above
_HUGE = 1e30  # distances from here on are not multiplied by exponentials
_LOOK = 4  # in how many sweeps or steps there is one look at whether anything changes
_GONE = 1e-20  # where less than this of the walk is, nothing is


@register_jitable
def padded_size(height, width):
    """The length of a map with its border, and room for the last vector."""
    return (height + 2) * (width + 2) + 1 + 2 * LANES


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
def _largest(costs):
    """The largest absolute cost: t times it bounds the distances after t sweeps."""
    found = 0.0
    for cost in costs.flat:
        found = max(found, abs(cost))
    return found


@register_jitable
def _cells_of(sweep, height, stride):
    """Where the rows begin that sweep 1, 2, .. can reach, and how many cells they have."""
    return 1 + stride, min(height, sweep + 1) * stride


@njit(**OPTIONS)
def _way(distance, end, beta, bound, tails):
    """How to find the weights of these distances, and the distance that `NEAR` counts from.

    The bound is one of the absolute distances, perhaps a loose one.
    """
    if tails != 0:
        return BY_LAW, 0.0
    if bound * beta <= _NEAR and bound < _HUGE:
        return NEAR, 0.0
    low = high = 0.0  # the start is among them
    for i in range(end):
        reached = distance[i] if distance[i] < math.inf else 0.0
        low = min(low, reached)
        high = max(high, reached)
    half = 0.5 * (high - low)
    if half * beta <= _NEAR and half < _HUGE:
        return NEAR, low + half
    return (SPLIT if max(high, -low) * beta <= _FAR else BY_LAW), 0.0


@njit(**OPTIONS)
def _exponentials(distance, begin, end, stride, middle, beta, e, moment):
    """Fill in exp(-beta d) and d exp(-beta d) of the cells from `begin`, and of those around."""
    # Vectors at the end look a row and LANES cells farther, where nothing is reached.
    for i in range(begin, end + stride + 1 + LANES, LANES):
        exponentials(i, distance, middle, beta, e, moment)


@njit(**OPTIONS)
def _expected(way, before, begin, n, beta, tails, shape, offsets, cells, ways):
    """Find the expected distances of the neighbours of n cells, unless they are near.

    cells [10, N] gets near, r, p, the expected distances (0 where nothing is reached), and top and
    total, see `path_vectors.expected`; by law, total is only > 0 or not, and the rest is in `ways`.
    """
    x, w, work, lanes = ways
    count, end = len(offsets), begin + n
    near, r, p, value, top, total = cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]
    if way == SPLIT:
        for i in range(0, end + begin + 1, LANES):
            split(i, before, beta, near, r, p)
        for i in range(begin, end, LANES):
            expected(i, near, r, p, offsets, value, top, total)
        return
    for k in range(count):
        row, source = x[k], before[begin + offsets[k] : end + offsets[k]]
        for i in range(n):
            row[i] = source[i]
    weigh(x, n, beta, tails, shape, w, lanes[0], lanes[1], lanes[3], work)
    smallest(x, n, beta, False, w, lanes[0], lanes[1], lanes[2])
    for i in range(n):
        total[begin + i] = lanes[1, i]
        value[begin + i] = lanes[2, i] if lanes[1, i] > 0.0 else 0.0


@njit(**OPTIONS)
def _sweeps(
    costs, beta, tails, shape, offsets, iterations, least, history, powers, inverses, cells, ways
):
    """Run the sweeps over the map `costs` and return how many; history[t] is d after sweep t.

    Where sweep t + 1 is near, powers[t] gets exp(-beta d) of history[t], and inverses[t] the
    inverse totals of the sweep. Histories of two rows keep the last two: what is before the last
    sweep is in row (count - 1) % len(history).
    """
    height, width = costs.shape
    stride, start = width + 2, _first(width)
    value, total, cost, moment = row(cells, 3), row(cells, 5), row(cells, 6), row(cells, 9)
    _padded(costs, math.inf, cells[6])
    largest = _largest(costs)
    rows = len(history)
    history[0] = math.inf
    history[0, start] = 0.0
    if rows == 2:
        history[1] = math.inf
    for sweep in range(1, iterations + 1):
        before, after = row(history, (sweep - 1) % rows), row(history, sweep % rows)
        begin, n = _cells_of(sweep, height, stride)
        end = begin + n
        way, middle = _way(before, end, beta, (sweep - 1) * largest, tails)
        if rows > 2:
            for i in range(history.shape[1]):
                after[i] = math.inf
        if way == NEAR:
            at = (sweep - 1) % len(powers)
            e, inverse = row(powers, at), row(inverses, at)
            _exponentials(before, begin, end, stride, middle, beta, e, moment)
            for i in range(begin, end, LANES):
                expected_near(i, e, moment, offsets, middle, cost, inverse, after)
            inverse[start] = 0.0
        else:
            _expected(
                way, history[(sweep - 1) % rows], begin, n, beta, tails, shape, offsets, cells, ways
            )
            for i in range(begin, end):
                after[i] = cost[i] + value[i] if total[i] > 0.0 else math.inf
        after[start] = 0.0
        if sweep > least and sweep % _LOOK == 0:
            changed = False
            for i in range(begin, end):
                # NaN, of inf - inf on the border, is no change
                changed |= abs(after[i] - before[i]) > _SAME * abs(after[i])
            if not changed:
                return sweep
    return iterations


@njit(**OPTIONS)
def _last_weights(way, before, beta, tails, shape, offsets, height, width, cells, ways, w, into):
    """Fill in the weights w [K, N] of the last sweep, 0 at the start, unless they are near.

    into [K, N] gets the same by the cells in which a step of the walk ends: into[k, u] is the
    weight that the neighbour k of u gives to u.
    """
    stride, count, start = width + 2, len(offsets), _first(width)
    begin, n = 1 + stride, height * stride
    _expected(way, before, begin, n, beta, tails, shape, offsets, cells, ways)
    if way == SPLIT:
        inverse, total, r, p, top = cells[7], cells[5], cells[1], cells[2], cells[4]
        inverse[:] = 0.0
        for i in range(begin, begin + n):
            inverse[i] = 1.0 / total[i] if total[i] > 0.0 else 0.0
        inverse[start] = 0.0
        for i in range(begin, begin + n, LANES):
            weights(i, r, p, offsets, top, inverse, w.shape[1], w, into)
        return
    w[:] = 0.0
    for k in range(count):
        out = w[k, begin : begin + n]
        for i in range(n):
            out[i] = ways[1][k, i]
        w[k, start] = 0.0
    for k in range(count):
        # The offsets come in two groups of four; the negative of each stands in its group.
        opposite = w[3 - k if k < 4 else 11 - k]
        for i in range(begin, begin + n):
            into[k, i] = opposite[i + offsets[k]]


@register_jitable
def _is_away(position, start, end):
    """Whether some of the walk has not arrived at the start."""
    away = False
    for i in range(start + 1, end):
        away |= position[i] > _GONE
    return away


@njit(**OPTIONS)
def _walk(into, offsets, start, finish, begin, n, steps, position, rest):
    """Walk back from `finish` and return the number of positions.

    position [T + 2, N] gets all positions and rest [T + 2, N] the product of 1 - p before each.
    With two rows each they keep the last two.
    """
    rows, end = len(position), begin + n
    position[0] = 0.0
    position[0, finish] = 1.0
    rest[0] = 1.0
    t = 0
    while True:
        here, left = position[t % rows], rest[t % rows]
        there, after = position[(t + 1) % rows], rest[(t + 1) % rows]
        for i in range(begin, end):
            after[i] = left[i] * (1.0 - here[i])
        away = t % _LOOK != 0 or _is_away(here, start, end)
        t += 1
        if t > steps or not away:
            return t
        there[:] = 0.0
        for i in range(begin, end, LANES):
            gather(i, here, into, into.shape[1], offsets, there)
        there[start] += here[start]


@njit(**OPTIONS)
def _walk_near(e, inverse, offsets, start, finish, begin, n, steps, position, rest, flows):
    """As `_walk`, by e and inverse totals [N] in place of weights; flows [2, N] is scratch."""
    rows, end = len(position), begin + n
    position[0] = 0.0
    position[0, finish] = 1.0
    rest[:2] = 1.0
    rest[1, finish] = 0.0
    flows[:] = 0.0
    flows[0, finish] = inverse[finish]
    for t in range(steps):
        here, there = row(position, t % rows), row(position, (t + 1) % rows)
        if t % _LOOK == 0 and not _is_away(here, start, end):
            return t + 1
        left, after = row(rest, (t + 1) % rows), row(rest, (t + 2) % rows)
        flow, out = row(flows, t % 2), row(flows, (t + 1) % 2)
        stays = here[start]
        for i in range(begin, end, LANES):
            walk_near(i, e, inverse, offsets, flow, left, there, after, out)
        there[start] += stays
        after[start] = left[start] * (1.0 - there[start])
    return steps + 1


@register_jitable
def _arrays(size, count):
    """Scratch: cells [10, N], ways of `_expected`, and the weights of the last sweep, twice."""
    ways = (
        np.empty((count, size)), np.empty((count, size)), np.empty((2, size)), np.empty((4, size))
    )  # fmt: skip
    return np.zeros((10, size)), ways, np.zeros((2, count, size))


@njit(**OPTIONS)
def forward(costs, beta, tails, shape, offsets, iterations, least, out, saved, used, start, stop):
    """Fill in out [B, H, W] for the maps start .. stop - 1.

    offsets is a tuple of K numbers. saved [B, T + 1, N] gets the distances of all sweeps, unless it
    is empty; used [B] the number of sweeps.
    """
    height, width = costs.shape[1:]
    stride, size, first = width + 2, padded_size(height, width), _first(width)
    begin, n = _cells_of(height, height, stride)
    last = 1 + height * stride + width
    cells, ways, pairs = _arrays(size, len(offsets))
    short, powers, inverses = np.zeros((2, size)), np.zeros((2, size)), np.zeros((2, size))
    position, rest, flows = np.zeros((2, size)), np.zeros((2, size)), np.zeros((2, size))
    keep = saved.shape[1] > 0
    for b in range(start, stop):
        history = saved[b] if keep else short
        sweeps = _sweeps(
            costs[b], beta, tails, shape, offsets, iterations, least, history, powers, inverses,
            cells, ways,
        )  # fmt: skip
        used[b] = sweeps
        if iterations == 0:
            out[b] = 1.0
            continue
        at = (sweeps - 1) % len(history)
        bound = (sweeps - 1) * _largest(costs[b])
        way, _ = _way(row(history, at), begin + n, beta, bound, tails)
        if way == NEAR:
            steps = _walk_near(
                row(powers, at), row(inverses, at), offsets, first, last, begin, n, iterations,
                position, rest, flows,
            )  # fmt: skip
        else:
            _last_weights(
                way, history[at], beta, tails, shape, offsets, height, width, cells, ways, pairs[0],
                pairs[1],
            )  # fmt: skip
            steps = _walk(pairs[1], offsets, first, last, begin, n, iterations, position, rest)
        left = rest[steps % 2]
        for i in range(begin, begin + n):
            left[i] = 1.0 - left[i]
        _unpadded(left, out[b])


@njit(**OPTIONS)
def _walk_back(
    w, offsets, start, begin, n, steps, position, rest, given, gw, ahead, behind, after
):  # fmt: skip
    """Fill in gw [K, N], the gradients of the weights of the walk; `given` [N] is that of the path.

    ahead, behind and after [N] are scratch: the gradients of the positions of the next step and of
    this one, and the product of 1 - p over the steps that follow.
    """
    gw[:] = 0.0
    ahead[:] = 0.0
    behind[:] = 0.0
    after[:] = 1.0
    for t in range(steps - 1, -1, -1):
        here, before = position[t], rest[t]
        for i in range(begin, begin + n, LANES):
            gather(i, ahead, w, w.shape[1], offsets, behind)
            outer(i, here, ahead, gw.shape[1], offsets, gw)
        behind[start] += ahead[start]
        for i in range(begin, begin + n):
            ahead[i] = behind[i] + given[i] * before[i] * after[i]
            after[i] *= 1.0 - here[i]
    gw[:, start] = 0.0


@njit(**OPTIONS)
def _walk_back_near(
    e, inverse, beta, offsets, start, finish, begin, n, steps, position, rest, given, flows, sums,
    following,
):  # fmt: skip
    """Set `following` [N] to the gradients of the distances before the last sweep.

    `given` [N] is the gradient of the path; flows [2, N] and sums [3, N] are scratch.
    """
    end = begin + n
    after, left, came = row(sums, 0), row(sums, 1), row(sums, 2)
    flows[:] = 0.0
    sums[:] = 0.0
    sums[0] = 1.0
    at_start = elsewhere = 0.0
    for t in range(steps - 1, -1, -1):
        here, before = row(position, t), row(rest, t)
        flow, out = row(flows, t % 2), row(flows, (t + 1) % 2)
        at_start += given[start] * before[start] * after[start]
        elsewhere = came[finish]
        for i in range(begin, end, LANES):
            return_near(i, e, inverse, offsets, flow, here, before, given, after, left, came, out)
        out[start] = at_start * e[start]  # what is at the start stays there
    came[finish] = elsewhere  # nothing came to the first position
    shares = row(flows, 0)
    for i in range(begin, end):
        shares[i] = left[i] * inverse[i]
    for i in range(begin, end, LANES):
        turn_near(i, e, beta, offsets, shares, came, following)


@njit(**OPTIONS)
def _pull_last(distance, begin, n, offsets, beta, w, value, g, gw, following):
    """Set `following` [N] to the gradients of the distances before the last sweep, a softmax.

    g [N] is the gradient of the expected distances, gw [K, N] that of the weights.
    """
    following[:] = 0.0
    for i in range(begin, begin + n):
        mean = 0.0
        for k in range(len(offsets)):
            mean += w[k, i] * gw[k, i]
        for k in range(len(offsets)):
            if w[k, i] > 0.0:
                beyond = distance[i + offsets[k]] - value[i]
                a = w[k, i] * (g[i] * beyond + gw[k, i] - mean)
                following[i + offsets[k]] += g[i] * w[k, i] - beta * a


@njit(**OPTIONS)
def _pull_split(begin, n, offsets, beta, cells, g, following):
    """As `_pull_last` for the other sweeps, which need no weights."""
    value, total, shares, pulls = cells[3], cells[5], cells[7], cells[8]
    for i in range(len(g)):
        part = g[i] / total[i] if total[i] > 0.0 else 0.0
        shares[i] = part
        pulls[i] = part * (1.0 + beta * value[i])
    following[:] = 0.0
    near, r, p, top = cells[0], cells[1], cells[2], cells[4]
    for i in range(begin, begin + n, LANES):
        spread(i, near, r, p, offsets, top, shares, pulls, beta, following)


@njit(**OPTIONS)
def _pull_near(before, after, e, inverse, middle, begin, n, stride, offsets, beta, cells, g, summed,
               following):  # fmt: skip
    """As `_pull_last` for the other sweeps, which need no weights; adds g to summed."""
    cost, shares, pulls, end = row(cells, 6), row(cells, 7), row(cells, 8), begin + n
    for i in range(begin, end, LANES):
        share(i, g, inverse, middle, beta, cost, after, summed, shares, pulls)
    # The row after them may hold those of a sweep that reached it.
    for i in range(end, end + stride + 1):
        shares[i] = pulls[i] = 0.0
    for i in range(begin, end, LANES):
        spread_near(i, before, e, middle, beta, offsets, shares, pulls, following)


@njit(**OPTIONS)
def _pull_by_law(before, begin, n, offsets, beta, density, shape, ways, g, gw, is_last, more,
                 following):  # fmt: skip
    """As `_pull_last` for any law and any sweep."""
    x, w, work, lanes = ways
    gx, given, q, moved, mean, unused = more
    if is_last:
        for k in range(len(offsets)):
            given[k, :n] = gw[k, begin : begin + n]
    unused[:] = 0.0
    pull(
        x, n, beta, density, shape, False, w, lanes[0], lanes[1], lanes[2], g[begin : begin + n],
        given, is_last, gx, unused, lanes[3], work, q, moved, mean,
    )  # fmt: skip
    following[:] = 0.0
    for k in range(len(offsets)):
        source, target = gx[k], following[begin + offsets[k] : begin + n + offsets[k]]
        for i in range(n):
            target[i] += source[i]


@njit(**OPTIONS)
def backward(
    costs, beta, tails, density, shape, offsets, iterations, least, saved, used, grad, by_costs,
    by_beta, start, stop,
):  # fmt: skip
    """Fill in the gradients of the maps start .. stop - 1, and for each that of beta."""
    count = len(offsets)
    height, width = costs.shape[1:]
    stride, size, first = width + 2, padded_size(height, width), _first(width)
    begin, all_cells = _cells_of(height, height, stride)
    last = 1 + height * stride + width
    cells, ways, pairs = _arrays(size, count)
    w, into, gw = pairs[0], pairs[1], np.empty((count, size))
    # The gradients of the distances after a sweep stand in row `sweep % 2`.
    slopes, flows, sums = np.zeros((2, size)), np.zeros((2, size)), np.zeros((3, size))
    given, summed = np.zeros(size), np.zeros(size)
    more = (
        np.empty((count, size)), np.empty((count, size)), np.empty(size), np.empty(size),
        np.empty(size), np.empty(size),
    )  # fmt: skip
    kept = saved.shape[1] > 0
    own = np.zeros((3, 0 if kept else used[start:stop].max() + 1, size))
    powers, inverses = own[1], own[2]
    walked = np.zeros((2, iterations + 2, size))
    position, rest = walked[0], walked[1]
    for b in range(start, stop):
        by_costs[b] = 0.0
        by_beta[b] = 0.0
        if iterations == 0:
            continue
        history = saved[b] if kept else own[0]
        sweeps, largest = used[b], _largest(costs[b])
        if kept:
            _padded(costs[b], math.inf, cells[6])
        else:
            _sweeps(
                costs[b], beta, tails, shape, offsets, sweeps, least, history, powers, inverses,
                cells, ways,
            )  # fmt: skip
        _padded(grad[b], 0.0, given)
        summed[:] = 0.0
        slopes[:] = 0.0
        for sweep in range(sweeps, 0, -1):
            n = _cells_of(sweep, height, stride)[1]
            before, is_last = row(history, sweep - 1), sweep == sweeps
            way, middle = _way(before, begin + n, beta, (sweep - 1) * largest, tails)
            g, following = row(slopes, sweep % 2), row(slopes, (sweep + 1) % 2)
            g[first] = 0.0
            e, inverse = row(powers, sweep - 1), row(inverses, sweep - 1)
            if way == NEAR and is_last:
                steps = _walk_near(
                    e, inverse, offsets, first, last, begin, all_cells, iterations, position, rest,
                    flows,
                )  # fmt: skip
                _walk_back_near(
                    e, inverse, beta, offsets, first, last, begin, all_cells, steps, position, rest,
                    row(given, 0), flows, sums, following,
                )  # fmt: skip
                continue
            if way == NEAR:
                _pull_near(
                    before, row(history, sweep), e, inverse, middle, begin, n, stride, offsets,
                    beta, cells, g, row(summed, 0), following,
                )  # fmt: skip
                continue
            for i in range(begin, begin + n):
                summed[i] += g[i]
            distance, pulled, pulls = (
                history[sweep - 1], slopes[sweep % 2], slopes[(sweep + 1) % 2]
            )  # fmt: skip
            if is_last:
                _last_weights(
                    way, distance, beta, tails, shape, offsets, height, width, cells, ways, w, into
                )
                steps = _walk(
                    into, offsets, first, last, begin, all_cells, iterations, position, rest
                )
                _walk_back(
                    w, offsets, first, begin, all_cells, steps, position, rest, given, gw,
                    sums[0], sums[1], sums[2],
                )  # fmt: skip
            else:
                _expected(way, distance, begin, n, beta, tails, shape, offsets, cells, ways)
            if way == BY_LAW:
                _pull_by_law(
                    distance, begin, n, offsets, beta, density, shape, ways, pulled, gw, is_last,
                    more, pulls,
                )  # fmt: skip
            elif is_last:
                _pull_last(distance, begin, n, offsets, beta, w, cells[3], pulled, gw, pulls)
            else:
                _pull_split(begin, n, offsets, beta, cells, pulled, pulls)
        _unpadded(summed, by_costs[b])
        # The path does not change when costs grow and beta shrinks by the same factor (Euler).
        for i in range(height):
            for j in range(width):
                by_beta[b] += costs[b, i, j] * by_costs[b, i, j] / beta
