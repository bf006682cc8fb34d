"""Where silhouettes are, and how pixels blend there: the definition of `antialias`.

See `gendr.primitives.antialias` for the mathematics.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gendr._common.tracing import is_traced
from gendr.primitives.scene import Scene

__all__ = ["MEETING", "STEPS", "Borders", "blended", "crossed", "densely", "linked"]

STEPS = 256  # triangles that are walked through between two pixels, at most
MEETING = 8  # triangles at one edge that are looked at, beside the own one


@dataclass(frozen=True, eq=False)
class Borders:
    """What is antialiased.

    Attributes:
        scene: the triangles.
        uses: of `TopologyHash`; None while PyTorch traces.
        boost: a factor of the gradients of positions.
        steps: triangles whose edges are looked at between two pixels, at most.
    """

    scene: Scene
    uses: Tensor | None
    boost: float
    steps: int = STEPS


def linked(tri: Tensor) -> Tensor:
    """The definition of `TopologyHash.uses`, by a sort."""
    ends = torch.stack([tri[:, [1, 2]], tri[:, [2, 0]], tri[:, [0, 1]]], 1).reshape(-1, 2).long()
    low, high = ends.amin(-1), ends.amax(-1)
    keys = low * (int(high.max()) + 1 if len(high) else 1) + high
    keys = torch.where(low == high, -1 - torch.arange(len(keys), device=keys.device), keys)
    order = torch.argsort(keys, stable=True)
    _, group, counts = torch.unique_consecutive(
        keys[order], return_inverse=True, return_counts=True
    )
    start = (torch.cumsum(counts, 0) - counts)[group]
    place = torch.arange(len(keys), device=keys.device) - start
    uses = torch.empty_like(keys)
    uses[order] = order[start + (place + 1) % counts[group]]
    return uses.int()


def crossed(borders: Borders, rast: Tensor, pos: Tensor) -> Tensor:
    """The silhouettes between pixels [2, N, H, W], int32, in plain torch: the definition.

    Of the pair of a pixel and the next in its row (0), or the one above (1), it is h + 1 if the
    half-edge h is a silhouette between their centres, 0 if there is none.
    """
    scene, points = borders.scene, pos.detach().reshape(-1, 4).double()
    uses = linked(scene.tri) if borders.uses is None else borders.uses
    uses, tri = uses.long(), scene.tri.long()
    images = torch.arange(scene.images, device=rast.device)
    base = (images * (0 if scene.shared else scene.vertices))[:, None, None]
    x, y = scene.samples(points)
    ids, depth = rast[..., 3].detach().round().long() - 1, rast[..., 2].detach()
    depth = torch.where(ids >= 0, depth, torch.inf)
    codes = []
    for axis in (0, 1):

        def other(values: Tensor, axis: int = axis) -> Tensor:
            return torch.roll(values, -1, 2 - axis)

        front = depth <= other(depth)  # whether the surface is that of the pixel itself
        here, there = torch.where(front, ids, other(ids)), torch.where(front, other(ids), ids)
        active = (here != there) & (here >= 0)
        if axis == 0:
            active = active & (torch.arange(scene.width, device=ids.device) < scene.width - 1)
        else:
            rows = torch.arange(scene.height, device=ids.device)[:, None]
            active = active & (rows < scene.height - 1)
        xs, ys = torch.broadcast_tensors(x, y[:, None])
        at = torch.stack([xs, ys], -1)[None]
        unit = at.new_tensor((2 / scene.width, 0.0) if axis == 0 else (0.0, 2 / scene.height))
        step = torch.where(front[..., None], unit, -unit)
        begin = torch.where(front[..., None], at, at - step)
        along, side = axis, 1 - axis  # the coordinate along the line, and that which is constant
        triangle = here.clamp(min=0)
        corners = points[tri[triangle] + base[..., None]]  # [N, H, W, 3, 4]

        def off(p: Tensor, side: int = side, begin: Tensor = begin) -> Tensor:
            return p[..., side] - begin[..., side].unsqueeze(-1) * p[..., 3]

        def place(p: Tensor, q: Tensor, a: Tensor, b: Tensor, along: int = along,
                  begin: Tensor = begin, step: Tensor = step) -> Tensor:  # fmt: skip
            """Where the line crosses an edge, in steps; -inf behind the camera."""
            w = a * q[..., 3] - b * p[..., 3]
            ahead = (a - b) * w > 0
            z = (a * q[..., along] - b * p[..., along]) / torch.where(ahead, w, 1.0)
            found = (z - begin[..., along]) * (1 / step[..., along])
            return torch.where(ahead, found, -torch.inf)

        apart = off(corners)
        sides = apart >= 0
        count = sides.sum(-1)
        active = active & (count > 0) & (count < 3)
        # The corner alone on its side, and the two others.
        alone = torch.where((count == 1)[..., None], sides, ~sides).int().argmax(-1)
        m, n = (alone + 1) % 3, (alone + 2) % 3

        def pick(values: Tensor, k: Tensor) -> Tensor:
            index = k[..., None]
            if values.ndim > index.ndim:
                index = index[..., None].expand(*index.shape, values.shape[-1])
            return values.gather(k.ndim, index).squeeze(k.ndim)

        a, da = pick(corners, alone), pick(apart, alone)
        tm = place(a, pick(corners, m), da, pick(apart, m))
        tn = place(a, pick(corners, n), da, pick(apart, n))
        far = tm > tn
        second, third = torch.where(far, m, n), torch.where(far, n, m)
        b, db = pick(corners, second), pick(apart, second)
        va, vb = pick(tri[triangle], alone), pick(tri[triangle], second)
        t = torch.maximum(tm, tn)
        half = 3 * triangle + third
        code = torch.zeros_like(here)
        for _ in range(min(borders.steps, len(tri))):
            active = active & (t >= 0) & (t <= 1)
            if not is_traced() and not bool(active.any()):
                break
            line = _cross(a, b)
            inner = -line[..., along] * step[..., along]  # its sign is that of this side
            use, next_half = uses[half], half
            through = torch.zeros_like(active)
            for _ in range(MEETING):
                o = points[tri.reshape(-1)[use] + base]
                good = ~through & (use != half) & (inner * _side(line, o) < 0)
                next_half, through = torch.where(good, use, next_half), through | good
                use = torch.where(use == half, half, uses[use])
            code = torch.where(active & ~through, half + 1, code)
            triangle = next_half // 3
            active = active & through & (triangle != there)
            o = points[tri.reshape(-1)[next_half] + base]
            vo, do = tri.reshape(-1)[next_half], off(o[..., None, :]).squeeze(-1)
            as_a = (do >= 0) == (da >= 0)
            gone = torch.where(as_a, va, vb)
            a, b = torch.where(as_a[..., None], o, a), torch.where(as_a[..., None], b, o)
            da, db = torch.where(as_a, do, da), torch.where(as_a, db, do)
            va, vb = torch.where(as_a, vo, va), torch.where(as_a, vb, vo)
            half = 3 * triangle + (tri[triangle] == gone[..., None]).int().argmax(-1)
            t = place(a, b, da, db)
        # The edge must be closer to upright, or to level, and cross between the centres.
        edge = points[_ends(tri, code.clamp(min=1) - 1) + base[..., None]]
        line = _cross(edge[..., 0, :], edge[..., 1, :])
        upright = line[..., 0].abs() / scene.width >= line[..., 1].abs() / scene.height
        codes.append(torch.where(upright == (axis == 0), code, 0))
    return torch.stack(codes).int()


def _cross(a: Tensor, b: Tensor) -> Tensor:
    """The line [..., 3] through corners [..., 4], as a product of their (x, y, w)."""
    return torch.linalg.cross(a[..., [0, 1, 3]], b[..., [0, 1, 3]])


def _side(line: Tensor, p: Tensor) -> Tensor:
    return (line * p[..., [0, 1, 3]]).sum(-1)


def _ends(tri: Tensor, half: Tensor) -> Tensor:
    """The two vertices [..., 2] of half-edges, as rows of an image."""
    rows, k = tri[half // 3].long(), (half % 3)[..., None]
    return torch.cat([rows.gather(-1, (k + 1) % 3), rows.gather(-1, (k + 2) % 3)], -1)


def blended(borders: Borders, color: Tensor, pos: Tensor, pairs: Tensor, codes: Tensor) -> Tensor:
    """The result from the silhouettes, with gradients.

    Args:
        borders: what is antialiased.
        color: [N, H, W, C].
        pos: [..., V, 4].
        pairs: [K, 2], int64: the number of the first pixel in the batch, and 0 for the next one in
            the row, 1 for the one above.
        codes: [K], as those of `crossed`.
    """
    scene, boost = borders.scene, borders.boost
    pos = pos + (boost - 1) * (pos - pos.detach()) if boost != 1 else pos
    flat = color.reshape(-1, color.shape[-1])
    first, axis = pairs.unbind(-1)
    number = scene.images * scene.height * scene.width
    second = (first + torch.where(axis == 0, 1, scene.width)).clamp(max=number - 1)
    image = first // (scene.height * scene.width)
    base = image * (0 if scene.shared else scene.vertices)
    half = codes.long().clamp(min=1) - 1
    # In float64, as `crossed` decides: near a pixel's centre e and f are differences of products
    # that are nearly equal, and in float32 t would be anything.
    pos = pos.double()
    points = pos.reshape(-1, 4)[_ends(scene.tri, half) + base[:, None]]  # [K, 2, 4]
    line = _cross(points[:, 0], points[:, 1])
    x, y = scene.samples(pos)

    def sample(pixel: Tensor) -> Tensor:
        j, i = pixel % scene.width, pixel // scene.width % scene.height
        return torch.stack([x[j], y[i], torch.ones_like(x[j])], -1)

    e, f = (line * sample(first)).sum(-1), (line * sample(second)).sum(-1)
    real = (codes != 0) & (e != f)
    t = torch.where(real, e, 0.0) / torch.where(real, e - f, 1.0)  # from the first pixel
    real = real & (t >= 0) & (t <= 1)
    # Whichever is nearer: from t on there is what the second pixel sees, before it what the first.
    weight = torch.where(real, t - 0.5, 0.0).to(color.dtype)
    target = torch.where(weight > 0, second, first)
    change = weight[:, None] * (flat[first] - flat[second])
    return flat.index_add(0, target, change).reshape(color.shape)


def _all_pairs(scene: Scene, device: torch.device) -> Tensor:
    """Every pair [2 N H W, 2] of `blended`, in the order of `crossed`."""
    number = scene.images * scene.height * scene.width
    pixel = torch.arange(number, device=device)
    return torch.cat([torch.stack([pixel, torch.full_like(pixel, k)], -1) for k in (0, 1)])


def densely(borders: Borders, color: Tensor, pos: Tensor, codes: Tensor) -> Tensor:
    """`blended` of codes [2, N, H, W] for every pair."""
    return blended(borders, color, pos, _all_pairs(borders.scene, color.device), codes.reshape(-1))
