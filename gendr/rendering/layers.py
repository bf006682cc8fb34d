"""Faces as they are joined in order, and the definition of that in plain torch.

See `ordered.py` for the mathematics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from operator import getitem
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gendr._common.tracing import is_transformed
from gendr.rendering.fragments import signed_distance
from gendr.rendering.geometry import ImageSize, ScreenFaces
from gendr.tnorms.groups import Along

if TYPE_CHECKING:
    from gendr.distributions import Distribution
    from gendr.tnorms import TConorm


@dataclass(frozen=True, eq=False)
class Layered:
    """The faces of a batch as they are joined in order.

    Attributes:
        faces: on the screen.
        dist: the distribution; a shape of its own may be a tensor [T].
        tconorm: joins the faces of a pixel.
        cutoff: F at or below it counts as 0.
        bound: faces behind others that leave less than this of a pixel may be left out; >= 0.
        colours: [T, C].
        opacity: [T] in [0, 1].
        scale: [T] > 0, NDC (NDC^2 for squared distributions).
        planes: [T, 3] float64, the keys p x + q y + r, which grow towards the camera.
        limits: [T, 2] float64, the least and the greatest key of a face; keys are clamped to them.
        sorts: whether the keys of a face may differ from pixel to pixel.
        double: whether the CPU computes in float64, whatever the dtype of the faces.
    """

    faces: ScreenFaces
    dist: Distribution
    tconorm: TConorm
    cutoff: float
    bound: float
    colours: Tensor
    opacity: Tensor
    scale: Tensor
    planes: Tensor
    limits: Tensor
    sorts: bool = True
    double: bool = False

    def covered(
        self, d: Tensor, index: Tensor, gather: Callable[[Tensor, Tensor], Tensor] = getitem
    ) -> tuple[Tensor, Tensor]:
        """The coverages o F(d / scale) of pairs, and 1 less them, with the cutoff applied.

        Args:
            d: signed distances [..., K].
            index: [K], of the faces.
            gather: (values [T], index) -> values of the pairs.
        """
        shape = self.dist.shape_parameter
        if isinstance(shape, Tensor) and shape.ndim:
            dist = self.dist.with_shape(gather(shape, index))
        else:
            dist = self.dist
        a, s = dist.coverage(d, gather(self.scale, index))
        seen, opacity = a > self.cutoff, gather(self.opacity, index)
        return (
            torch.where(seen, opacity * a, 0.0),
            torch.where(seen, (1 - opacity) + opacity * s, 1.0),
        )

    def keys(self, points: Tensor, index: Tensor) -> Tensor:
        """The keys, which grow towards the camera, of faces [K] at points [..., 2] in float64."""
        p, q, r = self.planes[index].unbind(-1)
        low, high = self.limits[index].unbind(-1)
        key = p * points[..., 0] + q * points[..., 1] + r
        return torch.minimum(torch.maximum(key, low), high)

    @property
    def enough(self) -> float:
        """The sum of generators (of maximum and products: A) beyond which `bound` is not left."""
        if self.tconorm.kind == "mean" or self.bound <= 0:
            return math.inf
        if self.tconorm.kind == "max" or self.tconorm.is_product:
            return 1 - self.bound
        left = torch.tensor(self.bound, dtype=torch.float64, device="cpu")
        return float(self.tconorm.generator(1 - left, left))  # pyright: ignore[reportAttributeAccessIssue]  # it has one


def depth_keys(corners: Tensor, depth: Tensor, sort: str) -> tuple[Tensor, Tensor]:
    """Planes [T, 3] and limits [T, 2] of 1/z, which is affine on the screen; see `Layered`.

    Args:
        corners: [T, 3, 2] NDC.
        depth: [T, 3].
        sort: "pixel", or "centroid", for which the key of a face is the same everywhere.
    """
    corners, keys = corners.double(), 1 / depth.double()
    if sort == "centroid":
        middle = 1 / depth.double().mean(-1, keepdim=True)
        zero = torch.zeros_like(middle)
        return torch.cat([zero, zero, middle], -1), torch.cat([middle, middle], -1)
    a, u, v = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    du, dv = keys[:, 1] - keys[:, 0], keys[:, 2] - keys[:, 0]
    area = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
    flat = area.abs() < torch.finfo(torch.float64).tiny
    area = torch.where(flat, 1.0, area)
    p = (du * v[:, 1] - dv * u[:, 1]) / area
    q = (dv * u[:, 0] - du * v[:, 0]) / area
    middle = keys.mean(-1)
    r = keys[:, 0] - p * a[:, 0] - q * a[:, 1]
    wrong = flat | ~torch.isfinite(p + q + r)
    planes = torch.stack([torch.where(wrong, 0.0, p), torch.where(wrong, 0.0, q),
                          torch.where(wrong, middle, r)], -1)  # fmt: skip
    return planes, torch.stack([keys.amin(-1), keys.amax(-1)], -1)


def joined(tconorm: TConorm, a: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """The weights [P, K] of members in order, and the whole A [P].

    Args:
        tconorm: joins them one by one.
        a: [P, K], in [0, 1].
        s: [P, K], 1 - a.
    """
    count = a.shape[-1]
    if tconorm.kind == "mean" or not count:
        shares = a / max(count, 1)
        return shares, shares.sum(-1)
    total, rest = torch.zeros_like(a[..., 0]), torch.ones_like(a[..., 0])
    weights: list[Tensor] = []
    for k in range(count):
        before, rest_before = total, rest
        pair = torch.stack([total, a[..., k]], -1), torch.stack([rest, s[..., k]], -1)
        if tconorm.kind == "max":  # of equals the nearer one counts
            nearer = total >= a[..., k]
            total = torch.where(nearer, total, a[..., k])
            rest = torch.where(nearer, rest, s[..., k])
        else:
            total, rest = tconorm.aggregate(*pair, Along(-1))
        weights.append(torch.where(total > 0.5, rest_before - rest, total - before))
    return torch.stack(weights, -1), total


def ordered_densely(
    layered: Layered, size: ImageSize, limit: int | None = None
) -> tuple[Tensor, Tensor]:
    """The definition: colours [B H W, C] and alpha [B H W], in plain torch, for every pair.

    Args:
        layered: the faces.
        size: of the images.
        limit: of the pairs that are in memory at a time: so many are joined at once, and again in
            the backward pass. None for those of an image, which are kept.
    """
    faces = layered.faces
    device = faces.corners.device

    def part(index: Tensor, first: int, last: int) -> tuple[Tensor, Tensor]:
        points = size.centres(torch.arange(first, last, device=device), torch.float64)
        d = signed_distance(points.to(faces.corners)[:, None], faces.corners[index])
        a, s = layered.covered(d, index)
        key = layered.keys(points[:, None], index)
        order = torch.argsort(key, dim=-1, descending=True, stable=True)
        weights, alpha = joined(layered.tconorm, a.gather(-1, order), s.gather(-1, order))
        return (weights.unsqueeze(-1) * layered.colours[index][order]).sum(-2), alpha

    parts = [(layered.colours[:0] * 1, layered.scale[:0] * 1)]  # what no images are made of
    for first, last in pairwise(faces.offsets):
        index = torch.arange(first, last, device=device)
        if faces.present is not None:
            index = index[faces.present[first:last]]
        step = size.pixels if limit is None else max(1, limit // max(1, len(index)))
        for start in range(0, size.pixels, step):
            run = partial(part, index, start, min(start + step, size.pixels))
            kept = limit is None or not torch.is_grad_enabled() or is_transformed()
            parts.append(
                run() if kept else checkpoint(run, use_reentrant=False, preserve_rng_state=False)
            )
    return torch.cat([c for c, _ in parts]), torch.cat([a for _, a in parts])
