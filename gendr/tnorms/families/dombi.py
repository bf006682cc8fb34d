"""The Dombi family."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from gendr.tnorms.base import Norm, from_odds


@final
@dataclass(frozen=True)
class Dombi(Norm):
    """1 / (1 + (r_a^p + r_b^p)^(-1/p)), the p-norm of the odds r = a/(1-a); g(a) = r^p.

    Source: thesis table B.2. p = 1 is Schweizer-Sklar at p = -1.
    """

    name = "dombi"
    formula = "1 / (1 + ((a/(1-a))^p + (b/(1-b))^p)^(-1/p))"
    order = 2

    def measure(self, a: Tensor, s: Tensor) -> Tensor:
        """The odds."""
        return a / s

    def unmeasure(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """S = 1 / (1 + u)."""
        return from_odds(u)

    def slope_at_one(self, b: Tensor, s: Tensor) -> Tensor:
        """1: infinite odds outweigh any others."""
        return torch.ones_like(b)
