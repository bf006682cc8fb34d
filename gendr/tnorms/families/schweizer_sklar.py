"""The Schweizer-Sklar family."""

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from gendr.kernels.vocabulary import (
    Block,
    expm1,
    hazard,
    log,
    log1p,
    parts_from_hazard,
    power,
    where,
)
from gendr.tnorms.base import Parametric
from gendr.tnorms.groups import Grouping


@final
@dataclass(frozen=True)
class SchweizerSklar(Parametric):
    """1 - ((1-a)^p + (1-b)^p - 1)^(1/p); g(a) = (1-a)^p - 1.

    With x = -log(1-a) and q = -p > 0, g = expm1(q x), and x = log1p(t) / q brings t back.
    The parameter is p < 0, as in thesis table 5.2; p = -1 is Dombi at p = 1. Source: table B.2.
    """

    name = "schweizer_sklar"
    formula = "1 - ((1-a)^p + (1-b)^p - 1)^(1/p)"
    parameter = "p < 0"
    bounds = (-math.inf, 0.0)
    example_p = (-2, -0.5, -1, -4, -0.01, -30)

    def fold(self, a: Tensor, s: Tensor, group: Grouping) -> tuple[Tensor, Tensor]:
        """The sum of expm1(y), y = q x, in units of exp(max y), so that it never overflows."""
        y = -self._p * torch.log1p(a / s)
        top = group.max(y)
        unit = group.expand(torch.where(top < math.inf, top, 0.0))
        share = group.sum(torch.exp(y - unit) * -torch.expm1(-y))
        # From 50 on, exp(-top) is lost in the rounding of the share.
        total = torch.where(
            top < 50, torch.log1p(share * top.clamp(max=50).exp()), top + share.log()
        )
        return parts_from_hazard(total / -self._p)

    def slope_at_one(self, b: Tensor, s: Tensor) -> Tensor:
        """1: the power of a complement of 0 outweighs any others."""
        return torch.ones_like(b)


def generator(a: Block, s: Block, p: Block) -> Block:
    """Return g(a)."""
    return expm1(-p * hazard(a, s))


def inverse(t: Block, p: Block) -> tuple[Block, Block]:
    """(A, S) with g(A) = t."""
    return parts_from_hazard(log1p(t) / -p)


def scaled(a: Block, s: Block, p: Block) -> tuple[Block, Block]:
    """(u, k) with g(a) = k u^q, u = 1/s."""
    return 1.0 / s, -expm1(p * hazard(a, s))


def unscaled(u: Block, t: Block, p: Block) -> tuple[Block, Block]:
    """(A, S) with g(A) = t u^q; beyond 1e30, 1 + g is g."""
    g = t * power(u, -p)
    huge = (log(t) / -p) + log(u)
    return parts_from_hazard(where(g < 1e30, log1p(g) / -p, huge))


def weight(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return g'(a) / g'(A)."""
    return power(S / s, 1.0 - p)


def weight_p(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return (dg/dp - g/p)(a) / g'(A): for p near 0 no terms cancel over the members.

    With y = -p x it is -(S/s)^(-p) S (y - 1 + exp(-y)) / p^2, by its series where y is small.
    """
    x = hazard(a, s)
    y = -p * x
    tail = 1 - y * (1 - y * (1 - y * (1 - y / 11) / 10) / 9) / 8
    series = 0.5 - y * (1 - y * (1 - y * (1 - y * (1 - y * tail / 7) / 6) / 5) / 4) / 6
    bend = where(y < 0.2, x * x * series, (y + expm1(-y)) / (p * p))
    return -power(S / s, -p) * S * bend
