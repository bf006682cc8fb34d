"""The Lévy distribution."""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, erfc, pi, sqrt
from typing import TYPE_CHECKING, ClassVar, final

import torch
from torch import Tensor

from gendr._common.tracing import KNOWN_DISTRIBUTIONS, refuse_onnx
from gendr.distributions.standard import INF, StandardDistribution
from gendr.kernels.vocabulary import Block, exp

if TYPE_CHECKING:
    import triton.language as tl

    from gendr.kernels.triton.mathematics import erf_and_erfc, exp_sum

# Below this exp(-1 / 2z) is 0 in float64; at it z^-1.5 is still finite.
_FLOOR = 1e-4


_SQRT_HALF = 0.5**0.5
_INV_SQRT_2PI = 1 / sqrt(2 * pi)
_TWO_OVER_SQRT_PI = 2 / sqrt(pi)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Levy(StandardDistribution):
    """F(z) = erfc(sqrt(1 / 2z)) for z > 0, else 0; its upper tail falls as 1 / sqrt(z)."""

    name: ClassVar[str] = "levy"
    formula: ClassVar[str] = "erfc(√(1/(2z))) for z > 0"
    support: ClassVar[tuple[float, float]] = (0.0, INF)

    def _cdf(self, z: Tensor) -> Tensor:
        return torch.erfc((0.5 / z.clamp(min=1e-4)).sqrt())

    def _sf(self, z: Tensor) -> Tensor:
        return torch.erf((0.5 / z.clamp(min=1e-4)).sqrt())

    def _pdf(self, z: Tensor) -> Tensor:
        z = z.clamp(min=1e-4)
        return torch.exp(-0.5 / z) * z**-1.5 * 0.3989422804014327

    def _icdf(self, q: Tensor) -> Tensor:
        # Each half is computed from its own small probability; 1 - q is exact where it is used.
        refuse_onnx("the quantile of levy", KNOWN_DISTRIBUTIONS)
        left = torch.special.ndtri(0.5 * q.clamp(max=0.5)) ** -2
        right = 0.5 * torch.erfinv((1 - q).clamp(max=0.5)) ** -2
        return torch.where(q <= 0.5, left, right)

    def _isf(self, q: Tensor) -> Tensor:
        refuse_onnx("the quantile of levy", KNOWN_DISTRIBUTIONS)
        left = torch.special.ndtri(0.5 * (1 - q).clamp(max=0.5)) ** -2
        right = 0.5 * torch.erfinv(q.clamp(max=0.5)) ** -2
        return torch.where(q < 0.5, right, left)


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    if z <= 0:
        return 0.0, 1.0
    t = sqrt(0.5 / z)
    if t < 0.5:
        s = erf(t)
        return 1 - s, s
    a = erfc(t)
    return a, 1 - a


def density(z: Block) -> Block:
    """The pdf."""
    return 0.0 if z <= 1e-4 else _INV_SQRT_2PI * exp(-0.5 / z) / (z * sqrt(z))


def tails_float32(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    x = tl.where(z < _FLOOR, _FLOOR, z)
    # Not the root of 0.5 / x: that may be subnormal, which a GPU's fast root takes for 0.
    t = tl.rsqrt(x) * _SQRT_HALF
    sf, cdf = erf_and_erfc(t, exp_sum(tl.div_rn(-0.5, x), 0.0))
    return cdf, sf


def density_float32(z: Block) -> Block:
    """The pdf."""
    x = tl.where(z < _FLOOR, _FLOOR, z)
    t = tl.rsqrt(x) * _SQRT_HALF
    return exp_sum(tl.div_rn(-0.5, x), 0.0) * (t * t * t) * _TWO_OVER_SQRT_PI
