"""The contract of an estimator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from gendr._common.evaluations import Evaluations


class Gradient(NamedTuple):
    """A gradient, and if it was estimated from samples the variance of every number in it."""

    value: Tensor
    variance: Tensor | None = None


@dataclass(frozen=True)
class Estimator(ABC):
    """How a gradient is estimated: a frozen dataclass of its settings.

    Inputs are stacks x [N, *event]; the function's results are [N, *out].

    Args:
        minimize: whether the function is a solver that minimises <x, w>. Methods that sample the
            function itself do not need it, and take it so that they can stand for one another.
    """

    name: ClassVar[str]

    minimize: bool | None = field(default=None, kw_only=True)

    @property
    def solves(self) -> bool:
        """Whether the function is a solver, whose results have the shape of its inputs."""
        return self.minimize is not None

    @abstractmethod
    def forward(
        self, function: Evaluations, x: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Any]:
        """The result [N, *out], and whatever `backward` needs."""

    @abstractmethod
    def backward(self, function: Evaluations, x: Tensor, saved: Any, grad: Tensor) -> Gradient:
        """The gradient [N, *event] of x, from that of the result."""
