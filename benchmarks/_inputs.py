"""What scripts draw: soft triangles, a ball, a floor.

Of torch alone: `steps.py` has it beside the package of any commit.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

DEEP, COVERED = 20, 0.35  # pairs of a pixel that shows any, and the part of those


def scene(count: int, side: int) -> list[Tensor]:
    """Corners [1, N, 3, 3], colours [1, N, 3], opacities and scales [1, N]."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    # A triangle of circumradius R pixels covers, with its rim, about 2 R² of them.
    radius = math.sqrt(DEEP * COVERED * side**2 / count / 2)
    disc, turn = (COVERED * 4 / math.pi * random(count)).sqrt(), 2 * math.pi * random(count)
    centre = torch.stack([disc * turn.cos(), disc * turn.sin()], -1)
    angles = 2 * math.pi * (random(count, 1) + torch.arange(3) / 3 + 0.15 * random(count, 3))
    around = torch.stack([angles.cos(), angles.sin()], -1) * radius * 2 / side
    depth = 3 + random(count, 1) + 2 * radius / side * random(count, 3)
    corners = torch.cat([centre[:, None] + around, depth[..., None]], -1)
    opacity = 0.3 + 0.2 * random(count)
    scale = radius / side * (0.3 + 0.4 * random(count))
    return [x[None].requires_grad_() for x in (corners, random(count, 3), opacity, scale)]


def ball(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Positions [1, V, 4], colours [1, V, 3] and about `count` triangles [T, 3]."""
    rows = round(math.sqrt(count / 4))
    polar = torch.linspace(0, math.pi, rows + 1)[:, None]
    turn = torch.arange(2 * rows) * (math.pi / rows)
    radius = 0.9 + 0.1 * torch.sin(5 * polar) * torch.cos(4 * turn)
    points = radius[..., None] * torch.stack(
        torch.broadcast_tensors(polar.sin() * turn.cos(), polar.cos(), polar.sin() * turn.sin()), -1
    )
    index = torch.arange((rows + 1) * 2 * rows).view(rows + 1, 2 * rows)
    beside = index.roll(-1, 1)
    a, b, c, d = (x.reshape(-1) for x in (index[:-1], beside[:-1], index[1:], beside[1:]))
    tri = torch.cat([torch.stack([a, b, c], -1), torch.stack([b, d, c], -1)]).int()
    x, y, z = points.reshape(-1, 3).unbind(-1)
    w = 3 + z
    pos = torch.stack([2.6 * x, 2.6 * y, 2 + 1.5 * z, w], -1)[None]
    return pos, torch.randn(1, len(x), 3, generator=torch.Generator().manual_seed(0)), tri


def floor(size: int) -> tuple[Tensor, Tensor]:
    """Coordinates [1, size, size, 2] of a plane in perspective, and their derivatives."""
    y, x = torch.meshgrid(*[torch.arange(size) / size] * 2, indexing="ij")
    w = 1 + 3 * y
    uv = torch.stack([1.3 * (x - 0.5) * w, y * w], -1)
    uv_da = torch.stack([1.3 * w, 3.9 * (x - 0.5), torch.zeros_like(w), 1 + 6 * y], -1) / size
    return uv[None].contiguous(), uv_da[None].contiguous()
