"""Which triangles are seen, and where on them: the definition of `rasterize`.

See `gendr.primitives.rasterize` for the mathematics.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gendr.primitives.scene import Scene

__all__ = ["nearest", "shaded"]


def nearest(scene: Scene, pos: Tensor) -> tuple[Tensor, Tensor]:
    """The ids [N, H, W] int32 of the triangles that are seen, -1 for none, and depths in float64.

    The definition: every triangle at every sample.
    """
    points = pos.detach().double()
    x = torch.arange(scene.width, device=pos.device).double() * 2 + 1 - scene.width
    y = torch.arange(scene.height, device=pos.device).double() * 2 + 1 - scene.height
    x, y = x[None, None, :], y[None, :, None]
    size = points.new_tensor([scene.height, scene.width, scene.height * scene.width])
    first, _, offsets = scene.tables
    rows: list[Tensor] = []
    for n in range(scene.images):
        count = int(offsets[n + 1] - offsets[n])
        tri = scene.tri[int(first[n]) : int(first[n]) + count].long()
        corners = list((points if scene.shared else points[n])[tri].unbind(1))
        for i, j in ((0, 1), (1, 2), (0, 1)):  # in one order, so that equal faces have equal depths
            swap = _later(corners[i], corners[j])[:, None]
            corners[i], corners[j] = (
                torch.where(swap, corners[j], corners[i]),
                torch.where(swap, corners[i], corners[j]),
            )
        a, b, c = corners
        edges = torch.stack([_cross(b, c), _cross(c, a), _cross(a, b)], 1)
        terms = a[:, [0, 1, 3]] * edges[:, 0]
        det = (terms[:, 0] + terms[:, 1]) + terms[:, 2]
        (b0, b1, _, b3), (c0, c1, _, c3) = b.unbind(-1), c.unbind(-1)
        pairs = ((b1 * c3, b3 * c1), (b3 * c0, b0 * c3), (b0 * c1, b1 * c0))
        sums = torch.stack([p.abs() + q.abs() for p, q in pairs], -1)
        rounding = 8 * torch.finfo(torch.float64).eps * (a[:, [0, 1, 3]].abs() * sums).sum(-1)
        solid = det.abs() > rounding
        planes = edges * torch.where(det > 0, 1.0, -1.0)[:, None, None] * size
        z = torch.stack([a[:, 2], b[:, 2], c[:, 2]], 1)
        depth = (planes * z[..., None]).sum(1) / (det.abs() * size[2])[:, None]
        d = depth[:, 0, None, None] * x + (depth[:, 1, None, None] * y + depth[:, 2, None, None])
        inside = solid[:, None, None] & (d >= -1) & (d <= 1)
        for plane in planes.unbind(1):
            p, q, r = (v[:, None, None] for v in plane.unbind(-1))
            e = p * x + (q * y + r)
            inside &= (e > 0) | ((e == 0) & ((p > 0) | ((p == 0) & (q < 0))))
        peeled = scene.peeled
        if peeled is not None and peeled.depths is not None and peeled.ids is not None:
            before, ids = peeled.depths[n], peeled.ids[n]
            number = torch.arange(count, device=pos.device)[:, None, None] + int(first[n])
            inside &= (d > before) | ((d == before) & (number > ids))
        d = torch.where(inside, d, torch.inf)
        d = torch.cat([d, torch.full_like(d[:1] if count else x * y, torch.inf)])
        least, index = d.min(0)
        index = (d == least).int().argmax(0)  # the first of equals
        rows.append(torch.stack([torch.where(torch.isfinite(least), index + int(first[n]), -1.0),
                                 least]))  # fmt: skip
    if not rows:
        empty = points.new_zeros(0, scene.height, scene.width)
        return empty.int(), empty
    found = torch.stack(rows)
    return found[:, 0].int(), found[:, 1]


def _later(a: Tensor, b: Tensor) -> Tensor:
    """Whether corners [T, 4] come after others, by x, y, w and z."""
    later = a[:, 2] > b[:, 2]
    for k in (3, 1, 0):
        later = (a[:, k] > b[:, k]) | ((a[:, k] == b[:, k]) & later)
    return later


def _cross(a: Tensor, b: Tensor) -> Tensor:
    """The cross products of the (x, y, w) of corners [..., 4]."""
    (ax, ay, _, aw), (bx, by, _, bw) = a.unbind(-1), b.unbind(-1)
    return torch.stack([ay * bw - aw * by, aw * bx - ax * bw, ax * by - ay * bx], -1)


def shaded(scene: Scene, pos: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Both results of `rasterize` from the triangles that are seen [N, H, W], with gradients."""
    seen = (ids >= 0)[..., None]
    points = pos.reshape(-1, 4)
    if not len(points):
        points = pos.new_zeros(1, 4)
    at = points[scene.corners(ids)]
    # Where nothing is seen stands a triangle that has all derivatives.
    plain = at.new_tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    a, b, c = torch.where(seen[..., None], at, plain).unbind(-2)
    edges = torch.stack([_cross(b, c), _cross(c, a), _cross(a, b)], -2)  # [N, H, W, 3, 3]
    x, y = scene.samples(pos)
    sample = torch.stack(torch.broadcast_tensors(x, y[:, None], torch.ones_like(x)), -1)
    e = (edges * sample[..., None, :]).sum(-1)
    total = e.sum(-1, keepdim=True)
    bary = e / total
    det = (a[..., [0, 1, 3]] * edges[..., 0, :]).sum(-1)
    z = torch.stack([a[..., 2], b[..., 2], c[..., 2]], -1)
    depth = (e * z).sum(-1) / det
    step = pos.new_tensor([2 / scene.width, 2 / scene.height])
    rise = edges[..., :2] * step  # of e for a pixel
    slope = (rise - bary[..., None] * rise.sum(-2, keepdim=True)) / total[..., None]
    number = ids.to(pos.dtype) + 1
    rast = torch.cat([bary[..., :2], depth[..., None], number[..., None]], -1)
    return torch.where(seen, rast, 0.0), torch.where(seen, slope[..., :2, :].flatten(-2), 0.0)
