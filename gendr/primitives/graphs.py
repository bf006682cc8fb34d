"""The primitives where PyTorch traces: its own operators, but for what is seen and where edges are.

What is searched for has no gradient: it is one operator of a graph for each backend. All else is
traced from the definitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gendr.primitives.reference.antialias import Borders, densely
from gendr.primitives.reference.raster import shaded
from gendr.primitives.scene import Scene, check_indices

__all__ = ["antialiased", "rasterized"]


def rasterized(backend: str, seen: Callable[[Scene, Tensor], Tensor]) -> Callable[..., Any]:
    """What `rasterize` gives, from the ids [N, H, W] that `seen` finds of a scene and positions."""

    @torch.library.custom_op(f"gendr::seen_triangles_{backend}", mutates_args=())
    def operator(
        pos: Tensor, tri: Tensor, height: int, width: int, ranges: Tensor | None, images: int
    ) -> Tensor:
        scene = Scene(tri, images, height, width, pos.shape[-2], ranges, pos.ndim == 2)
        check_indices(tri, scene.vertices)
        return seen(scene, pos.contiguous())

    @operator.register_fake
    def _(
        pos: Tensor, tri: Tensor, height: int, width: int, ranges: Tensor | None, images: int
    ) -> Tensor:
        return pos.new_empty(images, height, width, dtype=torch.int32)

    def traced(scene: Scene, pos: Tensor) -> tuple[Tensor, Tensor]:
        size = scene.height, scene.width
        ids = operator(pos.detach(), scene.tri, *size, scene.ranges, scene.images)
        return shaded(scene, pos, ids)

    operator.register_vmap(_one_by_one(operator))
    return traced


def antialiased(
    backend: str, edges: Callable[[Borders, Tensor, Tensor], Tensor]
) -> Callable[..., Tensor]:
    """What `antialias` gives, from the codes that `edges` finds; see `reference.antialias.crossed`.

    Args:
        backend: its name.
        edges: (borders, rast, pos) -> codes [2, N, H, W].
    """

    @torch.library.custom_op(f"gendr::silhouette_edges_{backend}", mutates_args=())
    def operator(rast: Tensor, pos: Tensor, tri: Tensor, steps: int) -> Tensor:
        images, height, width = rast.shape[:3]
        scene = Scene(tri, images, height, width, pos.shape[-2], None, pos.ndim == 2)
        check_indices(tri, scene.vertices)
        return edges(Borders(scene, None, 1.0, steps), rast.contiguous(), pos.contiguous())

    @operator.register_fake
    def _(rast: Tensor, pos: Tensor, tri: Tensor, steps: int) -> Tensor:
        return rast.new_empty(2, *rast.shape[:3], dtype=torch.int32)

    def traced(borders: Borders, color: Tensor, rast: Tensor, pos: Tensor) -> Tensor:
        codes = operator(rast.detach(), pos.detach(), borders.scene.tri, borders.steps)
        return densely(borders, color, pos, codes)

    operator.register_vmap(_one_by_one(operator))
    return traced


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
