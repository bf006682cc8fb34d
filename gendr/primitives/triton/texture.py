"""Texture lookups and mipmaps in Triton; see `texture_kernels`."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import torch
from torch import Tensor

from gendr._common.tracing import lasting
from gendr.kernels.triton.launch import blocks_of, power_of_2, run
from gendr.primitives.cubes import SEAMS
from gendr.primitives.sampling import CUBE, LEVEL, LEVELS, WRAP, Sampling, Stack
from gendr.primitives.triton.sums import EXACT, LAUNCH, Segments, each, key_type

__all__ = ["Mipmaps", "Texture"]


@lru_cache(maxsize=256)
@lasting()
def _sizes(
    sizes: tuple[tuple[int, int], ...], faces: int, device: torch.device
) -> tuple[Tensor, int, int]:
    """Where levels begin, and their sizes, for the kernels; texels and cells of an image."""
    rows, texels, cells = [], 0, 0
    for height, width in sizes:
        rows.append([texels, height, width, cells])
        texels += faces * height * width
        cells += faces * (height + 1) * (width + 1)
    rows.append([texels, 1, 1, cells])
    return torch.tensor(rows, dtype=torch.int64, device="cpu").to(device), texels, cells


@lru_cache(maxsize=16)
@lasting()
def _seams(device: torch.device) -> Tensor:
    return torch.tensor(SEAMS.tolist(), dtype=torch.int32, device="cpu").to(device)


class _Call:
    """What all kernels of lookups take."""

    def __init__(self, spec: Sampling, inputs: tuple[Any, ...]) -> None:
        uv, tex, mips, uv_da, bias = inputs
        self.device, self.channels = uv.device, tex.shape[-1]
        self.pixels = prod(uv.shape[:-1])
        self.sizes, self.texels, self.cells = _sizes(spec.sizes, spec.faces, uv.device)
        self.seams, self.shared = _seams(uv.device), len(tex) == 1
        self.base = spec.faces * prod(spec.sizes[0])
        if spec.mode < LEVEL:
            uv_da = bias = None
        self.places = uv, uv if uv_da is None else uv_da, uv if bias is None else bias
        self.levels = tex, tex if mips is None else mips
        kept = 0 if self.shared else self.channels
        self.numbers = (
            self.pixels, self.pixels // len(uv), kept * self.base,
            kept * (self.texels - self.base), self.channels, len(spec.sizes) - 1,
        )  # fmt: skip
        self.flags: dict[str, Any] = {
            "MODE": spec.mode, "BOUNDARY": spec.boundary, "SLOPED": uv_da is not None,
            "BIASED": bias is not None, "WIDE": 1,  # four channels at once would take all registers
        }  # fmt: skip

    def run(self, kernel: Any, *args: Any, **flags: Any) -> None:
        """Launch a kernel over all pixels."""
        each(kernel, self.device, self.pixels, *args, **self.flags, **flags)


class Texture:
    """Lookups; see `gendr.kernels.operator.Kernels`."""

    @staticmethod
    def forward(spec: Sampling, *inputs: Any, save: bool) -> tuple[tuple[Tensor], tuple[Any, ...]]:
        """The lookups."""
        from gendr.primitives.triton import texture_kernels as kernels

        call, uv = _Call(spec, inputs), inputs[0]
        out = uv.new_empty(*uv.shape[:-1], call.channels)
        call.run(
            kernels.sample, *call.places, *call.levels, call.sizes, call.seams, out, *call.numbers
        )
        return (out,), ()

    @staticmethod
    def backward(
        spec: Sampling, inputs: tuple[Any, ...], saved: tuple[Any, ...],
        grads: tuple[Tensor, ...], wanted: tuple[bool, ...],
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        """The gradients of all inputs."""
        from gendr.primitives.triton import texture_kernels as kernels

        call = _Call(spec, inputs)
        uv, tex, mips, uv_da, bias = inputs
        (grad,) = grads
        of_uv = of_da = of_bias = of_tex = of_mips = None
        if wanted[0] or wanted[3] or wanted[4]:
            # Of the nearest texels, and of the numbers of levels that are not looked at, zeros.
            new = torch.empty_like if spec.mode > 0 else torch.zeros_like
            of_uv = new(uv)
            of_da = new(uv_da) if wanted[3] else None
            of_bias = new(bias) if wanted[4] else None
            if spec.mode > 0:
                call.run(
                    kernels.sample_gradients, *call.places, *call.levels, call.sizes, call.seams,
                    grad, of_uv, uv if of_da is None else of_da, uv if of_bias is None else of_bias,
                    *call.numbers, TO_DA=of_da is not None, TO_BIAS=of_bias is not None,
                )  # fmt: skip
        if wanted[1] or wanted[2]:
            of_tex = torch.empty_like(tex)
            of_mips = None if mips is None else torch.empty_like(mips)
            _texel_sums(spec, call, grad, of_tex, of_tex if of_mips is None else of_mips)
        return of_uv, of_tex, of_mips, of_da, of_bias


def _texel_sums(spec: Sampling, call: _Call, grad: Tensor, to_tex: Tensor, to_mips: Tensor) -> None:
    """The gradients of texels."""
    from gendr.primitives.triton import sum_kernels
    from gendr.primitives.triton import texture_kernels as kernels

    slots, images = 2 if spec.mode == LEVELS else 1, len(to_tex)
    entries, count = slots * call.pixels, images * call.cells
    keys = torch.empty(entries, dtype=key_type(count), device=call.device)
    table = torch.empty(entries, 4, dtype=torch.float64, device=call.device)
    pixels, of_image, _, _, channels, last = call.numbers
    call.run(
        kernels.list_lookups, *call.places, call.sizes, call.seams, grad, keys, table, pixels,
        of_image, call.cells, channels, last, count, SHARED=call.shared, SLOTS=slots,
    )  # fmt: skip
    segments, corners = Segments.of(keys, count), 4 if spec.mode > 0 else 1
    blocks = segments.blocks(grad, table, channels, corners, 4, 2, slots)
    # Few texels are looked up by many pixels.
    lanes = min(32, power_of_2(entries // max(1, count)))
    rows, wide = max(1, LAUNCH.rows // lanes), min(4, power_of_2(channels))
    run(
        sum_kernels.texel_sums,
        (blocks_of(images * call.texels, rows), blocks_of(channels, wide)), call.device,
        call.sizes, call.seams, segments.starts, segments.stops, segments.order, grad, table,
        *blocks, to_tex, to_mips, images * call.texels, call.texels, call.base, call.cells,
        len(spec.sizes), channels, WRAPS=spec.boundary == WRAP, CUBE=spec.boundary == CUBE,
        CORNERS=corners, SLOTS=slots, K=LAUNCH.group, ROWS=rows, LANES=lanes, WIDE=wide, **EXACT,
    )  # fmt: skip


class Mipmaps:
    """Mipmaps; see `gendr.kernels.operator.Kernels`."""

    @staticmethod
    def forward(spec: Stack, tex: Tensor, *, save: bool) -> tuple[tuple[Tensor], tuple[Any, ...]]:
        """The smaller levels."""
        from gendr.primitives.triton import texture_kernels as kernels

        channels, images = tex.shape[-1], len(tex)
        numbers = spec.faces * sum(h * w for h, w in spec.sizes[1:]) * channels
        mips = tex.new_empty(images, numbers)
        fine, step, first, to_first = tex, tex[0].numel(), 0, 0
        for size, half in zip(spec.sizes[:-1], spec.sizes[1:], strict=True):
            of_image = spec.faces * prod(half) * channels
            each(
                kernels.halve, tex.device, images * of_image, fine, mips, images * of_image, step,
                first, *size, numbers, to_first, *half, spec.faces, channels,
            )  # fmt: skip
            fine, step, first, to_first = mips, numbers, to_first, to_first + of_image
        return (mips,), ()

    @staticmethod
    def backward(
        spec: Stack, inputs: tuple[Tensor], saved: tuple[Any, ...], grads: tuple[Tensor],
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor]:  # fmt: skip
        """The gradient of textures."""
        from gendr.primitives.triton import texture_kernels as kernels

        (tex,), (grad,) = inputs, grads
        of_tex = torch.empty_like(tex)
        sizes, _, _ = _sizes(spec.sizes, spec.faces, tex.device)
        each(
            kernels.halve_gradients, tex.device, tex.numel(), grad, of_tex, sizes, tex.numel(),
            tex[0].numel(), grad.shape[1], tex.shape[-1], len(spec.sizes),
        )  # fmt: skip
        return (of_tex,)
