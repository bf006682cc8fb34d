"""Finite differences: every number of the input is moved by itself. The baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from gendr._common.checks import check_number
from gendr._common.evaluations import Evaluations
from gendr.relaxed.estimators.base import Estimator, Gradient


@final
@dataclass(frozen=True)
class FiniteDifferences(Estimator):
    """Central differences: two evaluations for each number of an input, without randomness.

    Args:
        step: how far each number is moved to both sides. For a function of steps, it must be large
            enough to meet them.
    """

    name: ClassVar[str] = "finite_differences"

    step: float = 1e-3

    def __post_init__(self) -> None:
        check_number("step", self.step, above=0)

    def forward(
        self, function: Evaluations, x: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Any]:
        """See `Estimator`."""
        return function(x), None

    def backward(self, function: Evaluations, x: Tensor, saved: Any, grad: Tensor) -> Gradient:
        """See `Estimator`."""
        count, size = len(x), x[0].numel()
        moves = self.step * torch.eye(size, dtype=x.dtype, device=x.device)
        moves = torch.cat([moves, -moves]).reshape(2 * size, 1, *x.shape[1:])
        results = function((x + moves).flatten(0, 1)).reshape(2, size, count, -1)
        slopes = (results[0] - results[1]) / (2 * self.step)  # [size, N, out]
        value = (slopes * grad.reshape(1, count, -1)).sum(-1)
        return Gradient(value.T.reshape(x.shape))
