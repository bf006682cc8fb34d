"""What comparisons of numbers ask of a distribution: its steepness, and that it is symmetric.

A decision such as a < b has the probability F((b - a) * steepness); steepness is 1 / scale, the
inverse temperature of the papers. Outside the renderer it is what users give.
"""

from __future__ import annotations

import sys
from typing import TypeAlias

import torch
from torch import Tensor

from gendr._common.checks import check_number, check_tensor
from gendr._common.ranges import ratio
from gendr._common.tracing import is_traced
from gendr.distributions.base import Distribution
from gendr.distributions.callable import CallableDistribution
from gendr.distributions.members.heaviside import Heaviside
from gendr.distributions.registry import standard_distributions

Number: TypeAlias = "float | Tensor"


def check_steepness(value: object, *, rows: bool = False) -> Number:
    """Return `value` if it is a positive number, or a tensor that holds a single one.

    Args:
        value: what was given.
        rows: whether it may be a tensor of several, one for each row.

    Raises:
        TypeError: if it is neither.
        ValueError: if it is not positive and finite.
    """
    if not isinstance(value, Tensor):
        return check_number("steepness", value, above=0.0)
    several = check_tensor("steepness", value).numel() != 1
    if (several and not rows) or not value.is_floating_point():
        raise TypeError(
            "steepness must be a number or a tensor of a single floating number"
            f"{', or of one for each row' * rows}, got {value.dtype} of shape {list(value.shape)}"
        )
    if not is_traced() and value.numel():
        for end in value.detach().aminmax():
            check_number("steepness", float(end), above=0.0)
    return value if several else value.reshape(())


def scale_of(steepness: Number) -> Number:
    """The scale 1 / steepness of a distribution; neither it nor its gradient overflows to inf.

    The slope, -1 / steepness^2, would overflow in float32 at a steepness of 1e-19.
    """
    if isinstance(steepness, Tensor):
        return ratio(torch.ones_like(steepness), steepness)
    return min(1 / steepness, sys.float_info.max)


def check_symmetric(dist: Distribution, what: str) -> Distribution:
    """Return `dist` if F(-z) = 1 - F(z); a CDF of the user's is not checked.

    heaviside is accepted: it differs from a symmetric distribution only at 0.

    Args:
        dist: the distribution.
        what: needs it, as the message begins: "a comparator needs".

    Raises:
        ValueError: if it is not symmetric; the message lists distributions that are.
    """
    base, shift = dist.base, dist.total_shift()
    known = base.is_symmetric or isinstance(base, (Heaviside, CallableDistribution))
    if known and not isinstance(shift, Tensor) and shift == 0:
        return dist
    names = ", ".join(
        name
        for name, base in standard_distributions().items()
        if base.is_symmetric is True or base is Heaviside
    )
    raise ValueError(
        f"{what} a symmetric distribution, F(-z) = 1 - F(z), got {dist}; "
        f"symmetric without a shift are {names}"
    )
