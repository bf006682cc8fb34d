"""Reading and writing arrays at plain, real-valued and categorical places (thesis 2.2.2).

A real-valued place is perturbed by the distribution: cell j counts with the density g((j - i) /
scale) over the sum of all. With w these coefficients and s = -(log g)',

    dw_j / di = w_j (s_j - sum_k w_k s_k) / scale

As published, the sum is a constant of the backward pass: dw_j / di = w_j s_j / scale, which is no
derivative: the coefficients of a constant array no longer add up to one. `normaliser="constant"`
has it. A categorical place counts each cell with its probability.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from gendr.relaxed.settings import CONSTANT, Rule, check_peak, current
from gendr.relaxed.values import (
    Array,
    Categorical,
    Value,
    as_float,
    blend,
    is_number,
    is_relaxed,
    is_whole,
    kind,
    lerp,
    stacked,
    tensor_of,
    weighed,
    widened,
)


def coefficients(rule: Rule, place: Tensor, count: int) -> Tensor:
    """How much each of `count` cells counts at a real-valued place [*batch]: [*batch, count]."""
    return rule.taken(place, partial(_coefficients, rule), count, among=True)


def _coefficients(rule: Rule, place: Tensor, count: int) -> Tensor:
    cells = torch.arange(count, dtype=place.dtype, device=place.device)
    distance = cells - place[..., None]
    if rule.hard:
        return _nearest(distance)
    w = _densities(rule, distance)
    if (
        rule.trajectories is not None
    ):  # a counter of a trajectory is a whole number, and no place near it
        whole = (place == place.round())[..., None]
        return torch.where(whole, _nearest(distance), w)
    return w


def _densities(rule: Rule, distance: Tensor) -> Tensor:
    """The coefficients of cells at this distance from a place."""
    z = rule.over(distance, 1)
    constant = rule.normaliser == CONSTANT
    if rule.logistic:
        # In logarithms nothing underflows, however small the scale is.
        log = torch.nn.functional.logsigmoid(z) + torch.nn.functional.logsigmoid(-z)
        if constant:
            return (log - log.detach().logsumexp(-1, keepdim=True)).exp()
        return log.softmax(-1)
    check_peak(rule.dist)
    density = rule.dist.pdf(z)
    sums = (density.detach() if constant else density).sum(-1, keepdim=True)
    return torch.where(sums > 0, density / sums.clamp(min=torch.finfo(z.dtype).tiny), _nearest(z))


def _nearest(distance: Tensor) -> Tensor:
    """1 at the nearest cell, the first of two."""
    nearest = distance.abs().argmin(-1)
    return torch.nn.functional.one_hot(nearest, distance.shape[-1]).to(distance.dtype)


def weights(place: Value, count: int, name: str | None) -> Tensor:
    """How much each of `count` cells counts at any place: [*batch, count] or [count]."""
    if isinstance(place, Categorical):
        if len(place) != count:
            raise IndexError(f"{kind(place)} is no place among {count}")
        trajectories = current().trajectories
        return trajectories.choose(place.probabilities) if trajectories else place.probabilities
    if isinstance(place, Tensor):
        if place.is_floating_point():
            return coefficients(current().rule(name), place, count)
        return torch.nn.functional.one_hot(place.long(), count).to(current().dtype)
    return Categorical.certain(place, count).probabilities


def plain(places: tuple[Any, ...]) -> bool:
    """Whether all places are integers, as most are."""
    for place in places:
        if type(place) is not int:
            return False
    return True


def _check_places(places: tuple[Any, ...]) -> bool:
    """Whether a place is relaxed.

    Raises:
        TypeError: a place is no number.
    """
    relaxed = False
    for place in places:
        if isinstance(place, slice):
            for end in (place.start, place.stop, place.step):
                if is_relaxed(end):
                    raise TypeError(
                        "a slice cannot begin or end at a relaxed number: the shape of a result "
                        "may not depend on a relaxed decision"
                    )
        elif isinstance(place, (Tensor, Categorical)):
            relaxed = True
        elif isinstance(place, Array):
            raise TypeError(f"{kind(place)} is no place; index with numbers")
    if relaxed and any(isinstance(place, slice) for place in places):
        raise TypeError("slices and relaxed places do not go together; index one after the other")
    return relaxed


def index(target: Any, *places: Any, name: str | None = None) -> Value:
    """Read target[places].

    Args:
        target: an array, or a list of numbers or categorical values; or a tensor [..., n1, n2, ..],
            whose last dimensions are the indexed ones; anything else is indexed as in Python.
        places: integers and slices; tensors [*batch]: real-valued places, or integers that differ
            over the batch; categorical values. Real-valued places do not
            count from the end: beyond an end they are nearest to the cell there.
        name: of the decision.

    Returns:
        The number, or the part, that stands there: exact at plain places, else the expectation.

    Raises:
        IndexError: a plain place outside, or too many places.
        TypeError: something that is no place.
        ValueError: a distribution whose density has its peak elsewhere than at 0.
    """
    if len(places) == 1 and isinstance(places[0], tuple):
        places = places[0]
    if isinstance(target, Array):
        if plain(places):
            return target.at(places)
        if not _check_places(places):
            return target.at(places)
        return _read(target, places, name)
    if isinstance(target, Tensor):
        if target.ndim < len(places):
            raise TypeError(
                "a relaxed number has no cells to index; if it is an argument, say what it is, "
                "such as `x: Vector`"
            )
        return index(Array.dense(target, len(places)), *places, name=name)
    if not _check_places(places):
        if isinstance(target, (list, tuple)):
            for place in places:
                target = cast(Any, target)[place]
            return target
        return target[places[0] if len(places) == 1 else places]
    if isinstance(target, (list, tuple)):
        members = cast("list[Any]", target)
        if any(isinstance(x, Categorical) for x in members):
            return _choose(members, places, name)
        return _read(Array.of(members), places, name)
    raise TypeError(f"{kind(target)} cannot be indexed at a relaxed place; use an array")


def _choose(members: list[Any], places: tuple[Any, ...], name: str | None) -> Categorical:
    """A mixture of categorical values."""
    count = len(next(x for x in members if isinstance(x, Categorical)))
    rows = [x if isinstance(x, Categorical) else Categorical.certain(x, count) for x in members]
    if len(places) != 1:
        raise IndexError(f"a list of categorical values takes 1 index, got {len(places)}")
    w = weights(places[0], len(rows), name)
    # [*batch, classes, members]
    table = torch.stack(torch.broadcast_tensors(*(row.probabilities.to(w) for row in rows)), -1)
    return Categorical(weighed(table, w[..., None, :]))


def _read(target: Array, places: tuple[Any, ...], name: str | None) -> Value:
    if len(places) > target.ndim:
        raise IndexError(f"{kind(target)} takes at most {target.ndim} indices, got {len(places)}")
    if target.ndim == 1 and target.has_cells and isinstance(places[0], Categorical):
        choice = places[0].weights
        if len(choice) != len(target):
            raise IndexError(f"{kind(places[0])} is no place among {len(target)}")
        if choice.has_cells:  # plain zeros, so that infinite cells have no part
            pairs = zip(choice.cells, target.cells, strict=True)
            counting = [(w, x) for w, x in pairs if not (is_number(w) and w == 0)]
            infinite = [x for _, x in counting if is_number(x) and math.isinf(x)]
            if infinite:
                return infinite[0]
            return weighed(stacked([x for _, x in counting]), stacked([w for w, _ in counting]))
    data, rank = as_float(target.data), target.ndim
    # From the last place to the first, so that dimensions keep their numbers.
    for axis in range(len(places) - 1, -1, -1):
        place = places[axis]
        dim = data.ndim - rank + axis
        if is_whole(place):
            if not -target.shape[axis] <= place < target.shape[axis]:
                raise IndexError(f"index {place} is outside of {kind(target)}")
            data = data.select(dim, place)
        else:
            w = weights(place, target.shape[axis], name)
            w = w[(..., *(None,) * (rank - 1), slice(None))] if w.ndim > 1 else w
            data = weighed(data.movedim(dim, -1), w.to(data.dtype))
        rank -= 1
    return Array.dense(data, rank) if rank else data


def write(target: Any, value: Value, *places: Any, name: str | None = None) -> Any:
    """The array, or list, after target[places] = value; the given one does not change.

    At relaxed places every cell becomes w value + (1 - w) cell.

    Args:
        target: as in `index`.
        value: a number, or an array that fits the part.
        places: as in `index`.
        name: of the decision.

    Returns:
        An array; a tensor for a tensor, a list or a dict for one of these at a plain place.

    Raises:
        IndexError, TypeError, ValueError: as `index`; or the value does not fit.
    """
    if len(places) == 1 and isinstance(places[0], tuple):
        places = places[0]
    if isinstance(target, Tensor):
        if target.ndim < len(places):
            raise TypeError(
                "a relaxed number has no cells to write; if it is an argument, say what it is, "
                "such as `x: Vector`"
            )
        return write(Array.dense(target, len(places)), value, *places, name=name).data
    if isinstance(target, Array) and plain(places):
        return target.put(places, value)
    relaxed = _check_places(places)
    if isinstance(target, dict) and not relaxed and len(places) == 1:
        return {**cast("dict[Any, Any]", target), places[0]: value}
    if isinstance(target, list):
        if not relaxed and len(places) == 1 and not isinstance(value, Array):
            changed = list(cast("list[Any]", target))
            changed[places[0]] = value
            return changed
        if isinstance(value, Categorical):
            w = weights(places[0], len(target), name)
            return [blend(w[..., k], value, old) for k, old in enumerate(cast("list[Any]", target))]
        target = Array.of(target)
    if not isinstance(target, Array):
        raise TypeError(f"{kind(target)} cannot be written in a relaxed program; use an array")
    if not relaxed:
        return target.put(places, value)
    if len(places) > target.ndim:
        raise IndexError(f"{kind(target)} takes at most {target.ndim} indices, got {len(places)}")
    rank = target.ndim
    total: Tensor | None = None
    for axis, place in enumerate(places):
        w = weights(place, target.shape[axis], name)
        w = w[(..., slice(None), *(None,) * (rank - 1 - axis))]
        lead = (None,) * axis
        w = w[(*(slice(None),) * (w.ndim - (rank - axis)), *lead, ...)] if axis else w
        total = w if total is None else total * w
    assert total is not None  # a relaxed place is there
    data = as_float(target.data)
    if isinstance(value, (list, tuple)):
        value = Array.of(value)
    if isinstance(value, Array):
        if value.shape != target.shape[len(places) :]:
            raise ValueError(f"{kind(value)} does not fit a part of {kind(target)}")
        part = as_float(value.data)
        cut = part.ndim - value.ndim
        part = part[(*(slice(None),) * cut, *(None,) * len(places), ...)]
    else:
        part = widened(tensor_of(value, data), rank)
    return Array.dense(lerp(total.to(data.dtype), part.to(data.dtype), data), rank)


# -- new arrays


def _filled(value: float, sizes: tuple[Any, ...]) -> Any:
    for size in sizes:
        if isinstance(size, (Tensor, Array, Categorical)):
            raise TypeError("the shape of an array may not depend on a relaxed number")
    if current().hard:
        import numpy as np

        return np.full(sizes, float(value))
    return Array(tuple(sizes), cells=[value] * math.prod(sizes))


def zeros(*sizes: int) -> Any:
    """An array of zeros of these sizes: `zeros(n)`, `zeros(rows, columns)`. Hard, one of NumPy."""
    return _filled(0.0, sizes)


def full(*sizes: int, value: float) -> Any:
    """An array of these sizes of a number: `full(rows, columns, value=inf)`. Hard, one of NumPy."""
    return _filled(value, sizes)
