"""Coarse to fine: the size of the masks and the length of edges, by how far the scale has come."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from gendr.mesh import Camera

__all__ = ["Levels", "pixel_at_middle", "progress_of"]

# The shorter side of the smallest masks, which are halved until half would be less.
_LEAST = 96
# By this part of the schedule the masks have their whole size.
_WHOLE = 0.5
# How much longer edges are at first than at the end.
_FIRST_EDGE = 1.5


class Levels:
    """Masks of several sizes, each half as large as the next, and edges that shrink.

    Args:
        masks: [B, H, W].
        edge: The length of edges at the end.
        coarse: Whether there are smaller masks than those given.

    Attributes:
        masks: Those of each level, the smallest first; the last are those given. Smaller ones are
            means over areas.
        sizes: (H, W) of each level.
    """

    def __init__(self, masks: Tensor, edge: float, *, coarse: bool) -> None:
        self.edge = edge
        self.masks = [masks]
        height, width = masks.shape[1:]
        half = 2
        while coarse and min(height, width) // half >= _LEAST:
            shape = (round(height / half), round(width / half))
            self.masks.insert(0, F.interpolate(masks[:, None], shape, mode="area")[:, 0])
            half *= 2
        self.sizes = [(m.shape[1], m.shape[2]) for m in self.masks]

    def at(self, progress: float) -> int:
        """The number of the level at a part in [0, 1] of the schedule."""
        last = len(self.masks) - 1
        return min(last, int(progress / _WHOLE * last + 1e-9))

    def edge_at(self, progress: float) -> float:
        """The length of edges at a part in [0, 1] of the schedule."""
        return self.edge * _FIRST_EDGE ** (1 - progress)


def pixel_at_middle(camera: Camera, size: tuple[int, int]) -> float:
    """The size of a pixel of images (H, W) at the origin, the median over cameras."""
    depth = torch.ones_like(camera.focal[:, 0])
    if not camera.orthographic:
        depth = camera.translation[:, 2].abs()
    return float((2 / min(size) * depth / camera.focal.mean(-1)).median())


def progress_of(scale: float, first: float, last: float) -> float:
    """How far a scale is on its geometric way from first to last, in [0, 1]; 1 without a way."""
    if first == last:
        return 1.0
    return min(max(math.log(scale / first) / math.log(last / first), 0.0), 1.0)
