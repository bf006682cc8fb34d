"""Perturbed optimisers: the expected solution of an optimisation problem with noise on its costs.

Source: Berthet et al., Learning with Differentiable Perturbed Optimizers, 2020; thesis, 2.1.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from gendr._runtime.evaluations import Evaluations
from gendr.distributions.registry import DistributionLike
from gendr.relaxed.estimators.base import Estimator, Gradient
from gendr.relaxed.estimators.smoothing import Smoothing


@final
@dataclass(frozen=True)
class PerturbedOptimizer(Estimator):
    """The mean solution under noise on the costs, and its Jacobian: `Smoothing` as published.

    Nothing is subtracted from the solutions. If the wanted solution is known, `FenchelYoungLoss`
    has much less noise.

    Args:
        samples: of the noise, for each input.
        scale: of the noise, in units of the costs.
        dist: its law, on the whole line.
    """

    name: ClassVar[str] = "perturbed"

    samples: int = 10
    scale: float = 1.0
    dist: DistributionLike = "gaussian"

    def __post_init__(self) -> None:
        self._smoothing()

    def _smoothing(self) -> Smoothing:
        return Smoothing(self.samples, self.scale, self.dist, control="none")

    def forward(
        self, function: Evaluations, x: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Any]:
        """See `Estimator`."""
        return self._smoothing().forward(function, x, generator)

    def backward(self, function: Evaluations, x: Tensor, kept: Any, grad: Tensor) -> Gradient:
        """See `Estimator`."""
        return self._smoothing().backward(function, x, kept, grad)
