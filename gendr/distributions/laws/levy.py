"""The Lévy distribution."""

from dataclasses import dataclass
from math import pi
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.law import INF, Law

# exp(-1 / 2z) is 0 below this in float64, and z^-1.5 no infinity.
_FLOOR = 1e-4


@final
@dataclass(frozen=True, eq=False, repr=False)
class Levy(Law):
    """F(z) = erfc(sqrt(1 / 2z)) for z > 0, else 0; its upper tail falls as 1 / sqrt(z)."""

    name: ClassVar[str] = "levy"
    formula: ClassVar[str] = "erfc(√(1/(2z))) for z > 0"
    support: ClassVar[tuple[float, float]] = (0.0, INF)

    def _cdf(self, z: Tensor) -> Tensor:
        return torch.erfc((0.5 / z.clamp(min=_FLOOR)).sqrt())

    def _sf(self, z: Tensor) -> Tensor:
        return torch.erf((0.5 / z.clamp(min=_FLOOR)).sqrt())

    def _pdf(self, z: Tensor) -> Tensor:
        z = z.clamp(min=_FLOOR)
        return torch.exp(-0.5 / z) * z**-1.5 * (2 * pi) ** -0.5

    def _icdf(self, q: Tensor) -> Tensor:
        # Each half from its own small probability; 1 - q is exact where it is used.
        left = torch.special.ndtri(0.5 * q.clamp(max=0.5)) ** -2
        right = 0.5 * torch.erfinv((1 - q).clamp(max=0.5)) ** -2
        return torch.where(q <= 0.5, left, right)

    def _isf(self, q: Tensor) -> Tensor:
        left = torch.special.ndtri(0.5 * (1 - q).clamp(max=0.5)) ** -2
        right = 0.5 * torch.erfinv(q.clamp(max=0.5)) ** -2
        return torch.where(q < 0.5, right, left)
