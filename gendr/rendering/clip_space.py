"""The family for clip-space positions: `gendr.primitives.soft`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gendr._common.checks import check_float, check_integer, check_shape
from gendr._common.words import worded
from gendr.primitives.scene import check_pos, check_tri
from gendr.rendering.api import Dist, Scale, parse_image_size, silhouette

if TYPE_CHECKING:
    from gendr.tnorms import TConorm

__all__ = ["soft"]


@worded()
def soft(
    pos: Tensor,
    tri: Tensor,
    resolution: Sequence[int],
    dist: Dist = "uniform",
    tconorm: str | TConorm = "probabilistic",
    scale: Scale = "1px",
    *,
    ranges: Tensor | None = None,
    cutoff: float = 1e-6,
    backend: str = "auto",
) -> Tensor:
    """The alpha of a renderer of the family, in the conventions of `gendr.primitives`.

    In place of `antialias` of a mask it gives every triangle near a pixel a gradient:

        rast, _ = dr.rasterize(ctx, pos, tri, resolution)
        mask = dr.antialias((rast[..., 3:] > 0).float(), rast, pos, tri)     # one antialiasing
        mask = dr.soft(pos, tri, resolution, "logistic", scale="1.5px")      # one of 1242

    Faces with a corner at w <= 0 are left out: soft triangles are those on the screen. There are
    no near and far planes.

    Args:
        pos: clip-space positions, [N, V, 4], or [V, 4] with `ranges`; float32 or float64.
        tri: [T, 3], int32.
        resolution: (height, width), pixels.
        dist: a distribution, its name, or a CDF.
        tconorm: a T-conorm or its name.
        scale: > 0, text such as "1.5px", or a number or one per image in units in which the shorter
            image side is 2 long (their square for squared distributions); may be learnt.
        ranges: [N, 2], int32: the first triangle of each image and how many there are.
        cutoff: coverage at or below it counts as 0.
        backend: "auto", "cpu", "triton" or "reference".

    Returns:
        [N, H, W, 1] in [0, 1], rows from the bottom.

    Raises:
        TypeError: for what is no tensor or has the wrong dtype.
        ValueError: for wrong shapes, unknown names, parameters out of range, NaN or inf.
    """
    pos = check_pos(check_float("pos", pos))
    size = parse_image_size(resolution)
    index = check_tri(tri, pos.shape[-2], pos).long()
    if pos.ndim == 2:
        if ranges is None:
            raise ValueError("pos of shape [V, 4] needs ranges [N, 2]; for one image use pos[None]")
        check_shape("ranges", check_integer("ranges", ranges), "[N, 2]")
        parts = [
            soft(pos[None], tri[first : first + count], resolution, dist, tconorm, scale,
                 cutoff=cutoff, backend=backend)
            for first, count in ranges.tolist()
        ]  # fmt: skip
        return torch.cat(parts) if parts else pos.new_zeros(0, size.height, size.width, 1)
    w = pos[..., 3:]
    ahead = w > 0
    stretch = pos.new_tensor([size.width / size.side, size.height / size.side])
    xy = torch.where(ahead, pos[..., :2], 0.0) / torch.where(ahead, w, 1.0) * stretch
    points = torch.cat([xy, torch.where(ahead, w, -1.0).detach()], -1)
    alpha = silhouette(
        points[:, index], resolution, dist, tconorm, scale, cutoff, backend, check=False
    )
    return alpha.flip(-2)[..., None]
