"""Triangles of shapes with one topology, seen by many cameras at once, for `gendr.silhouette`."""

from __future__ import annotations

import torch
from torch import Tensor

from gendr.mesh import Camera
from gendr.rendering.api import silhouette
from gendr.rendering.backends.choice import choose

__all__ = ["face_vertices", "hard_silhouette"]


def face_vertices(vertices: Tensor, faces: Tensor, camera: Camera) -> Tensor:
    """Project the triangles of B shapes with one topology by B cameras, differentiably.

    Args:
        vertices: [B, V, 3] or [1, V, 3], world.
        faces: [F, 3] int64.
        camera: B cameras.

    Returns:
        [B, F, 3, 3], x and y in NDC and the depth, for `gendr.silhouette`. The backward pass always
        sums in the same order.
    """
    xy, depth = camera.project(vertices)
    points = torch.cat([xy, depth[..., None]], -1)
    images, count = points.shape[:2]
    first = count * torch.arange(images, device=faces.device)
    index = (faces.reshape(-1) + first[:, None]).reshape(-1)
    corners = choose("auto", points).gather(points.reshape(-1, 3), index)
    return corners.reshape(images, len(faces), 3, 3)


def hard_silhouette(triangles: Tensor, image_size: int | tuple[int, int]) -> Tensor:
    """Masks [B, H, W], 0 or 1, of `face_vertices` [B, F, 3, 3]; no gradient."""
    return silhouette(triangles.detach(), image_size, "heaviside", "max", scale=1.0)
