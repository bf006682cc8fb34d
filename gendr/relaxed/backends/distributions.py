"""The distributions that relaxed decisions can use, and what a compiled kernel takes of one."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from gendr._common.registry import memoized
from gendr.distributions import Distribution, StandardDistribution, as_distribution
from gendr.distributions.decisions import check_symmetric
from gendr.distributions.kernel_functions import kernel_name
from gendr.distributions.members.logistic import Logistic
from gendr.distributions.registry import DistributionLike

WHAT = "a relaxed comparison needs"


class KernelDistribution(NamedTuple):
    """A distribution as kernels take it.

    Attributes:
        name: of the base distribution, by `kernel_name`: so its compiled functions are found.
        shape: its parameter, 0 if it has none.
        is_softmax: whether the odds sf(z) / cdf(z) are exp(-z), as for the logistic distribution:
            then the weights of an arg min are a softmax.
    """

    name: str
    shape: float
    is_softmax: bool


@memoized
def check_distribution(dist: DistributionLike) -> Distribution:
    """The distribution, if F(-z) = 1 - F(z); a CDF of the user's is not checked.

    heaviside is accepted, which makes every decision hard.

    Raises:
        TypeError: it is no distribution.
        ValueError: it is not symmetric; the message lists distributions that are.
    """
    return check_symmetric(as_distribution(dist), WHAT)


def is_softmax(dist: Distribution) -> bool:
    """Whether the odds sf(z) / cdf(z) of this distribution are exp(-z)."""
    return isinstance(dist.base, Logistic) and not (dist.is_squared or dist.art_exponent)


def for_kernels(dist: Distribution) -> KernelDistribution | None:
    """The distribution for a compiled kernel; None if it must be evaluated in torch.

    Kernels take a distribution of the registry whose parameters are numbers, neither squared nor
    with art.
    """
    base, shape = dist.base, dist.shape_parameter
    if not isinstance(base, StandardDistribution) or isinstance(shape, Tensor):
        return None
    if dist.is_squared or dist.art_exponent or (dist.is_reversed and not base.is_symmetric):
        return None
    return KernelDistribution(kernel_name(type(base)), float(shape or 0.0), is_softmax(dist))
