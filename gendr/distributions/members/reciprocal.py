"""The reciprocal distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.standard import Symmetric
from gendr.kernels.vocabulary import Block, fabs, two_sided


@final
@dataclass(frozen=True, eq=False, repr=False)
class Reciprocal(Symmetric):
    """F(z) = z / (2 + 2 |z|) + 1/2; its tail falls as 1 / |z|."""

    name: ClassVar[str] = "reciprocal"
    formula: ClassVar[str] = "z/(2 + 2|z|) + ½"

    def _cdf(self, z: Tensor) -> Tensor:
        tail = 0.5 / (1 + z.abs())
        return torch.where(z > 0, 1 - tail, tail)

    def _pdf(self, z: Tensor) -> Tensor:
        tail = 0.5 / (1 + z.abs())
        return 2 * tail * tail

    def _icdf_lower(self, q: Tensor) -> Tensor:
        return -(1 - 2 * q) / (2 * q)


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    return two_sided(z, 0.5 / (1.0 + fabs(z)))


def density(z: Block) -> Block:
    """The pdf."""
    tail = 0.5 / (1.0 + fabs(z))
    return 2.0 * tail * tail
