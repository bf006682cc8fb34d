"""Fragments: the (pixel, face) pairs that matter, with distance, barycentric weights and depth.

They end stage 1. This file knows nothing of distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gendr._common.ranges import quotient
from gendr._common.tracing import is_transformed
from gendr.rendering.backends.formulas import has_area


class PixelPairs(NamedTuple):
    """Some of the (pixel, face) pairs of a batch: all those of a run of pixels.

    Attributes:
        pixels: [K] int64, numbered through all images of the batch, row by row.
        faces: [K] int64, packed indices.
        first: the first pixel of the run.
        last: one past its last pixel.
    """

    pixels: Tensor
    faces: Tensor
    first: int
    last: int


def runs_of(counts: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """Cut rows of pixels into runs, first and last + 1, with about `limit` pairs or a single row.

    Args:
        counts: pairs of every row of the batch.
        limit: of pairs.
    """
    first = total = 0
    for row, count in enumerate(counts):
        if row > first and total + count > limit:
            yield first, row
            first, total = row, 0
        total += count
    if counts:
        yield first, len(counts)


def recomputed(
    function: Callable[[Callable[[], PixelPairs]], Any], runs: list[Callable[[], PixelPairs]]
) -> list[Any]:
    """Call function(run) for every run; if there are several, backward computes each of them again.

    So the memory is that of one run, not of all pairs; `torch.func` knows no such thing.
    """
    if len(runs) <= 1 or not torch.is_grad_enabled() or is_transformed():
        return [function(run) for run in runs]
    return [
        checkpoint(function, run, use_reentrant=False, preserve_rng_state=False) for run in runs
    ]


def signed_distance(points: Tensor, corners: Tensor) -> Tensor:
    """Signed Euclidean distance of points to convex polygons, positive inside.

    It is the distance to the edges as segments, not as lines. Only the nearest edge counts. If the
    foot of the perpendicular lies within that edge, the distance is cross product / length, which
    is smooth through 0 and has the edge normal as gradient; otherwise it is the distance to the
    corner. A polygon without area has d <= 0 everywhere.

    Args:
        points: [..., 2].
        corners: [..., N, 2], either orientation; broadcasts against the points.

    Returns:
        [...] in the units of the input. Twice differentiable.

    Source: thesis §5.2.1; the argument of F in (5.1).
    """
    following = torch.roll(corners, -1, -2)
    with torch.no_grad():
        edge = following - corners
        to_point = points.unsqueeze(-2) - corners
        squares = _safe_square(edge)
        t = ((to_point * edge).sum(-1) / squares).clamp(0, 1)
        gap = to_point - t.unsqueeze(-1) * edge
        nearest = (gap * gap).sum(-1).argmin(-1, keepdim=True)
        area = _cross(corners[..., 1:-1, :] - corners[..., :1, :],
                      corners[..., 2:, :] - corners[..., :1, :]).sum(-1)  # fmt: skip
        orientation = torch.where(area < 0, -1.0, 1.0).to(corners.dtype)
        sides = _cross(edge, to_point) * orientation.unsqueeze(-1)
        inside = (sides >= 0).all(-1) & (area != 0)
        index = nearest.unsqueeze(-1).expand(*nearest.shape, 2)

    def pick(values: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(values.shape[:-2], index.shape[:-2])
        values = values.expand(*shape, *values.shape[-2:])
        return values.gather(-2, index.expand(*shape, 1, 2)).squeeze(-2)

    start, end = pick(corners), pick(following)
    with torch.no_grad():
        # Use the same direction for both faces that share an edge: equal distances, so they tie.
        smaller = (end[..., 0] < start[..., 0]) | (
            (end[..., 0] == start[..., 0]) & (end[..., 1] < start[..., 1])
        )
        flip = smaller.unsqueeze(-1)
        orientation = torch.where(smaller, -orientation, orientation)
    start, end = torch.where(flip, end, start), torch.where(flip, start, end)
    edge, to_point = end - start, points - start
    square = _safe_square(edge)
    t = (to_point * edge).sum(-1) / square
    gap = points - torch.where((t < 0.5).unsqueeze(-1), start, end)
    gap_square = (gap * gap).sum(-1)
    at_corner = ((t <= 0) | (t >= 1)) & (gap_square > 0)

    height = _cross(edge, to_point) / square.sqrt() * orientation
    along_edge = torch.where((height >= 0) == inside, height, -height)
    to_corner = torch.where(at_corner, gap_square, 1.0).sqrt()
    # A point whose nearest feature is a corner is outside: the polygon is convex.
    return torch.where(at_corner, -to_corner, along_edge)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _safe_square(edge: Tensor) -> Tensor:
    """|edge|^2; inf where it underflows, so that points are nearest to a corner of such an edge."""
    square = (edge * edge).sum(-1)
    return torch.where(square > torch.finfo(edge.dtype).tiny, square, torch.inf)


def interpolation_weights(
    points: Tensor, corners: Tensor, clip: Tensor, depth: Tensor, was_clipped: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Perspective-correct weights of a face's corners at points of the screen, and the depth.

    The barycentric coordinates on the screen are each clamped to [0, 1] and divided by their sum,
    then corrected for perspective; they are thirds if the face has no area. If the near plane cut a
    face, a corner is behind it and has no position on the screen; then the homogeneous coordinates
    are clamped instead.

    Args:
        points: [K, 2] NDC.
        corners: [K, N, 2] NDC; the first three are used.
        clip: [K, 3, 3] homogeneous corners (x w, y w, w); w is 1 for orthographic cameras.
        depth: [K, 3].
        was_clipped: [K] bool, or None if no face was clipped.

    Returns:
        Weights [K, 3] that sum to 1, depth [K].
    """
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    parts = torch.stack(
        [_cross(c - b, points - b), _cross(a - c, points - c), _cross(b - a, points - a)], -1
    )
    # Not the sum of the parts, which rounding makes other than 0 where two corners coincide.
    area = _cross(b - a, c - a)
    flat = ~has_area(area, *a.unbind(-1), *b.unbind(-1), *c.unbind(-1)).unsqueeze(-1)
    area = area.unsqueeze(-1)
    screen = torch.where(flat, 1 / 3, quotient(parts, torch.where(flat, 1.0, area)))
    w = clip[..., 2]
    if was_clipped is not None:  # then 1 / w may overflow, which nobody needs
        w = torch.where(was_clipped.unsqueeze(-1), 1.0, w)
    weights = quotient(_normalised(screen), _safe_positive(w))
    if was_clipped is not None:
        ray = torch.cat([points, torch.ones_like(points[:, :1])], -1)
        sides = torch.stack(
            [torch.linalg.cross(clip[:, (i + 1) % 3], clip[:, (i + 2) % 3]) for i in range(3)], 1
        )
        space = (sides * ray.unsqueeze(1)).sum(-1)
        edges = clip[:, 1:] - clip[:, :1]
        volume = (torch.linalg.cross(edges[:, 0], edges[:, 1]) * clip[:, 0]).sum(-1, keepdim=True)
        space = torch.where(volume < 0, -space, space)
        total = space.sum(-1, keepdim=True)  # <= 0 only beyond the horizon of the face's plane
        # As `has_area` on the screen; sizes are relative to those of homogeneous corners.
        size = clip.abs().sum(-1).amax(-1, keepdim=True)
        solid = volume.abs() > edges.abs().sum((1, 2))[:, None] * size * size * 1e-6
        cut = _normalised(quotient(space, torch.where(total > 0, total, 1.0)))
        cut = torch.where(solid, cut, 1 / 3)
        weights = torch.where(was_clipped.unsqueeze(-1), cut, weights)
    weights = quotient(weights, weights.sum(-1, keepdim=True))
    return weights, (weights * depth).sum(-1)


def _normalised(weights: Tensor) -> Tensor:
    """Clamp to [0, 1] and divide by the sum; thirds where nothing is left."""
    weights = weights.clamp(0, 1)
    total = weights.sum(-1, keepdim=True)
    return torch.where(total > 0, quotient(weights, torch.where(total > 0, total, 1.0)), 1 / 3)


def _safe_positive(w: Tensor) -> Tensor:
    """w, with 1 for corners on or behind the camera plane (whose faces were clipped)."""
    return torch.where(w > 0, w, 1.0)
