"""Stage 2, coverage: a = F(d / scale). This file knows nothing of pixels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gendr._common.tracing import once

if TYPE_CHECKING:
    from gendr.distributions import Distribution


@dataclass(frozen=True, eq=False)
class Coverage:
    """How a signed distance to a face becomes a coverage in [0, 1].

    Attributes:
        dist: the distribution of the perturbed distance.
        scale: [B] > 0, NDC (NDC^2 for squared distributions).
        cutoff: coverage at or below it counts as 0. It is part of the definition of the renderer:
            all backends give the same result.
        number: the scale, if it is one number for all images and not a tensor.
        double: whether the CPU computes in float64, whatever the dtype of the faces.
        plans: what backends have decided for it.
    """

    dist: Distribution
    scale: Tensor
    cutoff: float
    number: float | None = None
    double: bool = False
    plans: dict[Any, Any] = field(default_factory=dict, repr=False)

    @once
    def has_own_cdf(self) -> bool:
        """Whether the CDF is a Python function of the user's, which only torch can evaluate."""
        from gendr.distributions import CallableDistribution

        return isinstance(self.dist.base, CallableDistribution)

    def radius(self) -> Tensor:
        """[B] distance in NDC beyond which a face cannot cover a pixel; inf if there is none."""
        return self.dist.radius(self.scale.detach(), self.cutoff, check=False)

    def of(self, distance: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The coverages a = F(d / scale), and 1 - a, with the cutoff applied; equation (5.1)."""
        a, s = self.dist.coverage(distance, scale)
        kept = a > self.cutoff
        return torch.where(kept, a, 0.0), torch.where(kept, s, 1.0)
