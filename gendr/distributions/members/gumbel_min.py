"""The Gumbel distribution of minima."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.members.gumbel_max import density_float32 as mirrored_density
from gendr.distributions.members.gumbel_max import tails_float32 as mirrored_tails
from gendr.distributions.standard import StandardDistribution
from gendr.kernels.vocabulary import Block, exp, expm1


@final
@dataclass(frozen=True, eq=False, repr=False)
class GumbelMin(StandardDistribution):
    """F(z) = 1 - exp(-exp(z)), the mirror image of gumbel_max.

    The thesis' (A.12) prints exp(-exp(x)), which falls and is no CDF.
    """

    name: ClassVar[str] = "gumbel_min"
    formula: ClassVar[str] = "1 − exp(−eᶻ)"

    def _cdf(self, z: Tensor) -> Tensor:
        return -torch.expm1(-torch.exp(z))

    def _sf(self, z: Tensor) -> Tensor:
        return torch.exp(-torch.exp(z))

    def _pdf(self, z: Tensor) -> Tensor:
        z = z.clamp(max=30)  # exp(-exp(30)) is 0, and exp(30) no infinity
        return torch.exp(z - torch.exp(z))

    def _icdf(self, q: Tensor) -> Tensor:
        return torch.log(-torch.log1p(-q))

    def _isf(self, q: Tensor) -> Tensor:
        return torch.log(-torch.log(q))


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    t = -exp(z)
    return -expm1(t), exp(t)


def density(z: Block) -> Block:
    """The pdf."""
    return 0.0 if z > 30 else exp(z - exp(z))


def tails_float32(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    sf, cdf = mirrored_tails(-z)
    return cdf, sf


def density_float32(z: Block) -> Block:
    """The pdf."""
    return mirrored_density(-z)
