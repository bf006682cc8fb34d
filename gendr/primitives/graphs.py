"""The primitives where PyTorch traces: its own operators, but for what is seen and where edges are.

What is searched for has no gradient: one operator of a graph each, which takes the kernels of the
device. All else is traced from the definitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gendr.primitives.choice import kernels_for
from gendr.primitives.reference.antialias import Borders, densely
from gendr.primitives.reference.raster import shaded
from gendr.primitives.scene import Scene, check_indices

__all__ = ["antialiased", "rasterized"]


def rasterized(scene: Scene, pos: Tensor) -> tuple[Tensor, Tensor]:
    """What `rasterize` gives."""
    ids = _seen(
        pos.detach(), scene.tri, scene.height, scene.width, scene.ranges, scene.images
    )  # fmt: skip
    return shaded(scene, pos, ids)


def antialiased(borders: Borders, color: Tensor, rast: Tensor, pos: Tensor) -> Tensor:
    """What `antialias` gives."""
    codes = _edges(rast.detach(), pos.detach(), borders.scene.tri)
    return densely(borders, color, pos, codes)


@torch.library.custom_op("gendr::seen_triangles", mutates_args=())
def _seen(
    pos: Tensor, tri: Tensor, height: int, width: int, ranges: Tensor | None, images: int
) -> Tensor:
    """The ids [N, H, W] of the triangles that are seen."""
    scene = Scene(tri, images, height, width, pos.shape[-2], ranges, pos.ndim == 2)
    check_indices(tri, scene.vertices)
    return kernels_for("raster", pos).seen(scene, pos.contiguous())


@_seen.register_fake
def _(
    pos: Tensor, tri: Tensor, height: int, width: int, ranges: Tensor | None, images: int
) -> Tensor:
    return pos.new_empty(images, height, width, dtype=torch.int32)


@torch.library.custom_op("gendr::silhouette_edges", mutates_args=())
def _edges(rast: Tensor, pos: Tensor, tri: Tensor) -> Tensor:
    """The codes [2, N, H, W] of `gendr.primitives.reference.antialias.crossed`."""
    images, height, width = rast.shape[:3]
    scene = Scene(tri, images, height, width, pos.shape[-2], None, pos.ndim == 2)
    check_indices(tri, scene.vertices)
    borders = Borders(scene, None, 1.0)
    return kernels_for("antialias", pos).edges(borders, rast.contiguous(), pos.contiguous())


@_edges.register_fake
def _(rast: Tensor, pos: Tensor, tri: Tensor) -> Tensor:
    return rast.new_empty(2, *rast.shape[:3], dtype=torch.int32)


def _one_by_one(operator: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, int]]:
    """The rule of `torch.func.vmap` for an operator that has batches of its own: call by call."""

    def rule(info: Any, places: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        def of(row: int) -> Tensor:
            return operator(
                *(
                    arg if place is None else arg.select(place, row)
                    for arg, place in zip(args, places, strict=True)
                )
            )

        return torch.stack([of(row) for row in range(info.batch_size)]), 0

    return rule


_seen.register_vmap(_one_by_one(_seen))
_edges.register_vmap(_one_by_one(_edges))
