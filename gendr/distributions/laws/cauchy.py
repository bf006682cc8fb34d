"""The Cauchy distribution."""

from dataclasses import dataclass
from math import pi
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.law import Law, Symmetric


@final
@dataclass(frozen=True, eq=False, repr=False)
class Cauchy(Symmetric, Law):
    """F(z) = atan(z) / pi + 1/2; its tail falls as 1 / |z|."""

    name: ClassVar[str] = "cauchy"
    formula: ClassVar[str] = "atan(z)/π + ½"

    def _cdf(self, z: Tensor) -> Tensor:
        # The angle from the negative axis: small, not a difference, in the left tail.
        return torch.atan2(torch.ones_like(z), -z) / pi

    def _pdf(self, z: Tensor) -> Tensor:
        return 1 / (pi * (1 + z * z))

    def _icdf_lower(self, q: Tensor) -> Tensor:
        return -1 / torch.tan(pi * q)
