"""The comparators of a relaxed network: where they are, and the law by which they decide."""

from __future__ import annotations

from typing import NamedTuple, cast

from torch import Tensor

from gendr.distributions import Distribution, Law
from gendr.distributions.bodies import kernel_name
from gendr.sorting.networks import Network


class Comparators(NamedTuple):
    """The comparators of a network, and the law F of their decisions."""

    network: Network
    law: Distribution


def name_of(law: Distribution) -> str:
    """By which kernels know a law that has one."""
    return kernel_name(type(law if isinstance(law, Law) else cast("Law", law.law)))


def power_of(law: Distribution) -> float:
    """The p of sign(d) |d|^p, into which a law's transforms turn a difference d."""
    return 2.0 if law.is_squared else 1.0 - law.art_exponent


def has_kernel(law: Distribution) -> bool:
    """Whether kernels can evaluate it: a law of the registry whose parameters are all numbers.

    Then it is F(sign(d) |d|^p steepness), see `power_of`, without shift or reversal, as comparators
    need symmetric distributions. Everything else is left to the definition.
    """
    if isinstance(law, Law):
        return law.shape_parameter is None
    base, shift = law.law, law.total_shift()
    if not isinstance(base, Law) or base.shape_parameter is not None or isinstance(shift, Tensor):
        return False
    return shift == 0 and (base.is_symmetric or not law.is_reversed)
