"""Losses over a cache of solutions: they need no solver call in most steps.

With true costs c and their best solution w, predictions x, and the M solutions v of the cache, for
a solver that minimises (else with all signs turned),

    noise-contrastive    mean over v of <x, w - v>
    maximum a posteriori max over v of <x, w - v>
    pointwise            mean over v of <x - c, v>^2
    pairwise             mean over v of max(0, margin + <x, b - v>), b the best of the cache under c
    listwise             cross-entropy of softmax(-<c, v> / T) and softmax(-<x, v> / T)

The first two ask for w, the others for c.

Source: Mulamba et al., Contrastive Losses and Solution Caching for Predict-and-Optimize, 2021;
Mandi et al., Decision-Focused Learning: Through the Lens of Learning to Rank, 2022.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from gendr._common.checks import Reduction, check_choice, check_number
from gendr._common.tracing import breaking_graphs, in_single, matmul
from gendr._common.words import worded
from gendr.relaxed.estimators.direction import check_batch
from gendr.relaxed.estimators.solution_cache import SolutionCache
from gendr.relaxed.estimators.solver_loss import (
    SolverLoss,
    check_problems,
    feasible,
    given_settings,
    products,
    reduced,
)

Order: TypeAlias = Literal["pointwise", "pairwise", "listwise"]


class _CacheLoss(SolverLoss):
    """A loss over the solutions of a cache, which is made of the solver unless it is one."""

    def __init__(
        self,
        solver: Callable[[Any], Any],
        *,
        minimize: bool | None = None,
        reduction: Reduction = "mean",
        **settings: Any,
    ) -> None:
        settings = given_settings(solver, **settings)
        if not isinstance(solver, SolutionCache):
            solver = SolutionCache(solver, minimize=minimize, **settings)
        super().__init__(solver, minimize=minimize, reduction=reduction)
        self.cache = solver

    def scores(self, predicted: Tensor, *others: Tensor) -> list[Tensor]:
        """<x, v> [N, M] of the solutions of the cache, which may learn those of `predicted`."""
        given = predicted.detach()
        found = self.solve(given)
        check_batch(given, found, self.minimize)
        if not len(self.cache):  # no problem, or none that is feasible
            none = torch.ones((), dtype=torch.bool, device=given.device)
            return [c.flatten(1)[:, :1].masked_fill(none, torch.nan) for c in (predicted, *others)]
        pool = torch.from_numpy(self.cache.solutions).to(predicted).flatten(1)
        return [matmul(costs.to(pool).flatten(1), pool.mT) for costs in (predicted, *others)]

    def close(self) -> None:
        """End the threads or processes of the solver."""
        self.cache.close()


@worded(settings_of=(_CacheLoss, SolutionCache))
class ContrastiveLoss(_CacheLoss):
    """The noise-contrastive loss of a wanted solution, or that of the maximum a posteriori.

    >>> loss = ContrastiveLoss(dijkstra, minimize=True)
    >>> loss(predicted, paths).backward()

    Both are 0 at predictions of 0, and scale with them, so early stopping or another loss beside
    them pays.

    Args:
        solver: as in `SolverLoss`, or a `SolutionCache`, which has its settings.
        hardest: the best of the cache in place of the mean: the maximum a posteriori.
        refresh, limit: of the cache, as in `SolutionCache`.
        seed: of the decisions to solve.
        minimize, reduction, batched, workers, parallel: as in `SolverLoss`.
    """

    def __init__(
        self, solver: Callable[[Any], Any], *, hardest: bool = False, **settings: Any
    ) -> None:
        super().__init__(solver, **settings)
        self.hardest = hardest

    @breaking_graphs
    @in_single
    def forward(self, predicted: Tensor, wanted: Tensor) -> Tensor:
        """The loss, [N] without reduction; the wanted solutions are learnt.

        Args:
            predicted: costs, [N, *event].
            wanted: solutions of the true costs, in the same shape.

        Raises:
            TypeError: no floating tensors.
            ValueError: different shapes, NaN or inf, or a solver that is not of the direction that
                was said.
        """
        predicted, wanted = check_problems(predicted=predicted, wanted=wanted)
        self.cache.add(wanted)
        (scores,) = self.scores(predicted)
        ahead = self.sign * (products(predicted, feasible(wanted))[:, None] - scores)
        values = ahead.amax(1) if self.hardest else ahead.mean(1)
        lost = wanted.isnan().flatten(1).any(1)
        return reduced(values.masked_fill(lost, torch.nan), self.reduction)


@worded(settings_of=(_CacheLoss, SolutionCache))
class SolutionRankingLoss(_CacheLoss):
    """How predicted costs rank the solutions of a cache, against the true costs.

    >>> loss = SolutionRankingLoss(dijkstra, minimize=True)
    >>> loss(predicted, costs, paths).backward()

    One known solution alone ranks nothing: give those of the training set, here or by `cache.add`.

    Args:
        solver: as in `SolverLoss`, or a `SolutionCache`, which has its settings.
        order: what is compared: "pointwise", "pairwise" or "listwise".
        scale: of the listwise softmax, in units of the objective, > 0.
        margin: of the pairwise loss, in the same units, >= 0.
        refresh, limit: of the cache, as in `SolutionCache`.
        seed: of the decisions to solve.
        minimize, reduction, batched, workers, parallel: as in `SolverLoss`.
    """

    def __init__(
        self,
        solver: Callable[[Any], Any],
        *,
        order: Order = "listwise",
        scale: float = 1.0,
        margin: float = 0.0,
        **settings: Any,
    ) -> None:
        super().__init__(solver, **settings)
        self.order = check_choice("order", order, ("pointwise", "pairwise", "listwise"))
        self.scale = check_number("scale", scale, above=0)
        self.margin = check_number("margin", margin, least=0)

    @breaking_graphs
    @in_single
    def forward(self, predicted: Tensor, costs: Tensor, wanted: Tensor | None = None) -> Tensor:
        """The loss, [N] without reduction; wanted solutions are learnt.

        Args:
            predicted: costs, [N, *event].
            costs: the true ones, in the same shape.
            wanted: their solutions, in the same shape; None if the cache knows them.

        Raises:
            TypeError: no floating tensors.
            ValueError: different shapes, NaN or inf, or a solver that is not of the direction that
                was said.
        """
        predicted, costs = check_problems(predicted=predicted, costs=costs)
        if wanted is not None:
            self.cache.add(check_problems(predicted=predicted, wanted=wanted)[1])
        found, true = (self.sign * each for each in self.scores(predicted, costs))
        if self.order == "pointwise":
            values = (found - true).square().mean(1)
        elif self.order == "pairwise":
            best = found.gather(1, true.argmin(1, keepdim=True))
            ahead = (self.margin + best - found).clamp(min=0)
            # The best is no pair with itself.
            values = (ahead.sum(1) - self.margin) / max(ahead.shape[1] - 1, 1)
        else:
            likely = (-true / self.scale).softmax(1)
            values = -(likely * (-found / self.scale).log_softmax(1)).sum(1)
        return reduced(values, self.reduction)
