"""The CPU backend of top-k: the membership mask and the loss, compiled at run time by Numba."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from gendr._common.checks import check_finite, check_index
from gendr.distributions import Distribution, StandardDistribution
from gendr.distributions.kernel_functions import kernel_name
from gendr.kernels.numba.compilation import available as available
from gendr.kernels.numba.compilation import supports as supports
from gendr.kernels.threads import run
from gendr.sorting.backends.comparators import name_of, power_of
from gendr.sorting.base import spread_nan
from gendr.sorting.losses import LEAST
from gendr.topk.backends.reference import TOLERANCES, quantile
from gendr.topk.selection import NetworkSelection

_WORTH_THREADS = 1 << 15  # with fewer values, sharing rows among threads costs more than it gains
_MANY_GROUPS = 32  # groups of rows from which on threads share them


class Mask:
    """The kernels of `MASK`."""

    most = math.inf  # numbers of a row

    @staticmethod
    def forward(
        dist: Distribution, x: Tensor, k: Tensor, scale: Tensor, *, save: bool
    ) -> tuple[tuple[Tensor], tuple[Any, ...]]:
        """The mask; its threshold is saved, and the numbers of the distribution."""
        from gendr.distributions.numba import density_address, tails_address
        from gendr.topk.backends.cpu import mask_kernels

        p, b = torch.empty_like(x), torch.empty_like(k)
        name = kernel_name(type(cast("StandardDistribution", dist.base)))
        numbers = (-1.0 if dist.is_reversed else 1.0, float(cast("Any", dist.total_shift())))
        shape = float(cast("Any", dist.shape_parameter or 0.0))
        _share(
            mask_kernels.mask, x, x.numpy(), _column(k), _column(scale),
            _column(quantile(k, x.shape[-1], dist)), TOLERANCES[x.dtype], *numbers,
            tails_address(name), density_address(name), shape, p.numpy(), _column(b),
        )  # fmt: skip
        spread_nan(x.numpy(), p.numpy(), _column(b))
        return (p,), (b, (*numbers, density_address(name), shape))

    @staticmethod
    def backward(
        dist: Distribution, inputs: tuple[Tensor, ...], saved: tuple[Any, ...],
        grads: tuple[Tensor], wanted: tuple[bool, ...],
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """The gradients of x, k and the scale."""
        from gendr.topk.backends.cpu import mask_kernels

        (x, _, scale), (b, numbers) = inputs, saved
        by_x, by_scale, by_k = torch.empty_like(x), torch.empty_like(b), torch.empty_like(b)
        _share(
            mask_kernels.mask_back, x, x.numpy(), _column(b), _column(scale), grads[0].numpy(),
            *numbers, by_x.numpy(), _column(by_scale), _column(by_k),
        )  # fmt: skip
        spread_nan(x.numpy(), by_x.numpy())
        return by_x, by_k, by_scale


def _column(values: Tensor) -> Any:
    """A contiguous [rows, 1] as an array [rows]."""
    return values.view(-1).numpy()


def _share(kernel: Callable[..., None], x: Tensor, *args: Any) -> None:
    """Run a kernel over the rows of x, on all threads if there are many values."""
    run(kernel, len(x), *args, pieces=4, alone=x.numel() < _WORTH_THREADS)


class Losses:
    """The kernels of `LOSSES`; forward finds the gradients along with the losses."""

    most = math.inf  # candidates of a row

    @staticmethod
    def forward(batch: Any, logits: Tensor, *, save: bool) -> tuple[tuple[Tensor], tuple[Tensor]]:
        """The losses; their gradients are saved."""
        from gendr.sorting.backends.cpu.kernels import GROUP
        from gendr.topk.backends.cpu import loss_kernels

        loss, labels, by_row = batch
        method = loss.method
        numbers = (labels.numpy(), *loss._numbers(labels, by_row))
        # Kernels are compiled for contiguous arrays.
        true, first, rest, places = map(np.ascontiguousarray, numbers)
        weight = np.empty(0) if loss.weight is None else loss.weight.double().numpy()
        keys, m = logits.numpy(), loss._size(logits.shape[-1])
        rows, dtype = len(keys), keys.dtype
        groups = -(-rows // GROUP)
        top, grad_top, values = np.empty((3, rows, m), dtype)
        classes, wrong = np.empty((rows, m), np.int64), np.zeros(groups, np.int64)
        out, grads = np.empty(rows, dtype), np.empty_like(keys)
        given = keys, true, loss.ignore_index, first, rest, places, weight
        results = top, classes, grad_top, out, grads, wrong
        shared: dict[str, Any] = {"pieces": 4, "alone": groups < _MANY_GROUPS}
        if isinstance(method, NetworkSelection):
            by, scratch = _network(method, m, places.shape[-1], rows, groups, values)
            numbers = *given, *by, float(method.steepness), LEAST
            run(loss_kernels.losses, groups, *numbers, *scratch, *results, **shared)
        else:
            numbers = *given, method.form, float(method.steepness), LEAST
            run(loss_kernels.row_losses, groups, *numbers, *results, **shared)
        if wrong.any():
            valid = torch.where(labels == loss.ignore_index, 0, labels)
            check_index("target", valid, logits.shape[-1], "classes")
            if loss.check:
                check_finite("logits", logits)
            out[:] = grads[:] = math.nan
        return (torch.from_numpy(out),), (torch.from_numpy(grads),)

    @staticmethod
    def backward(
        batch: Any, inputs: tuple[Tensor], saved: tuple[Tensor], grads: tuple[Tensor],
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor]:  # fmt: skip
        """The gradient of the logits."""
        return (saved[0] * grads[0][:, None],)


def _network(
    method: NetworkSelection, m: int, k: int, rows: int, groups: int, values: np.ndarray
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What the kernel of networks needs of one, and its scratch beside the values."""
    from gendr.distributions.numba import density_address, tails_address
    from gendr.sorting.backends.cpu.kernels import GROUP

    wires, name = method.network_of(m, k)[0], name_of(method.distribution)
    keep, swap, grad_keep = np.empty((3, rows, wires.size), values.dtype)
    differences, swaps = np.empty((2, groups, wires.size * GROUP), values.dtype)
    addresses = tails_address(name), density_address(name)
    outputs = np.array(wires.outputs[::-1])
    by = *wires.for_kernels, outputs, *addresses, power_of(method.distribution)
    return by, ((values, keep, swap, differences, swaps), grad_keep)


KERNELS = {"topk.mask": Mask, "topk.losses": Losses}
