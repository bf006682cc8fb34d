"""The error-optimal monotonic sigmoid of the sorting networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.standard import Symmetric
from gendr.kernels.vocabulary import Block, fabs, two_sided, where


@final
@dataclass(frozen=True, eq=False, repr=False)
class Optimal(Symmetric):
    """F(z) = -1 / 16z for z < -1/4, z + 1/2 between, 1 - 1 / 16z for z > 1/4."""

    name: ClassVar[str] = "optimal"
    formula: ClassVar[str] = "−1/(16z) for z < −¼, z + ½ between, 1 − 1/(16z) for z > ¼"

    def _cdf(self, z: Tensor) -> Tensor:
        tail = 0.0625 / z.abs().clamp(min=0.25)
        return torch.where(z.abs() <= 0.25, z + 0.5, torch.where(z > 0, 1 - tail, tail))

    def _pdf(self, z: Tensor) -> Tensor:
        inverse = 0.25 / z.abs().clamp(min=0.25)
        return inverse * inverse

    def _icdf_lower(self, q: Tensor) -> Tensor:
        return torch.where(q < 0.25, -0.0625 / q, q - 0.5)


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    a = fabs(z)
    near = a <= 0.25
    cdf, sf = two_sided(z, 0.0625 / where(near, 1.0, a))
    return where(near, 0.5 + z, cdf), where(near, 0.5 - z, sf)


def density(z: Block) -> Block:
    """The pdf."""
    a = fabs(z)
    inverse = 0.25 / where(a < 0.25, 0.25, a)
    return inverse * inverse
