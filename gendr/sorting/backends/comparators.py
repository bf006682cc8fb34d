"""The comparators of a relaxed network: where they are, and by which F they decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from gendr._common.tracing import once
from gendr.distributions import Distribution, StandardDistribution
from gendr.distributions.kernel_functions import kernel_name
from gendr.sorting.networks import Network


@dataclass(frozen=True, eq=False)
class Comparators:
    """The comparators of a network, and the distribution F of their decisions."""

    network: Network
    dist: Distribution

    @once
    def kernel(self) -> tuple[str, float] | None:
        """`name_of` and `power_of` the distribution, if it `has_kernel`."""
        return (name_of(self.dist), power_of(self.dist)) if has_kernel(self.dist) else None


def name_of(dist: Distribution) -> str:
    """By which kernels know a distribution that has one."""
    base = dist if isinstance(dist, StandardDistribution) else cast("Any", dist.base)
    return kernel_name(type(base))


def power_of(dist: Distribution) -> float:
    """The p of sign(d) |d|^p, into which a distribution's transforms turn a difference d."""
    return 2.0 if dist.is_squared else 1.0 - dist.art_exponent


def has_kernel(dist: Distribution) -> bool:
    """Whether kernels can evaluate it: one of the registry whose parameters are all numbers.

    Then it is F(sign(d) |d|^p steepness), see `power_of`, without shift or reversal, as comparators
    need symmetric distributions. Everything else is left to the definition.
    """
    if isinstance(dist, StandardDistribution):
        return dist.shape_parameter is None
    base, shift = dist.base, dist.total_shift()
    if (
        not isinstance(base, StandardDistribution)
        or base.shape_parameter is not None
        or isinstance(shift, Tensor)
    ):
        return False
    return shift == 0 and (base.is_symmetric or not dist.is_reversed)
