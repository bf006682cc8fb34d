"""Random points on surfaces."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gendr._common.vectors import gathered
from gendr.kernels.through_cpu import with_doubles
from gendr.mesh.topology import offsets


@with_doubles
def sample_points(
    corners: Tensor,
    areas: Tensor,
    counts: Sequence[int],
    count: int,
    generator: torch.Generator | None,
) -> Tensor:
    """Points spread evenly over each of B surfaces: [B, count, 3].

    Args:
        corners: [ΣF, 3, 3] (face, corner, xyz), the faces of the surfaces one after the other.
        areas: [ΣF].
        counts: Faces per surface.
        count: Points per surface.
        generator: The source of random numbers; torch's default generator if None.

    Raises:
        ValueError: for a surface without area.
    """
    device = corners.device
    where = generator.device if generator is not None else device
    random = torch.empty(len(counts), count, 3, dtype=torch.float64, device=where)
    random = random.uniform_(generator=generator).to(device)
    picked: list[Tensor] = []
    # On the CPU: a GPU adds up in blocks, whose order differs from run to run.
    parts = areas.detach().double().cpu().split(list(counts))
    for i, (start, part) in enumerate(zip(offsets(counts), parts, strict=True)):
        total = part.cumsum(0)
        if len(total) == 0 or not bool(total[-1] > 0):
            raise ValueError(f"mesh {i} has no area to sample points from")
        # right=True never picks a face without area; the clamp guards against rounding at the end.
        drawn = random[i, :, 0] * float(total[-1])
        face = torch.searchsorted(total.to(device), drawn, right=True)
        picked.append(start + face.clamp(max=int(part.nonzero()[-1])))
    root = random[..., 1].sqrt()
    weights = torch.stack((1 - root, root * (1 - random[..., 2]), root * random[..., 2]), -1)
    chosen = gathered(corners, torch.cat(picked))
    points = (weights.reshape(-1, 3, 1).to(corners.dtype) * chosen).sum(1)
    return points.reshape(len(counts), count, 3)
