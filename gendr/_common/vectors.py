"""Directions and lengths of vectors, with gradients that are finite everywhere."""

from __future__ import annotations

import torch
from torch import Tensor


def unit(v: Tensor) -> Tensor:
    """Direction v / |v| along the last dimension; 0 with gradient 0 where v = 0.

    Neither over- nor underflows: the direction does not depend on the scale, so the largest
    component may be divided out as a constant.
    """
    size = v.detach().abs().amax(-1, keepdim=True)
    v = v / torch.where(size > 0, size, 1)
    square = (v * v).sum(-1, keepdim=True)
    return v * torch.where(square > 0, square, 1).rsqrt()


def length(v: Tensor) -> Tensor:
    """|v| along the last dimension, with gradient 0 where v = 0; neither over- nor underflows."""
    return (v * unit(v)).sum(-1)
