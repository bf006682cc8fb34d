"""Time ordered joining of soft triangles, forward + backward, against plain PyTorch.

    python benchmarks/ordered.py                              # everything, printed
    python benchmarks/ordered.py --cases 400 --repeat 9       # some
    python benchmarks/ordered.py --out docs/results --docs    # what the documentation shows

Triangles as a training leaves them: about twenty deep, an opacity of 0.4, window uniform, alpha
blending, sorted by the depth at each pixel. Beside it the same by centroids, without gradients, and
a formula in PyTorch, written for this file: pairs of triangles and the pixels of their boxes,
sorted, and joined by sums of logarithms.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from _inputs import scene
from comparison import Case, Comparison, Groups, outcomes
from torch import Tensor

from gendr.rendering.ordered import ordered

# Triangles, and the side of the picture.
SIZES = ((6_000, 100), (20_000, 400), (200_000, 800))


def ours(
    side: int, sort: str, corners: Tensor, colors: Tensor, opacity: Tensor, scale: Tensor,
    backend: str = "auto",
) -> Tensor:  # fmt: skip
    """What is timed."""
    image, alpha = ordered(
        corners, colors, side, "uniform", "probabilistic", scale, opacity=opacity, sort=sort,
        cutoff=0.0, bound=0.0, check=False, backend=backend,
    )  # fmt: skip
    return torch.cat([image, alpha[:, None]], 1)


def formula(side: int, corners: Tensor, colors: Tensor, opacity: Tensor, scale: Tensor) -> Tensor:
    """The same in PyTorch."""
    xy, depth, reach = corners[0, ..., :2], corners[0, ..., 2].detach(), scale[0]
    with torch.no_grad():
        low = (xy.amin(1) - reach[:, None] + 1) * side / 2 - 0.5
        high = (xy.amax(1) + reach[:, None] + 1) * side / 2 - 0.5
        first = low.ceil().clamp(0, side).long()
        extent = (high.floor().long().clamp(-1, side - 1) + 1 - first).clamp(min=0)
        counts = extent.prod(1)
        face = torch.arange(len(xy)).repeat_interleave(counts)
        place = torch.arange(len(face)) - (counts.cumsum(0) - counts)[face]
        column = first[face, 0] + place % extent[face, 0]
        line = first[face, 1] + place // extent[face, 0]  # from the bottom
        near = distances(column, line, side, xy[face]) > -reach[face]
        face, column, line = face[near], column[near], line[near]
        key = keys(column, line, side, xy, depth, face)
        order = key.argsort(descending=True, stable=True)
        pixel = (side - 1 - line) * side + column
        order = order[pixel[order].argsort(stable=True)]
        face, column, line, pixel = face[order], column[order], line[order], pixel[order]
        start = torch.ones(len(pixel), dtype=torch.bool)
        start[1:] = pixel[1:] != pixel[:-1]
        begins = start.nonzero()[:, 0][start.cumsum(0) - 1]
    d = distances(column, line, side, xy[face])
    a = opacity[0, face] * (0.5 + 0.5 * d / reach[face]).clamp(0, 1)
    logs = torch.log1p(-a.double())
    before = logs.cumsum(0) - logs
    weight = (before - before[begins]).exp().to(a) * a
    values = torch.cat([weight[:, None] * colors[0, face], weight[:, None]], 1)
    image = values.new_zeros(side * side, 4).index_add(0, pixel, values)
    return image.T.reshape(1, 4, side, side)


def distances(column: Tensor, line: Tensor, side: int, xy: Tensor) -> Tensor:
    """Signed distances of pixel centres to triangles [K, 3, 2]."""
    point = torch.stack([2 * column + 1 - side, 2 * line + 1 - side], -1) / side
    a, u = xy, xy.roll(-1, 1) - xy
    gap = point[:, None] - a
    t = ((gap * u).sum(-1) / (u * u).sum(-1)).clamp(0, 1)
    away = gap - t[..., None] * u
    least = (away * away).sum(-1).amin(1).sqrt()
    cross = u[..., 0] * gap[..., 1] - u[..., 1] * gap[..., 0]
    inside = (cross > 0).all(1) | (cross < 0).all(1)
    return torch.where(inside, least, -least)


def keys(
    column: Tensor, line: Tensor, side: int, xy: Tensor, depth: Tensor, face: Tensor
) -> Tensor:
    """1/z at pixel centres, on the planes of triangles, between its values at their corners."""
    point = torch.stack([2 * column + 1 - side, 2 * line + 1 - side], -1) / side
    a, u, v = (xy[:, 0].double(), *((xy[:, k] - xy[:, 0]).double() for k in (1, 2)))
    near = 1 / depth.double()
    area = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
    du, dv = near[:, 1] - near[:, 0], near[:, 2] - near[:, 0]
    p, q = (du * v[:, 1] - dv * u[:, 1]) / area, (dv * u[:, 0] - du * v[:, 0]) / area
    gap = point - a[face]
    key = near[face, 0] + p[face] * gap[:, 0] + q[face] * gap[:, 1]
    return key.clamp(near.amin(1)[face], near.amax(1)[face])


def groups(count: int, side: int, device: str) -> Groups:
    """The implementations of one size."""
    inputs = [x.detach().to(device).requires_grad_() for x in scene(count, side)]
    grad = torch.rand(1, 4, side, side, generator=torch.Generator().manual_seed(1)).to(device)
    same: dict[str, Any] = {"gendr": partial(ours, side, "pixel")}
    if count < max(count for count, _ in SIZES):
        same["PyTorch, pairs in boxes"] = partial(formula, side)
    drawn = [x.detach() for x in inputs]
    return [
        outcomes(same, inputs, grad),
        outcomes({"gendr, by centroids": partial(ours, side, "centroid")}, inputs, grad),
        outcomes({"gendr, drawing alone": partial(ours, side, "pixel")}, drawn, grad),
    ]


def cases(quick: bool, device: str) -> list[Case]:
    """All of them."""
    sizes = ((300, 40),) if quick else SIZES
    return [
        Case(f"{count:,} at {side}²", partial(groups, count, side, device)) for count, side in sizes
    ]


main = Comparison(
    "ordered", __doc__, cases, page="results/splatting-speed", mark="ordered-speed"
).main

if __name__ == "__main__":
    main()
