"""The choice of the backend of the ready-made algorithms, by device or by name, and its use.

Every algorithm is an operator, whose definition is the torch code of its file. Inputs of kernels
have their batches flattened to one dimension; the last is the steepness, a number or a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from gendr._runtime.backends import Choice
from gendr._runtime.operator import Operator
from gendr.distributions.decisions import Number
from gendr.relaxed.backends.laws import KernelLaw

# In the order in which `auto` asks them; the reference, which takes every tensor, is the last.
NAMES = ("cpu", "reference")


def _load(name: str) -> Any:
    if name == "cpu":
        from gendr.relaxed.backends.cpu import backend as module
    else:
        return None
    return module


choose = Choice(_load, NAMES).choose


class Task(Protocol):
    """The spec of an algorithm."""

    @property
    def law(self) -> KernelLaw | None:
        """The law of its decisions for kernels; None where there can be no kernel."""
        ...


def computed(
    operator: Operator, backend: str, task: Task, *tensors: Tensor, steepness: Number
) -> Any:
    """What an operator gives by the kernels of a backend, or by its definition without any."""
    module = choose(backend, tensors[0])
    kernels = None if module is None or task.law is None else module.KERNELS[operator.name]
    return operator(kernels, task, *tensors, steepness)


def shaped(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """The tensor in this shape; itself if it has it, since a view is a step of autograd."""
    return tensor if tensor.shape == tuple(shape) else tensor.reshape(tuple(shape))
