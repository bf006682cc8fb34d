"""The laws that relaxed decisions can use, and what a compiled kernel is told of one."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from torch import Tensor

from gendr._runtime.checks import check_number
from gendr.distributions import (
    CallableDistribution,
    Distribution,
    Heaviside,
    as_distribution,
    laws,
)
from gendr.distributions import Law as RegisteredLaw
from gendr.distributions.laws.logistic import Logistic
from gendr.distributions.registry import DistributionLike

Number: TypeAlias = "float | Tensor"


class Law(NamedTuple):
    """A law as kernels take it.

    Attributes:
        name: of the base law, by which its compiled functions are found.
        shape: its parameter, 0 if it has none.
        steepness: 1 / scale.
        is_softmax: whether the odds sf(z) / cdf(z) are exp(-z), as for the logistic law: then the
            weights of an arg min are a softmax.
    """

    name: str
    shape: float
    steepness: float
    is_softmax: bool


def check_law(dist: DistributionLike) -> Distribution:
    """The distribution, if F(-z) = 1 - F(z); a CDF of the user's is not checked.

    heaviside is accepted, which makes every decision hard.

    Raises:
        TypeError: it is no distribution.
        ValueError: it is not symmetric; the message lists distributions that are.
    """
    return _named(dist) if isinstance(dist, str) else _checked(as_distribution(dist))


@lru_cache(maxsize=256)
def _named(name: str) -> Distribution:
    """A law by its name, which is found and checked once."""
    return _checked(as_distribution(name))


def _checked(dist: Distribution) -> Distribution:
    law, shift = dist.law, dist.total_shift()
    known = law.is_symmetric or isinstance(law, (Heaviside, CallableDistribution))
    if known and not isinstance(shift, Tensor) and shift == 0:
        return dist
    names = ", ".join(
        name for name, law in laws().items() if law.is_symmetric is True or law is Heaviside
    )
    raise ValueError(
        f"a relaxed comparison needs a symmetric distribution, F(-z) = 1 - F(z), got {dist}; "
        f"symmetric without a shift are {names}"
    )


def check_steepness(value: object) -> Number:
    """Return `value` if it is a positive number, or a tensor that holds a single one.

    Raises:
        TypeError: it is neither.
        ValueError: it is not positive and finite.
    """
    if not isinstance(value, Tensor):
        return check_number("steepness", value, above=0.0)
    if value.numel() != 1 or not value.is_floating_point():
        raise TypeError(
            "steepness must be a number or a tensor of a single floating number, "
            f"got {value.dtype} of shape {list(value.shape)}"
        )
    check_number("steepness", float(value.detach()), above=0.0)
    return value.reshape(())


def scale_of(steepness: Number) -> Number:
    """1 / steepness, at most the largest number."""
    return 1 / steepness if isinstance(steepness, Tensor) else min(1 / steepness, _LARGEST)


_LARGEST = sys.float_info.max


def is_softmax(dist: Distribution) -> bool:
    """Whether the odds sf(z) / cdf(z) of this distribution are exp(-z)."""
    return isinstance(dist.law, Logistic) and not (dist.is_squared or dist.art_exponent)


def for_kernels(dist: Distribution, steepness: Number) -> Law | None:
    """The law for a compiled kernel; None if it must be evaluated in torch.

    Kernels take a law of the registry whose parameters are numbers, neither squared nor with art.
    """
    law, shape = dist.law, dist.shape_parameter
    if not isinstance(law, RegisteredLaw) or isinstance(shape, Tensor):
        return None
    if dist.is_squared or dist.art_exponent or (dist.is_reversed and not law.is_symmetric):
        return None
    number = float(steepness.detach()) if isinstance(steepness, Tensor) else float(steepness)
    return Law(law.name, 0.0 if shape is None else float(shape), number, is_softmax(dist))
