"""Vector operations for the kernels of paths through grids; see `vectors`.

`offsets` is a tuple of what leads from a cell to its neighbours, with every offset its negative.
What is written here as a sum over neighbours has no weight of its own for each of them: weights are
e(u) / total(v), a part of the cell that gives and a part of the cell that takes.
"""

# Numba runs these functions while it compiles; their arguments are objects of its own.
# pyright: basic, reportMissingParameterType=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numba.extending import intrinsic

from gendr.relaxed.backends.cpu.vectors import Lanes, operation

UNREACHED = -1e6  # the power of 2 of a cell that is not reached


def _places(v: Lanes, i: Any, offsets: Sequence[Any]) -> list[Any]:
    """The places of the neighbours of cell i."""
    return [v.builder.add(i, offset) for offset in offsets]


def _sum_around(v: Lanes, i: Any, offsets: Sequence[Any], values: Any) -> Any:
    return v.total([v.load(values, place) for place in _places(v, i, offsets)])


# ---------------------------------------------------------------------------------------------
# Near distances: exp(-beta d) of all cells are numbers
# ---------------------------------------------------------------------------------------------


def _counted(v: Lanes, i: Any, distance: Any, middle: Any) -> Any:
    """The distances, counted from `middle`; 0 where nothing is reached."""
    found = v.load(distance, i)
    return v.where((found, math.inf), v.sub(found, v.splat(middle)), 0.0)


@intrinsic
def exponentials(typingctx, i, distance, middle, beta, e, moment):
    """Set e to exp(-beta d) and moment to d e, with d counted from `middle`; 0 for d = inf."""

    def generate(v, i, distance, middle, beta, e, moment):
        d = _counted(v, i, distance, middle)
        value = v.near_exp(v.mul(d, v.splat(v.builder.fneg(beta))))
        value = v.where((v.load(distance, i), math.inf), value, 0.0)
        v.store(value, e, i)
        v.store(v.mul(d, value), moment, i)

    return operation(generate, i, distance, middle, beta, e, moment)


@intrinsic
def expected_near(typingctx, i, e, moment, offsets, middle, cost, inverse, after):
    """Set `after` to the cost plus the mean distance of the neighbours, weighted by e.

    inverse gets 1 / total, the total of e around the cell; inf and 0 where nothing is reached.
    """

    def generate(v, i, e, moment, offsets, middle, cost, inverse, after):
        total = _sum_around(v, i, offsets, e)
        part = v.where((0.0, total), v.div(1.0, total), 0.0)
        mean = v.mul(_sum_around(v, i, offsets, moment), part)
        value = v.add(v.load(cost, i), v.add(mean, v.splat(middle)))
        v.store(part, inverse, i)
        v.store(v.where((0.0, total), value, math.inf), after, i)

    return operation(generate, i, e, moment, offsets, middle, cost, inverse, after)


@intrinsic
def share(typingctx, i, g, inverse, middle, beta, cost, after, summed, shares, pulls):
    """Set shares to g / total and pulls to g (1 + beta mean) / total; add g to summed.

    g is the gradient of a mean distance; the mean is counted from `middle`.
    """

    def generate(v, i, g, inverse, middle, beta, cost, after, summed, shares, pulls):
        given, found = v.load(g, i), v.load(after, i)
        mean = v.sub(v.sub(found, v.load(cost, i)), v.splat(middle))
        mean = v.where((found, math.inf), mean, 0.0)
        part = v.mul(given, v.load(inverse, i))
        v.store(v.add(v.load(summed, i), given), summed, i)
        v.store(part, shares, i)
        v.store(v.add(part, v.mul(part, v.mul(mean, v.splat(beta)))), pulls, i)

    return operation(generate, i, g, inverse, middle, beta, cost, after, summed, shares, pulls)


