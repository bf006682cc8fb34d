"""The hyperbolic secant distribution."""

from dataclasses import dataclass
from math import pi
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.law import Law, Symmetric


@final
@dataclass(frozen=True, eq=False, repr=False)
class HyperbolicSecant(Symmetric, Law):
    """F(z) = (2 / pi) atan(exp(pi z / 2)), also called the Gudermannian.

    The published CUDA code uses exp(z): its scale is ours times 2 / pi.
    """

    name: ClassVar[str] = "hyperbolic_secant"
    aliases: ClassVar[tuple[str, ...]] = ("gudermannian",)
    formula: ClassVar[str] = "(2/π)·atan(exp(πz/2))"

    def _cdf(self, z: Tensor) -> Tensor:
        tail = 2 / pi * torch.atan(torch.exp(-pi / 2 * z.abs()))
        return torch.where(z > 0, 1 - tail, tail)

    def _pdf(self, z: Tensor) -> Tensor:
        e = torch.exp(-pi / 2 * z.abs())
        return e / (1 + e * e)

    def _icdf_lower(self, q: Tensor) -> Tensor:
        return 2 / pi * torch.log(torch.tan(pi / 2 * q))
