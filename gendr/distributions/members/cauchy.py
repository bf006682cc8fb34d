"""The Cauchy distribution."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr._common.tracing import angle
from gendr.distributions.standard import Symmetric
from gendr.kernels.vocabulary import Block, arccot, fabs, two_sided

_INV_PI = 1 / pi


@final
@dataclass(frozen=True, eq=False, repr=False)
class Cauchy(Symmetric):
    """F(z) = atan(z) / pi + 1/2; its tail falls as 1 / |z|."""

    name: ClassVar[str] = "cauchy"
    formula: ClassVar[str] = "atan(z)/π + ½"

    def _cdf(self, z: Tensor) -> Tensor:
        # The angle from the negative axis: small, not a difference, in the left tail.
        return angle(torch.ones_like(z), -z) / 3.141592653589793

    def _pdf(self, z: Tensor) -> Tensor:
        return 1 / (3.141592653589793 * (1 + z * z))

    def _icdf_lower(self, q: Tensor) -> Tensor:
        return -1 / torch.tan(3.141592653589793 * q)


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    return two_sided(z, arccot(fabs(z)) * _INV_PI)


def density(z: Block) -> Block:
    """The pdf."""
    return _INV_PI / (1.0 + z * z)
