"""Implicit maximum likelihood whose step finds its own length.

Source: Minervini, Franceschi and Niepert, Adaptive Perturbation-Based Gradient Estimation, 2023.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from gendr._common.checks import check_number
from gendr._common.evaluations import Evaluations
from gendr._common.words import worded
from gendr.relaxed.estimators.base import Gradient
from gendr.relaxed.estimators.implicit_mle import ImplicitMLE


@worded()
@final
@dataclass(frozen=True)
class AdaptiveImplicitMLE(ImplicitMLE):
    """`ImplicitMLE` that finds its step: the least that moves solutions in most steps.

    step = a |x| / |dL/dg| over a batch. After each, a grows by `rate` if in the mean over the
    last batches fewer than `target` numbers of the gradient of an input are not 0, else it falls.
    One estimator serves one function: what it has learnt is in `state`.

    Args:
        start: a of the first batch, > 0.
        rate: how fast a changes, > 0.
        target: numbers of a gradient that are not 0, for each input, > 0.
        samples, scale, dist, two_sided, minimize: as in `ImplicitMLE`.
    """

    name: ClassVar[str] = "adaptive_implicit_mle"

    step: float = field(default=1.0, init=False, repr=False)
    start: float = 1.0
    rate: float = 1e-3
    target: float = 1.0
    state: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("start", "rate", "target"):
            check_number(name, getattr(self, name), above=0)
        # The published code begins as if the gradients so far had 1 number each.
        self.state.update(adapted=float(self.start), moved=1.0)

    def backward(self, function: Evaluations, x: Tensor, saved: Any, grad: Tensor) -> Gradient:
        """See `Estimator`."""
        adapted, length = self.state["adapted"], float(grad.norm())
        reach = adapted * float(x.norm()) / length if length > 0 else 0.0
        if reach == 0.0:  # nothing to go along
            return Gradient(torch.zeros_like(x))
        found = self._along(function, saved, grad, reach)
        numbers = float((found.value != 0).sum()) / len(x)
        self.state["moved"] = 0.9 * self.state["moved"] + 0.1 * numbers
        step = self.rate if self.state["moved"] <= self.target else -self.rate
        self.state["adapted"] = max(adapted + step, self.rate)
        return found
