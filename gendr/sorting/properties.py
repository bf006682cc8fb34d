"""Monotonicity and error of a distribution used as a swap: thesis section 3.3.3 and Table 3.1.

A swap of x and 0 leaves min_F(x, 0) = x F(-x) in the place of min(x, 0). It is monotonic if this
never decreases, and then so is every sorting network of such swaps (Corollary 3.3). Its error is
the supremum of x F(-x); that of a network is at most the number of layers times this (Theorem 3.5).

Both properties are found numerically, in float64, with the distribution under the transforms: at t
> 0 on a grid of steps of 0.1 % from 1e-8 to 1e16 times the upper quartile, where

    x F(-x) = t^p base(-t),   x = t^p;   p = 1, 1 / (1 - lambda) with art(lambda), 1/2 if squared.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gendr._common.checks import check_number
from gendr._common.words import worded
from gendr.distributions import CallableDistribution, Distribution, as_distribution
from gendr.distributions.decisions import check_symmetric
from gendr.distributions.registry import DistributionLike

# Relative. Distributions are accurate in both tails, so rounding errors are orders of magnitude
# smaller.
TOLERANCE = 1e-9
# A user's CDF may be inaccurate in the tail, so smaller values of it are ignored.
CALLABLE_FLOOR = 1e-6
# A swap that grows faster than t^0.01 where the grid ends counts as unbounded.
LEAST_GROWTH = 0.01

_LOW, _HIGH, _STEP = math.log(1e-8), math.log(1e16), 1e-3  # of log t


@torch.no_grad()
def is_monotonic(dist: DistributionLike) -> bool:
    """Whether min_F(x, 0) never decreases: whether no gradient has the wrong sign.

    Relative decreases below 1e-9 are not detected, nor any that happen within 0.1 % of an x. A CDF
    of the user's is used down to 1e-6.

    Args:
        dist: a symmetric distribution, its transforms included.

    Raises:
        TypeError: it is no distribution.
        ValueError: it is not symmetric.
    """
    _, log_min = _log_swap(_symmetric(dist))
    # If all values are -inf, the distribution is 0 everywhere, and min_F is constant.
    drop = torch.where(log_min.isneginf().all(), 0.0, log_min.cummax(0).values - log_min)
    return bool((drop <= TOLERANCE).all())


@worded()
@torch.no_grad()
def error_bound(dist: DistributionLike, scale: float | None = None) -> float:
    """The largest error of one swap, sup_x x F(-x); inf if there is none (Definition 3.4).

    The relative accuracy is 1e-9. An error that grows faster than t^0.01 at the end of the grid
    counts as unbounded. A CDF of the user's is used down to 1e-6; if the error still grows there,
    it counts as unbounded.

    Args:
        dist: a symmetric distribution, its transforms included.
        scale: the inverse of the steepness; the error has the units of x. By default it is the
            scale at which F has slope 1 at 0, so that distributions of different widths can be
            compared as in Table 3.1; the error at a slope alpha is 1 / alpha times this. With art
            or squared, the slope of F itself at 0 is 0 or inf, and the distribution under the
            transform gets slope 1. That gives the .0302 of Table 3.1: logistic with art(1/2),
            steepness 4.

    Raises:
        TypeError: it is no distribution, or the scale no number.
        ValueError: it is not symmetric, the scale is not positive, or there is no scale and the
            slope at 0 is 0 or infinite.
    """
    dist = _symmetric(dist)
    grid, log_min = _log_swap(dist)
    best = int(log_min.argmax())
    top = float(log_min[best])
    if top == -math.inf:
        return 0.0  # a hard swap
    # From one step before to one step after, in increments of 1e-4 of a step.
    near = grid[best] + _STEP * torch.linspace(-1, 1, 20001, dtype=grid.dtype, device="cpu")
    top = max(top, float(_log_swap_at(dist, near).max()))
    tail = log_min[-100:]
    if float(tail[-1] - tail[0]) > LEAST_GROWTH * float(grid[-1] - grid[-100]):
        return math.inf
    if scale is None:
        scale = float(dist.base.density_at(torch.zeros((), dtype=torch.float64, device="cpu")))
        if not 0 < scale < math.inf:
            raise ValueError(f"{dist} has the slope {scale:g} at 0; give a scale")
    log_scale = math.log(check_number("scale", scale, above=0.0))
    return float(
        torch.tensor(top + _power(dist) * log_scale, dtype=torch.float64, device="cpu").exp()
    )


def _power(dist: Distribution) -> float:
    """The p of x = t^p, where the base is evaluated at t = phi(x); errors grow as scale^p."""
    return 0.5 if dist.is_squared else 1 / (1 - dist.art_exponent)


def _log_swap_at(dist: Distribution, log_t: Tensor) -> Tensor:
    """log(x F(-x)) at scale 1, at t = exp(log_t)."""
    (below,) = dist.base.tails_at(-log_t.exp(), ("cdf",))
    return _power(dist) * log_t + below.log()


def _log_swap(dist: Distribution) -> tuple[Tensor, Tensor]:
    """The grid of log t, and log(x F(-x)) on it, where the distribution is accurate enough."""
    grid = torch.arange(_LOW, _HIGH, _STEP, dtype=torch.float64, device="cpu") + _log_quartile(dist)
    log_min = _log_swap_at(dist, grid)
    if isinstance(dist.base, CallableDistribution):
        count = int((log_min - _power(dist) * grid > math.log(CALLABLE_FLOOR)).sum())
        return grid[:count], log_min[:count]
    return grid, log_min


def _log_quartile(dist: Distribution) -> float:
    quartile = float(
        dist.base.quantile_at(torch.tensor(0.25, dtype=torch.float64, device="cpu"), "sf")
    )
    return math.log(quartile) if quartile > 0 else 0.0  # a step at 0 has no width


def _symmetric(dist: DistributionLike) -> Distribution:
    """Return the distribution if F(-x) = 1 - F(x); a user's CDF is tested at some x > 0."""
    dist = check_symmetric(as_distribution(dist), "a comparator needs")
    if isinstance(dist.base, CallableDistribution):
        x = (
            torch.linspace(-20, 20, 201, dtype=torch.float64, device="cpu") + _log_quartile(dist)
        ).exp()
        (above,), (below,) = dist.base.tails_at(x, ("sf",)), dist.base.tails_at(-x, ("cdf",))
        gap = float((above - below).abs().max())
        if gap > TOLERANCE:
            raise ValueError(
                f"a comparator needs F(-x) = 1 - F(x), but for {dist} they differ by {gap:.2g}"
            )
    return dist
