"""The compiled kernels of shortest paths through grids, forward and backward.

A map is stored row by row with a border of one cell, whose cost is inf, and one number before it:
the neighbours of all cells are then reached by constant offsets, and a sweep is one loop over whole
rows, `LANES` cells at once. While the sweeps spread out from the start, only the rows reached take
part. Numbers beyond the last row are there for the last vector.

A softmax needs no exponential per neighbour: exp(-beta d) of every cell is written as r 2^p, and
the weight of a neighbour is its r times a power of 2, relative to the largest p around. The error
of beta d is that of the weights, so this is done up to `_FAR`. Other laws, and distances farther
apart, take the way of `minimum`, which evaluates the law for every neighbour.

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

from gendr._runtime.numba.calls import pointer
from gendr._runtime.numba.compilation import announce_compilation, ensure_cache
from gendr.relaxed.backends.cpu.minimum import OPTIONS, pull, smallest, weigh
from gendr.relaxed.backends.cpu.vectors import (
    LANES,
    expected_4,
    expected_8,
    gather_4,
    gather_8,
    outer_4,
    outer_8,
    split,
    spread_4,
    spread_8,
    weights_4,
    weights_8,
)

ensure_cache()
announce_compilation(__name__)

_SAME = 4.5e-16  # sweeps that change no distance by more than this part of it change nothing
_FAR = 8192.0  # the largest |beta d| of split exponentials: weights are within 2e-12
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
def _splits(distance, end, beta, bound, cells):
    """Fill in the split exponentials of the cells before `end`; whether all are near enough.

    The bound is one of the absolute distances, perhaps a loose one.
    """
    if not bound * beta <= _FAR:
        bound = 0.0
        for i in range(end):
            bound = max(bound, abs(distance[i]) if distance[i] < math.inf else 0.0)
        if not bound * beta <= _FAR:
            return False
    source, near, r, p = pointer(distance), pointer(cells[0]), pointer(cells[1]), pointer(cells[2])
    for i in range(0, end, LANES):
        split(i, source, beta, near, r, p)
    return True


@njit(**OPTIONS)
def _expected(before, begin, n, bound, beta, tails, shape, offsets, cells, ways):
    """Find the expected distances of the neighbours of n cells; whether by split exponentials.

    cells [9, N] gets near, r, p, the expected distances (0 where nothing is reached), and top and
    total, see `vectors.expected_4`; without split exponentials, total is only > 0 or not, and the
    rest is in `ways`.
    """
    x, w, work, lanes = ways
    count, end = len(offsets), begin + n
    value, top, total = cells[3], cells[4], cells[5]
    if tails == 0 and _splits(before, end + begin + 1, beta, bound, cells):
        near, r, p, at = pointer(cells[0]), pointer(cells[1]), pointer(cells[2]), pointer(offsets)
        if count == 8:
            for i in range(begin, end, LANES):
                expected_8(i, near, r, p, at, pointer(value), pointer(top), pointer(total))
        else:
            for i in range(begin, end, LANES):
                expected_4(i, near, r, p, at, pointer(value), pointer(top), pointer(total))
        return True
    for k in range(count):
        row, source = x[k], before[begin + offsets[k] : end + offsets[k]]
        for i in range(n):
            row[i] = source[i]
    weigh(x, n, beta, tails, shape, w, lanes[0], lanes[1], lanes[3], work)
    smallest(x, n, beta, False, w, lanes[0], lanes[1], lanes[2])
    for i in range(n):
        total[begin + i] = lanes[1, i]
        value[begin + i] = lanes[2, i] if lanes[1, i] > 0.0 else 0.0
    return False


@njit(**OPTIONS)
def _sweeps(costs, beta, tails, shape, offsets, iterations, least, history, cells, ways):
    """Run the sweeps over the map `costs` and return how many; history[t] is d after sweep t.

    A history of two rows keeps the last two. The distances before the last sweep are then in row
    (count - 1) % len(history).
    """
    height, width = costs.shape
    stride, start = width + 2, _first(width)
    value, total, cost = cells[3], cells[5], cells[6]
    _padded(costs, math.inf, cost)
    largest = _largest(costs)
    rows = len(history)
    history[0] = math.inf
    history[0, start] = 0.0
    if rows == 2:
        history[1] = math.inf
    for sweep in range(1, iterations + 1):
        before, after = history[(sweep - 1) % rows], history[sweep % rows]
        begin, n = _cells_of(sweep, height, stride)
        bound = (sweep - 1) * largest
        _expected(before, begin, n, bound, beta, tails, shape, offsets, cells, ways)
        if rows > 2:
            after[:] = math.inf
        for i in range(begin, begin + n):
            after[i] = cost[i] + value[i] if total[i] > 0.0 else math.inf
        after[start] = 0.0
        if sweep > least and sweep % _LOOK == 0:
            changed = 0.0
            for i in range(begin, begin + n):
                # NaN, of inf - inf on the border, is no change
                change = abs(after[i] - before[i]) - _SAME * abs(after[i])
                changed = max(changed, change if change > 0.0 else 0.0)
            if changed == 0.0:
                return sweep
    return iterations


@njit(**OPTIONS)
def _last_weights(before, beta, tails, shape, offsets, height, width, cells, ways, w, into):
    """Fill in the weights w [K, N] of the last sweep, 0 at the start; whether by `_splits`.

    into [K, N] gets the same by the cells in which a step of the walk ends: into[k, u] is the
    weight that the neighbour k of u gives to u.
    """
    stride, count, start = width + 2, len(offsets), _first(width)
    begin, n = 1 + stride, height * stride
    is_split = _expected(before, begin, n, math.inf, beta, tails, shape, offsets, cells, ways)
    if is_split:
        inverse, total, at = cells[7], cells[5], pointer(offsets)
        inverse[:] = 0.0
        for i in range(begin, begin + n):
            inverse[i] = 1.0 / total[i] if total[i] > 0.0 else 0.0
        inverse[start] = 0.0
        r, p, top, given = pointer(cells[1]), pointer(cells[2]), pointer(cells[4]), pointer(inverse)
        out, to = pointer(w), pointer(into)
        if count == 8:
            for i in range(begin, begin + n, LANES):
                weights_8(i, r, p, at, top, given, w.shape[1], out, to)
        else:
            for i in range(begin, begin + n, LANES):
                weights_4(i, r, p, at, top, given, w.shape[1], out, to)
        return True
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
    return False


@register_jitable
def _gathered(values, weights, offsets, begin, n, out):
    """Set out to the sum over the neighbours of their values times weights [K, N]."""
    a, b, at, c = pointer(values), pointer(weights), pointer(offsets), pointer(out)
    if len(offsets) == 8:
        for i in range(begin, begin + n, LANES):
            gather_8(i, a, b, weights.shape[1], at, c)
    else:
        for i in range(begin, begin + n, LANES):
            gather_4(i, a, b, weights.shape[1], at, c)


@njit(**OPTIONS)
def _walk(into, offsets, start, finish, begin, n, steps, position, rest):
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
        away = True
        if t % _LOOK == 0:
            away = False
            for i in range(start + 1, begin + n):
                away |= here[i] > _GONE
        t += 1
        if t > steps or not away:
            return t
        there[:] = 0.0
        _gathered(here, into, offsets, begin, n, there)
        there[start] += here[start]


@register_jitable
def _arrays(size, count):
    """Scratch: cells [9, N], ways of `_expected`, and the weights of the last sweep, twice."""
    ways = (
        np.empty((count, size)), np.empty((count, size)), np.empty((2, size)), np.empty((4, size))
    )  # fmt: skip
    return np.zeros((9, size)), ways, np.zeros((2, count, size))


@njit(**OPTIONS)
def forward(costs, beta, tails, shape, offsets, iterations, least, out, saved, used, start, stop):
    """Fill in out [B, H, W] for the maps start .. stop - 1.

    saved [B, T + 1, N] gets the distances of all sweeps, unless it is empty; used [B] the number of
    sweeps.
    """
    height, width = costs.shape[1:]
    size, first = padded_size(height, width), _first(width)
    begin, n = _cells_of(height, height, width + 2)
    last = 1 + height * (width + 2) + width
    cells, ways, weights = _arrays(size, len(offsets))
    short, position, rest = np.empty((2, size)), np.empty((2, size)), np.empty((2, size))
    keep = saved.shape[1] > 0
    for b in range(start, stop):
        history = saved[b] if keep else short
        sweeps = _sweeps(
            costs[b], beta, tails, shape, offsets, iterations, least, history, cells, ways
        )
        used[b] = sweeps
        if iterations > 0:
            before = history[(sweeps - 1) % len(history)]
            _last_weights(
                before, beta, tails, shape, offsets, height, width, cells, ways, weights[0],
                weights[1],
            )  # fmt: skip
        steps = _walk(weights[1], offsets, first, last, begin, n, iterations, position, rest)
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
    stride, at = gw.shape[1], pointer(offsets)
    gw[:] = 0.0
    ahead[:] = 0.0
    behind[:] = 0.0
    after[:] = 1.0
    for t in range(steps - 1, -1, -1):
        here, before = position[t], rest[t]
        _gathered(ahead, w, offsets, begin, n, behind)
        if len(offsets) == 8:
            for i in range(begin, begin + n, LANES):
                outer_8(i, pointer(here), pointer(ahead), stride, at, pointer(gw))
        else:
            for i in range(begin, begin + n, LANES):
                outer_4(i, pointer(here), pointer(ahead), stride, at, pointer(gw))
        behind[start] += ahead[start]
        for i in range(begin, begin + n):
            ahead[i] = behind[i] + given[i] * before[i] * after[i]
            after[i] *= 1.0 - here[i]
    gw[:, start] = 0.0


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
    value, total, share, pulls = cells[3], cells[5], cells[7], cells[8]
    for i in range(len(g)):
        part = g[i] / total[i] if total[i] > 0.0 else 0.0
        share[i] = part
        pulls[i] = part * (1.0 + beta * value[i])
    following[:] = 0.0
    near, r, p, top = pointer(cells[0]), pointer(cells[1]), pointer(cells[2]), pointer(cells[4])
    at, a, b, out = pointer(offsets), pointer(share), pointer(pulls), pointer(following)
    if len(offsets) == 8:
        for i in range(begin, begin + n, LANES):
            spread_8(i, near, r, p, at, top, a, b, beta, out)
    else:
        for i in range(begin, begin + n, LANES):
            spread_4(i, near, r, p, at, top, a, b, beta, out)


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
    size, first = padded_size(height, width), _first(width)
    begin, all_cells = _cells_of(height, height, width + 2)
    last = 1 + height * (width + 2) + width
    cells, ways, weights = _arrays(size, count)
    w, into, gw = weights[0], weights[1], np.empty((count, size))
    nodal = np.zeros((4, size))
    given, g, following, summed = nodal[0], nodal[1], nodal[2], nodal[3]
    more = (
        np.empty((count, size)), np.empty((count, size)), np.empty(size), np.empty(size),
        np.empty(size), np.empty(size),
    )  # fmt: skip
    kept = saved.shape[1] > 0
    own = np.empty((0 if kept else used[start:stop].max() + 1, size))
    walked = np.zeros((2, iterations + 2, size))
    for b in range(start, stop):
        by_costs[b] = 0.0
        by_beta[b] = 0.0
        if iterations == 0:
            continue
        history, sweeps, largest = saved[b] if kept else own, used[b], _largest(costs[b])
        if not kept:
            _sweeps(costs[b], beta, tails, shape, offsets, sweeps, least, history, cells, ways)
        before = history[sweeps - 1]
        is_split = _last_weights(
            before, beta, tails, shape, offsets, height, width, cells, ways, w, into
        )
        steps = _walk(
            into, offsets, first, last, begin, all_cells, iterations, walked[0], walked[1]
        )
        _padded(grad[b], 0.0, given)
        _walk_back(
            w, offsets, first, begin, all_cells, steps, walked[0], walked[1], given, gw, g,
            following, summed,
        )  # fmt: skip
        g[:] = 0.0
        summed[:] = 0.0
        for sweep in range(sweeps, 0, -1):
            n = _cells_of(sweep, height, width + 2)[1]
            before = history[sweep - 1]
            is_last = sweep == sweeps
            if not is_last:
                bound = (sweep - 1) * largest
                is_split = _expected(
                    before, begin, n, bound, beta, tails, shape, offsets, cells, ways
                )
            g[first] = 0.0
            for i in range(begin, begin + n):
                summed[i] += g[i]
            if not is_split:
                _pull_by_law(
                    before, begin, n, offsets, beta, density, shape, ways, g, gw, is_last, more,
                    following,
                )  # fmt: skip
            elif is_last:
                _pull_last(before, begin, n, offsets, beta, w, cells[3], g, gw, following)
            else:
                _pull_split(begin, n, offsets, beta, cells, g, following)
            g[:] = following
        _unpadded(summed, by_costs[b])
        # The path does not change when costs grow and beta shrinks by the same factor (Euler).
        for i in range(height):
            for j in range(width):
                by_beta[b] += costs[b, i, j] * by_costs[b, i, j] / beta
