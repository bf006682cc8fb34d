"""The uniform distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.standard import Symmetric
from gendr.kernels.vocabulary import Block, clip, fabs, where


@final
@dataclass(frozen=True, eq=False, repr=False)
class Uniform(Symmetric):
    """F(z) = clip((1 + z) / 2, 0, 1), linear on [-1, 1]."""

    name: ClassVar[str] = "uniform"
    formula: ClassVar[str] = "clip((1 + z)/2, 0, 1)"
    support: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def _cdf(self, z: Tensor) -> Tensor:
        return (0.5 * (1 + z)).clamp(0, 1)

    def _pdf(self, z: Tensor) -> Tensor:
        return torch.where(z.abs() <= 1, 0.5, 0 * z)

    def _icdf_lower(self, q: Tensor) -> Tensor:
        return 2 * q - 1


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    x = clip(z)
    return 0.5 * (1.0 + x), 0.5 * (1.0 - x)


def density(z: Block) -> Block:
    """The pdf."""
    return where(fabs(z) <= 1.0, 0.5, 0.0)
