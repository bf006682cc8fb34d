"""The Gumbel distribution of maxima."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.law import Law


@final
@dataclass(frozen=True, eq=False, repr=False)
class GumbelMax(Law):
    """F(z) = exp(-exp(-z))."""

    name: ClassVar[str] = "gumbel_max"
    formula: ClassVar[str] = "exp(−e⁻ᶻ)"

    def _cdf(self, z: Tensor) -> Tensor:
        return torch.exp(-torch.exp(-z))

    def _sf(self, z: Tensor) -> Tensor:
        return -torch.expm1(-torch.exp(-z))

    def _pdf(self, z: Tensor) -> Tensor:
        z = z.clamp(min=-30)  # exp(-exp(30)) is 0, and exp(30) no infinity
        return torch.exp(-z - torch.exp(-z))

    def _icdf(self, q: Tensor) -> Tensor:
        return -torch.log(-torch.log(q))

    def _isf(self, q: Tensor) -> Tensor:
        return -torch.log(-torch.log1p(-q))
