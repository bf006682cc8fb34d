"""Stages 2 and 3, coverage and aggregation: what one renderer of the family is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gendr.tnorms.groups import Grouping

if TYPE_CHECKING:
    from gendr.distributions import Distribution
    from gendr.tnorms import TConorm


@dataclass(frozen=True)
class Model:
    """One renderer of the family, its arguments checked.

    Attributes:
        dist: the distribution of the perturbed distance.
        tconorm: how the faces of a pixel are joined.
        scale: [B] > 0, NDC (NDC^2 for squared distributions).
        cutoff: coverage at or below it counts as 0; part of the model, not of a backend.
    """

    dist: Distribution
    tconorm: TConorm
    scale: Tensor
    cutoff: float

    @property
    def has_own_cdf(self) -> bool:
        """Whether the CDF is a callable of the user's own, which only torch can evaluate."""
        from gendr.distributions import CallableDistribution

        return isinstance(self.dist.law, CallableDistribution)

    def radius(self) -> Tensor:
        """[B] distance in NDC beyond which a face cannot cover a pixel; inf if there is none."""
        return self.dist.radius(self.scale.detach(), self.cutoff)

    def coverage(self, distance: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """A = F(d / scale) and 1 - a, with the cutoff applied; (5.1)."""
        a, s = self.dist.coverage(distance, scale)
        kept = a > self.cutoff
        return torch.where(kept, a, 0.0), torch.where(kept, s, 1.0)

    def aggregate(self, a: Tensor, s: Tensor, pixels: Grouping) -> Tensor:
        """Alpha of every pixel; (5.4)."""
        return self.tconorm.aggregate(a, s, pixels)[0]
