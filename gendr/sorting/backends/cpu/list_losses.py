"""Losses of lists on the CPU: checks, masks and the reduction with one kernel; see `LOSSES`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gendr.kernels.threads import run

_SHARED = 100_000  # with fewer scores, threads cost more than they save
_EVERY = np.empty((0, 0), bool)


def forward(
    spec: tuple[Any, str, str], scores: Tensor, target: Tensor, mask: Tensor | None, *, save: bool
) -> tuple[tuple[Tensor], tuple[Any, ...]]:
    """The loss; saved are the gradients of all lists, and what those are multiplied by."""
    from gendr.sorting.backends.cpu import loss_kernels

    _, reduction, name = spec
    batch, n = target.shape[:-1], target.shape[-1]
    count = scores.shape[-1] if scores.ndim > target.ndim else 1
    gradient = torch.empty_like(scores) if save else scores.new_empty(0)
    target = target if target.dtype is scores.dtype else target.to(scores.dtype)
    x, grads = (t.numpy().reshape(-1, n, count) for t in (scores, gradient))
    wanted = target.numpy().reshape(-1, n)
    known = _EVERY if mask is None else mask.numpy().reshape(-1, n)
    found = np.empty((2, len(x)))
    kernel = getattr(loss_kernels, name)
    run(kernel, len(x), x, wanted, known, found, grads, alone=x.size < _SHARED)
    total, lists = found.sum(1).tolist()
    if not math.isfinite(total):  # the definition tells what is wrong, or that nothing is
        from gendr.sorting.ranking import LOSSES

        LOSSES(None, spec, scores, target, mask)
    weight = 1 / max(1.0, lists) if reduction == "mean" else 1.0
    losses = found[0].reshape(batch) if reduction == "none" else total * weight
    # By NumPy: torch would make it on its default device, and refuse what is beyond float32.
    with np.errstate(over="ignore"):
        result = torch.from_numpy(np.array(losses, x.dtype))
    return (result,), (gradient, weight) if save else ()


def backward(
    spec: tuple[Any, str, str], inputs: tuple[Tensor, Tensor, Tensor | None],
    saved: tuple[Any, ...], grads: tuple[Tensor], wanted: tuple[bool, ...],
) -> tuple[Tensor, None, None]:  # fmt: skip
    """The gradient of the scores."""
    gradient, weight = saved
    (grad,) = grads
    if grad.ndim == 0:  # a list of its own, or a reduction
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = gradient.numpy() * (grad.item() * weight)  # as small ones are faster by NumPy
        return torch.from_numpy(scaled), None, None
    return gradient * grad.view(*grad.shape, *[1] * (gradient.ndim - grad.ndim)), None, None
