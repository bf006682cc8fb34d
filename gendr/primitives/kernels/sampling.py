"""Texture lookups and mipmaps on the CPU: how the kernels of `texture` are called."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gendr._common import memory
from gendr.kernels.threads import num_threads, run
from gendr.primitives.kernels import texture as kernels
from gendr.primitives.sampling import LEVEL, Sampling, Stack

__all__ = ["Mipmaps", "Texture"]

# Pixels, or numbers of a mipmap, below which a second thread is not worth waking.
_SHARED = 4000
# Threads that share out texels, at most.
_OWNERS = 8


def _flat(tensor: Tensor | None, like: Tensor) -> np.ndarray:
    return (like.new_zeros(0) if tensor is None else tensor).reshape(-1).numpy()


class _Call(NamedTuple):
    """What all kernels of lookups take."""

    inputs: tuple[np.ndarray, ...]
    levels: tuple[np.ndarray, ...]
    tables: tuple[Any, ...]
    pixels: int
    channels: int

    @staticmethod
    def of(spec: Sampling, inputs: tuple[Any, ...]) -> _Call:
        uv, tex, mips, uv_da, bias = inputs
        channels, images = tex.shape[-1], len(uv)
        starts = np.array(spec.starts())
        shared = len(tex) == 1
        first = starts[1]
        sizes = np.zeros((len(spec.sizes), 3), np.int64)
        sizes[:, 0] = np.maximum(starts[:-1] - first, 0) * channels
        sizes[:, 1:] = spec.sizes
        pixels = prod(uv.shape[:-1])
        counts = np.array(
            [
                pixels // images, channels, 0 if shared else first * channels,
                0 if shared else (starts[-1] - first) * channels, starts[-1] * channels,
                first * channels,
            ]
        )  # fmt: skip
        if spec.mode < LEVEL:
            uv_da = bias = None
        return _Call(
            (_flat(uv, uv), _flat(uv_da, uv), _flat(bias, uv)),
            (_flat(tex, uv), _flat(mips, uv)),
            (sizes, counts, spec.mode, spec.boundary),
            pixels,
            channels,
        )


class Texture:
    """Lookups by kernels; see `gendr.kernels.operator.Kernels`."""

    @staticmethod
    def forward(spec: Sampling, *inputs: Any, save: bool) -> tuple[tuple[Tensor], tuple[Any, ...]]:
        """The lookups."""
        call = _Call.of(spec, inputs)
        uv, tex = inputs[:2]
        out = memory.empty((*uv.shape[:-1], tex.shape[-1]), uv.dtype)
        run(
            kernels.sample, call.pixels, *call.inputs, *call.levels, *call.tables,
            out.reshape(-1).numpy(), alone=call.pixels < _SHARED,
        )  # fmt: skip
        return (out,), ()

    @staticmethod
    def backward(
        spec: Sampling, inputs: tuple[Any, ...], saved: tuple[Any, ...],
        grads: tuple[Tensor, ...], wanted: tuple[bool, ...],
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        """The gradients of all inputs."""
        call = _Call.of(spec, inputs)
        uv, tex, mips, uv_da, bias = inputs
        grad = grads[0].reshape(-1).numpy()
        alone = call.pixels < _SHARED
        of_uv = of_da = of_bias = of_tex = of_mips = None
        if wanted[0] or wanted[3] or wanted[4]:
            of_uv = memory.empty_like(uv).zero_()
            of_da = memory.empty_like(uv_da).zero_() if wanted[3] else None
            of_bias = memory.empty_like(bias).zero_() if wanted[4] else None
            found = (_flat(x, uv) for x in (of_uv, of_da, of_bias))
            run(
                kernels.sample_back, call.pixels, *call.inputs, *call.levels, *call.tables, grad,
                *found, alone=alone,
            )  # fmt: skip
        if wanted[1] or wanted[2]:
            of_tex = memory.empty_like(tex)
            of_mips = None if mips is None else memory.empty_like(mips)
            _sum_texels(call, grad, _flat(of_tex, uv), _flat(of_mips, uv), alone)
        return of_uv, of_tex, of_mips, of_da, of_bias


def _sum_texels(
    call: _Call, grad: np.ndarray, to_tex: np.ndarray, to_mips: np.ndarray, alone: bool
) -> None:
    """The gradients of texels; see the kernels."""
    numbers, (of_all, of_tex) = len(to_tex) + len(to_mips), call.tables[1][4:].tolist()
    # Each looks at all pixels, which takes longer than the sums of a few.
    owners = 1 if alone else 1 << min(num_threads(), _OWNERS).bit_length() - 1
    sums = memory.empty((numbers,), torch.float64).zero_()
    run(
        kernels.add_texels, owners, *call.inputs, *call.tables, grad, call.pixels, owners,
        sums.numpy(),
    )  # fmt: skip
    parts = sums.view(-1, of_all).split([of_tex, of_all - of_tex], 1)
    for part, to in zip(parts, (to_tex, to_mips), strict=True):
        if len(to):
            torch.from_numpy(to).view(part.shape).copy_(part)


class Mipmaps:
    """Mipmaps by kernels; see `gendr.kernels.operator.Kernels`."""

    @staticmethod
    def forward(spec: Stack, tex: Tensor, *, save: bool) -> tuple[tuple[Tensor], tuple[Any, ...]]:
        """The smaller levels."""
        numbers = spec.faces * sum(h * w for h, w in spec.sizes[1:]) * tex.shape[-1]
        mips = memory.empty((len(tex), numbers), tex.dtype)
        for level, layout, rows in _layouts(spec, tex, numbers):
            fine = tex if level == 0 else mips
            run(
                kernels.halve, rows, _flat(fine, tex), _flat(mips, tex), layout, tex.shape[-1],
                pieces=2, alone=_is_small(spec, tex, level),
            )  # fmt: skip
        return (mips,), ()

    @staticmethod
    def backward(
        spec: Stack, inputs: tuple[Tensor], saved: tuple[Any, ...], grads: tuple[Tensor],
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor]:  # fmt: skip
        """The gradient of textures."""
        (tex,), mips = inputs, grads[0].clone()
        of_tex = memory.empty_like(tex).zero_()
        for level, layout, rows in reversed(_layouts(spec, tex, mips.shape[1])):
            fine = of_tex if level == 0 else mips
            run(
                kernels.halve_back, rows, _flat(fine, tex), _flat(mips, tex), layout,
                tex.shape[-1], pieces=2, alone=_is_small(spec, tex, level),
            )  # fmt: skip
        return (of_tex,)


def _is_small(spec: Stack, tex: Tensor, level: int) -> bool:
    return len(tex) * spec.faces * prod(spec.sizes[level]) * tex.shape[-1] < 8 * _SHARED


def _layouts(spec: Stack, tex: Tensor, numbers: int) -> list[tuple[int, np.ndarray, int]]:
    """Of every level that is halved: its place, where it and its half lie, rows of the half."""
    found, channels = [], tex.shape[-1]
    step, start = tex[0].numel(), 0
    end = 0
    for level, (size, half) in enumerate(zip(spec.sizes[:-1], spec.sizes[1:], strict=True)):
        layout = np.array([step, start, *size, numbers, end, *half, spec.faces])
        found.append((level, layout, len(tex) * spec.faces * half[0]))
        step, start = numbers, end
        end += spec.faces * prod(half) * channels
    return found
