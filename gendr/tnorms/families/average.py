"""The mean, a baseline."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from gendr.kernels.vocabulary import Block, minimum, zeros_like
from gendr.tnorms.base import TConorm
from gendr.tnorms.groups import Grouping


@final
@dataclass(frozen=True)
class Average(TConorm):
    """The mean over all members of a group. No T-conorm: neither associative nor neutral at 0.

    It is here as the baseline of the Soft Rasterizer (thesis section 5.4), outside the benchmark.
    """

    name = "average"
    formula = "(a + b) / 2, no T-conorm"
    kind = "mean"

    def _fold_with_gradient(
        self, a: Tensor, s: Tensor, group: Grouping, partials: bool
    ) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            count = group.count(a)
            some = count > 0
            count = count.clamp(min=1)
            A = group.sum(a) / count
            S = torch.where(some, group.sum(s) / count, 1.0)
            live = torch.ones_like(a) if partials else ((a > 0) & (s > 0)).to(a.dtype)
        change = group.sum(live * (a - a.detach())) / count  # 0, but for its gradient
        return A + change, S - change


# Kernels sum a and take 1 / count in the place of p.


def generator(a: Block, s: Block) -> Block:
    """A itself."""
    return a


def inverse(t: Block, share: Block) -> tuple[Block, Block]:
    """(A, 1): S tells weights which pixels are saturated, and the mean passes on everywhere."""
    A = minimum(t * share, 1.0)
    return A, zeros_like(A) + 1.0


def weight(a: Block, s: Block, A: Block, S: Block, share: Block) -> Block:
    """1 / count."""
    return share
