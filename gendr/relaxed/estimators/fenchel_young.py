"""The Fenchel-Young loss of a perturbed optimiser.

For a solver w*(x) of max over w of <x, w>, noise e and the wanted solution w,

    L(x) = E[max over v of <x + scale e, v>] - <x, w>,   dL/dx = E[w*(x + scale e)] - w.

The gradient needs no density: it is the difference of two solutions. A solver that minimises, such
as that of shortest paths, has L(x) = <x, w> - E[min <x + scale e, v>] and the opposite gradient.

Source: Berthet et al., 2020; thesis (2.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from gendr._common.checks import check_count, check_number
from gendr._common.tracing import in_single, matmul
from gendr._common.words import worded
from gendr.distributions import as_distribution
from gendr.distributions.registry import DistributionLike
from gendr.relaxed.estimators.api import Report
from gendr.relaxed.estimators.direction import check_batch
from gendr.relaxed.estimators.smoothing import check_score, drawn, score_of
from gendr.relaxed.estimators.solver_loss import (
    SolverLoss,
    check_problems,
    feasible,
    products,
    reduced,
    with_gradient,
)


@worded(settings_of=(SolverLoss,))
class FenchelYoungLoss(SolverLoss):
    """The Fenchel-Young loss of a wanted solution.

    >>> loss = FenchelYoungLoss(dijkstra, minimize=True, samples=10, scale=0.5)
    >>> loss(costs, paths).backward()

    Args:
        solver: takes the costs of one problem, an array, and returns a solution of their shape.
        samples: of the noise, for each input.
        scale: of the noise, in units of the costs.
        dist: its distribution; any that can be sampled.
        minimize, reduction, batched, workers, parallel, seed: as in `SolverLoss`.

    Attributes:
        report: of the last forward pass, which computes the gradient too.
    """

    def __init__(
        self,
        solver: Callable[[Any], Any],
        *,
        samples: int = 10,
        scale: float = 1.0,
        dist: DistributionLike = "gaussian",
        **settings: Any,
    ) -> None:
        super().__init__(solver, **settings)
        self.samples = check_count("samples", samples)
        self.scale = check_number("scale", scale, above=0)
        self.dist = as_distribution(dist)

    @in_single
    def forward(self, x: Tensor, wanted: Tensor) -> Tensor:
        """The loss, [N] without reduction, of costs x [N, *event] and wanted solutions.

        Raises:
            TypeError: no floating tensors.
            ValueError: different shapes, NaN or inf, a solution of another shape, or a solver that
                is not of the direction that was said.
        """
        value, gradient, _ = self.derivatives(x, wanted, hessian=False)
        return reduced(with_gradient(x, value, gradient.reshape(x.shape)), self.reduction)

    def derivatives(
        self, x: Tensor, wanted: Tensor, *, hessian: bool = True
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The loss [N], its gradient [N, m] and its Hessian [N, m, m].

        The Hessian is the Jacobian of the mean solution, by stochastic smoothing; it needs a
        distribution whose density has no jumps.
        """
        x, wanted = check_problems(x=x, wanted=wanted)
        noise = drawn(self.dist, self.samples, x.detach(), self._generator)
        noisy = x.detach() + self.scale * noise
        solutions = self.solve(noisy.flatten(0, 1)).reshape(noisy.shape)
        check_batch(noisy.flatten(0, 1), solutions.flatten(0, 1), self.minimize)
        best = (noisy * solutions).flatten(2).sum(2).mean(0)
        mean = solutions.mean(0)
        value = self.sign * (products(x.detach(), wanted) - best)
        gradient = feasible(self.sign * (wanted - mean))
        variance = solutions.var(0) / self.samples if self.samples > 1 and len(x) else None
        self.report = Report(self._function.count, variance, gradient.detach())
        self._function.count = 0
        second = None
        if hessian:
            check_score(self.dist)
            score = score_of(self.dist, noise).flatten(2) / self.scale
            around = (solutions - mean).flatten(2) * (self.samples / max(self.samples - 1, 1))
            second = (
                -self.sign * matmul(around.permute(1, 2, 0), score.movedim(0, 1)) / self.samples
            )
            second = feasible(0.5 * (second + second.mT))
        return value, gradient.flatten(1), second
