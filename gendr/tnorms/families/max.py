"""The maximum."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from gendr.tnorms.base import TConorm
from gendr.tnorms.groups import Grouping


@final
@dataclass(frozen=True)
class Max(TConorm):
    """max(a, b), the smallest T-conorm and the only idempotent one.

    The gradient is split evenly among ties. Source: thesis table B.2.
    """

    name = "max"
    formula = "max(a, b)"
    kind = "max"

    def _fold_with_gradient(
        self, a: Tensor, s: Tensor, group: Grouping, partials: bool
    ) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            A = group.max(a)
            S = torch.where(A > 0, -group.max(-s), 1.0)  # an empty group has A = 0 too
            full = S <= 0
            A, S = A.masked_fill(full, 1.0), S.masked_fill(full, 0.0)
            top, rest, full = group.expand(A), group.expand(S), group.expand(full)
            # Above a half s tells apart what a rounds to the same number.
            near = (full & (s <= 0)) | (~full & (s == rest))
            best = (((top < 0.5) & (a == top)) | ((top >= 0.5) & near)).to(a.dtype)
            ties = group.expand(group.sum(best))
            if partials:
                # t(a, 0) = a and t(a, 1) = 1 also on the diagonal.
                w = torch.where(top > 0, best / ties, 1.0).masked_fill(full & (ties > 1), 0.0)
            else:
                w = (best / ties).masked_fill((a <= 0) | full, 0.0)
        change = group.sum(w * (a - a.detach()))  # 0, but for its gradient
        return A + change, S - change
