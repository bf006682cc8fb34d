"""The silhouette of triangles, as a relaxed program over pixels and faces.

    for every pixel:
        image = 0
        for every triangle:
            if inside(pixel, triangle):
                image = 1                          # image = p or image, a T-conorm

"Inside" is asked in two ways. "distance": is the signed Euclidean distance d to the triangle
positive, p = F(d beta)? "edges": three nested ifs, is the pixel on the inner side of each edge,
p = F(e_1 beta) F(e_2 beta) F(e_3 beta), with e_k the signed distance to the line of edge k?

The first is what `gendr.silhouette` computes, much faster, with cutoff=0; the second is Pix2Vex.

Source: thesis, section 2.5; Petersen et al., Pix2Vex, 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gendr._common.checks import (
    check_choice,
    check_finite,
    check_float,
    check_image_size,
    shape_text,
)
from gendr._common.tracing import in_single, is_transformed
from gendr._common.words import worded
from gendr.distributions import Distribution, as_distribution
from gendr.distributions.decisions import Number, check_steepness, scale_of
from gendr.distributions.registry import DistributionLike
from gendr.kernels.through_cpu import with_doubles
from gendr.tnorms import TConorm, as_tconorm

Method: TypeAlias = Literal["distance", "edges"]
METHODS = ("distance", "edges")
_PAIRS = 1 << 19  # pixels x faces that are worked on together; more are computed again backward


@with_doubles
@worded()
@in_single
def silhouette(
    face_vertices: Tensor,
    image_size: int | Sequence[int],
    *,
    method: Method = "distance",
    dist: DistributionLike = "logistic",
    steepness: Number = 100.0,
    tconorm: str | TConorm = "probabilistic",
    check: bool = True,
) -> Tensor:
    """The relaxed silhouette of triangles on the screen; plain torch on every device.

    Args:
        face_vertices: [..., F, 3, 2 or 3], NDC x, y (and a depth, which is not used): the shorter
            image side spans [-1, 1], y up. Both orientations count; a triangle without area covers
            nothing ("edges") or has d <= 0 ("distance").
        image_size: pixels, or (height, width).
        method: how a pixel is found to be inside, see above.
        dist: the distribution of the comparisons.
        steepness: 1 / scale of the distribution, in 1 / NDC (1 / NDC^2 for squared distributions);
            a number, or a tensor of one, through which gradients flow.
        tconorm: joins the triangles of a pixel.
        check: look for NaN and inf.

    Returns:
        [..., H, W] in [0, 1], row 0 at the top.

    Raises:
        TypeError: no float32 or float64 tensor, or settings of the wrong type.
        ValueError: a bad shape, NaN or inf, or an unknown method.
    """
    corners = check_float("face_vertices", face_vertices)
    if corners.ndim < 3 or corners.shape[-2] != 3 or corners.shape[-1] not in (2, 3):
        raise ValueError(
            "face_vertices must have shape [..., F, 3, 2] or [..., F, 3, 3], "
            f"got {shape_text(corners.shape)}"
        )
    if check:
        check_finite("face_vertices", corners)
    check_choice("method", method, METHODS)
    distribution, steepness = as_distribution(dist), check_steepness(steepness)
    join = as_tconorm(tconorm)
    height, width = check_image_size(image_size)
    batch, faces = corners.shape[:-3], corners.shape[-3]
    if not faces:
        return corners.sum() * 0 + corners.new_zeros(*batch, height, width)
    points = _centres(height, width, corners)
    inside = _by_distance if method == "distance" else _by_edges

    def shade(points: Tensor, corners: Tensor) -> Tensor:  # [P] for [P, 2] and [F, 3, 2]
        return join.reduce(inside(points[:, None], corners, distribution, scale_of(steepness)), -1)

    runs = points.split(max(1, _PAIRS // faces))
    kept = len(runs) == 1 or is_transformed()  # which know no memory that is made again
    images = [
        shade(run, image) if kept else checkpoint(shade, run, image, use_reentrant=False)
        for image in corners[..., :2].reshape(-1, faces, 3, 2)
        for run in runs
    ]
    flat = torch.cat(images) if images else corners.new_zeros(0)  # pyright: ignore[reportArgumentType]
    return flat.reshape(*batch, height, width)


def _by_distance(points: Tensor, corners: Tensor, dist: Distribution, scale: Number) -> Tensor:
    heights, along, area = _sides(points, corners)
    following = corners.roll(-1, -2)
    gap = points[..., None, :] - torch.where((along < 0.5)[..., None], corners, following)
    square = gap.square().sum(-1)
    beside = ((along <= 0) | (along >= 1)) & (square > 0)
    to_corner = torch.where(beside, square, 1.0).sqrt()
    to_edge = torch.where(beside, to_corner, heights.abs()).amin(-1)
    within = (heights >= 0).all(-1) & (area != 0)
    return dist(torch.where(within, heights.amin(-1), -to_edge), scale)


def _by_edges(points: Tensor, corners: Tensor, dist: Distribution, scale: Number) -> Tensor:
    heights, _, area = _sides(points, corners)
    return torch.where(area != 0, dist(heights, scale).prod(-1), 0.0)


def _sides(points: Tensor, corners: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where points [P, 1, 2] lie with respect to the sides of triangles [F, 3, 2].

    For each edge the signed distance to the line, positive inside, [P, F, 3]; how far along the
    edge the foot of the perpendicular lies, 0 to 1 within it; and twice the area, [F].
    """
    edge = corners.roll(-1, -2) - corners
    to_point = points[..., None, :] - corners
    square = edge.square().sum(-1)
    square = torch.where(square > 0, square, 1.0)
    area = (edge[..., 0, 0] * edge[..., 1, 1] - edge[..., 0, 1] * edge[..., 1, 0]).detach()
    cross = edge[..., 0] * to_point[..., 1] - edge[..., 1] * to_point[..., 0]
    heights = torch.where((area < 0)[..., None], -cross, cross) / square.sqrt()
    along = ((edge * to_point).sum(-1) / square).detach()
    return heights, along, area


def _centres(height: int, width: int, like: Tensor) -> Tensor:
    """NDC [H W, 2] of the centres of the pixels, row by row from the top left."""
    side = min(height, width)
    x = (2 * torch.arange(width, dtype=torch.float64, device=like.device) + 1 - width) / side
    y = (height - 1 - 2 * torch.arange(height, dtype=torch.float64, device=like.device)) / side
    grid = torch.stack(torch.meshgrid(y, x, indexing="ij"), -1).flip(-1)
    return grid.reshape(-1, 2).to(like)
