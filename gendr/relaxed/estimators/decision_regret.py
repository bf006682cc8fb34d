"""The regret of decisions by predicted costs: what a decision costs beyond the best one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor

from gendr._common.checks import check_choice
from gendr._common.evaluations import Evaluations
from gendr._common.tracing import in_single
from gendr.relaxed.estimators.direction import check_monotone, direction_of
from gendr.relaxed.estimators.solver_loss import check_problems, products, reduced


@in_single
def regret(
    predicted: Tensor,
    costs: Tensor,
    solver: Callable[[Any], Any],
    *,
    minimize: bool | None = None,
    wanted: Tensor | None = None,
    reduction: Literal["normalized", "mean", "sum", "none"] = "normalized",
    batched: bool = False,
) -> Tensor:
    """<c, g(x)> - <c, g(c)> of a solver g that minimises, its negative of one that maximises.

    A metric: it is constant almost everywhere, and has no gradient.

    Args:
        predicted: costs x, [N, *event].
        costs: the true ones c, in the same shape.
        solver: takes the costs of one problem, an array, and returns a solution of their shape.
        minimize: whether it minimises <x, w>; else it maximises.
        wanted: g(c), if they are known.
        reduction: "normalized" is the sum over the batch over the sum of all |<c, g(c)>|; "mean",
            "sum" or "none". Problems without a solution, NaN, are NaN then, and left out before.
        batched: the solver takes stacks [N, *event] at once.

    Returns:
        A number, or [N] without reduction; >= 0 for exact solvers.

    Raises:
        TypeError: no floating tensors.
        ValueError: different shapes, NaN or inf, a solution of another shape, nobody says whether
            the solver minimises, or it does the opposite.
    """
    predicted, costs = check_problems(predicted=predicted.detach(), costs=costs)
    check_choice("reduction", reduction, ("normalized", "mean", "sum", "none"))
    sign = 1.0 if direction_of(solver, minimize) else -1.0
    solve = Evaluations(solver, batched=batched or bool(getattr(solver, "batched", False)))
    found = solve.solutions(predicted)
    if wanted is None:
        wanted = solve.solutions(costs)
    else:
        check_problems(predicted=predicted, wanted=wanted)
    check_monotone(predicted, costs, found, wanted, minimize=sign > 0)
    best = products(costs, wanted)
    lost = sign * (products(costs, found) - best)
    if reduction == "normalized":
        return reduced(lost, "sum") / best.where(~lost.isnan(), 0.0).abs().sum()
    return reduced(lost, reduction)
