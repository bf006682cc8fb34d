"""The Aczel-Alsina family."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from gendr.kernels.vocabulary import Block, hazard, log, parts_from_hazard, power
from gendr.tnorms.base import Norm


@final
@dataclass(frozen=True)
class AczelAlsina(Norm):
    """1 - exp(-(|log(1-a)|^p + |log(1-b)|^p)^(1/p)); g(a) = (-log(1-a))^p.

    The parameter is p > 0; p = 1 is probabilistic. Source: thesis table B.2.
    """

    name = "aczel_alsina"
    formula = "1 - exp(-(|log(1-a)|^p + |log(1-b)|^p)^(1/p))"
    example_p = (2, 0.5, 4, 1, 0.1)

    def slope_at_one(self, b: Tensor, s: Tensor) -> Tensor:
        """The limit of exp(u - U): U - u tends to 0 for p > 1, to infinity for p < 1."""
        p = self.value
        return torch.ones_like(b) if p > 1 else s if p == 1 else (b == 0).to(b.dtype)


def measure(a: Block, s: Block) -> Block:
    """Return u(a)."""
    return hazard(a, s)


def unmeasure(u: Block) -> tuple[Block, Block]:
    """(A, S) with u(A) = u."""
    return parts_from_hazard(u)


def weight(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return g'(a) / g'(A)."""
    u, total = hazard(a, s), hazard(A, S)
    return power(u / total, p - 1.0) * (S / s)


def weight_p(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return (dg/dp)(a) / g'(A)."""
    u, total = hazard(a, s), hazard(A, S)
    return power(u / total, p - 1.0) * (u * S) * log(u) / p


def weight_p_float32(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return (dg/dp)(a) / g'(A)."""
    u, total = hazard(a, s), hazard(A, S)
    # The power meets u before S: for p < 1 it is large where u is small.
    return power(u / total, p - 1.0) * u * S * (log(u) / p)
