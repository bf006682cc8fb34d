"""The Hamacher family."""

from dataclasses import dataclass
from typing import final

from torch import Tensor

from gendr.kernels.vocabulary import Block, expm1, log1p, parts_from_odds
from gendr.tnorms.base import Parametric


@final
@dataclass(frozen=True)
class Hamacher(Parametric):
    """(a + b + (p-2)ab) / (1 + (p-1)ab); g(a) = log((1 + (p-1)a) / (1 - a)) = log(1 + p a/s).

    The parameter is p > 0; p = 1 is probabilistic, p = 2 Einstein. Source: thesis table B.2.
    """

    name = "hamacher"
    formula = "(a + b + (p-2) a b) / (1 + (p-1) a b)"
    example_p = (4, 0.5, 1, 0.01)

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
    """Return g'(a) / g'(A); 1 + (p-1)a = s + pa."""
    return S / s * ((S + p * A) / (s + p * a))


def weight_p(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return (dg/dp)(a) / g'(A); dg/dp = a / (s + pa), 1/g'(A) = S (S + pA) / p."""
    return a / (s + p * a) * S * (S + p * A) / p
