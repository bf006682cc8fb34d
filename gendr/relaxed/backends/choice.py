"""The choice of the backend of the ready-made algorithms, by device or by name, and its use.

Every algorithm is an operator, whose definition is the torch code of its file. Inputs of kernels
have their batches flattened to one dimension; the last is the steepness, a number or a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from gendr._common.tracing import is_traced
from gendr.distributions.decisions import Number
from gendr.kernels.backends import Choice
from gendr.kernels.operator import Operator
from gendr.relaxed.backends.distributions import KernelDistribution

_MODULES = {
    "cpu": "gendr.relaxed.backends.cpu.backend",
}
_choice = Choice("relaxed", _MODULES, ("cpu", "reference"))


class Task(Protocol):
    """The spec of an algorithm."""

    @property
    def kernel_dist(self) -> KernelDistribution | None:
        """The distribution of its decisions for kernels; None where there can be no kernel."""
        ...


def computed(
    operator: Operator, backend: str, task: Task, *tensors: Tensor, steepness: Number
) -> Any:
    """What an operator gives by the kernels of a backend, or by its definition without any."""
    kernels = _choice.kernels(operator.name, tensors[0], backend)
    kernels = None if task.kernel_dist is None else kernels
    results = operator(kernels, task, *tensors, steepness)
    if not (is_traced() or tensors[0].is_cuda) and math.isfinite(float(tensors[0].detach().sum())):
        return results
    # Minima of kernels drop NaN; where an item of a batch has one, all its results have.
    lost = tensors[0].detach().isnan()
    lengths: Tensor | None = getattr(task, "lengths", None)
    if lengths is not None:  # what lies beyond them does not count
        for dim, length in enumerate(lengths.unbind(1), 1):
            place = torch.arange(lost.shape[dim], device=lost.device).unsqueeze(2 - dim)
            lost = lost & (place < length[:, None, None])
    lost = lost.flatten(1).any(1)
    if not (is_traced() or lost.is_cuda or bool(lost.any())):
        return results
    if isinstance(results, Tensor):
        return _lost(results, lost)
    return tuple(_lost(each, lost) for each in results)


def _lost(result: Tensor, lost: Tensor) -> Tensor:
    return torch.where(lost.reshape(-1, *(1,) * (result.ndim - 1)), torch.nan, result)


def shaped(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """The tensor in this shape; itself if it has it, since a view is a step of autograd."""
    return tensor if tensor.shape == tuple(shape) else tensor.reshape(tuple(shape))
