"""Relaxed comparisons: probabilities that they hold under noise (thesis 2.13, 2.14).

Plain values are compared as Python does. Two arrays, or an array and a number, are compared
elementwise.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gendr._common.tracing import is_traced
from gendr.relaxed.settings import Rule, at_ties, current, with_ties, within
from gendr.relaxed.values import (
    Array,
    Categorical,
    Value,
    aligned,
    as_float,
    is_finite,
    is_number,
    is_relaxed,
    is_whole,
    kind,
)


def _difference(a: Value, b: Value) -> tuple[Tensor, int]:
    """A - b of arrays, one of which may be a number, and their own dimensions."""
    rank = max(x.ndim for x in (a, b) if isinstance(x, Array))
    return aligned(a, rank) - aligned(b, rank), rank


def _greater(a: Value, b: Value, name: str | None, strict: bool) -> Value:
    """The probability of a > b, or a >= b, where at least one is relaxed."""
    if isinstance(a, Array) or isinstance(b, Array):
        difference, rank = _difference(a, b)
        return Array.dense(current().rule(name).cdf(difference, strict, rank), rank)
    if is_number(b) and math.isinf(b):
        return b < 0  # relaxed numbers are finite
    if is_number(a) and math.isinf(a):
        return a > 0
    for x in (a, b):
        if not (isinstance(x, Tensor) or is_number(x)):
            raise TypeError(f"{kind(a)} and {kind(b)} have no order")
    difference = a - b
    if not difference.is_floating_point():
        return (difference > 0 if strict else difference >= 0).to(current().dtype)
    return current().rule(name).cdf(difference, strict)


def greater(a: Value, b: Value, *, name: str | None = None) -> Value:
    """The probability of a > b: F((a - b) / scale).

    Args:
        a: a number, tensor or array.
        b: the same.
        name: of the decision, by which it gets its scale.

    Returns:
        A bool for plain numbers, else probabilities.
    """
    if is_relaxed(a) or is_relaxed(b):
        return _greater(a, b, name, strict=True)
    return a > b


def less(a: Value, b: Value, *, name: str | None = None) -> Value:
    """The probability of a < b: F((b - a) / scale). See `greater`."""
    if is_relaxed(a) or is_relaxed(b):
        return _greater(b, a, name, strict=True)
    return a < b


def greater_equal(a: Value, b: Value, *, name: str | None = None) -> Value:
    """The probability of a >= b, that of a > b but for a = b under heaviside. See `greater`."""
    if is_relaxed(a) or is_relaxed(b):
        return _greater(a, b, name, strict=False)
    return a >= b


def less_equal(a: Value, b: Value, *, name: str | None = None) -> Value:
    """The probability of a <= b, that of a < b but for a = b under heaviside. See `greater`."""
    if is_relaxed(a) or is_relaxed(b):
        return _greater(b, a, name, strict=False)
    return a <= b


def equal(a: Value, b: Value, *, name: str | None = None) -> Value:
    """How much a equals b, in [0, 1].

    Numbers: the density at a - b over its peak, sech^2((a - b) / (2 scale)) for logistic, which
    never overflows. Categorical values: the cosine similarity of their probabilities; a plain
    integer stands for the class with that number.

    Args:
        a: a number, tensor, array or categorical value.
        b: the same.
        name: of the decision.

    Returns:
        A bool for plain values, else numbers in [0, 1].

    Raises:
        ValueError: the density of the distribution has its peak elsewhere than at 0.
    """
    if isinstance(a, Categorical) or isinstance(b, Categorical):
        return _same_class(a, b)
    if not (is_relaxed(a) or is_relaxed(b)):
        return a == b
    if isinstance(a, Array) or isinstance(b, Array):
        difference, rank = _difference(a, b)
        return Array.dense(current().rule(name).peak(difference, rank), rank)
    for x in (a, b):
        if not (isinstance(x, Tensor) or is_number(x)):
            return False  # a number is never a text
        if is_number(x) and math.isinf(x):
            return False
    difference = a - b
    if not difference.is_floating_point():
        return (difference == 0).to(current().dtype)
    return current().rule(name).peak(difference)


def _same_class(a: Value, b: Value) -> Value:
    if not isinstance(a, Categorical):
        a, b = b, a
    if isinstance(b, Categorical):
        if len(a) != len(b):
            raise ValueError(f"{kind(a)} and {kind(b)} cannot be equal; classes must match")
        return _decided((a.unit * b.unit).sum(-1))
    if is_whole(b):
        if not 0 <= b < len(a):
            return False
        return _decided(a.unit[..., int(b)])
    raise TypeError(f"a categorical value is compared with another, or an integer, not {kind(b)}")


def _decided(p: Tensor) -> Tensor:
    """A probability, or in trajectories the decision."""
    trajectories = current().trajectories
    return trajectories.decide(p) if trajectories else p


def not_equal(a: Value, b: Value, *, name: str | None = None) -> Value:
    """The probability of a != b: one minus that of `equal`, whose `name` it has."""
    return not_(equal(a, b, name=name))


def contains(container: Any, value: Value, *, name: str | None = None) -> Value:
    """`value in container`: the 'or' of the equalities with each member; `name` as in `greater`."""
    if not is_relaxed(value) and not isinstance(container, Array):
        if not isinstance(container, (list, tuple)) or not any(map(is_relaxed, container)):
            return value in container
    return any_(equal(member, value, name=name) for member in container)


# -- logic


def truth(value: Value) -> Value:
    """A value as a condition: what a program asks of `if x:` where x is no comparison.

    Raises:
        ValueError: a relaxed number that is no probability.
        TypeError: an array or a categorical value.
    """
    if isinstance(value, Tensor):
        value = as_float(value)
        if not value.numel() or is_traced():
            return value
        low, high = torch.aminmax(value.detach())
        if not (low >= -1e-5 and high <= 1 + 1e-5):
            raise ValueError(
                "a condition is a probability in [0, 1], got a relaxed number in "
                f"[{low.item():g}, {high.item():g}]; write what it is compared with, such as x != 0"
            )
        return value
    return value if is_relaxed(value) else bool(value)


def not_(p: Value) -> Value:
    """1 - p; `not` of plain values."""
    if isinstance(p, Tensor):
        sure = at_ties(p)
        return 1 - as_float(p) if sure is p else with_ties(1 - p, lambda: 1 - sure)
    if isinstance(p, Array):
        return p.map(lambda x: 1 - as_float(x))
    return not p


def _joined(a: Value, b: Value, rule: Rule, both: bool) -> Value:
    """The 'and' (both) or 'or' of two probabilities, at least one of them relaxed."""
    if isinstance(a, Array) or isinstance(b, Array):
        rank = max(x.ndim for x in (a, b) if isinstance(x, Array))
        return Array.dense(_joined(aligned(a, rank), aligned(b, rank), rule, both), rank)
    if rule.product:
        return a * b if both else a + b - a * b
    return rule.tconorm.dual(a, b) if both else rule.tconorm(a, b)


def and_(first: Value, *others: Value, name: str | None = None) -> Value:
    """`first and ...`: the T-norm of probabilities.

    Args:
        first: a condition.
        others: conditions, or functions without arguments that give one: they are called only
            if what stands before them is not plainly false.
        name: of the decision.

    Returns:
        As Python's `and` for plain values, else probabilities.
    """
    return _chain(first, others, name, both=True)


def or_(first: Value, *others: Value, name: str | None = None) -> Value:
    """`first or others`: the T-conorm of probabilities, dual to the T-norm. See `and_`."""
    return _chain(first, others, name, both=False)


def _chain(first: Value, others: tuple[Value, ...], name: str | None, both: bool) -> Value:
    result = first
    for other in others:
        if not is_relaxed(result):
            if bool(result) is not both:
                return result
            result = other() if callable(other) else other
            continue
        value = within(result, both, other) if callable(other) else other
        if is_relaxed(value):
            if isinstance(result, Tensor) and isinstance(value, Tensor) and not is_finite(value):
                # What is not asked any more may be NaN.
                end = 0.0 if both else 1.0
                value = torch.where((at_ties(result) == end) & ~value.isfinite(), end, value)
            rule, one, two = current().rule(name), at_ties(result), at_ties(value)
            tied = one is not result or two is not value
            result = _joined(result, value, rule, both)
            if tied and isinstance(result, Tensor):
                sure = _joined(one, two, rule, both).detach()
                with_ties(result, lambda sure=sure: sure)
        elif bool(value) is not both:
            return bool(value)
    return result


def any_(values: Any, *, name: str | None = None) -> Value:
    """`any(values)`: the 'or' of all of them; `name` as in `greater`."""
    return _all(values, name, both=False)


def all_(values: Any, *, name: str | None = None) -> Value:
    """`all(values)`: the 'and' of all of them; `name` as in `greater`."""
    return _all(values, name, both=True)


def _all(values: Any, name: str | None, both: bool) -> Value:
    if isinstance(values, Array):
        rule = current().rule(name)
        flat = values.data.flatten(values.data.ndim - values.ndim)
        return (rule.tconorm.dual if both else rule.tconorm).reduce(flat)
    result: Value = both
    for value in values:
        value = value if is_relaxed(value) else bool(value)
        result = _chain(result, (value,), name, both)
        if result is (not both):
            return result
    return result


def decided(value: Value) -> bool:
    """The `value` of a condition that must be plain, since a shape or an error depends on it.

    Raises:
        TypeError: it is relaxed.
    """
    if is_relaxed(value):
        raise TypeError(
            f"{kind(value)} cannot decide how long a list is or whether a program goes on; only "
            "plain numbers can"
        )
    return bool(value)
