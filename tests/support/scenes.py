"""Triangles on the screen for tests of renderers: at random, touching, and degenerate."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["degenerate", "soup", "touching"]


def soup(
    images: int, faces: int, seed: int, dtype: torch.dtype = torch.float64, size: float = 0.5
) -> Tensor:
    """Random overlapping triangles in general position: [B, F, 3, 3], NDC and depth in [1, 2]."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    centre = uniform(images, faces, 1, 2) * 1.6 - 0.8
    corners = centre + (uniform(images, faces, 3, 2) * 2 - 1) * size
    return torch.cat([corners, 1 + uniform(images, faces, 3, 1)], -1).to(dtype)


def touching(seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """A fan of four triangles that share edges and a corner, none of them on a pixel centre."""
    generator = torch.Generator().manual_seed(seed)
    jitter = torch.rand(5, 3, generator=generator, dtype=torch.float64) * 0.2
    rim = torch.tensor([[0, 0], [0.7, 0.1], [0, 0.8], [-0.75, 0], [0.1, -0.7]], dtype=torch.float64)
    points = torch.cat([rim + jitter[:, :2], 1 + jitter[:, 2:]], -1)
    fan = torch.tensor([[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 1, 4]])
    return points[fan][None].to(dtype)


def degenerate(dtype: torch.dtype = torch.float64) -> Tensor:
    """Nine faces, [1, 9, 3, 3], most of which are hard to render.

    Two are the same one; others are seen edge-on, have no area, lie behind the camera, on its plane
    or outside the image. Corners and edges meet the pixel centres of an image of 5 x 5.
    """
    triangle = [[-0.3, -0.2, 2], [0.5, -0.1, 2], [0.1, 0.6, 2]]
    faces = [
        triangle,
        triangle,
        [[-0.5, 0.2, 2], [0.5, 0.2, 2], [0.0, 0.2, 3]],  # edge-on
        [[0.4, 0.4, 2]] * 3,  # a point, on a pixel centre
        [[0.0, 0.0, 2], [0.4, 0.4, 2], [0.4, 0.4, 2]],  # two corners in one, on pixel centres
        [[0.1, 0.1, -1], [0.5, 0.1, 2], [0.1, 0.5, 2]],  # behind
        [[0.1, 0.1, 0], [0.5, 0.1, 2], [0.1, 0.5, 2]],  # on the camera plane
        [[9.0, 9.0, 2], [9.5, 9.0, 2], [9.0, 9.5, 2]],  # outside the image
        [[-0.8, -0.8, 2], [0.8, -0.8, 2], [-0.8, 0.8, 2]],  # edges through pixel centres
    ]
    return torch.tensor([faces], dtype=dtype)
