"""The hyperbolic secant distribution."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.standard import Symmetric
from gendr.kernels.vocabulary import Block, arccot, exp, fabs, two_sided

_HALF_PI = pi / 2
_TWO_OVER_PI = 2 / pi


@final
@dataclass(frozen=True, eq=False, repr=False)
class HyperbolicSecant(Symmetric):
    """F(z) = (2 / pi) atan(exp(pi z / 2)), also called the Gudermannian.

    The published CUDA code uses exp(z): its scale is ours times 2 / pi.
    """

    name: ClassVar[str] = "hyperbolic_secant"
    aliases: ClassVar[tuple[str, ...]] = ("gudermannian",)
    formula: ClassVar[str] = "(2/π)·atan(exp(πz/2))"

    def _cdf(self, z: Tensor) -> Tensor:
        tail = 2 / 3.141592653589793 * torch.atan(torch.exp(-3.141592653589793 / 2 * z.abs()))
        return torch.where(z > 0, 1 - tail, tail)

    def _pdf(self, z: Tensor) -> Tensor:
        e = torch.exp(-3.141592653589793 / 2 * z.abs())
        return e / (1 + e * e)

    def _icdf_lower(self, q: Tensor) -> Tensor:
        return 2 / pi * torch.log(torch.tan(pi / 2 * q))


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    return two_sided(z, arccot(exp(fabs(z) * _HALF_PI)) * _TWO_OVER_PI)


def density(z: Block) -> Block:
    """The pdf."""
    e = exp(-(fabs(z) * _HALF_PI))
    return e / (1.0 + e * e)
