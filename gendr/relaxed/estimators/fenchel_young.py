"""The Fenchel-Young loss of a perturbed optimiser.

For a solver w*(x) of max over w of <x, w>, noise e and the wanted solution w,

    L(x) = E[max over v of <x + scale e, v>] - <x, w>,   dL/dx = E[w*(x + scale e)] - w.

The gradient needs no density: it is the difference of two solutions. A solver that minimises, such
as that of shortest paths, has L(x) = <x, w> - E[min <x + scale e, v>] and the opposite gradient.

Source: Berthet et al., 2020; thesis (2.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from gendr._runtime.checks import check_count, check_finite, check_float, check_number, shape_text
from gendr._runtime.evaluations import Evaluations, Parallel
from gendr._runtime.words import worded
from gendr.distributions import as_distribution
from gendr.distributions.registry import DistributionLike
from gendr.relaxed.estimators.api import Report
from gendr.relaxed.estimators.smoothing import check_score, drawn, score_of


@worded()
class FenchelYoungLoss(nn.Module):
    """The Fenchel-Young loss, a number for each input.

    >>> loss = FenchelYoungLoss(dijkstra, minimize=True, samples=10, scale=0.5)
    >>> loss(costs, paths).mean().backward()

    Args:
        solver: takes the costs of one problem, an array, and returns a solution of their shape.
        minimize: the solver minimises <x, w>; else it maximises.
        samples: of the noise, for each input.
        scale: of the noise, in units of the costs.
        dist: its law; any that can be sampled.
        batched, workers, parallel, seed: as in `estimated`.

    Attributes:
        report: of the last forward pass, which computes the gradient too.
    """

    def __init__(
        self,
        solver: Callable[[Any], Any],
        *,
        minimize: bool = False,
        samples: int = 10,
        scale: float = 1.0,
        dist: DistributionLike = "gaussian",
        batched: bool = False,
        workers: int = 1,
        parallel: Parallel = "threads",
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.samples = check_count("samples", samples)
        self.scale = check_number("scale", scale, above=0)
        self.dist, self.minimize = as_distribution(dist), minimize
        self._function = Evaluations(solver, batched=batched, workers=workers, parallel=parallel)
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)
        self.report: Report | None = None

    def forward(self, x: Tensor, wanted: Tensor) -> Tensor:
        """The loss [N] of costs x [N, *event] and wanted solutions of the same shape.

        Raises:
            TypeError: no float32 or float64 tensors.
            ValueError: different shapes, NaN or inf, or a solution of another shape.
        """
        value, gradient, _ = self.derivatives(x, wanted, hessian=False)
        return with_gradient(x, value, gradient.reshape(x.shape))

    def derivatives(
        self, x: Tensor, wanted: Tensor, *, hessian: bool = True
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The loss [N], its gradient [N, m] and its Hessian [N, m, m].

        The Hessian is the Jacobian of the mean solution, by stochastic smoothing; it needs a law
        whose density has no jumps.
        """
        x, wanted = check_finite("x", check_float("x", x)), check_float("wanted", wanted)
        if x.shape != wanted.shape or x.ndim < 2:
            raise ValueError(
                "x and wanted must have the same shape [N, *event], got "
                f"{shape_text(x.shape)} and {shape_text(wanted.shape)}"
            )
        noise = drawn(self.dist, self.samples, x.detach(), self._generator)
        noisy = x.detach() + self.scale * noise
        solutions = self._function(noisy.flatten(0, 1))
        if solutions.shape[1:] != x.shape[1:]:
            raise ValueError(
                "the solver must return solutions in the shape of the costs, got "
                f"{shape_text(solutions.shape[1:])} for {shape_text(x.shape[1:])}"
            )
        solutions = solutions.reshape(noisy.shape)
        best = (noisy * solutions).flatten(2).sum(2).mean(0)
        mean = solutions.mean(0)
        sign = -1.0 if self.minimize else 1.0
        value = sign * (best - (x.detach() * wanted).flatten(1).sum(1))
        gradient = sign * (mean - wanted)
        variance = solutions.var(0) / self.samples if self.samples > 1 else None
        self.report = Report(self._function.count, variance, gradient.detach())
        self._function.count = 0
        second = None
        if hessian:
            check_score(self.dist)
            score = score_of(self.dist, noise).flatten(2) / self.scale
            around = (solutions - mean).flatten(2) * (self.samples / max(self.samples - 1, 1))
            second = sign * torch.einsum("sni,snj->nij", around, score) / self.samples
            second = 0.5 * (second + second.mT)
        return value, gradient.flatten(1), second

    def close(self) -> None:
        """End the threads or processes of the solver."""
        self._function.close()


def with_gradient(x: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """A value [N] whose gradient with respect to x [N, *event] is known."""
    return cast("Tensor", _WithGradient.apply(x, value, gradient))


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor, gradient: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    # Its own derivative would be that of a constant: no curvature, without a word.
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (gradient,) = ctx.saved_tensors
        weight = grads[0].reshape(-1, *(1 for _ in gradient.shape[1:]))
        return weight * gradient, None, None
