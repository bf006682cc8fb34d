"""A hard loss, smoothed, with estimates of its first and second derivatives.

With noise of density f, s(e) = -f'(e) / f(e), and c that does not depend on e,

    gradient E[g(x + scale e)] = E[(g(x + scale e) - c) s(e)] / scale
    Hessian  E[g(x + scale e)] = E[(g(x + scale e) - c) S(e)] / scale^2

where S has s_i s_j beside its diagonal and f''(e_i) / f(e_i) on it.

Source: thesis, Lemma 2.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gendr._common.checks import (
    Reduction,
    check_count,
    check_finite,
    check_float,
    check_number,
    check_reduction,
)
from gendr._common.evaluations import Evaluations, Parallel
from gendr._common.tracing import in_single, matmul, refuse_transforms
from gendr._common.words import worded
from gendr.distributions import as_distribution
from gendr.distributions.registry import DistributionLike
from gendr.relaxed.estimators.smoothing import (
    check_curvature,
    check_score,
    curvature_of,
    drawn,
    score_of,
)
from gendr.relaxed.estimators.solver_loss import reduced, with_gradient


@worded()
class SmoothedLoss(nn.Module):
    """The expectation of a hard loss under noise on its input.

    >>> loss = SmoothedLoss(distance, samples=30, scale=0.5)      # distance(x, wanted) -> a number
    >>> loss(costs, paths).backward()
    >>> gendr.optim.NewtonLoss(loss, "fisher")(costs, paths).backward()

    Args:
        function: takes an array, and one entry of each further argument; returns a number. It may
            work in place: it gets copies.
        samples: of the noise, >= 2, for each input. From each value the mean of the others is
            subtracted.
        scale: of the noise, in units of the input.
        dist: its distribution; it must have a density without jumps or infinite slopes, and for a
            Hessian without kinks.
        reduction: "mean" or "sum" over the batch, or "none".
        batched: the function takes stacks [S, *event], and as many entries, and returns [S].
        workers: how many threads or processes evaluate it.
        parallel: "threads", or "processes" for functions that hold the lock of Python; these must
            be importable.
        seed: of the samples; by default the randomness of torch.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        samples: int = 10,
        scale: float = 1.0,
        dist: DistributionLike = "gaussian",
        reduction: Reduction = "mean",
        batched: bool = False,
        workers: int = 1,
        parallel: Parallel = "threads",
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.samples = check_count("samples", samples, least=2)
        self.scale = check_number("scale", scale, above=0)
        self.dist = as_distribution(dist)
        check_score(self.dist)
        self.reduction: Reduction = check_reduction(reduction)
        self._function = Evaluations(function, batched=batched, workers=workers, parallel=parallel)
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)

    @in_single
    def forward(self, x: Tensor, *args: Any) -> Tensor:
        """The loss, [N] without reduction, of inputs x [N, *event], with its estimated gradient.

        Args:
            x: floating and finite.
            *args: tensors or arrays of N entries.

        Raises:
            TypeError: if x is no tensor of floats.
            ValueError: if it is not finite, if an argument has not N entries, or if the function
                returns no finite number.
        """
        value, gradient, _ = self.derivatives(x.detach(), *args, hessian=False)
        return reduced(with_gradient(x, value, gradient.reshape(x.shape)), self.reduction)

    def derivatives(
        self, x: Tensor, *args: Any, hessian: bool = True
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The loss [N], its gradient [N, m] and its Hessian [N, m, m], of the same samples."""
        refuse_transforms("an estimated gradient")
        if hessian:
            check_curvature(self.dist)
        x = check_finite("x", check_float("x", x))
        noise = drawn(self.dist, self.samples, x, self._generator)
        samples = (x + self.scale * noise).movedim(0, 1)
        values = self._function.of_samples(samples, args).mT.to(x)  # [S, N]
        mean = values.mean(0)
        # Less the mean of the others, so that the estimates stay unbiased.
        weight = (values - mean) * (self.samples / (self.samples - 1))
        score = score_of(self.dist, noise).flatten(2)
        gradient = (weight[..., None] * score).mean(0) / self.scale
        second = None
        if hessian:
            own = curvature_of(self.dist, noise).flatten(2) - score.square()
            weighted = weight[..., None] * score
            second = matmul(weighted.permute(1, 2, 0), score.movedim(0, 1)) / self.samples
            second = second + torch.diag_embed((weight[..., None] * own).mean(0))
            second = second / self.scale**2
        return mean, gradient, second

    def close(self) -> None:
        """End the threads or processes of the function."""
        self._function.close()
