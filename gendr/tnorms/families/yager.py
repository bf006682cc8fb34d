"""The Yager family."""

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from gendr.kernels.vocabulary import Block, expm1, hazard, log, minimum, power, where
from gendr.tnorms.base import Norm


@final
@dataclass(frozen=True)
class Yager(Norm):
    """min(1, (a^p + b^p)^(1/p)), the p-norm itself; g(a) = a^p, nilpotent.

    Several members below 1 may reach 1 together; from there on all derivatives are 0. Next to it
    S has absolute, not relative precision. p > 0. Source: thesis table B.2.
    """

    name = "yager"
    formula = "min(1, (a^p + b^p)^(1/p))"
    example_p = (2, 0.5, 1, 4, 1.5, 30)

    def measure(self, a: Tensor, s: Tensor) -> Tensor:
        """Return a itself, but infinity for a saturated member whose a rounds below 1."""
        return torch.where(s > 0, a, math.inf)

    def slope_at_one(self, b: Tensor, s: Tensor) -> Tensor:
        """Any b > 0 has the total at 1 already."""
        return (b == 0).to(b.dtype)


def measure(a: Block, s: Block) -> Block:
    """Return u(a)."""
    return a


def unmeasure(u: Block) -> tuple[Block, Block]:
    """Cut at 1."""
    A = minimum(u, 1.0)
    return A, 1.0 - A


def inverse_float32(t: Block, p: Block) -> tuple[Block, Block]:
    """(A, S) with g(A) = t."""
    # Unlike 1 - A this S has all the digits that t has, next to t = 1.
    S = where(t < 1.0, -expm1(log(t) / p), 0.0)
    return minimum(power(t, 1.0 / p), 1.0), S


def weight(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return g'(a) / g'(A)."""
    return power(a / A, p - 1.0)


def weight_p(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return (dg/dp)(a) / g'(A)."""
    return power(a / A, p - 1.0) * a * log(a) / p


def weight_p_float32(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return (dg/dp)(a) / g'(A)."""
    log_a = -hazard(s, a)
    return power(a / A, p - 1.0) * a * log_a / p
