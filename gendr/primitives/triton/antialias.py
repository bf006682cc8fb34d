"""Antialiasing in Triton; see `antialias_kernels`."""

from __future__ import annotations

import torch
from torch import Tensor

from gendr.kernels.triton.launch import blocks_of, power_of_2
from gendr.primitives.graphs import antialiased
from gendr.primitives.reference.antialias import MEETING, Borders, linked
from gendr.primitives.triton.sums import Segments, each, key_type, vertex_sums

__all__ = ["backend", "backward", "edges", "forward", "traced"]

backend = "triton"


def edges(borders: Borders, rast: Tensor, pos: Tensor) -> Tensor:
    """The codes [2, N, H, W] of `gendr.primitives.reference.antialias.crossed`."""
    from gendr.primitives.triton import antialias_kernels as kernels

    scene, pixels = borders.scene, rast.numel() // 4
    uses = linked(scene.tri) if borders.uses is None else borders.uses
    codes = torch.empty(2, *rast.shape[:3], dtype=torch.int32, device=rast.device)
    each(
        kernels.find_silhouettes, rast.device, pixels, pos, scene.tri, uses, rast, codes, pixels,
        _stride(borders), scene.height, scene.width, others=(2,), STEPS=borders.steps,
        MEETING=MEETING,
    )  # fmt: skip
    return codes


traced = antialiased(backend, edges)


def _stride(borders: Borders) -> int:
    return 0 if borders.scene.shared else borders.scene.vertices


def forward(
    borders: Borders, color: Tensor, rast: Tensor, pos: Tensor, *, save: bool
) -> tuple[tuple[Tensor], tuple[Tensor]]:
    """The blended colours [N, H, W, C]; where silhouettes are is saved."""
    codes = edges(borders, rast, pos)
    return (_blended(borders, color, pos, codes, color, False),), (codes,)


def _blended(
    borders: Borders, color: Tensor, pos: Tensor, codes: Tensor, grad: Tensor, backward: bool
) -> Tensor:
    from gendr.primitives.triton import antialias_kernels as kernels

    scene, result, channels = borders.scene, torch.empty_like(color), color.shape[-1]
    pixels, wide = codes[0].numel(), min(4, power_of_2(channels))
    each(
        kernels.blend_pairs, color.device, pixels, pos, scene.tri, codes, color, grad, result,
        pixels, _stride(borders), scene.height, scene.width, channels,
        others=(blocks_of(channels, wide),), BACKWARD=backward, WIDE=wide,
    )  # fmt: skip
    return result


def backward(
    borders: Borders, inputs: tuple[Tensor, Tensor, Tensor], saved: tuple[Tensor],
    grads: tuple[Tensor], wanted: tuple[bool, ...],
) -> tuple[Tensor | None, None, Tensor | None]:  # fmt: skip
    """The gradients of color and pos."""
    from gendr.primitives.triton import antialias_kernels as kernels

    (color, _, pos), (codes,), (grad,) = inputs, saved, grads
    scene, pixels, channels = borders.scene, codes[0].numel(), color.shape[-1]
    of_color = _blended(borders, color, pos, codes, grad, True) if wanted[0] else None
    if not wanted[2]:
        return of_color, None, None
    count = scene.images * len(scene.tri)
    corners = pos.new_empty(2 * pixels, 12)
    keys = torch.empty(2 * pixels, dtype=key_type(count), device=pos.device)
    each(
        kernels.line_gradients, pos.device, pixels, pos, scene.tri, codes, color, grad, corners,
        keys, pixels, _stride(borders), scene.height, scene.width, channels, len(scene.tri), count,
        others=(2,), WIDE=min(4, power_of_2(channels)),
    )  # fmt: skip
    segments = Segments.of(keys, count)
    found = vertex_sums(segments, scene.tri, pos, corners, None, scene.images)
    return of_color, None, found * borders.boost if borders.boost != 1 else found
