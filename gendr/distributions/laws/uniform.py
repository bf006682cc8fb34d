"""The uniform distribution."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.law import Law, Symmetric


@final
@dataclass(frozen=True, eq=False, repr=False)
class Uniform(Symmetric, Law):
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
