"""Perturbed optimisers: the expected solution of an optimisation problem with noise on its costs.

Source: Berthet et al., Learning with Differentiable Perturbed Optimizers, 2020; thesis, 2.1.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, final

from gendr._common.words import worded
from gendr.distributions.registry import DistributionLike
from gendr.relaxed.estimators.smoothing import Control, Smoothing


@worded()
@final
@dataclass(frozen=True)
class PerturbedOptimizer(Smoothing):
    """The mean solution under noise on the costs, and its Jacobian: `Smoothing` as published.

    Nothing is subtracted from the solutions. If the wanted solution is known, `FenchelYoungLoss`
    has much less noise.

    Args:
        samples: of the noise, for each input.
        scale: of the noise, in units of the costs.
        dist: its distribution, on the whole line.
    """

    name: ClassVar[str] = "perturbed"

    samples: int = 10
    scale: float = 1.0
    dist: DistributionLike = "gaussian"
    control: Control = field(default="none", init=False, repr=False)
    antithetic: bool = field(default=False, init=False, repr=False)
    result: Literal["mean", "hard"] = field(default="mean", init=False, repr=False)

    @property
    def solves(self) -> bool:
        """See `Estimator`."""
        return True
