"""The probabilistic sum."""

from dataclasses import dataclass
from typing import final

from torch import Tensor

from gendr.kernels.vocabulary import Block, hazard, parts_from_hazard
from gendr.tnorms.base import Archimedean


@final
@dataclass(frozen=True)
class Probabilistic(Archimedean):
    """a + b - ab, the 'or' of independent events; g(a) = -log(1 - a).

    Source: thesis example 5.2 and table B.2. Equals Hamacher and Aczel-Alsina at p = 1.
    """

    name = "probabilistic"
    formula = "a + b - a b"
    is_product = True

    def slope_at_one(self, b: Tensor, s: Tensor) -> Tensor:
        """1 - b."""
        return s


def generator(a: Block, s: Block) -> Block:
    """Return g(a)."""
    return hazard(a, s)


def inverse(t: Block) -> tuple[Block, Block]:
    """(A, S) with g(A) = t."""
    return parts_from_hazard(t)


def weight(a: Block, s: Block, A: Block, S: Block) -> Block:
    """Return g'(a) / g'(A)."""
    return S / s
