"""The Heaviside step: hard decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.standard import StandardDistribution
from gendr.kernels.vocabulary import Block, where, zeros_like


@final
@dataclass(frozen=True, eq=False, repr=False)
class Heaviside(StandardDistribution):
    """F(z) = 0 for z < 0, else 1. A point mass at 0: the hard algorithm, without gradient."""

    name: ClassVar[str] = "heaviside"
    formula: ClassVar[str] = "0 if z < 0 else 1"
    support: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def _cdf(self, z: Tensor) -> Tensor:
        return torch.where(z.isnan(), z, (z >= 0).to(z.dtype))

    def _sf(self, z: Tensor) -> Tensor:
        return torch.where(z.isnan(), z, (z < 0).to(z.dtype))

    def _pdf(self, z: Tensor) -> Tensor:
        return 0 * z

    def _icdf(self, q: Tensor) -> Tensor:
        return torch.zeros_like(q)

    def _isf(self, q: Tensor) -> Tensor:
        return torch.zeros_like(q)


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    cdf = where(z >= 0, 1.0, where(z < 0, 0.0, z))
    return cdf, 1.0 - cdf


def density(z: Block) -> Block:
    """The pdf."""
    return zeros_like(z)