@intrinsic
def spread_near(typingctx, i, distance, e, middle, beta, offsets, shares, pulls, out):
    """Set out to the gradient of a distance, from the shares and pulls of its neighbours."""

    def generate(v, i, distance, e, middle, beta, offsets, shares, pulls, out):
        moved = v.mul(_counted(v, i, distance, middle), v.splat(beta))
        around = v.mul(moved, _sum_around(v, i, offsets, shares))
        slope = v.sub(_sum_around(v, i, offsets, pulls), around)
        v.store(v.mul(v.load(e, i), slope), out, i)

    return operation(generate, i, distance, e, middle, beta, offsets, shares, pulls, out)


@intrinsic
def walk_near(typingctx, i, e, inverse, offsets, flow, left, position, rest, out):
    """A step of the walk: position = e times the sum of the flows around.

    rest gets left (1 - position), and out the flow of the next step, position / total.
    """

    def generate(v, i, e, inverse, offsets, flow, left, position, rest, out):
        p, before = v.mul(v.load(e, i), _sum_around(v, i, offsets, flow)), v.load(left, i)
        v.store(p, position, i)
        v.store(v.sub(before, v.mul(before, p)), rest, i)
        v.store(v.mul(p, v.load(inverse, i)), out, i)

    return operation(generate, i, e, inverse, offsets, flow, left, position, rest, out)


@intrinsic
def return_near(
    typingctx, i, e, inverse, offsets, flow, position, rest, given, after, left, came, out
):
    """The gradient g of a position p of `walk_near`; flow is e g of the next step, out of this.

    `after` is the product of 1 - p over the steps that follow. p times the part of g that comes
    from the neighbours is added to `left`, p times g to `came`.
    """

    def generate(v, i, e, inverse, offsets, flow, position, rest, given, after, left, came, out):
        p, behind = v.load(position, i), v.load(after, i)
        moved = v.mul(v.load(inverse, i), _sum_around(v, i, offsets, flow))
        g = v.add(moved, v.mul(v.load(given, i), v.mul(v.load(rest, i), behind)))
        v.store(v.add(v.load(left, i), v.mul(p, moved)), left, i)
        v.store(v.add(v.load(came, i), v.mul(p, g)), came, i)
        v.store(v.sub(behind, v.mul(behind, p)), after, i)
        v.store(v.mul(g, v.load(e, i)), out, i)

    return operation(
        generate, i, e, inverse, offsets, flow, position, rest, given, after, left, came, out
    )


@intrinsic
def turn_near(typingctx, i, e, beta, offsets, shares, came, out):
    """Set out to beta (e times the sum of the shares around - came)."""

    def generate(v, i, e, beta, offsets, shares, came, out):
        around = v.mul(v.load(e, i), _sum_around(v, i, offsets, shares))
        v.store(v.mul(v.splat(beta), v.sub(around, v.load(came, i))), out, i)

    return operation(generate, i, e, beta, offsets, shares, came, out)


# ---------------------------------------------------------------------------------------------
# Distances farther apart: exp(-beta d) = r 2^p
# ---------------------------------------------------------------------------------------------


@intrinsic
def split(typingctx, i, distance, beta, near, r, p):
    """Set r, p with exp(-beta d) = r 2^p, and near to d; cells that are not reached have r = 0."""

    def generate(v, i, distance, beta, near, r, p):
        d = v.load(distance, i)
        is_near = (d, math.inf)
        d = v.where(is_near, d, 0.0)
        factor, power = v.split_exp(v.sub(0.0, v.mul(d, v.splat(beta))))
        v.store(d, near, i)
        v.store(v.where(is_near, factor, 0.0), r, i)
        v.store(v.where(is_near, power, UNREACHED), p, i)

    return operation(generate, i, distance, beta, near, r, p)


