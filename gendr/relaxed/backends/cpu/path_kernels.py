"""The compiled kernels of shortest paths through grids, forward and backward.

A map is stored row by row with a border of one cell, whose cost is inf, and one number before it:
the neighbours of all cells are then reached by constant offsets, and a sweep is one loop over whole
rows, `LANES` cells at once. While the sweeps spread out from the start, only the rows reached take
part. Numbers beyond the last row are there for the last vector.

A softmax needs no exponential per neighbour where exp(-beta d) of all cells are numbers, as they
are for steepness and costs of use: its total over the neighbours is a sum of shifted arrays, and so
are the mean distance, a step of the walk, and the gradients of both: the weights never appear. Such
distances are called near. Those farther apart, and other distributions, take the way of `minimum`,
which evaluates the distribution for every neighbour.

A unit of work is a map, so that any number of threads gives the same bits. The backward pass needs
the distances of all sweeps. For a softmax it computes them again, which takes less time than to
fetch them from memory; for other distributions the forward pass saves them if there is room. The
weights are always computed again.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from gendr.kernels.numba.arrays import copy
from gendr.kernels.numba.calls import pointer, row
from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.vectors import LANES
from gendr.relaxed.backends.cpu.minimum import (
    Decision,
    candidates,
    minimum_backward,
    smallest,
    weigh,
)
from gendr.relaxed.backends.cpu.path_vectors import (
    expected_near,
    exponentials,
    gather,
    outer,
    return_near,
    share,
    spread_near,
    turn_near,
    walk_near,
)

_SAME = 4.5e-16  # sweeps that change no distance by more than this part of it change nothing
_NEAR = 600.0  # the largest |beta d| of exponentials that are numbers, and may be multiplied by d
_HUGE = 1e30  # distances from here on are not multiplied by exponentials
_LOOK = 4  # in how many sweeps or steps there is one look at whether anything changes
_GONE = 1e-20  # where less than this of the walk is, nothing is


class Grid(NamedTuple):
    """The cells of a map with its border, and the distribution of their decisions.

    Attributes:
        height: how many rows there are without the border.
        stride: from a row to the next; also the number of cells in a row with its border.
        size: the length of a map.
        first, last: the cells (0, 0) and (H - 1, W - 1).
        begin, end: the rows without those of the border.
        offsets: a tuple of what leads from a cell to its K neighbours.
        decision: by which cells decide, a `Decision`.
    """

    height: Any
    stride: Any
    size: Any
    first: Any
    last: Any
    begin: Any
    end: Any
    offsets: Any
    decision: Any


class Walked(NamedTuple):
    """A walk back from the last cell.

    Attributes:
        position: [T + 2, size], where it is; of two rows, the last two.
        rest: the product of 1 - p over the positions before each.
        flows: [2, size], scratch of near distances.
        weights: [K, size] of the last sweep where it was not near, 0 at the start.
        into: the same by the cells in which a step ends: into[k, u] is what neighbour k gives to u.
    """

    position: Any
    rest: Any
    flows: Any
    weights: Any
    into: Any


@register_jitable
def padded_size(height, width):
    """The length of a map with its border, and room for the last vector."""
    return (height + 2) * (width + 2) + 1 + 2 * LANES


@register_jitable
def _grid(costs, offsets, decision):
    height, width = costs.shape[1:]
    stride = width + 2
    end = 1 + stride + height * stride
    return Grid(
        height, stride, padded_size(height, width), stride + 2, end - 2, 1 + stride, end, offsets,
        Decision(*decision),
    )  # fmt: skip


@register_jitable
def _walked(grid, rows):
    long, pairs = np.zeros((2, rows, grid.size)), np.zeros((2, len(grid.offsets), grid.size))
    return Walked(long[0], long[1], np.zeros((2, grid.size)), pairs[0], pairs[1])


@register_jitable
def _padded(grid, values, outside, out):
    """Fill in the map of values [H, W]."""
    out[:] = outside
    for i in range(len(values)):
        at = grid.first + i * grid.stride
        copy(values[i], out[at:])


@register_jitable
def _unpadded(grid, source, out):
    for i in range(len(out)):
        at = grid.first + i * grid.stride
        copy(source[at : at + out.shape[1]], out[i])


@register_jitable
def _largest(costs):
    """The largest absolute cost: t times it bounds the distances after t sweeps."""
    found = 0.0
    for cost in costs.flat:
        found = max(found, abs(cost))
    return found


@register_jitable
def _end(grid, sweep):
    """Where the rows end that sweep 1, 2, .. can reach."""
    return grid.begin + min(grid.height, sweep + 1) * grid.stride


@inner()
def _middle(grid, distance, end, bound):
    """Whether the distances are near, and the one that their exponentials count from.

    The bound is one of the absolute distances, perhaps a loose one.
    """
    if grid.decision.tails != 0:
        return False, 0.0
    if bound * grid.decision.beta <= _NEAR and bound < _HUGE:
        return True, 0.0
    low = high = 0.0  # the start is among them
    for i in range(end):
        reached = distance[i] if distance[i] < math.inf else 0.0
        low = min(low, reached)
        high = max(high, reached)
    half = 0.5 * (high - low)
    return half * grid.decision.beta <= _NEAR and half < _HUGE, low + half


@inner()
def _expected(grid, before, end, ways):
    """Fill in the weights of the neighbours by the distribution, and their expected distances."""
    begin, n = grid.begin, end - grid.begin
    for k in range(len(grid.offsets)):
        out, offset = ways.x[k], grid.offsets[k]
        source = before[begin + offset : end + offset]
        for i in range(n):
            out[i] = source[i]
    weigh(ways, n, grid.decision)
    smallest(ways, n)


@inner()
def _sweeps(grid, costs, iterations, least, history, powers, inverses, cost, moment, ways):
    """Run the sweeps over costs [H, W] and return how many; history[t] is d after sweep t.

    Where sweep t + 1 is near, powers[t] gets exp(-beta d) of history[t], and inverses[t] the
    inverse totals of the sweep. Histories of two rows keep the last two: what is before the last
    sweep is in row (count - 1) % len(history). `cost` gets the map of the costs; `moment` [size] is
    scratch.
    """
    _padded(grid, costs, math.inf, cost)
    begin, largest, rows = grid.begin, _largest(costs), len(history)
    history[0] = math.inf
    history[0, grid.first] = 0.0
    if rows == 2:
        history[1] = math.inf
    for sweep in range(1, iterations + 1):
        before, after = row(history, (sweep - 1) % rows), row(history, sweep % rows)
        end = _end(grid, sweep)
        distance = history[(sweep - 1) % rows]
        is_near, middle = _middle(grid, distance, end, (sweep - 1) * largest)
        if rows > 2:
            for i in range(history.shape[1]):
                after[i] = math.inf
        if is_near:
            at = (sweep - 1) % len(powers)
            e, inverse = row(powers, at), row(inverses, at)
            # Vectors at the end look a row and LANES cells farther, where nothing is reached.
            for i in range(begin, end + grid.stride + 1 + LANES, LANES):
                exponentials(i, before, middle, grid.decision.beta, e, pointer(moment))
            for i in range(begin, end, LANES):
                expected_near(
                    i, e, pointer(moment), grid.offsets, middle, pointer(cost), inverse, after
                )
            inverse[grid.first] = 0.0
        else:
            _expected(grid, distance, end, ways)
            for i in range(begin, end):
                after[i] = cost[i] + ways.value[i - begin]
        after[grid.first] = 0.0
        if sweep > least and sweep % _LOOK == 0:
            changed = False
            for i in range(begin, end):
                # NaN, of inf - inf on the border, is no change
                changed |= abs(after[i] - before[i]) > _SAME * abs(after[i])
            if not changed:
                return sweep
    return iterations


@register_jitable
def _is_away(grid, position):
    """Whether some of the walk has not arrived at the start."""
    away = False
    for i in range(grid.first + 1, grid.end):
        away |= position[i] > _GONE
    return away


@inner()
def _walk(grid, before, steps, ways, walked):
    """Walk back by the weights of the last sweep and return the number of positions."""
    w, into, position, rest = walked.weights, walked.into, walked.position, walked.rest
    begin, end, first = grid.begin, grid.end, grid.first
    _expected(grid, before, end, ways)
    w[:] = 0.0
    for k in range(len(grid.offsets)):
        copy(ways.w[k, : end - begin], w[k, begin:])
        w[k, first] = 0.0
    for k in range(len(grid.offsets)):
        # The offsets come in two groups of four; the negative of each stands in its group.
        opposite = w[3 - k if k < 4 else 11 - k]
        for i in range(begin, end):
            into[k, i] = opposite[i + grid.offsets[k]]
    rows = len(position)
    position[0] = 0.0
    position[0, grid.last] = 1.0
    rest[0] = 1.0
    t = 0
    while True:
        here, left = position[t % rows], rest[t % rows]
        there, after = position[(t + 1) % rows], rest[(t + 1) % rows]
        for i in range(begin, end):
            after[i] = left[i] * (1.0 - here[i])
        away = t % _LOOK != 0 or _is_away(grid, here)
        t += 1
        if t > steps or not away:
            return t
        there[:] = 0.0
        for i in range(begin, end, LANES):
            gather(i, here, into, into.shape[1], grid.offsets, there)
        there[first] += here[first]


@inner()
def _walk_near(grid, e, inverse, steps, walked):
    """As `_walk`, by e and inverse totals [size] in place of weights."""
    position, rest, flows = walked.position, walked.rest, walked.flows
    rows, first = len(position), grid.first
    position[0] = 0.0
    position[0, grid.last] = 1.0
    rest[:2] = 1.0
    rest[1, grid.last] = 0.0
    flows[:] = 0.0
    flows[0, grid.last] = inverse[grid.last]
    for t in range(steps):
        here, there = row(position, t % rows), row(position, (t + 1) % rows)
        if t % _LOOK == 0 and not _is_away(grid, here):
            return t + 1
        left, after = row(rest, (t + 1) % rows), row(rest, (t + 2) % rows)
        flow, out = row(flows, t % 2), row(flows, (t + 1) % 2)
        stays = here[first]
        for i in range(grid.begin, grid.end, LANES):
            walk_near(i, e, inverse, grid.offsets, flow, left, there, after, out)
        there[first] += stays
        after[first] = left[first] * (1.0 - there[first])
    return steps + 1


@kernel()
def forward(costs, decision, offsets, iterations, least, out, saved, used, start, stop):
    """Fill in out [B, H, W] for the maps start .. stop - 1.

    decision is a `Decision`, offsets a tuple of K numbers. saved [B, T + 1, size] gets the
    distances of all sweeps, unless it is empty; used [B] the number of sweeps.
    """
    grid = _grid(costs, offsets, decision)
    ways, walked = candidates(len(offsets), grid.size), _walked(grid, 2)
    cost, moment = np.zeros(grid.size), np.zeros(grid.size)
    recent, powers, inverses = (
        np.zeros((2, grid.size)), np.zeros((2, grid.size)), np.zeros((2, grid.size))
    )  # fmt: skip
    for b in range(start, stop):
        history = saved[b] if saved.shape[1] > 0 else recent
        sweeps = _sweeps(
            grid, costs[b], iterations, least, history, powers, inverses, cost, moment, ways
        )
        used[b] = sweeps
        if iterations == 0:
            out[b] = 1.0
            continue
        at = (sweeps - 1) % len(history)
        is_near, _ = _middle(grid, history[at], grid.end, (sweeps - 1) * _largest(costs[b]))
        if is_near:
            steps = _walk_near(grid, row(powers, at), row(inverses, at), iterations, walked)
        else:
            steps = _walk(grid, history[at], iterations, ways, walked)
        left = walked.rest[steps % 2]
        for i in range(grid.begin, grid.end):
            left[i] = 1.0 - left[i]
        _unpadded(grid, left, out[b])


@inner()
def _walk_back(grid, steps, walked, given, sums, gw):
    """Fill in gw [K, size], the gradients of the weights of the walk.

    `given` [size] is the gradient of the path; sums [3, size] is scratch: the gradients of the
    positions of the next step and of this one, and the product of 1 - p over the steps that follow.
    """
    w, begin, end, first = walked.weights, grid.begin, grid.end, grid.first
    ahead, behind, after = sums[0], sums[1], sums[2]
    gw[:] = 0.0
    sums[:] = 0.0
    after[:] = 1.0
    for t in range(steps - 1, -1, -1):
        here, before = walked.position[t], walked.rest[t]
        for i in range(begin, end, LANES):
            gather(i, ahead, w, w.shape[1], grid.offsets, behind)
            outer(i, here, ahead, gw.shape[1], grid.offsets, gw)
        behind[first] += ahead[first]
        for i in range(begin, end):
            ahead[i] = behind[i] + given[i] * before[i] * after[i]
            after[i] *= 1.0 - here[i]
    gw[:, first] = 0.0


@inner()
def _walk_back_near(grid, e, inverse, steps, walked, given, sums, following):
    """Set `following` [size] to the gradients of the distances before the last sweep."""
    begin, end, first, flows = grid.begin, grid.end, grid.first, walked.flows
    after, left, came = row(sums, 0), row(sums, 1), row(sums, 2)
    flows[:] = 0.0
    sums[:] = 0.0
    sums[0] = 1.0
    at_start = elsewhere = 0.0
    for t in range(steps - 1, -1, -1):
        here, before = row(walked.position, t), row(walked.rest, t)
        flow, out = row(flows, t % 2), row(flows, (t + 1) % 2)
        at_start += given[first] * before[first] * after[first]
        elsewhere = came[grid.last]
        for i in range(begin, end, LANES):
            return_near(
                i, e, inverse, grid.offsets, flow, here, before, given, after, left, came, out
            )
        out[first] = at_start * e[first]  # what is at the start stays there
    came[grid.last] = elsewhere  # nothing came to the first position
    shares = row(flows, 0)
    for i in range(begin, end):
        shares[i] = left[i] * inverse[i]
    for i in range(begin, end, LANES):
        turn_near(i, e, grid.decision.beta, grid.offsets, shares, came, following)


@inner()
def _near_backward(grid, before, after, e, inverse, middle, end, cost, g, summed, flows, following):
    """Set `following` to the gradients of the distances before a sweep; adds g to summed.

    g [size] is the gradient of the distances after it; flows [2, size] is scratch.
    """
    shares, pulls = row(flows, 0), row(flows, 1)
    for i in range(grid.begin, end, LANES):
        share(i, g, inverse, middle, grid.decision.beta, cost, after, summed, shares, pulls)
    # The row after them may hold those of a sweep that reached it.
    for i in range(end, end + grid.stride + 1):
        shares[i] = pulls[i] = 0.0
    for i in range(grid.begin, end, LANES):
        spread_near(
            i, before, e, middle, grid.decision.beta, grid.offsets, shares, pulls, following
        )


@inner()
def _by_decision_backward(grid, end, ways, g, gw, is_last, summed, following):
    """As `_near_backward`, after `_expected`; gw [K, size] is read for the last sweep."""
    begin, n = grid.begin, end - grid.begin
    for i in range(begin, end):
        summed[i] += g[i]
    copy(g[begin:end], ways.by_value)
    if is_last:
        for k in range(len(grid.offsets)):
            copy(gw[k, begin:end], ways.by_w[k])
    minimum_backward(ways, n, grid.decision, is_last)
    following[:] = 0.0
    for k in range(len(grid.offsets)):
        source, offset = ways.by_x[k], grid.offsets[k]
        target = following[begin + offset : end + offset]
        for i in range(n):
            target[i] += source[i]


@kernel()
def backward(
    costs, decision, offsets, iterations, least, saved, used, grad, by_costs, by_beta, start, stop
):
    """Fill in the gradients of the maps start .. stop - 1, and for each that of beta."""
    grid = _grid(costs, offsets, decision)
    size = grid.size
    ways, walked = candidates(len(offsets), size), _walked(grid, iterations + 2)
    is_saved = saved.shape[1] > 0
    own = np.zeros((3, 0 if is_saved else used[start:stop].max() + 1, size))
    powers, inverses = own[1], own[2]
    # The gradients of the distances after a sweep stand in row `sweep % 2` of `slopes`.
    slopes, flows, sums = np.zeros((2, size)), np.zeros((2, size)), np.zeros((3, size))
    cost, moment, given, summed = np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size)
    gw = np.empty((len(offsets), size))
    for b in range(start, stop):
        by_costs[b] = 0.0
        by_beta[b] = 0.0
        if iterations == 0:
            continue
        history, sweeps, largest = saved[b] if is_saved else own[0], used[b], _largest(costs[b])
        if not is_saved:
            _sweeps(grid, costs[b], sweeps, least, history, powers, inverses, cost, moment, ways)
        _padded(grid, grad[b], 0.0, given)
        summed[:] = 0.0
        slopes[:] = 0.0
        flows[:] = 0.0
        for sweep in range(sweeps, 0, -1):
            end = _end(grid, sweep)
            before, is_last = history[sweep - 1], sweep == sweeps
            is_near, middle = _middle(grid, before, end, (sweep - 1) * largest)
            slopes[sweep % 2, grid.first] = 0.0
            g, following = row(slopes, sweep % 2), row(slopes, (sweep + 1) % 2)
            e, inverse = row(powers, sweep - 1), row(inverses, sweep - 1)
            if is_near and is_last:
                steps = _walk_near(grid, e, inverse, iterations, walked)
                _walk_back_near(grid, e, inverse, steps, walked, pointer(given), sums, following)
            elif is_near:
                _near_backward(
                    grid, row(history, sweep - 1), row(history, sweep), e, inverse, middle, end,
                    pointer(cost), g, pointer(summed), flows, following,
                )  # fmt: skip
            else:
                if is_last:
                    steps = _walk(grid, before, iterations, ways, walked)
                    _walk_back(grid, steps, walked, given, sums, gw)
                else:
                    _expected(grid, before, end, ways)
                pulled, pulls = slopes[sweep % 2], slopes[(sweep + 1) % 2]
                _by_decision_backward(grid, end, ways, pulled, gw, is_last, summed, pulls)
        _unpadded(grid, summed, by_costs[b])
        # The path does not change when costs grow and beta shrinks by the same factor (Euler).
        for i in range(by_costs.shape[1]):
            for j in range(by_costs.shape[2]):
                by_beta[b] += costs[b, i, j] * by_costs[b, i, j] / grid.decision.beta
