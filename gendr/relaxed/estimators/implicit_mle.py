"""Implicit maximum likelihood: black-box differentiation of a solver under noise on its costs.

Source: Niepert, Minervini and Franceschi, Implicit MLE, 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from gendr._common.checks import check_count, check_number
from gendr._common.evaluations import Evaluations
from gendr._common.words import worded
from gendr.distributions import as_distribution
from gendr.distributions.registry import DistributionLike
from gendr.relaxed.estimators.base import Estimator, Gradient
from gendr.relaxed.estimators.direction import check_monotone, direction_of
from gendr.relaxed.estimators.smoothing import drawn


@worded()
@dataclass(frozen=True)
class ImplicitMLE(Estimator):
    """The gradient E[g(t + scale e) - g(t - step dL/dg + scale e)] / step, by samples.

    t are values, of which g takes the largest: x for a solver that maximises, -x for one that
    minimises, whose gradient is the negative of this. The result is the mean solution. Both
    solutions of a sample see the same noise.

    Args:
        samples: of the noise, for each input.
        scale: of the noise, in units of the costs; 0 is black-box differentiation.
        dist: its distribution; with "gumbel_max" the one largest of independent values is drawn by
            softmax.
        step: lambda of the paper, > 0.
        two_sided: half the difference of the solutions at both sides, t + and - step dL/dg.
        minimize: whether the solver minimises <x, g(x)>; else it maximises.

    Raises:
        ValueError: no `minimize`, or a setting out of range. The backward pass: results that move
            against `minimize`.
    """

    name: ClassVar[str] = "implicit_mle"

    samples: int = 1
    scale: float = 1.0
    dist: DistributionLike = "gumbel_max"
    step: float = 10.0
    two_sided: bool = False

    def __post_init__(self) -> None:
        check_count("samples", self.samples)
        check_number("scale", self.scale, least=0)
        check_number("step", self.step, above=0)
        as_distribution(self.dist)
        direction_of(None, self.minimize)

    def forward(
        self, function: Evaluations, x: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Any]:
        """See `Estimator`."""
        noisy = x.expand(self.samples, *x.shape)
        if self.scale > 0:
            noise = self.scale * drawn(as_distribution(self.dist), self.samples, x, generator)
            noisy = x - noise if self.minimize else x + noise
        solutions = _solved(function, noisy)
        return solutions.mean(0), (noisy, solutions)

    def backward(self, function: Evaluations, x: Tensor, saved: Any, grad: Tensor) -> Gradient:
        """See `Estimator`."""
        return self._along(function, saved, grad, self.step)

    def _along(self, function: Evaluations, saved: Any, grad: Tensor, length: float) -> Gradient:
        """The gradient by a step of this length along that of the result."""
        noisy, solutions = saved
        moved_by = length * grad if self.minimize else -length * grad
        there = noisy + moved_by
        moved = _solved(function, there)
        check_monotone(
            there.flatten(0, 1), noisy.flatten(0, 1), moved.flatten(0, 1),
            solutions.flatten(0, 1), bool(self.minimize),
        )  # fmt: skip
        if self.two_sided:
            solutions, length = _solved(function, noisy - moved_by), 2 * length
        sign = 1.0 if self.minimize else -1.0
        each = sign * (moved - solutions) / length
        variance = each.var(0) / self.samples if self.samples > 1 else None
        return Gradient(each.mean(0), variance)


def _solved(function: Evaluations, costs: Tensor) -> Tensor:
    """Solutions [S, N, *event] for costs of that shape."""
    return function.solutions(costs.flatten(0, 1)).unflatten(0, costs.shape[:2])