@intrinsic
def expected(typingctx, i, near, r, p, offsets, value, top, total):
    """The mean distance of the neighbours by softmin, and the parts of its weights.

    total and top give the weight of a neighbour: r 2^(p - top) / total.
    """

    def generate(v, i, near, r, p, offsets, value, top, total):
        places = _places(v, i, offsets)
        powers = [v.load(p, place) for place in places]
        largest = powers[0]
        for power in powers[1:]:
            largest = v.maximum(largest, power)
        odds = [
            v.mul(v.load(r, place), v.below_one(v.sub(power, largest)))
            for place, power in zip(places, powers, strict=True)
        ]
        ways = [v.mul(o, v.load(near, place)) for o, place in zip(odds, places, strict=True)]
        whole = v.total(odds)
        v.store(v.where((0.0, whole), v.div(v.total(ways), whole), 0.0), value, i)
        v.store(largest, top, i)
        v.store(whole, total, i)

    return operation(generate, i, near, r, p, offsets, value, top, total)


@intrinsic
def weights(typingctx, i, r, p, offsets, top, inverse, stride, out, into):
    """The weights that a cell gives to its K neighbours, in the rows of out [K, stride].

    inverse is 1 / total, or 0 for cells that give none. Rows of `into` get the weights that the
    neighbours give to the cell.
    """

    def generate(v, i, r, p, offsets, top, inverse, stride, out, into):
        own, factor = v.load(p, i), v.load(r, i)
        largest, part = v.load(top, i), v.load(inverse, i)
        for k, place in enumerate(_places(v, i, offsets)):
            row = v.row(i, stride, k)
            odds = v.mul(v.load(r, place), v.below_one(v.sub(v.load(p, place), largest)))
            v.store(v.mul(odds, part), out, row)
            # The top of what is not there may be anything; its inverse is 0.
            odds = v.mul(factor, v.below_one(v.minimum(v.sub(own, v.load(top, place)), 0.0)))
            v.store(v.mul(odds, v.load(inverse, place)), into, row)

    return operation(generate, i, r, p, offsets, top, inverse, stride, out, into)


@intrinsic
def spread(typingctx, i, near, r, p, offsets, top, shares, pulls, beta, out):
    """The gradient of a distance from those of the means of its neighbours.

    With g the gradient of a mean, share = g / total and pull = g (1 + beta mean) / total.
    """

    def generate(v, i, near, r, p, offsets, top, shares, pulls, beta, out):
        own = v.load(p, i)
        moved = v.mul(v.load(near, i), v.splat(beta))
        parts = []
        for place in _places(v, i, offsets):
            # The top of what is not there may be anything; its share is 0.
            weight = v.below_one(v.minimum(v.sub(own, v.load(top, place)), 0.0))
            slope = v.sub(v.load(pulls, place), v.mul(moved, v.load(shares, place)))
            parts.append(v.mul(weight, slope))
        v.store(v.mul(v.load(r, i), v.total(parts)), out, i)

    return operation(generate, i, near, r, p, offsets, top, shares, pulls, beta, out)


# ---------------------------------------------------------------------------------------------
# Weights [K, stride] of every cell and neighbour
# ---------------------------------------------------------------------------------------------


@intrinsic
def gather(typingctx, i, values, weights, stride, offsets, out):
    """Set out to the sum over the neighbours of their values times the rows of weights."""

    def generate(v, i, values, weights, stride, offsets, out):
        parts = [
            v.mul(v.load(values, place), v.load(weights, v.row(i, stride, k)))
            for k, place in enumerate(_places(v, i, offsets))
        ]
        v.store(v.total(parts), out, i)

    return operation(generate, i, values, weights, stride, offsets, out)


@intrinsic
def outer(typingctx, i, here, values, stride, offsets, out):
    """Add `here` times the values of the neighbours to the rows of out."""

    def generate(v, i, here, values, stride, offsets, out):
        own = v.load(here, i)
        for k, place in enumerate(_places(v, i, offsets)):
            row = v.row(i, stride, k)
            v.store(v.add(v.load(out, row), v.mul(own, v.load(values, place))), out, row)

    return operation(generate, i, here, values, stride, offsets, out)
