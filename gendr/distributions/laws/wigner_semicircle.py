"""The Wigner semicircle distribution."""

from dataclasses import dataclass
from math import pi
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.law import Law, Symmetric


def _excess(angle: Tensor) -> Tensor:
    """Angle - sin(angle) without cancellation, for angles >= 0."""
    square = (angle * angle).clamp(max=1)
    series = torch.ones_like(angle)
    for k in range(8, 0, -1):  # the first term left out is 2e-20 relative at angle 1
        series = 1 - square / ((2 * k + 2) * (2 * k + 3)) * series
    return torch.where(angle < 1, angle**3 / 6 * series, angle - angle.sin())


@final
@dataclass(frozen=True, eq=False, repr=False)
class WignerSemicircle(Symmetric, Law):
    """F(z) = 1/2 + z sqrt(1 - z^2) / pi + asin(z) / pi on [-1, 1]."""

    name: ClassVar[str] = "wigner_semicircle"
    aliases: ClassVar[tuple[str, ...]] = ("wigner",)
    formula: ClassVar[str] = "½ + z√(1 − z²)/π + asin(z)/π on [−1, 1]"
    support: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def _cdf(self, z: Tensor) -> Tensor:
        # With z = -cos(t), F = (2t - sin 2t) / 2pi; |z| serves both halves.
        half = torch.asin((0.5 * (1 - z.abs())).clamp(min=0).sqrt())
        tail = _excess(4 * half) / (2 * pi)
        return torch.where(z > 0, 1 - tail, tail)

    def _pdf(self, z: Tensor) -> Tensor:
        room = (1 - z.clamp(-1, 1)) * (1 + z.clamp(-1, 1))
        # The slope is infinite at the ends and counts as 0 there.
        return 2 / pi * torch.where(room > 0, torch.where(room > 0, room, 1.0).sqrt(), 0 * room)

    def _icdf_lower(self, q: Tensor) -> Tensor:
        # Halley on t - sin t = 2 pi q; from the root of the cubic it needs 4 steps in float64.
        target = 2 * pi * q
        angle = (6 * target).clamp(min=torch.finfo(q.dtype).tiny) ** (1 / 3)
        for _ in range(6):
            error = _excess(angle) - target
            slope = 2 * (0.5 * angle).sin() ** 2
            angle = angle - error / (slope - 0.5 * error * angle.sin() / slope)
        return 2 * (0.25 * angle).sin() ** 2 - 1
