"""The perturbation gradient: the slope of the best objective along the true costs, by a difference.

With V(x) = min over v of <x, v>, true costs c and a step h,

    L(x) = (V(x) - V(x - h c)) / h,                dL/dx = (g(x) - g(x - h c)) / h,

or, two-sided, (V(x + h c) - V(x - h c)) / 2h. As h goes to 0 the loss goes to <c, g(x)>, what the
decision costs, where the solution of x is the only one; it needs no solutions of the true costs.

Source: Huang and Gupta, Decision-Focused Learning with Directional Gradients, 2024.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gendr._common.checks import check_number
from gendr._common.tracing import in_single
from gendr._common.words import worded
from gendr.relaxed.estimators.direction import check_batch
from gendr.relaxed.estimators.solver_loss import SolverLoss, check_problems, products


@worded(settings_of=(SolverLoss,))
class PerturbationGradientLoss(SolverLoss):
    """The perturbation gradient loss; a difference of two convex or concave functions.

    >>> loss = PerturbationGradientLoss(dijkstra, minimize=True, step=0.1)
    >>> loss(predicted, costs).backward()

    Args:
        solver: as in `SolverLoss`.
        step: h, in units of the predicted over those of the true costs, > 0. The smaller, the less
            bias, and the more often a gradient is 0.
        two_sided: the difference of both sides, which sees the better solution of a prediction
            that is far off where one side sees none.
        minimize, reduction, batched, workers, parallel, seed: as in `SolverLoss`.
    """

    def __init__(
        self,
        solver: Callable[[Any], Any],
        *,
        step: float = 0.1,
        two_sided: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(solver, **settings)
        self.step = check_number("step", step, above=0)
        self.two_sided = two_sided

    @in_single
    def forward(self, predicted: Tensor, costs: Tensor) -> Tensor:
        """The loss, [N] without reduction: what decisions cost, less what their values are.

        Args:
            predicted: costs, [N, *event].
            costs: the true ones, in the same shape.

        Raises:
            TypeError: no floating tensors.
            ValueError: different shapes, NaN or inf, solutions of another shape, or a solver that
                is not of the direction that was said.
        """
        predicted, costs = check_problems(predicted=predicted, costs=costs)
        x = predicted.detach()
        sides = (x + self.step * costs if self.two_sided else x, x - self.step * costs)
        found = self.solve(torch.cat(sides))
        check_batch(torch.cat(sides), found, self.minimize)
        upper, lower = found[: len(x)], found[len(x) :]
        width = self.step * (1 + self.two_sided)
        value = self.sign * (products(sides[0], upper) - products(sides[1], lower)) / width
        return self.finish(predicted, value, self.sign * (upper - lower) / width)
