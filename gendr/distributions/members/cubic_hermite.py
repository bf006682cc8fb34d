"""The cubic Hermite step."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.standard import Symmetric
from gendr.kernels.vocabulary import Block, clip, fabs, where


@final
@dataclass(frozen=True, eq=False, repr=False)
class CubicHermite(Symmetric):
    """F(z) = 3 y^2 - 2 y^3 with y = clip((1 + z) / 2, 0, 1): the smooth step on [-1, 1]."""

    name: ClassVar[str] = "cubic_hermite"
    formula: ClassVar[str] = "3y² − 2y³, y = clip((1 + z)/2, 0, 1)"
    support: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def _cdf(self, z: Tensor) -> Tensor:
        y = (0.5 * (1 + z)).clamp(0, 1)
        return y * y * (3 - 2 * y)

    def _pdf(self, z: Tensor) -> Tensor:
        z = z.clamp(-1, 1)
        return 0.75 * (1 + z) * (1 - z)

    def _icdf_lower(self, q: Tensor) -> Tensor:
        # sin^2 of half the angle of the cubic's trigonometric solution: tiny q keep their digits.
        return -2 * torch.sin(pi / 6 - torch.asin(q.sqrt()) * (2 / 3))


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    x = clip(z)
    y = 0.5 * (1.0 + x)
    w = 0.5 * (1.0 - x)
    return y * y * (3.0 - 2.0 * y), w * w * (3.0 - 2.0 * w)


def density(z: Block) -> Block:
    """The pdf."""
    return where(fabs(z) <= 1.0, 0.75 * (1.0 + z) * (1.0 - z), 0.0)
