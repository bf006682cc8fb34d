"""The logistic distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.standard import Symmetric
from gendr.kernels.vocabulary import Block, exp, fabs, two_sided, where


@final
@dataclass(frozen=True, eq=False, repr=False)
class Logistic(Symmetric):
    """F(z) = 1 / (1 + exp(-z)), the sigmoid."""

    name: ClassVar[str] = "logistic"
    aliases: ClassVar[tuple[str, ...]] = ("sigmoid",)
    formula: ClassVar[str] = "1/(1 + e⁻ᶻ)"

    def _cdf(self, z: Tensor) -> Tensor:
        return torch.sigmoid(z)

    def _pdf(self, z: Tensor) -> Tensor:
        return torch.sigmoid(z) * torch.sigmoid(-z)

    def _icdf_lower(self, q: Tensor) -> Tensor:
        return torch.log(q) - torch.log1p(-q)


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    e = exp(-fabs(z))
    body = 1.0 / (1.0 + e)
    tail = e * body
    return where(z > 0, body, tail), where(z > 0, tail, body)


def density(z: Block) -> Block:
    """The pdf."""
    e = exp(-fabs(z))
    body = 1.0 / (1.0 + e)
    return e * body * body


def tails_float32(z: Block) -> tuple[Block, Block]:
    """Cdf and sf; their sum is 1 although the quotient is not rounded correctly."""
    e = exp(-fabs(z))
    return two_sided(z, e / (1.0 + e))
