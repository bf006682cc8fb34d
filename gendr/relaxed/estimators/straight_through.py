"""Straight-through: the hard result forward, the gradient of something else backward.

Source: Bengio, Leonard and Courville, Estimating or Propagating Gradients, 2013.
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

    Args:
        soft: a differentiable function of a stack of inputs, with results in the shape of the hard
            ones; None is the identity.
    """

    name: ClassVar[str] = "straight_through"

    soft: Callable[[Tensor], Tensor] | None = None

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

    def backward(self, function: Evaluations, x: Tensor, kept: Any, grad: Tensor) -> Gradient:
        """See `Estimator`."""
        given, soft = kept
        if self.soft is None:
            return Gradient(grad)
        (value,) = torch.autograd.grad(soft, given, grad, retain_graph=True)
        return Gradient(value)
