"""The family of Joe, which Schweizer and Sklar have among theirs."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from gendr.kernels.vocabulary import (
    Block,
    exp,
    exp_and_complement,
    expm1,
    hazard,
    log1p,
    minimum,
    power,
    where,
)
from gendr.tnorms.base import Parametric
from gendr.tnorms.groups import Grouping


@final
@dataclass(frozen=True)
class Joe(Parametric):
    """(a^p + b^p - (ab)^p)^(1/p), the probabilistic sum of powers; g(a) = -log(1 - a^p).

    p > 0. With u = -log(a), 1 - a^p = -expm1(-pu) keeps its digits. The dual is the copula of Joe
    for p >= 1.

    Source: B. Schweizer and A. Sklar, Associative functions and statistical triangle inequalities,
    1961; H. Joe, Parametric families of multivariate distributions with given margins, 1993;
    R. Nelsen, An introduction to copulas, table 4.1, number 6. p = 1 is probabilistic, and it tends
    to the maximum for large p.
    """

    name = "joe"
    formula = "(a^p + b^p - (a b)^p)^(1/p)"
    example_p = (2, 0.5, 1, 4, 0.2, 7.5)

    @property
    def steep(self) -> bool:
        """Whether p < 1."""
        return self.value < 1

    def fold(self, a: Tensor, s: Tensor, group: Grouping) -> tuple[Tensor, Tensor]:
        """The sum of generators; below 1e-30, where a power may vanish, the p-norm of a."""
        A, S = super().fold(a, s, group)
        top = group.max(a)
        unit = torch.where(top > 0, top, 1.0)
        small = unit * group.sum((a / group.expand(unit)) ** self._p) ** (1 / self._p)
        tiny = unit**self._p < 1e-30
        return torch.where(tiny, small, A), torch.where(tiny, 1 - small, S)

    def _weight(self, a: Tensor, s: Tensor, A: Tensor, S: Tensor) -> Tensor:
        """As the kernel function; no derivative of it meets 0/0, as those of `hazard` do."""
        gaps = torch.expm1(-self._p * _neg_log(A, S)) / torch.expm1(-self._p * _neg_log(a, s))
        return (a / A) ** (self._p - 1) * gaps

    def _weight_p(self, a: Tensor, s: Tensor, A: Tensor, S: Tensor) -> Tensor:
        """As the kernel function."""
        return -self._weight(a, s, A, S) * a * _neg_log(a, s) / self._p

    def slope_at_one(self, b: Tensor, s: Tensor) -> Tensor:
        """1 - b^p."""
        return _gap(b, s, self._p)


def _neg_log(a: Tensor, s: Tensor) -> Tensor:
    """-log(a), from whichever of a and s has more digits."""
    near = s < 0.5
    of_s = -torch.log1p(-torch.where(near, s, 0.0))
    return torch.where(near, of_s, -torch.log(torch.where(near, 1.0, a)))


def _gap(a: Block, s: Block, p: Block) -> Block:
    """1 - a^p."""
    return -expm1(-p * hazard(s, a))


def generator(a: Block, s: Block, p: Block) -> Block:
    """Return g(a)."""
    return log1p(1.0 / expm1(p * hazard(s, a)))


def inverse(t: Block, p: Block) -> tuple[Block, Block]:
    """(A, S) with g(A) = t."""
    left, gone = exp_and_complement(-t)
    return exp_and_complement(-hazard(left, gone) / p)


def scaled(a: Block, s: Block, p: Block) -> tuple[Block, Block]:
    """(a, k) with g(a) = k a^p; k is 1 where a^p is nothing beside 1."""
    u = p * hazard(s, a)
    return a, where(u < 30.0, generator(a, s, p) * exp(minimum(u, 30.0)), 1.0)


def unscaled(u: Block, t: Block, p: Block) -> tuple[Block, Block]:
    """(A, S) with g(A) = t u^p; below 1e-30, g(A) is A^p."""
    g = t * power(u, p)
    small = u * power(t, 1.0 / p)
    A, S = inverse(g, p)
    return where(g > 1e-30, A, small), where(g > 1e-30, S, 1.0 - small)


def weight(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return g'(a) / g'(A)."""
    return power(a / A, p - 1.0) * (_gap(A, S, p) / _gap(a, s, p))


def weight_p(a: Block, s: Block, A: Block, S: Block, p: Block) -> Block:
    """Return (dg/dp)(a) / g'(A); dg/dp = a^p log(a) / (1 - a^p)."""
    return -weight(a, s, A, S, p) * a * hazard(s, a) / p
