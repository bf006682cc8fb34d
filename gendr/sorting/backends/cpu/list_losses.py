"""Losses of lists on the CPU: checks, masks and the reduction with one kernel; see `LOSSES`."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gendr.kernels.threads import run

_SHARED = 100_000  # with fewer scores, threads cost more than they save
_EVERY = np.empty((0, 0), bool)
_LIKE = {torch.float32: np.empty(0, np.float32), torch.float64: np.empty(0)}


@cache
def _kernel(name: str) -> Any:
    """A kernel; Numba is imported with the first."""
    from gendr.sorting.backends.cpu import loss_kernels

    return getattr(loss_kernels, name)


def forward(
    spec: tuple[Any, str, str], scores: Tensor, target: Tensor, mask: Tensor | None, *, save: bool
) -> tuple[tuple[Tensor], tuple[Any, ...]]:
    """The loss; saved is its gradient, or those of all lists."""
    _, reduction, name = spec
    shape, n = target.shape[:-1], target.shape[-1]
    batch, mean = shape.numel(), reduction == "mean"
    if scores.is_neg() or target.is_neg():  # addresses know no signs
        scores, target = scores.resolve_neg(), target.resolve_neg()
    count = scores.shape[-1] if scores.ndim > target.ndim else 1
    gradient = torch.empty_like(scores) if save else None
    target = target if target.dtype is scores.dtype else target.to(scores.dtype)
    result = np.empty(batch if reduction == "none" else 1, _LIKE[scores.dtype].dtype)
    if scores.numel() < _SHARED:
        kernel = _kernel(f"every_{name}")
        inside = 0 if mask is None else mask.data_ptr()
        slopes = 0 if gradient is None else gradient.data_ptr()
        given = scores.data_ptr(), target.data_ptr(), inside, slopes
        total = kernel(*given, batch, n, count, mean, result)
    else:
        x = scores.numpy().reshape(batch, n, count)
        wanted = target.numpy().reshape(batch, n)
        known = _EVERY if mask is None else mask.numpy().reshape(batch, n)
        grads = x[:0] if gradient is None else gradient.numpy().reshape(batch, n, count)
        found = np.empty((2, batch))
        run(_kernel(name), batch, x, wanted, known, found, grads)
        total = _kernel("add_up")(found, mean, result, grads)
    if not math.isfinite(total):  # the definition tells what is wrong, or that nothing is
        from gendr.sorting.ranking import LOSSES

        LOSSES(None, spec, scores, target, mask)
    # Made by NumPy, as torch would make it on its default device.
    result = torch.from_numpy(result.reshape(shape if reduction == "none" else ()))
    return (result,), (gradient,) if save else ()


def backward(
    spec: tuple[Any, str, str], inputs: tuple[Tensor, Tensor, Tensor | None],
    saved: tuple[Any, ...], grads: tuple[Tensor], wanted: tuple[bool, ...],
) -> tuple[Tensor, None, None]:  # fmt: skip
    """The gradient of the scores."""
    (gradient,), (grad,) = saved, grads
    if grad.ndim > 0:  # of each list
        grad = grad.view(*grad.shape, *[1] * (gradient.ndim - grad.ndim))
    return gradient * grad, None, None
