"""The rasteriser in Triton; see `raster_kernels`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from gendr._common.tracing import lasting
from gendr.kernels.triton.launch import run
from gendr.primitives.graphs import rasterized
from gendr.primitives.scene import Pixels, Scene, check_indices
from gendr.primitives.triton.sums import EXACT, LAUNCH, each, pixels_of, vertex_sums

__all__ = ["backend", "backward", "forward", "traced", "visible_ids"]

backend = "triton"


def forward(scene: Scene, pos: Tensor, *, save: bool) -> tuple[tuple[Tensor, Tensor], Any]:
    """What is seen [N, H, W, 4], and its derivatives; the ids are saved, and what is found of them.

    Whoever asks the scene next gets that.
    """
    check_indices(scene.tri, scene.vertices)  # which nobody could do while a graph was traced
    shape = scene.images, scene.height, scene.width
    rast = pos.new_empty(*shape, 4)
    derivatives = pos.new_empty(*shape, 4 * scene.sloped)
    pixels = Pixels()
    scene.pixels.found = pixels.found
    return (rast, derivatives), (_rasterized(scene, pos, rast, derivatives), pixels)


def visible_ids(scene: Scene, pos: Tensor) -> Tensor:
    """The ids [N, H, W] alone."""
    return _rasterized(scene, pos, None, None)


traced = rasterized(backend, visible_ids)


@lru_cache(maxsize=256)
@lasting()
def _offsets(
    first: tuple[int, ...], offsets: tuple[int, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """The first triangles of images, and where their items begin, on a device."""
    found = torch.tensor([*first, *offsets], dtype=torch.int64, device="cpu").to(device)
    return found[: len(first)], found[len(first) :]


def _rasterized(
    scene: Scene, pos: Tensor, rast: Tensor | None, derivatives: Tensor | None
) -> Tensor:  # fmt: skip
    """The ids; what is seen is written into the others, if they are given."""
    from gendr.primitives.triton import raster_kernels as kernels

    device, behind = pos.device, scene.peeled
    shape = scene.images, scene.height, scene.width
    pixels, triangles = scene.images * scene.height * scene.width, len(scene.tri)
    stride = 0 if scene.shared else scene.vertices
    ids = torch.empty(shape, dtype=torch.int32, device=device)
    layer = torch.empty(shape if behind else (1,), dtype=torch.float64, device=device)
    minima = torch.full((3 * pixels,), kernels.NONE.value, dtype=torch.int32, device=device)
    depths, nearest = minima[: 2 * pixels].view(torch.int64), minima[2 * pixels :]
    peeled = behind is not None and behind.depths is not None and behind.ids is not None
    floor = (behind.depths, behind.ids) if peeled and behind is not None else (depths, nearest)
    items, first, offsets = scene.images * triangles, nearest, nearest
    if scene.ranges is not None:
        first, _, offsets = scene.tables
        items = int(offsets[-1])
        first, offsets = _offsets(tuple(first.tolist()), tuple(offsets.tolist()), device)
    if items and pixels:
        counts = torch.empty(items, dtype=torch.int32, device=device)
        numbers = items, triangles, scene.images, stride, scene.height, scene.width
        flags: dict[str, Any] = {
            "RANGES": scene.ranges is not None,
            "PEELED": peeled,
            "CHUNK": LAUNCH.chunk,
        }
        call, ends = (pos, scene.tri, first, offsets, depths, nearest, *floor), counts
        for stage in (0, 1):
            each(
                kernels.draw_small, device, items, *call, counts, *numbers, STAGE=stage,
                MOST=LAUNCH.small, **flags,
            )  # fmt: skip
            ends = counts.cumsum(0, dtype=torch.int64) if stage == 0 else ends
            run(
                kernels.draw_large, (LAUNCH.programs,), device, *call, ends, *numbers, STAGE=stage,
                **flags, **EXACT,
            )  # fmt: skip
    each(
        kernels.shade, device, pixels, pos, scene.tri, depths, nearest,
        pos if rast is None else rast, pos if derivatives is None else derivatives, ids, layer,
        pixels, stride, scene.height, scene.width, SHADED=rast is not None, SLOPED=scene.sloped,
        PEELED=behind is not None,
    )  # fmt: skip
    if behind is not None:
        behind.depths, behind.ids = layer, ids
    return ids


def backward(
    scene: Scene, inputs: tuple[Tensor], saved: tuple[Tensor, Pixels],
    grads: tuple[Tensor | None, ...], wanted: tuple[bool, ...],
) -> tuple[Tensor]:  # fmt: skip
    """The gradient of pos."""
    from gendr.primitives.triton import raster_kernels as kernels

    (pos,), (ids, pixels), (of_rast, of_derivatives) = inputs, saved, grads
    both = scene.sloped and of_derivatives is not None
    if not ids.numel() or not len(scene.tri):
        return (torch.zeros_like(pos),)
    corners = pos.new_empty(ids.numel(), 12 if both else 4)
    weights = pos.new_empty(ids.numel(), 0 if both else 2)
    each(
        kernels.raster_gradients, pos.device, ids.numel(), pos, scene.tri, ids,
        pos if of_rast is None else of_rast, of_derivatives if both else pos, corners,
        corners if both else weights, ids.numel(), 0 if scene.shared else scene.vertices,
        scene.height, scene.width, RAST=of_rast is not None, BOTH=both,
    )  # fmt: skip
    segments = pixels_of(pixels, ids, len(scene.tri))
    found = vertex_sums(
        segments, scene.tri, pos, corners, None if both else weights, scene.images
    )  # fmt: skip
    return (found,)
