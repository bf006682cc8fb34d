"""Black-box differentiation: one solver call at costs moved along the gradient.

Source: Vlastelica et al., Differentiation of Blackbox Combinatorial Solvers, 2020; thesis (2.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from gendr._common.checks import check_number
from gendr._common.evaluations import Evaluations
from gendr._common.words import worded
from gendr.relaxed.estimators.base import Estimator, Gradient
from gendr.relaxed.estimators.direction import check_monotone, direction_of


@worded()
@final
@dataclass(frozen=True)
class BlackBox(Estimator):
    """The gradient (g(x + step dL/dg) - g(x)) / step of a solver g of a linear problem.

    It is the gradient of a piecewise linear function that agrees with the loss at x. For a solver
    that maximises it is (g(x) - g(x - step dL/dg)) / step.

    Args:
        step: lambda of the paper, > 0. The larger, the smoother.
        minimize: whether g minimises <x, g(x)>; else it maximises.

    Raises:
        ValueError: no `minimize`. The backward pass: results that move against it.
    """

    name: ClassVar[str] = "black_box"

    step: float = 10.0

    def __post_init__(self) -> None:
        check_number("step", self.step, above=0)
        direction_of(None, self.minimize)

    def forward(
        self, function: Evaluations, x: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Any]:
        """See `Estimator`."""
        result = function.solutions(x)
        return result, result

    def backward(self, function: Evaluations, x: Tensor, saved: Any, grad: Tensor) -> Gradient:
        """See `Estimator`."""
        sign = 1.0 if self.minimize else -1.0
        there = x + sign * self.step * grad
        moved = function.solutions(there)
        check_monotone(there, x, moved, saved, bool(self.minimize))
        return Gradient(sign * (moved - saved) / self.step)
