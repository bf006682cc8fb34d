"""The Laplace distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.standard import Symmetric
from gendr.kernels.vocabulary import Block, exp, fabs, two_sided


@final
@dataclass(frozen=True, eq=False, repr=False)
class Laplace(Symmetric):
    """F(z) = exp(z) / 2 for z <= 0 and 1 - exp(-z) / 2 above."""

    name: ClassVar[str] = "laplace"
    formula: ClassVar[str] = "½eᶻ for z ≤ 0, 1 − ½e⁻ᶻ above"

    def _cdf(self, z: Tensor) -> Tensor:
        tail = 0.5 * torch.exp(-z.abs())
        return torch.where(z > 0, 1 - tail, tail)

    def _pdf(self, z: Tensor) -> Tensor:
        return 0.5 * torch.exp(-z.abs())

    def _icdf_lower(self, q: Tensor) -> Tensor:
        return torch.log(2 * q)


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    return two_sided(z, 0.5 * exp(-fabs(z)))


def density(z: Block) -> Block:
    """The pdf."""
    return 0.5 * exp(-fabs(z))
