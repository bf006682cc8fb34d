"""Black-box differentiation: one solver call at costs moved along the gradient.

Source: Vlastelica et al., Differentiation of Blackbox Combinatorial Solvers, 2020; thesis (2.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from gendr._runtime.checks import check_number
from gendr._runtime.evaluations import Evaluations
from gendr._runtime.words import worded
from gendr.relaxed.estimators.base import Estimator, Gradient


@worded(old=("strength",))
@final
@dataclass(frozen=True)
class BlackBox(Estimator):
    """The gradient (g(x + step dL/dg) - g(x)) / step of a solver g of a linear problem.

    It is the gradient of a piecewise linear function that agrees with the loss at x. The solver
    minimises <x, g(x)>; one that maximises takes -x.

    Args:
        step: lambda of the paper, > 0. The larger, the smoother.
    """

    name: ClassVar[str] = "black_box"

    step: float = 10.0

    def __post_init__(self) -> None:
        check_number("step", self.step, above=0)

    def forward(
        self, function: Evaluations, x: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Any]:
        """See `Estimator`."""
        result = function(x)
        if result.shape != x.shape:
            raise ValueError(
                "black-box differentiation needs a solution in the shape of its costs, got "
                f"{list(result.shape)} for {list(x.shape)}"
            )
        return result, result

    def backward(self, function: Evaluations, x: Tensor, saved: Any, grad: Tensor) -> Gradient:
        """See `Estimator`."""
        moved = function(x + self.step * grad)
        return Gradient((moved - saved) / self.step)
