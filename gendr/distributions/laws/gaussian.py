"""The Gaussian distribution."""

from dataclasses import dataclass
from math import pi
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.law import Law, Symmetric


@final
@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(Symmetric, Law):
    """F(z) = Phi(z), the standard normal law."""

    name: ClassVar[str] = "gaussian"
    aliases: ClassVar[tuple[str, ...]] = ("normal",)
    formula: ClassVar[str] = "Φ(z)"

    def _cdf(self, z: Tensor) -> Tensor:
        # Not special.ndtr, which is (1 + erf) / 2 for |z| > 1 too and loses the left tail.
        return 0.5 * torch.erfc(-(0.5**0.5) * z)

    def _pdf(self, z: Tensor) -> Tensor:
        return torch.exp(-0.5 * z * z) * (2 * pi) ** -0.5

    def _icdf_lower(self, q: Tensor) -> Tensor:
        return torch.special.ndtri(q)
