"""Vector operations for the kernels of paths through grids; see `vectors`.

`offsets` is a tuple of what leads from a cell to its neighbours, with every offset its negative.
What is written here as a sum over neighbours has no weight of its own for each of them: weights are
e(u) / total(v), a part of the cell that gives and a part of the cell that takes.
"""

# Numba runs these functions while it compiles; their arguments are objects of its own.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

import math

from gendr.kernels.numba.vectors import lanewise, near_exp, total, where


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
