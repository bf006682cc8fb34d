"""Straight-through: the hard result forward, the gradient of something else backward.

Source: Bengio, Leonard and Courville, Estimating or Propagating Gradients, 2013; around solvers,
Sahoo et al., Backpropagation through Combinatorial Algorithms, 2023.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from gendr._runtime.evaluations import Evaluations
from gendr.relaxed.estimators.base import Estimator, Gradient


@final
@dataclass(frozen=True)
class StraightThrough(Estimator):
    """The gradient of the identity, or of a soft function such as `shortest_path`.

    What a higher cost takes out of a solution that minimises the costs, the identity would put in:
    a training would go uphill. So around such a solver it is the negative identity.

    Args:
        soft: a differentiable function of a stack of inputs, with results in the shape of the hard
            ones; None is the identity.
        minimize: for the identity: whether the function is a solver that minimises <x, w>, such as
            a shortest path. False for one that maximises, and where results rise with x, as signs
            and rounded numbers do.

    Raises:
        ValueError: neither a soft function nor `minimize`, or both.
    """

    name: ClassVar[str] = "straight_through"

    soft: Callable[[Tensor], Tensor] | None = None
    minimize: bool | None = None

    def __post_init__(self) -> None:
        if self.soft is None and self.minimize is None:
            raise ValueError(
                "straight-through needs to know the sign of the identity: give minimize=True for a "
                "solver that minimises <x, w>, False for one that maximises or where results rise "
                "with x; or a soft function"
            )
        if self.soft is not None and self.minimize is not None:
            raise ValueError("the gradient of a soft function has its own sign; leave out minimize")

    def forward(
        self, function: Evaluations, x: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Any]:
        """See `Estimator`."""
        result = function(x)
        with torch.enable_grad():
            given = x.detach().requires_grad_()
            soft = given if self.soft is None else self.soft(given)
        if soft.shape != result.shape:
            raise ValueError(
                "straight-through needs soft results in the shape of the hard ones, got "
                f"{list(soft.shape)} and {list(result.shape)}"
            )
        return result, (given, soft)

    def backward(self, function: Evaluations, x: Tensor, saved: Any, grad: Tensor) -> Gradient:
        """See `Estimator`."""
        given, soft = saved
        if self.soft is None:
            return Gradient(-grad if self.minimize else grad)
        (value,) = torch.autograd.grad(soft, given, grad, retain_graph=True)
        return Gradient(value)
