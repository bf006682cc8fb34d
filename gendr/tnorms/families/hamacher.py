"""The Hamacher family."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from gendr._runtime.vocabulary import Block, expm1, log1p, parts_from_odds
from gendr.tnorms.base import Parametric, from_odds


@final
@dataclass(frozen=True)
class Hamacher(Parametric):
    """(a + b + (p-2)ab) / (1 + (p-1)ab); g(a) = log((1 + (p-1)a) / (1 - a)) = log(1 + p a/s).

    The parameter is p > 0; p = 1 is probabilistic, p = 2 Einstein. Source: thesis table B.2.
    """

    name = "hamacher"
    formula = "(a + b + (p-2) a b) / (1 + (p-1) a b)"
    example_p = (4, 0.5, 1, 0.01)

    def generator(self, a: Tensor, s: Tensor) -> Tensor:
        """log(1 + p a/s)."""
        return torch.log1p(self._p * (a / s))

    def inverse(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """The odds A/S are (exp(t) - 1) / p."""
        return from_odds(torch.expm1(t) / self._p)

    def _weight(self, a: Tensor, s: Tensor, A: Tensor, S: Tensor) -> Tensor:
        """S (1 + (p-1)A) / (s (1 + (p-1)a)), where 1 + (p-1)a = s + pa."""
        return S / s * ((S + self._p * A) / (s + self._p * a))

    def _weight_p(self, a: Tensor, s: Tensor, A: Tensor, S: Tensor) -> Tensor:
        """dg/dp = a / (s + pa), 1/g'(A) = S (S + pA) / p."""
        p = self._p
        return a / (s + p * a) * S * (S + p * A) / p

    def slope_at_one(self, b: Tensor, s: Tensor) -> Tensor:
        """(1 - b) / (1 + (p-1)b)."""
        return s / (s + self._p * b)


def generator(a: Block, s: Block, p: Block) -> Block:
    """Return g(a)."""
    return log1p(p * (a / s))


def inverse(t: Block, p: Block) -> tuple[Block, Block]:
    """(A, S) with g(A) = t."""
    return parts_from_odds(expm1(t) / p)


def weight(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return g'(a) / g'(A)."""
    return S / s * ((S + p * A) / (s + p * a))


def weight_p(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return (dg/dp)(a) / g'(A)."""
    return a / (s + p * a) * S * (S + p * A) / p
