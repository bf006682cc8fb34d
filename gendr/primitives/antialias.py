"""Antialiasing of silhouettes, through which visibility gets gradients.

Two pixels next to each other that see different triangles may have a silhouette between their
centres: an edge of the nearer surface beyond which it does not go on. From the triangle of the
nearer pixel we walk across the mesh along the line to the other centre, until an edge has no
triangle on its other side, or one that turns back. If the edge is closer to upright than to level
(for pixels above each other: the other way), it is taken as a border across the pixel: with t the
place of the crossing, from 0 at the nearer pixel's centre to 1 at the other's, the surface covers
t - 1/2 of the other pixel if t > 1/2, else it leaves 1/2 - t of its own. The paper looks at the
edges of the nearer triangle only, which misses silhouettes of triangles smaller than pixels.

Source: Laine et al., Modular Primitives for High-Performance Differentiable Rendering (2020), §3.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from gendr._runtime.checks import (
    check_float,
    check_like,
    check_number,
    check_shape,
)
from gendr._runtime.operator import Operator
from gendr._runtime.tracing import is_traced
from gendr.primitives.choice import kernels_for
from gendr.primitives.scene import Scene, check_ids, check_pos, check_rast, check_tri, kept

__all__ = ["antialias", "antialias_construct_topology_hash"]

STEPS = 256  # triangles that are walked through between two pixels, at most
MEETING = 8  # triangles at one edge that are looked at, beside the own one


@final
@dataclass(frozen=True, eq=False)
class TopologyHash:
    """Which triangles share edges; opaque.

    Attributes:
        uses: [3 T] int32. Half-edge 3 t + k is the edge of triangle t opposite its corner k; its
            entry is the next half-edge of the same two vertices, in a circle; itself at a border.
    """

    uses: Tensor


@dataclass(frozen=True, eq=False)
class Borders:
    """What is antialiased.

    Attributes:
        scene: the triangles.
        uses: of `TopologyHash`; None while PyTorch traces.
        boost: a factor of the gradients of positions.
    """

    scene: Scene
    uses: Tensor | None
    boost: float


def antialias_construct_topology_hash(tri: Tensor) -> TopologyHash:
    """What `antialias` finds out about triangles, once.

    `antialias` keeps it with the tensor `tri` anyway; give it where `tri` is made anew every time.

    Args:
        tri: [T, 3], int32.

    Raises:
        TypeError: for what holds no integers.
        ValueError: for other shapes and negative indices.
    """
    checked = check_tri(tri, 2**31, tri)
    return TopologyHash(kept(tri, "uses", lambda _: _uses(checked)))


def antialias(
    color: Tensor,
    rast: Tensor,
    pos: Tensor,
    tri: Tensor,
    topology_hash: TopologyHash | None = None,
    pos_gradient_boost: float = 1.0,
) -> Tensor:
    """Blend the pixels at silhouettes by the part that each side covers.

    Differentiable in color and pos, also twice. What a loss says about colours on both sides of a
    silhouette becomes a gradient of the two vertices of its edge.

    Args:
        color: [N, H, W, C]; float32 or float64.
        rast: [N, H, W, 4] of `rasterize`; gets no gradient.
        pos: [N, V, 4] or [V, 4], as it was given to `rasterize`.
        tri: [T, 3], as it was given to `rasterize`. Vertices are the same where their numbers are:
            a mesh cut along the seams of its texture coordinates has silhouettes there.
        topology_hash: of `antialias_construct_topology_hash`; None finds and keeps it.
        pos_gradient_boost: a factor of the gradients of pos.

    Returns:
        [N, H, W, C].

    Raises:
        TypeError: for what is no tensor or has the wrong dtype.
        ValueError: for wrong shapes, NaN or inf in pos, indices out of range.
    """
    color = check_float("color", color)
    check_shape("color", color, "[N, H, W, C]")
    rast = check_rast(rast, "color", color)
    sizes = dict(zip("NHW", rast.shape, strict=False))
    check_shape("color", color, "[N, H, W, C]", **sizes)
    pos = check_pos(check_like("pos", check_float("pos", pos), "color", color))
    if pos.ndim == 3:
        check_shape("pos", pos, "[N, V, 4]", N=len(rast))
    checked = check_tri(tri, pos.shape[-2], pos)
    check_ids(rast, len(checked))
    boost = check_number("pos_gradient_boost", pos_gradient_boost)
    if topology_hash is not None:
        if not isinstance(topology_hash, TopologyHash):
            raise TypeError(
                "topology_hash must come from antialias_construct_topology_hash, got "
                f"{type(topology_hash).__name__}"
            )
        if len(topology_hash.uses) != 3 * len(checked):
            raise ValueError(
                f"topology_hash must be that of tri with {len(checked)} triangles, got one of "
                f"{len(topology_hash.uses) // 3}"
            )
        uses = topology_hash.uses
    elif is_traced():
        uses = None
    else:
        uses = kept(tri, "uses", lambda _: _uses(checked))
    images, height, width = rast.shape[:3]
    scene = Scene(checked, images, height, width, pos.shape[-2], None, pos.ndim == 2)
    if not color.shape[-1] or not len(checked):
        return color + 0 * pos.sum() if not color.shape[-1] else color.clone()
    return ANTIALIAS(kernels_for("antialias", color), Borders(scene, uses, boost), color, rast, pos)


def _uses(tri: Tensor) -> Tensor:
    kernels = kernels_for("topology", tri)
    return linked(tri) if kernels is None else kernels.linked(tri)


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
        step = torch.where(front[..., None], 1.0, -1.0) * at.new_tensor(
            [2 / scene.width, 0.0] if axis == 0 else [0.0, 2 / scene.height]
        )
        begin = torch.where(front[..., None], at, at - step)
        along, side = axis, 1 - axis  # the coordinate along the line, and that which is constant
        triangle = here.clamp(min=0)
        corners = points[tri[triangle] + base[..., None]]  # [N, H, W, 3, 4]

        def off(p: Tensor, side: int = side, begin: Tensor = begin) -> Tensor:
            return p[..., side] - begin[..., side].unsqueeze(-1) * p[..., 3]

        def place(p: Tensor, q: Tensor, a: Tensor, b: Tensor, along: int = along,
                  begin: Tensor = begin, step: Tensor = step) -> Tensor:  # fmt: skip
            """Where the line crosses an edge, in steps; -inf behind the camera."""
            part = torch.where(a != b, a - b, 1.0)
            w = (a * q[..., 3] - b * p[..., 3]) / part
            z = (a * q[..., along] - b * p[..., along]) / part
            found = (z / torch.where(w > 0, w, 1.0) - begin[..., along]) / step[..., along]
            return torch.where((w > 0) & (a != b), found, -torch.inf)

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
        for _ in range(min(STEPS, len(tri))):
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
    weight = torch.where(real, t - 0.5, 0.0)
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


def _reference(borders: Borders, color: Tensor, rast: Tensor, pos: Tensor) -> Tensor:
    return densely(borders, color, pos, crossed(borders, rast, pos))


def _replay(
    borders: Borders, saved: tuple[Tensor, Tensor], color: Tensor, rast: Tensor, pos: Tensor
) -> Tensor:
    return blended(borders, color, pos, *saved)


ANTIALIAS = Operator("primitives.antialias", reference=_reference, replay=_replay)
