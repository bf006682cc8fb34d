"""The Wigner semicircle distribution."""

from __future__ import annotations

from dataclasses import dataclass
from math import asin, pi, sin, sqrt
from typing import TYPE_CHECKING, ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.standard import Symmetric
from gendr.kernels.vocabulary import Block, clip, two_sided

if TYPE_CHECKING:
    import triton.language as tl


_INV_PI = 1 / pi
_TWO_OVER_PI = 2 / pi


def _excess(angle: Tensor) -> Tensor:
    """The difference angle - sin(angle) without cancellation, for angles >= 0."""
    square = (angle * angle).clamp(max=1)
    series = torch.ones_like(angle)
    for k in range(8, 0, -1):  # the first term left out is 2e-20 relative at angle 1
        series = 1 - square / ((2 * k + 2) * (2 * k + 3)) * series
    return torch.where(angle < 1, angle**3 / 6 * series, angle - angle.sin())


@final
@dataclass(frozen=True, eq=False, repr=False)
class WignerSemicircle(Symmetric):
    """F(z) = 1/2 + z sqrt(1 - z^2) / pi + asin(z) / pi on [-1, 1]."""

    name: ClassVar[str] = "wigner_semicircle"
    aliases: ClassVar[tuple[str, ...]] = ("wigner",)
    formula: ClassVar[str] = "½ + z√(1 − z²)/π + asin(z)/π on [−1, 1]"
    support: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def _cdf(self, z: Tensor) -> Tensor:
        # With z = -cos(t), F = (2t - sin 2t) / 2pi; |z| serves both halves.
        half = torch.asin((0.5 * (1 - z.abs())).clamp(min=0).sqrt())
        tail = _excess(4 * half) / (2 * 3.141592653589793)
        return torch.where(z > 0, 1 - tail, tail)

    def _pdf(self, z: Tensor) -> Tensor:
        inner = z.clamp(-1, 1)
        room = (1 - inner) * (1 + inner)
        # The slope is infinite at the ends and counts as 0 there.
        return (
            2
            / 3.141592653589793
            * torch.where(room > 0, torch.where(room > 0, room, 1.0).sqrt(), 0 * room)
        )

    def _icdf_lower(self, q: Tensor) -> Tensor:
        # Halley on t - sin t = 2 pi q; from the root of the cubic it needs 4 steps in float64.
        target = 2 * pi * q
        angle = (6 * target).clamp(min=torch.finfo(q.dtype).tiny) ** (1 / 3)
        for _ in range(6):
            error = _excess(angle) - target
            slope = 2 * (0.5 * angle).sin() ** 2
            angle = angle - error / (slope - 0.5 * error * angle.sin() / slope)
        return 2 * (0.25 * angle).sin() ** 2 - 1


def _excess_float64(angle: Block) -> Block:
    """`_excess` of one number."""
    if angle >= 1:
        return angle - sin(angle)
    square = angle * angle
    series = 1.0
    for k in range(8, 0, -1):
        series = 1 - square / ((2 * k + 2) * (2 * k + 3)) * series
    return angle * square / 6 * series


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    if z <= -1:
        return 0.0, 1.0
    if z >= 1:
        return 1.0, 0.0
    tail = _excess_float64(4 * asin(sqrt(0.5 * (1 - abs(z))))) * (0.5 * _INV_PI)
    return two_sided(z, tail)


def density(z: Block) -> Block:
    """The pdf."""
    return _TWO_OVER_PI * sqrt((1 - z) * (1 + z)) if abs(z) < 1 else 0.0


def tails_float32(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    # The tail over w sqrt(w (2 - w)) is smooth in w = 1 - |z|: no arc sine, no difference.
    w = 1.0 - tl.abs(clip(z))
    p = -0.00428316649 + w * (0.00968081411 + w * (-0.0067830109 + w * 0.00273574982))
    p = 0.0182385184 + w * (0.00760726957 + w * (0.0059512509 + w * p))
    p = 0.424413204 + w * (0.0424393639 + w * p)
    return two_sided(z, w * tl.sqrt(w * (2.0 - w)) * p)


def density_float32(z: Block) -> Block:
    """The pdf."""
    w = 1.0 - tl.abs(clip(z))
    return tl.sqrt(w * (2.0 - w)) * _TWO_OVER_PI
