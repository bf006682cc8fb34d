"""Triangles for tests of renderers: at random, touching and degenerate; texels of faces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gendr import Mesh


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


def around_the_eye(
    scenes: int, faces: int, seed: int, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    """Scenes in which the eye is among the faces, on them, or beside them: the hardest to project.

    By turns of a scene, the eye lies anywhere, on all faces, at a corner or on an edge of each of
    them, nearly in their planes, or the faces are slivers. Sizes go from 1e-3 to 1e6, the same for
    all scenes of an even seed; corners of every fifth scene have sizes of their own, and every
    third camera is moved.

    Returns:
        Corners [scenes, faces, 3, 3], with the eye at 0; translations [scenes, 3] of cameras, most
        of them 0; and fields of view [scenes], degrees.
    """
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    anywhere, part = normal(scenes, faces, 3, 3), uniform(scenes, faces, 1)
    weights = uniform(scenes, faces, 3, 1)
    weights = weights / weights.sum(2, keepdim=True)
    a, b, _ = anywhere.unbind(2)
    kinds = [
        anywhere,
        anywhere - (weights * anywhere).sum(2, keepdim=True),
        anywhere - a.unsqueeze(2),
        anywhere - (part * a + (1 - part) * b).unsqueeze(2),
        anywhere * torch.tensor([1.0, 1.0, 1e-6], dtype=torch.float64),
        torch.stack([a, b, a + 1e-7 * anywhere[:, :, 2]], 2),
    ]
    number = torch.arange(scenes)
    corners = torch.stack(kinds)[number % len(kinds), number]
    corners = corners * torch.where(
        (number % 5 == 0)[:, None, None, None], 10 ** (6 * uniform(scenes, faces, 3, 1) - 3), 1.0
    )
    size = 10 ** (9 * uniform(scenes, 1, 1, 1) - 3)
    size = size[:1] if seed % 2 == 0 else size
    moved = normal(scenes, 3) * 10 ** (6 * uniform(scenes, 1) - 3) * (number % 3 == 0)[:, None]
    return (
        (corners * size).clamp(-1e6, 1e6).to(dtype),
        moved.to(dtype),
        (1 + 150 * uniform(scenes)).to(dtype),
    )


def texels_at(mesh: Mesh, weights: Sequence[float] = (1 / 3, 1 / 3, 1 / 3)) -> Tensor:
    """The nearest texel [F, 3] to the middle of each face, or to other barycentric weights."""
    assert mesh.corner_uvs is not None
    assert mesh.texture is not None
    uv = (mesh.corner_uvs * torch.tensor(weights, dtype=mesh.dtype)[:, None]).sum(1) % 1
    height, width = mesh.texture.shape[:2]
    return mesh.texture[((1 - uv[:, 1]) % 1 * height).long(), (uv[:, 0] * width).long()]
