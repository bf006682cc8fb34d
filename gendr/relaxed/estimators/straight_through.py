"""Straight-through: the hard result forward, the gradient of something else backward.

Source: Bengio, Leonard and Courville, Estimating or Propagating Gradients, 2013; around solvers,
Sahoo et al., Backpropagation through Combinatorial Algorithms: Identity with Projection Works,
2023.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, final

import torch
from torch import Tensor

from gendr._common.checks import check_choice
from gendr._common.evaluations import Evaluations
from gendr.relaxed.estimators.base import Estimator, Gradient
from gendr.relaxed.estimators.direction import check_batch, direction_of

Projection: TypeAlias = Literal["none", "mean", "norm", "standard"]


@final
@dataclass(frozen=True)
class StraightThrough(Estimator):
    """The gradient of the identity, or of a soft function such as `shortest_path`.

    What a higher cost takes out of a solution that minimises the costs, the identity would put in:
    a training would go uphill. So around such a solver it is the negative identity.

    Args:
        soft: a differentiable function of a stack of inputs, with results in the shape of the hard
            ones; None is the identity.
        projection: of the costs, before the solver sees them: what does not change a solution is
            taken out of them, so that a training cannot drift along it. "mean" subtracts the mean
            of an input, if all solutions have as many ones; "norm" divides by the length; and
            "standard" does both. Gradients pass through it.
        minimize: for the identity: whether the function is a solver that minimises <x, w>, such as
            a shortest path. False for one that maximises, and where results rise with x, as signs
            and rounded numbers do.

    Raises:
        ValueError: neither a soft function nor `minimize`, or both, or a soft function and a
            projection. The forward pass: results of a batch that move against `minimize`.
    """

    name: ClassVar[str] = "straight_through"

    soft: Callable[[Tensor], Tensor] | None = None
    projection: Projection = "none"

    def __post_init__(self) -> None:
        check_choice("projection", self.projection, ("none", "mean", "norm", "standard"))
        if self.soft is None:
            direction_of(None, self.minimize)
        elif self.minimize is not None or self.projection != "none":
            raise ValueError(
                "the gradient of a soft function has its own sign; leave out minimize and "
                "projection"
            )

    def forward(
        self, function: Evaluations, x: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Any]:
        """See `Estimator`."""
        with torch.enable_grad():
            given = x.detach().clone().requires_grad_()
            soft = projected(given, self.projection) if self.soft is None else self.soft(given)
        at = soft.detach() if self.soft is None else x
        result = function(at)
        if soft.shape != result.shape:
            raise ValueError(
                "straight-through needs soft results in the shape of the hard ones, got "
                f"{list(soft.shape)} and {list(result.shape)}"
            )
        if self.soft is None:
            check_batch(at, result, bool(self.minimize))
        return result, (given, soft)

    def backward(self, function: Evaluations, x: Tensor, saved: Any, grad: Tensor) -> Gradient:
        """See `Estimator`."""
        given, soft = saved
        grad = -grad if self.minimize else grad
        if soft is given:
            return Gradient(grad)
        (value,) = torch.autograd.grad(soft, given, grad, retain_graph=True)
        return Gradient(value)


def projected(x: Tensor, projection: Projection) -> Tensor:
    """Costs [N, *event] without their mean, with length 1, or both; constant ones become 0."""
    flat = x.flatten(1)
    if projection in ("mean", "standard"):
        flat = flat - flat.mean(1, keepdim=True)
    if projection in ("norm", "standard"):
        length = flat.square().sum(1, keepdim=True)
        flat = flat / torch.where(length > 0, length, 1.0).sqrt()
    return x if projection == "none" else flat.reshape(x.shape)
