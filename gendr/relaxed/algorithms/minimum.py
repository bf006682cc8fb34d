"""The relaxed arg min and min, the decision that paths and alignments are made of.

The weights of x_1 .. x_k under a distribution F with scale 1 / beta: with m = min_j x_j,

    z_j = (x_j - m) beta,   r_j = (1 - F(z_j)) / F(z_j),   w_j = r_j / sum_i r_i.

r_j are the odds that x_j beats the smallest value when their difference is perturbed. So two values
have the weights of the comparison x_1 < x_2, and the logistic distribution, for which r = exp(-z),
gives the softmax of the thesis, (2.15), for any number of values. The order of the values does not
matter. For other distributions and three values or more, the slope jumps where the two smallest are
equal.

Values that are inf, "not reached", have the weight 0 for every distribution.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from gendr._common.checks import check_choice
from gendr.distributions import Distribution
from gendr.distributions.decisions import Number, scale_of
from gendr.relaxed.backends.distributions import is_softmax

Minimum: TypeAlias = Literal["expected", "log_sum_exp"]
MINIMA = ("expected", "log_sum_exp")


def weigh(x: Tensor, dist: Distribution, steepness: Number, dim: int = -1) -> Tensor:
    """The weights of the relaxed arg min along a dimension; all 0 where nothing is reached.

    Args:
        x: any shape; inf stands for "not reached".
        dist: checked by `check_distribution`.
        steepness: 1 / scale.
        dim: along which the weights sum to 1.
    """
    low, reached, x = _reached(x, dim)
    odds = torch.where(reached, odds_of(x - low, dist, steepness), 0.0)
    total = odds.sum(dim, keepdim=True)
    return odds / torch.where(total > 0, total, 1.0)


def odds_of(beyond: Tensor, dist: Distribution, steepness: Number) -> Tensor:
    """The odds r of values that are so much larger than the smallest one."""
    if is_softmax(dist):
        return torch.exp(-beyond * steepness)
    cdf, sf = dist.coverage(beyond, scale_of(steepness))
    odds = sf / cdf
    # The hard distribution gives all to the smallest values, in equal parts.
    return torch.where((beyond == 0) & (odds.detach() == 0), 1.0, odds)


def minimum(
    x: Tensor, weights: Tensor, steepness: Number, kind: Minimum = "expected", dim: int = -1
) -> Tensor:
    """The relaxed min along a dimension; inf where nothing is reached.

    Args:
        x: as `weigh` takes it.
        weights: its result.
        steepness: 1 / scale, for "log_sum_exp".
        kind: "expected" is sum w x; "log_sum_exp" is -log(sum exp(-beta x)) / beta.
        dim: the dimension that goes.
    """
    low, reached, x = _reached(x, dim)
    if kind == "expected":
        value = low + (weights * (x - low)).sum(dim, keepdim=True)
    else:
        odds = torch.where(reached, torch.exp((low - x) * steepness), 0.0)
        total = odds.sum(dim, keepdim=True)
        value = low - torch.log(torch.where(total > 0, total, 1.0)) / steepness
    value = torch.where(reached.any(dim, keepdim=True), value, torch.inf)
    return value.squeeze(dim)


def _reached(x: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """The smallest value, what is reached, and x with the smallest in place of what is not."""
    reached = x != torch.inf  # NaN is reached, and stays NaN
    low = x.amin(dim, keepdim=True)
    low = torch.where(low != torch.inf, low, 0.0)
    return low, reached, torch.where(reached, x, low)


def check_minimum(kind: object, dist: Distribution) -> None:
    """Raise ValueError if there is no such minimum, or not for this distribution."""
    check_choice("minimum", kind, MINIMA)
    if kind == "log_sum_exp" and not is_softmax(dist):
        raise ValueError(
            f"minimum='log_sum_exp' is that of the logistic distribution, got dist={dist}; "
            "use minimum='expected' with other distributions"
        )
