"""What losses around a solver share: the solver, its direction, the reduction, the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from gendr._common.checks import (
    Reduction,
    check_finite,
    check_float,
    check_reduction,
    shape_text,
)
from gendr._common.evaluations import Evaluations, Parallel
from gendr._common.tracing import refuse_transforms
from gendr._common.words import worded
from gendr.relaxed.estimators.api import Report
from gendr.relaxed.estimators.direction import direction_of
from gendr.relaxed.estimators.solution_cache import SolutionCache


@worded()
class SolverLoss(nn.Module):
    """A loss of predicted costs around a solver of a linear problem.

    Args:
        solver: takes the costs of one problem, an array, and returns a solution of their shape.
            With attributes `minimize` and `batched` it says these itself, as `SolutionCache` does.
        minimize: whether the solver minimises <x, w>; else it maximises.
        reduction: "mean" or "sum" over the batch, or "none".
        batched: the solver takes stacks [N, *event] at once. This and the next two are not for a
            `SolutionCache`, which has them already.
        workers: how many threads or processes solve; by default 1.
        parallel: "threads", the default, or "processes" for solvers that hold the lock of Python;
            these must be importable.
        seed: of what is drawn; by default the randomness of torch.

    Attributes:
        report: of the last forward pass, which computes the gradient too.
    """

    def __init__(
        self,
        solver: Callable[[Any], Any],
        *,
        minimize: bool | None = None,
        reduction: Reduction = "mean",
        batched: bool | None = None,
        workers: int | None = None,
        parallel: Parallel | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        given = given_settings(solver, batched=batched, workers=workers, parallel=parallel)
        given["batched"] = bool(batched or getattr(solver, "batched", False))
        self._function = Evaluations(solver, **given)
        self.minimize = direction_of(solver, minimize)
        self.reduction: Reduction = check_reduction(reduction)
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)
        self.report: Report | None = None

    @property
    def sign(self) -> float:
        """Of <x, w> where the objective is what is minimised."""
        return 1.0 if self.minimize else -1.0

    def solve(self, costs: Tensor) -> Tensor:
        """Solutions [N, *event] for costs of that shape, without gradient; NaN if infeasible.

        Raises:
            ValueError: a solution of another shape, or inf.
        """
        return self._function.solutions(costs)

    def finish(
        self, x: Tensor, value: Tensor, gradient: Tensor, variance: Tensor | None = None
    ) -> Tensor:
        """The reduced loss of values [N] whose gradients [N, *event] are known, and the report."""
        self.report = Report(self._function.count, variance, feasible(gradient))
        self._function.count = 0
        return reduced(with_gradient(x, value, gradient), self.reduction)

    def close(self) -> None:
        """End the threads or processes of the solver."""
        self._function.close()


def given_settings(solver: Callable[[Any], Any], **settings: Any) -> dict[str, Any]:
    """Settings of a solver that are not None.

    Raises:
        TypeError: the solver is a `SolutionCache`, which would ignore them.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    if given and isinstance(solver, SolutionCache):
        raise TypeError(
            f"a SolutionCache has its settings already, got {', '.join(given)}; give them to it"
        )
    return given


def reduced(values: Tensor, reduction: Reduction) -> Tensor:
    """A loss [N], or its mean or sum over the problems that have a solution, the others' are NaN.

    Without any, it is NaN.
    """
    if reduction == "none" or not len(values):
        return values if reduction == "none" else getattr(values, reduction)()
    known = ~values.isnan()
    total = values.where(known, 0.0).sum()
    count = known.sum()
    total = total.where(count > 0, torch.nan)
    return total / count if reduction == "mean" else total


def feasible(gradient: Tensor) -> Tensor:
    """A gradient [N, *event] that is 0 where that of an infeasible problem would be NaN."""
    return gradient.where(~gradient.isnan(), 0.0)


def check_problems(**tensors: Tensor) -> list[Tensor]:
    """Costs and solutions [N, *event] of one shape, finite; the first is the prediction.

    Those `wanted` may be NaN, of infeasible problems.

    Raises:
        TypeError: no float32 or float64 tensors.
        ValueError: different shapes, no event, NaN or inf.
    """
    refuse_transforms("an estimated gradient")
    found = [check_float(name, tensor) for name, tensor in tensors.items()]
    for name, tensor in zip(tensors, found, strict=True):
        check_finite(name, feasible(tensor) if name == "wanted" else tensor)
    shapes = [tensor.shape for tensor in found]
    if len(set(shapes)) > 1 or len(shapes[0]) < 2:
        names, said = list(tensors), [shape_text(shape) for shape in shapes]
        raise ValueError(
            f"{', '.join(names[:-1])} and {names[-1]} must have the same shape [N, *event], got "
            f"{', '.join(said[:-1])} and {said[-1]}"
        )
    return found


def products(costs: Tensor, solutions: Tensor) -> Tensor:
    """<x, w> [N] for both [N, *event]."""
    return (costs * solutions).flatten(1).sum(1)


def with_gradient(x: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """A value [N] whose gradient with respect to x [N, *event] is known."""
    return cast("Tensor", _WithGradient.apply(x, value, gradient))


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor, gradient: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(feasible(gradient), value)
        return value.clone()

    @staticmethod
    # Its own derivative would be that of a constant: no curvature, without a word.
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        gradient, value = ctx.saved_tensors
        weight = grads[0].where(~value.isnan(), 0.0).reshape(-1, *(1 for _ in gradient.shape[1:]))
        return weight * gradient, None, None
