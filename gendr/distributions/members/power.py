"""The power-function distribution, the window of Triangle Splatting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.base import Number
from gendr.distributions.members.gamma import PDF_FLOOR
from gendr.distributions.shaped import Shaped
from gendr.distributions.standard import StandardDistribution
from gendr.kernels.vocabulary import Block, exp_and_complement, log, where, zeros_like


@final
@dataclass(frozen=True, eq=False, repr=False)
class Power(Shaped):
    """F(z) = z^shape on [0, 1], 0 below and 1 above; with shape 1 uniform on [0, 1].

    Attributes:
        shape: > 0; a number, or a tensor that broadcasts with z and may require grad. Default 1.

    Raises:
        ValueError: a shape that is not positive and finite.

    Source: with z = d / inradius the window of Held et al., *Triangle Splatting*, 3DV 2026.
    """

    shape: Number = 1.0

    name: ClassVar[str] = "power"
    formula: ClassVar[str] = "clip(z, 0, 1)^shape"
    support: ClassVar[tuple[float, float]] = (0.0, 1.0)

    @classmethod
    def examples(cls) -> tuple[StandardDistribution, ...]:
        """Shapes on both sides of 1, and far from it."""
        return tuple(cls(shape) for shape in (0.5, 2.0, 0.05, 1.0, 7.3, 100.0))

    def _cdf(self, z: Tensor) -> Tensor:
        return z.clamp(0, 1) ** self._shape_for(z)

    def _sf(self, z: Tensor) -> Tensor:
        return -torch.expm1(self._shape_for(z) * z.clamp(0, 1).log())

    def _pdf(self, z: Tensor) -> Tensor:
        # For shape < 1 it is infinite at 0, as that of gamma, whose floors hold here too.
        shape = self._shape_for(z)
        inside = (z >= 1e-30) & (z <= 1)
        safe = torch.where(inside, z, 1.0)
        safe = torch.where(safe < 1e-18, safe.detach(), safe)
        edge = ((z >= 0) & (z < 1e-30) & (shape == 1)).to(z.dtype)
        return torch.where(inside, shape * safe ** (shape - 1), edge + 0 * z)

    def _shape_slope(self, z: Tensor) -> Tensor:
        return torch.xlogy(self._cdf(z), z.clamp(0, 1))

    def _pdf_shape_slope(self, z: Tensor) -> Tensor:
        return self._pdf(z) * (1 / self._shape_for(z) + z.clamp(min=PDF_FLOOR).log())

    def _icdf(self, q: Tensor) -> Tensor:
        return q ** (1 / self._shape_for(q))

    def _isf(self, q: Tensor) -> Tensor:
        return torch.exp(torch.log1p(-q) / self._shape_for(q))


def constant(shape: Block) -> Block:
    """The exponent in `density`: positive, so that no power overflows or loses its digits."""
    return where(shape < 1.0, shape, shape - 1.0)


def slope_constant(shape: Block) -> Block:
    """Not needed."""
    return zeros_like(shape)


constant_float32, slope_constant_float32 = constant, slope_constant  # on tensors


def tails(z: Block, shape: Block, constant: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    return exp_and_complement(shape * log(where(z > 1.0, 1.0, where(z < 0.0, 0.0, z))))


def density(z: Block, shape: Block, constant: Block) -> Block:
    """The pdf."""
    x = where(z > 1.0, 1.0, where(z < PDF_FLOOR, 1.0, z))
    power, _ = exp_and_complement(constant * log(x))
    pdf = shape * where(shape < 1.0, power / x, power)
    edge = where(shape == 1.0, where(z < 0.0, 0.0, 1.0), 0.0)
    return where(z > 1.0, 0.0, where(z < PDF_FLOOR, edge, pdf))


def shape_slope(z: Block, shape: Block, constant: Block, psi: Block) -> Block:
    """dF/dshape."""
    slope = log(where(z > 1.0, 1.0, where(z > 0.0, z, 1.0)))
    cdf, _ = exp_and_complement(shape * slope)
    return cdf * slope
