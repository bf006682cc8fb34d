"""The Dombi family."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from gendr.kernels.vocabulary import Block, log, log1p, parts_from_odds, power
from gendr.tnorms.base import Norm


@final
@dataclass(frozen=True)
class Dombi(Norm):
    """1 / (1 + (r_a^p + r_b^p)^(-1/p)), the p-norm of the odds r = a/(1-a); g(a) = r^p.

    The parameter is p > 0; p = 1 is Schweizer-Sklar at p = -1. Source: thesis table B.2.
    """

    name = "dombi"
    formula = "1 / (1 + ((a/(1-a))^p + (b/(1-b))^p)^(-1/p))"
    example_p = (2, 0.5, 1, 4, 0.2, 30)

    def slope_at_one(self, b: Tensor, s: Tensor) -> Tensor:
        """1: infinite odds outweigh any others."""
        return torch.ones_like(b)


def measure(a: Block, s: Block) -> Block:
    """Return u(a)."""
    return a / s


def unmeasure(u: Block) -> tuple[Block, Block]:
    """(A, S) with u(A) = u."""
    return parts_from_odds(u)


def weight(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return g'(a) / g'(A)."""
    u, total, rest = a / s, A / S, S / s
    return power(u / total, p - 1.0) * (rest * rest)


def weight_p(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return (dg/dp)(a) / g'(A), the generator taken as (r/R)^p, R the odds of A.

    That changes no derivative of A, and leaves out log R, which would have to cancel.
    """
    u, total = a / s, A / S
    return power(u / total, p - 1.0) * (u * S * S) * log(u / total) / p


def _share(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """(r/R)^(p-1) S/s, r and R the odds of a and A; r/R itself may leave the range of float32."""
    return power(a / A, p - 1.0) * power(S / s, p)


def weight_float32(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return g'(a) / g'(A)."""
    return _share(a, s, A, S, p) * (S / s)


def weight_p_float32(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return (dg/dp)(a) / g'(A), as `weight_p`; as a <= A and S <= s, nothing cancels."""
    return _share(a, s, A, S, p) * a * S * (-(log1p((A - a) / a) + log1p((s - S) / S)) / p)
