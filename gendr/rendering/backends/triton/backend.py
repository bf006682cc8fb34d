"""The Triton backend: fused kernels for NVIDIA GPUs, compiled at run time, cached on disk.

Silhouettes and softmax shading each run through one operator of PyTorch with a fake kernel, so that
`torch.compile` traces through them; their gradients are operators too. Arithmetic is float32,
whatever the input. Once differentiable; the reference backend gives second derivatives.

With TRITON_INTERPRET=1 in the environment before the first import of Triton, the same kernels run
on CPU tensors, slowly: that is how they are tested without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gendr._runtime.triton.launch import available, interpreted, run, supports
from gendr.rendering.aggregation import Aggregation
from gendr.rendering.backends import reference
from gendr.rendering.backends.triton import alpha as silhouettes
from gendr.rendering.backends.triton import project as projecting
from gendr.rendering.backends.triton import softmax as colours
from gendr.rendering.backends.triton import tiles
from gendr.rendering.backends.triton.tiles import set_atomic
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import PixelPairs
from gendr.rendering.geometry import ImageSize, ScreenFaces, Surfaces

if TYPE_CHECKING:
    from gendr.mesh import Camera, Mesh
    from gendr.rendering.shading import Appearance

__all__ = [
    "alpha", "available", "distance", "gather", "interpreted", "nearest", "pairs", "project",
    "set_atomic", "settings", "softmax", "supports",
]  # fmt: skip

TAKES_ANY_CDF = False
CAN_BE_CAPTURED = True


def settings() -> object:
    """How kernels are launched, and whether they may use atomics."""
    return tiles.LAUNCH, projecting.LAUNCH, tiles.atomic_now()


def project(
    mesh: Mesh, camera: Camera, near: float | None, far: float | None, owner: Hashable
) -> ScreenFaces | None:
    """The faces of a float32 batch on the screen, by one kernel; see `project.project`."""
    return projecting.project(mesh, camera, near, far, owner)


def alpha(faces: ScreenFaces, size: ImageSize, aggregation: Aggregation) -> Tensor:
    """Coverage of every pixel, [B, H, W]."""
    return silhouettes.alpha(faces, size, aggregation)


def softmax(
    faces: ScreenFaces, surfaces: Surfaces, appearance: Appearance, size: ImageSize,
    coverage: Coverage, rate: Tensor, backdrop: float,
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    """The softmax of colours that are linear on every face; see `softmax.softmax`.

    None for textures, smooth normals and highlights, and for faces cut by the near plane.
    """
    if surfaces.was_clipped is not None or not appearance.is_linear:
        return None
    return colours.softmax(faces, surfaces, appearance, size, coverage, rate, backdrop)


def pairs(
    faces: ScreenFaces, size: ImageSize, radius: Tensor, limit: int
) -> list[Callable[[], PixelPairs]]:
    """The (pixel, face) pairs within the radius in runs of rows, about `limit` in each.

    A run is listed when it is called, so that only one needs to be in memory: the tile lists of
    tiles that are a pixel each, less those that are too far away.
    """
    images = tiles.bare_images(faces.images, radius)
    tables = tiles.TileTables.of(faces.corners, faces.offsets, images, size)
    tiling = tiles.Tiling.of(size, (1, 1))

    def listing(part: tiles.Part) -> PixelPairs:
        first_tile, faces_of, listed = tiles.listed(tables, tiling, part, counts)
        pixels = torch.arange(len(faces_of), device=listed.device).repeat_interleave(
            faces_of, output_size=len(listed)
        )
        pixels, face = pixels + first_tile, listed.to(torch.int64)
        with torch.no_grad():
            d = distance(faces, size, pixels, face)
            near = (d >= -radius[size.image_of(pixels)]).nonzero().squeeze(-1)
        return PixelPairs(pixels[near], face[near], first_tile, first_tile + len(faces_of))

    counts = tiles.tile_counts(tables, tiling, (0, tiling.rows))
    totals = tiles.per_image(counts, faces.offsets).tolist()
    return [partial(listing, part) for part in tiles.parts(totals, tiling.rows, limit)]


distance = reference.distance
gather = reference.gather


def nearest(faces: ScreenFaces, size: ImageSize, planes: Tensor, limits: Tensor) -> Tensor:
    """The nearest covering face of every pixel; arguments and result as in the reference."""
    from gendr.rendering.backends.triton import kernels

    corners = faces.corners.detach().to(torch.float64).contiguous()
    images = tiles.bare_images(faces.images, corners.new_zeros(faces.images))
    tables = tiles.TileTables.of(corners, faces.offsets, images, size)
    launch = tiles.LAUNCH.fitted(faces.images, len(corners), size)
    tiling = tiles.Tiling.of(size, launch.tile)
    out = torch.empty(faces.images * size.pixels, dtype=torch.int64, device=corners.device)
    lists = tiles.tile_lists(tables, tiling)
    run(
        kernels.nearest_tiles, (len(lists.starts),), corners.device,
        corners, planes.contiguous(), limits.contiguous(), lists.starts, lists.stops, lists.faces,
        out, size.height, size.width,
        N=corners.shape[1], TILE_H=tiling.height, TILE_W=tiling.width,
        # A float64 takes two registers.
        BLOCK_FACES=launch.block_faces, **tiles.options(2 * launch.tile_warps),
    )  # fmt: skip
    return out.reshape(faces.images, size.height, size.width)
