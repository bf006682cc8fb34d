"""Which triangles are seen, and where on them: the definition of `rasterize`.

See `gendr.primitives.rasterize` for the mathematics.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gendr.primitives.scene import Scene

__all__ = ["depths_of", "first_of", "nearest", "planes_of", "shaded"]


def planes_of(corners: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """The planes (p, q, r) of triangles at samples (x, y) = (2 j + 1 - W, 2 i + 1 - H).

    Args:
        corners: [T, 3, 4], float64.
        height: of the image, in pixels.
        width: of the image, in pixels.

    Returns:
        Of the three edge functions, [T, 3, 3]: p x + (q y + r) is positive inside. Where a triangle
        has no area they are negative everywhere. Of the depth z/w, [T, 3].
    """
    points = list(corners.unbind(1))
    for i, j in ((0, 1), (1, 2), (0, 1)):  # in one order, so that equal faces have equal depths
        swap = _later(points[i], points[j])[:, None]
        points[i], points[j] = (
            torch.where(swap, points[j], points[i]),
            torch.where(swap, points[i], points[j]),
        )
    a, b, c = points
    size = corners.new_tensor([height, width, height * width])
    edges = torch.stack([_cross(b, c), _cross(c, a), _cross(a, b)], 1)
    terms = a[:, [0, 1, 3]] * edges[:, 0]
    det = (terms[:, 0] + terms[:, 1]) + terms[:, 2]
    (b0, b1, _, b3), (c0, c1, _, c3) = b.unbind(-1), c.unbind(-1)
    pairs = ((b1 * c3, b3 * c1), (b3 * c0, b0 * c3), (b0 * c1, b1 * c0))
    sums = torch.stack([p.abs() + q.abs() for p, q in pairs], -1)
    rounding = 8 * torch.finfo(torch.float64).eps * (a[:, [0, 1, 3]].abs() * sums).sum(-1)
    solid = (det.abs() > rounding)[:, None]
    edges = torch.where((det > 0)[:, None, None], edges, -edges) * size
    z = torch.stack([a[:, 2], b[:, 2], c[:, 2]], 1)
    depth = (edges * z[..., None]).sum(1) / torch.where(solid, (det.abs() * size[2])[:, None], 1.0)
    none = corners.new_tensor([0.0, 0.0, -1.0])
    return torch.where(solid[..., None], edges, none), torch.where(solid, depth, 2 * none)


def depths_of(corners: Tensor, height: int, width: int) -> Tensor:
    """The depths z/w [T, H, W] of triangles [T, 3, 4] at all samples, inf where they are not seen.

    Of what they hide of each other nothing is known here.
    """
    x = torch.arange(width, device=corners.device).double() * 2 + 1 - width
    y = torch.arange(height, device=corners.device).double() * 2 + 1 - height
    edges, depth = planes_of(corners.detach().double(), height, width)

    def at(plane: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        p, q, r = (v[:, None, None] for v in plane.unbind(-1))
        return p * x + (q * y[:, None] + r), p, q

    d, _, _ = at(depth)
    inside = (d >= -1) & (d <= 1)
    for plane in edges.unbind(1):
        e, p, q = at(plane)
        inside &= (e > 0) | ((e == 0) & ((p > 0) | ((p == 0) & (q < 0))))
    return torch.where(inside, d, torch.inf)


def first_of(depths: Tensor) -> tuple[Tensor, Tensor]:
    """The first of the nearest of [T, H, W], int64 [H, W], -1 for none, and its depth."""
    depths = torch.cat([depths, torch.full_like(depths[:1], torch.inf)]) if len(depths) else (
        depths.new_full((1, *depths.shape[1:]), torch.inf)
    )  # fmt: skip
    least = depths.amin(0)
    index = (depths == least).int().argmax(0)
    return torch.where(torch.isfinite(least), index, -1), least


def nearest(scene: Scene, pos: Tensor) -> tuple[Tensor, Tensor]:
    """The ids [N, H, W] int32 of the triangles that are seen, -1 for none, and depths in float64.

    The definition: every triangle at every sample.
    """
    first, _, offsets = scene.tables
    ids, depths = [], []
    for n in range(scene.images):
        start, count = int(first[n]), int(offsets[n + 1] - offsets[n])
        tri = scene.tri[start : start + count].long()
        d = depths_of((pos if scene.shared else pos[n])[tri], scene.height, scene.width)
        peeled = scene.peeled
        if peeled is not None and peeled.depths is not None and peeled.ids is not None:
            before, last = peeled.depths[n], peeled.ids[n]
            number = torch.arange(count, device=pos.device)[:, None, None] + start
            d = torch.where((d > before) | ((d == before) & (number > last)), d, torch.inf)
        index, least = first_of(d)
        ids.append(torch.where(index >= 0, index + start, -1).int())
        depths.append(least)
    if not ids:
        empty = pos.new_zeros(0, scene.height, scene.width)
        return empty.int(), empty.double()
    return torch.stack(ids), torch.stack(depths)


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
    """Both results of `rasterize` from the triangles that are seen [N, H, W], with gradients.

    In float64, as in the kernels: products of three coordinates overflow in float32.
    """
    seen = (ids >= 0)[..., None]
    points = pos.reshape(-1, 4)
    if not len(points):
        points = torch.cat([points, points.new_zeros(1, 4)])
    at = points[scene.corners(ids)].double()
    # Where nothing is seen stands a triangle that has all derivatives.
    plain = at.new_tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    a, b, c = torch.where(seen[..., None], at, plain).unbind(-2)
    edges = torch.stack([_cross(b, c), _cross(c, a), _cross(a, b)], -2)  # [N, H, W, 3, 3]
    x, y = scene.samples(at)
    sample = torch.stack(torch.broadcast_tensors(x, y[:, None], torch.ones_like(x)), -1)
    e = (edges * sample[..., None, :]).sum(-1)
    total = e.sum(-1, keepdim=True)
    bary = e / total
    det = (a[..., [0, 1, 3]] * edges[..., 0, :]).sum(-1)
    z = torch.stack([a[..., 2], b[..., 2], c[..., 2]], -1)
    depth = (e * z).sum(-1) / det
    step = at.new_tensor([2 / scene.width, 2 / scene.height])
    rise = edges[..., :2] * step  # of e for a pixel
    slope = (rise - bary[..., None] * rise.sum(-2, keepdim=True)) / total[..., None]
    number = ids.to(at.dtype) + 1
    rast = torch.cat([bary[..., :2], depth[..., None], number[..., None]], -1)
    derivatives = torch.where(seen, slope[..., :2, :].flatten(-2), 0.0)
    rast = torch.where(seen, rast, 0.0).to(pos.dtype)
    return rast, derivatives[..., : 4 * scene.sloped].to(pos.dtype)
