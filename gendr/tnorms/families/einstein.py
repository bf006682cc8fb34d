"""The Einstein sum."""

from dataclasses import dataclass
from typing import final

from torch import Tensor

from gendr.kernels.vocabulary import Block, expm1, log1p, parts_from_odds
from gendr.tnorms.base import Archimedean


@final
@dataclass(frozen=True)
class Einstein(Archimedean):
    """(a + b) / (1 + ab), the addition of velocities; g(a) = atanh(a).

    Source: thesis example 5.3 and table B.2. Equals Hamacher at p = 2.
    """

    name = "einstein"
    formula = "(a + b) / (1 + a b)"

    def slope_at_one(self, b: Tensor, s: Tensor) -> Tensor:
        """(1 - b) / (1 + b)."""
        return s / (1 + b)


def generator(a: Block, s: Block) -> Block:
    """Return g(a)."""
    return 0.5 * log1p(2.0 * a / s)


def inverse(t: Block) -> tuple[Block, Block]:
    """(A, S) with g(A) = t."""
    return parts_from_odds(0.5 * expm1(2.0 * t))


def weight(a: Block, s: Block, A: Block, S: Block) -> Block:
    """Return g'(a) / g'(A) = (1 - A^2) / (1 - a^2)."""
    return S / s * ((1.0 + A) / (1.0 + a))
