"""The Gumbel distribution of maxima."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

import torch
from torch import Tensor

from gendr.distributions.standard import StandardDistribution
from gendr.kernels.vocabulary import Block, exp, expm1

if TYPE_CHECKING:
    import triton.language as tl

    from gendr.kernels.triton.mathematics import exp_and_complement, exp_parts, exp_sum


_END = 30.0  # exp(-exp(30)) is 0, and exp(30) no infinity


@final
@dataclass(frozen=True, eq=False, repr=False)
class GumbelMax(StandardDistribution):
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


def tails(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    t = -exp(-z)
    return exp(t), -expm1(t)


def density(z: Block) -> Block:
    """The pdf."""
    return 0.0 if z < -30 else exp(-z - exp(-z))


def _exp_two_parts(z: Block) -> tuple[Block, Block]:
    """exp(z) as a sum whose second part holds the digits that exp(-exp(z)) amplifies; z <= 30."""
    s, p = exp_parts(tl.where(z > _END, _END, z), 0.0)
    return s, s * p


def tails_float32(z: Block) -> tuple[Block, Block]:
    """Cdf and sf."""
    t, rest = _exp_two_parts(-z)
    return exp_and_complement(-t, -rest)


def density_float32(z: Block) -> Block:
    """The pdf."""
    t, rest = _exp_two_parts(-z)
    return (t + rest) * exp_sum(-t, -rest)
