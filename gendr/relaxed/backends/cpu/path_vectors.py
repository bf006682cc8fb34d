"""Vector operations for the kernels of paths through grids; see `vectors`.

`offsets` is a tuple of what leads from a cell to its neighbours, with every offset its negative.
What is written here as a sum over neighbours has no weight of its own for each of them: weights are
e(u) / total(v), a part of the cell that gives and a part of the cell that takes.
"""

# Numba runs these functions while it compiles; their arguments are objects of its own.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

import functools
import math

from gendr.relaxed.backends.cpu.vectors import (
    below_one,
    lanewise,
    maximum,
    minimum,
    near_exp,
    split_exp,
    total,
    where,
)

UNREACHED = -1e6  # the power of 2 of a cell that is not reached


def _around(i, offsets, values):
    """The sum over the neighbours of cell i."""
    return total([values[i + offset] for offset in offsets])


# ---------------------------------------------------------------------------------------------
# Near distances: exp(-beta d) of all cells are numbers
# ---------------------------------------------------------------------------------------------


def _counted(distance, middle):
    """A distance, counted from `middle`; 0 where nothing is reached."""
    return where(distance < math.inf, distance - middle, 0.0)


@lanewise
def exponentials(i, distance, middle, beta, e, moment):
    """Set e to exp(-beta d) and moment to d e, with d counted from `middle`; 0 for d = inf."""
    d = _counted(distance[i], middle)
    value = where(distance[i] < math.inf, near_exp(d * (0.0 - beta)), 0.0)
    e[i] = value
    moment[i] = d * value


@lanewise
def expected_near(i, e, moment, offsets, middle, cost, inverse, after):
    """Set `after` to the cost plus the mean distance of the neighbours, weighted by e.

    inverse gets 1 / total, the total of e around the cell; inf and 0 where nothing is reached.
    """
    whole = _around(i, offsets, e)
    part = where(whole > 0.0, 1.0 / whole, 0.0)
    mean = _around(i, offsets, moment) * part
    inverse[i] = part
    after[i] = where(whole > 0.0, cost[i] + (mean + middle), math.inf)


@lanewise
def share(i, g, inverse, middle, beta, cost, after, summed, shares, pulls):
    """Set shares to g / total and pulls to g (1 + beta mean) / total; add g to summed.

    g is the gradient of a mean distance; the mean is counted from `middle`.
    """
    mean = where(after[i] < math.inf, (after[i] - cost[i]) - middle, 0.0)
    part = g[i] * inverse[i]
    summed[i] = summed[i] + g[i]
    shares[i] = part
    pulls[i] = part + part * (mean * beta)


@lanewise
def spread_near(i, distance, e, middle, beta, offsets, shares, pulls, out):
    """Set out to the gradient of a distance, from the shares and pulls of its neighbours."""
    moved = _counted(distance[i], middle) * beta
    slope = _around(i, offsets, pulls) - moved * _around(i, offsets, shares)
    out[i] = e[i] * slope


@lanewise
def walk_near(i, e, inverse, offsets, flow, left, position, rest, out):
    """A step of the walk: position = e times the sum of the flows around.

    rest gets left (1 - position), and out the flow of the next step, position / total.
    """
    p = e[i] * _around(i, offsets, flow)
    before = left[i]
    position[i] = p
    rest[i] = before - before * p
    out[i] = p * inverse[i]


@lanewise
def return_near(i, e, inverse, offsets, flow, position, rest, given, after, left, came, out):
    """The gradient g of a position p of `walk_near`; flow is e g of the next step, out of this.

    `after` is the product of 1 - p over the steps that follow. p times the part of g that comes
    from the neighbours is added to `left`, p times g to `came`.
    """
    p, behind = position[i], after[i]
    moved = inverse[i] * _around(i, offsets, flow)
    g = moved + given[i] * (rest[i] * behind)
    left[i] = left[i] + p * moved
    came[i] = came[i] + p * g
    after[i] = behind - behind * p
    out[i] = g * e[i]


@lanewise
def turn_near(i, e, beta, offsets, shares, came, out):
    """Set out to beta (e times the sum of the shares around - came)."""
    out[i] = beta * (e[i] * _around(i, offsets, shares) - came[i])


# ---------------------------------------------------------------------------------------------
# Distances farther apart: exp(-beta d) = r 2^p
# ---------------------------------------------------------------------------------------------


@lanewise
def split(i, distance, beta, near, r, p):
    """Set r, p with exp(-beta d) = r 2^p, and near to d; cells that are not reached have r = 0."""
    reached = distance[i] < math.inf
    d = where(reached, distance[i], 0.0)
    factor, power = split_exp(0.0 - d * beta)
    near[i] = d
    r[i] = where(reached, factor, 0.0)
    p[i] = where(reached, power, UNREACHED)


@lanewise
def expected(i, near, r, p, offsets, value, top, whole):
    """The mean distance of the neighbours by softmin, and the parts of its weights.

    whole and top give the weight of a neighbour: r 2^(p - top) / whole.
    """
    places = [i + offset for offset in offsets]
    largest = functools.reduce(maximum, [p[u] for u in places])
    odds = [r[u] * below_one(p[u] - largest) for u in places]
    sums = total(odds)
    ways = total([odd * near[u] for odd, u in zip(odds, places, strict=True)])
    value[i] = where(sums > 0.0, ways / sums, 0.0)
    top[i] = largest
    whole[i] = sums


@lanewise
def weights(i, r, p, offsets, top, inverse, stride, out, into):
    """The weights that a cell gives to its K neighbours, in the rows of out [K, stride].

    inverse is 1 / total, or 0 for cells that give none. Rows of `into` get the weights that the
    neighbours give to the cell.
    """
    for k, offset in enumerate(offsets):
        u, row = i + offset, i + stride * k
        out[row] = (r[u] * below_one(p[u] - top[i])) * inverse[i]
        # The top of what is not there may be anything; its inverse is 0.
        into[row] = (r[i] * below_one(minimum(p[i] - top[u], 0.0))) * inverse[u]


@lanewise
def spread(i, near, r, p, offsets, top, shares, pulls, beta, out):
    """The gradient of a distance from those of the means of its neighbours.

    With g the gradient of a mean, share = g / total and pull = g (1 + beta mean) / total.
    """
    moved = near[i] * beta
    parts = []
    for u in [i + offset for offset in offsets]:
        # The top of what is not there may be anything; its share is 0.
        weight = below_one(minimum(p[i] - top[u], 0.0))
        parts.append(weight * (pulls[u] - moved * shares[u]))
    out[i] = r[i] * total(parts)


# ---------------------------------------------------------------------------------------------
# Weights [K, stride] of every cell and neighbour
# ---------------------------------------------------------------------------------------------


@lanewise
def gather(i, values, weights, stride, offsets, out):
    """Set out to the sum over the neighbours of their values times the rows of weights."""
    rows = [i + stride * k for k in range(len(offsets))]
    out[i] = total([values[i + o] * weights[r] for o, r in zip(offsets, rows, strict=True)])


@lanewise
def outer(i, here, values, stride, offsets, out):
    """Add `here` times the values of the neighbours to the rows of out."""
    for k, offset in enumerate(offsets):
        row = i + stride * k
        out[row] = out[row] + here[i] * values[i + offset]
