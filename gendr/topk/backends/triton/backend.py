"""The Triton backend of top-k: the membership mask and the loss, for float32 on NVIDIA GPUs.

A program works on a row. With TRITON_INTERPRET=1 in the environment before the first import of
Triton, the same kernels run on CPU tensors, slowly: that is how they are tested without a GPU.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from gendr._common.checks import check_finite, check_index
from gendr._common.tracing import lasting
from gendr.distributions import Distribution, StandardDistribution
from gendr.distributions.kernel_functions import has_shape, kernel_name
from gendr.distributions.kernel_functions import kernel_functions as functions_of
from gendr.kernels.triton import launch as _launch
from gendr.kernels.triton.launch import available as available
from gendr.kernels.triton.launch import interpreted, power_of_2, run
from gendr.sorting.backends.comparators import name_of, power_of
from gendr.sorting.losses import LEAST
from gendr.sorting.networks import Network

BLOCK = 1024  # numbers of a row that a program takes at once, at most
_THREAD = 8  # of them that a thread has


def supports(tensor: Tensor) -> bool:
    """float32 where Triton's kernels run."""
    return tensor.dtype == torch.float32 and _launch.supports(tensor)


class Mask:
    """The kernels of `MASK`."""

    most = 1 << 16  # numbers of a row; one program for more would take longer than a sort

    @staticmethod
    def forward(
        dist: Distribution, x: Tensor, k: Tensor, scale: Tensor, *, save: bool
    ) -> tuple[tuple[Tensor], tuple[Any, ...]]:
        """The mask; its threshold is saved, and the numbers of the distribution."""
        from gendr.distributions import triton as distributions
        from gendr.topk.backends.triton import mask_kernels

        name, numbers = _distribution(dist)
        p, b = torch.empty_like(x), torch.empty_like(k)
        run(
            mask_kernels.mask, (len(x),), x.device, x, k, scale, p, b, *numbers, x.shape[1],
            CDF=distributions.function(name, "tails"), PDF=distributions.function(name, "density"),
            **_block(x.shape[1]),
        )  # fmt: skip
        return (p,), (b,)

    @staticmethod
    def backward(
        dist: Distribution, inputs: tuple[Tensor, ...], saved: tuple[Any, ...],
        grads: tuple[Tensor], wanted: tuple[bool, ...],
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """The gradients of x, k and the scale."""
        from gendr.distributions import triton as distributions
        from gendr.topk.backends.triton import mask_kernels

        (x, _, scale), (b,), (name, numbers) = inputs, saved, _distribution(dist)
        by_x, by_scale, by_k = torch.empty_like(x), torch.empty_like(b), torch.empty_like(b)
        run(
            mask_kernels.mask_back, (len(x),), x.device, x, b, scale, grads[0], by_x, by_scale,
            by_k, *numbers, x.shape[1], PDF=distributions.function(name, "density"),
            **_block(x.shape[1]),
        )  # fmt: skip
        return by_x, by_k, by_scale


class Losses:
    """The kernels of `LOSSES`; forward finds the gradients along with the losses."""

    most = 64  # candidates of a row, in the lanes of a warp

    @staticmethod
    def forward(batch: Any, logits: Tensor, *, save: bool) -> tuple[tuple[Tensor], tuple[Tensor]]:
        """The losses; their gradients are saved."""
        from gendr.distributions import triton as distributions
        from gendr.topk.backends.triton import loss_kernels

        loss, labels, by_row = batch
        (rows, n), method = logits.shape, loss.method
        m = loss._size(n)
        valid = labels.clamp(0, n - 1) if loss.p_k.ndim == 2 else labels
        numbers = loss._weighed(logits.dtype, valid, by_row)
        first, rest, places = (x.contiguous() for x in numbers)
        k = places.shape[-1]
        wires = method.network_of(m, k)[0]
        device = logits.device
        outputs, partners, signs = _lanes(wires, device)
        name, power = name_of(method.distribution), power_of(method.distribution)
        weight = first if loss.weight is None else loss.weight.to(logits.dtype)
        top = logits.detach().topk(m, dim=-1).indices
        scratch = logits.new_empty(rows, 5, *partners.shape)
        out, grads = logits.new_empty(rows), torch.empty_like(logits)
        wrong = labels.new_empty(rows, dtype=torch.int32)
        block = _block(n)
        run(
            loss_kernels.losses, (rows,), device, logits, labels.contiguous(), top, first, rest,
            places, weight, outputs, partners, signs, scratch, out, grads, wrong,
            loss.ignore_index, n, m, k, wires.depth, int(first.ndim > 0), power, LEAST,
            float(method.steepness),
            CDF=distributions.function(name, "tails"), PDF=distributions.function(name, "density"),
            PLAIN=power == 1.0, WEIGHTED=loss.weight is not None, WIRES=partners.shape[1],
            **block | ({} if interpreted() else {"num_warps": 1}),
        )  # fmt: skip
        if loss.check and bool(wrong.any()):
            valid = torch.where(labels == loss.ignore_index, 0, labels)
            check_index("target", valid, n, "classes")
            check_finite("logits", logits)
        return (out,), (grads,)

    @staticmethod
    def backward(
        batch: Any, inputs: tuple[Tensor], saved: tuple[Tensor], grads: tuple[Tensor],
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor]:  # fmt: skip
        """The gradient of the logits."""
        return (saved[0] * grads[0][:, None],)


KERNELS = {"topk.mask": Mask, "topk.losses": Losses}


def _distribution(dist: Distribution) -> tuple[str, tuple[float, ...]]:
    """Its name, and what kernels take of it: sign, shift, shape and its constant."""
    name = kernel_name(type(cast("StandardDistribution", dist.base)))
    sign, shift = -1.0 if dist.is_reversed else 1.0, float(cast("Any", dist.total_shift()))
    return name, (sign, shift, *_shaped(name, float(cast("Any", dist.shape_parameter or 0.0))))


@lru_cache(maxsize=64)
def _shaped(name: str, shape: float) -> tuple[float, float]:
    """The shape of a distribution, and what depends on it alone."""
    from gendr.distributions.triton import parameters

    if not has_shape(functions_of(name)):
        return 0.0, 0.0
    found = parameters(name, torch.tensor(shape, device="cpu"))
    return float(found[0]), float(found[1])


def _block(n: int) -> dict[str, Any]:
    """The constants of a kernel for rows of n numbers, and how it is compiled."""
    block = min(BLOCK, power_of_2(n))
    if interpreted():
        return {"BLOCK": block}
    warps = max(1, block // (32 * _THREAD))
    return {"BLOCK": block, "num_warps": warps, "enable_fp_fusion": True}


@lru_cache(maxsize=64)
@lasting()
def _lanes(wires: Network, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs, largest first, and the partners and signs of the wires; see `loss_kernels`."""
    width = power_of_2(wires.n)
    partners = np.tile(np.arange(width, dtype=np.int32), (wires.depth, 1))
    signs = np.zeros(partners.shape, np.float32)
    layer = np.repeat(np.arange(wires.depth), np.diff(wires.offsets))
    low, high = wires.pairs.T
    partners[layer, low], partners[layer, high] = high, low
    signs[layer, low], signs[layer, high] = 1.0, -1.0
    outputs = np.array(wires.outputs[::-1], np.int32)
    tables = (torch.from_numpy(x).to(device) for x in (outputs, partners, signs))
    return cast("Any", tuple(tables))
