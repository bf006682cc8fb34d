"""SPO+: the convex surrogate of the regret of a decision.

With true costs c, their best solution w, predictions x and a solver g that minimises,

    L(x) = <2x - c, w> - min over v of <2x - c, v>,    dL/dx = 2 (w - g(2x - c)).

It is 0 where 2x - c has the solution w, and never below the regret <c, g(x)> - <c, w>.

Source: Elmachtoub and Grigas, Smart "Predict, then Optimize", 2022, definition 3 and proposition 3.
"""

from __future__ import annotations

from torch import Tensor

from gendr._common.tracing import in_single
from gendr._common.words import worded
from gendr.relaxed.estimators.direction import check_batch
from gendr.relaxed.estimators.solver_loss import SolverLoss, check_problems, products


@worded()
class SPOPlusLoss(SolverLoss):
    """The SPO+ loss; its gradient is a subgradient where solutions change.

    >>> loss = SPOPlusLoss(dijkstra, minimize=True)
    >>> loss(predicted, costs, paths).backward()

    For a solver that maximises, all signs are the other ones. The arguments are those of
    `SolverLoss`; nothing is drawn.
    """

    @in_single
    def forward(self, predicted: Tensor, costs: Tensor, wanted: Tensor | None = None) -> Tensor:
        """The loss, [N] without reduction.

        Args:
            predicted: costs, [N, *event].
            costs: the true ones, in the same shape.
            wanted: their solutions, in the same shape; by default they are solved for, which
                doubles the work.

        Raises:
            TypeError: no floating tensors.
            ValueError: different shapes, NaN or inf, solutions of another shape, or a solver that
                is not of the direction that was said.
        """
        predicted, costs = check_problems(predicted=predicted, costs=costs)
        if wanted is None:
            wanted = self.solve(costs)
        else:
            check_problems(predicted=predicted, wanted=wanted)
        moved = 2 * predicted.detach() - costs
        found = self.solve(moved)
        check_batch(moved, found, self.minimize)
        value = self.sign * products(moved, wanted - found)
        return self.finish(predicted, value, self.sign * 2 * (wanted - found))
