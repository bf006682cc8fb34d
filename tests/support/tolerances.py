"""How far a backend may be from the reference, and how the distance of gradients is measured."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tolerance:
    """How far a backend may be from the reference.

    Attributes:
        alpha: largest absolute difference of alpha.
        steep_alpha: the same for distributions whose pdf is infinite at 0 (gamma with shape < 1).
        gradient: relative L2 of gradients.
    """

    alpha: float
    steep_alpha: float
    gradient: float


# One table for all backends; continuous integration uses the same.
TOLERANCES = {
    torch.float32: Tolerance(alpha=1e-5, steep_alpha=1e-4, gradient=1e-3),
    torch.float64: Tolerance(alpha=1e-10, steep_alpha=1e-10, gradient=1e-8),
}


def relative_l2(got: Tensor, want: Tensor) -> float:
    """|got - want| / |want| in float64; 0 if both are 0."""
    got, want = got.detach().double(), want.detach().double()
    difference, size = (got - want).norm().item(), want.norm().item()
    return difference / size if size > 0 else float(difference > 0)
