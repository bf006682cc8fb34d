"""The exponential distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.standard import INF, StandardDistribution
from gendr.kernels.vocabulary import Block, exp, exp_and_complement, where


@final
@dataclass(frozen=True, eq=False, repr=False)
class Exponential(StandardDistribution):
    """F(z) = 1 - exp(-z) for z > 0, else 0: gamma with shape 1."""

    name: ClassVar[str] = "exponential"
    formula: ClassVar[str] = "1 − e⁻ᶻ for z > 0"
    support: ClassVar[tuple[float, float]] = (0.0, INF)

    def _cdf(self, z: Tensor) -> Tensor:
        return -torch.expm1(-z.clamp(min=0))

    def _sf(self, z: Tensor) -> Tensor:
        return torch.exp(-z.clamp(min=0))

    def _pdf(self, z: Tensor) -> Tensor:
        return torch.where(z >= 0, torch.exp(-z.clamp(min=0)), 0 * z)

    def _icdf(self, q: Tensor) -> Tensor:
        return -torch.log1p(-q)

    def _isf(self, q: Tensor) -> Tensor:
        return -torch.log(q)


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    sf, cdf = exp_and_complement(-where(z < 0, 0.0, z))
    return cdf, sf


def density(z: Block) -> Block:
    """The pdf."""
    return where(z >= 0, exp(-z), 0.0)
