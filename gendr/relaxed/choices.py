"""Relaxed arg max, max, min and absolute value (thesis 2.15).

For the logistic distribution the probability that a value is the largest is the softmax. For
another symmetric distribution the odds against it, F(-z) / F(z) with z its distance to the largest,
take the place of exp(-z), so that two values are compared exactly as by `greater`.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gendr.distributions.decisions import check_symmetric
from gendr.relaxed.settings import Rule, current
from gendr.relaxed.values import (
    Array,
    Categorical,
    Value,
    as_float,
    is_number,
    is_relaxed,
    kind,
    lerp,
    stacked,
    tensor_of,
    weighed,
)

WHAT = "max, min, argmax and argmin need"


def shares(rule: Rule, values: Tensor) -> Tensor:
    """The probability of each value [*batch, n] to be the largest, [*batch, n].

    A hard rule takes the first of several largest, as Python does.
    """
    return rule.taken(values, partial(_shares, rule), among=True)


def _shares(rule: Rule, values: Tensor) -> Tensor:
    if rule.logistic:
        return torch.softmax(rule.over(values, 1), -1)
    if rule.hard:
        first = values.argmax(-1)
        return torch.nn.functional.one_hot(first, values.shape[-1]).to(values.dtype)
    top = values.amax(-1, keepdim=True)
    check_symmetric(rule.dist, WHAT)
    cdf, sf = rule.dist.coverage(top - values, rule.widened(1))
    odds = sf / cdf
    return odds / odds.sum(-1, keepdim=True)


def _members(values: tuple[Any, ...]) -> list[Value]:
    """The numbers among which one is chosen: several arguments, or one that holds them."""
    if len(values) != 1:
        return list(values)
    (only,) = values
    if isinstance(only, Array):
        return only.cells
    if isinstance(only, Tensor):
        return list(only.unbind(-1)) if only.ndim else [only]
    return list(only)


def _checked(members: list[Value], what: str) -> list[Value]:
    if not members:
        raise ValueError(f"{what} of nothing; give at least one value")
    for x in members:
        if not (is_number(x) or isinstance(x, Tensor)):
            raise TypeError(f"{what} takes numbers, got {kind(x)}")
    return members


def _extreme(values: tuple[Any, ...], name: str | None, sign: int) -> Value:
    what = "max" if sign > 0 else "min"
    if len(values) == 1 and isinstance(values[0], Array) and not values[0].has_cells:
        data = as_float(values[0].data.flatten(values[0].data.ndim - values[0].ndim))
        return _expected(current().rule(name), data, sign)
    members = _members(values)
    if not any(isinstance(x, Tensor) for x in members):
        return (builtins.max if sign > 0 else builtins.min)(members)
    members = _checked(members, what)
    # Infinity on the losing side has no part; on the winning side it wins.
    if any(is_number(x) and x == sign * math.inf for x in members):
        return sign * math.inf
    members = [x for x in members if not (is_number(x) and math.isinf(x))]
    if len(members) == 1:
        return members[0]
    rule = current().rule(name)
    if len(members) == 2:
        if not rule.logistic and not rule.hard:
            check_symmetric(rule.dist, WHAT)
        like = next(x for x in members if isinstance(x, Tensor))
        a, b = (tensor_of(x, as_float(like)) for x in members)
        p = rule.cdf(a - b if sign > 0 else b - a)
        return lerp(p, a, b)
    return _expected(rule, stacked(members), sign)


def _expected(rule: Rule, values: Tensor, sign: int) -> Tensor:
    return weighed(values, shares(rule, values if sign > 0 else -values))


def maximum(*values: Any, name: str | None = None) -> Value:
    """The largest of several numbers: the sum of all, each times its probability to be largest.

    Args:
        values: numbers and tensors; or one list, array or tensor [..., n] of them.
        name: of the decision.

    Returns:
        A plain number for plain numbers.

    Raises:
        ValueError: a distribution that is not symmetric.
    """
    return _extreme(values, name, 1)


def minimum(*values: Any, name: str | None = None) -> Value:
    """The smallest of several numbers. See `maximum`."""
    return _extreme(values, name, -1)


def argmax(values: Any, *, name: str | None = None) -> Any:
    """Which number is the largest.

    Args:
        values: a list or array of numbers, or a tensor [..., n].
        name: of the decision.

    Returns:
        A categorical value, by which lists and arrays can be indexed; the first place, an integer,
        if all numbers are plain.

    Raises:
        ValueError: a distribution that is not symmetric, or no values.
    """
    return _place(values, name, 1)


def argmin(values: Any, *, name: str | None = None) -> Any:
    """Which number is the smallest. See `argmax`."""
    return _place(values, name, -1)


def _place(values: Any, name: str | None, sign: int) -> Any:
    if isinstance(values, np.ndarray):
        return int(np.argmax(sign * values))
    rule = current().rule(name)
    data = values.data if isinstance(values, Array) and not values.has_cells else values
    if isinstance(data, Tensor):
        return Categorical(shares(rule, sign * as_float(data)))
    members = _checked(_members((values,)), "argmax" if sign > 0 else "argmin")
    if not any(isinstance(x, Tensor) for x in members):
        return members.index(builtins.max(members) if sign > 0 else builtins.min(members))
    if any(is_number(x) and x == sign * math.inf for x in members):
        return members.index(sign * math.inf)
    finite = [k for k, x in enumerate(members) if not (is_number(x) and math.isinf(x))]
    if len(finite) == 1:
        return finite[0]
    parts = shares(rule, sign * stacked([members[k] for k in finite]))
    if len(finite) == len(members):
        return Categorical(parts)
    cells: list[Value] = [0.0] * len(members)
    for k, share in zip(finite, parts.unbind(-1), strict=True):
        cells[k] = share
    return Categorical(Array((len(members),), cells=cells))


def absolute(x: Value, *, name: str | None = None) -> Value:
    """X if x > 0 else -x: x (2 F(x / scale) - 1); `name` as in `greater`."""
    if isinstance(x, Array):
        p = current().rule(name).cdf(x.data, dims=x.ndim)
        return Array.dense(lerp(p, x.data, -x.data), x.ndim)
    if not isinstance(x, Tensor):
        return abs(x)
    if not x.is_floating_point():
        return x.abs()
    return lerp(current().rule(name).cdf(x), x, -x)


def total(values: Any, start: Value = 0) -> Value:
    """`sum(values)`, of all numbers of an array, added to `start`."""
    if isinstance(values, Array):
        return values.sum() + start
    members: Sequence[Value] = list(values)
    if any(is_relaxed(x) for x in members) and all(isinstance(x, Tensor) for x in members):
        if len({x.shape for x in members}) == 1 and len(members) > 1:
            return torch.stack(tuple(members)).sum(0) + start
    return builtins.sum(members, start)
