"""The Gumbel distribution of minima."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.law import Law


@final
@dataclass(frozen=True, eq=False, repr=False)
class GumbelMin(Law):
    """F(z) = 1 - exp(-exp(z)), the mirror image of gumbel_max.

    The thesis' (A.12) prints exp(-exp(x)), which falls and is no CDF.
    """

    name: ClassVar[str] = "gumbel_min"
    formula: ClassVar[str] = "1 − exp(−eᶻ)"

    def _cdf(self, z: Tensor) -> Tensor:
        return -torch.expm1(-torch.exp(z))

    def _sf(self, z: Tensor) -> Tensor:
        return torch.exp(-torch.exp(z))

    def _pdf(self, z: Tensor) -> Tensor:
        z = z.clamp(max=30)  # exp(-exp(30)) is 0, and exp(30) no infinity
        return torch.exp(z - torch.exp(z))

    def _icdf(self, q: Tensor) -> Tensor:
        return torch.log(-torch.log1p(-q))

    def _isf(self, q: Tensor) -> Tensor:
        return torch.log(-torch.log(q))
