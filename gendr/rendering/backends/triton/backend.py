"""The Triton backend: fused kernels for NVIDIA GPUs, compiled at run time, cached on disk.

Silhouettes and softmax shading each run through one operator of PyTorch with a fake kernel, so that
`torch.compile` traces through them; their gradients are operators too. Arithmetic is float32,
whatever the input. Once differentiable; the reference backend gives second derivatives.

With TRITON_INTERPRET=1 in the environment before the first import of Triton, the same kernels run
on CPU tensors, slowly: that is how they are tested without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gendr._common.tracing import is_traced
from gendr.kernels.triton.launch import available, interpreted, supports
from gendr.primitives.scene import Scene as Triangles
from gendr.rendering.aggregation import PAIRS_AT_ONCE, Aggregation, alpha_of_pairs
from gendr.rendering.backends import reference
from gendr.rendering.backends.triton import alpha as silhouettes
from gendr.rendering.backends.triton import ordered as layers
from gendr.rendering.backends.triton import project as projecting
from gendr.rendering.backends.triton import softmax as colours
from gendr.rendering.backends.triton import tiles
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import PixelPairs, runs_of
from gendr.rendering.geometry import ImageSize, ScreenFaces
from gendr.rendering.layers import Layered, ordered_densely
from gendr.rendering.layers import depth_keys as plain_keys

if TYPE_CHECKING:
    from gendr.rendering.scene import Scene

__all__ = [
    "KERNELS", "alpha", "available", "depth_keys", "distance", "gather", "interpreted", "nearest",
    "ordered", "pairs", "project", "settings", "softmax", "supports",
]  # fmt: skip

_ORDERED_AT_ONCE = 1_000_000  # pairs that are joined in order together
project = projecting.project
distance, gather = reference.distance, reference.gather  # plain torch


def settings() -> object:
    """How kernels are launched."""
    return tiles.LAUNCH, projecting.LAUNCH


def alpha(faces: ScreenFaces, size: ImageSize, aggregation: Aggregation) -> Tensor:
    """Coverage of every pixel, [B, H, W]; that of a CDF of the user's from lists of pairs."""
    if not aggregation.coverage.has_own_cdf:
        return silhouettes.alpha(faces, size, aggregation)
    runs = pairs(faces, size, aggregation.coverage.radius(), PAIRS_AT_ONCE)
    return alpha_of_pairs(runs, distance, gather, faces, size, aggregation)


def softmax(
    scene: Scene, coverage: Coverage, rate: Tensor, backdrop: float
) -> tuple[Tensor, Tensor] | None:
    """The softmax of colours that are linear on every face; see `softmax.softmax`.

    None for textures, smooth normals and highlights, and for faces cut by the near plane.
    """
    if scene.surfaces.was_clipped is not None or not scene.is_linear:
        return None
    return colours.softmax(scene, coverage, rate, backdrop)


def pairs(
    faces: ScreenFaces, size: ImageSize, radius: Tensor, limit: int
) -> list[Callable[[], PixelPairs]]:
    """The (pixel, face) pairs within the radius in runs of rows, about `limit` in each.

    A run is listed when it is called, so that only one needs to be in memory. The host waits once,
    for the number of pairs in every row of pixels.
    """
    images = tiles.bare_images(faces.images, radius)
    corners = faces.corners.detach().to(torch.float32).contiguous()
    plan = _plan(faces, size, corners)
    _, boxes = plan.tables(corners, images)
    boxes = boxes.to(torch.int64)
    across, row = boxes[:, 1] - boxes[:, 0], size.height * plan.image_of_face
    top, bottom = boxes[:, 2] + row, boxes[:, 3] + row  # rows of the batch, numbered through
    steps = across.new_zeros(faces.images * size.height + 1)
    steps = steps.index_add(0, top, across).index_add(0, bottom, -across)
    counts: list[int] = steps.cumsum(0)[:-1].tolist()

    def listing(first: int, last: int) -> PixelPairs:
        start, end = top.clamp(min=first), bottom.clamp(max=last)
        entries = across * (end - start).clamp(min=0)
        total = sum(counts[first:last])
        face = torch.arange(plan.faces, device=entries.device)
        face = face.repeat_interleave(entries, output_size=total)
        k = torch.arange(total, device=face.device) - (entries.cumsum(0) - entries)[face]
        wide = across[face]
        pixels = (start[face] + k // wide) * size.width + boxes[face, 0] + k % wide
        pixels, order = pixels.sort(stable=True)
        face = face[order]
        with torch.no_grad():
            d = reference.distance(faces, size, pixels, face)
            near = (d >= -radius[size.image_of(pixels)]).nonzero().squeeze(-1)
        return PixelPairs(pixels[near], face[near], first * size.width, last * size.width)

    return [partial(listing, first, last) for first, last in runs_of(counts, limit)]


def _plan(faces: ScreenFaces, size: ImageSize, corners: Tensor) -> tiles.TilePlan:
    sides, device = corners.shape[1], corners.device
    return tiles.plan_of(tiles.TilePlan, faces.offsets, size, sides, device, tiles.LAUNCH)


def nearest(triangles: Triangles, pos: Tensor) -> Tensor:
    """The nearest triangle at each pixel, by the kernels of `gendr.primitives.rasterize`."""
    from gendr.primitives.triton.raster import visible_ids

    return visible_ids(triangles, pos)


def depth_keys(corners: Tensor, depth: Tensor, sort: str) -> tuple[Tensor, Tensor]:
    """Keys of depth; see `gendr.rendering.layers.depth_keys`."""
    if is_traced():
        return plain_keys(corners, depth, sort)
    return layers.keys(corners, depth, sort)


def ordered(layered: Layered, size: ImageSize) -> tuple[Tensor, Tensor]:
    """Faces joined from front to back; while PyTorch traces, by the definition for all pairs."""
    if is_traced():
        return ordered_densely(layered, size, _ORDERED_AT_ONCE)
    return layers.ordered(layered, size)


KERNELS = {
    f"rendering.{x.__name__}": x
    for x in (project, alpha, softmax, ordered, nearest, pairs, depth_keys)
}
