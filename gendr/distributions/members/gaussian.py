"""The Gaussian distribution."""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, pi, sqrt
from typing import TYPE_CHECKING, ClassVar, final

import torch
from torch import Tensor

from gendr._common.tracing import KNOWN_DISTRIBUTIONS, refuse_onnx
from gendr.distributions.standard import Symmetric
from gendr.kernels.vocabulary import Block, exp, two_sided

if TYPE_CHECKING:
    import triton.language as tl

    from gendr.kernels.triton.mathematics import erfcx, exp_sum


_SQRT_HALF = 0.5**0.5
_INV_SQRT_2PI = 1 / sqrt(2 * pi)
_END = 16.0  # exp(-16^2 / 2) is 0 in float32


@final
@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(Symmetric):
    """F(z) = Phi(z), the standard normal distribution."""

    name: ClassVar[str] = "gaussian"
    aliases: ClassVar[tuple[str, ...]] = ("normal",)
    formula: ClassVar[str] = "Φ(z)"

    def _cdf(self, z: Tensor) -> Tensor:
        # Not special.ndtr, which is (1 + erf) / 2 for |z| > 1 too and loses the left tail.
        return 0.5 * torch.erfc(-(0.5**0.5) * z)

    def _pdf(self, z: Tensor) -> Tensor:
        return torch.exp(-0.5 * z * z) * 0.3989422804014327

    def _icdf_lower(self, q: Tensor) -> Tensor:
        refuse_onnx("the quantile of gaussian", KNOWN_DISTRIBUTIONS)
        return torch.special.ndtri(q)


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    return two_sided(z, 0.5 * erfc(abs(z) * _SQRT_HALF))


def density(z: Block) -> Block:
    """The pdf."""
    return _INV_SQRT_2PI * exp(-0.5 * z * z)


def _exp_half_square(z: Block) -> Block:
    """exp(-z^2 / 2), corrected for the rounding of the square, which a tail would amplify."""
    a = tl.abs(z)
    a = tl.where(a > _END, _END, a)
    square = a * a
    return exp_sum(-0.5 * square, -0.5 * tl.fma(a, a, -square))


def tails_float32(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    return two_sided(z, 0.5 * _exp_half_square(z) * erfcx(tl.abs(z) * _SQRT_HALF))


def density_float32(z: Block) -> Block:
    """The pdf."""
    return _exp_half_square(z) * _INV_SQRT_2PI
