"""NeuralSort."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from gendr._common.ranges import finite, spread
from gendr.distributions.decisions import Number
from gendr.sorting.base import NEURAL, SHRINK
from gendr.sorting.rows import RowSort


@final
@dataclass(frozen=True)
class NeuralSort(RowSort):
    """P[i, :] = softmax_j(steepness ((2 i - n - 1) x_j - A_j)), A_j = sum_k |x_j - x_k|.

    For n = 2 it is the relaxed sorting network with the logistic distribution. Its arguments grow
    with n: the rows of evenly spaced inputs, h apart, are Gaussians of variance h / (2 steepness).

    Source: Grover et al., Stochastic Optimization of Sorting Networks via Continuous Relaxations
        (ICLR 2019), equation (5), which sorts in descending order.
    """

    name: ClassVar[str] = "neuralsort"
    form: ClassVar[int] = NEURAL  # pyright: ignore[reportIncompatibleMethodOverride]

    def reference(self, x: Tensor, steepness: Number, count: int | None = None) -> Tensor:
        """The formula of the paper in plain torch: P [..., n, n], or its last rows."""
        x, n = spread(x), x.shape[-1]
        rank = torch.arange(1, n + 1, dtype=x.dtype, device=x.device)
        # Arguments are up to 4 n times as large as x. For huge x they are computed from x divided
        # by a power of 2, which changes no digit.
        is_huge = x.detach().abs().amax(-1, keepdim=True) > SHRINK * torch.finfo(x.dtype).max
        shrink = torch.where(is_huge, SHRINK, 1.0).to(x.dtype)
        x = x * shrink
        # A common shift of all arguments of a row has no effect, but it would cost digits.
        x = x - x.detach().mean(-1, keepdim=True)
        total = (x[..., :, None] - x[..., None, :]).abs().sum(-1)
        rank = rank if count is None else rank[n - count :]
        arguments = (2 * rank - n - 1)[:, None] * x[..., None, :] - total[..., None, :]
        arguments = arguments - arguments.detach().amax(-1, keepdim=True)
        return self.softmax(steepness, finite(arguments / shrink[..., None]))
